//! Bodies in Kubernetes' protobuf, as client-go sends objects of built-in kinds, read into JSON.
//!
//! ```text
//! "k8s\0"  Unknown { 1: TypeMeta { 1: apiVersion, 2: kind }, 2: the object's own message }
//! ```
//!
//! Answers stay JSON: every such client takes both. Go writes fields that are empty; they are left out here, as its
//! JSON leaves them out.

mod messages;
mod wire;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use objects::Status;
use serde_json::{Map, Value, json};

use wire::{Fields, Raw};

pub const MEDIA: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";

/// The object in a body, with its apiVersion and kind.
pub fn parse(body: &[u8]) -> Result<Value, Status> {
    let broken = || Status::bad_request("the body is not an object in protobuf");
    let envelope = body.strip_prefix(MAGIC).ok_or_else(broken)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields::of(envelope) {
        match field.ok_or_else(broken)? {
            (1, Raw::Bytes(meta)) => {
                for field in Fields::of(meta) {
                    match field.ok_or_else(broken)? {
                        (1, Raw::Bytes(text)) => api_version = utf8(text).ok_or_else(broken)?,
                        (2, Raw::Bytes(text)) => kind = utf8(text).ok_or_else(broken)?,
                        _ => {}
                    }
                }
            }
            (2, Raw::Bytes(object)) => raw = object,
            _ => {}
        }
    }
    let name = message_name(&api_version, &kind);
    let message = messages().get(name.as_str()).ok_or_else(|| {
        Status::bad_request(format!(
            "{kind} of {api_version:?} is not taken in protobuf; send application/json"
        ))
    })?;
    let mut object = object(message, raw).ok_or_else(broken)?;
    object.insert("apiVersion".into(), json!(api_version));
    object.insert("kind".into(), json!(kind));
    Ok(Value::Object(object))
}

/// `rbac.Role` of `rbac.authorization.k8s.io/v1`; options have one message whatever the version.
fn message_name(api_version: &str, kind: &str) -> String {
    let group = match (kind, api_version.split_once('/')) {
        ("DeleteOptions", _) => "meta",
        (_, Some((group, _))) => group.split('.').next().unwrap_or(group),
        (_, None) => "core",
    };
    format!("{group}.{kind}")
}

struct Field {
    name: &'static str,
    shape: Shape,
    kind: &'static str,
    /// A zero is said and meant.
    keeps_zero: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    List,
    Map,
}

type Message = BTreeMap<u32, Field>;

fn messages() -> &'static BTreeMap<&'static str, Message> {
    static MESSAGES: OnceLock<BTreeMap<&'static str, Message>> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        let mut all: BTreeMap<&str, Message> = BTreeMap::new();
        let mut current = "";
        for line in messages::MESSAGES.lines().filter(|line| !line.is_empty()) {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            let (Ok(number), Some(name), Some(written)) =
                (first.parse(), words.next(), words.next())
            else {
                current = first;
                continue;
            };
            let (shape, kind) = match (written.strip_prefix("[]"), written.strip_prefix("{}")) {
                (Some(kind), _) => (Shape::List, kind),
                (_, Some(kind)) => (Shape::Map, kind),
                (None, None) => (Shape::One, written),
            };
            let keeps_zero = kind.ends_with('!');
            let field = Field {
                name,
                shape,
                kind: kind.trim_end_matches('!'),
                keeps_zero,
            };
            all.entry(current).or_default().insert(number, field);
        }
        all
    })
}

/// `None` where the bytes are no such message.
fn object(message: &Message, bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut object = Map::new();
    for entry in Fields::of(bytes) {
        let (number, raw) = entry?;
        let Some(field) = message.get(&number) else {
            continue;
        };
        match field.shape {
            Shape::One => {
                let value = value(field.kind, raw)?;
                if field.keeps_zero || !is_empty(&value) {
                    object.insert(field.name.to_owned(), value);
                }
            }
            Shape::List => {
                let list = object.entry(field.name).or_insert_with(|| json!([]));
                list.as_array_mut()?.push(value(field.kind, raw)?);
            }
            Shape::Map => {
                let Raw::Bytes(pair) = raw else { return None };
                let (mut key, mut found) = (String::new(), None);
                for part in Fields::of(pair) {
                    match part? {
                        (1, Raw::Bytes(text)) => key = utf8(text)?,
                        (2, raw) => found = Some(value(field.kind, raw)?),
                        _ => {}
                    }
                }
                let map = object.entry(field.name).or_insert_with(|| json!({}));
                // An empty value may be left out of the pair.
                let found = found.or_else(|| value(field.kind, Raw::Bytes(&[])))?;
                map.as_object_mut()?.insert(key, found);
            }
        }
    }
    Some(object)
}

fn value(kind: &str, raw: Raw<'_>) -> Option<Value> {
    Some(match (kind, raw) {
        ("string", Raw::Bytes(text)) => json!(utf8(text)?),
        ("bytes", Raw::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
        ("int", Raw::Number(number)) => json!(number.cast_signed()),
        ("bool", Raw::Number(number)) => json!(number != 0),
        ("time", Raw::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%SZ")?,
        ("microtime", Raw::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
        ("quantity", Raw::Bytes(bytes)) => json!(utf8(only(bytes)?)?),
        ("json", Raw::Bytes(bytes)) => match only(bytes)? {
            [] => Value::Null,
            text => serde_json::from_slice(text).ok()?,
        },
        ("strings", Raw::Bytes(bytes)) => {
            let texts = Fields::of(bytes).map(|field| match field? {
                (1, Raw::Bytes(text)) => utf8(text),
                _ => None,
            });
            json!(texts.collect::<Option<Vec<String>>>()?)
        }
        (name, Raw::Bytes(bytes)) => Value::Object(object(messages().get(name)?, bytes)?),
        (_, Raw::Number(_) | Raw::Fixed) => return None,
    })
}

/// What the wrapper messages hold in their first field.
fn only(bytes: &[u8]) -> Option<&[u8]> {
    let mut found = &[][..];
    for field in Fields::of(bytes) {
        if let (1, Raw::Bytes(inner)) = field? {
            found = inner;
        }
    }
    Some(found)
}

/// A Timestamp; one without fields is no time at all.
fn time(bytes: &[u8], format: &str) -> Option<Value> {
    let (mut seconds, mut nanoseconds, mut any) = (0, 0, false);
    for field in Fields::of(bytes) {
        match field? {
            (1, Raw::Number(number)) => (seconds, any) = (number.cast_signed(), true),
            (2, Raw::Number(number)) => (nanoseconds, any) = (i32::try_from(number).ok()?, true),
            _ => {}
        }
    }
    if !any {
        return Some(Value::Null);
    }
    Some(json!(
        Timestamp::new(seconds, nanoseconds)
            .ok()?
            .strftime(format)
            .to_string()
    ))
}

fn utf8(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A length-delimited field.
    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        [
            &[number << 3 | 2, u8::try_from(content.len()).expect("short")][..],
            content,
        ]
        .concat()
    }

    fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
        let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC, &bytes(1, &meta), &bytes(2, object)].concat()
    }

    #[test]
    fn a_config_map_is_read_and_what_is_empty_left_out() {
        let meta = [bytes(1, b"a"), bytes(2, b""), bytes(8, b"")].concat();
        let pair = |key: &[u8], value: &[u8]| [bytes(1, key), bytes(2, value)].concat();
        let object = [
            bytes(1, &meta),
            bytes(2, &pair(b"k", b"v")),
            bytes(2, &pair(b"e", b"")),
            bytes(3, &pair(b"b", &[0, 255])),
        ];
        let read = parse(&body("v1", "ConfigMap", &object.concat())).expect("an object");
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v", "e": ""}, "binaryData": {"b": "AP8="},
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn a_lease_keeps_its_times_to_the_microsecond() {
        // seconds 1, nanoseconds 2000; transitions 0
        let spec = [
            bytes(1, b"me"),
            bytes(4, &[0x08, 1, 0x10, 0xd0, 0x0f]),
            vec![5 << 3, 0],
        ]
        .concat();
        let read =
            parse(&body("coordination.k8s.io/v1", "Lease", &bytes(2, &spec))).expect("an object");
        assert_eq!(
            read["spec"],
            json!({"holderIdentity": "me", "renewTime": "1970-01-01T00:00:01.000002Z", "leaseTransitions": 0})
        );
    }

    #[test]
    fn a_kind_without_a_table_is_refused_with_a_remedy() {
        let refused = parse(&body("apps/v1", "Deployment", &[])).expect_err("not known");
        assert!(refused.message.contains("send application/json"));
        assert!(parse(b"{}").is_err());
    }

    #[test]
    fn every_type_in_the_table_is_known() {
        let scalars = [
            "string",
            "bytes",
            "int",
            "bool",
            "time",
            "microtime",
            "quantity",
            "json",
            "strings",
        ];
        for (message, fields) in messages() {
            for field in fields.values() {
                let known = scalars.contains(&field.kind) || messages().contains_key(field.kind);
                assert!(known, "{message}.{}: {}", field.name, field.kind);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_object_or_an_error(tail in any::<Vec<u8>>()) {
            let _ = parse(&body("v1", "Node", &tail[..tail.len().min(100)]));
            let _ = parse(&[MAGIC, &tail].concat());
        }
    }
}
