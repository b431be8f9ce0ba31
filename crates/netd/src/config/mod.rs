//! The configuration file of `plinth netd`: one YAML document, every problem told at once.

pub mod dns;
mod lb;
pub mod mdns;
mod resolve;
mod written;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use model::ConfigError as Error;

pub use lb::{
    FixedMember, Kubernetes, LbBackend, Listener, LookAt, LookKind, MemberSources, MembersFrom,
    Redirect,
};
use protocols::vrrp::router::{Announce, Preempt};
use protocols::vrrp::{Authentication, Priority, Version, VirtualRouterId};

/// Where status and metrics are served unless said otherwise.
pub const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 29445);

/// What will be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub cluster: Option<String>,
    /// Ask for real-time scheduling and locked memory.
    pub real_time: bool,
    /// Where status and metrics are served; `None`: nowhere.
    pub admin: Option<SocketAddr>,
    pub checks: Vec<Check>,
    pub vips: Vec<Vip>,
    pub lb: Vec<Listener>,
    pub members: MemberSources,
    pub dns: Option<dns::Dns>,
    pub mdns: Option<mdns::Mdns>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    pub probe: Probe,
    pub interval: Duration,
    pub timeout: Duration,
    /// Successes in a row that make it pass.
    pub rise: u32,
    /// Failures in a row that make it fail.
    pub fall: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    Http {
        url: String,
        status: u16,
        /// Do not ask who signed the server's certificate.
        insecure: bool,
    },
    Tcp(SocketAddr),
    /// Passes while the file exists.
    File(PathBuf),
    /// Passes when it exits with 0. Never empty.
    Command(Vec<String>),
    /// Passes while the balancer's listener listens, and the backend takes connections if one is named.
    Lb {
        listener: String,
        backend: Option<LbBackend>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vip {
    pub name: String,
    pub address: IpAddr,
    /// Otherwise the one whose subnet holds the address.
    pub interface: Option<String>,
    /// Otherwise the interface's own address.
    pub source: Option<IpAddr>,
    pub id: VirtualRouterId,
    /// Take another id if strangers use this one.
    pub choose_id: bool,
    pub version: Version,
    pub interval: Duration,
    /// Without any check.
    pub base: u8,
    pub preempt: Preempt,
    pub listen: Duration,
    pub swift: bool,
    /// Unicast to these; multicast if there are none.
    pub peers: Vec<IpAddr>,
    pub authentication: Authentication,
    pub announce: Announce,
    pub checks: Vec<VipCheck>,
}

/// What a check means to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VipCheck {
    pub check: String,
    /// Added while it passes; `None`: without it the address must not be held here.
    pub weight: Option<u8>,
}

impl Vip {
    /// True if only priorities or peers differ: what may change while the address is held.
    pub fn is_update_of(&self, other: &Self) -> bool {
        let mut same = self.clone();
        (same.base, same.checks, same.peers) =
            (other.base, other.checks.clone(), other.peers.clone());
        // Unicast and multicast are two different sockets.
        same == *other && self.peers.is_empty() == other.peers.is_empty()
    }

    /// The base and the weights of what passes; `None` if something required does not.
    pub fn priority(&self, passing: &BTreeSet<String>) -> Option<Priority> {
        let mut priority = self.base;
        for check in &self.checks {
            match (passing.contains(&check.check), check.weight) {
                (true, Some(weight)) => priority = priority.saturating_add(weight),
                (true, None) | (false, Some(_)) => {}
                (false, None) => return None,
            }
        }
        Some(Priority(priority.min(254)))
    }
}

/// The JSON schema of the file, for editors and checkers.
pub fn schema() -> serde_json::Value {
    let schema = schemars::schema_for!(written::Written);
    schema.to_value()
}

impl Config {
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let path = path.to_owned();
        match written::parse(text) {
            Err(problem) => Err(Error::Parse { path, problem }),
            Ok(written) => {
                resolve::resolve(&written).map_err(|problems| Error::Problems { path, problems })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Error> {
        Config::parse(text, Path::new("netd.yaml"))
    }

    const SMALL: &str = "
cluster: mycluster
checks:
  - {name: lb, http: {url: 'http://127.0.0.1:9444/ready'}, interval_ms: 50, timeout_ms: 40}
  - {name: up, file: /run/up}
vips:
  - {name: api, address: 192.0.2.5, priority: 40, checks: [{check: lb, weight: 20}, {check: up}]}
";

    #[test]
    fn a_small_file_is_enough() {
        let config = parse(SMALL).unwrap();
        let vip = &config.vips[0];
        assert_eq!((vip.id.get(), vip.version), (74, Version::V3));
        assert_eq!(vip.interval, Duration::from_millis(40));
        assert!(vip.swift && vip.peers.is_empty() && config.real_time);
    }

    #[test]
    fn the_priority_is_the_base_and_the_weights_of_what_passes() {
        let vip = &parse(SMALL).unwrap().vips[0];
        for (passing, priority) in [
            (&["lb", "up"][..], Some(60)),
            (&["up"], Some(40)),
            (&["lb"], None),
            (&[], None),
        ] {
            let names = passing.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(vip.priority(&names), priority.map(Priority), "{passing:?}");
        }
    }

    #[test]
    fn every_problem_is_told_at_once_with_its_path() {
        let text = "
checks:
  - {name: a, tcp: nowhere, interval_ms: 0, rise: 0}
  - {name: a, file: /x, command: [true]}
  - {name: b}
  - {name: c, http: {url: 'ftp://x'}}
vips:
  - {name: api, address: 192.0.2.300, priority: 0}
  - {name: v6, address: '2001:db8::1', id: 300, version: 2, advertise_ms: 40, peers: [192.0.2.1]}
  - {name: in, address: 192.0.2.9, id: 7, advertise_ms: 15, priority: 200, checks: [{check: no}, {check: b, weight: 100}]}
  - {name: in, address: 192.0.2.9, id: 7, version: 4, auth: x}
";
        let Err(Error::Problems { problems, .. }) = parse(text) else {
            panic!("it is full of problems")
        };
        insta::assert_snapshot!(problems.join("\n"));
    }

    #[test]
    fn every_problem_of_the_balancer_is_told_at_once() {
        let text = "
checks:
  - {name: a, lb: {listener: nobody, backend: there}}
lb:
  - {name: x, listen: [here], vip: none, check: {}, tries: 0, max_connections: 0}
  - {name: x, listen: ['192.0.2.5:1'], backends: [{name: b, address: '192.0.2.5:1'}], check: {https: readyz, tcp: true}}
  - {name: y, listen: [], members: {port: 0}, redirect: {addresses: [], port: 70000}}
members: {static: [{name: '', addresses: [no]}], kubernetes: {url: 'ftp://x', interval_ms: 1}}
admin: nowhere
";
        let Err(Error::Problems { problems, .. }) = parse(text) else {
            panic!("it is full of problems")
        };
        insta::assert_snapshot!(problems.join("\n"));
    }

    #[test]
    fn the_schema_knows_every_part_and_refuses_others() {
        let schema = schema();
        let parts: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        let expected = [
            "admin",
            "checks",
            "cluster",
            "dns",
            "lb",
            "mdns",
            "members",
            "real_time",
            "vips",
        ];
        assert_eq!(parts, expected);
        assert_eq!(schema["additionalProperties"], false);
        assert!(schema["$defs"]["Listener"]["properties"]["proxy_protocol"].is_object());
    }

    #[test]
    fn only_priorities_and_peers_change_while_the_address_stays() {
        let vip = parse(SMALL).unwrap().vips[0].clone();
        let mut update = vip.clone();
        update.base = 77;
        assert!(update.is_update_of(&vip));
        update.address = "192.0.2.6".parse().unwrap();
        assert!(!update.is_update_of(&vip));
    }

    #[test]
    fn an_unknown_key_and_an_empty_file_are_refused_without_quoting_the_file() {
        for text in [
            "vipz: [] # hunter2",
            "",
            "null",
            "vips: [hunter2",
            "vips: [{nope: 1}]",
        ] {
            let error = parse(text).unwrap_err().to_string();
            let said = error.starts_with("netd.yaml is not a configuration");
            assert!(said && !error.contains("hunter2"), "{text}: {error}");
        }
    }
}
