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
    let mut changes = ports(node, tables, &interfaces, boot);
    if let Some(architecture) = inventory
        .pointer("/cpu/architecture")
        .and_then(Value::as_str)
    {
        node.properties
            .insert("cpu_arch".into(), architecture.into());
    }
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
