//! What a BMC is told about itself and its users.

use std::net::Ipv4Addr;
use std::time::Duration;

use model::{Mac, Secret};

use crate::ipmi::crypto::Suite;
use crate::ipmi::wire::PORT;

#[derive(Debug, Clone)]
pub struct Config {
    /// User ids count from 2; id 1 is the nameless user, which has no access.
    pub users: Vec<User>,
    /// As it goes over the wire: a UUID's bytes from last to first (20.8).
    pub guid: [u8; 16],
    pub device: Device,
    pub asset: Asset,
    pub lan: Lan,
    /// Best first.
    pub suites: Vec<Suite>,
    /// Sessions at once, those being set up included.
    pub max_sessions: usize,
    /// A session that says nothing for so long is closed.
    pub idle_timeout: Duration,
    /// A session not set up within this time is forgotten.
    pub setup_timeout: Duration,
}

impl Config {
    pub fn new(users: Vec<User>, guid: [u8; 16]) -> Self {
        Self {
            users,
            guid,
            device: Device::default(),
            asset: Asset::default(),
            lan: Lan::default(),
            suites: Suite::ALL.to_vec(),
            max_sessions: 8,
            idle_timeout: Duration::from_mins(1),
            setup_timeout: Duration::from_secs(10),
        }
    }
}

#[derive(Debug, Clone)]
pub struct User {
    /// At most 16 bytes; a longer name cannot be said by any console.
    pub name: String,
    /// At most 20 bytes; consoles refuse or cut longer ones.
    pub password: Secret<String>,
    /// The highest level this user may reach.
    pub privilege: Privilege,
}

/// Privilege levels (6.8), each including those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    Callback,
    User,
    Operator,
    Administrator,
}

impl Privilege {
    pub fn code(self) -> u8 {
        match self {
            Self::Callback => 1,
            Self::User => 2,
            Self::Operator => 3,
            Self::Administrator => 4,
        }
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Callback,
            2 => Self::User,
            3 => Self::Operator,
            4 => Self::Administrator,
            _ => return None,
        })
    }
}

/// What Get Device ID answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    pub id: u8,
    pub revision: u8,
    pub firmware_major: u8,
    /// 0 to 99.
    pub firmware_minor: u8,
    /// IANA enterprise number, 20 bits.
    pub manufacturer: u32,
    pub product: u16,
}

impl Default for Device {
    /// An invented device: manufacturer 0 belongs to nobody.
    fn default() -> Self {
        Self {
            id: 0x20,
            revision: 1,
            firmware_major: 1,
            firmware_minor: 0,
            manufacturer: 0,
            product: 1,
        }
    }
}

/// What the inventory (FRU) says; each text at most 63 bytes, the rest is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    pub manufacturer: String,
    pub product: String,
    pub part_number: String,
    pub version: String,
    pub serial: String,
    pub asset_tag: String,
}

impl Default for Asset {
    fn default() -> Self {
        Self {
            manufacturer: "Plinth".into(),
            product: "Lab server".into(),
            part_number: "LAB-1".into(),
            version: "1.0".into(),
            serial: "0".into(),
            asset_tag: String::new(),
        }
    }
}

/// The BMC's own place on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lan {
    pub mac: Mac,
    pub address: Ipv4Addr,
    pub netmask: Ipv4Addr,
    pub gateway: Ipv4Addr,
    pub dhcp: bool,
    /// The UDP port consoles reach it on.
    pub port: u16,
}

impl Default for Lan {
    fn default() -> Self {
        let none = Ipv4Addr::UNSPECIFIED;
        Self {
            mac: Mac([0; 6]),
            address: none,
            netmask: none,
            gateway: none,
            dhcp: false,
            port: PORT,
        }
    }
}
