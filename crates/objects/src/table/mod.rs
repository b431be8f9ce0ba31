//! What `kubectl get` shows: `meta.k8s.io/v1` Tables.

mod age;
mod builtin;
pub(crate) mod jsonpath;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use builtin::columns as builtin;

use crate::json::text;
use crate::kinds::Kind;
use jsonpath::JsonPath;

/// What each row carries besides its cells (query parameter `includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

/// One column.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    pub format: String,
    pub description: String,
    /// Above 0 the column shows only with `-o wide`.
    pub priority: i64,
    cell: Cell,
}

/// Where the cell's value comes from.
#[derive(Debug, Clone)]
enum Cell {
    Path(JsonPath),
    Made(fn(&Value, Timestamp) -> Value),
}

/// A Table of these objects. `list_metadata` is the list's own (resourceVersion, continue, remainingItemCount).
/// `headers` is false for later events of a watch: clients have the column definitions by then.
pub fn table(
    kind: &Kind,
    items: &[Value],
    list_metadata: Value,
    include: IncludeObject,
    headers: bool,
    now: Timestamp,
) -> Value {
    let columns = if headers {
        kind.columns.iter().map(definition).collect()
    } else {
        Value::Null
    };
    let rows: Vec<_> = items
        .iter()
        .map(|item| {
            let cells: Vec<_> = kind.columns.iter().map(|c| c.cell(item, now)).collect();
            match include {
                IncludeObject::None => json!({"cells": cells}),
                IncludeObject::Metadata => json!({"cells": cells, "object": partial(item)}),
                IncludeObject::Object => json!({"cells": cells, "object": item}),
            }
        })
        .collect();
    let mut table = json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": columns,
        "rows": rows,
    });
    if list_metadata.is_object() {
        table["metadata"] = list_metadata;
    }
    table
}

/// The object as a `meta.k8s.io/v1` PartialObjectMetadata.
pub fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    })
}

impl Column {
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Made(make) => make(object, now),
            Cell::Path(path) => self.shown(path.find(object).first().copied(), now),
        }
    }

    /// A value in the column's type; nothing where it is of another.
    fn shown(&self, value: Option<&Value>, now: Timestamp) -> Value {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Value::Null;
        };
        match self.kind.as_str() {
            "date" => json!(age::since(value.as_str().unwrap_or_default(), now)),
            "integer" => match (value.as_i64(), value.as_f64()) {
                (Some(number), _) => json!(number),
                (None, Some(number)) => json!(number as i64),
                (None, None) => Value::Null,
            },
            "number" if value.is_number() => value.clone(),
            "boolean" if value.is_boolean() => value.clone(),
            "number" | "boolean" => Value::Null,
            _ => match value {
                Value::String(text) => json!(text),
                other => json!(other.to_string()),
            },
        }
    }
}

pub(crate) fn name_column() -> Column {
    Column {
        name: "Name".into(),
        kind: "string".into(),
        format: "name".into(),
        description: "Name must be unique within a namespace.".into(),
        priority: 0,
        cell: Cell::Made(|object, _| object["metadata"]["name"].clone()),
    }
}

pub(crate) fn age_column() -> Column {
    Column {
        name: "Age".into(),
        kind: "date".into(),
        format: String::new(),
        description: "CreationTimestamp is a timestamp representing the server time when this object was created."
            .into(),
        priority: 0,
        cell: Cell::Made(|object, now| {
            json!(age::since(text(object, "/metadata/creationTimestamp"), now))
        }),
    }
}

/// A column of a CRD's `additionalPrinterColumns`.
pub(crate) fn custom_column(column: &Value, path: JsonPath) -> Column {
    Column {
        name: text(column, "/name").into(),
        kind: text(column, "/type").into(),
        format: text(column, "/format").into(),
        description: text(column, "/description").into(),
        priority: column["priority"].as_i64().unwrap_or(0),
        cell: Cell::Path(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;

    const NOW: &str = "2026-11-15T16:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn widget() -> std::sync::Arc<Kind> {
        crate::kinds::tests_widget()
    }

    #[test]
    fn custom_columns_show_values_in_their_type() {
        let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-11-15T15:55:00Z"},
            "spec": {"color": "red", "replicas": 3},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let list = table(
            &widget(),
            &[
                object,
                json!({"metadata": {"name": "b"}, "spec": {"color": 7}}),
            ],
            json!({"resourceVersion": "5"}),
            IncludeObject::None,
            true,
            now(),
        );
        assert_eq!(
            list["rows"],
            json!([{"cells": ["a", "red", "True", 3, "5m"]}, {"cells": ["b", "7", null, null, null]}])
        );
        assert_eq!(list["metadata"], json!({"resourceVersion": "5"}));
        assert_eq!(
            list["columnDefinitions"][3],
            json!({"name": "Replicas", "type": "integer", "format": "", "description": "", "priority": 1})
        );
    }

    #[test]
    fn rows_carry_what_was_asked_for() {
        let object = json!({"metadata": {"name": "a"}, "spec": {}});
        let rows = |include| {
            table(
                &widget(),
                std::slice::from_ref(&object),
                Value::Null,
                include,
                false,
                now(),
            )["rows"][0]["object"]
                .clone()
        };
        assert_eq!(rows(IncludeObject::None), Value::Null);
        assert_eq!(
            rows(IncludeObject::Metadata),
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}})
        );
        assert_eq!(rows(IncludeObject::Object), object);
    }

    proptest::proptest! {
        #[test]
        fn any_object_has_a_row(object in crate::schema::arbitrary::json()) {
            let mut registry = Registry::builtin();
            registry.put_crd(&crate::kinds::tests_widget_crd()).unwrap();
            for kind in registry.all() {
                table(kind, std::slice::from_ref(&object), Value::Null, IncludeObject::Metadata, true, now());
            }
        }
    }
}
