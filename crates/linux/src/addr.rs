//! IP addresses on links.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures::TryStreamExt;
use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, CacheInfo};
use rtnetlink::AddressMessageBuilder;

use crate::netlink::{Error, Netlink};

/// An address to put on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// The address with its prefix length: `192.0.2.7/24`.
    pub net: IpNet,
    /// The kernel takes the address away after this long unless it is ensured again.
    pub lifetime: Option<Duration>,
    /// IPv6 only: usable at once, without asking the link whether someone has it.
    pub nodad: bool,
    /// IPv6 only: never chosen as the source of what this node sends by itself (a preferred lifetime of zero).
    pub deprecated: bool,
}

impl Want {
    /// For ever; IPv6 after duplicate address detection.
    pub fn new(net: IpNet) -> Self {
        Self {
            net,
            lifetime: None,
            nodad: false,
            deprecated: false,
        }
    }
}

/// An address the kernel has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Index of its link.
    pub link: u32,
    pub net: IpNet,
    /// What is left of its lifetime; `None` is for ever.
    pub lifetime: Option<Duration>,
    /// Not usable yet: duplicate address detection is under way.
    pub tentative: bool,
}

const FOREVER: u32 = u32::MAX;

impl Netlink {
    /// Puts the address on the link, or renews its lifetime.
    pub async fn ensure_address(&self, link: &str, want: Want) -> Result<(), Error> {
        let index = self.link(link).await?.index;
        let mut request = self
            .handle
            .address()
            .add(index, want.net.addr(), want.net.prefix_len())
            .replace();
        let attributes = &mut request.message_mut().attributes;
        if want.nodad && want.net.addr().is_ipv6() {
            attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        let mut lifetimes = lifetimes(want.lifetime);
        if want.deprecated && want.net.addr().is_ipv6() {
            lifetimes.ifa_preferred = 0;
        }
        attributes.push(AddressAttribute::CacheInfo(lifetimes));
        Self::ask(
            || format!("put {} on link {link}", want.net),
            request.execute(),
        )
        .await
    }

    /// True if the address was there.
    pub async fn remove_address(&self, link: &str, net: IpNet) -> Result<bool, Error> {
        let index = self.link(link).await?.index;
        let message = match net {
            IpNet::V4(net) => AddressMessageBuilder::<Ipv4Addr>::new()
                .index(index)
                .address(net.addr(), net.prefix_len())
                .build(),
            IpNet::V6(net) => AddressMessageBuilder::<Ipv6Addr>::new()
                .index(index)
                .address(net.addr(), net.prefix_len())
                .build(),
        };
        let doing = || format!("take {net} off link {link}");
        Self::ensure(
            doing,
            &[libc::EADDRNOTAVAIL],
            self.handle.address().del(message).execute(),
        )
        .await
    }

    /// All addresses of the namespace, in the kernel's order.
    pub async fn addresses(&self) -> Result<Vec<Address>, Error> {
        let messages: Vec<_> = Self::ask(
            || "list addresses".into(),
            self.handle.address().get().execute().try_collect(),
        )
        .await?;
        Ok(messages.iter().filter_map(Address::read).collect())
    }

    /// The addresses of one link.
    pub async fn addresses_of(&self, link: &str) -> Result<Vec<Address>, Error> {
        let index = self.link(link).await?.index;
        Ok(self
            .addresses()
            .await?
            .into_iter()
            .filter(|address| address.link == index)
            .collect())
    }
}

impl Address {
    fn read(message: &AddressMessage) -> Option<Self> {
        let (mut local, mut peer) = (None::<IpAddr>, None::<IpAddr>);
        let mut lifetime = None;
        let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(address) => local = Some(*address),
                AddressAttribute::Address(address) => peer = Some(*address),
                AddressAttribute::Flags(all) => flags = *all,
                AddressAttribute::CacheInfo(info) if info.ifa_valid != FOREVER => {
                    lifetime = Some(Duration::from_secs(info.ifa_valid.into()));
                }
                _ => {}
            }
        }
        // On a point-to-point link the two differ, and Local is ours.
        let net = IpNet::new(local.or(peer)?, message.header.prefix_len).ok()?;
        let tentative = flags.contains(AddressFlags::Tentative);
        Some(Self {
            link: message.header.index,
            net,
            lifetime,
            tentative,
        })
    }
}

/// The kernel counts in seconds and refuses zero.
fn lifetimes(lifetime: Option<Duration>) -> CacheInfo {
    let seconds = match lifetime {
        Some(lifetime) => {
            let whole = lifetime
                .as_secs()
                .saturating_add(u64::from(lifetime.subsec_nanos() > 0));
            u32::try_from(whole).unwrap_or(FOREVER).clamp(1, FOREVER)
        }
        None => FOREVER,
    };
    let mut info = CacheInfo::default();
    info.ifa_valid = seconds;
    info.ifa_preferred = seconds;
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_rounded_up_to_whole_seconds() {
        for (given, seconds) in [
            (None, FOREVER),
            (Some(Duration::ZERO), 1),
            (Some(Duration::from_millis(1)), 1),
            (Some(Duration::from_millis(2001)), 3),
            (Some(Duration::MAX), FOREVER),
        ] {
            assert_eq!(lifetimes(given).ifa_valid, seconds, "{given:?}");
            assert_eq!(lifetimes(given).ifa_preferred, seconds, "{given:?}");
        }
    }
}
