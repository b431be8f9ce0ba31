//! What `plinth lab status` shows.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use model::Mac;
use serde::{Deserialize, Serialize};

use crate::hardware::{Firmware, Network};
use crate::server::boot::Override;
use crate::server::chassis::Power;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub name: String,
    pub namespace: String,
    pub pid: u32,
    /// `kvm`, [`EMULATED`] with the reason, or `sim`.
    pub accelerator: String,
    pub site: Site,
    /// The certificate that signed every BMC's.
    pub ca_file: PathBuf,
    pub servers: Vec<Server>,
}

pub const EMULATED: &str = "emulated";

impl Status {
    /// Its servers are a dozen times slower than this machine.
    pub fn is_emulated(&self) -> bool {
        self.accelerator.starts_with(EMULATED)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Site {
    pub subnet: String,
    pub router: Ipv4Addr,
    pub domain: String,
    pub leases: Vec<Lease>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    pub mac: Mac,
    pub address: Ipv4Addr,
    pub hostname: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Server {
    pub name: String,
    pub redfish: String,
    pub ipmi: String,
    pub user: String,
    /// Shown on purpose: this is a lab, and its owner needs it.
    pub password: String,
    pub macs: Vec<Port>,
    pub power: Power,
    pub firmware: Firmware,
    /// The override for the next boot, if any.
    pub boot: Option<Override>,
    /// The URL of the inserted medium.
    pub media: Option<String>,
    pub console: PathBuf,
    pub faults: usize,
    /// How many boots have begun since the lab came up.
    pub boots: u64,
    /// What last went wrong below the BMC.
    pub trouble: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Port {
    pub network: Network,
    pub mac: Mac,
}
