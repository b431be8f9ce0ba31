//! What this machine is made of, from sysfs, procfs and the firmware's tables.
//!
//! Everything is read below a root given by the caller, so tests bring their own trees. What cannot be read is
//! left out; nothing here fails.

pub mod bmc;
mod cpu;
mod disks;
mod dmi;
mod nics;
pub mod pci;

use std::fs;
use std::path::Path;

use model::inventory::{Boot, BootMode, Inventory, Memory};

use crate::network::Addresses;

pub fn collect(root: &Path, addresses: &Addresses) -> Inventory {
    let sys = root.join("sys");
    let smbios = fs::read(sys.join("firmware/dmi/tables/DMI")).unwrap_or_default();
    let cmdline = text(&root.join("proc/cmdline")).unwrap_or_default();
    let meminfo = text(&root.join("proc/meminfo")).unwrap_or_default();
    Inventory {
        interfaces: nics::collect(&sys, addresses),
        cpu: cpu::collect(root),
        disks: disks::collect(&sys),
        memory: Memory {
            total: memory_total(&meminfo),
            physical_mb: dmi::memory_mib(&smbios),
        },
        bmc_address: None,
        bmc_v6address: None,
        bmc_mac: None,
        system_vendor: dmi::vendor(&sys),
        boot: Boot {
            current_boot_mode: if sys.join("firmware/efi").exists() {
                BootMode::Uefi
            } else {
                BootMode::Bios
            },
            pxe_interface: pxe_interface(&cmdline),
        },
        hostname: text(&root.join("proc/sys/kernel/hostname"))
            .filter(|name| !matches!(name.as_str(), "(none)" | "localhost")),
    }
}

/// A file's text without blanks around it; nothing if it is empty or cannot be read.
fn text(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes)
        .trim_matches(['\0', ' ', '\n', '\t'])
        .to_owned();
    (!text.is_empty()).then_some(text)
}

fn number<N: std::str::FromStr>(path: &Path) -> Option<N> {
    text(path)?.parse().ok()
}

/// The last part of where a link leads.
fn link_name(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

/// The innermost PCI device of a path in `/sys/devices`.
fn pci_address(path: &Path) -> Option<String> {
    let parts = path
        .components()
        .rev()
        .map(|part| part.as_os_str().to_string_lossy());
    parts
        .into_iter()
        .find(|part| is_pci_address(part))
        .map(std::borrow::Cow::into_owned)
}

/// `0000:3b:00.1`
fn is_pci_address(text: &str) -> bool {
    let hex =
        |part: &str, len: usize| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<&str> = text.split([':', '.']).collect();
    match parts.as_slice() {
        [domain, bus, device, function] => {
            hex(domain, 4) && hex(bus, 2) && hex(device, 2) && hex(function, 1)
        }
        _ => false,
    }
}

fn memory_total(meminfo: &str) -> u64 {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Boot loaders say which card they came by.
fn pxe_interface(cmdline: &str) -> Option<String> {
    let words = agent::parameters::words(cmdline);
    let mac = agent::parameters::boot_mac(words.get("bootif")?)?;
    Some(mac.to_string())
}

#[cfg(test)]
mod tests;
