//! Where an address goes: the link whose subnet holds it, and which of our own addresses speaks for it.

use std::net::IpAddr;

use ipnet::IpNet;
use linux::addr::Address;
use linux::link::Link;
use model::Mac;

use crate::config::Vip;

/// A link for a virtual address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub link: String,
    pub index: u32,
    pub mac: Mac,
    /// Our own address: the source of advertisements.
    pub source: IpAddr,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    #[error("{0} is this node's own address; a virtual address belongs to nobody")]
    OwnAddress(IpAddr),
    #[error("{0} is in no subnet of this node's links")]
    NoSubnet(IpAddr),
    #[error("there is no link {0}")]
    NoLink(String),
    #[error("link {0} has no address to advertise from")]
    NoSource(String),
    #[error("no link has {0}")]
    NotOurs(IpAddr),
}

/// `vips` are never a node's own address, whoever put them there.
pub fn choose(
    vip: &Vip,
    vips: &[IpAddr],
    links: &[Link],
    addresses: &[Address],
) -> Result<Place, NoPlace> {
    let own = |address: &&Address| {
        let same_family = address.net.addr().is_ipv4() == vip.address.is_ipv4();
        same_family && !vips.contains(&address.net.addr())
    };
    let taken = |address: &Address| {
        address.net.addr() == vip.address && address.net.prefix_len() < address.net.max_prefix_len()
    };
    if addresses.iter().any(taken) {
        return Err(NoPlace::OwnAddress(vip.address));
    }
    let own: Vec<_> = addresses.iter().filter(own).collect();
    // The narrowest subnet, then the first link.
    let in_subnet = |address: &&&Address| subnet(address.net).contains(&vip.address);
    let mut holding: Vec<_> = own.iter().filter(in_subnet).collect();
    holding.sort_by_key(|address| (std::cmp::Reverse(address.net.prefix_len()), address.link));
    let link = match (&vip.interface, vip.source) {
        (Some(name), _) => links
            .iter()
            .find(|link| link.name == *name)
            .ok_or_else(|| NoPlace::NoLink(name.clone()))?,
        (None, Some(source)) => own
            .iter()
            .find(|address| address.net.addr() == source)
            .and_then(|address| links.iter().find(|link| link.index == address.link))
            .ok_or(NoPlace::NotOurs(source))?,
        (None, None) => holding
            .first()
            .and_then(|address| links.iter().find(|link| link.index == address.link))
            .ok_or(NoPlace::NoSubnet(vip.address))?,
    };
    let here = |address: &&&Address| address.link == link.index;
    // Multicast of IPv6 comes from the link-local address (RFC 9568, 5.1.2.1).
    let by_multicast = vip.address.is_ipv6() && vip.peers.is_empty();
    let source = match vip.source {
        Some(source) => Some(source),
        None if by_multicast => own
            .iter()
            .filter(here)
            .map(|own| own.net.addr())
            .find(is_link_local),
        None => holding
            .iter()
            .copied()
            .chain(
                own.iter()
                    .filter(|address| !is_link_local(&address.net.addr())),
            )
            .find(here)
            .map(|address| address.net.addr()),
    };
    Ok(Place {
        link: link.name.clone(),
        index: link.index,
        mac: link.mac.unwrap_or(Mac([0; 6])),
        source: source.ok_or_else(|| NoPlace::NoSource(link.name.clone()))?,
    })
}

/// An IPv6 host address from DHCP stands for its /64.
fn subnet(net: IpNet) -> IpNet {
    match net {
        IpNet::V6(v6) if v6.prefix_len() == 128 => IpNet::new(net.addr(), 64).unwrap_or(net),
        IpNet::V4(_) | IpNet::V6(_) => net,
    }
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn vip(fields: &str) -> Vip {
        let text = format!("vips: [{{name: api, id: 7, {fields}}}]");
        let config = Config::parse(&text, std::path::Path::new("x")).unwrap();
        config.vips[0].clone()
    }

    fn link(index: u32, name: &str) -> Link {
        Link {
            index,
            name: name.into(),
            mac: Some(Mac([2, 0, 0, 0, 0, index as u8])),
            mtu: 1500,
            up: true,
            carrier: true,
            master: None,
            kind: None,
        }
    }

    fn address(link: u32, net: &str) -> Address {
        Address {
            link,
            net: net.parse().unwrap(),
            lifetime: None,
            tentative: false,
        }
    }

    /// Link and source as text, or why not.
    fn chosen(fields: &str) -> String {
        let links = [link(1, "lo"), link(2, "eth0"), link(3, "eth1")];
        let addresses = [
            address(1, "127.0.0.1/8"),
            address(2, "10.0.0.7/8"),
            address(2, "10.1.0.200/32"),
            address(3, "10.1.0.7/16"),
            address(3, "2001:db8::7/128"),
            address(3, "fe80::7/64"),
        ];
        let vip = vip(fields);
        let vips = ["10.1.0.200".parse().unwrap(), vip.address];
        match choose(&vip, &vips, &links, &addresses) {
            Ok(place) => format!("{} {}", place.link, place.source),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_narrowest_subnet_that_holds_the_address_gives_the_link() {
        for (fields, expected) in [
            ("address: 10.1.0.200", "eth1 10.1.0.7"),
            ("address: 10.2.0.5", "eth0 10.0.0.7"),
            ("address: '2001:db8::5'", "eth1 fe80::7"),
            (
                "address: '2001:db8::5', peers: ['2001:db8::8']",
                "eth1 2001:db8::7",
            ),
            ("address: 192.0.2.5, interface: eth1", "eth1 10.1.0.7"),
            ("address: 192.0.2.5, source: 10.0.0.7", "eth0 10.0.0.7"),
            (
                "address: 192.0.2.5",
                "192.0.2.5 is in no subnet of this node's links",
            ),
            (
                "address: 10.1.0.5, interface: eth9",
                "there is no link eth9",
            ),
            (
                "address: 192.0.2.5, source: 192.0.2.1",
                "no link has 192.0.2.1",
            ),
            (
                "address: 10.1.0.7",
                "10.1.0.7 is this node's own address; a virtual address belongs to nobody",
            ),
        ] {
            assert_eq!(chosen(fields), expected, "{fields}");
        }
    }
}
