//! VRRP: routers on one link agree on which of them holds a virtual address (RFC 5798, RFC 9568; RFC 3768
//! for version 2).
//!
//! ```text
//!            packet ── bytes <-> Advertisement          id ── virtual router ids, also from a cluster's name
//!   bytes ──────┴──> router ── (now, Event) -> Actions  announce ── ARP and ND frames that tell the link
//!
//!                      ┌──────── silence, or a lower voice ───────┐
//!   Stopped ─> Listening ─> Backup ───────────────────────────> Candidate ─> Active
//!                             ↑  └<── a higher voice ──────────────┴───────────┘│
//!                             └── Unfit <── a required check fails, no carrier ─┘
//! ```
//!
//! `Candidate` is ours: a router whose patience ends speaks first and takes the address only when nobody
//! better has answered, so that two routers whose timers end together do not both announce it.

pub mod announce;
pub mod id;
pub mod packet;
pub mod router;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use id::VirtualRouterId;
pub use packet::{Advertisement, Authentication, Header, Priority, Refused, Version};
pub use router::{Action, Config, Event, Report, Role, Router, Why};

/// The IP protocol number.
pub const PROTOCOL: u8 = 112;
/// What every packet must arrive with, so that none comes from beyond the link.
pub const TTL: u8 = 255;
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
pub const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12);

/// Where routers of the address's family listen.
pub fn group(family_of: IpAddr) -> IpAddr {
    match family_of {
        IpAddr::V4(_) => GROUP_V4.into(),
        IpAddr::V6(_) => GROUP_V6.into(),
    }
}
