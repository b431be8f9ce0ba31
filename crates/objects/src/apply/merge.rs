//! An applied configuration laid over the live object, and fields taken out of it.

use serde_json::{Map, Value};

use super::compare::{Cut, cut, element};
use super::fields::Fields;
use crate::schema::{ListKind, Node};

/// The live value with the applied one over it: objects and named lists merge, everything else is replaced.
pub(super) fn merge(node: Option<&Node>, live: Option<&Value>, applied: &Value) -> Value {
    let Some(live) = live else {
        return applied.clone();
    };
    match (cut(node, live), cut(node, applied)) {
        (Cut::Object(live), Cut::Object(applied)) => {
            let mut merged = live.clone();
            for (name, value) in applied {
                let child = node.and_then(|node| node.field(name));
                merged.insert(name.clone(), merge(child, live.get(name), value));
            }
            Value::Object(merged)
        }
        (Cut::Items(_), Cut::Items(mut applied_items)) => {
            let (Some(node), Some(items), Some(order)) =
                (node, live.as_array(), applied.as_array())
            else {
                return applied.clone();
            };
            let mut merged = vec![];
            for item in items {
                let found = element(node, item).and_then(|element| applied_items.remove(&element));
                merged.push(match found {
                    Some(applied) => merge(node.items.as_deref(), Some(item), applied),
                    None => item.clone(),
                });
            }
            // What is new follows in the order it was applied.
            for item in order {
                if element(node, item)
                    .is_some_and(|element| applied_items.remove(&element).is_some())
                {
                    merged.push(item.clone());
                }
            }
            Value::Array(merged)
        }
        (Cut::Whole, _)
        | (_, Cut::Whole)
        | (Cut::Object(_), Cut::Items(_))
        | (Cut::Items(_), Cut::Object(_)) => applied.clone(),
    }
}

/// Takes out the fields that are gone, and what they leave empty; `kept` are the fields somebody still owns.
pub(super) fn remove(node: &Node, object: &mut Value, gone: &Fields, kept: &Fields) {
    take(Some(node), object, gone, kept, &[]);
}

/// `keys` name the item this value is, and stay with it.
fn take(node: Option<&Node>, value: &mut Value, gone: &Fields, kept: &Fields, keys: &[String]) {
    let nobody = Fields::default();
    match value {
        Value::Object(members) => {
            for (element, gone) in gone.elements() {
                let Some(name) = element.strip_prefix("f:") else {
                    continue;
                };
                let child = node.and_then(|node| node.field(name));
                let kept = kept.get(element);
                if keys.iter().any(|key| key == name) {
                    continue;
                }
                if take_below(child, members.get_mut(name), gone, kept, &nobody, &[]) {
                    members.remove(name);
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = node else { return };
            let keys = match &node.list {
                ListKind::Map(keys) => keys.as_slice(),
                ListKind::Atomic | ListKind::Set => &[],
            };
            items.retain_mut(|item| {
                let Some(element) = element(node, item) else {
                    return true;
                };
                let Some(gone) = gone.get(&element) else {
                    return true;
                };
                let kept = kept.get(&element);
                !take_below(node.items.as_deref(), Some(item), gone, kept, &nobody, keys)
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether the value itself is to go.
fn take_below(
    node: Option<&Node>,
    value: Option<&mut Value>,
    gone: &Fields,
    kept: Option<&Fields>,
    nobody: &Fields,
    keys: &[String],
) -> bool {
    let Some(value) = value else { return false };
    if kept.is_none() && gone.here {
        return true;
    }
    let full = !is_empty(value);
    take(node, value, gone, kept.unwrap_or(nobody), keys);
    kept.is_none() && full && is_empty(value)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => Map::is_empty(fields),
        Value::Array(items) => items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
