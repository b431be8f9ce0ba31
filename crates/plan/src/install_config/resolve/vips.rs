//! Virtual addresses.

use std::net::IpAddr;

use super::super::written::List;
use super::super::{Networking, Provisioning};
use super::provisioning::is_edge;
use super::text::shown;
use crate::problem::Problems;

const PATH: &str = "platform.baremetal";

/// One address, or one of each family.
pub fn resolve(
    field: &str,
    written: Option<&List<String>>,
    networking: &Networking,
    managed: bool,
    problems: &mut Problems,
) -> Vec<IpAddr> {
    let path = format!("{PATH}.{field}");
    let Some(written) = written.filter(|list| !list.is_empty()) else {
        problems.add(
            path,
            "is missing, and DNS has no answer",
            "write a free address of the machine network",
        );
        return Vec::new();
    };
    let mut vips: Vec<IpAddr> = Vec::new();
    for (at, text) in written.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let text = text.as_deref().unwrap_or_default();
        let Ok(vip) = text.parse::<IpAddr>() else {
            problems.add(
                path,
                format!("{} is not an IP address", shown(text)),
                "write one such as 192.0.2.5",
            );
            continue;
        };
        if vip.is_unspecified() || vip.is_loopback() || vip.is_multicast() {
            problems.add(
                path,
                format!("{vip} is not an address of a host"),
                "write a free address of the machine network",
            );
            continue;
        }
        let net = networking.machine.iter().find(|net| net.contains(&vip));
        match net {
            None if managed && !networking.machine.is_empty() => {
                let nets: Vec<_> = networking.machine.iter().map(ToString::to_string).collect();
                problems.add(
                    path,
                    format!("{vip} is in no machine network"),
                    format!(
                        "write an address of {}, or correct networking.machineNetwork",
                        nets.join(" or ")
                    ),
                );
            }
            Some(net) if is_edge(net, vip) => problems.add(
                path,
                format!("{vip} is the first or last address of {net}"),
                "write another",
            ),
            None | Some(_) => {}
        }
        vips.push(vip);
    }
    if written.len() > 2 {
        problems.add(
            path,
            format!("{} are too many", written.len()),
            "write one, or one of each family",
        );
        return vips;
    }
    match vips[..] {
        [a, b] if a.is_ipv4() == b.is_ipv4() => problems.add(
            path,
            "two of one family",
            "write one IPv4 and one IPv6 address, or only one",
        ),
        [first, ..] => {
            let primary = networking.service.first().map(|net| net.addr().is_ipv4());
            if primary.is_some_and(|v4| v4 != first.is_ipv4()) {
                problems.add(
                    format!("{path}[0]"),
                    format!("{first} is not of the family that serviceNetwork begins with"),
                    "write the VIP of that family first",
                );
            }
            if vips.len() == 2 && networking.service.len() == 1 {
                problems.add(
                    path,
                    "two families, but the networks have one",
                    "write one VIP, or networks of both families",
                );
            }
        }
        [] => {}
    }
    vips
}

/// Addresses that something else has.
pub fn check_neighbours(
    vips: &[IpAddr],
    provisioning: Option<&Provisioning>,
    problems: &mut Problems,
) {
    let Some(provisioning) = provisioning else {
        return;
    };
    for vip in vips {
        if let Some((start, end)) = provisioning.dhcp_range
            && start <= *vip
            && *vip <= end
        {
            problems.add(
                format!("{PATH}.provisioningDHCPRange"),
                format!("holds the VIP {vip}"),
                "a VIP is never given out by DHCP: move one of them",
            );
        }
        for (field, ip) in [
            ("bootstrapProvisioningIP", provisioning.bootstrap_ip),
            ("clusterProvisioningIP", provisioning.cluster_ip),
        ] {
            if ip == Some(*vip) {
                problems.add(
                    format!("{PATH}.{field}"),
                    format!("{vip} is a VIP too"),
                    "write another address",
                );
            }
        }
    }
}
