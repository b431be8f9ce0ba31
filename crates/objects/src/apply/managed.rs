//! `metadata.managedFields`: one entry per writer and way of writing.

use serde_json::{Value, json};

use super::Writer;
use super::fields::Fields;
use crate::json::{items, object, text};

/// What one writer owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: String,
    pub(super) fields: Fields,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// More writers by update than this are summed up, the oldest first.
const MOST_UPDATES: usize = 10;

impl Entry {
    /// The writer's entry, owning nothing yet.
    pub(super) fn new(writer: Writer<'_>, operation: Operation) -> Self {
        Self {
            manager: writer.manager.into(),
            operation,
            api_version: writer.api_version.into(),
            subresource: writer.subresource.into(),
            time: writer.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            fields: Fields::default(),
        }
    }

    pub(super) fn same_writer(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.api_version == other.api_version
            && self.subresource == other.subresource
    }

    /// As messages name the writer.
    pub(super) fn shown(&self) -> String {
        let manager = match self.subresource.as_str() {
            "" => format!("{:?}", self.manager),
            subresource => format!("{:?} with subresource {subresource:?}", self.manager),
        };
        match (self.operation, self.time.as_str()) {
            (Operation::Apply, _) => manager,
            (Operation::Update, "") => format!("{manager} using {}", self.api_version),
            (Operation::Update, time) => {
                format!("{manager} using {} at {time}", self.api_version)
            }
        }
    }

    fn from_json(entry: &Value) -> Option<Self> {
        let operation = match text(entry, "/operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        Some(Self {
            manager: text(entry, "/manager").into(),
            operation,
            api_version: text(entry, "/apiVersion").into(),
            subresource: text(entry, "/subresource").into(),
            time: text(entry, "/time").into(),
            fields: Fields::from_json(&entry["fieldsV1"]),
        })
    }

    fn to_json(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": match self.operation {
                Operation::Apply => "Apply",
                Operation::Update => "Update",
            },
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_json(),
        });
        if !self.time.is_empty() {
            entry["time"] = json!(self.time);
        }
        if !self.subresource.is_empty() {
            entry["subresource"] = json!(self.subresource);
        }
        entry
    }
}

/// The entries of an object; what cannot be read is nobody's.
pub(super) fn read(object: &Value) -> Vec<Entry> {
    items(object, "/metadata/managedFields")
        .iter()
        .filter_map(Entry::from_json)
        .collect()
}

/// Writes the entries that own something, in an order that does not depend on how they came about.
pub(super) fn write(of: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    entries.sort_by(|a, b| {
        let key = |entry: &Entry| (entry.operation, entry.time.clone(), entry.manager.clone());
        key(a)
            .cmp(&key(b))
            .then_with(|| a.api_version.cmp(&b.api_version))
            .then_with(|| a.subresource.cmp(&b.subresource))
    });
    sum_up(&mut entries);
    let metadata = object(object(of).entry("metadata").or_insert(Value::Null));
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        let entries = entries.iter().map(Entry::to_json).collect();
        metadata.insert("managedFields".into(), entries);
    }
}

/// Joins the oldest updates into one where there are too many.
fn sum_up(entries: &mut Vec<Entry>) {
    let is_update = |entry: &Entry| entry.operation == Operation::Update;
    while entries.iter().filter(|entry| is_update(entry)).count() > MOST_UPDATES {
        let Some(first) = entries.iter().position(is_update) else {
            return;
        };
        let oldest = entries.remove(first);
        // Updates follow one another: the next oldest stands in its place now.
        let next = &mut entries[first];
        next.manager = "ancient-changes".into();
        next.subresource = String::new();
        next.fields.add(&oldest.fields);
    }
}
