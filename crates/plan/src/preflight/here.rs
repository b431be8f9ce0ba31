//! Checks of the machine that runs the bootstrap VM.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::observed::{Links, Listening, Port, Transport};
use super::targets::{bootstrap_addresses, resolvers};
use super::{Fact, Report, Site};
use crate::install_config::Mode;

const HERE: &str = "this machine";
/// The bootstrap's disk grows as it is written; what it writes is this.
const BOOTSTRAP_DISK_MIB: u64 = 8 * 1024;
/// An OS image and a ramdisk, and what is needed to make them.
const CACHE_MIB: u64 = 4 * 1024;
/// What the machine itself needs beside the VM.
const SPARE_MIB: u64 = 512;

pub fn root(site: &Site, report: &mut Report) {
    let Some(here) = report.known(HERE, &site.observed.here) else {
        return;
    };
    if here.root {
        report.pass(HERE, "this runs as root");
    } else {
        report.bad(
            HERE,
            "this does not run as root",
            "run it as root: the bootstrap VM needs taps on the bridges, and probes need packet sockets",
        );
    }
}

pub fn processors(site: &Site, report: &mut Report) {
    let Some(here) = report.known(HERE, &site.observed.here) else {
        return;
    };
    let wanted = site.plan.bootstrap.cpus;
    if here.cpus >= wanted {
        report.pass(HERE, format!("it has {} processors", here.cpus));
    } else {
        report.bad(
            HERE,
            format!(
                "it has {} processors, and the bootstrap VM is given {wanted}",
                here.cpus
            ),
            "expect the install to take longer, or use a larger machine",
        );
    }
}

pub fn memory(site: &Site, report: &mut Report) {
    let Some(here) = report.known(HERE, &site.observed.here) else {
        return;
    };
    let wanted = u64::from(site.plan.bootstrap.memory_mib) + SPARE_MIB;
    if here.memory_mib >= wanted {
        report.pass(HERE, format!("{} MiB of memory are free", here.memory_mib));
    } else {
        report.bad(
            HERE,
            format!(
                "{} MiB of memory are free, and {wanted} are needed",
                here.memory_mib
            ),
            "end other programs, or use a larger machine",
        );
    }
}

pub fn disk(site: &Site, report: &mut Report) {
    let Some(here) = report.known(HERE, &site.observed.here) else {
        return;
    };
    let wanted = BOOTSTRAP_DISK_MIB + CACHE_MIB;
    let (free, path) = (here.disk_mib, &here.disk_path);
    if free >= wanted {
        report.pass(path, format!("{free} MiB are free"));
    } else {
        report.bad(
            path,
            format!("{free} MiB are free, and {wanted} are needed"),
            "free space there, or set XDG_CACHE_HOME to a larger disk",
        );
    }
}

pub fn kvm(site: &Site, report: &mut Report) {
    let Some(here) = report.known(HERE, &site.observed.here) else {
        return;
    };
    match &here.no_kvm {
        None => report.pass(HERE, "KVM can be used"),
        Some(why) => report.bad(
            HERE,
            format!("the bootstrap VM runs by emulation, several times slower: {why}"),
            "switch virtualization on in the firmware, or load the module kvm_intel or kvm_amd",
        ),
    }
}

pub fn programs(site: &Site, report: &mut Report) {
    let Some(here) = report.known(HERE, &site.observed.here) else {
        return;
    };
    if here.missing.is_empty() {
        report.pass(HERE, "QEMU and its firmware are there");
    }
    for missing in &here.missing {
        report.bad(
            missing,
            "it is not installed",
            "install the packages qemu-system-x86, qemu-utils and ovmf",
        );
    }
}

/// The bridges that the plan names, external first.
fn bridges<'a>(site: &Site<'a>) -> Vec<&'a str> {
    let bootstrap = &site.plan.bootstrap;
    let provisioning = match site.plan.provisioning.mode {
        Mode::Managed | Mode::Unmanaged => bootstrap.provisioning_bridge.as_deref(),
        Mode::Disabled => None,
    };
    let external = [bootstrap.external_bridge.as_str()];
    external.into_iter().chain(provisioning).collect()
}

/// Every bridge that is there; those that are not have a check of their own.
fn present<'a>(site: &Site<'a>, report: &mut Report) -> Vec<(&'a Links, &'a Port)> {
    let mut present = Vec::new();
    for bridge in bridges(site) {
        let Some(links) = report.known(bridge, &site.observed.links) else {
            continue;
        };
        match links.port(bridge) {
            Some(port) => present.push((links, port)),
            None => report.unknown(bridge, "there is no such link"),
        }
    }
    present
}

pub fn bridge_present(site: &Site, report: &mut Report) {
    for bridge in bridges(site) {
        let Some(links) = report.known(bridge, &site.observed.links) else {
            continue;
        };
        match links.port(bridge) {
            None => report.bad(
                bridge,
                "this machine has no such link",
                "make the bridge, or correct externalBridge or provisioningBridge",
            ),
            Some(port) if !port.bridge => report.bad(
                bridge,
                "it is a network card, not a bridge",
                "make a bridge with the card as its port: a VM cannot be plugged into a card",
            ),
            Some(_) => report.pass(bridge, "it is a bridge"),
        }
    }
}

pub fn bridge_up(site: &Site, report: &mut Report) {
    for (links, bridge) in present(site, report) {
        let ports: Vec<&Port> = links.ports_of(&bridge.name).collect();
        if !bridge.up {
            report.bad(
                &bridge.name,
                "it is down",
                format!("ip link set {} up", bridge.name),
            );
        } else if ports.is_empty() {
            report.bad(
                &bridge.name,
                "it has no port: it leads nowhere",
                "plug the network card that leads to the servers into it",
            );
        } else if ports.iter().any(|port| port.carrier) {
            report.pass(&bridge.name, "a port of it has a link");
        } else if ports.iter().all(|port| port.tap) {
            report.pass(
                &bridge.name,
                "its ports are virtual machines', and all of them are off",
            );
        } else {
            let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
            report.bad(
                &bridge.name,
                format!("none of its ports has a link: {}", names.join(", ")),
                "check the cable and the switch",
            );
        }
    }
}

pub fn bridge_mtu(site: &Site, report: &mut Report) {
    for (links, bridge) in present(site, report) {
        let odd: Vec<String> = links
            .ports_of(&bridge.name)
            .filter(|port| port.mtu != bridge.mtu)
            .map(|port| format!("{} {}", port.name, port.mtu))
            .collect();
        if odd.is_empty() {
            report.pass(
                &bridge.name,
                format!("it and its ports have MTU {}", bridge.mtu),
            );
        } else {
            report.bad(
                &bridge.name,
                format!(
                    "it has MTU {}, and its ports differ: {}",
                    bridge.mtu,
                    odd.join(", ")
                ),
                "give all of them one MTU: large packets are lost without a word",
            );
        }
    }
}

pub fn host_mtu(site: &Site, report: &mut Report) {
    let bridge = &site.plan.bootstrap.external_bridge;
    let Some(links) = report.known(bridge, &site.observed.links) else {
        return;
    };
    let Some(port) = links.port(bridge) else {
        report.unknown(bridge, "there is no such link");
        return;
    };
    let mut good = true;
    for host in &site.plan.hosts {
        let interfaces = host.network.iter().flat_map(|network| &network.interfaces);
        // The one that carries the machine network, by its address.
        let carries = |net: &IpNet| {
            site.plan
                .networks
                .machine
                .iter()
                .any(|machine| machine.contains(&net.addr()))
        };
        let mtus = interfaces
            .filter(|interface| {
                let families = [&interface.ipv4, &interface.ipv6];
                families
                    .iter()
                    .any(|family| family.addresses.iter().any(carries))
            })
            .filter_map(|interface| Some((&interface.name, interface.mtu?)));
        for (name, mtu) in mtus.filter(|(_, mtu)| *mtu != port.mtu) {
            good = false;
            report.bad(
                &host.name,
                format!("{name} is to have MTU {mtu}, and {bridge} has {}", port.mtu),
                "use one MTU on the machine network; the bootstrap is on the bridge",
            );
        }
    }
    if good {
        report.pass(bridge, format!("hosts use its MTU {}", port.mtu));
    }
}

pub fn separate(site: &Site, report: &mut Report) {
    let bootstrap = &site.plan.bootstrap;
    let Some((provisioning, Mode::Managed | Mode::Unmanaged)) = bootstrap
        .provisioning_bridge
        .as_deref()
        .map(|bridge| (bridge, site.plan.provisioning.mode))
    else {
        report.pass("provisioning", "there is no provisioning network");
        return;
    };
    let Some(links) = report.known(provisioning, &site.observed.links) else {
        return;
    };
    if provisioning == bootstrap.external_bridge {
        report.bad(
            provisioning,
            "it is the external bridge as well",
            "give the provisioning network a bridge of its own, or write provisioningNetwork: Disabled",
        );
    } else if links.default_link.as_deref() == Some(provisioning) {
        report.bad(
            provisioning,
            "this machine's default route leads over it",
            "the provisioning network must lead nowhere else: our DHCP would serve it all",
        );
    } else {
        report.pass(provisioning, "it leads to the servers alone");
    }
}

/// What answers there now would take the bootstrap's place.
pub fn ports_free(site: &Site, report: &mut Report) {
    for address in bootstrap_addresses(site.plan) {
        let fact = site
            .observed
            .open_ports
            .get(&address)
            .unwrap_or(&Fact::Unasked);
        let Some(open) = report.known(address, fact) else {
            continue;
        };
        if open.is_empty() {
            report.pass(address, "nothing answers there");
        } else {
            let open: Vec<String> = open.iter().map(ToString::to_string).collect();
            report.bad(
                address,
                format!("something answers on port {}", open.join(", ")),
                "it is to be the bootstrap's address: end what answers there, or choose another",
            );
        }
    }
    if bootstrap_addresses(site.plan).is_empty() {
        report.pass("bootstrap", "its address is the site's to give");
    }
}

/// DHCP for IPv4 and IPv6, and TFTP.
const BOOT_PORTS: [u16; 3] = [67, 547, 69];

pub fn no_local_dhcp(site: &Site, report: &mut Report) {
    let Some(bridge) = bridges(site).get(1).copied() else {
        report.pass("provisioning", "there is no provisioning network");
        return;
    };
    let Some(listening) = report.known(bridge, &site.observed.listening) else {
        return;
    };
    let Some(links) = report.known(bridge, &site.observed.links) else {
        return;
    };
    let boots = |socket: &&Listening| {
        socket.transport == Transport::Udp && BOOT_PORTS.contains(&socket.port)
    };
    let ports_where = |is: &dyn Fn(&IpAddr) -> bool| -> Vec<String> {
        let sockets = listening.iter().filter(boots);
        let ports: BTreeSet<u16> = sockets
            .filter(|socket| is(&socket.address))
            .map(|socket| socket.port)
            .collect();
        ports.iter().map(ToString::to_string).collect()
    };
    let own: Vec<IpAddr> = links
        .port(bridge)
        .into_iter()
        .flat_map(|port| port.addresses.iter().map(IpNet::addr))
        .collect();
    let there = ports_where(&|address| own.contains(address));
    // Such a socket may be held to another link, which only a question on the wire tells.
    let anywhere = ports_where(&IpAddr::is_unspecified);
    let asked = site.observed.wires.get(bridge);
    let asked = asked.is_some_and(|wire| wire.offers.known().is_some());
    if !there.is_empty() {
        report.bad(
            bridge,
            format!(
                "a program of this machine listens there on UDP {}",
                there.join(", ")
            ),
            "a dnsmasq of libvirt or another DHCP server would answer servers: keep it off this bridge",
        );
    } else if !anywhere.is_empty() && !asked {
        report.unknown(
            bridge,
            format!(
                "a program of this machine listens on UDP {}, and nobody asked whether it answers there",
                anywhere.join(", ")
            ),
        );
    } else {
        report.pass(bridge, "no program of this machine serves boots there");
    }
}

/// Addresses inside the cluster hide those outside that are the same.
pub fn disjoint(site: &Site, report: &mut Report) {
    let plan = site.plan;
    let cluster = plan
        .networks
        .cluster
        .iter()
        .map(|net| (net.cidr, "clusterNetwork"));
    let service = plan
        .networks
        .service
        .iter()
        .map(|net| (*net, "serviceNetwork"));
    let inner: Vec<(IpNet, &str)> = cluster.chain(service).collect();
    let hides = |net: IpNet| {
        inner
            .iter()
            .find(|(inside, _)| inside.contains(&net) || net.contains(inside))
    };
    let mut outside: Vec<(String, IpNet)> = Vec::new();
    if let Some(links) = report.known("networks", &site.observed.links) {
        let routed = links.routes.iter().filter(|net| net.prefix_len() > 0);
        outside.extend(routed.map(|net| ("this machine's route to".to_owned(), *net)));
    }
    let mut address = |what: String, address: IpAddr| outside.push((what, IpNet::from(address)));
    for host in &plan.hosts {
        if let Ok(bmc) = host.bmc.address.host.parse() {
            address(format!("the BMC of {},", host.name), bmc);
        }
    }
    for resolver in resolvers(plan) {
        address("the name server".into(), resolver);
    }
    for server in plan
        .cluster
        .ntp_servers
        .iter()
        .filter_map(|server| server.parse().ok())
    {
        address("the NTP server".into(), server);
    }
    let mut good = true;
    for (what, net) in outside {
        if let Some((inside, name)) = hides(net) {
            good = false;
            report.bad(
                format!("{name} {inside}"),
                format!("{what} {net} would be hidden by it"),
                format!("choose another {name}"),
            );
        }
    }
    if good {
        report.pass(
            "networks",
            "the cluster's own networks hide nothing that is known",
        );
    }
}
