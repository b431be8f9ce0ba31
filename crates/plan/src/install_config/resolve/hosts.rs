//! The servers: BMCs, MACs, disks, roles.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::root_device::Hints;
use model::{BmcAddress, Mac, Secret};
use serde_json::{Value, json};

use super::super::written;
use super::super::{BootMode, Host, Mode, Pool, Role};
use super::known;
use super::text::{is_subdomain, shown};
use crate::nmstate::HostNetwork;
use crate::problem::Problems;

const PATH: &str = "platform.baremetal.hosts";

/// Hints by hardware profile, for hosts that have none of their own.
const PROFILES: [(&str, Option<(&str, &str)>); 7] = [
    ("default", Some(("name", "/dev/sda"))),
    ("unknown", Some(("name", "/dev/sda"))),
    ("libvirt", Some(("name", "/dev/vda"))),
    ("dell", Some(("hctl", "0:0:0:0"))),
    ("dell-raid", Some(("hctl", "0:2:0:0"))),
    ("openstack", Some(("name", "/dev/vdb"))),
    ("empty", None),
];

pub fn resolve(
    baremetal: &written::BareMetal,
    mode: Option<Mode>,
    pools: [&Pool; 3],
    vips: &[IpAddr],
    problems: &mut Problems,
) -> Vec<Host> {
    if baremetal.hosts.is_empty() {
        problems.add(
            PATH,
            "bare metal hosts are missing",
            "list every server with name, bmc and bootMACAddress",
        );
        return Vec::new();
    }
    let mut seen = Seen::default();
    let mut hosts = Vec::new();
    let mut wanted = Vec::new();
    for (index, written) in baremetal.hosts.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        let empty = written::Host::default();
        let written = written.as_ref().unwrap_or(&empty);
        wanted.push(role(written, &path, problems));
        let host = host(index, written, &path, mode, &mut seen, problems);
        if let Some(host) = &host {
            addresses(host, &path, vips, &mut seen, problems);
        }
        hosts.extend(host);
    }
    assign_roles(&mut hosts, &wanted, pools, problems);
    hosts
}

/// What must be unique, and which host has it.
#[derive(Default)]
struct Seen {
    names: BTreeMap<String, usize>,
    bmcs: BTreeMap<String, usize>,
    macs: BTreeMap<Mac, usize>,
    addresses: BTreeMap<IpAddr, usize>,
}

fn host(
    index: usize,
    written: &written::Host,
    path: &str,
    mode: Option<Mode>,
    seen: &mut Seen,
    problems: &mut Problems,
) -> Option<Host> {
    let name = name(index, written, path, seen, problems);
    let bmc = bmc(index, written, path, seen, problems);
    let boot_mac = boot_mac(index, written, path, seen, problems);
    let (hints, root_device) = root_device(written, path, problems);
    let boot_mode = match written.boot_mode.as_deref().unwrap_or("UEFI") {
        "UEFI" | "" => Some(BootMode::Uefi),
        "UEFISecureBoot" => Some(BootMode::UefiSecureBoot),
        "legacy" => Some(BootMode::Legacy),
        other => {
            known(
                &format!("{path}.bootMode"),
                other,
                &["UEFI", "UEFISecureBoot", "legacy"],
                problems,
            );
            None
        }
    };
    let network = written
        .network_config
        .as_ref()
        .map(|document| HostNetwork::parse(document, &format!("{path}.networkConfig"), problems));
    if written.bgp_peers.is_some() {
        problems.add(
            format!("{path}.bgpPeers"),
            "is not supported: VIPs move by VRRP",
            "remove it",
        );
    }
    if let Some((address, ..)) = &bmc {
        if mode == Some(Mode::Disabled) && address.scheme.needs_provisioning_network() {
            problems.add(
                format!("{path}.bmc.address"),
                format!("{}:// boots over the provisioning network, which is Disabled", address.scheme.name()),
                "use redfish-virtualmedia, ilo5-virtualmedia, idrac-virtualmedia or redfish-uefihttp, or a provisioningNetwork",
            );
        }
        if boot_mode == Some(BootMode::UefiSecureBoot) && !address.scheme.can_secure_boot() {
            problems.add(
                format!("{path}.bootMode"),
                format!("{}:// cannot switch secure boot", address.scheme.name()),
                "write UEFI, or use a Redfish BMC address",
            );
        }
    }
    let (bmc, username, password, verify_bmc) = bmc?;
    Some(Host {
        index,
        name: name?,
        role: None,
        bmc,
        username,
        password,
        verify_bmc,
        boot_mac: boot_mac?,
        boot_mode: boot_mode?,
        hardware_profile: written
            .hardware_profile
            .clone()
            .unwrap_or_else(|| "default".into()),
        hints,
        root_device: root_device?,
        network,
        network_document: written.network_config.clone(),
    })
}

fn name(
    index: usize,
    written: &written::Host,
    path: &str,
    seen: &mut Seen,
    problems: &mut Problems,
) -> Option<String> {
    let path = format!("{path}.name");
    let name = written.name.clone().unwrap_or_default();
    if name.is_empty() {
        problems.add(path, "is missing", "write a name, such as worker-0");
        return None;
    }
    if !is_subdomain(&name) {
        problems.add(
            path,
            format!("{} is not a DNS name", shown(&name)),
            "write lower-case letters, digits, dashes and dots",
        );
        return None;
    }
    if let Some(other) = seen.names.insert(name.clone(), index) {
        problems.add(
            path,
            format!("{name:?} is the name of hosts[{other}] too"),
            "give every host its own",
        );
        return None;
    }
    Some(name)
}

fn bmc(
    index: usize,
    written: &written::Host,
    path: &str,
    seen: &mut Seen,
    problems: &mut Problems,
) -> Option<(BmcAddress, String, Secret<String>, bool)> {
    let empty = written::Bmc::default();
    let bmc = written.bmc.as_ref().unwrap_or(&empty);
    let text = bmc.address.as_deref().unwrap_or_default();
    let path = format!("{path}.bmc");
    let address = match text.parse::<BmcAddress>() {
        Ok(address) => Some(address),
        Err(_) if text.is_empty() => {
            problems.add(
                format!("{path}.address"),
                "is missing",
                "write one such as redfish-virtualmedia://192.0.2.10/redfish/v1/Systems/1",
            );
            None
        }
        Err(error) => {
            problems.add(format!("{path}.address"), error.to_string(), "");
            None
        }
    };
    if let Some(address) = &address
        && let Some(other) = seen.bmcs.insert(address.endpoint(), index)
    {
        problems.add(
            format!("{path}.address"),
            format!("is the BMC of hosts[{other}] too"),
            "every host has its own",
        );
    }
    let username = bmc.username.clone().unwrap_or_default();
    if username.is_empty() {
        problems.add(
            format!("{path}.username"),
            "is missing",
            "write the BMC's user",
        );
    }
    let password = bmc.password.clone();
    if password
        .as_ref()
        .is_none_or(|password| password.expose().is_empty())
    {
        problems.add(
            format!("{path}.password"),
            "is missing",
            "write the BMC's password",
        );
    }
    let verify = !bmc.disable_certificate_verification.unwrap_or(false);
    Some((address?, username, password?, verify))
}

fn boot_mac(
    index: usize,
    written: &written::Host,
    path: &str,
    seen: &mut Seen,
    problems: &mut Problems,
) -> Option<Mac> {
    let path = format!("{path}.bootMACAddress");
    let Some(text) = &written.boot_mac_address else {
        problems.add(path, "is missing", "write the MAC of the NIC it boots from");
        return None;
    };
    let mac = match text.parse::<Mac>() {
        Ok(mac) => mac,
        Err(error) => {
            problems.add(path, error.to_string(), "");
            return None;
        }
    };
    if mac.is_multicast() {
        problems.add(
            path,
            format!("{mac} is a multicast address"),
            "write the NIC's own address",
        );
        return None;
    }
    if let Some(other) = seen.macs.insert(mac, index) {
        problems.add(
            path,
            format!("{mac} is the MAC of hosts[{other}] too"),
            "every NIC has its own",
        );
        return None;
    }
    Some(mac)
}

fn root_device(
    written: &written::Host,
    path: &str,
    problems: &mut Problems,
) -> (BTreeMap<String, Value>, Option<Hints>) {
    let mut shown_hints = BTreeMap::new();
    let mut ironic: BTreeMap<String, Value> = BTreeMap::new();
    let profile = written.hardware_profile.as_deref().unwrap_or("default");
    let names = PROFILES.map(|(name, _)| name);
    let fine = profile.is_empty()
        || known(
            &format!("{path}.hardwareProfile"),
            profile,
            &names,
            problems,
        );
    let path = format!("{path}.rootDeviceHints");
    let hints = written.root_device_hints.clone().unwrap_or_default();
    for (field, name, operator, value) in [
        ("hctl", "hctl", "s== ", &hints.hctl),
        ("model", "model", "<in> ", &hints.model),
        ("vendor", "vendor", "<in> ", &hints.vendor),
        ("serialNumber", "serial", "s== ", &hints.serial_number),
        ("wwn", "wwn", "s== ", &hints.wwn),
        (
            "wwnWithExtension",
            "wwn_with_extension",
            "s== ",
            &hints.wwn_with_extension,
        ),
        (
            "wwnVendorExtension",
            "wwn_vendor_extension",
            "s== ",
            &hints.wwn_vendor_extension,
        ),
    ] {
        let Some(value) = value else { continue };
        if value.trim().is_empty() {
            problems.add(
                format!("{path}.{field}"),
                "is empty",
                "write a value, or remove it",
            );
            continue;
        }
        shown_hints.insert(field.into(), value.clone().into());
        ironic.insert(name.into(), format!("{operator}{value}").into());
    }
    if let Some(device) = &hints.device_name {
        let by_path = device
            .strip_prefix("/dev/disk/by-path/")
            .is_some_and(|rest| !rest.is_empty());
        let plain = device
            .strip_prefix("/dev/")
            .is_some_and(|rest| !rest.is_empty() && !rest.contains('/'));
        if by_path || plain {
            shown_hints.insert("deviceName".into(), device.clone().into());
            let field = if by_path { "by_path" } else { "name" };
            ironic.insert(field.into(), format!("s== {device}").into());
        } else {
            problems.add(
                format!("{path}.deviceName"),
                format!("{} is not a disk", shown(device)),
                "write /dev/<name> or /dev/disk/by-path/<path>",
            );
        }
    }
    if let Some(size) = hints.min_size_gigabytes {
        if size < 1 {
            problems.add(
                format!("{path}.minSizeGigabytes"),
                format!("{size} is not a size"),
                "write 1 or more",
            );
        }
        shown_hints.insert("minSizeGigabytes".into(), size.into());
        ironic.insert("size".into(), format!(">= {size}").into());
    }
    if let Some(rotational) = hints.rotational {
        shown_hints.insert("rotational".into(), rotational.into());
        ironic.insert("rotational".into(), json!(rotational));
    }
    if written.root_device_hints.is_none() {
        let by_profile = PROFILES
            .iter()
            .find(|(name, _)| *name == profile)
            .and_then(|(_, hint)| *hint);
        if let Some((field, value)) = by_profile {
            ironic.insert(field.into(), format!("s== {value}").into());
        }
    }
    match Hints::parse(&ironic) {
        Ok(hints) if fine => (shown_hints, Some(hints)),
        Ok(_) => (shown_hints, None),
        Err(error) => {
            problems.add(path, error.to_string(), "correct the hint");
            (shown_hints, None)
        }
    }
}

fn role(written: &written::Host, path: &str, problems: &mut Problems) -> Option<Role> {
    match written.role.as_deref().unwrap_or_default() {
        "master" => Some(Role::Master),
        "arbiter" => Some(Role::Arbiter),
        "worker" => Some(Role::Worker),
        "" => {
            let name = written.name.as_deref().unwrap_or_default();
            problems.warn(
                path,
                format!("{} has no role", shown(name)),
                "write role: master or role: worker",
            );
            None
        }
        other => {
            known(
                &format!("{path}.role"),
                other,
                &["master", "arbiter", "worker"],
                problems,
            );
            None
        }
    }
}

/// Static addresses that are taken already.
fn addresses(host: &Host, path: &str, vips: &[IpAddr], seen: &mut Seen, problems: &mut Problems) {
    let path = format!("{path}.networkConfig");
    for address in host.network.iter().flat_map(HostNetwork::addresses) {
        if vips.contains(&address) {
            problems.add(
                &path,
                format!("{address} is a VIP too"),
                "VIPs belong to no host: write another address",
            );
        }
        if let Some(other) = seen.addresses.insert(address, host.index)
            && other != host.index
        {
            problems.add(
                &path,
                format!("{address} is an address of hosts[{other}] too"),
                "every host has its own",
            );
        }
    }
}

/// Hosts with a role first, in the order masters, arbiters, workers; those without fill what is missing.
fn assign_roles(
    hosts: &mut [Host],
    wanted: &[Option<Role>],
    pools: [&Pool; 3],
    problems: &mut Problems,
) {
    let roles = [Role::Master, Role::Arbiter, Role::Worker];
    for (role, pool) in roles.into_iter().zip(pools) {
        let mut left = pool.replicas as usize;
        let by_role =
            |host: &Host, role: Option<Role>| wanted.get(host.index).copied().flatten() == role;
        for host in hosts.iter_mut().filter(|host| by_role(host, Some(role))) {
            host.role = Some(role);
            left = left.saturating_sub(1);
        }
        for host in hosts
            .iter_mut()
            .filter(|host| by_role(host, None) && host.role.is_none())
        {
            if left == 0 {
                break;
            }
            host.role = Some(role);
            left -= 1;
        }
        let found = hosts.iter().filter(|host| host.role == Some(role)).count();
        let replicas = pool.replicas as usize;
        // A host that has problems of its own still counts.
        let unread = wanted.len() - hosts.len();
        if found + unread < replicas {
            let pool = match role {
                Role::Master => "controlPlane",
                Role::Arbiter => "arbiter",
                Role::Worker => "compute[0]",
            };
            problems.add(
                PATH,
                format!("{found} hosts for {replicas} {}s", role.name()),
                format!("add hosts, or write {pool}.replicas: {found}"),
            );
        }
    }
    hosts.sort_by_key(|host| (host.role.is_none(), host.role));
}
