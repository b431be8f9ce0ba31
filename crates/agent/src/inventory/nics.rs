//! Network cards.

use std::fs;
use std::path::Path;

use model::Mac;
use model::inventory::Interface;

use super::{link_name, number, pci_address, text};
use crate::network::Addresses;

pub fn collect(sys: &Path, addresses: &Addresses) -> Vec<Interface> {
    let mut found: Vec<_> = fs::read_dir(sys.join("class/net"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            read(
                &entry.path(),
                &entry.file_name().to_string_lossy(),
                addresses,
            )
        })
        .collect();
    found.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
    found
}

/// `eth2` before `eth10`.
fn natural(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(0), name)
}

fn read(dir: &Path, name: &str, addresses: &Addresses) -> Option<Interface> {
    // Without a device behind it a link is a bridge, a tunnel or the loopback.
    let device = dir.join("device");
    let place = fs::canonicalize(&device).ok()?;
    let mac: Mac = text(&dir.join("address"))?.parse().ok()?;
    // Some servers show a card of their BMC under such an address; it is not ours to use (Ironic drops it too).
    if mac.octets()[0] == 0xFA {
        return None;
    }
    let (v4, v6) = addresses.get(name).copied().unwrap_or_default();
    Some(Interface {
        name: name.to_owned(),
        mac_address: mac,
        ipv4_address: v4.map(|ip| ip.to_string()),
        ipv6_address: v6.map(|ip| ip.to_string()),
        // Reading it is an error while the link is down.
        has_carrier: text(&dir.join("carrier")).as_deref() == Some("1"),
        lldp: None,
        vendor: text(&device.join("vendor")),
        product: text(&device.join("device")),
        client_id: None,
        biosdevname: None,
        speed_mbps: number::<i64>(&dir.join("speed")).and_then(|speed| u32::try_from(speed).ok()),
        pci_address: pci_address(&place),
        driver: link_name(&device.join("driver")),
    })
}
