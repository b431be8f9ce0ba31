//! JSON patch as Ironic knows it (RFC 6902 without move, copy and test), all or nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fault::Fault;
use super::version::Version;

pub struct Operation {
    kind: Kind,
    /// Never empty: the first is the field.
    path: Vec<String>,
    value: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Add,
    Replace,
    Remove,
}

impl Operation {
    pub fn field(&self) -> &str {
        &self.path[0]
    }

    /// Whether it takes a whole field away.
    pub fn removes(&self, field: &str) -> bool {
        self.kind == Kind::Remove && self.path.len() == 1 && self.path[0] == field
    }

    /// Whether it gives a value to a whole field.
    pub fn sets(&self, field: &str) -> bool {
        self.kind != Kind::Remove && self.path.len() == 1 && self.path[0] == field
    }
}

/// More operations than any client has reason to send.
const MOST: usize = 1000;

pub fn parse(body: &Value, version: Version) -> Result<Vec<Operation>, Fault> {
    let Value::Array(items) = body else {
        return Err(Fault::bad_request("A patch is a list of operations."));
    };
    if items.is_empty() || items.len() > MOST {
        return Err(Fault::bad_request(format!(
            "A patch has one to {MOST} operations, this one has {}.",
            items.len()
        )));
    }
    items
        .iter()
        .enumerate()
        .map(|(at, item)| operation(item, version).map_err(|what| invalid(at, &what)))
        .collect()
}

fn operation(item: &Value, version: Version) -> Result<Operation, String> {
    let Value::Object(item) = item else {
        return Err("it is not an object".into());
    };
    if let Some(key) = item
        .keys()
        .find(|key| !["op", "path", "value"].contains(&key.as_str()))
    {
        return Err(format!("unexpected property {key:?}"));
    }
    let kind = match item.get("op").and_then(Value::as_str) {
        Some("add") => Kind::Add,
        Some("replace") => Kind::Replace,
        Some("remove") => Kind::Remove,
        _ => return Err("op must be add, replace or remove".into()),
    };
    let path = item
        .get("path")
        .and_then(Value::as_str)
        .ok_or("path must be a text")?;
    let Some(path) = path.strip_prefix('/').filter(|path| !path.is_empty()) else {
        return Err(format!("path {path:?} must name a field after a slash"));
    };
    let unescape = |part: &str| {
        if version.0 >= 98 {
            part.replace("~1", "/").replace("~0", "~")
        } else {
            part.to_owned()
        }
    };
    let path: Vec<String> = path.split('/').map(unescape).collect();
    if path.iter().any(String::is_empty) {
        return Err("path has an empty element".into());
    }
    let value = match (kind, item.get("value")) {
        (Kind::Remove, _) => Value::Null,
        (Kind::Add | Kind::Replace, Some(value)) => value.clone(),
        (Kind::Add | Kind::Replace, None) => return Err("add and replace need a value".into()),
    };
    Ok(Operation { kind, path, value })
}

fn invalid(at: usize, what: &str) -> Fault {
    Fault::bad_request(format!("Operation {at} of the patch: {what}."))
}

/// The fields that the operations touch, as they are afterwards; `null` for one that was taken away.
///
/// `current` gives the value of a field before, or refuses to have it patched.
pub fn apply(
    operations: &[Operation],
    mut current: impl FnMut(&str) -> Result<Value, Fault>,
) -> Result<BTreeMap<String, Value>, Fault> {
    let mut fields = BTreeMap::new();
    for (at, operation) in operations.iter().enumerate() {
        let (name, below) = operation.path.split_first().expect("a path is never empty");
        if !fields.contains_key(name) {
            fields.insert(name.clone(), current(name)?);
        }
        let field = fields.get_mut(name).expect("put there just now");
        change(field, below, operation.kind, &operation.value)
            .map_err(|what| invalid(at, &what))?;
    }
    Ok(fields)
}

fn change(target: &mut Value, path: &[String], kind: Kind, value: &Value) -> Result<(), String> {
    let Some((key, rest)) = path.split_first() else {
        *target = value.clone();
        return Ok(());
    };
    if !rest.is_empty() {
        let below = match target {
            Value::Object(object) => object.get_mut(key),
            Value::Array(list) => key.parse::<usize>().ok().and_then(|at| list.get_mut(at)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        };
        return change(below.ok_or_else(|| absent(key))?, rest, kind, value);
    }
    match target {
        Value::Object(object) => match kind {
            Kind::Add => _ = object.insert(key.clone(), value.clone()),
            Kind::Replace => *object.get_mut(key).ok_or_else(|| absent(key))? = value.clone(),
            Kind::Remove => _ = object.remove(key).ok_or_else(|| absent(key))?,
        },
        Value::Array(list) => {
            let at = if key == "-" {
                Some(list.len())
            } else {
                key.parse::<usize>().ok()
            };
            let at = at
                .filter(|at| *at < list.len() + usize::from(kind == Kind::Add))
                .ok_or_else(|| absent(key))?;
            match kind {
                Kind::Add => list.insert(at, value.clone()),
                Kind::Replace => list[at] = value.clone(),
                Kind::Remove => _ = list.remove(at),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(absent(key));
        }
    }
    Ok(())
}

fn absent(key: &str) -> String {
    format!("there is no {:?}", key.chars().take(64).collect::<String>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn patched(before: &Value, body: &Value) -> Result<Value, Fault> {
        let operations = parse(body, Version(110))?;
        let fields = apply(&operations, |name| Ok(before[name].clone()))?;
        Ok(serde_json::to_value(fields).unwrap())
    }

    #[test]
    fn fields_and_what_is_nested_in_them_are_added_replaced_and_removed() {
        let before = json!({"extra": {"a": 1, "list": [1, 2]}, "driver_info": {}, "name": "n"});
        for (name, patch, after) in [
            (
                "add below an empty object",
                json!([{"op": "add", "path": "/driver_info/x", "value": 1}]),
                json!({"driver_info": {"x": 1}}),
            ),
            (
                "replace below",
                json!([{"op": "replace", "path": "/extra/a", "value": 2}]),
                json!({"extra": {"a": 2, "list": [1, 2]}}),
            ),
            (
                "remove below",
                json!([{"op": "remove", "path": "/extra/a"}]),
                json!({"extra": {"list": [1, 2]}}),
            ),
            (
                "remove a field",
                json!([{"op": "remove", "path": "/name"}]),
                json!({"name": null}),
            ),
            (
                "append to a list",
                json!([{"op": "add", "path": "/extra/list/-", "value": 3}]),
                json!({"extra": {"a": 1, "list": [1, 2, 3]}}),
            ),
            (
                "insert into a list",
                json!([{"op": "add", "path": "/extra/list/0", "value": 0}]),
                json!({"extra": {"a": 1, "list": [0, 1, 2]}}),
            ),
            (
                "an escaped slash",
                json!([{"op": "add", "path": "/driver_info/a~1b~0", "value": 1}]),
                json!({"driver_info": {"a/b~": 1}}),
            ),
            (
                "one after another",
                json!([{"op": "add", "path": "/extra", "value": {}}, {"op": "add", "path": "/extra/b", "value": 1}]),
                json!({"extra": {"b": 1}}),
            ),
        ] {
            assert_eq!(patched(&before, &patch).unwrap(), after, "{name}");
        }
    }

    #[test]
    fn what_is_not_a_patch_or_does_not_fit_is_a_bad_request() {
        let before = json!({"extra": {"list": []}, "name": "n"});
        for patch in [
            json!({}),
            json!([]),
            json!([1]),
            json!([{"op": "test", "path": "/name", "value": 1}]),
            json!([{"op": "add", "path": "name", "value": 1}]),
            json!([{"op": "add", "path": "/", "value": 1}]),
            json!([{"op": "add", "path": "/extra//a", "value": 1}]),
            json!([{"op": "add", "path": "/extra/a"}]),
            json!([{"op": "add", "path": 3, "value": 1}]),
            json!([{"op": "add", "path": "/name", "value": 1, "from": "/x"}]),
            json!([{"op": "remove", "path": "/extra/none"}]),
            json!([{"op": "replace", "path": "/extra/none", "value": 1}]),
            json!([{"op": "add", "path": "/extra/none/deep", "value": 1}]),
            json!([{"op": "add", "path": "/name/deep", "value": 1}]),
            json!([{"op": "remove", "path": "/extra/list/0"}]),
            json!([{"op": "add", "path": "/extra/list/1", "value": 1}]),
        ] {
            let fault = patched(&before, &patch).unwrap_err();
            assert_eq!(fault.status().as_u16(), 400, "{patch}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_applied_or_refused(op in "add|replace|remove", path in "(/[a-c0-2~-]{0,3}){0,4}", value: i32) {
            let before = json!({"a": {"b": [{"c": 1}], "c": {}}, "b": [], "c": null});
            _ = patched(&before, &json!([{"op": op, "path": path, "value": value}]));
        }
    }
}
