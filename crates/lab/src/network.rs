//! The lab's two networks, inside the one namespace: bridges, the router's address, the way to the BMCs.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use linux::addr::Want;
use linux::netlink::{self, Netlink};
use linux::route::Route;
use linux::sysctl;

use crate::hardware::{Network, Nic};
use crate::rack::Rack;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("set up the lab's network")]
    Netlink(#[from] netlink::Error),
    #[error("set up the lab's network")]
    Sysctl(#[from] sysctl::Error),
    #[error("plug server port {port}")]
    Tap {
        port: String,
        source: linux::tap::Error,
    },
}

/// Makes the networks in the current namespace. Safe to call again.
pub async fn build(rack: &Rack) -> Result<Netlink, Error> {
    let netlink = Netlink::connect()?;
    netlink.set_up("lo").await?;
    for network in Network::ALL {
        netlink.ensure_bridge(network.bridge()).await?;
        netlink.set_up(network.bridge()).await?;
    }
    let baremetal = Network::Baremetal.bridge();
    let router = Ipv4Net::new(rack.site.router, rack.site.subnet.prefix_len())
        .expect("the prefix is a subnet's");
    netlink
        .ensure_address(baremetal, Want::new(IpNet::V4(router)))
        .await?;
    // A BMC that is down is a neighbour that does not answer, not a missing route.
    netlink
        .ensure_route(&Route::on_link(IpNet::V4(rack.management), baremetal))
        .await?;
    // Servers reach the BMCs through the router, which is us.
    sysctl::set("net.ipv4.ip_forward", "1")?;
    Ok(netlink)
}

/// Gives a server's NIC its port on the bridge, for QEMU to plug into.
pub async fn plug(netlink: &Netlink, nic: &Nic) -> Result<(), Error> {
    linux::tap::ensure_persistent(&nic.port).map_err(|source| Error::Tap {
        port: nic.port.clone(),
        source,
    })?;
    netlink
        .set_master(&nic.port, Some(nic.network.bridge()))
        .await?;
    Ok(netlink.set_up(&nic.port).await?)
}

/// Puts a BMC on the network.
pub async fn attach_bmc(netlink: &Netlink, address: Ipv4Addr) -> Result<(), Error> {
    Ok(netlink
        .ensure_address(Network::Baremetal.bridge(), Want::new(host(address)))
        .await?)
}

/// Takes a BMC off the network, as if its cable were pulled.
pub async fn detach_bmc(netlink: &Netlink, address: Ipv4Addr) -> Result<(), Error> {
    netlink
        .remove_address(Network::Baremetal.bridge(), host(address))
        .await?;
    Ok(())
}

fn host(address: Ipv4Addr) -> IpNet {
    IpNet::from(IpAddr::V4(address))
}
