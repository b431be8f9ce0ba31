//! PCI devices.

use std::fs;
use std::path::Path;

use agent::ipa::PciDevice;

use super::{number, text};

pub fn collect(sys: &Path) -> Vec<PciDevice> {
    let entries = fs::read_dir(sys.join("bus/pci/devices"));
    let mut found: Vec<_> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| read(&entry.path(), &entry.file_name().to_string_lossy()))
        .collect();
    found.sort_by(|a, b| a.bus.cmp(&b.bus));
    found
}

/// Numbers as lspci writes them, without 0x.
fn read(dir: &Path, bus: &str) -> Option<PciDevice> {
    let hex = |name: &str| {
        let text = text(&dir.join(name))?;
        Some(text.strip_prefix("0x").unwrap_or(&text).to_owned())
    };
    Some(PciDevice {
        vendor_id: hex("vendor")?,
        product_id: hex("device")?,
        class: hex("class")?,
        revision: hex("revision").unwrap_or_default(),
        bus: bus.to_owned(),
        numa_node_id: number(&dir.join("numa_node")).filter(|node: &i32| *node >= 0),
    })
}
