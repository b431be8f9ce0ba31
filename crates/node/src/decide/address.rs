//! Which of a machine's addresses are the node's.

use std::net::IpAddr;

use ipnet::IpNet;

/// An address as the kernel has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    pub link: u32,
    pub ip: IpAddr,
    /// Not usable yet.
    pub tentative: bool,
}

/// In the order of the networks; without networks, those of links that lead to the rest of the world, in the kernel's
/// order, IPv4 first. Virtual addresses wander and are nobody's.
pub fn choose(
    addresses: &[Address],
    networks: &[IpNet],
    exclude: &[IpAddr],
    default_links: &[u32],
) -> Vec<IpAddr> {
    let usable = |address: &&Address| {
        !address.tentative && is_global(address.ip) && !exclude.contains(&address.ip)
    };
    let mut chosen: Vec<IpAddr> = Vec::new();
    let mut take = |ip: IpAddr| {
        if !chosen.contains(&ip) {
            chosen.push(ip);
        }
    };
    for network in networks {
        let here = |address: &&Address| network.contains(&address.ip);
        addresses
            .iter()
            .filter(usable)
            .filter(here)
            .for_each(|address| take(address.ip));
    }
    if networks.is_empty() {
        let out = |address: &&Address| default_links.contains(&address.link);
        for v4 in [true, false] {
            let family = |address: &&Address| address.ip.is_ipv4() == v4;
            addresses
                .iter()
                .filter(usable)
                .filter(out)
                .filter(family)
                .for_each(|address| take(address.ip));
        }
    }
    chosen
}

fn is_global(ip: IpAddr) -> bool {
    let local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !local && !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(link: u32, ip: &str) -> Address {
        Address {
            link,
            ip: ip.parse().expect("an address"),
            tentative: false,
        }
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect()
    }

    #[test]
    fn the_nodes_addresses_are_those_of_its_networks() {
        let seen = [
            address(1, "127.0.0.1"),
            address(2, "192.0.2.20"),
            address(2, "192.0.2.5"),
            address(2, "fe80::1"),
            address(2, "2001:db8::20"),
            address(3, "172.22.0.3"),
            Address {
                tentative: true,
                ..address(2, "192.0.2.21")
            },
        ];
        let networks: Vec<IpNet> = ["2001:db8::/64", "192.0.2.0/24"]
            .map(|text| text.parse().expect("a network"))
            .into();
        let vip = ips(&["192.0.2.5"]);
        for (name, networks, links, expected) in [
            (
                "by network",
                networks.clone(),
                vec![],
                vec!["2001:db8::20", "192.0.2.20"],
            ),
            (
                "by default route",
                vec![],
                vec![2],
                vec!["192.0.2.20", "2001:db8::20"],
            ),
            ("another link", vec![], vec![3], vec!["172.22.0.3"]),
            ("no way out", vec![], vec![], vec![]),
        ] {
            let chosen = choose(&seen, &networks, &vip, &links);
            assert_eq!(chosen, ips(&expected), "{name}");
        }
    }
}
