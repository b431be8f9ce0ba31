//! Dropping what the schema does not know.

use serde_json::Value;

use super::node::{Additional, Node};
use crate::path::Path;

/// Drops unknown fields and says which.
pub(super) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut dropped = vec![];
    walk(root, object, Path::Root, &mut dropped);
    dropped
}

fn walk(node: &Node, value: &mut Value, path: Path<'_>, dropped: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let known = |name: &str| {
                node.preserve_unknown
                    || node.properties.contains_key(name)
                    || !matches!(node.additional, Additional::Nothing)
                    || (node.embedded && ["apiVersion", "kind", "metadata"].contains(&name))
            };
            fields.retain(|name, _| {
                let keep = known(name);
                if !keep {
                    dropped.push(path.field(name).to_string());
                }
                keep
            });
            for (name, field) in fields {
                if let Some(node) = node.field(name) {
                    walk(node, field, path.field(name), dropped);
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = &node.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                walk(node, item, path.index(index), dropped);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{Schema, arbitrary};
    use super::*;

    fn pruned(schema: &Value, mut object: Value) -> (Value, Vec<String>) {
        let root = super::super::read::structural(schema).unwrap();
        let dropped = prune(&root, &mut object);
        (object, dropped)
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
            }},
        }});
        let object = json!({"spec": {"list": [{"a": "", "b": 1}], "map": {"k": {"a": "", "c": 1}}, "d": 1}, "e": 1});
        let (object, dropped) = pruned(&schema, object);
        assert_eq!(
            object,
            json!({"spec": {"list": [{"a": ""}], "map": {"k": {"a": ""}}}})
        );
        assert_eq!(dropped, ["e", "spec.d", "spec.list[0].b", "spec.map.k.c"]);
    }

    #[test]
    fn what_is_to_be_preserved_stays_but_known_parts_are_pruned_within() {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "known": {"type": "object", "properties": {"a": {"type": "string"}}},
        }});
        let (object, dropped) = pruned(&schema, json!({"free": {"x": 1}, "known": {"b": 1}}));
        assert_eq!(object, json!({"free": {"x": 1}, "known": {}}));
        assert_eq!(dropped, ["known.b"]);
    }

    #[test]
    fn an_embedded_object_keeps_its_own_metadata() {
        let schema = json!({"type": "object", "properties": {"template": {
            "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}},
        }}});
        let (object, _) = pruned(
            &schema,
            json!({"template": {"kind": "A", "metadata": {"name": "x"}, "other": 1}}),
        );
        assert_eq!(
            object,
            json!({"template": {"kind": "A", "metadata": {"name": "x"}}})
        );
    }

    proptest! {
        #[test]
        fn pruning_twice_changes_nothing(schema in arbitrary::schema(), mut object in arbitrary::json()) {
            let schema = Schema::from_json(&schema).unwrap();
            schema.prune(&mut object);
            let once = object.clone();
            prop_assert!(schema.prune(&mut object).is_empty());
            prop_assert_eq!(object, once);
        }
    }
}
