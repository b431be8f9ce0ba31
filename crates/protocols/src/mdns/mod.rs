//! Nodes of a cluster find one another on a link without a server (RFC 6762, RFC 6763).
//!
//! ```text
//!   packets ──> Node ──┬─> Publisher   probe, announce, answer, defend or rename, say goodbye
//!                      └─> Browser     ask, remember, ask again before it expires, forget
//! ```
//!
//! The names are those of OpenShift's mdns-publisher, so that each sees the other: every node is
//! `<host>.local`, and offers `<cluster> Workstation-<host>._workstation._tcp.local`; one with etcd also
//! `<cluster> Etcd-<host>._etcd-server-ssl._tcp.local`. One [`Node`] is one link. Bytes are read and written
//! by hickory-proto.

mod browse;
mod name;
mod node;
mod publish;
mod random;

pub use browse::Found;
pub use name::{Kind, instance_label};
pub use node::Node;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

pub const PORT: u16 = 5353;
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);
pub const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb);
/// The longest packet we read (RFC 6762, 17).
pub const LONGEST: usize = 9000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub cluster: String,
    /// The short host name.
    pub host: String,
    /// What this node offers; nothing: it only looks, as a bootstrap node does.
    pub services: Vec<Kind>,
    /// Of addresses, and of services, in seconds.
    pub host_ttl: u32,
    pub service_ttl: u32,
}

#[derive(Debug, Clone)]
pub enum Event<'a> {
    Heard {
        from: SocketAddr,
        bytes: &'a [u8],
    },
    /// The link has these: those to be published, and all of this machine, by which we know our own voice.
    Addresses {
        publish: Vec<IpAddr>,
        own: Vec<IpAddr>,
    },
    /// Say goodbye.
    Stop,
    Timer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// To the group, by every family the link has.
    Multicast(Vec<u8>),
    Unicast {
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    /// [`Node::found`] is another than before.
    Changed,
    Report(Report),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Nobody else has the name.
    Published { host: String },
    /// Somebody has our name: we go by another.
    Renamed {
        from: String,
        to: String,
        by: IpAddr,
    },
    /// Somebody used our name after it was ours.
    Contested { host: String, by: IpAddr },
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dropped {
    Malformed,
    /// An answer from another port is not multicast DNS (RFC 6762, 6).
    WrongPort,
}

fn earliest(times: impl IntoIterator<Item = Option<Instant>>) -> Option<Instant> {
    times.into_iter().flatten().min()
}

#[cfg(test)]
mod tests;
