//! What DHCP is told by the configuration and by the nodes there are.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use model::Mac;
use protocols::dhcp::server::boot::{Boot as BootFiles, Table, arch};
use protocols::dhcp::server::{Config as Decisions, Identity, Known, Role};
use protocols::dhcp6::server as v6;

use crate::config::boot::{Boot, Dhcp, Dhcp6, Mode};
use crate::store::Tables;

/// A port that a node has: firmware of some is not to boot from us.
pub struct Card {
    pub mac: Mac,
    pub boots: bool,
}

pub fn cards(tables: &Tables) -> Vec<Card> {
    let ports = tables.ports.all().map(|port| Card {
        mac: port.address,
        boots: port.pxe_enabled,
    });
    ports.collect()
}

/// All of it. A client is its MAC here, for ROM, iPXE and agent call themselves differently.
pub fn decisions(
    dhcp: &Dhcp,
    address: Ipv4Addr,
    subnet: Ipv4Net,
    files: Option<BootFiles>,
    cards: &[Card],
) -> Decisions {
    let mut decisions = Decisions::new(address, subnet, dhcp.ranges.clone());
    decisions.times.default = dhcp.lease;
    decisions.times.max = decisions.times.max.max(dhcp.lease);
    decisions.options.router = dhcp.router;
    decisions.options.dns.clone_from(&dhcp.dns);
    decisions.options.ntp.clone_from(&dhcp.ntp);
    decisions.known_only = dhcp.known_only;
    decisions.identity = Identity::Mac;
    decisions.boot = files.unwrap_or(BootFiles::None);
    decisions.role = match dhcp.mode {
        Mode::Server | Mode::Off => Role::Addresses,
        Mode::Proxy => Role::BootFiles,
    };
    for card in cards {
        let known = Known {
            boot: (!card.boots).then_some(BootFiles::None),
            ..Known::default()
        };
        decisions.known.insert(card.mac, known);
    }
    for host in &dhcp.hosts {
        let known = decisions.known.entry(host.mac).or_default();
        known.address = host.address;
        known.hostname.clone_from(&host.hostname);
    }
    decisions
}

/// The loaders by architecture. Firmware's own network driver is used where it can be: loaders that bring theirs fail
/// on cards they do not know.
pub const LOADERS: [(u16, &[&str]); 3] = [
    (arch::BIOS, &["undionly.kpxe", "ipxe.pxe"]),
    (arch::UEFI_X64, &["snponly.efi", "ipxe.efi"]),
    (
        arch::UEFI_ARM64,
        &["arm64-efi/snponly.efi", "snponly-arm64.efi"],
    ),
];

/// The same over IPv6. We are known there by our address.
pub fn decisions6(boot: &Boot, dhcp6: &Dhcp6, cards: &[Card]) -> v6::Config {
    let http = format!("http://[{}]:{}", dhcp6.address, boot.http_port);
    let file = |arch: u16| {
        let (_, names) = LOADERS.iter().find(|(have, _)| *have == arch)?;
        names.iter().find(|name| boot.loaders.join(name).is_file())
    };
    let by_tftp = |arch| file(arch).map(|name| format!("tftp://[{}]/{name}", dhcp6.address));
    let by_http = |arch| file(arch).map(|name| format!("{http}/{name}"));
    let id = [&[0, 4][..], &dhcp6.address.octets()].concat();
    let hosts = boot.dhcp.hosts.iter().map(|host| host.mac);
    let known = cards.iter().map(|card| card.mac).chain(hosts);
    v6::Config {
        id,
        range: dhcp6.range.clone(),
        lease: boot.dhcp.lease,
        dns: Vec::new(),
        boot: Some(v6::Boot {
            x64: by_tftp(arch::UEFI_X64),
            arm64: by_tftp(arch::UEFI_ARM64),
            http_x64: by_http(arch::UEFI_X64),
            http_arm64: by_http(arch::UEFI_ARM64),
            ipxe: format!("{http}/boot.ipxe"),
        }),
        only: boot.dhcp.known_only.then(|| known.collect()),
    }
}

/// Which files there are for whom.
pub fn files(boot: &Boot, http_url: &str) -> BootFiles {
    let mut tftp = BTreeMap::new();
    for (arch, names) in LOADERS {
        let found = names.iter().find(|name| boot.loaders.join(name).is_file());
        if let Some(name) = found {
            tftp.insert(arch, (*name).to_owned());
        }
    }
    let over_http = [
        (arch::UEFI_X64, arch::HTTP_X64),
        (arch::UEFI_ARM64, arch::HTTP_ARM64),
    ];
    let http = over_http.into_iter().filter_map(|(by_tftp, by_http)| {
        let file = tftp.get(&by_tftp)?;
        Some((by_http, format!("{http_url}/{file}")))
    });
    BootFiles::Table(Table {
        next_server: boot.address,
        http: http.collect(),
        // A ROM that does not say what it is, is an old one.
        tftp_default: tftp.get(&arch::BIOS).cloned(),
        tftp,
        ipxe: Some(format!("{http_url}/boot.ipxe")),
    })
}
