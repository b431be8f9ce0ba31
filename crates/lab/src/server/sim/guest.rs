//! What runs on a simulated server once its firmware has booted something.
//!
//! The seam for the simulated agent: today's ramdisk prints its inventory, and so does this one.

use model::inventory::{
    Boot, BootMode, Cpu, Disk, Firmware, Interface, Inventory, Memory, SystemVendor,
};

use super::End;
use super::firmware::Payload;
use crate::hardware::Hardware;
use crate::server::console::Screen;

/// Runs until the guest reboots or switches itself off, or until it is stopped from outside.
pub async fn run(hardware: &Hardware, payload: Payload, screen: &Screen) -> End {
    match payload {
        Payload::Ramdisk {
            kernel, arguments, ..
        } => {
            screen.line(&format!("Booting {kernel} {arguments}"));
            print_inventory(hardware, screen);
        }
        Payload::Cd { url } | Payload::Http { url } => {
            screen.line(&format!("Booting {url}"));
            print_inventory(hardware, screen);
        }
        Payload::Disk { what } => screen.line(&format!("Booting {what} from disk")),
        Payload::Setup => screen.line("Firmware set-up"),
        Payload::Nothing { why } => screen.line(&format!("Halted: {why}")),
    }
    std::future::pending().await
}

fn print_inventory(hardware: &Hardware, screen: &Screen) {
    let inventory =
        serde_json::to_string(&inventory(hardware)).expect("an inventory is plain data");
    screen.line("PLINTH-INVENTORY-BEGIN");
    screen.line(&inventory);
    screen.line("PLINTH-INVENTORY-END");
}

fn inventory(hardware: &Hardware) -> Inventory {
    let interface = |(index, nic): (usize, &crate::hardware::Nic)| Interface {
        name: format!("eth{index}"),
        mac_address: nic.mac,
        ipv4_address: None,
        ipv6_address: None,
        has_carrier: true,
        lldp: None,
        vendor: None,
        product: None,
        client_id: None,
        biosdevname: None,
        speed_mbps: None,
        pci_address: None,
        driver: Some("sim".into()),
    };
    let disk = |(index, disk): (usize, &crate::hardware::Disk)| Disk {
        name: format!("/dev/sd{}", char::from(b'a' + (index % 26) as u8)),
        model: "Simulated disk".into(),
        size: disk.size_bytes,
        rotational: false,
        wwn: None,
        serial: Some(disk.serial.clone()),
        vendor: None,
        wwn_with_extension: None,
        wwn_vendor_extension: None,
        hctl: None,
        by_path: None,
        logical_sectors: Some(512),
        physical_sectors: Some(512),
        tran: None,
    };
    Inventory {
        interfaces: hardware.nics.iter().enumerate().map(interface).collect(),
        cpu: Cpu {
            model_name: "Simulated CPU".into(),
            frequency: "2000".into(),
            count: hardware.cpus,
            architecture: "x86_64".into(),
            flags: vec![],
            socket_count: 1,
        },
        disks: hardware.disks.iter().enumerate().map(disk).collect(),
        memory: Memory {
            total: hardware.memory_mib << 20,
            physical_mb: Some(hardware.memory_mib),
        },
        bmc_address: None,
        bmc_v6address: None,
        bmc_mac: None,
        system_vendor: SystemVendor {
            product_name: "Simulated server".into(),
            serial_number: hardware.serial.clone(),
            manufacturer: "Plinth".into(),
            firmware: Firmware {
                vendor: "Plinth".into(),
                version: "1".into(),
                build_date: "01/01/2026".into(),
            },
        },
        boot: Boot {
            current_boot_mode: BootMode::Uefi,
            pxe_interface: None,
        },
        hostname: None,
    }
}
