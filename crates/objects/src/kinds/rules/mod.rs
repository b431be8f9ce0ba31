//! What single built-in kinds ask for beyond their schema.
//!
//! Four moments: [`fill`] when a body is read, [`born`] when an object is made, [`keep`] when it is updated (which parts
//! stay as they were), [`validate`] before it is kept.

mod certificates;
mod config;
mod definitions;
mod rbac;

use serde_json::{Value, json};

use super::{Kind, events};
use crate::json::{object, text};
use crate::status::Cause;

/// Fills in what a body may leave out.
pub(crate) fn fill(kind: &Kind, body: &mut Value) {
    match place(kind) {
        ("", "secrets") => config::fill_secret(body),
        ("", "namespaces") => {
            if let Value::String(name) = &body["metadata"]["name"] {
                let name = json!(name);
                let labels = object(&mut body["metadata"]["labels"]);
                labels.insert("kubernetes.io/metadata.name".into(), name);
            }
        }
        (rbac::GROUP, "rolebindings" | "clusterrolebindings") => rbac::fill_binding(body),
        (definitions::GROUP, _) => definitions::fill(body),
        _ => {}
    }
}

/// Sets what only the server sets on a new object.
pub(crate) fn born(kind: &Kind, object: &mut Value) {
    match place(kind) {
        ("", "namespaces") => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
        }
        ("", "pods") => object["status"] = json!({"phase": "Pending"}),
        // A node says how it is when it registers.
        ("", "nodes") => {}
        (definitions::GROUP, _) => definitions::born(object),
        _ if kind.has_status() => {
            object
                .as_object_mut()
                .and_then(|object| object.remove("status"));
        }
        _ => {}
    }
}

/// Puts back what this write may not touch: status or spec, as the subresource says.
pub(crate) fn keep(kind: &Kind, old: &Value, new: &mut Value, subresource: &str) {
    match (place(kind), subresource) {
        ((certificates::GROUP, _), "approval" | "status") => {
            certificates::keep(old, new, subresource);
        }
        (("", "namespaces"), "finalize") => {
            let finalizers = new["spec"]["finalizers"].take();
            let metadata = new["metadata"].take();
            new.clone_from(old);
            new["metadata"] = metadata;
            new["spec"]["finalizers"] = finalizers;
        }
        (("", "namespaces"), "") => {
            keep_part(old, new, "spec");
            keep_part(old, new, "status");
        }
        (_, "status") => keep_all_but(old, new, "status", kind.custom),
        (_, _) if kind.has_status() => keep_part(old, new, "status"),
        _ => {}
    }
}

/// Everything that is wrong by the rules of this kind alone.
pub(crate) fn validate(kind: &Kind, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = vec![];
    match place(kind) {
        ("", "secrets") => config::validate_secret(new, old, &mut causes),
        ("", "configmaps") => config::validate_config_map(new, old, &mut causes),
        ("" | events::GROUP, "events") => validate_event(new, &mut causes),
        ("coordination.k8s.io", _) => {
            let seconds = &new["spec"]["leaseDurationSeconds"];
            if seconds.as_i64().is_some_and(|seconds| seconds <= 0) {
                let why = "must be greater than 0";
                causes.push(Cause::invalid("spec.leaseDurationSeconds", seconds, why));
            }
        }
        (certificates::GROUP, _) => certificates::validate(new, old, &mut causes),
        (rbac::GROUP, "roles" | "clusterroles") => {
            rbac::validate_role(new, kind.namespaced, &mut causes);
        }
        (rbac::GROUP, _) => rbac::validate_binding(new, old, kind.namespaced, &mut causes),
        (definitions::GROUP, _) => definitions::validate(new, old, &mut causes),
        _ => {}
    }
    causes
}

/// The built-in kind this is; a custom one has no rules here, whatever its name.
fn place(kind: &Kind) -> (&str, &str) {
    if kind.custom {
        return ("custom", "");
    }
    (&kind.group, &kind.plural)
}

/// `field` as it was.
fn keep_part(old: &Value, new: &mut Value, field: &str) {
    match old.get(field) {
        Some(part) => new[field] = part.clone(),
        None => {
            object(new).remove(field);
        }
    }
}

/// Everything as it was except `field`; of the metadata, who manages what is always the new.
fn keep_all_but(old: &Value, new: &mut Value, field: &str, metadata_too: bool) {
    let mut metadata = new["metadata"].take();
    let part = object(new).remove(field);
    let mut kept = old.clone();
    match part {
        Some(part) => kept[field] = part,
        None => {
            object(&mut kept).remove(field);
        }
    }
    if metadata_too {
        let managed = object(&mut metadata).remove("managedFields");
        metadata = kept["metadata"].take();
        match managed {
            Some(managed) => metadata["managedFields"] = managed,
            None => {
                object(&mut metadata).remove("managedFields");
            }
        }
    }
    kept["metadata"] = metadata;
    *new = kept;
}

fn validate_event(event: &Value, causes: &mut Vec<Cause>) {
    let field = if event["regarding"].is_object() {
        "regarding"
    } else {
        "involvedObject"
    };
    let about = text(event, &format!("/{field}/namespace"));
    let namespace = text(event, "/metadata/namespace");
    let fits = match about {
        // What has no namespace has its events in these.
        "" => ["default", "kube-system", ""].contains(&namespace),
        about => about == namespace,
    };
    if !fits {
        let at = format!("{field}.namespace");
        let why = "does not match event.namespace";
        causes.push(Cause::invalid(at, &json!(about), why));
    }
}

/// A value that may not change.
fn immutable(field: &str, new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    if new != old {
        causes.push(Cause::invalid(field, new, "field is immutable"));
    }
}
