//! Which links to speak on, and what to say of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use linux::netlink::{self, Netlink};

use crate::config::mdns::Mdns;

/// One link as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    pub index: u32,
    /// Told to others.
    pub publish: Vec<IpAddr>,
    /// All of this machine: its own voice.
    pub own: Vec<IpAddr>,
    /// Of this link, by which it can send.
    local: Vec<IpAddr>,
}

impl Seen {
    /// IPv4, IPv6.
    pub fn families(&self) -> (bool, bool) {
        (
            self.local.iter().any(IpAddr::is_ipv4),
            self.local.iter().any(IpAddr::is_ipv6),
        )
    }
}

pub async fn look(
    netlink: &Netlink,
    config: &Mdns,
) -> Result<BTreeMap<String, Seen>, netlink::Error> {
    let links = netlink.links().await?;
    let addresses = netlink.addresses().await?;
    let usable = || addresses.iter().filter(|address| !address.tentative);
    let on_network = |ip: IpAddr| {
        let networks = &config.networks;
        networks.is_empty() || networks.iter().any(|network| network.contains(&ip))
    };
    let own: Vec<IpAddr> = usable().map(|address| address.net.addr()).collect();
    let mut seen = BTreeMap::new();
    for link in links {
        let wanted = config.interfaces.is_empty() || config.interfaces.contains(&link.name);
        if !wanted || link.name == "lo" || !link.up {
            continue;
        }
        let mut here = Seen {
            index: link.index,
            own: own.clone(),
            ..Seen::default()
        };
        for address in usable().filter(|address| address.link == link.index) {
            let ip = address.net.addr();
            here.local.push(ip);
            let whole = address.net.prefix_len() == address.net.max_prefix_len();
            let chosen = if config.addresses.is_empty() {
                // A virtual address has a prefix of its own and moves.
                !whole && !is_link_local(ip) && !config.vips.contains(&ip) && on_network(ip)
            } else {
                config.addresses.contains(&ip)
            };
            if chosen {
                here.publish.push(ip);
            }
        }
        here.publish.sort();
        here.own.sort();
        if here.local.iter().any(|ip| on_network(*ip)) {
            seen.insert(link.name, here);
        }
    }
    Ok(seen)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_loopback(),
    }
}

/// The configured name, or the machine's own once DHCP or a person has given it one.
pub fn host_name(written: Option<&str>) -> Result<String, String> {
    let host = match written {
        Some(host) => host.to_owned(),
        None => std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map_err(|error| format!("the host name cannot be read: {error}"))?,
    };
    let short = host.trim().split('.').next().unwrap_or_default();
    match short {
        "" | "localhost" | "(none)" if written.is_none() => Err(format!(
            "waiting for a host name: this machine calls itself {short:?}"
        )),
        short => Ok(short.to_owned()),
    }
}
