//! What a router finds on its link that a person should know, told once in a while.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use model::Mac;

use crate::vrrp::Version;

/// Something on the link that should not be so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Report {
    #[error(
        "{from} uses our virtual router id for {address}: another cluster; give one of them another id"
    )]
    ForeignId { from: IpAddr, address: IpAddr },
    #[error("{by} answers for our virtual address, and no router speaks for it")]
    ForeignAddress { by: Mac },
    #[error("{by} claims our virtual address while we hold it")]
    Contested { by: Mac },
    #[error("{from} speaks VRRP {theirs:?} under our id")]
    OtherVersion { from: IpAddr, theirs: Version },
    #[error("{from} has another password for our id")]
    Password { from: IpAddr },
    #[error("{from} advertises every {} s, we every {} s; version 2 needs them equal", theirs.as_secs(), ours.as_secs())]
    Interval {
        from: IpAddr,
        theirs: Duration,
        ours: Duration,
    },
    #[error("advertisements come back from our own address {0}: a loop, or a second node with it")]
    OwnAddress(IpAddr),
    #[error("{from} has our priority; give every node its own")]
    EqualPriority { from: IpAddr },
}

const AGAIN: Duration = Duration::from_mins(1);
/// Strangers can make up any number of things to report.
const MOST: usize = 64;

/// Remembers what was reported, so that a log is not flooded.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<Report, Instant>);

impl Reports {
    /// The report, if it is due.
    pub fn due(&mut self, now: Instant, report: Report) -> Option<Report> {
        self.0.retain(|_, told| now < *told + AGAIN);
        if self.0.len() >= MOST || self.0.contains_key(&report) {
            return None;
        }
        self.0.insert(report, now);
        Some(report)
    }
}
