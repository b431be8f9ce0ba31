//! The names of a cluster: its API, its applications, its nodes.
//!
//! ```text
//!   api.D  api-int.D         the API's virtual addresses
//!   *.apps.D                 the ingress's
//!   <node>.D  <node>         the nodes
//!   _etcd-server-ssl._tcp.D  SRV, where etcd is
//!   reverse names            of all of these
//! ```
//!
//! Every set of records is kept as the bytes that go out; an answer is three copies.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::reply::{self, Transport};
use super::wire::{IN, Question, Rcode, WireName, kind};

/// CoreDNS's template and mDNS plugins as OpenShift configures them: TTL 60, and 0 for SRV.
const TTL: u32 = 60;
const SRV_TTL: u32 = 0;
const SRV_WEIGHT: u16 = 10;
const ETCD_PORT: u16 = 2380;
/// More records of one name do not help anybody.
const MAX_SET: usize = 64;
/// Owner of every record: the name in the question.
const ASKED: [u8; 2] = [0xc0, 0x0c];

/// What the names mean at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    pub domain: String,
    pub api: Vec<IpAddr>,
    pub ingress: Vec<IpAddr>,
    pub nodes: Vec<Node>,
    /// Fewer etcd members than this are not told of (a bootstrap waits for all masters).
    pub etcd_minimum: usize,
    /// Other names in the domain do not exist. Otherwise upstream knows them.
    pub authoritative: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub addresses: Vec<IpAddr>,
    pub etcd: bool,
}

/// Looks names up. Made anew when the cluster changes.
#[derive(Debug, Clone)]
pub struct Names {
    domain: WireName,
    apps: WireName,
    authoritative: bool,
    exact: BTreeMap<Box<[u8]>, Sets>,
    wild: Sets,
    soa: Set,
}

type Sets = BTreeMap<u16, Set>;

#[derive(Debug, Clone, Default)]
struct Set {
    count: u16,
    records: Vec<u8>,
}

/// Whether a question was for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Local {
    Answered,
    /// Someone else may know.
    Elsewhere,
    /// In our domain, but not one of our names: nobody else knows, if there is nobody to ask.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a domain name")]
pub struct BadDomain(pub String);

impl Names {
    /// Nodes whose name is no name are left out.
    pub fn new(cluster: &Cluster) -> Result<Self, BadDomain> {
        let bad = || BadDomain(cluster.domain.clone());
        let domain = WireName::from_text(&cluster.domain).ok_or_else(bad)?;
        let under = |label: &str| WireName::from_text(&format!("{label}.{domain}"));
        let mut names = Self {
            domain,
            apps: under("apps").ok_or_else(bad)?,
            authoritative: cluster.authoritative,
            exact: BTreeMap::new(),
            wild: addresses(&cluster.ingress),
            soa: soa(&domain).ok_or_else(bad)?,
        };
        names.add_nodes(cluster);
        for label in ["api", "api-int"] {
            let name = under(label).ok_or_else(bad)?;
            names
                .exact
                .insert(name.as_slice().into(), addresses(&cluster.api));
        }
        let reverse = [("api", &cluster.api), ("ingress.apps", &cluster.ingress)];
        for (label, vips) in reverse {
            let target = under(label).ok_or_else(bad)?;
            for vip in vips {
                names.add_reverse(*vip, &target);
            }
        }
        if cluster.authoritative {
            names.add_apex(cluster);
        }
        Ok(names)
    }

    /// Writes the answer, if the name is ours.
    pub fn answer(
        &self,
        query: &[u8],
        question: &Question,
        transport: Transport,
        out: &mut Vec<u8>,
    ) -> Local {
        let refuse = |rcode, out: &mut Vec<u8>| {
            reply::refuse(query, question, rcode, transport, out);
            Local::Answered
        };
        if question.edns.is_some_and(|edns| edns.version > 0) {
            return refuse(Rcode::BadVers, out);
        }
        if question.class != IN || matches!(question.kind, kind::AXFR | kind::IXFR) {
            return refuse(Rcode::Refused, out);
        }
        let name = question.name.as_slice();
        let sets = match self.exact.get(name) {
            Some(sets) => Some(sets),
            None if self.is_app(name) => Some(&self.wild),
            None => None,
        };
        if let Some(sets) = sets {
            self.write(query, question, sets, transport, out);
            return Local::Answered;
        }
        let inside = WireName::is_in(name, self.domain.as_slice());
        if inside && self.authoritative {
            self.write_unknown(query, question, transport, out);
            return Local::Answered;
        }
        if question.kind == kind::ANY {
            write_hinfo(query, question, transport, out);
            return Local::Answered;
        }
        if inside {
            Local::Unknown
        } else {
            Local::Elsewhere
        }
    }

    /// The answer to an unknown name of the domain when there is nobody to ask.
    pub fn write_unknown(
        &self,
        query: &[u8],
        question: &Question,
        transport: Transport,
        out: &mut Vec<u8>,
    ) {
        let name = question.name.as_slice();
        // A name with names under it exists (RFC 8020).
        let exists = name == self.domain.as_slice()
            || name == self.apps.as_slice()
            || self.exact.keys().any(|known| WireName::is_in(known, name));
        let rcode = if exists {
            Rcode::NoError
        } else {
            Rcode::NxDomain
        };
        reply::begin(query, question, rcode.code(), reply::OWN, out);
        out.extend_from_slice(&self.soa.records);
        reply::finish(question, rcode.code(), transport, [0, 1, 0], out);
    }

    fn is_app(&self, name: &[u8]) -> bool {
        WireName::is_in(name, self.apps.as_slice()) && name.len() > self.apps.as_slice().len()
    }

    fn write(
        &self,
        query: &[u8],
        question: &Question,
        sets: &Sets,
        transport: Transport,
        out: &mut Vec<u8>,
    ) {
        reply::begin(query, question, 0, reply::OWN, out);
        let mut count = 0;
        for (kind, set) in sets {
            if *kind == question.kind || question.kind == kind::ANY {
                out.extend_from_slice(&set.records);
                count += set.count;
            }
        }
        let inside = WireName::is_in(question.name.as_slice(), self.domain.as_slice());
        let counts = if count == 0 && inside {
            out.extend_from_slice(&self.soa.records);
            [0, 1, 0]
        } else {
            [count, 0, 0]
        };
        reply::finish(question, 0, transport, counts, out);
    }

    fn add_nodes(&mut self, cluster: &Cluster) {
        let mut etcd = Set::default();
        let domain = self.domain;
        for node in &cluster.nodes {
            let lower = node.name.trim_end_matches('.').to_ascii_lowercase();
            let own = format!(".{}", domain.to_string().trim_end_matches('.'));
            let short = lower.strip_suffix(&own).unwrap_or(&lower);
            let short = short.split('.').next().unwrap_or(short);
            let names = (
                WireName::from_text(short),
                WireName::from_text(&format!("{short}.{domain}")),
            );
            let (Some(short), Some(full)) = names else {
                continue;
            };
            for name in [&short, &full] {
                let sets = self.exact.entry(name.as_slice().into()).or_default();
                add_addresses(sets, &node.addresses);
            }
            for address in &node.addresses {
                self.add_reverse(*address, &full);
            }
            if node.etcd {
                let mut data = Vec::new();
                for word in [0, SRV_WEIGHT, ETCD_PORT] {
                    data.extend(word.to_be_bytes());
                }
                data.extend_from_slice(full.as_slice());
                etcd.add(kind::SRV, SRV_TTL, &data);
            }
        }
        let service = WireName::from_text(&format!("_etcd-server-ssl._tcp.{domain}"));
        if let Some(service) = service
            && etcd.count > 0
            && usize::from(etcd.count) >= cluster.etcd_minimum
        {
            let sets = Sets::from([(kind::SRV, etcd)]);
            self.exact.insert(service.as_slice().into(), sets);
        }
    }

    fn add_reverse(&mut self, address: IpAddr, target: &WireName) {
        if let Some(name) = WireName::from_text(&reverse_of(address)) {
            let sets = self.exact.entry(name.as_slice().into()).or_default();
            let set = sets.entry(kind::PTR).or_default();
            // The first name an address has is the one it is called by.
            if set.count == 0 {
                set.add(kind::PTR, TTL, target.as_slice());
            }
        }
    }

    fn add_apex(&mut self, cluster: &Cluster) {
        let mut set = Set::default();
        let server = WireName::from_text(&format!("api-int.{}", cluster.domain));
        if let Some(server) = server {
            set.add(kind::NS, TTL, server.as_slice());
        }
        let mut soa = Set::default();
        // The SOA set names its owner; as an answer its owner is the name asked for.
        let data_at = self.domain.as_slice().len() + 10;
        soa.add(
            kind::SOA,
            TTL,
            self.soa.records.get(data_at..).unwrap_or_default(),
        );
        let sets = Sets::from([(kind::NS, set), (kind::SOA, soa)]);
        self.exact.insert(self.domain.as_slice().into(), sets);
    }
}

impl Set {
    fn add(&mut self, kind: u16, ttl: u32, data: &[u8]) {
        if usize::from(self.count) < MAX_SET {
            self.count += 1;
            append(&mut self.records, &ASKED, kind, ttl, data);
        }
    }
}

fn append(out: &mut Vec<u8>, owner: &[u8], kind: u16, ttl: u32, data: &[u8]) {
    out.extend_from_slice(owner);
    out.extend(kind.to_be_bytes());
    out.extend(IN.to_be_bytes());
    out.extend(ttl.to_be_bytes());
    out.extend((data.len() as u16).to_be_bytes());
    out.extend_from_slice(data);
}

fn addresses(list: &[IpAddr]) -> Sets {
    let mut sets = Sets::new();
    add_addresses(&mut sets, list);
    sets
}

fn add_addresses(sets: &mut Sets, list: &[IpAddr]) {
    for address in list {
        match address {
            IpAddr::V4(v4) => sets
                .entry(kind::A)
                .or_default()
                .add(kind::A, TTL, &v4.octets()),
            IpAddr::V6(v6) => {
                sets.entry(kind::AAAA)
                    .or_default()
                    .add(kind::AAAA, TTL, &v6.octets());
            }
        }
    }
}

/// Sent with every "no", so that it can be remembered for a while (RFC 2308).
fn soa(domain: &WireName) -> Option<Set> {
    let server = WireName::from_text(&format!("api-int.{domain}"))?;
    let mailbox = WireName::from_text(&format!("hostmaster.{domain}"))?;
    let mut data = [server.as_slice(), mailbox.as_slice()].concat();
    for number in [1, 3600, 600, 86400, TTL] {
        data.extend(number.to_be_bytes());
    }
    let mut records = Vec::new();
    append(&mut records, domain.as_slice(), kind::SOA, TTL, &data);
    Some(Set { count: 1, records })
}

/// "Everything" of a name that is not ours: one small record instead (RFC 8482, 4.2).
fn write_hinfo(query: &[u8], question: &Question, transport: Transport, out: &mut Vec<u8>) {
    reply::begin(query, question, 0, 0, out);
    append(out, &ASKED, kind::HINFO, 3600, b"\x07RFC8482\0");
    reply::finish(question, 0, transport, [1, 0, 0], out);
}

/// The name whose PTR record names the address (RFC 1035, 3.5; RFC 3596, 2.5).
fn reverse_of(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => super::reverse_name(v4),
        IpAddr::V6(v6) => {
            let mut name = String::with_capacity(72);
            for byte in v6.octets().iter().rev() {
                for nibble in [byte & 0xf, byte >> 4] {
                    name.extend(char::from_digit(u32::from(nibble), 16));
                    name.push('.');
                }
            }
            name + "ip6.arpa."
        }
    }
}

#[cfg(test)]
mod tests;
