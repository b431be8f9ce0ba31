//! What netd knows about itself, as one value to print or serve.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    pub real_time: RealTime,
    /// By name: does it pass?
    pub checks: BTreeMap<String, bool>,
    pub vips: Vec<Vip>,
}

/// Whether the addresses' thread is on time whatever else runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RealTime {
    NotAsked,
    Granted,
    /// Goes on without, for this reason.
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Vip {
    pub name: String,
    pub address: IpAddr,
    pub id: u8,
    /// Where the address goes, once there is a link for it.
    pub interface: Option<String>,
    pub role: String,
    /// `None` while a required check fails.
    pub priority: Option<u8>,
    /// Whom we follow.
    pub leader: Option<IpAddr>,
    /// The last changes of role, oldest first.
    pub transitions: Vec<Transition>,
    /// The last findings a person should know, oldest first.
    pub reports: Vec<String>,
    /// Packets dropped, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Why nothing goes on at the moment.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Transition {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    pub from: String,
    pub to: String,
    pub why: String,
}
