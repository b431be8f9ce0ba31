//! The configuration file of `plinth netd`: one YAML document, every problem told at once.

mod resolve;
mod written;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocols::vrrp::router::{Announce, Preempt};
use protocols::vrrp::{Authentication, Priority, Version, VirtualRouterId};

/// What will be used.
#[derive(Debug, Clone)]
pub struct Config {
    /// Ask for real-time scheduling and locked memory.
    pub real_time: bool,
    pub checks: Vec<Check>,
    pub vips: Vec<Vip>,
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

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} is not a configuration: {problem}")]
    Parse { path: PathBuf, problem: String },
    #[error("{path} has {} {}:\n  {}", problems.len(), if problems.len() == 1 { "problem" } else { "problems" }, problems.join("\n  "))]
    Problems {
        path: PathBuf,
        problems: Vec<String>,
    },
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
