//! What netd knows about itself, as one value to print or serve.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub struct Status {
    pub real_time: RealTime,
    /// By name: does it pass?
    pub checks: BTreeMap<String, bool>,
    pub vips: Vec<Vip>,
    pub lb: Vec<Listener>,
    pub members: Vec<Member>,
    pub dns: Option<crate::dns::Status>,
    pub mdns: Option<crate::mdns::Status>,
    /// Parts that could not be started yet, and why.
    pub waiting: BTreeMap<String, String>,
    /// Why the configuration in use is not the one in the file.
    pub reload_problem: Option<String>,
}

impl Status {
    /// Everything that waits for something else to come right.
    pub fn problems(&self) -> Vec<String> {
        let vips = self.vips.iter().filter_map(|vip| {
            let problem = vip.problem.as_ref()?;
            Some(format!("vip {}: {problem}", vip.name))
        });
        let listeners = self.lb.iter().filter_map(|listener| {
            let problem = listener.problem.as_ref()?;
            Some(format!("listener {}: {problem}", listener.name))
        });
        let reload = self.reload_problem.iter();
        let reload = reload.map(|problem| format!("configuration: {problem}"));
        let waiting = self.waiting.iter();
        let waiting = waiting.map(|(part, problem)| format!("{part}: {problem}"));
        vips.chain(listeners).chain(waiting).chain(reload).collect()
    }
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

/// One listener of the balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listener {
    pub name: String,
    pub listen: Vec<SocketAddr>,
    pub listening: bool,
    pub problem: Option<String>,
    pub connections: usize,
    pub accepted: u64,
    /// Connections that found their backend dead and went to another.
    pub retried: u64,
    /// Clients refused for want of room.
    pub refused: u64,
    /// Clients refused for want of a backend.
    pub no_backend: u64,
    pub timed_out: u64,
    /// Connections ended because their backend died.
    pub cut: u64,
    /// Of connections that are over.
    pub bytes_up: u64,
    pub bytes_down: u64,
    pub backends: Vec<Backend>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Backend {
    pub name: String,
    pub address: SocketAddr,
    pub health: String,
    pub why: String,
    /// How long it has been so.
    pub for_ms: u64,
    pub connections: u32,
    pub total: u64,
    pub connect_failures: u64,
}

/// A node this one knows of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Member {
    pub name: String,
    pub addresses: Vec<IpAddr>,
    pub source: String,
    pub age_ms: u64,
    pub control_plane: bool,
}

impl Member {
    pub fn new(member: &crate::members::Member, now: std::time::Instant) -> Self {
        use crate::members::Source;
        Self {
            name: member.name.clone(),
            addresses: member.addresses.clone(),
            source: match member.source {
                Source::Mdns => "mdns",
                Source::Api => "api",
                Source::Static => "static",
            }
            .into(),
            age_ms: now.saturating_duration_since(member.seen).as_millis() as u64,
            control_plane: member.control_plane,
        }
    }
}
