//! Facts about a site, as probes bring them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use model::Mac;
use model::inventory::Disk;
use serde::Serialize;

use crate::install_config::BootMode;

/// Something that was asked of the world.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fact<T> {
    #[default]
    Unasked,
    /// There was no answer, and why.
    Unknown(String),
    Known(T),
}

impl<T> Fact<T> {
    pub fn of<E: std::error::Error + 'static>(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(error) => Self::Unknown(model::chain(&error)),
        }
    }

    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unasked | Self::Unknown(_) => None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Observed {
    /// This machine's clock, seconds since 1970.
    pub now: i64,
    /// By the host's name.
    pub bmcs: BTreeMap<String, Bmc>,
    pub links: Fact<Links>,
    /// By the bridge's name.
    pub wires: BTreeMap<String, Wire>,
    pub dns: Fact<Vec<Resolver>>,
    /// By the server's name: how many milliseconds its clock is before ours.
    pub ntp: BTreeMap<String, Fact<i64>>,
    /// By their source.
    pub images: BTreeMap<String, Fact<Image>>,
    /// Which images are in the cache, by source.
    pub cached: Fact<BTreeMap<String, bool>>,
    pub here: Fact<Here>,
    pub listening: Fact<Vec<Listening>>,
    /// Ports that answer on addresses which are to be the bootstrap's.
    pub open_ports: BTreeMap<IpAddr, Fact<Vec<u16>>>,
    /// The certificates of the directory; empty where there is no cluster yet.
    pub certificates: Fact<Vec<Expiry>>,
}

/// How far one got with a BMC.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bmc {
    Silent {
        why: String,
    },
    /// Its certificate is not one of those trusted.
    Untrusted {
        why: String,
    },
    NotLetIn {
        why: String,
    },
    /// There is no such system, or one of several must be chosen.
    NoSystem {
        why: String,
    },
    /// It let us in, and then did not say what it should.
    Unread {
        why: String,
    },
    Open(Box<Server>),
}

/// What a BMC says about its server.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Server {
    pub vendor: Option<String>,
    pub model: Option<String>,
    /// The same behind two addresses is one server.
    pub uuid: Option<String>,
    pub on: Option<bool>,
    pub health: Option<String>,
    pub boot_mode: Option<BootMode>,
    /// What it can be told to boot from, in Redfish's words.
    pub boot_targets: Fact<Vec<String>>,
    pub secure_boot: Fact<Option<bool>>,
    /// How many seconds its clock is ahead of ours; `None` where it has none.
    pub clock_ahead: Fact<Option<i64>>,
    /// Of the BMC itself.
    pub firmware: Fact<Option<String>>,
    pub nics: Fact<Vec<Nic>>,
    pub disks: Fact<Vec<Disk>>,
    pub memory_mib: Fact<u64>,
    pub cpus: Fact<u32>,
    pub architecture: Fact<String>,
    pub media: Fact<Vec<Slot>>,
    /// Names of licences; `None` where the BMC does not list any.
    pub licences: Fact<Option<Vec<String>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nic {
    pub mac: Mac,
    pub link: bool,
}

/// A virtual drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Slot {
    pub id: String,
    pub cd: bool,
    /// What somebody left inside.
    pub image: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Links {
    pub ports: Vec<Port>,
    /// Networks this machine has routes to, without default routes.
    pub routes: Vec<IpNet>,
    /// The link that default routes lead over.
    pub default_link: Option<String>,
}

/// A network interface of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Port {
    pub name: String,
    pub mac: Option<Mac>,
    pub bridge: bool,
    /// A virtual machine's cable: there is a link while that machine is on.
    pub tap: bool,
    pub up: bool,
    pub carrier: bool,
    pub mtu: u32,
    /// The bridge that it is a port of.
    pub master: Option<String>,
    pub addresses: Vec<IpNet>,
}

impl Links {
    pub fn port(&self, name: &str) -> Option<&Port> {
        self.ports.iter().find(|port| port.name == name)
    }

    pub fn ports_of<'a>(&'a self, bridge: &'a str) -> impl Iterator<Item = &'a Port> {
        let is = move |port: &&Port| port.master.as_deref() == Some(bridge);
        self.ports.iter().filter(is)
    }
}

/// Who has which address; `None` answered nobody.
pub type Claims = BTreeMap<IpAddr, Option<Mac>>;

/// What is heard on one bridge.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Wire {
    pub claims: Fact<Claims>,
    pub vrrp: Fact<Vec<Advertisement>>,
    pub offers: Fact<Vec<Offer>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Advertisement {
    pub vrid: u8,
    pub from: IpAddr,
    pub addresses: Vec<IpAddr>,
}

/// What a DHCP server offers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Offer {
    pub server: IpAddr,
    pub address: IpAddr,
    pub router: Option<IpAddr>,
    pub dns: Vec<IpAddr>,
}

/// A name server, and what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resolver {
    pub server: IpAddr,
    pub answers: BTreeMap<String, Answer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Addresses(Vec<IpAddr>),
    /// There is no such name, or it has no address.
    Nothing,
    Silent(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Image {
    pub size: Option<u64>,
    /// Of all its bytes, where that was asked for.
    pub sha256: Option<String>,
}

/// This machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Here {
    pub root: bool,
    pub cpus: u32,
    /// What programs can still have.
    pub memory_mib: u64,
    /// Free where disks of virtual machines and images go.
    pub disk_mib: u64,
    pub disk_path: String,
    /// `None`: it runs guests; or why it does not.
    pub no_kvm: Option<String>,
    /// Programs and firmware that are missing.
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    Tcp,
    Udp,
}

/// A socket of this machine that waits for somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listening {
    pub transport: Transport,
    pub address: IpAddr,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Expiry {
    pub name: String,
    /// Seconds since 1970.
    pub not_before: i64,
    pub not_after: i64,
}
