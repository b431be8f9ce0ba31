//! JSON as CEL sees it, by its schema.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::Value as Cel;
use kube_cel::cel::functions::time;
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use serde_json::Value;

use crate::schema::format::Format;
use crate::schema::node::{Additional, Node};

/// A value with its schema: times are times, names of fields are escaped, keys of maps are not.
pub(super) fn to_cel(node: Option<&Node>, value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Cel::Int(number),
            (None, Some(number)) => Cel::UInt(number),
            (None, None) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => string(node, text),
        Value::Array(items) => {
            let node = node.and_then(|node| node.items.as_deref());
            let items = items.iter().map(|item| to_cel(node, item));
            Cel::List(Arc::new(items.collect()))
        }
        Value::Object(fields) => {
            let is_map = node.is_some_and(|node| !matches!(node.additional, Additional::Nothing));
            let fields = fields.iter().map(|(name, field)| {
                let key = if is_map { name.clone() } else { escaped(name) };
                let node = node.and_then(|node| node.field(name));
                (Key::String(Arc::new(key)), to_cel(node, field))
            });
            Cel::Map(Map {
                map: Arc::new(fields.collect()),
            })
        }
    }
}

fn string(node: Option<&Node>, text: &str) -> Cel {
    let plain = Arc::new(text.to_owned());
    let format = node
        .and_then(|node| node.limits.as_ref())
        .and_then(|limits| limits.format);
    let typed = match format {
        Some(Format::DateTime) => time::timestamp(plain.clone()).ok(),
        Some(Format::Duration) => time::duration(plain.clone()).ok(),
        Some(Format::Byte) => STANDARD
            .decode(text)
            .ok()
            .map(|bytes| Cel::Bytes(Arc::new(bytes))),
        _ => None,
    };
    typed.unwrap_or(Cel::String(plain))
}

/// A value that may be missing.
pub(super) fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(match value {
        Some(value) => OptionalValue::of(value),
        None => OptionalValue::none(),
    }))
}

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A field's name as rules write it.
fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_in_kubernetes() {
        let table = [
            ("plain", "plain"),
            ("a_b", "a_b"),
            ("a__b", "a__underscores__b"),
            ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
            ("namespace", "__namespace__"),
        ];
        for (name, expected) in table {
            assert_eq!(escaped(name), expected);
        }
    }
}
