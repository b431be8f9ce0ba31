//! What becomes of an inventory: stored, and turned into ports and properties.

use jiff::Timestamp;
use lifecycle::node::Outcome;
use model::Mac;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::record::{Node, Port};
use crate::store::{Change, Tables};

/// Where an inventory is kept.
pub fn key(node: Uuid) -> String {
    format!("inventory/{node}")
}

/// Where an agent's report is kept until it has been worked on.
pub fn sent_key(node: Uuid) -> String {
    format!("inspection/{node}")
}

pub fn document(node: Uuid, inventory: &Value, plugin_data: &Value) -> Change {
    let value = json!({"inventory": inventory, "plugin_data": plugin_data})
        .to_string()
        .into_bytes();
    Change::PutDocument {
        key: key(node),
        value,
    }
}

/// More interfaces than any server has are not a server's.
const MOST_INTERFACES: usize = 64;

/// Works on what the agent sent. All of it or nothing.
pub fn record(node: &mut Node, tables: &Tables, sent: &[u8]) -> (Outcome, Vec<Change>) {
    match digest(node, tables, sent) {
        Ok(changes) => (Outcome::Done, changes),
        Err(trouble) => (
            Outcome::Failed {
                trouble,
                again: false,
            },
            Vec::new(),
        ),
    }
}

fn digest(node: &mut Node, tables: &Tables, sent: &[u8]) -> Result<Vec<Change>, String> {
    let Ok(Value::Object(mut sent)) = serde_json::from_slice(sent) else {
        return Err("the inspection data is not a JSON object".into());
    };
    if let Some(error) = sent
        .get("error")
        .and_then(Value::as_str)
        .filter(|error| !error.is_empty())
    {
        return Err(format!(
            "the agent reported: {}",
            error.chars().take(1000).collect::<String>()
        ));
    }
    let inventory = sent.remove("inventory").unwrap_or_default();
    let interfaces = interfaces(&inventory);
    if interfaces.len() > MOST_INTERFACES {
        return Err(format!(
            "{} interfaces are more than the {MOST_INTERFACES} that are believed",
            interfaces.len()
        ));
    }
    let boot = sent
        .get("boot_interface")
        .and_then(Value::as_str)
        .and_then(boot_mac);
    let boot = boot.or_else(|| {
        let mac = inventory.pointer("/boot/pxe_interface")?.as_str()?;
        boot_mac(mac)
    });
    let mut changes = learn(node, tables, &inventory, boot);
    // Logs are large, and of use only where something failed.
    sent.remove("logs");
    let macs: Vec<_> = interfaces.iter().map(|(_, mac)| mac.to_string()).collect();
    sent.insert("macs".into(), macs.into());
    let all: serde_json::Map<_, _> = interfaces
        .iter()
        .map(|(name, mac)| {
            (
                name.clone(),
                json!({"name": name, "mac_address": mac, "pxe_enabled": boot == Some(*mac)}),
            )
        })
        .collect();
    sent.insert("all_interfaces".into(), all.clone().into());
    sent.insert("valid_interfaces".into(), all.into());
    changes.push(document(node.uuid, &inventory, &Value::Object(sent)));
    changes.push(Change::RemoveDocuments {
        prefix: sent_key(node.uuid),
    });
    Ok(changes)
}

/// What an inventory means for a node, however it was come by: its ports and its properties.
pub fn learn(
    node: &mut Node,
    tables: &Tables,
    inventory: &Value,
    boot: Option<Mac>,
) -> Vec<Change> {
    let text = |path: &str| inventory.pointer(path).and_then(Value::as_str);
    let number = |path: &str| inventory.pointer(path).and_then(Value::as_u64);
    let local_gb = root_disk(node, inventory);
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            node.properties.insert(key.into(), value);
        }
    };
    set("cpu_arch", text("/cpu/architecture").map(Value::from));
    set("cpus", number("/cpu/count").map(Value::from));
    let memory = number("/memory/physical_mb").or_else(|| Some(number("/memory/total")? >> 20));
    set("memory_mb", memory.map(Value::from));
    set("local_gb", local_gb.map(Value::from));
    if let Some(mode) = text("/boot/current_boot_mode") {
        let capabilities = with_boot_mode(node.properties.get("capabilities"), mode);
        node.properties
            .insert("capabilities".into(), capabilities.into());
    }
    ports(node, tables, &interfaces(inventory), boot)
}

/// GiB of the disk an image would be written to, less one for what is kept at its end.
fn root_disk(node: &Node, inventory: &Value) -> Option<u64> {
    let disks = inventory.get("disks").cloned()?;
    let disks: Vec<model::inventory::Disk> = serde_json::from_value(disks).ok()?;
    let hints = match node.properties.get("root_device") {
        Some(Value::Object(hints)) => hints.clone().into_iter().collect(),
        _ => std::collections::BTreeMap::new(),
    };
    let hints = model::root_device::Hints::parse(&hints).ok()?;
    let disk = hints.select(&disks).ok()?;
    Some((disk.size >> 30).saturating_sub(1))
}

/// A node's capabilities, with the mode it booted in.
fn with_boot_mode(capabilities: Option<&Value>, mode: &str) -> String {
    let known = capabilities.and_then(Value::as_str).unwrap_or_default();
    let others = known
        .split(',')
        .filter(|pair| !pair.trim().is_empty() && !pair.trim().starts_with("boot_mode:"));
    let mode = format!("boot_mode:{mode}");
    others
        .map(str::trim)
        .chain([mode.as_str()])
        .collect::<Vec<_>>()
        .join(",")
}

/// The interfaces that have an address, by name.
pub fn interfaces(inventory: &Value) -> Vec<(String, Mac)> {
    let list = inventory
        .get("interfaces")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    list.iter()
        .filter_map(|interface| {
            let name = interface.get("name").and_then(Value::as_str)?;
            let mac = interface
                .get("mac_address")
                .and_then(Value::as_str)?
                .parse()
                .ok()?;
            Some((name.to_owned(), mac))
        })
        .collect()
}

/// As PXE loaders write it, the kind of link may stand before: `01-52-54-…`.
fn boot_mac(text: &str) -> Option<Mac> {
    let text = text
        .strip_prefix("01-")
        .filter(|rest| rest.len() == 17)
        .unwrap_or(text);
    text.parse().ok()
}

/// A port for every interface; where it is known which one the host booted from, that one and no other is for booting.
fn ports(
    node: &Node,
    tables: &Tables,
    interfaces: &[(String, Mac)],
    boot: Option<Mac>,
) -> Vec<Change> {
    let now = Timestamp::now();
    let mut changes = Vec::new();
    for (_, mac) in interfaces {
        let enabled = boot.is_none_or(|boot| boot == *mac);
        match tables.ports.named(&mac.to_string()) {
            None => {
                let mut port = Port::new(Uuid::new_v4(), *mac, node.uuid, now);
                port.pxe_enabled = enabled;
                changes.push(port.into());
            }
            Some(port) if port.node_uuid == node.uuid && port.pxe_enabled != enabled => {
                let mut port = Port::clone(port);
                port.pxe_enabled = enabled;
                port.updated_at = Some(now);
                changes.push(port.into());
            }
            Some(port) => {
                if port.node_uuid != node.uuid {
                    tracing::warn!(node = %node.uuid, other = %port.node_uuid, %mac, "MAC belongs to another node");
                }
            }
        }
    }
    changes
}
