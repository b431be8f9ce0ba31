//! The record of a lease: what must be on disk before a client is told of it.

use std::net::Ipv4Addr;
use std::time::SystemTime;

use model::Mac;
use serde::{Deserialize, Serialize};

/// An address given to a client until a time. One record per address; a later one replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub address: Ipv4Addr,
    pub client: Client,
    pub mac: Mac,
    pub hostname: Option<String>,
    pub starts: SystemTime,
    /// In the past for a lease that was released or declined: its client is still remembered.
    pub expires: SystemTime,
}

/// Who a client is to us.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Client {
    Mac(Mac),
    Id(Vec<u8>),
}

impl Client {
    /// A number that spreads clients over the pool, the same in every run (FNV-1a).
    pub(super) fn spread(&self) -> u64 {
        let octets;
        let bytes: &[u8] = match self {
            Self::Mac(mac) => {
                octets = mac.octets();
                &octets
            }
            Self::Id(id) => id,
        };
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// Names a record that is on its way to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);
