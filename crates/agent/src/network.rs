//! Links up, and an address on each that has a cable.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use linux::netlink::Netlink;

use crate::console::{chain, say};

/// A link's addresses, by its name: the first usable of each family.
pub type Addresses = BTreeMap<String, (Option<Ipv4Addr>, Option<Ipv6Addr>)>;

/// Keeps the leases alive as long as it exists.
pub struct Network;

impl Network {
    pub async fn keep(self) {
        std::future::pending().await
    }
}

pub async fn up() -> Network {
    match Netlink::connect() {
        Err(error) => say(&chain(&error)),
        Ok(netlink) => match netlink.links().await {
            Err(error) => say(&chain(&error)),
            Ok(links) => {
                for link in links {
                    if let Err(error) = netlink.set_up(&link.name).await {
                        say(&chain(&error));
                    }
                }
            }
        },
    }
    Network
}

pub async fn addresses() -> Addresses {
    match read_addresses().await {
        Ok(addresses) => addresses,
        Err(error) => {
            say(&chain(&error));
            Addresses::new()
        }
    }
}

async fn read_addresses() -> Result<Addresses, linux::netlink::Error> {
    let netlink = Netlink::connect()?;
    let names: BTreeMap<_, _> = netlink.links().await?.into_iter().map(|link| (link.index, link.name)).collect();
    let mut found = Addresses::new();
    for address in netlink.addresses().await? {
        let Some(name) = names.get(&address.link) else { continue };
        let (v4, v6) = found.entry(name.clone()).or_default();
        match address.net.addr() {
            std::net::IpAddr::V4(ip) => *v4 = v4.or(Some(ip)),
            std::net::IpAddr::V6(ip) if ip.is_unicast_link_local() => {}
            std::net::IpAddr::V6(ip) => *v6 = v6.or(Some(ip)),
        }
    }
    Ok(found)
}
