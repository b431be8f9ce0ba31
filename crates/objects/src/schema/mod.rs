//! Structural schemas: what an object may hold, what is dropped from it and what is filled in.
//!
//! A schema is read once ([`read`]) into a tree of [`Node`]s; pruning, defaulting, validation and CEL walk the tree
//! and the object together. Server-side apply and strategic merge patch ask the same tree how lists and maps merge.

#[cfg(test)]
pub(crate) mod arbitrary;
mod cel;
mod default;
mod format;
mod node;
mod pattern;
mod prune;
mod read;
mod validate;

use std::sync::OnceLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

pub(crate) use node::{ListKind, Merge, Node, item_keys};

use crate::kinds::definitions;
use crate::status::Cause;

/// The schema of one kind in one version.
#[derive(Debug)]
pub struct Schema {
    pub(crate) root: Node,
    json: Value,
    /// Status is written by its own subresource, apart from the rest.
    pub(crate) status_apart: bool,
}

impl Schema {
    /// Reads `openAPIV3Schema` of a CustomResourceDefinition; every problem at once, paths relative to the schema.
    pub fn from_json(json: &Value) -> Result<Self, Vec<Cause>> {
        let mut root = read::structural(json)?;
        root.add_object_fields(object_meta());
        let mut json = json.clone();
        add_object_fields(&mut json);
        Ok(Self::new(root, json))
    }

    /// The schema of a built-in kind, from its (inlined) definition.
    pub(crate) fn builtin(json: Value) -> Self {
        let root = read::lenient(&json);
        Self::new(root, json)
    }

    /// Takes any object: for kinds whose CRD asks for nothing.
    pub fn anything() -> Self {
        let json = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        Self::from_json(&json).expect("this schema is structural")
    }

    fn new(root: Node, json: Value) -> Self {
        Self {
            root,
            json,
            status_apart: false,
        }
    }

    /// Everything that is wrong with the object. On an update, what was already wrong and did not change is let be.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = validate::validate(&self.root, new, old);
        if !self.root.ruled {
            return causes;
        }
        if causes.iter().any(validate::blocks_rules) {
            causes.push(cel::not_checked());
        } else {
            causes.extend(cel::validate(&self.root, new, old));
        }
        causes
    }

    /// Drops what the schema does not know; returns the paths of what was dropped.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Fills in defaults, and drops nulls where null is no value.
    pub fn default(&self, object: &mut Value) {
        default::fill(&self.root, object);
    }

    /// Drops nulls where null is no value, as if they had not been written.
    pub(crate) fn drop_nulls(&self, object: &mut Value) {
        default::drop_nulls(&self.root, object);
    }

    /// The schema as it was written, with what every object has; for OpenAPI.
    pub fn json(&self) -> &Value {
        &self.json
    }
}

/// The schema of `metadata`.
fn object_meta() -> Node {
    static META: OnceLock<Node> = OnceLock::new();
    META.get_or_init(|| read::lenient(object_meta_json()))
        .clone()
}

fn object_meta_json() -> &'static Value {
    static META: OnceLock<Value> = OnceLock::new();
    META.get_or_init(definitions::inlined::<ObjectMeta>)
}

/// apiVersion, kind and metadata, which a CRD's author need not write.
fn add_object_fields(schema: &mut Value) {
    let api_version = "APIVersion defines the versioned schema of this representation of an object. Servers should \
                       convert recognized schemas to the latest internal value, and may reject unrecognized values.";
    let kind = "Kind is a string value representing the REST resource this object represents. Cannot be updated. \
                In CamelCase.";
    schema["properties"]["apiVersion"] = json!({"type": "string", "description": api_version});
    schema["properties"]["kind"] = json!({"type": "string", "description": kind});
    schema["properties"]["metadata"] = object_meta_json().clone();
}
