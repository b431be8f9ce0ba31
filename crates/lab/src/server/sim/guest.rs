//! What runs on a simulated server once its firmware has booted something.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use ::agent::parameters::Parameters;
use model::Mac;
use model::inventory::{
    Boot, BootMode, Cpu, Disk, Firmware, Interface, Inventory, Memory, SystemVendor,
};

use super::agent::Simulated;
use super::firmware::Payload;
use super::{End, Outside, agent, cd};
use crate::hardware::Hardware;
use crate::server::console::Screen;

/// Runs until the guest reboots or switches itself off, or until it is stopped from outside.
pub async fn run(outside: &Outside, mode: BootMode, payload: Payload) -> End {
    let screen = &outside.screen;
    match payload {
        Payload::Ramdisk {
            kernel,
            arguments,
            nic,
            ..
        } => {
            screen.line(&format!("Booting {kernel} {}", shown(&arguments)));
            ramdisk(outside, mode, &arguments, Some(nic), None).await
        }
        Payload::Cd { url, file } => {
            screen.line(&format!("Booting {url}"));
            let authorities = cd::read(&file, AUTHORITIES).ok();
            match cd::arguments(&file) {
                Ok(arguments) => ramdisk(outside, mode, &arguments, None, authorities).await,
                Err(error) => {
                    screen.line(&model::chain(&error));
                    ramdisk(outside, mode, "", None, None).await
                }
            }
        }
        Payload::Http { url } => {
            screen.line(&format!("Booting {url}"));
            ramdisk(outside, mode, "", None, None).await
        }
        Payload::Disk { what } => {
            screen.line(&format!("Booting {what} from disk"));
            std::future::pending().await
        }
        Payload::Setup => {
            screen.line("Firmware set-up");
            std::future::pending().await
        }
        Payload::Nothing { why } => {
            screen.line(&format!("Halted: {why}"));
            std::future::pending().await
        }
    }
}

/// Where a CD carries the authorities that its agent trusts.
const AUTHORITIES: &str = "etc/ironic-python-agent/ironic.crt";

/// Until an agent that could not begin is begun again.
const AGAIN: Duration = Duration::from_secs(1);

/// The kernel line as a console may show it.
fn shown(arguments: &str) -> String {
    let words = arguments.split(' ').map(|word| match word.split_once('=') {
        Some(("ipa-agent-token", _)) => "ipa-agent-token=******",
        Some(_) | None => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The agent: it brings up its NICs, shows what the server is made of, and works for whom the kernel line names.
async fn ramdisk(
    outside: &Outside,
    mode: BootMode,
    arguments: &str,
    booted_by: Option<Mac>,
    authorities: Option<String>,
) -> End {
    let screen = &outside.screen;
    let (parameters, problems) = Parameters::parse(arguments);
    for problem in problems {
        screen.line(&problem.to_string());
    }
    let works = !parameters.api.is_empty() || parameters.inspection_callback.is_some();
    let addresses = if works {
        outside.all_addresses().await
    } else {
        BTreeMap::new()
    };
    print_inventory(
        &inventory(&outside.hardware, mode, &addresses, booted_by),
        screen,
    );
    if !works {
        return std::future::pending().await;
    }
    let nic = booted_by.or(parameters.boot_mac);
    let address = nic
        .and_then(|nic| addresses.get(&nic))
        .or_else(|| addresses.values().next());
    let Some(address) = address.copied() else {
        screen.line("no NIC has an address");
        return std::future::pending().await;
    };
    let wires = outside.wires.clone();
    let machine = Arc::new(Simulated {
        hardware: outside.hardware.clone(),
        disks: outside.disks.clone(),
        broken: Box::new(move || super::lock(&wires).disk_errors),
        mode,
        addresses,
        booted_by,
        writers: outside.wire.as_ref().map(|wire| wire.writers.clone()),
    });
    loop {
        let ended = agent::run(
            machine.clone(),
            parameters.clone(),
            authorities.clone(),
            address,
        );
        match ended.await {
            // The firmware here takes no longer than a kernel does.
            Ok(::agent::ipa::End::Reboot | ::agent::ipa::End::Kexec) => return End::Reboot,
            Ok(::agent::ipa::End::PowerOff) => return End::PowerOff,
            // Begun again, as an init does.
            Err(error) => screen.line(&format!("agent: {}", model::chain(&error))),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn print_inventory(inventory: &Inventory, screen: &Screen) {
    let inventory = serde_json::to_string(inventory).expect("an inventory is plain data");
    screen.line("PLINTH-INVENTORY-BEGIN");
    screen.line(&inventory);
    screen.line("PLINTH-INVENTORY-END");
}

pub fn inventory(
    hardware: &Hardware,
    mode: BootMode,
    addresses: &BTreeMap<Mac, Ipv4Addr>,
    booted_by: Option<Mac>,
) -> Inventory {
    let interface = |(index, nic): (usize, &crate::hardware::Nic)| Interface {
        name: format!("eth{index}"),
        mac_address: nic.mac,
        ipv4_address: addresses.get(&nic.mac).map(ToString::to_string),
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
            current_boot_mode: mode,
            pxe_interface: booted_by.map(|mac| mac.to_string()),
        },
        hostname: None,
    }
}
