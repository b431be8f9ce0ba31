//! A write from end to end: what the client sent becomes what the store keeps, or one [`Status`].

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::json::{check_depth, object, text, texts};
use crate::kinds::{Kind, rules};
use crate::metadata::{self, IMMUTABLE, is_deleting};
use crate::status::{Cause, CauseReason, Status};

/// A body made ready: known fields only, defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    pub object: Value,
    /// What the schema does not know and was dropped (`fieldValidation`: warn or refuse).
    pub unknown: Vec<String>,
}

/// Checks apiVersion, kind and namespace of a body against the request, prunes and defaults it.
/// Use for the body of create and update, for the result of a patch, and for an applied configuration.
/// `name` is the name in the path; empty where there is none.
pub fn prepare(kind: &Kind, body: Value, namespace: &str, name: &str) -> Result<Prepared, Status> {
    let mut body = body;
    if !body.is_object() {
        return Err(Status::bad_request(
            "the body of the request is not an object",
        ));
    }
    check_depth(&body)?;
    if body["metadata"].is_null() {
        body["metadata"] = json!({});
    }
    if !body["metadata"].is_object() {
        return Err(Status::bad_request("metadata must be an object"));
    }
    check_identity(kind, &mut body, namespace, name)?;
    let unknown = kind.schema.prune(&mut body);
    kind.schema.default(&mut body);
    if !kind.custom {
        check_types(kind, &body)?;
    }
    rules::fill(kind, &mut body);
    Ok(Prepared {
        object: body,
        unknown,
    })
}

/// The body is of the kind, version and place the request is about; what it does not say is filled in.
fn check_identity(
    kind: &Kind,
    body: &mut Value,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    let version = kind.api_version();
    match text(body, "/apiVersion") {
        "" => body["apiVersion"] = json!(version),
        found if found != version => {
            return Err(Status::bad_request(format!(
                "the API version in the data ({found}) does not match the expected API version ({version})"
            )));
        }
        _ => {}
    }
    match text(body, "/kind") {
        "" => body["kind"] = json!(kind.kind),
        found if found != kind.kind => {
            return Err(Status::bad_request(format!(
                "{found} in version {:?} cannot be handled as a {}",
                kind.version, kind.kind
            )));
        }
        _ => {}
    }
    let found = text(body, "/metadata/namespace");
    if !found.is_empty() && found != namespace && kind.namespaced {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let found = text(body, "/metadata/name");
    if !found.is_empty() && !name.is_empty() && found != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// Where Kubernetes' decoder would give up: a built-in kind with a value of the wrong type.
fn check_types(kind: &Kind, body: &Value) -> Result<(), Status> {
    let causes = kind.schema.validate(body, None);
    let wrong: Vec<_> = causes
        .iter()
        .filter(|cause| {
            cause.reason == CauseReason::FieldValueTypeInvalid
                || cause.message.contains("must be of type")
        })
        .map(Cause::line)
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "{name} in version {:?} cannot be handled as a {name}: {}",
        kind.version,
        wrong.join(", "),
        name = kind.kind,
    )))
}

/// What a new object gets from outside.
#[derive(Debug, Clone, Copy)]
pub struct Birth<'a> {
    /// The namespace of the request; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name of the request, if it has one (apply); otherwise empty.
    pub name: &'a str,
    pub uid: &'a str,
    /// Five random characters for `generateName`.
    pub suffix: &'a str,
    pub now: Timestamp,
}

/// A generated name has room for its end in a label of DNS.
const LONGEST_PREFIX: usize = 58;

/// The object to keep for a create, managedFields not yet tracked.
pub fn create(kind: &Kind, prepared: Value, birth: Birth<'_>) -> Result<Value, Status> {
    let mut made = prepared;
    if !text(&made, "/metadata/resourceVersion").is_empty() {
        return Err(Status::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    name(&mut made, birth);
    rules::born(kind, &mut made);
    let metadata = object(&mut made["metadata"]);
    for server in [
        "resourceVersion",
        "selfLink",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        metadata.remove(server);
    }
    if !birth.namespace.is_empty() && kind.namespaced {
        metadata.insert("namespace".into(), json!(birth.namespace));
    }
    metadata.insert("uid".into(), json!(birth.uid));
    metadata.insert("creationTimestamp".into(), json!(seconds(birth.now)));
    if has_generation(kind) {
        metadata.insert("generation".into(), json!(1));
    }
    rules::fill(kind, &mut made);
    check(kind, &made, None)?;
    Ok(made)
}

fn name(made: &mut Value, birth: Birth<'_>) {
    if !birth.name.is_empty() {
        made["metadata"]["name"] = json!(birth.name);
    }
    let prefix = text(made, "/metadata/generateName");
    if text(made, "/metadata/name").is_empty() && !prefix.is_empty() {
        let mut end = prefix.len().min(LONGEST_PREFIX);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        let name = format!("{}{}", &prefix[..end], birth.suffix);
        made["metadata"]["name"] = json!(name);
    }
}

/// The object to keep for an update (also by patch or apply) of the object itself or of a subresource (`status`, ...).
///
/// Immutable metadata is kept, status and spec are kept apart, generation moves with the spec. The answer equals
/// `old` where nothing changed: no write is needed then. The resourceVersion precondition is the caller's.
pub fn update(
    kind: &Kind,
    old: &Value,
    new: Value,
    subresource: &str,
    now: Timestamp,
) -> Result<Value, Status> {
    let mut new = new;
    let uid = text(&new, "/metadata/uid");
    if !uid.is_empty() && uid != text(old, "/metadata/uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            text(old, "/metadata/uid")
        );
        let name = text(old, "/metadata/name");
        return Err(Status::conflict(&kind.resource(), name, &why));
    }
    rules::keep(kind, old, &mut new, subresource);
    let before = &old["metadata"];
    let metadata = object(&mut new["metadata"]);
    for field in IMMUTABLE {
        if let Some(value) = before.get(field)
            && metadata.get(field).is_none_or(Value::is_null)
        {
            metadata.insert(field.into(), value.clone());
        }
    }
    for field in ["resourceVersion", "generation", "selfLink"] {
        match before.get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    // Who manages what is known from before unless the client says otherwise.
    if !metadata.contains_key("managedFields")
        && let Some(managed) = before.get("managedFields")
    {
        metadata.insert("managedFields".into(), managed.clone());
    }
    if has_generation(kind) && spec_changed(kind, old, &new) {
        let generation = before["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = json!(generation.saturating_add(1));
    }
    settle_conditions(kind, &mut new, old, now);
    check(kind, &new, Some(old))?;
    Ok(new)
}

/// Conditions of a signing request get their times from the server.
fn settle_conditions(kind: &Kind, new: &mut Value, old: &Value, now: Timestamp) {
    if kind.custom || kind.kind != "CertificateSigningRequest" {
        return;
    }
    let before = old.pointer("/status/conditions").cloned();
    let conditions = new
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let known = before
            .as_ref()
            .and_then(Value::as_array)
            .is_some_and(|before| before.contains(condition));
        for time in ["lastUpdateTime", "lastTransitionTime"] {
            if !known && text(condition, &format!("/{time}")).is_empty() {
                condition[time] = json!(seconds(now));
            }
        }
    }
}

/// Everything that is wrong, at once.
fn check(kind: &Kind, new: &Value, old: Option<&Value>) -> Result<(), Status> {
    let mut causes = metadata::validate(kind, new, old);
    causes.extend(kind.schema.validate(new, old));
    causes.extend(rules::validate(kind, new, old));
    if causes.is_empty() {
        return Ok(());
    }
    let name = match text(new, "/metadata/name") {
        "" => text(new, "/metadata/generateName"),
        name => name,
    };
    Err(Status::invalid(&kind.group, &kind.kind, name, causes))
}

/// Built-in kinds count no generations here, CRDs apart.
fn has_generation(kind: &Kind) -> bool {
    kind.custom || kind.kind == "CustomResourceDefinition"
}

/// Whether anything changed that a controller acts on.
fn spec_changed(kind: &Kind, old: &Value, new: &Value) -> bool {
    let counts = |field: &str| field != "metadata" && !(field == "status" && kind.has_status());
    let part = |object: &Value| -> Vec<(String, Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields
            .filter(|(name, _)| counts(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    part(old) != part(new)
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// How a delete is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What to do about a delete.
#[derive(Debug, Clone, PartialEq)]
pub enum Deletion {
    /// Nothing holds it: take the key away.
    Now,
    /// Keep this instead: deletionTimestamp is set, finalizers hold it.
    Marked(Value),
    /// It was already marked and finalizers hold it.
    Pending,
}

pub fn delete(kind: &Kind, object: &Value, propagation: Propagation, now: Timestamp) -> Deletion {
    let mut finalizers = texts(object, "/metadata/finalizers");
    finalizers.retain(|name| !["orphan", "foregroundDeletion"].contains(name));
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push("foregroundDeletion"),
        Propagation::Orphan => finalizers.push("orphan"),
    }
    let namespace = !kind.custom && kind.kind == "Namespace";
    let held = namespace && !texts(object, "/spec/finalizers").is_empty();
    if finalizers.is_empty() && !held {
        return Deletion::Now;
    }
    let mut marked = object.clone();
    if finalizers.is_empty() {
        crate::json::object(&mut marked["metadata"]).remove("finalizers");
    } else {
        marked["metadata"]["finalizers"] = json!(finalizers);
    }
    if !is_deleting(object) {
        marked["metadata"]["deletionTimestamp"] = json!(seconds(now));
        marked["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        if let Some(generation) = object["metadata"]["generation"].as_i64() {
            marked["metadata"]["generation"] = json!(generation.saturating_add(1));
        }
        if namespace {
            marked["status"]["phase"] = json!("Terminating");
        }
    }
    if marked == *object {
        return Deletion::Pending;
    }
    Deletion::Marked(marked)
}

/// Whether an updated object is to be taken away: it is being deleted and its last finalizer went.
pub fn is_done(object: &Value) -> bool {
    let emptied = match (text(object, "/apiVersion"), text(object, "/kind")) {
        ("v1", "Namespace") => texts(object, "/spec/finalizers").is_empty(),
        _ => true,
    };
    emptied && is_deleting(object) && texts(object, "/metadata/finalizers").is_empty()
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
