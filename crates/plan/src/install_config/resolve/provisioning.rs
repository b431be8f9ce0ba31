//! The provisioning network: its addresses, and who gives them out.

use std::net::IpAddr;

use ipnet::IpNet;

use super::super::written;
use super::super::{Mode, Networking, Provisioning};
use super::known;
use super::networking::parse_net;
use super::text::shown;
use crate::problem::Problems;
use crate::subnet::nth;

const PATH: &str = "platform.baremetal";

pub fn resolve(
    baremetal: &written::BareMetal,
    networking: &Networking,
    problems: &mut Problems,
) -> Option<Provisioning> {
    let at = |field: &str| format!("{PATH}.{field}");
    let word = baremetal
        .provisioning_network
        .as_deref()
        .unwrap_or_default();
    known(
        &at("provisioningNetwork"),
        word,
        &["Managed", "Unmanaged", "Disabled"],
        problems,
    );
    let mode = match word {
        "Managed" => Mode::Managed,
        "Unmanaged" => Mode::Unmanaged,
        "Disabled" => Mode::Disabled,
        _ => return None,
    };
    let address = |field: &str, text: Option<&String>, problems: &mut Problems| {
        let text = text?;
        let parsed = text.parse::<IpAddr>().ok();
        if parsed.is_none() {
            problems.add(
                at(field),
                format!("{} is not an IP address", shown(text)),
                "write one such as 172.22.0.3",
            );
        }
        parsed
    };
    let cluster_ip = address(
        "clusterProvisioningIP",
        baremetal.cluster_provisioning_ip.as_ref(),
        problems,
    );
    let bootstrap_ip = address(
        "bootstrapProvisioningIP",
        baremetal.bootstrap_provisioning_ip.as_ref(),
        problems,
    );
    let gateway = address(
        "provisioningNetworkGateway",
        baremetal.provisioning_network_gateway.as_ref(),
        problems,
    );
    for (field, set) in [
        (
            "provisioningDHCPRange",
            baremetal.provisioning_dhcp_range.is_some(),
        ),
        ("provisioningNetworkGateway", gateway.is_some()),
    ] {
        if set && mode != Mode::Managed {
            problems.add(
                at(field),
                format!("has no meaning with provisioningNetwork: {word}"),
                "remove it, or write provisioningNetwork: Managed",
            );
        }
    }
    let interface = baremetal.provisioning_network_interface.clone();
    if mode == Mode::Disabled {
        let cidr = baremetal.provisioning_network_cidr.as_deref();
        let cidr = cidr.and_then(|text| parse_net(&at("provisioningNetworkCIDR"), text, problems));
        return Some(disabled(
            interface,
            cidr,
            cluster_ip,
            bootstrap_ip,
            networking,
            problems,
        ));
    }
    let cidr = baremetal
        .provisioning_network_cidr
        .as_deref()
        .unwrap_or("172.22.0.0/24");
    let cidr = parse_net(&at("provisioningNetworkCIDR"), cidr, problems)?;
    check_cidr(cidr, mode, networking, problems);
    let bootstrap_ip = bootstrap_ip.or_else(|| nth(cidr, 2));
    let cluster_ip = cluster_ip.or_else(|| nth(cidr, 3));
    for (field, ip) in [
        ("bootstrapProvisioningIP", bootstrap_ip),
        ("clusterProvisioningIP", cluster_ip),
    ] {
        let Some(ip) = ip else { continue };
        if !cidr.contains(&ip) || is_edge(&cidr, ip) {
            problems.add(
                at(field),
                format!("{ip} is not an address of {cidr}"),
                format!("write one of {cidr}"),
            );
        }
        if let Some(net) = networking.machine.iter().find(|net| net.contains(&ip)) {
            problems.add(
                at(field),
                format!("{ip} is in the machine network {net}"),
                format!("write an address of {cidr}"),
            );
        }
    }
    if bootstrap_ip.is_some() && bootstrap_ip == cluster_ip {
        problems.add(
            at("clusterProvisioningIP"),
            "is bootstrapProvisioningIP too",
            "both are in use at the same time: write two addresses",
        );
    }
    let dhcp_range = match mode {
        Mode::Managed => dhcp_range(baremetal, cidr, problems),
        Mode::Unmanaged | Mode::Disabled => None,
    };
    let in_range = |ip: IpAddr| dhcp_range.is_some_and(|(start, end)| start <= ip && ip <= end);
    for (field, ip) in [
        ("bootstrapProvisioningIP", bootstrap_ip),
        ("clusterProvisioningIP", cluster_ip),
        ("provisioningNetworkGateway", gateway),
    ] {
        if let Some(ip) = ip.filter(|ip| in_range(*ip)) {
            problems.add(
                at("provisioningDHCPRange"),
                format!("holds {ip}, the {field}"),
                "begin the range behind it",
            );
        }
    }
    if let Some(gateway) = gateway {
        if !cidr.contains(&gateway) || is_edge(&cidr, gateway) {
            problems.add(
                at("provisioningNetworkGateway"),
                format!("{gateway} is not an address of {cidr}"),
                format!("write one of {cidr}"),
            );
        }
        if Some(gateway) == cluster_ip || Some(gateway) == bootstrap_ip {
            problems.add(
                at("provisioningNetworkGateway"),
                format!("{gateway} is a provisioning IP too"),
                "write the router's own address",
            );
        }
    }
    Some(Provisioning {
        mode,
        interface,
        cidr: Some(cidr),
        gateway,
        dhcp_range,
        bootstrap_ip,
        cluster_ip,
    })
}

/// Without a provisioning network its services live on the machine network, if anywhere.
fn disabled(
    interface: Option<String>,
    cidr: Option<IpNet>,
    cluster_ip: Option<IpAddr>,
    bootstrap_ip: Option<IpAddr>,
    networking: &Networking,
    problems: &mut Problems,
) -> Provisioning {
    let home = |ip: IpAddr| {
        networking
            .machine
            .iter()
            .find(|net| net.contains(&ip))
            .copied()
    };
    for (field, ip) in [
        ("bootstrapProvisioningIP", bootstrap_ip),
        ("clusterProvisioningIP", cluster_ip),
    ] {
        if let Some(ip) = ip.filter(|ip| home(*ip).is_none()) {
            problems.add(
                format!("{PATH}.{field}"),
                format!("{ip} is in no machine network"),
                "with provisioningNetwork: Disabled it must be",
            );
        }
    }
    let derived = cluster_ip.and_then(home);
    if let (Some(cidr), Some(derived)) = (cidr, derived)
        && cidr != derived
    {
        problems.add(
            format!("{PATH}.provisioningNetworkCIDR"),
            format!("{cidr} is not the machine network {derived} of clusterProvisioningIP"),
            "remove it",
        );
    }
    Provisioning {
        mode: Mode::Disabled,
        interface,
        cidr: derived,
        gateway: None,
        dhcp_range: None,
        bootstrap_ip,
        cluster_ip,
    }
}

fn check_cidr(cidr: IpNet, mode: Mode, networking: &Networking, problems: &mut Problems) {
    let path = format!("{PATH}.provisioningNetworkCIDR");
    let others = networking
        .machine
        .iter()
        .chain(&networking.service)
        .chain(networking.cluster.iter().map(|network| &network.cidr));
    for other in others {
        if cidr.contains(other) || other.contains(&cidr) {
            problems.add(
                &path,
                format!("{cidr} overlaps {other}"),
                "the provisioning network is one of its own",
            );
        }
    }
    let longest = cidr.max_prefix_len();
    if !cidr.addr().is_ipv4() && mode == Mode::Managed && cidr.prefix_len() < 64 {
        problems.add(
            &path,
            format!("/{} is too large for IPv6 DHCP", cidr.prefix_len()),
            "write /64 or longer",
        );
    }
    if cidr.prefix_len() > longest - 3 {
        problems.add(
            path,
            format!("{cidr} has no room for the services and a host"),
            format!("write /{} or shorter", longest - 4),
        );
    }
}

fn dhcp_range(
    baremetal: &written::BareMetal,
    cidr: IpNet,
    problems: &mut Problems,
) -> Option<(IpAddr, IpAddr)> {
    let path = format!("{PATH}.provisioningDHCPRange");
    let Some(text) = &baremetal.provisioning_dhcp_range else {
        let last = match cidr.broadcast() {
            IpAddr::V4(last) => IpAddr::V4(u32::from(last).checked_sub(1)?.into()),
            IpAddr::V6(last) => IpAddr::V6(u128::from(last).checked_sub(1)?.into()),
        };
        let range = nth(cidr, 10)
            .filter(|first| *first <= last)
            .map(|first| (first, last));
        if range.is_none() {
            problems.add(
                path,
                format!("{cidr} is too small for the default range"),
                "write start,end",
            );
        }
        return range;
    };
    let ends: Vec<Option<IpAddr>> = text.split(',').map(|end| end.trim().parse().ok()).collect();
    let [Some(start), Some(end)] = ends[..] else {
        problems.add(
            path,
            format!("{} is not a range", shown(text)),
            "write two addresses with a comma between, such as 172.22.0.10,172.22.0.254",
        );
        return None;
    };
    let mut good = true;
    for address in [start, end] {
        if !cidr.contains(&address) {
            problems.add(
                &path,
                format!("{address} is not in {cidr}"),
                "write addresses of the provisioning network",
            );
            good = false;
        }
    }
    if good && start > end {
        problems.add(
            path,
            format!("{start} comes behind {end}"),
            "write the smaller address first",
        );
        good = false;
    }
    good.then_some((start, end))
}

/// The network's own address, or its broadcast address.
pub fn is_edge(net: &IpNet, address: IpAddr) -> bool {
    let small = net.max_prefix_len() - net.prefix_len() < 2;
    !small && (address == net.network() || (address.is_ipv4() && address == net.broadcast()))
}
