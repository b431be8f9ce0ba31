//! Server-side apply: who owns which field, and what an apply changes.
//!
//! ```text
//!              live ─────────────┐
//!                                ├─ merge ─▶ − what the manager owned and applies no longer ─▶ object
//! applied ─ fields it names ─────┘                 (and nobody else owns)
//!                │
//!                └─ that others own and that change ─▶ 409, or taken over by force
//! ```
//!
//! Fields are sets in the form of `fieldsV1` ([`Fields`]); how lists and maps are cut into fields is in the schema. An
//! ordinary write owns what it changed ([`track`]).

mod compare;
mod fields;
mod managed;
mod merge;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::json::{check_depth, object, text};
use crate::schema::Schema;
use crate::status::{Cause, Details, Reason, Status};
use compare::{Difference, compare, fields_of};
use fields::Fields;
use managed::{Entry, Operation};

/// Who writes, how, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer<'a> {
    /// The field manager's name.
    pub manager: &'a str,
    /// The version the request was made in, such as `metal3.io/v1alpha1`.
    pub api_version: &'a str,
    /// `status`, `scale`, or empty for the object itself.
    pub subresource: &'a str,
    pub now: Timestamp,
}

/// The object after `manager` applied its configuration; managedFields included.
///
/// `live` is the object as it is kept, `applied` the body. 409 with one cause per field others own, unless forced.
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    writer: Writer<'_>,
    force: bool,
    schema: &Schema,
) -> Result<Value, Status> {
    if !applied.is_object() {
        return Err(Status::bad_request(
            "an applied configuration must be an object",
        ));
    }
    check_depth(applied)?;
    let applied = writable(applied, writer, schema);
    let nothing = json!({});
    let before = live.unwrap_or(&nothing);
    let (own, others) = owners(live, writer, schema);
    let named = owned(&fields_of(&schema.root, &applied));

    let mut merged = merge::merge(Some(&schema.root), Some(before), &applied);
    let mut kept = named.clone();
    for other in &others {
        kept.add(&other.fields);
    }
    let gone = own
        .as_ref()
        .map(|own| own.fields.minus(&kept))
        .unwrap_or_default();
    merge::remove(&schema.root, &mut merged, &gone, &kept);

    let difference = compare(&schema.root, &subject(before), &subject(&merged));
    let conflicts: Vec<_> = others
        .iter()
        .map(|other| other.fields.both(&difference.changed))
        .collect();
    if !force && conflicts.iter().any(|conflict| !conflict.is_empty()) {
        return Err(conflict(&others, &conflicts));
    }
    let mut entries = vec![];
    for (mut other, conflict) in others.into_iter().zip(conflicts) {
        other.fields = other.fields.minus(&conflict).minus(&difference.removed);
        entries.push(other);
    }
    let same = own
        .filter(|own| own.fields == named && own.api_version == writer.api_version)
        .filter(|_| difference.is_empty());
    entries.push(same.unwrap_or_else(|| Entry {
        fields: named,
        ..Entry::new(writer, Operation::Apply)
    }));
    managed::write(&mut merged, entries);
    Ok(merged)
}

/// Records who changed what after an ordinary write (create, update, patch) in `after.metadata.managedFields`.
pub fn track(before: Option<&Value>, after: &mut Value, writer: Writer<'_>, schema: &Schema) {
    let nothing = json!({});
    let before = subject(before.unwrap_or(&nothing));
    let difference = compare(&schema.root, &before, &subject(after));
    let mut entries = managed::read(after);
    if difference.is_empty() {
        managed::write(after, entries);
        return;
    }
    let mut own = Entry::new(writer, Operation::Update);
    entries.retain_mut(|entry| {
        entry.fields = entry.fields.minus(&difference.removed);
        if entry.same_writer(&own) {
            own.fields.add(&entry.fields);
            return false;
        }
        entry.fields = entry.fields.minus(&difference.changed);
        true
    });
    own.fields.add(&difference.changed);
    entries.push(own);
    managed::write(after, entries);
}

/// The manager of a request that names none: the user agent up to its first slash.
pub fn default_manager(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    match truncated(&name) {
        "" => "unknown".into(),
        name => name.into(),
    }
}

const MANAGER_BYTES: usize = 128;

fn truncated(name: &str) -> &str {
    let mut end = name.len().min(MANAGER_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// Refuses names Kubernetes refuses (longer than 128 bytes, not printable).
pub fn check_manager(name: &str) -> Result<(), Status> {
    let invalid = |cause| Status::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]);
    if name.len() > MANAGER_BYTES {
        return Err(invalid(Cause::too_long(
            "fieldManager",
            MANAGER_BYTES as u64,
        )));
    }
    if name.chars().any(char::is_control) {
        let why = "should only contain printable characters";
        return Err(invalid(Cause::invalid("fieldManager", &json!(name), why)));
    }
    Ok(())
}

/// The part of a configuration this request may write: `status` and the rest come by different ways.
fn writable(applied: &Value, writer: Writer<'_>, schema: &Schema) -> Value {
    let mut applied = applied.clone();
    schema.drop_nulls(&mut applied);
    if let Some(Value::Object(metadata)) = applied.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    if writer.subresource == "status" {
        let mut part = Map::new();
        for name in ["apiVersion", "kind", "status"] {
            if let Some(value) = applied.get(name) {
                part.insert(name.into(), value.clone());
            }
        }
        // These say which object is meant.
        let mut metadata = Map::new();
        for name in ["name", "namespace", "uid", "resourceVersion"] {
            if let Some(value) = applied["metadata"].get(name) {
                metadata.insert(name.into(), value.clone());
            }
        }
        part.insert("metadata".into(), Value::Object(metadata));
        return Value::Object(part);
    }
    if schema.status_apart {
        object(&mut applied).remove("status");
    }
    applied
}

/// This manager's own applied fields, and everybody else's.
fn owners(
    live: Option<&Value>,
    writer: Writer<'_>,
    schema: &Schema,
) -> (Option<Entry>, Vec<Entry>) {
    let Some(live) = live else {
        return (None, vec![]);
    };
    let mut entries = managed::read(live);
    if entries.is_empty() {
        // Written before anybody counted: owned, but by nobody in particular.
        entries.push(Entry {
            manager: "before-first-apply".into(),
            api_version: text(live, "/apiVersion").into(),
            subresource: String::new(),
            fields: owned(&fields_of(&schema.root, live)),
            ..Entry::new(writer, Operation::Update)
        });
    }
    let (own, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| {
        entry.operation == Operation::Apply
            && entry.manager == writer.manager
            && entry.subresource == writer.subresource
    });
    let own = own.into_iter().reduce(|mut all, entry| {
        all.fields.add(&entry.fields);
        all
    });
    (own, others)
}

/// Parts of metadata that are the server's or say which object is meant: nobody owns them.
const UNOWNED: [&str; 10] = [
    "name",
    "namespace",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
];

fn owned(fields: &Fields) -> Fields {
    let mut fields = fields.clone();
    for name in ["apiVersion", "kind"] {
        fields.cut(&[name]);
    }
    for name in UNOWNED {
        fields.cut(&["metadata", name]);
    }
    // An empty metadata would be owned as such.
    if fields.get("f:metadata").is_some_and(Fields::is_leaf) {
        fields.cut(&["metadata"]);
    }
    fields
}

/// The object without what nobody owns.
fn subject(of: &Value) -> Value {
    let mut subject = of.clone();
    if let Value::Object(fields) = &mut subject {
        fields.remove("apiVersion");
        fields.remove("kind");
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.retain(|name, _| !UNOWNED.contains(&name.as_str()));
            if metadata.is_empty() {
                fields.remove("metadata");
            }
        }
    }
    subject
}

impl Difference {
    fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// 409, with the managers and fields in the way.
fn conflict(others: &[Entry], conflicts: &[Fields]) -> Status {
    let mut causes = vec![];
    let mut lines = vec![];
    for (other, conflict) in others.iter().zip(conflicts) {
        let paths = conflict.paths();
        let who = other.shown();
        match paths.as_slice() {
            [] => {}
            [one] => lines.push(format!("conflict with {who}: {one}")),
            several => lines.push(format!("conflicts with {who}:\n- {}", several.join("\n- "))),
        }
        causes.extend(
            paths
                .into_iter()
                .map(|path| Cause::managed(path, format!("conflict with {who}"))),
        );
    }
    let plural = if causes.len() == 1 { "" } else { "s" };
    let message = format!(
        "Apply failed with {} conflict{plural}: {}",
        causes.len(),
        lines.join("\n")
    );
    let mut status = Status::new(409, Reason::Conflict, message);
    status.details = Some(Box::new(Details {
        causes,
        ..Details::default()
    }));
    status
}

#[cfg(test)]
mod tests;
