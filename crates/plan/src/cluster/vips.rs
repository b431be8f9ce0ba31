//! Virtual addresses: who may hold them, and who wins.
//!
//! Priorities are OpenShift's: the bootstrap's 70 is above a master's best, so it keeps the API until it resigns.
//! Every node has a rank of its own, subtracted from its base: equal priorities race.

use std::net::IpAddr;

use ipnet::IpNet;
use protocols::vrrp::VirtualRouterId;
use serde::Serialize;

use super::{HostPlan, Pace};
use crate::install_config::{InstallConfig, Role};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Vip {
    /// `api` or `ingress`; a second family adds `-v6` or `-v4`.
    pub name: String,
    pub purpose: &'static str,
    pub address: IpAddr,
    /// The interface is the one with an address of this network.
    pub network: Option<IpNet>,
    pub prefix_length: u8,
    pub vrid: u8,
    pub vrrp_version: u8,
    pub advertise_ms: u32,
    /// Empty if the site balances by itself.
    pub holders: Vec<Holder>,
}

/// A node that may hold the address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    pub node: String,
    pub base: u8,
    pub checks: Vec<Weight>,
    /// With everything passing.
    pub best: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Weight {
    pub check: &'static str,
    /// `None`: without it the address is not held at all.
    pub weight: Option<u8>,
}

pub const BOOTSTRAP: u8 = 70;
/// 40, and 20 for a balancer that has a backend; without one the address would be held for nothing, and a bootstrap
/// that was only slow to speak would have to be asked to take it back.
const MASTER: u8 = 60;
const INGRESS: u8 = 20;

const API_CHECKS: [(&str, Option<u8>); 3] =
    [("balancer", None), ("api", Some(5)), ("mcs", Some(3))];
const INGRESS_CHECKS: [(&str, Option<u8>); 2] = [("ingress", None), ("ingress-ready", Some(10))];

pub fn plan(config: &InstallConfig, hosts: &[HostPlan]) -> Vec<Vip> {
    let baremetal = &config.baremetal;
    let mut vips = Vec::new();
    for (purpose, addresses) in [
        ("api", &baremetal.api_vips),
        ("ingress", &baremetal.ingress_vips),
    ] {
        for (at, address) in addresses.iter().enumerate() {
            let second = if address.is_ipv4() { "-v4" } else { "-v6" };
            let suffix = if at == 0 { "" } else { second };
            vips.push(Vip {
                name: format!("{purpose}{suffix}"),
                purpose,
                address: *address,
                network: config
                    .networking
                    .machine
                    .iter()
                    .find(|net| net.contains(address))
                    .copied(),
                prefix_length: if address.is_ipv4() { 32 } else { 128 },
                // Both families use one id: they are separate on the wire.
                vrid: VirtualRouterId::of_cluster(&config.name, purpose).get(),
                vrrp_version: 3,
                advertise_ms: Pace::of(baremetal.hardware_speed).advertise_ms,
                holders: if baremetal.managed_load_balancer {
                    holders(purpose, hosts)
                } else {
                    Vec::new()
                },
            });
        }
    }
    vips
}

fn holders(purpose: &str, hosts: &[HostPlan]) -> Vec<Holder> {
    let api = purpose == "api";
    let mut holders = Vec::new();
    if api {
        holders.push(Holder {
            node: "bootstrap".into(),
            base: BOOTSTRAP,
            checks: Vec::new(),
            best: BOOTSTRAP,
        });
    }
    let (base, checks): (u8, &[(&'static str, Option<u8>)]) = if api {
        (MASTER, &API_CHECKS)
    } else {
        (INGRESS, &INGRESS_CHECKS)
    };
    let nodes = hosts.iter().filter(|host| match host.role {
        Some(Role::Master) => true,
        Some(Role::Worker) => !api,
        Some(Role::Arbiter) | None => false,
    });
    for (rank, node) in nodes.enumerate() {
        // Behind the fifteenth, address decides; so many routers are not run.
        let base = base - rank.min(15) as u8;
        let sum: u8 = checks.iter().filter_map(|(_, weight)| *weight).sum();
        holders.push(Holder {
            node: node.node.clone().unwrap_or_default(),
            base,
            checks: checks
                .iter()
                .map(|(check, weight)| Weight {
                    check,
                    weight: *weight,
                })
                .collect(),
            best: base + sum,
        });
    }
    holders
}
