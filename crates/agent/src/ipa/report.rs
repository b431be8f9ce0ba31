//! The inspection report.

use std::collections::BTreeMap;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::inventory::Inventory;
use model::root_device::Hints;
use serde_json::{Value, json};

use super::machine::{Failure, Machine, PciDevice};
use super::step;
use crate::parameters::Parameters;

/// Collects everything, and makes the document of it. A failure to collect is told, not kept.
pub fn collect(machine: &dyn Machine, parameters: &Parameters) -> Value {
    let (inventory, lldp) = std::thread::scope(|scope| {
        // Switches speak once in half a minute; the rest is done meanwhile.
        let lldp = parameters
            .lldp
            .map(|wait| scope.spawn(move || machine.lldp(wait)));
        let inventory = machine.inventory();
        let lldp = lldp.map(|thread| thread.join().unwrap_or_default());
        (inventory, lldp)
    });
    let lldp = lldp.map(|found| {
        let hex = |(kind, value): (u8, Vec<u8>)| (kind, hex(&value));
        let of_link =
            |(name, parts): (String, Vec<_>)| (name, parts.into_iter().map(hex).collect());
        found.into_iter().map(of_link).collect()
    });
    let wants_logs = parameters.collectors.iter().any(|name| name == "logs");
    let logs = wants_logs.then(|| machine.logs());
    document(
        parameters,
        inventory,
        lldp,
        &machine.pci_devices(),
        logs.as_deref(),
    )
}

type Lldp = BTreeMap<String, Vec<(u8, String)>>;

fn document(
    parameters: &Parameters,
    inventory: Result<Inventory, Failure>,
    lldp: Option<Lldp>,
    pci: &[PciDevice],
    logs: Option<&[u8]>,
) -> Value {
    let (manager, version) = step::MANAGER;
    let mut report = json!({
        "configuration": {
            "collectors": parameters.collectors,
            "managers": [{"name": manager, "version": version}],
        },
        "error": null,
        "pci_devices": pci,
    });
    match inventory {
        Ok(mut inventory) => {
            for interface in &mut inventory.interfaces {
                interface.lldp = lldp
                    .as_ref()
                    .and_then(|all| all.get(&interface.name).cloned());
            }
            report["root_disk"] = json!(Hints::default().select(&inventory.disks).ok());
            report["boot_interface"] = json!(
                parameters
                    .boot_mac
                    .map(|mac| mac.to_string())
                    .or_else(|| inventory.boot.pxe_interface.clone())
            );
            report["inventory"] = json!(inventory);
        }
        Err(failure) => {
            report["error"] = json!(format!("inventory: {}", failure.details));
            report["inventory"] = json!({"interfaces": []});
        }
    }
    if let Some(lldp) = lldp {
        report["lldp_raw"] = json!(lldp);
    }
    if let Some(logs) = logs.filter(|logs| !logs.is_empty()) {
        report["logs"] = STANDARD.encode(logs).into();
    }
    report
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
