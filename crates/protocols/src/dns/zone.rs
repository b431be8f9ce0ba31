//! A zone: the names a site knows for certain (RFC 1034, 4.3.2).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, PTR, SOA};
use hickory_proto::rr::{LowerName, Name, RData, Record, RecordType};
use ipnet::Ipv4Net;

/// How many aliases are followed.
const MAX_ALIASES: usize = 8;
/// Names come and go with leases.
const TTL: u32 = 30;

/// A text that is not a domain name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a domain name")]
pub struct NameError(String);

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(String),
    Ptr(String),
}

impl From<IpAddr> for Data {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::A(address),
            IpAddr::V6(address) => Self::Aaaa(address),
        }
    }
}

/// All names under one origin.
#[derive(Debug, Clone)]
pub struct Zone {
    origin: Name,
    nodes: BTreeMap<LowerName, BTreeMap<RecordType, Vec<RData>>>,
    soa: Record,
}

/// What a zone says to a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Found {
    /// Records, an alias first if there is one.
    Records(Vec<Record>),
    /// An alias that leads out of the zone: the records so far.
    Elsewhere(Vec<Record>),
    /// The name exists, but not with this type; aliases that led to it.
    NoData(Vec<Record>),
    NoName(Vec<Record>),
}

impl Zone {
    /// An empty zone, answered for by `server` (a label in it).
    pub fn new(origin: &str, server: &str) -> Result<Self, NameError> {
        let origin = name(origin)?;
        let server = name(server)?;
        let mailbox = origin
            .prepend_label("hostmaster")
            .map_err(|_| NameError(origin.to_ascii()))?;
        let soa = RData::SOA(SOA::new(server.clone(), mailbox, 1, 3600, 600, 86400, TTL));
        let mut zone = Self {
            soa: Record::from_rdata(origin.clone(), TTL, soa.clone()),
            origin: origin.clone(),
            nodes: BTreeMap::new(),
        };
        zone.put(&origin, soa);
        zone.put(&origin, RData::NS(NS(server)));
        Ok(zone)
    }

    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// Adds a record; `*` as first label stands for every name that is not there.
    pub fn insert(&mut self, at: &str, data: &Data) -> Result<(), NameError> {
        let rdata = match data {
            Data::A(address) => RData::A(A(*address)),
            Data::Aaaa(address) => RData::AAAA(AAAA(*address)),
            Data::Cname(target) => RData::CNAME(CNAME(name(target)?)),
            Data::Ptr(target) => RData::PTR(PTR(name(target)?)),
        };
        let at = name(at)?;
        if !self.origin.zone_of(&at) {
            return Err(NameError(at.to_ascii()));
        }
        self.put(&at, rdata);
        Ok(())
    }

    /// Takes a name's IPv4 address away.
    pub fn remove_address(&mut self, at: &str) {
        self.remove(at, RecordType::A);
    }

    /// Takes an address's name away.
    pub fn remove_pointer(&mut self, at: &str) {
        self.remove(at, RecordType::PTR);
    }

    fn remove(&mut self, at: &str, kind: RecordType) {
        let Ok(at) = name(at) else { return };
        let key = LowerName::new(&at);
        if let Some(node) = self.nodes.get_mut(&key) {
            node.remove(&kind);
            if node.is_empty() {
                self.nodes.remove(&key);
            }
        }
    }

    fn put(&mut self, at: &Name, data: RData) {
        let records = self
            .nodes
            .entry(LowerName::new(at))
            .or_default()
            .entry(data.record_type())
            .or_default();
        if !records.contains(&data) {
            records.push(data);
        }
    }

    pub(super) fn contains(&self, name: &Name) -> bool {
        self.origin.zone_of(name)
    }

    /// Sent with every "no", so that it can be remembered for a while (RFC 2308).
    pub(super) fn soa(&self) -> Record {
        self.soa.clone()
    }

    pub(super) fn find(&self, asked: &Name, kind: RecordType) -> Found {
        let mut records = Vec::new();
        let mut at = asked.clone();
        for _ in 0..MAX_ALIASES {
            let Some(node) = self.node(&at) else {
                return Found::NoName(records);
            };
            if let Some(RData::CNAME(CNAME(target))) = node
                .get(&RecordType::CNAME)
                .and_then(|aliases| aliases.first())
                && kind != RecordType::CNAME
            {
                records.push(Record::from_rdata(
                    at,
                    TTL,
                    RData::CNAME(CNAME(target.clone())),
                ));
                at = target.clone();
                if !self.contains(&at) {
                    return Found::Elsewhere(records);
                }
                continue;
            }
            let matching = node
                .iter()
                .filter(|(have, _)| kind == RecordType::ANY || **have == kind);
            let before = records.len();
            records.extend(
                matching
                    .flat_map(|(_, data)| data)
                    .map(|data| Record::from_rdata(at.clone(), TTL, data.clone())),
            );
            return if records.len() == before {
                Found::NoData(records)
            } else {
                Found::Records(records)
            };
        }
        Found::Records(records)
    }

    /// What is at a name, or would be there by a wildcard. None if the name does not exist.
    fn node(&self, at: &Name) -> Option<BTreeMap<RecordType, Vec<RData>>> {
        let key = LowerName::new(at);
        if let Some(node) = self.nodes.get(&key) {
            return Some(node.clone());
        }
        if self.has_below(&key) {
            return Some(BTreeMap::new());
        }
        let mut above = at.base_name();
        while self.contains(&above) {
            if let Ok(star) = above.prepend_label("*")
                && let Some(node) = self.nodes.get(&LowerName::new(&star))
            {
                return Some(node.clone());
            }
            // A wildcard does not reach past a name that exists (RFC 4592, 3.3.1).
            let key = LowerName::new(&above);
            if self.nodes.contains_key(&key) || self.has_below(&key) || above.is_root() {
                return None;
            }
            above = above.base_name();
        }
        None
    }

    /// Whether names exist under this one; they follow it in canonical order.
    fn has_below(&self, key: &LowerName) -> bool {
        self.nodes
            .range(key..)
            .next()
            .is_some_and(|(next, _)| key.zone_of(next))
    }
}

/// Reads a name, always as an absolute one.
pub(super) fn name(text: &str) -> Result<Name, NameError> {
    let mut name =
        Name::from_ascii(text).map_err(|_| NameError(text.chars().take(300).collect()))?;
    name.set_fqdn(true);
    Ok(name)
}

/// The name whose PTR record names the address.
pub fn reverse_name(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
}

/// The smallest zone on an octet's border that holds the reverse names of the subnet.
pub fn reverse_zone(subnet: Ipv4Net) -> String {
    let octets = subnet.network().octets();
    let whole = usize::from(subnet.prefix_len() / 8).min(3);
    let labels: Vec<String> = octets[..whole].iter().rev().map(u8::to_string).collect();
    [&labels[..], &["in-addr".to_owned(), "arpa.".to_owned()]]
        .concat()
        .join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> Zone {
        let mut zone = Zone::new("lab.example", "ns.lab.example").unwrap();
        for (name, data) in [
            ("ns.lab.example", Data::A(Ipv4Addr::new(10, 0, 0, 1))),
            ("api.c1.lab.example", Data::A(Ipv4Addr::new(10, 0, 0, 5))),
            ("*.apps.c1.lab.example", Data::A(Ipv4Addr::new(10, 0, 0, 6))),
            (
                "real.apps.c1.lab.example",
                Data::A(Ipv4Addr::new(10, 0, 0, 7)),
            ),
            ("www.lab.example", Data::Cname("api.c1.lab.example".into())),
            ("out.lab.example", Data::Cname("elsewhere.test".into())),
            ("a.lab.example", Data::Cname("b.lab.example".into())),
            ("b.lab.example", Data::Cname("a.lab.example".into())),
        ] {
            zone.insert(name, &data).unwrap();
        }
        zone
    }

    #[derive(Debug, PartialEq)]
    enum Brief {
        Records(usize),
        Elsewhere,
        NoData,
        NoName,
    }

    fn ask(zone: &Zone, asked: &str, kind: RecordType) -> Brief {
        match zone.find(&name(asked).unwrap(), kind) {
            Found::Records(records) => Brief::Records(records.len()),
            Found::Elsewhere(_) => Brief::Elsewhere,
            Found::NoData(_) => Brief::NoData,
            Found::NoName(_) => Brief::NoName,
        }
    }

    #[test]
    fn questions_get_the_answers_the_rfc_wants() {
        let zone = zone();
        let rows = [
            ("api.c1.lab.example", RecordType::A, Brief::Records(1)),
            ("API.C1.Lab.Example", RecordType::A, Brief::Records(1)),
            ("api.c1.lab.example", RecordType::AAAA, Brief::NoData),
            ("nothing.lab.example", RecordType::A, Brief::NoName),
            // No record, but names under it.
            ("c1.lab.example", RecordType::A, Brief::NoData),
            (
                "console.apps.c1.lab.example",
                RecordType::A,
                Brief::Records(1),
            ),
            ("a.b.apps.c1.lab.example", RecordType::A, Brief::Records(1)),
            (
                "console.apps.c1.lab.example",
                RecordType::AAAA,
                Brief::NoData,
            ),
            ("apps.c1.lab.example", RecordType::A, Brief::NoData),
            ("x.real.apps.c1.lab.example", RecordType::A, Brief::NoName),
            ("www.lab.example", RecordType::A, Brief::Records(2)),
            ("www.lab.example", RecordType::CNAME, Brief::Records(1)),
            ("out.lab.example", RecordType::A, Brief::Elsewhere),
            ("a.lab.example", RecordType::A, Brief::Records(MAX_ALIASES)),
            ("lab.example", RecordType::SOA, Brief::Records(1)),
            ("lab.example", RecordType::NS, Brief::Records(1)),
            ("lab.example", RecordType::A, Brief::NoData),
        ];
        for (asked, kind, expected) in rows {
            assert_eq!(ask(&zone, asked, kind), expected, "{asked} {kind}");
        }
    }

    #[test]
    fn a_removed_name_is_gone() {
        let mut zone = zone();
        zone.remove("api.c1.lab.example", RecordType::A);
        assert_eq!(
            ask(&zone, "api.c1.lab.example", RecordType::A),
            Brief::NoName
        );
    }

    #[test]
    fn names_outside_and_bad_names_are_refused() {
        let mut zone = zone();
        assert!(
            zone.insert("other.test", &Data::A(Ipv4Addr::LOCALHOST))
                .is_err()
        );
        assert!(
            zone.insert(&"x".repeat(80), &Data::A(Ipv4Addr::LOCALHOST))
                .is_err()
        );
    }

    #[test]
    fn reverse_zones_end_on_an_octet() {
        for (subnet, zone) in [
            ("10.0.2.0/24", "2.0.10.in-addr.arpa."),
            ("172.22.16.0/20", "22.172.in-addr.arpa."),
            ("10.1.2.4/30", "2.1.10.in-addr.arpa."),
        ] {
            assert_eq!(reverse_zone(subnet.parse().unwrap()), zone);
        }
        assert_eq!(
            reverse_name(Ipv4Addr::new(10, 0, 2, 7)),
            "7.2.0.10.in-addr.arpa."
        );
    }
}
