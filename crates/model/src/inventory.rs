//! What hardware a server has, as the agent reports it.
//!
//! The field names are those of Ironic's agent protocol, so the same document is the agent's console output,
//! its inspection call-back and Ironic's stored inventory.

use serde::{Deserialize, Serialize};

use crate::Mac;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    pub interfaces: Vec<Interface>,
    pub cpu: Cpu,
    pub disks: Vec<Disk>,
    pub memory: Memory,
    pub bmc_address: Option<String>,
    pub bmc_v6address: Option<String>,
    pub bmc_mac: Option<Mac>,
    pub system_vendor: SystemVendor,
    pub boot: Boot,
    pub hostname: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    pub mac_address: Mac,
    pub ipv4_address: Option<String>,
    pub ipv6_address: Option<String>,
    pub has_carrier: bool,
    pub lldp: Option<Vec<(u8, String)>>,
    /// PCI vendor as sysfs prints it, `0x8086`.
    pub vendor: Option<String>,
    pub product: Option<String>,
    pub client_id: Option<String>,
    pub biosdevname: Option<String>,
    pub speed_mbps: Option<u32>,
    pub pci_address: Option<String>,
    pub driver: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    pub model_name: String,
    /// MHz, as text: the protocol wants it so.
    pub frequency: String,
    pub count: u32,
    pub architecture: String,
    pub flags: Vec<String>,
    pub socket_count: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    pub name: String,
    pub model: String,
    /// Bytes.
    pub size: u64,
    pub rotational: bool,
    pub wwn: Option<String>,
    pub serial: Option<String>,
    pub vendor: Option<String>,
    pub wwn_with_extension: Option<String>,
    pub wwn_vendor_extension: Option<String>,
    pub hctl: Option<String>,
    pub by_path: Option<String>,
    pub logical_sectors: Option<u32>,
    pub physical_sectors: Option<u32>,
    pub tran: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Bytes the kernel can use.
    pub total: u64,
    /// MiB of memory modules, where the firmware says.
    pub physical_mb: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemVendor {
    pub product_name: String,
    pub serial_number: String,
    pub manufacturer: String,
    pub firmware: Firmware,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Firmware {
    pub vendor: String,
    pub version: String,
    pub build_date: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Boot {
    pub current_boot_mode: BootMode,
    pub pxe_interface: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootMode {
    Bios,
    Uefi,
}
