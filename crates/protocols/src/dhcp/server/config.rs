//! What the site decides: the subnet, the pool, who is known, how long leases last, what clients are told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::Ipv4Net;
use model::Mac;

use super::boot::Boot;
use crate::dhcp::request::hostname;

/// Addresses one server may manage: the table of bindings is never larger than this.
pub const MAX_ADDRESSES: usize = 1 << 16;

/// How one server serves one subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Our address on the subnet; clients renew there.
    pub server_id: Ipv4Addr,
    pub subnet: Ipv4Net,
    /// Ranges given out to clients without a fixed address.
    pub pools: Vec<RangeInclusive<Ipv4Addr>>,
    pub times: Times,
    /// What every client is told.
    pub options: Options,
    /// What is known of single clients.
    pub known: BTreeMap<Mac, Known>,
    /// Answer known clients only.
    pub known_only: bool,
    /// We are the only server here: a client with a lease we do not know is told so at once.
    pub authoritative: bool,
    pub identity: Identity,
    /// Boot files, where clients boot from us.
    pub boot: Boot,
    /// Ask the wire whether an address is in use before it is offered for the first time.
    pub probe: bool,
    pub role: Role,
}

impl Config {
    /// A server for `subnet` that tells nothing but addresses.
    pub fn new(server_id: Ipv4Addr, subnet: Ipv4Net, pools: Vec<RangeInclusive<Ipv4Addr>>) -> Self {
        Self {
            server_id,
            subnet,
            pools,
            times: Times::default(),
            options: Options::default(),
            known: BTreeMap::new(),
            known_only: false,
            authoritative: true,
            identity: Identity::ClientId,
            boot: Boot::None,
            probe: true,
            role: Role::Addresses,
        }
    }

    /// Everything wrong with it, at once.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        if !self.subnet.contains(&self.server_id) {
            problems.push(format!(
                "server address {} is not in {}",
                self.server_id, self.subnet
            ));
        }
        let mut size = 0usize;
        for pool in &self.pools {
            if pool.is_empty() {
                problems.push(format!(
                    "pool {}-{} is empty; write the lower address first",
                    pool.start(),
                    pool.end()
                ));
                continue;
            }
            if !self.subnet.contains(pool.start()) || !self.subnet.contains(pool.end()) {
                problems.push(format!(
                    "pool {}-{} is not in {}",
                    pool.start(),
                    pool.end(),
                    self.subnet
                ));
            }
            size = size
                .saturating_add((u32::from(*pool.end()) - u32::from(*pool.start())) as usize + 1);
        }
        if size > MAX_ADDRESSES {
            problems.push(format!(
                "the pools hold {size} addresses; at most {MAX_ADDRESSES} can be served"
            ));
        }
        problems.extend(raw_problems("options", &self.options.raw));
        let mut fixed = BTreeSet::new();
        for (mac, known) in &self.known {
            problems.extend(raw_problems(&mac.to_string(), &known.raw));
            if let Some(name) = known
                .hostname
                .as_ref()
                .filter(|name| hostname(name).as_ref() != Some(name))
            {
                problems.push(format!(
                    "{mac}: {name:?} is not a host name; use lower-case letters, digits and dashes"
                ));
            }
            let Some(address) = known.address else {
                continue;
            };
            if !self.subnet.contains(&address) {
                problems.push(format!(
                    "{mac}: address {address} is not in {}",
                    self.subnet
                ));
            }
            if address == self.server_id {
                problems.push(format!("{mac}: address {address} is the server's own"));
            }
            if !fixed.insert(address) {
                problems.push(format!(
                    "{mac}: address {address} is given to another client too"
                ));
            }
        }
        if self.times.default.is_zero() || self.times.default > self.times.max {
            problems.push("the default lease time is zero or above the maximum".to_owned());
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError { problems })
        }
    }

    /// Addresses of known clients.
    pub(super) fn fixed(&self) -> BTreeMap<Ipv4Addr, Mac> {
        self.known
            .iter()
            .filter_map(|(mac, known)| Some((known.address?, *mac)))
            .collect()
    }

    /// Addresses of the pools that may be given to anyone.
    pub(super) fn pool(&self) -> BTreeSet<Ipv4Addr> {
        let fixed: BTreeSet<_> = self
            .known
            .values()
            .filter_map(|known| known.address)
            .collect();
        let reserved = [
            self.server_id,
            self.subnet.network(),
            self.subnet.broadcast(),
        ];
        let all = self
            .pools
            .iter()
            .flat_map(|pool| u32::from(*pool.start())..=u32::from(*pool.end()));
        all.map(Ipv4Addr::from)
            .filter(|address| !fixed.contains(address) && !reserved.contains(address))
            .collect()
    }
}

/// Options that the protocol itself needs cannot be written by hand.
fn raw_problems(who: &str, raw: &BTreeMap<u8, Vec<u8>>) -> Vec<String> {
    let wrong = raw
        .iter()
        .filter(|(code, data)| matches!(code, 0 | 50..=54 | 58 | 59 | 82 | 255) || data.is_empty());
    let problem = |(code, _)| format!("{who}: option {code} cannot be set, or is empty");
    wrong.map(problem).collect()
}

/// Why a configuration cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.join("; "))]
pub struct ConfigError {
    pub problems: Vec<String>,
}

/// How long things last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// A lease, when the client asks for no time.
    pub default: Duration,
    /// The longest lease a client can ask for.
    pub max: Duration,
    /// An offered address is kept for its client.
    pub offer: Duration,
    /// An address found in use, or declined, is left alone.
    pub quarantine: Duration,
    /// The wire has this long to say that an address is in use. A host on the same link answers ARP well within a
    /// millisecond; the rest is for loaded machines. Nobody else waits meanwhile.
    pub probe: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            default: Duration::from_hours(1),
            max: Duration::from_hours(24),
            offer: Duration::from_mins(1),
            quarantine: Duration::from_mins(10),
            probe: Duration::from_millis(50),
        }
    }
}

/// What a client is told beside its address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    pub router: Option<Ipv4Addr>,
    pub dns: Vec<Ipv4Addr>,
    pub domain: Option<String>,
    pub ntp: Vec<Ipv4Addr>,
    pub mtu: Option<u16>,
    /// Any other option by code, as on the wire; sent whether asked for or not.
    pub raw: BTreeMap<u8, Vec<u8>>,
}

/// What is known of one client beforehand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    pub hostname: Option<String>,
    /// Its address, always; nobody else gets it.
    pub address: Option<Ipv4Addr>,
    /// Its own boot files instead of everyone's.
    pub boot: Option<Boot>,
    /// Options of its own, by code; they win over everyone's.
    pub raw: BTreeMap<u8, Vec<u8>>,
}

/// What a server is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Addresses, and what to boot with them.
    Addresses,
    /// ProxyDHCP: what to boot, beside another server that gives addresses.
    BootFiles,
}

/// By what a client is the same client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// Its identifier where it sends one (RFC 2131, 4.2), else its MAC.
    ///
    /// DEVIATION: a known client is its MAC either way: ROM, iPXE and operating system send different identifiers,
    /// and one server should not use three addresses while it boots.
    ClientId,
    /// Its MAC, whatever else it sends.
    Mac,
}
