//! The world as one virtual address sees it. Decides nothing.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use linux::addr::Want;
use linux::netlink::{self, Netlink};
use linux::packet::{self, ETHERTYPE_ARP, Listen};
use linux::vrrp_socket::{self, Received};
use model::Mac;
use protocols::vrrp::{Advertisement, announce, group};

use super::Place;

/// How long the kernel keeps the address after we are gone. It counts in whole seconds.
const LIFETIME: Duration = Duration::from_secs(1);
/// An advertisement with 255 IPv6 addresses and all headers.
pub const LARGEST: usize = 4200;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not open the VRRP socket")]
    Vrrp { source: vrrp_socket::Error },
    #[error("could not open a packet socket on {link}")]
    Packet { link: String, source: packet::Error },
}

pub struct Wire {
    place: Place,
    address: IpAddr,
    /// Everyone an advertisement goes to.
    to: Vec<IpAddr>,
    netlink: Netlink,
    vrrp: vrrp_socket::Socket,
    frames: packet::Socket,
    /// Who says to be where.
    claims: packet::Socket,
}

impl Wire {
    /// Multicast if there are no peers.
    pub fn open(
        netlink: Netlink,
        place: Place,
        address: IpAddr,
        peers: &[IpAddr],
    ) -> Result<Self, Error> {
        let options = vrrp_socket::Options {
            link: place.link.clone(),
            index: place.index,
            source: place.source,
            group: group(address),
        };
        let vrrp = vrrp_socket::Socket::open(options).map_err(|source| Error::Vrrp { source })?;
        let open = |listen| {
            let options = packet::Options {
                listen,
                promiscuous: false,
            };
            packet::Socket::open(place.index, options).map_err(|source| Error::Packet {
                link: place.link.clone(),
                source,
            })
        };
        let frames = open(Listen::No)?;
        let claims = open(match address {
            IpAddr::V4(_) => Listen::EtherType(ETHERTYPE_ARP),
            IpAddr::V6(_) => Listen::Neighbours,
        })?;
        let mut wire = Self {
            place,
            address,
            to: Vec::new(),
            netlink,
            vrrp,
            frames,
            claims,
        };
        wire.set_peers(peers);
        Ok(wire)
    }

    pub fn set_peers(&mut self, peers: &[IpAddr]) {
        self.to = match peers {
            [] => vec![group(self.address)],
            _ => peers
                .iter()
                .copied()
                .filter(|peer| *peer != self.place.source)
                .collect(),
        };
    }

    pub fn link(&self) -> &str {
        &self.place.link
    }

    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub fn send(&self, advertisement: &Advertisement) {
        for to in &self.to {
            let bytes = advertisement.encode(self.place.source, *to);
            if let Err(error) = self.vrrp.send(*to, &bytes) {
                tracing::debug!(peer = %to, error = &error as &dyn std::error::Error, "advertisement not sent");
            }
        }
    }

    pub async fn receive<'a>(
        &self,
        buffer: &'a mut [u8],
    ) -> Result<Option<Received<'a>>, vrrp_socket::Error> {
        self.vrrp.receive(buffer).await
    }

    /// Waits until another MAC says that it has the address.
    pub async fn claimed(&self) -> Result<Mac, packet::Error> {
        loop {
            let mut frame = [0; 128];
            let received = self.claims.receive(&mut frame).await?;
            let claim = announce::claimed(&frame[..received.len]);
            if let Some((mac, address)) = claim
                && address == self.address
                && mac != self.place.mac
                && !received.outgoing
            {
                return Ok(mac);
            }
        }
    }

    /// Puts the address on the link, or keeps it there.
    pub async fn take(&self) -> Result<(), netlink::Error> {
        let want = Want {
            net: host(self.address),
            lifetime: Some(LIFETIME),
            nodad: true,
            // What this node sends by itself must not come from an address that moves away.
            deprecated: true,
        };
        self.netlink.ensure_address(&self.place.link, want).await
    }

    pub async fn give_up(&self) -> Result<(), netlink::Error> {
        remove(&self.netlink, &self.place.link, self.address).await
    }

    pub async fn announce(&self) -> Result<(), packet::Error> {
        let frame = announce::claim(self.place.mac, self.address);
        self.frames.send(&frame).await
    }

    pub async fn probe(&self) -> Result<(), packet::Error> {
        let frame = announce::probe(self.place.mac, self.address);
        self.frames.send(&frame).await
    }

    /// Is there a carrier, on the same link as before?
    pub async fn link_up(&self) -> Result<bool, netlink::Error> {
        let link = self.netlink.find_link(&self.place.link).await?;
        Ok(link.is_some_and(|link| link.index == self.place.index && link.carrier))
    }

    /// Is the place still what it was chosen as?
    pub async fn is_there(&self) -> Result<bool, netlink::Error> {
        let addresses = self.netlink.addresses().await?;
        let ours = |address: &linux::addr::Address| {
            address.link == self.place.index && address.net.addr() == self.place.source
        };
        Ok(addresses.iter().any(ours))
    }
}

/// Takes a virtual address off a link; that it was not there is fine.
pub async fn remove(netlink: &Netlink, link: &str, address: IpAddr) -> Result<(), netlink::Error> {
    match netlink.remove_address(link, host(address)).await {
        Ok(_) | Err(netlink::Error::NoSuchLink { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn host(address: IpAddr) -> IpNet {
    IpNet::from(address)
}
