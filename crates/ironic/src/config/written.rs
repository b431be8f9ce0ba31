//! The file as it is written.

use lifecycle::node::{PowerPolicy, Timers};
use serde::Deserialize;

use super::{Delays, Deploy, Patience};

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Written {
    pub listen: String,
    pub tls: Option<Tls>,
    pub auth: Auth,
    pub public_endpoint: Option<String>,
    pub state: String,
    pub host: String,
    pub conductor_group: String,
    pub max_limit: i64,
    pub ramdisk_endpoints: bool,
    pub max_concurrent_deploy: i64,
    pub max_concurrent_clean: i64,
    pub automated_clean: bool,
    pub fast_track: bool,
    pub kexec: bool,
    pub fake: Delays,
    pub bmc: Patience,
    pub deploy: Deploy,
    pub boot: Option<super::boot::Written>,
    pub timers: Timers,
    pub power_sync: PowerPolicy,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            listen: "[::]:6385".into(),
            tls: None,
            auth: Auth::Word("none".into()),
            public_endpoint: None,
            state: "/var/lib/plinth/ironic/ironic.redb".into(),
            host: "plinth".into(),
            conductor_group: String::new(),
            max_limit: 1000,
            ramdisk_endpoints: true,
            max_concurrent_deploy: 250,
            max_concurrent_clean: 50,
            automated_clean: true,
            fast_track: false,
            kexec: false,
            fake: Delays::default(),
            bmc: Patience::default(),
            deploy: Deploy::default(),
            boot: None,
            timers: Timers::default(),
            power_sync: PowerPolicy::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    pub certificate: String,
    pub key: String,
    pub ca: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub enum Auth {
    Word(String),
    Basic(Basic),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Basic {
    pub htpasswd: String,
}

/// Reads the document, or says what is wrong with it and where. Never quotes it: a file may hold secrets.
pub fn parse(text: &str) -> Result<Written, String> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    match serde_saphyr::from_str_with_options::<Option<Written>>(text, options) {
        Ok(Some(written)) => Ok(written),
        Ok(None) => Err("it is empty; write {} for all defaults".into()),
        Err(error) => Err(error.without_snippet().to_string()),
    }
}
