//! How a virtual router is set up, and the times that follow from it.

use std::net::IpAddr;
use std::time::Duration;

use crate::vrrp::{Advertisement, Authentication, Priority, Version, VirtualRouterId};

/// One virtual router as one of its nodes sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub version: Version,
    pub id: VirtualRouterId,
    /// What is held together; never empty, all of one family.
    pub addresses: Vec<IpAddr>,
    /// This node's own address: the source of its packets, and what breaks a tie (higher wins).
    pub source: IpAddr,
    /// `None`: not fit to hold the address. Give every node a priority of its own.
    pub priority: Option<Priority>,
    pub interval: Duration,
    pub authentication: Authentication,
    pub preempt: Preempt,
    /// Listen this long for strangers before the first use of id and address.
    pub listen: Duration,
    /// All nodes are ours: hand over faster than the RFCs' timers (see [`Config::hurry`]).
    pub swift: bool,
    pub announce: Announce,
}

/// When a better router takes the address from one that works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preempt {
    Never,
    AtOnce,
    /// After having heard the lesser one for this long.
    After(Duration),
}

/// How often the link is told where the address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announce {
    /// In a row after taking the address and after every conflict.
    pub burst: u8,
    pub gap: Duration,
    /// From then on, for caches that missed it: also the longest that a healed network can go on believing
    /// a node which held the address in another part and has left without being heard.
    pub refresh: Duration,
}

impl Default for Announce {
    /// A burst of two seconds: longer than a killed node's kernel keeps answering for the address.
    fn default() -> Self {
        Self {
            burst: 20,
            gap: Duration::from_millis(100),
            refresh: Duration::from_secs(1),
        }
    }
}

impl Config {
    /// Silence after which the active router is taken for dead (RFC 9568, 6.1: Active_Down_Interval).
    pub fn down_interval(&self, priority: Priority, advertised: Duration) -> Duration {
        advertised * 3 + self.skew(priority, advertised)
    }

    /// Better routers lose patience first (RFC 9568, 6.1: Skew_Time).
    pub fn skew(&self, priority: Priority, advertised: Duration) -> Duration {
        let unit = match self.version {
            // RFC 3768, 6.1 counts in seconds whatever the interval.
            Version::V2 => Duration::from_secs(1),
            Version::V3 => advertised,
        };
        unit * (256 - u32::from(priority.0)) / 256
    }

    /// How long to wait when the active router gives up or is no longer the best.
    ///
    /// DEVIATION: with `swift` a quarter of the skew where the RFCs ask for all of it or, for a lesser
    /// active router, for the rest of the down interval. Beside other makes this would let a lesser node
    /// of ours be first, so it is a choice.
    pub(super) fn hurry(&self, priority: Priority, advertised: Duration) -> Duration {
        let skew = self.skew(priority, advertised);
        if self.swift { skew / 4 } else { skew }
    }

    /// How long a candidate waits for a better answer: above the jitter of timers and a switch, well below
    /// one advertisement.
    pub(super) fn contest(&self) -> Duration {
        (self.interval / 8).clamp(Duration::from_millis(2), Duration::from_millis(50))
    }

    pub(super) fn advertisement(&self, priority: Priority) -> Advertisement {
        Advertisement {
            version: self.version,
            id: self.id,
            priority,
            interval: self.interval,
            addresses: self.addresses.clone(),
            authentication: self.authentication,
        }
    }
}
