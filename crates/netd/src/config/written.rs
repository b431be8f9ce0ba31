//! The file as people write it.

use schemars::JsonSchema;
use serde::Deserialize;

pub use super::lb::{LbCheck, Members, WrittenListener as Listener};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Written {
    /// Gives the virtual router ids of `api` and `ingress`.
    pub cluster: Option<String>,
    pub real_time: bool,
    /// Where status and metrics are served; empty: nowhere.
    pub admin: String,
    pub checks: Vec<Check>,
    pub vips: Vec<Vip>,
    pub lb: Vec<Listener>,
    pub members: Members,
    /// Names of the cluster, and everything else from elsewhere.
    pub dns: Option<super::dns::Written>,
    /// Says who this node is on the link, and hears who else is there.
    pub mdns: Option<super::mdns::Written>,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            cluster: None,
            real_time: true,
            admin: super::ADMIN.to_string(),
            checks: Vec::new(),
            vips: Vec::new(),
            lb: Vec::new(),
            members: Members::default(),
            dns: None,
            mdns: None,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub name: String,
    pub http: Option<Http>,
    pub tcp: Option<String>,
    pub file: Option<String>,
    pub command: Option<Vec<String>>,
    pub lb: Option<LbCheck>,
    #[serde(default = "hundred")]
    pub interval_ms: i64,
    #[serde(default = "hundred")]
    pub timeout_ms: i64,
    #[serde(default = "two")]
    pub rise: i64,
    #[serde(default = "two")]
    pub fall: i64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub url: String,
    #[serde(default = "ok")]
    pub status: i64,
    #[serde(default)]
    pub insecure: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vip {
    pub name: String,
    pub address: String,
    pub interface: Option<String>,
    pub source: Option<String>,
    /// A number, or `auto`: that of the cluster, or the next one that no stranger uses.
    pub id: Option<Id>,
    #[serde(default = "three")]
    pub version: i64,
    /// 40 in version 3, 1000 in version 2.
    pub advertise_ms: Option<i64>,
    #[serde(default = "hundred")]
    pub priority: i64,
    #[serde(default = "yes")]
    pub preempt: bool,
    #[serde(default)]
    pub preempt_delay_ms: i64,
    #[serde(default = "thousand")]
    pub listen_ms: i64,
    /// Yes in version 3, no in version 2.
    pub swift: Option<bool>,
    #[serde(default)]
    pub peers: Vec<String>,
    pub auth: Option<String>,
    #[serde(default)]
    pub announce: Announce,
    #[serde(default)]
    pub checks: Vec<VipCheck>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(untagged)]
pub enum Id {
    Number(i64),
    Auto(Auto),
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub enum Auto {
    Auto,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Announce {
    pub burst: i64,
    pub gap_ms: i64,
    pub refresh_ms: i64,
}

impl Default for Announce {
    fn default() -> Self {
        Self {
            burst: 20,
            gap_ms: 100,
            refresh_ms: 1000,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VipCheck {
    pub check: String,
    pub weight: Option<i64>,
}

fn yes() -> bool {
    true
}

fn two() -> i64 {
    2
}

fn three() -> i64 {
    3
}

fn hundred() -> i64 {
    100
}

fn thousand() -> i64 {
    1000
}

fn ok() -> i64 {
    200
}

/// Reads the document, or says what is wrong with it and where. Never quotes it: a file may hold secrets.
pub fn parse(text: &str) -> Result<Written, String> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    match serde_saphyr::from_str_with_options::<Option<Written>>(text, options) {
        Ok(Some(written)) => Ok(written),
        Ok(None) => Err("it is empty; write at least vips: [{name: ..., address: ...}]".into()),
        Err(error) => Err(error.without_snippet().to_string()),
    }
}
