//! Strategic merge patch: a merge patch in which lists of objects merge by key.
//!
//! The client writes what it wants to differ, with directives beside the fields: `$patch: delete` and `$patch: replace`,
//! `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>` and `$retainKeys`.

use serde_json::{Map, Value};

use crate::schema::{Merge, Node, Schema};
use crate::status::Status;

/// The object with the patch merged into it. Custom kinds take no such patch (see [`crate::Kind::custom`]).
pub fn strategic(object: &Value, patch: &Value, schema: &Schema) -> Result<Value, Status> {
    super::check_object(patch)?;
    let mut merged = object.clone();
    merge_value(Some(&schema.root), &mut merged, patch).map_err(Status::bad_request)?;
    Ok(merged)
}

type Fields = Map<String, Value>;

fn merge_value(node: Option<&Node>, live: &mut Value, patch: &Value) -> Result<(), String> {
    match (live, patch) {
        (Value::Object(live), Value::Object(patch)) => merge_fields(node, live, patch),
        (live, Value::Object(patch)) => {
            let mut made = Map::new();
            merge_fields(node, &mut made, patch)?;
            *live = Value::Object(made);
            Ok(())
        }
        (live, patch) => {
            live.clone_from(patch);
            Ok(())
        }
    }
}

fn merge_fields(node: Option<&Node>, live: &mut Fields, patch: &Fields) -> Result<(), String> {
    match patch.get("$patch").map(|directive| directive.as_str()) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => {
            live.clear();
        }
        Some(Some("delete")) => {
            live.clear();
            return Ok(());
        }
        Some(_) => {
            return Err("Unknown patch type found: $patch must be delete, replace or merge".into());
        }
    }
    if let Some(retained) = patch.get("$retainKeys") {
        let retained = retained.as_array().ok_or("$retainKeys must be a list")?;
        live.retain(|name, _| retained.iter().any(|kept| kept == name));
    }
    for (name, value) in patch {
        if let Some(field) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value
                .as_array()
                .ok_or("$deleteFromPrimitiveList must be a list")?;
            if let Some(Value::Array(items)) = live.get_mut(field) {
                items.retain(|item| !gone.contains(item));
            }
        }
    }
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        let below = node.and_then(|node| node.field(name));
        match value {
            Value::Null => {
                live.remove(name);
            }
            Value::Array(items) => {
                let merge = below.and_then(|below| below.merge.as_ref());
                let item = below.and_then(|below| below.items.as_deref());
                let place = live.entry(name).or_insert_with(|| Value::Array(vec![]));
                let kept = place.as_array().cloned().unwrap_or_default();
                *place = Value::Array(match merge {
                    Some(merge) => merge_list(item, merge, kept, items)?,
                    None => items.clone(),
                });
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                merge_value(below, live.entry(name).or_insert(Value::Null), value)?;
            }
        }
    }
    for (name, order) in patch {
        if let Some(field) = name.strip_prefix("$setElementOrder/") {
            let order = order.as_array().ok_or("$setElementOrder must be a list")?;
            let below = node.and_then(|node| node.field(field));
            let key = below
                .and_then(|below| below.merge.as_ref())
                .and_then(|merge| merge.key.as_deref());
            if let Some(Value::Array(items)) = live.get_mut(field) {
                *items = ordered(std::mem::take(items), order, key);
            }
        }
    }
    Ok(())
}

fn merge_list(
    node: Option<&Node>,
    merge: &Merge,
    mut live: Vec<Value>,
    patch: &[Value],
) -> Result<Vec<Value>, String> {
    let Some(key) = &merge.key else {
        for item in patch {
            if !live.contains(item) {
                live.push(item.clone());
            }
        }
        return Ok(live);
    };
    let directive =
        |item: &Value, name: &str| item.get("$patch").is_some_and(|found| found == name);
    if patch.iter().any(|item| directive(item, "replace")) {
        let rest = patch.iter().filter(|item| !directive(item, "replace"));
        return Ok(rest.cloned().collect());
    }
    for item in patch {
        if !item.is_object() {
            return Err(format!(
                "an item of a list that merges by {key} must be an object"
            ));
        }
        let named = item
            .get(key)
            .ok_or_else(|| format!("does not contain declared merge key: {key}"))?;
        let same = |other: &Value| other.get(key) == Some(named);
        if directive(item, "delete") {
            live.retain(|other| !same(other));
        } else if let Some(place) = live.iter_mut().find(|other| same(other)) {
            merge_value(node, place, item)?;
        } else {
            let mut made = Value::Null;
            merge_value(node, &mut made, item)?;
            live.push(made);
        }
    }
    Ok(live)
}

/// Puts the named items in the order asked for; the others stay where they were between them.
fn ordered(items: Vec<Value>, order: &[Value], key: Option<&str>) -> Vec<Value> {
    let name = |item: &Value| match key {
        Some(key) => item.get(key).cloned().unwrap_or(Value::Null),
        None => item.clone(),
    };
    let wanted: Vec<Value> = order.iter().map(name).collect();
    let place = |item: &Value| wanted.iter().position(|wanted| *wanted == name(item));
    let (mut asked, others): (Vec<_>, Vec<_>) = items
        .into_iter()
        .enumerate()
        .partition(|(_, item)| place(item).is_some());
    asked.sort_by_key(|(_, item)| place(item));
    let mut sorted = Vec::with_capacity(asked.len() + others.len());
    let (mut asked, mut others) = (asked.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (asked.peek(), others.peek()) {
            (Some((was, _)), Some((other, _))) => other < was,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => return sorted,
        };
        let next = if other_first {
            others.next()
        } else {
            asked.next()
        };
        sorted.extend(next.map(|(_, item)| item));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;
    use crate::schema::arbitrary;

    fn node(object: &Value, patch: &Value) -> Result<Value, Status> {
        let node = Registry::builtin().find("", "v1", "nodes").unwrap();
        strategic(object, patch, &node.schema)
    }

    #[test]
    fn conditions_merge_by_their_type() {
        let live = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}, {"type": "Disk", "status": "True"}]}});
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "New", "status": "True"}]}});
        assert_eq!(
            node(&live, &patch).unwrap(),
            json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x"},
                {"type": "Disk", "status": "True"}, {"type": "New", "status": "True"}]}})
        );
    }

    #[test]
    fn directives_delete_replace_and_order() {
        let live = json!({"status": {"conditions": [{"type": "a"}, {"type": "b"}, {"type": "c"}]},
            "metadata": {"finalizers": ["x/a", "x/b"], "labels": {"a": "1", "b": "2"}}});
        let table = [
            (
                json!({"status": {"conditions": [{"type": "b", "$patch": "delete"}]}}),
                "/status/conditions",
                json!([{"type": "a"}, {"type": "c"}]),
            ),
            (
                json!({"status": {"conditions": [{"type": "z"}, {"$patch": "replace"}]}}),
                "/status/conditions",
                json!([{"type": "z"}]),
            ),
            (
                json!({"status": {"$setElementOrder/conditions": [{"type": "c"}, {"type": "a"}]}}),
                "/status/conditions",
                json!([{"type": "b"}, {"type": "c"}, {"type": "a"}]),
            ),
            (
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}),
                "/metadata/finalizers",
                json!(["x/b"]),
            ),
            (
                json!({"metadata": {"finalizers": ["x/c", "x/a"]}}),
                "/metadata/finalizers",
                json!(["x/a", "x/b", "x/c"]),
            ),
            (
                json!({"metadata": {"labels": {"a": null, "c": "3"}}}),
                "/metadata/labels",
                json!({"b": "2", "c": "3"}),
            ),
            (
                json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}),
                "/metadata/labels",
                json!({"c": "3"}),
            ),
            (
                json!({"metadata": {"labels": {"$retainKeys": ["b"], "c": "3"}}}),
                "/metadata/labels",
                json!({"b": "2", "c": "3"}),
            ),
            (
                json!({"metadata": {"labels": {"$patch": "delete"}}}),
                "/metadata/labels",
                json!({}),
            ),
        ];
        for (patch, pointer, expected) in table {
            let patched = node(&live, &patch).unwrap();
            assert_eq!(patched.pointer(pointer), Some(&expected), "{patch}");
        }
    }

    #[test]
    fn lists_without_a_strategy_are_replaced() {
        let live = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
        let patch = json!({"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}});
        assert_eq!(node(&live, &patch).unwrap(), patch);
    }

    #[test]
    fn nothing_of_a_directive_remains_in_a_new_part() {
        let patch = json!({"metadata": {"labels": {"a": null, "b": "1"}, "$setElementOrder/finalizers": ["x/y"]}});
        assert_eq!(
            node(&json!({}), &patch).unwrap(),
            json!({"metadata": {"labels": {"b": "1"}}})
        );
    }

    #[test]
    fn a_list_item_without_its_key_is_refused() {
        for items in [json!([{"status": "True"}]), json!(["x"])] {
            let patch = json!({"status": {"conditions": items}});
            assert_eq!(node(&json!({"status": {}}), &patch).unwrap_err().code, 400);
        }
    }

    proptest! {
        #[test]
        fn any_patch_gives_an_object_or_an_error(schema in arbitrary::schema(), object in arbitrary::json(), patch in arbitrary::json()) {
            let schema = Schema::from_json(&schema).unwrap();
            if let Ok(patched) = strategic(&object, &patch, &schema) {
                prop_assert_eq!(strategic(&patched, &patch, &schema).unwrap(), patched);
            }
        }
    }
}
