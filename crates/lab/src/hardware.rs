//! What a lab server is made of: fixed when the rack is planned, never changed while it lives.

use model::Mac;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hardware {
    pub name: String,
    pub uuid: Uuid,
    pub serial: String,
    pub cpus: u32,
    pub memory_mib: u64,
    pub nics: Vec<Nic>,
    pub disks: Vec<Disk>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nic {
    pub network: Network,
    pub mac: Mac,
    /// The name of its port on the network's bridge.
    pub port: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    pub serial: String,
    pub size_bytes: u64,
}

/// The two networks of a rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// External: routed, with the site's DHCP and DNS. Carries the cluster.
    Baremetal,
    /// Isolated: carries network boot and image transfer.
    Provisioning,
}

impl Network {
    pub const ALL: [Self; 2] = [Self::Baremetal, Self::Provisioning];

    /// The name of its bridge.
    pub fn bridge(self) -> &'static str {
        match self {
            Self::Baremetal => "baremetal",
            Self::Provisioning => "provisioning",
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.bridge())
    }
}

/// Which firmware a server starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    Uefi,
    Bios,
}
