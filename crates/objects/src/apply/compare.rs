//! Objects as sets of fields, and the difference between two of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::Fields;
use crate::schema::{ListKind, Node, item_keys};

/// What changed from one object to another.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// New fields and fields of another value.
    pub(super) changed: Fields,
    pub(super) removed: Fields,
}

/// Every field of an object.
pub(super) fn fields_of(root: &Node, object: &Value) -> Fields {
    let mut fields = Fields::default();
    collect(Some(root), object, Containers::Implied, &mut fields);
    fields
}

/// Whether maps and lists are fields besides what is in them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Containers {
    /// An apply owns what it names.
    Implied,
    /// Who creates a map also owns it.
    Owned,
}

pub(super) fn compare(root: &Node, before: &Value, after: &Value) -> Difference {
    let mut difference = Difference::default();
    walk(
        Some(root),
        before,
        after,
        &mut difference.changed,
        &mut difference.removed,
    );
    difference
}

/// How a value is cut into fields.
pub(super) enum Cut<'a> {
    /// Owned as a whole.
    Whole,
    Object(&'a Map<String, Value>),
    /// Items by their element; of two with the same, the last.
    Items(BTreeMap<String, &'a Value>),
}

pub(super) fn cut<'a>(node: Option<&Node>, value: &'a Value) -> Cut<'a> {
    match value {
        Value::Object(fields) if !node.is_some_and(|node| node.atomic) => Cut::Object(fields),
        Value::Array(items) => {
            let elements = items.iter().map(|item| {
                let node = node?;
                Some((element(node, item)?, item))
            });
            match elements.collect::<Option<BTreeMap<_, _>>>() {
                Some(elements) if node.is_some_and(|node| node.list != ListKind::Atomic) => {
                    Cut::Items(elements)
                }
                _ => Cut::Whole,
            }
        }
        _ => Cut::Whole,
    }
}

/// The element that names an item of a list; None where items are not named.
pub(super) fn element(node: &Node, item: &Value) -> Option<String> {
    match &node.list {
        ListKind::Atomic => None,
        ListKind::Set => Some(format!("v:{item}")),
        ListKind::Map(keys) => {
            item_keys(node, keys, item).map(|keys| format!("k:{}", Value::Object(keys)))
        }
    }
}

fn collect(node: Option<&Node>, value: &Value, containers: Containers, fields: &mut Fields) {
    match cut(node, value) {
        Cut::Whole => fields.here = true,
        Cut::Object(members) => {
            for (name, value) in members {
                let child = node.and_then(|node| node.field(name));
                let mut below = Fields::default();
                collect(child, value, containers, &mut below);
                below.here |= is_entry(node, name) || value.is_null() || is_empty_object(value);
                below.here |= containers == Containers::Owned && !is_struct(child, value);
                fields.put(format!("f:{name}"), below);
            }
        }
        Cut::Items(items) => {
            let child = node.and_then(|node| node.items.as_deref());
            for (element, item) in items {
                let mut below = Fields::default();
                collect(child, item, containers, &mut below);
                below.here = true;
                fields.put(element, below);
            }
        }
    }
}

/// Whether the name is data rather than a field of the schema: such an entry is owned itself.
fn is_entry(node: Option<&Node>, name: &str) -> bool {
    node.is_none_or(|node| !node.properties.contains_key(name))
}

/// Whether the value is an object whose fields the schema names.
fn is_struct(node: Option<&Node>, value: &Value) -> bool {
    node.is_some_and(|node| !node.properties.is_empty() && !node.atomic) && value.is_object()
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// All of a value that came or went, containers included.
fn whole(node: Option<&Node>, value: &Value) -> Fields {
    let mut fields = Fields::default();
    collect(node, value, Containers::Owned, &mut fields);
    fields.here |= !is_struct(node, value) || fields.is_empty();
    fields
}

fn walk(
    node: Option<&Node>,
    before: &Value,
    after: &Value,
    changed: &mut Fields,
    removed: &mut Fields,
) {
    if before == after {
        return;
    }
    match (cut(node, before), cut(node, after)) {
        (Cut::Object(before), Cut::Object(after)) => {
            let child = |name: &str| node.and_then(|node| node.field(name));
            for (name, old) in before {
                let element = format!("f:{name}");
                match after.get(name) {
                    None => removed.put(element, everything(child(name), old)),
                    Some(new) => descend(child(name), (old, new), element, changed, removed),
                }
            }
            for (name, new) in after {
                if !before.contains_key(name) {
                    changed.put(format!("f:{name}"), whole(child(name), new));
                }
            }
        }
        (Cut::Items(before), Cut::Items(after)) => {
            let child = node.and_then(|node| node.items.as_deref());
            for (element, old) in &before {
                match after.get(element) {
                    None => removed.put(element.clone(), everything(child, old)),
                    Some(new) => descend(child, (old, new), element.clone(), changed, removed),
                }
            }
            for (element, new) in after {
                if !before.contains_key(&element) {
                    let mut fields = whole(child, new);
                    fields.here = true;
                    changed.put(element, fields);
                }
            }
        }
        (Cut::Whole, _)
        | (_, Cut::Whole)
        | (Cut::Object(_), Cut::Items(_))
        | (Cut::Items(_), Cut::Object(_)) => {
            changed.add(&whole(node, after));
            let mut gone = everything(node, before);
            gone.here = false;
            removed.add(&gone.minus(changed));
        }
    }
}

/// Everything that is owned at and below a value that went.
fn everything(node: Option<&Node>, value: &Value) -> Fields {
    let mut fields = whole(node, value);
    fields.here = true;
    fields
}

fn descend(
    node: Option<&Node>,
    (before, after): (&Value, &Value),
    element: String,
    changed: &mut Fields,
    removed: &mut Fields,
) {
    let mut below = Difference::default();
    walk(node, before, after, &mut below.changed, &mut below.removed);
    changed.put(element.clone(), below.changed);
    removed.put(element, below.removed);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::tests_widget;

    #[test]
    fn an_object_is_cut_as_its_schema_says() {
        let object = json!({"spec": {
            "color": "red", "tags": ["b", "a"], "ports": [{"name": "x", "port": 1}], "plain": ["p"],
            "labels": {"l": "1"}, "unit": {"a": "1"}, "free": {"any": {"deep": 1}, "list": [1]}}});
        let fields = fields_of(&tests_widget().schema.root, &object);
        assert_eq!(
            fields.to_json(),
            json!({"f:spec": {
                "f:color": {}, "f:tags": {"v:\"a\"": {}, "v:\"b\"": {}},
                "f:ports": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:port": {}}},
                "f:plain": {}, "f:labels": {"f:l": {}}, "f:unit": {},
                "f:free": {"f:any": {".": {}, "f:deep": {}}, "f:list": {}}}})
        );
    }

    #[test]
    fn a_difference_names_what_came_changed_and_went() {
        let before = json!({"spec": {"color": "red", "tags": ["a"], "ports": [{"name": "x", "port": 1}, {"name": "y"}]}});
        let after = json!({"spec": {"color": "blue", "tags": ["b", "a"], "ports": [{"name": "x", "port": 2}], "labels": {"l": "1"}}});
        let difference = compare(&tests_widget().schema.root, &before, &after);
        assert_eq!(
            difference.changed.to_json(),
            json!({"f:spec": {"f:color": {}, "f:tags": {"v:\"b\"": {}},
                "f:ports": {"k:{\"name\":\"x\"}": {"f:port": {}}}, "f:labels": {".": {}, "f:l": {}}}})
        );
        assert_eq!(
            difference.removed.to_json(),
            json!({"f:spec": {"f:ports": {"k:{\"name\":\"y\"}": {".": {}, "f:name": {}}}}})
        );
    }
}
