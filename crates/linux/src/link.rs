//! Links: bridges, veth pairs, macvlans, and what every link has.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use model::Mac;
use netlink_packet_route::link::{
    BridgeStpState, InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, MacVlanMode,
};
use rtnetlink::{LinkBridge, LinkMacVlan, LinkUnspec, LinkVeth};
use tokio::time::Instant;

use crate::netlink::{Error, Netlink};
use crate::netns::Namespace;

/// A network interface as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// Absent on links without Ethernet addresses.
    pub mac: Option<Mac>,
    pub mtu: u32,
    /// Switched on by the administrator.
    pub up: bool,
    /// The other end of the wire answers. Always false while the link is down.
    pub carrier: bool,
    /// Index of the bridge it is a port of.
    pub master: Option<u32>,
    /// `bridge`, `veth`, `tun`, ...; absent on hardware.
    pub kind: Option<String>,
}

impl Netlink {
    /// All links of the namespace, by index.
    pub async fn links(&self) -> Result<Vec<Link>, Error> {
        let messages: Vec<_> = Self::ask(
            || "list links".into(),
            self.handle.link().get().execute().try_collect(),
        )
        .await?;
        let mut links: Vec<_> = messages.iter().map(Link::read).collect();
        links.sort_by_key(|link| link.index);
        Ok(links)
    }

    /// The link of this name, if there is one.
    pub async fn find_link(&self, name: &str) -> Result<Option<Link>, Error> {
        check_name(name)?;
        let mut found = self
            .handle
            .link()
            .get()
            .match_name(name.to_owned())
            .execute();
        match Self::ask(|| format!("look up link {name}"), found.try_next()).await {
            Ok(message) => Ok(message.as_ref().map(Link::read)),
            Err(error) if error.errno() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The link of this name; an error if there is none.
    pub async fn link(&self, name: &str) -> Result<Link, Error> {
        self.find_link(name)
            .await?
            .ok_or_else(|| Error::NoSuchLink {
                name: name.to_owned(),
            })
    }

    /// A bridge that forwards at once and floods multicast: no spanning tree, no forward delay, no
    /// snooping. Set up before it is returned.
    pub async fn ensure_bridge(&self, name: &str) -> Result<Link, Error> {
        let link = self
            .ensure_kind(name, "bridge", LinkBridge::new(name).build())
            .await?;
        let bridge = || LinkBridge::new(name).index(link.index);
        // Apart and first: while the spanning tree is on, the kernel refuses a delay of zero.
        let stp_off = bridge().stp_state(BridgeStpState::Disabled).build();
        self.change(name, "switch off the spanning tree of", stp_off)
            .await?;
        let options = bridge().forward_delay(0).mcast_snooping(false).up().build();
        self.change(name, "set the bridge options of", options)
            .await?;
        self.link(name).await
    }

    /// A pair of links joined back to back, both down.
    pub async fn create_veth(&self, name: &str, peer: &str) -> Result<(), Error> {
        check_name(name)?;
        check_name(peer)?;
        let message = LinkVeth::new(name, peer).build();
        let doing = || format!("create veth pair {name} and {peer}");
        Self::ask(doing, self.handle.link().add(message).execute()).await
    }

    /// As [`Netlink::create_veth`], unless `name` is there already as a veth.
    pub async fn ensure_veth(&self, name: &str, peer: &str) -> Result<Link, Error> {
        check_name(peer)?;
        self.ensure_kind(name, "veth", LinkVeth::new(name, peer).build())
            .await
    }

    /// A macvlan on `parent` whose siblings reach each other (bridge mode).
    pub async fn ensure_macvlan(&self, name: &str, parent: &str) -> Result<Link, Error> {
        let parent = self.link(parent).await?;
        let message = LinkMacVlan::new(name, parent.index, MacVlanMode::Bridge).build();
        self.ensure_kind(name, "macvlan", message).await
    }

    /// True if a link was removed.
    pub async fn remove_link(&self, name: &str) -> Result<bool, Error> {
        let Some(link) = self.find_link(name).await? else {
            return Ok(false);
        };
        let doing = || format!("delete link {name}");
        Self::ensure(
            doing,
            &[libc::ENODEV],
            self.handle.link().del(link.index).execute(),
        )
        .await
    }

    pub async fn set_up(&self, name: &str) -> Result<(), Error> {
        self.change(
            name,
            "switch on",
            LinkUnspec::new_with_name(name).up().build(),
        )
        .await
    }

    pub async fn set_down(&self, name: &str) -> Result<(), Error> {
        self.change(
            name,
            "switch off",
            LinkUnspec::new_with_name(name).down().build(),
        )
        .await
    }

    /// Makes the link a port of a bridge, or of none.
    pub async fn set_master(&self, name: &str, bridge: Option<&str>) -> Result<(), Error> {
        let index = match bridge {
            Some(bridge) => self.link(bridge).await?.index,
            None => 0,
        };
        let message = LinkUnspec::new_with_name(name).controller(index).build();
        self.change(name, "set the bridge of", message).await
    }

    pub async fn set_mac(&self, name: &str, mac: Mac) -> Result<(), Error> {
        let message = LinkUnspec::new_with_name(name)
            .address(mac.octets().to_vec())
            .build();
        self.change(name, "set the MAC address of", message).await
    }

    pub async fn set_mtu(&self, name: &str, mtu: u32) -> Result<(), Error> {
        self.change(
            name,
            "set the MTU of",
            LinkUnspec::new_with_name(name).mtu(mtu).build(),
        )
        .await
    }

    /// The link must be down.
    pub async fn rename_link(&self, name: &str, to: &str) -> Result<(), Error> {
        check_name(to)?;
        let index = self.link(name).await?.index;
        self.change(
            name,
            "rename",
            LinkUnspec::new_with_index(index).name(to).build(),
        )
        .await
    }

    /// Moves the link into another namespace, under another name if given. It arrives down and without addresses.
    pub async fn move_link(
        &self,
        name: &str,
        to: &Namespace,
        rename: Option<&str>,
    ) -> Result<(), Error> {
        let index = self.link(name).await?.index;
        let mut message = LinkUnspec::new_with_index(index).setns_by_fd(to.as_fd().as_raw_fd());
        if let Some(new) = rename {
            check_name(new)?;
            message = message.name(new);
        }
        self.change(name, "move to another namespace", message.build())
            .await
    }

    /// Waits until the link is up and the other end answers.
    pub async fn wait_carrier(&self, name: &str, limit: Duration) -> Result<Link, Error> {
        let deadline = Instant::now() + limit;
        loop {
            let link = self.link(name).await?;
            if link.carrier {
                return Ok(link);
            }
            if Instant::now() >= deadline {
                return Err(Error::NoCarrier {
                    name: name.to_owned(),
                    waited: limit,
                });
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn change(&self, name: &str, what: &str, message: LinkMessage) -> Result<(), Error> {
        check_name(name)?;
        let doing = || format!("{what} link {name}");
        match Self::ask(doing, self.handle.link().change(message).execute()).await {
            Err(error) if error.errno() == Some(libc::ENODEV) => Err(Error::NoSuchLink {
                name: name.to_owned(),
            }),
            other => other,
        }
    }

    async fn ensure_kind(
        &self,
        name: &str,
        kind: &'static str,
        message: LinkMessage,
    ) -> Result<Link, Error> {
        check_name(name)?;
        let doing = || format!("create {kind} {name}");
        Self::ensure(
            doing,
            &[libc::EEXIST],
            self.handle.link().add(message).execute(),
        )
        .await?;
        let link = self.link(name).await?;
        if link.kind.as_deref() == Some(kind) {
            return Ok(link);
        }
        let found = link.kind.unwrap_or_else(|| "hardware".into());
        Err(Error::OtherKind {
            name: name.to_owned(),
            found,
            wanted: kind,
        })
    }
}

impl Link {
    fn read(message: &LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut link = Self {
            index: message.header.index,
            name: String::new(),
            mac: None,
            mtu: 0,
            up: flags.contains(LinkFlags::Up),
            // LowerUp is the carrier itself; Running waits for bridges and bonds to make up their mind.
            carrier: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
            master: None,
            kind: None,
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::Address(bytes) => {
                    link.mac = bytes.as_slice().try_into().ok().map(Mac);
                }
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::Controller(index) => link.master = (*index != 0).then_some(*index),
                LinkAttribute::LinkInfo(infos) => link.kind = infos.iter().find_map(kind_name),
                _ => {}
            }
        }
        link
    }
}

fn kind_name(info: &LinkInfo) -> Option<String> {
    match info {
        LinkInfo::Kind(InfoKind::Other(kind)) => Some(kind.clone()),
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    }
}

/// A link name nobody else in this process uses; for ends that are renamed at once.
pub(crate) fn scratch_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("tmp{:x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The kernel's rule (`dev_valid_name`), said in words before it says EINVAL.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let fits = (1..=15).contains(&name.len()) && name != "." && name != "..";
    if fits
        && !name.contains(|c: char| c == '/' || c == ':' || c == '\0' || c.is_ascii_whitespace())
    {
        return Ok(());
    }
    Err(Error::LinkName {
        name: name.chars().take(64).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_names_the_kernel_would_refuse_are_refused_in_words() {
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "a b",
            "a:b",
            "sixteen-letters-",
            "a\0",
        ] {
            assert!(
                matches!(check_name(name), Err(Error::LinkName { .. })),
                "{name:?}"
            );
        }
        for name in ["lo", "eth0.100", "exactly15letter"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }
}
