//! Checks of the servers: do they have what their role needs, and what the plan names?

use std::collections::BTreeMap;

use model::Mac;
use model::inventory::Disk;
use model::root_device::{Hints, SelectError};
use serde_json::Value;

use super::bmc::open;
use super::{Report, Site};
use crate::cluster::{HostPlan, Plan};
use crate::install_config::{Payload, Role};

/// What a server must have.
struct Minimum {
    cpus: u32,
    memory_mib: u64,
    disk_gib: u64,
}

/// For the builtin payload what its daemons need; for Kubernetes what its own installers ask for.
fn minimum(plan: &Plan, role: Option<Role>) -> Minimum {
    let (cpus, memory_mib, disk_gib) = match (&plan.cluster.payload, role) {
        (Payload::Builtin, Some(Role::Master)) => (1, 2000, 8),
        (Payload::Builtin, Some(Role::Arbiter | Role::Worker) | None) => (1, 1000, 8),
        (Payload::Kubernetes { .. }, Some(Role::Master)) => (4, 8000, 50),
        (Payload::Kubernetes { .. }, Some(Role::Arbiter | Role::Worker) | None) => (2, 4000, 30),
    };
    Minimum {
        cpus,
        memory_mib,
        disk_gib,
    }
}

fn role(host: &HostPlan) -> &'static str {
    host.role.map_or("host in reserve", Role::name)
}

pub fn memory(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let least = minimum(site.plan, host.role).memory_mib;
        let Some(has) = report.known(&host.name, &server.memory_mib) else {
            continue;
        };
        if *has >= least {
            report.pass(&host.name, format!("it has {has} MiB of memory"));
        } else {
            report.bad(
                &host.name,
                format!("it has {has} MiB of memory; a {} needs {least}", role(host)),
                "add memory, or give it another role",
            );
        }
    }
}

pub fn processors(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let least = minimum(site.plan, host.role).cpus;
        let Some(has) = report.known(&host.name, &server.cpus) else {
            continue;
        };
        if *has >= least {
            report.pass(&host.name, format!("it has {has} processors"));
        } else {
            report.bad(
                &host.name,
                format!("it has {has} processors; a {} needs {least}", role(host)),
                "take a larger server, or give it another role",
            );
        }
    }
}

pub fn architecture(site: &Site, report: &mut Report) {
    let kernel = match site.plan.cluster.architecture.as_str() {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    };
    for (host, server) in open(site, report) {
        let Some(has) = report.known(&host.name, &server.architecture) else {
            continue;
        };
        if has == kernel {
            report.pass(&host.name, format!("it is {has}"));
        } else {
            report.bad(
                &host.name,
                format!("it is {has}, and the cluster is {kernel}"),
                "all hosts are of one architecture; leave this one out",
            );
        }
    }
}

pub fn boot_mac(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let Some(nics) = report.known(&host.name, &server.nics) else {
            continue;
        };
        let mac = host.boot_mac;
        if nics.is_empty() {
            report.unknown(&host.name, "the BMC lists no network cards");
        } else if nics.iter().any(|nic| nic.mac == mac) {
            report.pass(&host.name, format!("it has a card {mac}"));
        } else {
            let has: Vec<String> = nics.iter().map(|nic| nic.mac.to_string()).collect();
            report.bad(
                &host.name,
                format!("no card of it is {mac}; it has {}", has.join(", ")),
                "correct bootMACAddress, or bmc.address if it is another server's",
            );
        }
    }
}

pub fn boot_link(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let Some(nics) = report.known(&host.name, &server.nics) else {
            continue;
        };
        match nics.iter().find(|nic| nic.mac == host.boot_mac) {
            None => report.unknown(&host.name, "the BMC does not list the card it boots from"),
            Some(nic) if nic.link => {
                report.pass(&host.name, format!("card {} has a link", nic.mac));
            }
            // Many BMCs know the link of a running server only.
            Some(_) if server.on != Some(true) => {
                report.unknown(&host.name, "a server that is off shows no links");
            }
            Some(nic) => report.bad(
                &host.name,
                format!("card {} has no link", nic.mac),
                "check its cable and the port of the switch",
            ),
        }
    }
}

pub fn macs(site: &Site, report: &mut Report) {
    let plan = site.plan;
    let mut owners: BTreeMap<Mac, Vec<String>> = BTreeMap::new();
    let mut own = |mac: Mac, who: String| owners.entry(mac).or_default().push(who);
    for host in &plan.hosts {
        own(host.boot_mac, host.name.clone());
    }
    own(plan.bootstrap.external_mac, "the bootstrap VM".into());
    if let Some(mac) = plan.bootstrap.provisioning_mac {
        own(mac, "the bootstrap VM".into());
    }
    if let Some(links) = site.observed.links.known() {
        for port in &links.ports {
            // A bridge has the address of one of its ports.
            if let Some(mac) = port.mac.filter(|_| !port.bridge) {
                own(mac, format!("{} of this machine", port.name));
            }
        }
    }
    for (name, bmc) in &site.observed.bmcs {
        let super::Bmc::Open(server) = bmc else {
            continue;
        };
        for nic in server.nics.known().into_iter().flatten() {
            let boots = plan
                .hosts
                .iter()
                .any(|host| host.name == *name && host.boot_mac == nic.mac);
            if !boots {
                own(nic.mac, name.clone());
            }
        }
    }
    let mut good = true;
    for (mac, mut who) in owners {
        who.dedup();
        if who.len() > 1 {
            good = false;
            report.bad(
                mac,
                format!("it is the address of {}", who.join(" and of ")),
                "each card needs an address of its own; correct bootMACAddress, or the card that was cloned",
            );
        }
    }
    if good {
        report.pass("hosts", "every card has an address of its own");
    }
}

/// What only the running system knows of a disk.
const NOT_FOR_BMCS: [&str; 5] = [
    "name",
    "hctl",
    "by_path",
    "wwn_with_extension",
    "wwn_vendor_extension",
];

pub fn root_device(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let Some(disks) = report.known(&host.name, &server.disks) else {
            continue;
        };
        if disks.is_empty() {
            report.unknown(&host.name, "the BMC lists no disks");
            continue;
        }
        match select(&host.disk.root_device, disks) {
            Selected::One(disk) => {
                report.pass(&host.name, format!("the plan means {}", named(disk)));
            }
            Selected::Unsaid(why) => report.unknown(&host.name, why),
            Selected::Wrong(error) => {
                let them: Vec<String> = disks.iter().map(named).collect();
                report.bad(
                    &host.name,
                    format!("{error}; it has {}", them.join(", ")),
                    "correct rootDeviceHints so that they name one disk; nothing is erased by guessing",
                );
            }
        }
    }
}

enum Selected<'a> {
    One(&'a Disk),
    /// The BMC cannot know.
    Unsaid(String),
    Wrong(SelectError),
}

/// Applies those hints that a BMC can judge.
fn select<'a>(hints: &Value, disks: &'a [Disk]) -> Selected<'a> {
    let all: BTreeMap<String, Value> = serde_json::from_value(hints.clone()).unwrap_or_default();
    let unsaid = |name: &String| {
        let lacks = match name.as_str() {
            "serial" => disks.iter().all(|disk| disk.serial.is_none()),
            "wwn" => disks.iter().all(|disk| disk.wwn.is_none()),
            "vendor" => disks.iter().all(|disk| disk.vendor.is_none()),
            "model" => disks.iter().all(|disk| disk.model.is_empty()),
            _ => false,
        };
        lacks || NOT_FOR_BMCS.contains(&name.as_str())
    };
    let (unsaid, said): (BTreeMap<_, _>, BTreeMap<_, _>) =
        all.into_iter().partition(|(name, _)| unsaid(name));
    let words = || {
        format!(
            "a BMC does not know a disk's {}",
            unsaid.keys().cloned().collect::<Vec<_>>().join(", ")
        )
    };
    if said.is_empty() && !unsaid.is_empty() {
        return Selected::Unsaid(words());
    }
    let Ok(hints) = Hints::parse(&said) else {
        return Selected::Unsaid("the hints cannot be read".into());
    };
    match hints.select(disks) {
        Ok(disk) => Selected::One(disk),
        // What the BMC cannot judge may tell them apart.
        Err(SelectError::Several(_)) if !unsaid.is_empty() => Selected::Unsaid(words()),
        Err(error) => Selected::Wrong(error),
    }
}

fn named(disk: &Disk) -> String {
    let serial = disk
        .serial
        .as_deref()
        .map(|serial| format!(" serial {serial}"))
        .unwrap_or_default();
    format!("{} ({} GiB{serial})", disk.name, disk.size >> 30)
}

pub fn disk_size(site: &Site, report: &mut Report) {
    for (host, server) in open(site, report) {
        let least = minimum(site.plan, host.role).disk_gib;
        let Some(disks) = report.known(&host.name, &server.disks) else {
            continue;
        };
        let meant = match select(&host.disk.root_device, disks) {
            Selected::One(disk) => Some(disk),
            // Whichever it is, it is no larger than the largest.
            Selected::Unsaid(_) => disks.iter().max_by_key(|disk| disk.size),
            Selected::Wrong(_) => None,
        };
        match meant {
            None => report.unknown(&host.name, "it is not known which disk is meant"),
            Some(disk) if disk.size >> 30 >= least => {
                report.pass(&host.name, format!("{} is large enough", named(disk)));
            }
            Some(disk) => report.bad(
                &host.name,
                format!(
                    "{} is too small: a {} needs {least} GiB",
                    named(disk),
                    role(host)
                ),
                "name a larger disk in rootDeviceHints",
            ),
        }
    }
}
