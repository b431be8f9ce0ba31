//! An object between the store and the wire: what is kept has no resourceVersion, what is shown has one.

use std::sync::Arc;

use bytes::Bytes;
use objects::{Kind, Status};
use serde_json::{Value, json};

use crate::store::{self, Kv};

/// What the keys of a kind begin with; of all namespaces if none is given.
pub fn prefix(kind: &Kind, namespace: &str) -> String {
    let kept = kind.storage();
    store::prefix(&kept.group, &kept.resource, namespace)
}

pub fn key(kind: &Kind, namespace: &str, name: &str) -> String {
    let kept = kind.storage();
    store::key(&kept.group, &kept.resource, namespace, name)
}

/// How kept objects of a kind are shown.
#[derive(Clone)]
pub struct Lens {
    pub kind: Arc<Kind>,
    /// The definition changed here. What was kept before is shown as if it had been written after: without fields that
    /// are no longer known, with defaults that are new.
    pub since: u64,
}

impl Lens {
    pub fn read(&self, kv: &Kv) -> Result<Value, Status> {
        let object: Value = serde_json::from_slice(&kv.value)
            .map_err(|error| Status::internal(format!("{} is not readable: {error}", kv.key)))?;
        let mut object = self.kind.from_storage(object);
        if self.is_outdated(kv) {
            self.kind.schema.prune(&mut object);
            self.kind.schema.default(&mut object);
        }
        set_version(&mut object, kv.revision);
        Ok(object)
    }

    /// The object as text with this revision, without reading it; `None` where more than that has to change.
    pub fn text(&self, kv: &Kv, revision: u64) -> Option<Vec<u8>> {
        if self.is_outdated(kv) {
            return None;
        }
        super::splice::with_version(&kv.value, &self.kind.api_version(), revision)
    }

    fn is_outdated(&self, kv: &Kv) -> bool {
        self.kind.custom && kv.revision <= self.since
    }
}

/// The object as the store keeps it.
pub fn keep(kind: &Kind, object: &Value) -> Bytes {
    let mut object = kind.to_storage(object.clone());
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("selfLink");
    }
    Bytes::from(serde_json::to_vec(&object).expect("a JSON value serialises"))
}

/// Leaves out metadata that says nothing, as every server written in Go does: clients compare by presence.
pub fn tidy(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for field in [
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "managedFields",
    ] {
        let empty = match metadata.get(field) {
            Some(Value::Object(fields)) => fields.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if empty {
            metadata.remove(field);
        }
    }
}

pub fn set_version(object: &mut Value, revision: u64) {
    object["metadata"]["resourceVersion"] = json!(revision.to_string());
}

/// A text field of the metadata; empty if it is not there.
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or("")
}

pub fn is_being_deleted(object: &Value) -> bool {
    !meta(object, "deletionTimestamp").is_empty()
}
