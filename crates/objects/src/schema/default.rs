//! Filling in what the client left out.

use serde_json::Value;

use super::node::Node;

/// Drops nulls where null is no value.
pub(super) fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| {
                !field.is_null() || node.field(name).is_none_or(|node| node.nullable)
            });
            for (name, field) in fields {
                if let Some(node) = node.field(name) {
                    drop_nulls(node, field);
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = &node.items else { return };
            for item in items {
                drop_nulls(node, item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Fills in defaults. A null counts as left out where null is no value.
pub(super) fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| {
                !field.is_null() || node.field(name).is_none_or(|node| node.nullable)
            });
            for (name, property) in &node.properties {
                if let Some(default) = &property.default
                    && !fields.contains_key(name)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields {
                if let Some(node) = node.field(name) {
                    fill(node, field);
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = &node.items else { return };
            for item in items {
                if item.is_null()
                    && !node.nullable
                    && let Some(default) = &node.default
                {
                    item.clone_from(default);
                }
                fill(node, item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{Schema, arbitrary, read};
    use super::*;

    fn defaulted(schema: &Value, mut object: Value) -> Value {
        fill(&read::structural(schema).unwrap(), &mut object);
        object
    }

    #[test]
    fn defaults_nest_and_fill_only_what_is_missing() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "default": {}, "properties": {
                "online": {"type": "boolean", "default": true},
                "mode": {"type": "string", "default": "UEFI"},
            }},
            "list": {"type": "array", "items": {"type": "object", "properties": {
                "port": {"type": "integer", "default": 80},
            }}},
        }});
        assert_eq!(
            defaulted(&schema, json!({"list": [{}, {"port": 1}]})),
            json!({"spec": {"online": true, "mode": "UEFI"}, "list": [{"port": 80}, {"port": 1}]})
        );
        assert_eq!(
            defaulted(&schema, json!({"spec": {"online": false}})),
            json!({"spec": {"online": false, "mode": "UEFI"}})
        );
    }

    #[test]
    fn null_is_left_out_unless_it_is_a_value() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string"},
            "b": {"type": "string", "default": "x"},
            "c": {"type": "string", "default": "x", "nullable": true},
        }});
        assert_eq!(
            defaulted(&schema, json!({"a": null, "b": null, "c": null})),
            json!({"b": "x", "c": null})
        );
    }

    proptest! {
        #[test]
        fn defaulting_twice_changes_nothing(schema in arbitrary::schema(), mut object in arbitrary::json()) {
            let schema = Schema::from_json(&schema).unwrap();
            schema.default(&mut object);
            let once = object.clone();
            schema.default(&mut object);
            prop_assert_eq!(object, once);
        }
    }
}
