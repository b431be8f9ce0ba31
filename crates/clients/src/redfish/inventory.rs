//! What hardware a server has, as far as its BMC knows: inspection without booting anything.
//!
//! The document is the one the agent makes, so that readers need not care who looked. What a BMC cannot know
//! (addresses, links, kernel names of disks) is left out or marked.

use model::Mac;
use model::inventory::{Boot, Cpu, Disk, Firmware, Interface, Inventory, Memory, SystemVendor};
use serde_json::Value;
use tracing::{debug, warn};

use super::Error;
use super::json::{Resource, in_use, list, number, text};
use super::system::count;
use super::talk::Client;
use crate::BootMode;

const OPERATION: &str = "inspect through the BMC";

impl Client {
    pub async fn inventory(&self) -> Result<Inventory, Error> {
        let system = self.system_resource(OPERATION).await?;
        let said = |pointer: &str| system.text_at(pointer).unwrap_or_default().to_string();
        let boot_mode = system
            .body
            .get("Boot")
            .and_then(super::boot::read_mode)
            .unwrap_or(BootMode::Uefi);
        let total_mib = system
            .body
            .pointer("/MemorySummary/TotalSystemMemoryGiB")
            .and_then(Value::as_f64)
            .map(|gib| (gib * 1024.0).round() as u64);
        let bmc = self
            .config
            .address
            .host_str()
            .map(|host| host.trim_matches(['[', ']']));
        Ok(Inventory {
            interfaces: self.interfaces(&system).await?,
            cpu: self.cpu(&system).await?,
            disks: self.disks(&system).await?,
            memory: Memory {
                total: total_mib.unwrap_or(0) << 20,
                physical_mb: total_mib,
            },
            bmc_address: bmc
                .filter(|address| !address.contains(':'))
                .map(ToString::to_string),
            bmc_v6address: bmc
                .filter(|address| address.contains(':'))
                .map(ToString::to_string),
            bmc_mac: None,
            system_vendor: SystemVendor {
                product_name: said("/Model"),
                serial_number: said("/SerialNumber"),
                manufacturer: said("/Manufacturer"),
                firmware: Firmware {
                    vendor: said("/Manufacturer"),
                    version: said("/BiosVersion"),
                    build_date: String::new(),
                },
            },
            boot: Boot {
                current_boot_mode: match boot_mode {
                    BootMode::Uefi => model::inventory::BootMode::Uefi,
                    BootMode::Bios => model::inventory::BootMode::Bios,
                },
                pxe_interface: None,
            },
            hostname: system.text_at("/HostName").map(ToString::to_string),
        })
    }

    /// Interfaces that are enabled and well, each with its burnt-in address.
    async fn interfaces(&self, system: &Resource) -> Result<Vec<Interface>, Error> {
        let Some(path) = system.link("/EthernetInterfaces") else {
            return Ok(Vec::new());
        };
        let mut interfaces = Vec::new();
        for nic in self.find_members(path).await? {
            let address = nic
                .text_at("/PermanentMACAddress")
                .or_else(|| nic.text_at("/MACAddress"));
            let Some(mac) = address.and_then(|text| text.to_lowercase().parse::<Mac>().ok()) else {
                debug!(bmc = %self.config.address, path = nic.path, "an interface without an address is left out");
                continue;
            };
            if !in_use(&nic.body) {
                continue;
            }
            interfaces.push(Interface {
                name: nic.text_at("/Id").unwrap_or_default().to_string(),
                mac_address: mac,
                ipv4_address: None,
                ipv6_address: None,
                has_carrier: nic.text_at("/LinkStatus") == Some("LinkUp"),
                lldp: None,
                vendor: None,
                product: None,
                client_id: None,
                biosdevname: None,
                speed_mbps: count(&nic.body, "/SpeedMbps").filter(|speed| *speed > 0),
                pci_address: None,
                driver: None,
            });
        }
        Ok(interfaces)
    }

    async fn cpu(&self, system: &Resource) -> Result<Cpu, Error> {
        let processors = match system.link("/Processors") {
            Some(path) => self.find_members(path).await?,
            None => Vec::new(),
        };
        let is_cpu = |processor: &&Resource| {
            processor
                .text_at("/ProcessorType")
                .is_none_or(|kind| kind == "CPU")
                && in_use(&processor.body)
        };
        let cpus: Vec<&Resource> = processors.iter().filter(is_cpu).collect();
        let threads = |cpu: &&Resource| {
            count(&cpu.body, "/TotalThreads").or_else(|| count(&cpu.body, "/TotalCores"))
        };
        let counted: u32 = cpus.iter().filter_map(threads).sum();
        let summary = |name: &str| count(&system.body, &format!("/ProcessorSummary/{name}"));
        let first = |pointer: &str| cpus.iter().find_map(|cpu| cpu.text_at(pointer));
        Ok(Cpu {
            model_name: first("/Model")
                .or_else(|| system.text_at("/ProcessorSummary/Model"))
                .unwrap_or_default()
                .to_string(),
            frequency: cpus
                .iter()
                .find_map(|cpu| number(&cpu.body, "/MaxSpeedMHz"))
                .map(|mhz| mhz.to_string())
                .unwrap_or_default(),
            count: if counted > 0 {
                counted
            } else {
                summary("LogicalProcessorCount").unwrap_or(0)
            },
            architecture: architecture(first("/InstructionSet"), first("/ProcessorArchitecture"))
                .to_string(),
            flags: Vec::new(),
            socket_count: if cpus.is_empty() {
                summary("Count").unwrap_or(0)
            } else {
                cpus.len() as u32
            },
        })
    }

    async fn disks(&self, system: &Resource) -> Result<Vec<Disk>, Error> {
        let mut disks = Vec::new();
        if let Some(path) = system.link("/Storage") {
            for storage in self.find_members(path).await? {
                for path in storage.links("/Drives") {
                    let drive = self.get(OPERATION, &path).await?;
                    disks.extend(disk(&drive.body, disks.len()));
                }
            }
        }
        if disks.is_empty()
            && let Some(path) = system.link("/SimpleStorage")
        {
            for storage in self.find_members(path).await? {
                for device in list(&storage.body, "/Devices") {
                    disks.extend(disk(device, disks.len()));
                }
            }
        }
        Ok(disks)
    }

    /// Members of a collection, as far as the BMC can tell: a part it stumbles over is left out, and said.
    async fn find_members(&self, path: &str) -> Result<Vec<Resource>, Error> {
        match self.members(OPERATION, path).await {
            Err(
                error @ (Error::Refused { .. } | Error::Missing { .. } | Error::NotJson { .. }),
            ) => {
                warn!(bmc = %self.config.address, error = model::chain(&error), "a part of the inventory is left out");
                Ok(Vec::new())
            }
            outcome => outcome,
        }
    }
}

/// A drive of a size. What is absent or broken is left out: an image would not survive there.
fn disk(drive: &Value, number_before: usize) -> Option<Disk> {
    let size = number(drive, "/CapacityBytes").filter(|size| *size > 0)?;
    if !in_use(drive) {
        return None;
    }
    let said = |pointer: &str| text(drive, pointer).map(ToString::to_string);
    let naa = list(drive, "/Identifiers").iter().find(|id| {
        matches!(
            text(id, "/DurableNameFormat"),
            Some("NAA" | "EUI" | "NGUID")
        )
    });
    let wwn = naa
        .and_then(|id| text(id, "/DurableName"))
        .map(|name| format!("0x{}", name.trim_start_matches("0x").to_lowercase()));
    Some(Disk {
        // Its name on the running system is not known here.
        name: said("/Name").unwrap_or_else(|| format!("drive {}", number_before + 1)),
        model: said("/Model").unwrap_or_default(),
        size,
        rotational: text(drive, "/MediaType") == Some("HDD"),
        wwn,
        serial: said("/SerialNumber"),
        vendor: said("/Manufacturer"),
        wwn_with_extension: None,
        wwn_vendor_extension: None,
        hctl: None,
        by_path: None,
        logical_sectors: count(drive, "/BlockSizeBytes"),
        physical_sectors: None,
        tran: text(drive, "/Protocol").map(str::to_lowercase),
    })
}

/// As the kernel names it.
fn architecture(instructions: Option<&str>, processor: Option<&str>) -> &'static str {
    match (instructions, processor) {
        (Some("ARM-A64"), _) | (None, Some("ARM")) => "aarch64",
        (Some("PowerISA"), _) => "ppc64le",
        _ => "x86_64",
    }
}
