//! Holds the tree against the table: what fits goes on as JSON, what does not is a problem.

use serde_json::{Map, Value};

use super::schema::{Field, Shape};
use crate::problem::{Problems, did_you_mean};
use crate::yaml::{Kind, Node, integer, truth};

/// What fits the shape; nulls and what does not fit are left out.
pub fn fit(node: &Node, shape: Shape, path: &str, problems: &mut Problems) -> Option<Value> {
    if node.is_null() {
        return None;
    }
    match (shape, &node.kind) {
        (Shape::Any, _) => Some(node.to_json()),
        (Shape::Text | Shape::Secret, Kind::Scalar { text, .. }) => Some(text.clone().into()),
        (Shape::Integer, Kind::Scalar { text, plain }) => match (integer(text), plain) {
            (Some(number), true) => Some(number.into()),
            (Some(number), false) => mistyped(
                node,
                path,
                problems,
                "is text in quotes",
                &format!("write {number} without quotes"),
            ),
            (None, _) => mistyped(
                node,
                path,
                problems,
                &format!("{} is not a whole number", shown(text)),
                "write a number, such as 3",
            ),
        },
        (Shape::Boolean, Kind::Scalar { text, plain }) => match (truth(text), plain) {
            (Some(truth), true) => Some(truth.into()),
            (Some(truth), false) => mistyped(
                node,
                path,
                problems,
                "is text in quotes",
                &format!("write {truth} without quotes"),
            ),
            (None, _) => mistyped(
                node,
                path,
                problems,
                &format!("{} is neither true nor false", shown(text)),
                "write true or false",
            ),
        },
        (Shape::List(item), Kind::Sequence(items)) => {
            let fitted = items.iter().enumerate().map(|(index, node)| {
                // A hole keeps the numbers of those behind it.
                fit(node, *item, &format!("{path}[{index}]"), problems).unwrap_or(Value::Null)
            });
            Some(fitted.collect())
        }
        (Shape::Object(fields) | Shape::Short(fields), Kind::Mapping(_)) => {
            Some(object(node, fields, path, problems))
        }
        (Shape::Short([first, ..]), Kind::Scalar { text, .. }) => Some(Value::Object(
            Map::from_iter([(first.name.to_owned(), text.clone().into())]),
        )),
        (shape, kind) => {
            let wanted = match shape {
                Shape::Text | Shape::Secret | Shape::Any => "text",
                Shape::Integer => "a whole number",
                Shape::Boolean => "true or false",
                Shape::List(_) => "a list, with a dash before each item",
                Shape::Object(_) | Shape::Short(_) => "fields, such as key: value",
            };
            let is = match kind {
                Kind::Scalar { .. } => "is a single value",
                Kind::Sequence(_) => "is a list",
                Kind::Mapping(_) => "is an object with fields",
            };
            mistyped(node, path, problems, is, &format!("write {wanted}"))
        }
    }
}

fn object(node: &Node, fields: &[Field], path: &str, problems: &mut Problems) -> Value {
    let Kind::Mapping(entries) = &node.kind else {
        return Value::Null;
    };
    let mut fitted = Map::new();
    for entry in entries {
        let inner = if path.is_empty() {
            entry.key.clone()
        } else {
            format!("{path}.{}", entry.key)
        };
        let Some(field) = fields.iter().find(|field| field.name == entry.key) else {
            unknown(&entry.key, entry.at, fields, path, problems);
            continue;
        };
        if let Some(value) = fit(&entry.value, field.shape, &inner, problems) {
            fitted.insert(entry.key.clone(), value);
        }
    }
    Value::Object(fitted)
}

fn unknown(
    key: &str,
    at: crate::yaml::Place,
    fields: &[Field],
    path: &str,
    problems: &mut Problems,
) {
    if problems.is_full() {
        problems.add("", "", "");
        return;
    }
    let key: String = key.chars().take(64).collect();
    let path = if path.is_empty() {
        key.clone()
    } else {
        format!("{path}.{key}")
    };
    if path.split('.').count() == 2 && path.starts_with("platform.") {
        let what = format!("the platform {key:?} is not supported");
        problems.add_at(path, at, what, "write platform.baremetal");
        return;
    }
    let names = || fields.iter().map(|field| field.name);
    let remedy = match did_you_mean(&key, names()) {
        Some(near) => format!("did you mean {near:?}?"),
        None if fields.is_empty() => "remove it; there are no fields here".into(),
        None => format!(
            "remove it; there are {}",
            names().collect::<Vec<_>>().join(", ")
        ),
    };
    problems.add_at(path, at, "there is no such field", remedy);
}

fn mistyped(
    node: &Node,
    path: &str,
    problems: &mut Problems,
    what: &str,
    remedy: &str,
) -> Option<Value> {
    problems.add_at(path, node.at, what, remedy);
    None
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
}
