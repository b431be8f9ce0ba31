//! Checks of the networks, by what is heard on them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::observed::{Advertisement, Offer, Wire};
use super::targets::{gateways, provisioning as provisioning_addresses, static_addresses};
use super::{Fact, Report, Site};
use crate::install_config::Mode;

/// Is the address one that our DHCP gives out?
pub fn in_range(site: &Site, address: IpAddr) -> bool {
    let range = site.plan.provisioning.dhcp_range;
    range.is_some_and(|(first, last)| {
        address.is_ipv4() == first.is_ipv4() && first <= address && address <= last
    })
}

fn external<'a>(site: &Site<'a>) -> (&'a str, Option<&'a Wire>) {
    let bridge = site.plan.bootstrap.external_bridge.as_str();
    (bridge, site.observed.wires.get(bridge))
}

/// The provisioning bridge, where there is such a network.
fn provisioning<'a>(site: &Site<'a>) -> Option<(&'a str, Option<&'a Wire>)> {
    let bridge = site.plan.bootstrap.provisioning_bridge.as_deref()?;
    match site.plan.provisioning.mode {
        Mode::Managed | Mode::Unmanaged => Some((bridge, site.observed.wires.get(bridge))),
        Mode::Disabled => None,
    }
}

/// A fact of a wire; one of a wire nobody listened to is unasked.
fn fact<T>(wire: Option<&Wire>, of: fn(&Wire) -> &Fact<T>) -> &Fact<T> {
    wire.map_or(&Fact::Unasked, of)
}

pub fn vips_free(site: &Site, report: &mut Report) {
    let (bridge, wire) = external(site);
    for vip in &site.plan.vips {
        let subject = format!("{} {}", vip.name, vip.address);
        let Some(claims) = report.known(&subject, fact(wire, |wire| &wire.claims)) else {
            continue;
        };
        match claims.get(&vip.address) {
            None => report.unknown(subject, "nobody was asked for it"),
            Some(None) => report.pass(subject, format!("nobody on {bridge} has it")),
            Some(Some(mac)) => report.bad(
                subject,
                format!("{mac} has it already"),
                "choose a free address, or switch off who has it",
            ),
        }
    }
}

pub fn vips_in_network(site: &Site, report: &mut Report) {
    for vip in &site.plan.vips {
        let subject = format!("{} {}", vip.name, vip.address);
        match vip.network {
            Some(net) if net.network() == vip.address || net.broadcast() == vip.address => report
                .bad(
                    subject,
                    format!("it is the network or broadcast address of {net}"),
                    "choose one of a host",
                ),
            Some(net) => report.pass(subject, format!("it is in {net}")),
            None if !site.plan.cluster.managed_load_balancer => {
                report.pass(subject, "it is the address of the site's balancer");
            }
            None => report.bad(
                subject,
                "it is in no machineNetwork",
                "choose one of networking.machineNetwork, or no node can hold it",
            ),
        }
    }
}

pub fn vips_not_leased(site: &Site, report: &mut Report) {
    let (_, wire) = external(site);
    for vip in &site.plan.vips {
        let subject = format!("{} {}", vip.name, vip.address);
        if in_range(site, vip.address) {
            report.bad(
                subject,
                "it is within provisioningDHCPRange",
                "take it out of the range, or it is given to a server",
            );
            continue;
        }
        let Some(offers) = report.known(&subject, fact(wire, |wire| &wire.offers)) else {
            continue;
        };
        match offers.iter().find(|offer| offer.address == vip.address) {
            Some(offer) => report.bad(
                subject,
                format!("the DHCP server {} gives it out", offer.server),
                "take it out of that server's range",
            ),
            None => report.pass(subject, "no DHCP server gave it out when asked"),
        }
    }
}

pub fn vips_not_ours(site: &Site, report: &mut Report) {
    for vip in &site.plan.vips {
        let subject = format!("{} {}", vip.name, vip.address);
        let Some(links) = report.known(&subject, &site.observed.links) else {
            continue;
        };
        let has = |port: &&super::Port| port.addresses.iter().any(|net| net.addr() == vip.address);
        match links.ports.iter().find(has) {
            Some(port) => report.bad(
                subject,
                format!("{} of this machine has it", port.name),
                "choose an address that nobody has",
            ),
            None => report.pass(subject, "this machine does not have it"),
        }
    }
}

pub fn vrids_quiet(site: &Site, report: &mut Report) {
    let (bridge, wire) = external(site);
    if !site.plan.cluster.managed_load_balancer {
        report.pass(
            bridge,
            "the site balances by itself: no virtual router of ours",
        );
        return;
    }
    let Some(heard) = report.known(bridge, fact(wire, |wire| &wire.vrrp)) else {
        return;
    };
    let ids: BTreeSet<u8> = site.plan.vips.iter().map(|vip| vip.vrid).collect();
    for id in ids {
        let strangers = |heard: &&Advertisement| heard.vrid == id;
        match heard.iter().find(strangers) {
            Some(heard) => report.bad(
                format!("VRID {id}"),
                format!("{} uses it on {bridge}", heard.from),
                "two clusters cannot share an id on one network: choose another metadata.name (plinth vrid NAME shows the ids)",
            ),
            None => report.pass(format!("VRID {id}"), format!("nobody on {bridge} uses it")),
        }
    }
}

pub fn no_foreign_dhcp(site: &Site, report: &mut Report) {
    let Some((bridge, wire)) = provisioning(site) else {
        report.pass("provisioning", "there is no provisioning network");
        return;
    };
    let Some(offers) = report.known(bridge, fact(wire, |wire| &wire.offers)) else {
        return;
    };
    match (site.plan.provisioning.mode, &offers[..]) {
        (Mode::Unmanaged, []) => report.bad(
            bridge,
            "no DHCP server answers, and with Unmanaged it is the site's task",
            "start one for the provisioning network, or write provisioningNetwork: Managed",
        ),
        (Mode::Unmanaged, [offer, ..]) => {
            report.pass(
                bridge,
                format!("the site's DHCP server {} answers", offer.server),
            );
        }
        (Mode::Managed | Mode::Disabled, []) => report.pass(bridge, "no other DHCP server answers"),
        (Mode::Managed | Mode::Disabled, offers) => {
            let servers: BTreeSet<String> = offers
                .iter()
                .map(|offer| offer.server.to_string())
                .collect();
            report.bad(
                bridge,
                format!("another DHCP server answers: {}", servers.into_iter().collect::<Vec<_>>().join(", ")),
                "switch it off on this network, or write provisioningNetwork: Unmanaged; servers would boot from it at random",
            );
        }
    }
}

pub fn site_dhcp(site: &Site, report: &mut Report) {
    let (bridge, wire) = external(site);
    let needs = site.plan.bootstrap.fixed.is_none()
        || site.plan.hosts.iter().any(|host| host.addresses.is_empty());
    if !needs {
        report.pass(bridge, "every node has a static address");
        return;
    }
    let v6_only = site
        .plan
        .networks
        .machine
        .iter()
        .all(|net| net.network().is_ipv6());
    if v6_only {
        report.unknown(
            bridge,
            "over IPv6 addresses come from routers as well; nobody was asked",
        );
        return;
    }
    let Some(offers) = report.known(bridge, fact(wire, |wire| &wire.offers)) else {
        return;
    };
    let inside = |offer: &&Offer| {
        site.plan
            .networks
            .machine
            .iter()
            .any(|net| net.contains(&offer.address))
    };
    match (offers.first(), offers.iter().find(inside)) {
        (None, _) => report.bad(
            bridge,
            "no DHCP server answers, and nodes without static addresses need one",
            "start one for the machine network, or give every host a networkConfig",
        ),
        (Some(offer), None) => report.bad(
            bridge,
            format!(
                "the DHCP server {} offers {}, which is in no machineNetwork",
                offer.server, offer.address
            ),
            "correct networking.machineNetwork, or the bridge",
        ),
        (Some(_), Some(offer)) => {
            report.pass(
                bridge,
                format!("the DHCP server {} offers {}", offer.server, offer.address),
            );
        }
    }
}

pub fn gateway(site: &Site, report: &mut Report) {
    let (bridge, wire) = external(site);
    let named = gateways(site.plan);
    if named.is_empty() {
        let Some(offers) = report.known(bridge, fact(wire, |wire| &wire.offers)) else {
            return;
        };
        // Who offers a router vouches for it.
        match offers.iter().find_map(|offer| offer.router) {
            Some(router) => report.pass(router, "the site's DHCP server names it as the router"),
            None => report.bad(
                bridge,
                "nobody names a gateway",
                "let the site's DHCP offer a router, if nodes are to reach beyond their network",
            ),
        }
        return;
    }
    for gateway in named {
        let Some(claims) = report.known(gateway, fact(wire, |wire| &wire.claims)) else {
            continue;
        };
        match claims.get(&gateway) {
            Some(Some(mac)) => report.pass(gateway, format!("{mac} answers")),
            Some(None) => report.bad(
                gateway,
                format!("no such gateway answers on {bridge}"),
                "correct the gateway, or the VLAN that the bridge is on",
            ),
            None => report.unknown(gateway, "nobody was asked for it"),
        }
    }
}

pub fn provisioning_free(site: &Site, report: &mut Report) {
    let Some((bridge, wire)) = provisioning(site) else {
        report.pass("provisioning", "there is no provisioning network");
        return;
    };
    free(
        site,
        report,
        (bridge, wire),
        &provisioning_addresses(site.plan),
    );
}

pub fn static_free(site: &Site, report: &mut Report) {
    let addresses = static_addresses(site.plan);
    let (bridge, wire) = external(site);
    if addresses.is_empty() {
        report.pass(bridge, "no node has a static address");
        return;
    }
    free(site, report, (bridge, wire), &addresses);
}

/// Neither somebody on the wire nor this machine has them.
fn free(
    site: &Site,
    report: &mut Report,
    (bridge, wire): (&str, Option<&Wire>),
    addresses: &BTreeSet<IpAddr>,
) {
    for address in addresses {
        let ours = site.observed.links.known().and_then(|links| {
            let has = |port: &&super::Port| port.addresses.iter().any(|net| net.addr() == *address);
            links.ports.iter().find(has)
        });
        if let Some(port) = ours {
            report.bad(
                address,
                format!("{} of this machine has it", port.name),
                "take it off this machine, or choose another",
            );
            continue;
        }
        let Some(claims) = report.known(address, fact(wire, |wire| &wire.claims)) else {
            continue;
        };
        match claims.get(address) {
            None => report.unknown(address, "nobody was asked for it"),
            Some(None) => report.pass(address, format!("nobody on {bridge} has it")),
            Some(Some(mac)) => report.bad(
                address,
                format!("{mac} on {bridge} has it already"),
                "choose a free address, or switch off who has it",
            ),
        }
    }
}
