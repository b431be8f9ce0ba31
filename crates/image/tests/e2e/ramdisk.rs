//! The ramdisk boots and says what the machine is made of.

use std::path::Path;
use std::time::Duration;

use image::ramdisk::{self, Flavour, Ramdisk};
use model::inventory::Inventory;

use crate::guest::{Firmware, Guest, blank, turn};

const LIMIT: Duration = Duration::from_mins(2);
const MACS: [&str; 2] = ["52:54:00:aa:00:01", "52:54:00:aa:00:02"];

fn lab() -> Ramdisk {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let agent = match std::env::var_os("PLINTH_AGENT") {
        Some(path) => path.into(),
        None => image::agent::build(&workspace).unwrap(),
    };
    let options = ramdisk::Options {
        flavour: Flavour::Lab,
        agent,
        mirror: None,
        cache: None,
        refresh: false,
    };
    ramdisk::build(&options, |progress| {
        eprintln!(
            "{:>6.1} s {}",
            progress.elapsed.as_secs_f32(),
            progress.step
        );
    })
    .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}

fn inventory(console: &str) -> Inventory {
    let (_, rest) = console.split_once("PLINTH-INVENTORY-BEGIN").unwrap();
    let (json, _) = rest.split_once("PLINTH-INVENTORY-END").unwrap();
    serde_json::from_str(json.trim()).unwrap_or_else(|error| panic!("{error} in {json}"))
}

#[test]
fn direct_boot_finds_every_disk_and_card_and_the_power_button_ends_it() {
    let ramdisk = lab();
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let disks = ["virtio", "sata", "nvme"].map(|name| dir.path().join(name));
    let drive = |n: usize| format!("file={},format=raw,if=none,id=d{n}", disks[n].display());
    for (disk, gib) in disks.iter().zip(1..) {
        blank(disk, gib << 30);
    }
    let mut guest = Guest::start(
        Firmware::Bios,
        &[
            "-kernel",
            ramdisk.kernel.to_str().unwrap(),
            "-initrd",
            ramdisk.initrd.to_str().unwrap(),
            "-append",
            ramdisk::CMDLINE,
            "-drive",
            &drive(0),
            "-device",
            "virtio-blk-pci,drive=d0,serial=VIRTIO1",
            "-drive",
            &drive(1),
            "-device",
            "ide-hd,drive=d1,bus=ide.0,serial=SATA1,wwn=0x5000c500a1b2c3d4",
            "-drive",
            &drive(2),
            "-device",
            "nvme,drive=d2,serial=NVME1",
            "-netdev",
            "user,id=n0",
            "-device",
            &format!("virtio-net-pci,netdev=n0,mac={}", MACS[0]),
            "-netdev",
            "user,id=n1,net=10.0.9.0/24",
            "-device",
            &format!("virtio-net-pci,netdev=n1,mac={}", MACS[1]),
        ],
    );
    let inventory = inventory(&guest.wait_for("PLINTH-INVENTORY-END", LIMIT));
    let mut found: Vec<_> = inventory
        .disks
        .iter()
        .map(|disk| (disk.serial.as_deref().unwrap_or(""), disk.size >> 30))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [("NVME1", 3), ("SATA1", 2), ("VIRTIO1", 1)]);
    let sata = inventory
        .disks
        .iter()
        .find(|disk| disk.serial.as_deref() == Some("SATA1"))
        .unwrap();
    assert_eq!(sata.wwn.as_deref(), Some("0x5000c500a1b2c3d4"));
    assert_eq!(
        (sata.name.as_str(), sata.tran.as_deref()),
        ("/dev/sda", Some("sata"))
    );
    let nics: Vec<_> = inventory
        .interfaces
        .iter()
        .map(|nic| (nic.mac_address.to_string(), nic.ipv4_address.clone()))
        .collect();
    assert_eq!(
        nics,
        [
            (MACS[0].into(), Some("10.0.2.15".into())),
            (MACS[1].into(), Some("10.0.9.15".into()))
        ]
    );
    assert_eq!(inventory.memory.physical_mb, Some(1024));

    guest.wait_for("waiting for orders", LIMIT);
    guest.press_power_button();
    let console = guest.wait_for_power_off(LIMIT);
    assert!(console.contains("power button pressed"), "{console}");
}

#[test]
fn kernel_and_initrd_are_small_enough_for_slow_networks() {
    let manifest = lab().manifest;
    let size = |name| manifest.file(name).unwrap().size;
    let total = size("vmlinuz") + size("initrd");
    assert!(total < 40_000_000, "{total} bytes");
}
