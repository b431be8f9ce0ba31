//! The rack on paper: every name, address and MAC of a lab, chosen before anything is made.
//!
//! Pure: the same options give the same rack, so MACs and UUIDs are stable from one `lab up` to the next.

use std::net::{Ipv4Addr, SocketAddr};

use ipnet::Ipv4Net;
use model::Mac;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::bmc::personality::{self, Personality};
use crate::hardware::{Disk, Firmware, Hardware, Network, Nic};

/// What the operator may choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    pub name: String,
    pub servers: u16,
    pub kind: Kind,
    pub firmware: Firmware,
    /// Whose habits the BMCs have: a row of [`personality`].
    pub vendor: String,
    pub cpus: u32,
    pub memory_mib: u64,
    pub disks: u8,
    pub disk_gib: u64,
    /// Where the site's DNS asks for names it does not know.
    pub dns_upstreams: Vec<SocketAddr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "plinth".into(),
            servers: 4,
            kind: Kind::Qemu,
            firmware: Firmware::Uefi,
            vendor: "generic".into(),
            cpus: 1,
            memory_mib: 2048,
            disks: 1,
            disk_gib: 20,
            dns_upstreams: vec![],
        }
    }
}

/// What the servers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Qemu,
    Sim,
}

/// A rack with nothing left to choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rack {
    pub name: String,
    /// The network namespace that holds all of it.
    pub namespace: String,
    pub kind: Kind,
    pub site: Site,
    /// Where the BMCs answer: routed, beside the machine network.
    pub management: Ipv4Net,
    pub bmc_user: String,
    pub places: Vec<Place>,
}

/// What an organisation's network offers on `baremetal`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Site {
    pub subnet: Ipv4Net,
    /// The router, which is also the DHCP and DNS server.
    pub router: Ipv4Addr,
    pub pool: (Ipv4Addr, Ipv4Addr),
    pub domain: String,
    pub dns_upstreams: Vec<SocketAddr>,
}

/// One place in the rack: a server and its BMC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Place {
    pub hardware: Hardware,
    pub firmware: Firmware,
    pub vendor: String,
    pub bmc: Ipv4Addr,
}

/// Why there can be no such rack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error(
        "--name {0:?}: use 1 to 11 lower-case letters, digits or dashes, starting with a letter"
    )]
    Name(String),
    #[error("--servers {0}: a rack holds 1 to {MAX_SERVERS}")]
    Servers(u16),
    #[error("--vendor {given:?} is not known; there are {known}")]
    Vendor { given: String, known: String },
    #[error("--cpus {0}: a server has 1 to 64")]
    Cpus(u32),
    #[error("--memory {0}: a server needs at least 512 MiB")]
    Memory(u64),
    #[error("--disks {0}: a server has 1 to 8")]
    Disks(u8),
    #[error("--disk-size {0}: a disk has 1 to 16384 GiB")]
    DiskSize(u64),
}

/// Addresses from .20 up leave room below for a cluster's virtual IPs, as sites do.
const FIRST_LEASE: u32 = 20;
const MAX_SERVERS: u16 = 2000;
const GIB: u64 = 1 << 30;

impl Rack {
    /// Lays out the rack, or says everything that is wrong with the options.
    pub fn plan(options: &Options) -> Result<Self, Vec<Problem>> {
        let problems = problems(options);
        if !problems.is_empty() {
            return Err(problems);
        }
        let subnet = Self::baremetal(options.servers);
        let host = |n: u32| Ipv4Addr::from(u32::from(subnet.network()) + n);
        let last = u32::from(subnet.broadcast()) - u32::from(subnet.network()) - 1;
        let site = Site {
            subnet,
            router: host(1),
            pool: (host(FIRST_LEASE), host(last)),
            domain: format!("{}.test", options.name),
            dns_upstreams: options.dns_upstreams.clone(),
        };
        let management = Ipv4Net::new_assert(Ipv4Addr::new(10, 120, 0, 0), 16);
        let places = (0..options.servers)
            .map(|index| place(options, management, index))
            .collect();
        Ok(Self {
            name: options.name.clone(),
            namespace: format!("plinth-{}", options.name),
            kind: options.kind,
            site,
            management,
            bmc_user: "admin".into(),
            places,
        })
    }

    fn baremetal(servers: u16) -> Ipv4Net {
        if servers <= 200 {
            Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 111, 0), 24)
        } else {
            Ipv4Net::new_assert(Ipv4Addr::new(10, 111, 0, 0), 16)
        }
    }
}

fn problems(options: &Options) -> Vec<Problem> {
    let mut problems = vec![];
    let name = &options.name;
    let good_name = (1..=11).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !good_name {
        problems.push(Problem::Name(name.clone()));
    }
    if !(1..=MAX_SERVERS).contains(&options.servers) {
        problems.push(Problem::Servers(options.servers));
    }
    if Personality::named(&options.vendor).is_none() {
        let known = personality::ALL
            .iter()
            .map(|p| p.name)
            .collect::<Vec<_>>()
            .join(", ");
        problems.push(Problem::Vendor {
            given: options.vendor.clone(),
            known,
        });
    }
    if !(1..=64).contains(&options.cpus) {
        problems.push(Problem::Cpus(options.cpus));
    }
    if options.memory_mib < 512 {
        problems.push(Problem::Memory(options.memory_mib));
    }
    if !(1..=8).contains(&options.disks) {
        problems.push(Problem::Disks(options.disks));
    }
    if !(1..=16384).contains(&options.disk_gib) {
        problems.push(Problem::DiskSize(options.disk_gib));
    }
    problems
}

fn place(options: &Options, management: Ipv4Net, index: u16) -> Place {
    let name = format!("server-{index}");
    let uuid = Uuid::new_v5(
        &Uuid::NAMESPACE_DNS,
        format!("{name}.{}.plinth.lab", options.name).as_bytes(),
    );
    let serial = format!("PL{:08X}", uuid.as_fields().0);
    let nics = Network::ALL.map(|network| Nic {
        network,
        mac: mac(&options.name, network, index),
        // Names of network links end at 15 characters.
        port: match network {
            Network::Baremetal => format!("bm{index}"),
            Network::Provisioning => format!("pr{index}"),
        },
    });
    let disks = (0..options.disks)
        .map(|disk| Disk {
            serial: format!("{serial}-{disk}"),
            size_bytes: options.disk_gib * GIB,
        })
        .collect();
    Place {
        hardware: Hardware {
            name,
            uuid,
            serial,
            cpus: options.cpus,
            memory_mib: options.memory_mib,
            nics: nics.to_vec(),
            disks,
        },
        firmware: options.firmware,
        vendor: options.vendor.clone(),
        bmc: Ipv4Addr::from(u32::from(management.network()) + 10 + u32::from(index)),
    }
}

/// QEMU's prefix with the local bit, one octet of the lab's name, the network, and the place.
fn mac(lab: &str, network: Network, index: u16) -> Mac {
    let lab = lab
        .bytes()
        .fold(7_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    let network = match network {
        Network::Baremetal => 0xb0,
        Network::Provisioning => 0xb1,
    };
    let [high, low] = index.to_be_bytes();
    Mac([0x52, 0x54, lab, network, high, low])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_large_rack_has_no_address_mac_or_uuid_twice() {
        let rack = Rack::plan(&Options {
            servers: MAX_SERVERS,
            ..Options::default()
        })
        .unwrap();
        let macs: BTreeSet<_> = rack
            .places
            .iter()
            .flat_map(|p| p.hardware.nics.iter().map(|n| n.mac))
            .collect();
        let uuids: BTreeSet<_> = rack.places.iter().map(|p| p.hardware.uuid).collect();
        let bmcs: BTreeSet<_> = rack.places.iter().map(|p| p.bmc).collect();
        let n = usize::from(MAX_SERVERS);
        assert_eq!((macs.len(), uuids.len(), bmcs.len()), (2 * n, n, n));
        assert!(bmcs.iter().all(|address| rack.management.contains(address)));
        assert!(macs.iter().all(|mac| !mac.is_multicast()));
    }

    #[test]
    fn the_same_options_give_the_same_rack_and_another_name_another() {
        let plan = |name: &str| {
            Rack::plan(&Options {
                name: name.into(),
                ..Options::default()
            })
            .unwrap()
        };
        assert_eq!(plan("a"), plan("a"));
        assert_ne!(
            plan("a").places[0].hardware.nics[0].mac,
            plan("b").places[0].hardware.nics[0].mac
        );
    }

    #[test]
    fn every_problem_is_named_at_once() {
        let options = Options {
            name: "A b".into(),
            servers: 0,
            memory_mib: 1,
            disks: 0,
            ..Options::default()
        };
        assert_eq!(Rack::plan(&options).unwrap_err().len(), 4);
    }
}
