//! `mdns:` of the configuration.

use std::net::IpAddr;

use ipnet::IpNet;
use protocols::mdns::Kind;
use serde::Deserialize;

/// What will be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mdns {
    pub cluster: String,
    /// Otherwise the machine's own, once it has one.
    pub host: Option<String>,
    /// Otherwise every link with an address.
    pub interfaces: Vec<String>,
    /// Only links and addresses of these; otherwise all.
    pub networks: Vec<IpNet>,
    /// Only these are published; otherwise all of the link but virtual ones.
    pub addresses: Vec<IpAddr>,
    /// Never published: they move.
    pub vips: Vec<IpAddr>,
    /// What this node offers; nothing: it only looks.
    pub services: Vec<Kind>,
    pub host_ttl: u32,
    pub service_ttl: u32,
}

/// The file as people write it.
#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Written {
    /// The node's short name; the machine's host name if left out.
    pub host: Option<String>,
    /// Links to speak on; every link with an address if left out.
    pub interfaces: Vec<String>,
    /// Networks that nodes find each other on; all if left out.
    pub networks: Vec<String>,
    /// Addresses to publish; those of the link if left out.
    pub addresses: Vec<String>,
    /// False on a bootstrap node: it looks for the others and says nothing of itself.
    pub publish: bool,
    /// This node is of the control plane.
    pub etcd: bool,
    pub host_ttl_s: i64,
    pub service_ttl_s: i64,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            host: None,
            interfaces: Vec::new(),
            networks: Vec::new(),
            addresses: Vec::new(),
            publish: true,
            etcd: false,
            host_ttl_s: 120,
            service_ttl_s: 3200,
        }
    }
}

/// `vips` are never published. Problems are added with their paths.
pub fn resolve(
    written: &Written,
    cluster: Option<&str>,
    vips: &[IpAddr],
    path: &str,
    problems: &mut Vec<String>,
) -> Option<Mdns> {
    let before = problems.len();
    let mut addresses = Vec::new();
    for (at, text) in written.addresses.iter().enumerate() {
        match text.parse() {
            Ok(address) if vips.contains(&address) => problems.push(format!(
                "{path}.addresses[{at}]: {address} is a virtual address; write one of this node"
            )),
            Ok(address) => addresses.push(address),
            Err(_) => problems.push(format!(
                "{path}.addresses[{at}]: {text:?} is not an IP address"
            )),
        }
    }
    let mut networks = Vec::new();
    for (at, text) in written.networks.iter().enumerate() {
        match text.parse() {
            Ok(network) => networks.push(network),
            Err(_) => problems.push(format!(
                "{path}.networks[{at}]: {text:?} is not a network, such as 192.0.2.0/24"
            )),
        }
    }
    let mut bad =
        |field: &str, problem: String| problems.push(format!("{path}.{field}: {problem}"));
    if cluster.is_none_or(str::is_empty) {
        bad(
            "cluster",
            "is missing; write cluster: and its name at the top of the file".into(),
        );
    }
    if let Some(host) = &written.host {
        let label = host.split('.').next().unwrap_or_default();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if label.is_empty() || label.len() > 63 || !label.bytes().all(plain) {
            bad("host", format!("{host:?} is not a host name"));
        }
    }
    for (field, value) in [
        ("host_ttl_s", written.host_ttl_s),
        ("service_ttl_s", written.service_ttl_s),
    ] {
        if !(1..=86_400).contains(&value) {
            bad(field, format!("{value} must be from 1 to 86400"));
        }
    }
    let mut services = Vec::new();
    if written.publish {
        services.push(Kind::Workstation);
        services.extend(written.etcd.then_some(Kind::Etcd));
    }
    if problems.len() != before {
        return None;
    }
    Some(Mdns {
        cluster: cluster?.to_owned(),
        host: written.host.clone(),
        interfaces: written.interfaces.clone(),
        networks,
        addresses,
        vips: vips.to_vec(),
        services,
        host_ttl: written.host_ttl_s as u32,
        service_ttl: written.service_ttl_s as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, cluster: Option<&str>) -> Result<Mdns, Vec<String>> {
        let written: Written = serde_saphyr::from_str(text).unwrap();
        let mut problems = Vec::new();
        let vip = ["192.0.2.5".parse().unwrap()];
        resolve(&written, cluster, &vip, "mdns", &mut problems).ok_or(problems)
    }

    #[test]
    fn nothing_at_all_is_enough_and_a_bootstrap_node_offers_nothing() {
        let mdns = read("{}", Some("c1")).unwrap();
        assert_eq!(
            (mdns.services, mdns.host_ttl),
            (vec![Kind::Workstation], 120)
        );
        assert!(
            read("{publish: false, etcd: true}", Some("c1"))
                .unwrap()
                .services
                .is_empty()
        );
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let problems = read(
            "{host: 'a b', addresses: [x, 192.0.2.5], host_ttl_s: 0}",
            None,
        )
        .unwrap_err();
        insta::assert_snapshot!(problems.join("\n"));
    }
}
