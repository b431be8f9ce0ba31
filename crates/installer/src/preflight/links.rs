//! This machine's network.

use std::time::Duration;

use ipnet::IpNet;
use linux::netlink::{Error, Netlink};
use plan::preflight::{Fact, Links, Port};

use super::within;

const LIMIT: Duration = Duration::from_secs(5);

pub async fn look() -> Fact<Links> {
    within(LIMIT, read()).await
}

async fn read() -> Result<Links, Error> {
    let netlink = Netlink::connect()?;
    let links = netlink.links().await?;
    let addresses = netlink.addresses().await?;
    let routes = netlink.routes().await?;
    let name_of = |index: u32| {
        let link = links.iter().find(|link| link.index == index);
        link.map(|link| link.name.clone())
    };
    let ports = links.iter().map(|link| Port {
        name: link.name.clone(),
        mac: link.mac,
        bridge: link.kind.as_deref() == Some("bridge"),
        tap: link.kind.as_deref() == Some("tun"),
        up: link.up,
        carrier: link.carrier,
        mtu: link.mtu,
        master: link.master.and_then(name_of),
        addresses: addresses
            .iter()
            .filter(|address| address.link == link.index)
            .map(|address| address.net)
            .collect(),
    });
    let default = routes.iter().find(|route| route.to.prefix_len() == 0);
    let local = |net: &IpNet| net.addr().is_loopback() || net.addr().is_multicast();
    Ok(Links {
        ports: ports.collect(),
        default_link: default.and_then(|route| route.link.clone()),
        routes: routes
            .iter()
            .map(|route| route.to)
            .filter(|net| net.prefix_len() > 0 && !local(net))
            .collect(),
    })
}
