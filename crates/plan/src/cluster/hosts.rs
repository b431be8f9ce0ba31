//! Every server: its name as a node, how its BMC is spoken to, and the one disk that is erased.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{BmcAddress, Mac};
use serde::Serialize;
use serde_json::Value;

use super::Identity;
use crate::install_config::{BootMode, Host, InstallConfig, Role};
use crate::nmstate::HostNetwork;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostPlan {
    /// The BareMetalHost.
    pub name: String,
    /// `None`: registered and kept in reserve.
    pub role: Option<Role>,
    /// Its place among those of its role: `master-0` has 0.
    pub ordinal: usize,
    /// The node's name, if it becomes one by this install.
    pub node: Option<String>,
    /// The Machine that claims it from the start; workers are claimed by the MachineSet.
    pub machine: Option<String>,
    pub bmc: Bmc,
    pub boot_mac: Mac,
    pub boot_mode: BootMode,
    pub disk: Disk,
    /// Static addresses.
    pub addresses: Vec<IpAddr>,
    pub network: Option<HostNetwork>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bmc {
    pub address: BmcAddress,
    pub username: String,
    pub driver: &'static str,
    pub boot_interface: &'static str,
    pub driver_info: BTreeMap<&'static str, Value>,
    pub verify: bool,
}

/// The disk that will be erased.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disk {
    /// In metal3's words.
    pub hints: BTreeMap<String, Value>,
    /// In Ironic's words; all must match, and match one disk.
    pub root_device: Value,
    /// For people.
    pub erased: String,
}

pub fn plan(config: &InstallConfig, identity: Option<&Identity>) -> Vec<HostPlan> {
    let mut counts: BTreeMap<Option<Role>, usize> = BTreeMap::new();
    let hosts = config.baremetal.hosts.iter();
    hosts
        .map(|host| {
            let ordinal = *counts.entry(host.role).and_modify(|n| *n += 1).or_insert(0);
            one(host, ordinal, config, identity)
        })
        .collect()
}

fn one(
    host: &Host,
    ordinal: usize,
    config: &InstallConfig,
    identity: Option<&Identity>,
) -> HostPlan {
    let replicas = match host.role {
        Some(Role::Master) => config.control_plane.replicas,
        Some(Role::Arbiter) => config.arbiter.replicas,
        Some(Role::Worker) => config.compute.replicas,
        None => 0,
    };
    let used = ordinal < replicas as usize;
    let role = host.role.filter(|_| used);
    let node = role.map(|role| format!("{}-{ordinal}", role.name()));
    let infra = identity.map_or(config.name.as_str(), |identity| &identity.infra_id);
    let machine = match role {
        Some(role @ (Role::Master | Role::Arbiter)) => {
            Some(format!("{infra}-{}-{ordinal}", role.name()))
        }
        Some(Role::Worker) | None => None,
    };
    let erased = if host.root_device.is_empty() {
        "the smallest disk of at least 4 GiB".to_owned()
    } else {
        format!("the one disk with {}", host.root_device)
    };
    HostPlan {
        name: host.name.clone(),
        role,
        ordinal,
        node,
        machine,
        bmc: Bmc {
            address: host.bmc.clone(),
            username: host.username.clone(),
            driver: host.bmc.scheme.driver(),
            boot_interface: host.bmc.scheme.boot_interface(),
            driver_info: host.bmc.driver_info(host.verify_bmc).into_iter().collect(),
            verify: host.verify_bmc,
        },
        boot_mac: host.boot_mac,
        boot_mode: host.boot_mode,
        disk: Disk {
            hints: host.hints.clone(),
            root_device: serde_json::to_value(&host.root_device).unwrap_or_default(),
            erased,
        },
        addresses: host
            .network
            .iter()
            .flat_map(HostNetwork::addresses)
            .collect(),
        network: host.network.clone(),
    }
}
