//! `dns:` of the configuration.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use protocols::dns::WireName;
use protocols::dns::cache::Limits;
use serde::Deserialize;

pub const PORT: u16 = 53;

/// What will be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// The node's own addresses, one socket each.
    pub listen: Vec<SocketAddr>,
    /// And whatever addresses the node has in these networks.
    pub networks: Vec<IpNet>,
    /// `<cluster>.<base domain>`.
    pub domain: String,
    /// Where `api` and `api-int` are, unless told otherwise while running.
    pub api: Vec<IpAddr>,
    /// Where `*.apps` is.
    pub ingress: Vec<IpAddr>,
    /// Asked in this order; empty: those of the resolv.conf.
    pub upstreams: Vec<SocketAddr>,
    pub etcd_minimum: usize,
    /// Names of the domain that we do not know do not exist; otherwise upstream is asked.
    pub authoritative: bool,
    /// Threads per address.
    pub workers: usize,
    pub cache: Limits,
    pub mixed_case: bool,
    pub max_pending: usize,
    pub max_connections: usize,
    pub idle: Duration,
    pub resolv: Option<Resolv>,
}

/// Which resolv.conf points at us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolv {
    pub path: PathBuf,
    /// Where the upstreams are read, if someone writes them elsewhere.
    pub upstreams_from: Option<PathBuf>,
    /// Where the original is kept while ours is in its place.
    pub saved: PathBuf,
    /// False: only read, never written.
    pub write: bool,
}

/// The file as people write it.
#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// The node's own addresses, with or without a port.
    #[serde(default)]
    pub listen: Vec<String>,
    /// Listen on the addresses too that the node has in these networks, as DHCP gives them; not on virtual ones.
    #[serde(default)]
    pub networks: Vec<String>,
    /// The cluster's domain: its name and the base domain.
    pub domain: String,
    /// Addresses of api and api-int; the vips called api if left out.
    #[serde(default)]
    pub api: Vec<String>,
    /// Addresses of everything in apps; the vips called ingress if left out.
    #[serde(default)]
    pub ingress: Vec<String>,
    /// Servers for all other names; those of the resolv.conf if left out.
    #[serde(default)]
    pub upstreams: Vec<String>,
    /// Fewer etcd members than this are not told of.
    #[serde(default)]
    pub etcd_minimum: i64,
    /// Names of the domain that are not known here do not exist.
    #[serde(default)]
    pub authoritative: bool,
    /// Threads per address.
    #[serde(default = "one")]
    pub workers: i64,
    /// Ask upstream with random spelling, and want it back.
    #[serde(default)]
    pub mixed_case: bool,
    #[serde(default)]
    pub cache: Cache,
    /// Questions to upstreams under way at one time.
    #[serde(default = "thousand")]
    pub max_pending: i64,
    /// TCP connections at one time.
    #[serde(default = "connections")]
    pub max_connections: i64,
    /// A TCP connection that says nothing this long is closed.
    #[serde(default = "ten_seconds")]
    pub idle_ms: i64,
    /// The resolv.conf to keep pointed at this node.
    pub resolv_conf: Option<WrittenResolv>,
}

#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    pub entries: i64,
    pub kilobytes: i64,
    /// Nothing is believed for longer.
    pub longest_s: i64,
    /// How long after its life an answer is given out when nobody else answers.
    pub stale_s: i64,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            entries: 10_000,
            kilobytes: 4096,
            // As OpenShift's CoreDNS: a changed record is seen within half a minute.
            longest_s: 30,
            stale_s: 3600,
        }
    }
}

#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WrittenResolv {
    pub path: String,
    pub upstreams_from: Option<String>,
    pub saved: String,
    /// False: upstreams are read from it, but it is never written.
    pub write: bool,
}

impl Default for WrittenResolv {
    fn default() -> Self {
        Self {
            path: "/etc/resolv.conf".into(),
            upstreams_from: None,
            saved: "/var/lib/plinth/netd/resolv.conf.original".into(),
            write: true,
        }
    }
}

fn one() -> i64 {
    1
}

fn thousand() -> i64 {
    1000
}

fn connections() -> i64 {
    256
}

fn ten_seconds() -> i64 {
    10_000
}

/// `api` and `ingress` are the addresses of the vips of these names. Problems are added with their paths.
pub fn resolve(
    written: &Written,
    api: &[IpAddr],
    ingress: &[IpAddr],
    path: &str,
    problems: &mut Vec<String>,
) -> Option<Dns> {
    let before = problems.len();
    let mut list = |field: &str, texts: &[String]| -> Vec<SocketAddr> {
        let mut found = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            let with_port = text.parse::<SocketAddr>().ok();
            let read = with_port.or_else(|| Some(SocketAddr::new(text.parse().ok()?, PORT)));
            match read {
                Some(address) => found.push(address),
                None => problems.push(format!(
                    "{path}.{field}[{at}]: {text:?} is not an address such as 192.0.2.1 or 192.0.2.1:53"
                )),
            }
        }
        found
    };
    let listen = list("listen", &written.listen);
    let upstreams = list("upstreams", &written.upstreams);
    let mut ips = |field: &str, texts: &[String]| -> Vec<IpAddr> {
        let mut found = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            match text.parse() {
                Ok(address) => found.push(address),
                Err(_) => {
                    problems.push(format!(
                        "{path}.{field}[{at}]: {text:?} is not an IP address"
                    ));
                }
            }
        }
        found
    };
    let own_api = ips("api", &written.api);
    let own_ingress = ips("ingress", &written.ingress);
    let mut bad = |field: &str, problem: &str| problems.push(format!("{path}.{field}: {problem}"));
    if written.listen.is_empty() && written.networks.is_empty() {
        bad(
            "listen",
            "is empty; write the node's own address, or networks: it is in",
        );
    }
    let mut networks = Vec::new();
    for (at, text) in written.networks.iter().enumerate() {
        match text.parse() {
            Ok(network) => networks.push(network),
            Err(_) => bad(
                &format!("networks[{at}]"),
                &format!("{text:?} is not a network, such as 192.0.2.0/24"),
            ),
        }
    }
    if listen.iter().any(|address| address.ip().is_unspecified()) {
        bad(
            "listen",
            "must name the node's own address: answers from 0.0.0.0 leave with any address",
        );
    }
    for upstream in upstreams
        .iter()
        .filter(|upstream| listen.contains(upstream))
    {
        bad("upstreams", &format!("{upstream} is this server itself"));
    }
    let domain = written.domain.trim_end_matches('.');
    if domain.is_empty() || WireName::from_text(domain).is_none() || domain.len() > 200 {
        bad("domain", &format!("{domain:?} is not a domain name"));
    }
    if written.upstreams.is_empty() && written.resolv_conf.is_none() && !written.authoritative {
        bad(
            "upstreams",
            "is missing; write it, or resolv_conf: {} to use those of /etc/resolv.conf, or authoritative: true",
        );
    }
    let mut number = |field: &str, value: i64, range: std::ops::RangeInclusive<i64>| {
        if !range.contains(&value) {
            let (from, to) = (range.start(), range.end());
            bad(field, &format!("{value} must be from {from} to {to}"));
        }
        value.unsigned_abs()
    };
    let dns = Dns {
        api: if own_api.is_empty() {
            api.to_vec()
        } else {
            own_api
        },
        ingress: if own_ingress.is_empty() {
            ingress.to_vec()
        } else {
            own_ingress
        },
        etcd_minimum: number("etcd_minimum", written.etcd_minimum, 0..=64) as usize,
        workers: number("workers", written.workers, 1..=64) as usize,
        cache: Limits {
            entries: number("cache.entries", written.cache.entries, 0..=10_000_000) as usize,
            bytes: number("cache.kilobytes", written.cache.kilobytes, 0..=16_000_000) as usize
                * 1024,
            longest: Duration::from_secs(number(
                "cache.longest_s",
                written.cache.longest_s,
                0..=604_800,
            )),
            stale: Duration::from_secs(number("cache.stale_s", written.cache.stale_s, 0..=604_800)),
        },
        max_pending: number("max_pending", written.max_pending, 1..=60_000) as usize,
        max_connections: number("max_connections", written.max_connections, 1..=60_000) as usize,
        idle: Duration::from_millis(number("idle_ms", written.idle_ms, 100..=600_000)),
        listen,
        networks,
        domain: domain.to_owned(),
        upstreams,
        authoritative: written.authoritative,
        mixed_case: written.mixed_case,
        resolv: written.resolv_conf.as_ref().map(|resolv| Resolv {
            path: resolv.path.clone().into(),
            upstreams_from: resolv.upstreams_from.clone().map(PathBuf::from),
            saved: resolv.saved.clone().into(),
            write: resolv.write,
        }),
    };
    (problems.len() == before).then_some(dns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Dns, Vec<String>> {
        let written: Written = serde_saphyr::from_str(text).unwrap();
        let mut problems = Vec::new();
        let vip = ["192.0.2.5".parse().unwrap()];
        resolve(&written, &vip, &vip, "dns", &mut problems).ok_or(problems)
    }

    #[test]
    fn a_small_part_is_enough() {
        let dns = read(
            "{listen: [192.0.2.10, '[2001:db8::10]:5353'], domain: c1.test., resolv_conf: {}}",
        )
        .unwrap();
        assert_eq!(dns.listen[0], "192.0.2.10:53".parse().unwrap());
        assert_eq!(dns.listen[1].port(), 5353);
        assert_eq!((dns.api.len(), dns.domain.as_str()), (1, "c1.test"));
        assert_eq!(dns.resolv.unwrap().path, PathBuf::from("/etc/resolv.conf"));
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let problems = read(
            "{listen: [0.0.0.0, x, 192.0.2.1], domain: 'a..b', upstreams: [192.0.2.1, no], workers: 0, api: [y], cache: {entries: -1}}",
        )
        .unwrap_err();
        insta::assert_snapshot!(problems.join("\n"));
        assert_eq!(read("{listen: [], domain: c1.test}").unwrap_err().len(), 2);
    }
}
