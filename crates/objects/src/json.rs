//! Bodies become values here: duplicate fields are noticed and nesting is bounded.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::path::Path;
use crate::status::Status;

/// Deeper objects are refused everywhere, so that nothing here recurses without end.
pub const MAX_DEPTH: usize = 100;

/// More repeated fields than a person would correct at a time are not listed.
const MOST_DUPLICATES: usize = 100;

/// A body and the fields that stood in it twice (the last one counts).
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub value: Value,
    /// Paths such as `spec.online`.
    pub duplicates: Vec<String>,
}

/// Reads a JSON body.
pub fn parse(body: &[u8]) -> Result<Parsed, Status> {
    let mut duplicates = vec![];
    let mut reader = serde_json::Deserializer::from_slice(body);
    let seed = Seed {
        path: Path::Root,
        depth: 0,
        duplicates: &mut duplicates,
    };
    let value = seed
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| {
            Status::bad_request(format!("the body of the request is not JSON: {error}"))
        })?;
    Ok(Parsed { value, duplicates })
}

/// Whether the value nests deeper than this.
pub fn deeper_than(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => depth == 0 || items.iter().any(|item| deeper_than(item, depth - 1)),
        Value::Object(fields) => {
            depth == 0 || fields.values().any(|field| deeper_than(field, depth - 1))
        }
        _ => false,
    }
}

/// Refuses what nests too deep to be walked.
pub(crate) fn check_depth(value: &Value) -> Result<(), Status> {
    if deeper_than(value, MAX_DEPTH) {
        return Err(Status::bad_request(format!(
            "the object nests deeper than {MAX_DEPTH} levels"
        )));
    }
    Ok(())
}

struct Seed<'a> {
    path: Path<'a>,
    depth: usize,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let depth = deeper::<A::Error>(self.depth)?;
        let mut items = vec![];
        while let Some(item) = seq.next_element_seed(Seed {
            path: self.path.index(items.len()),
            depth,
            duplicates: self.duplicates,
        })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let depth = deeper::<A::Error>(self.depth)?;
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let path = self.path.field(&name);
            if fields.contains_key(&name) && self.duplicates.len() < MOST_DUPLICATES {
                self.duplicates.push(path.to_string());
            }
            let value = map.next_value_seed(Seed {
                path,
                depth,
                duplicates: self.duplicates,
            })?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

fn deeper<E: serde::de::Error>(depth: usize) -> Result<usize, E> {
    if depth >= MAX_DEPTH {
        return Err(E::custom(format!("nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(depth + 1)
}

/// The text at a JSON pointer, or nothing.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The items at a JSON pointer, or none.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The texts in the list at a JSON pointer.
pub(crate) fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    items(value, pointer)
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

/// The fields of an object at a JSON pointer; nothing where there is none.
pub(crate) fn fields<'a>(
    value: &'a Value,
    pointer: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    value
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

/// The object behind this value, made one if it is none.
pub(crate) fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was just made an object")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_stand_twice_are_named() {
        let parsed = parse(br#"{"spec": {"a": 1, "b": [{"c": 1, "c": 2}], "a": 2}}"#).unwrap();
        assert_eq!(parsed.value, json!({"spec": {"a": 2, "b": [{"c": 2}]}}));
        assert_eq!(parsed.duplicates, ["spec.b[0].c", "spec.a"]);
    }

    #[test]
    fn a_body_too_deep_is_refused() {
        let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
        assert_eq!(parse(deep.as_bytes()).unwrap_err().code, 400);
        let fine = format!("{}{}", "[".repeat(100), "]".repeat(100));
        let value = parse(fine.as_bytes()).unwrap().value;
        assert!(!deeper_than(&value, MAX_DEPTH));
        assert!(deeper_than(&value, MAX_DEPTH - 1));
    }

    #[test]
    fn what_follows_the_value_is_refused() {
        assert_eq!(parse(b"{} {}").unwrap_err().code, 400);
        assert_eq!(parse(b"").unwrap_err().code, 400);
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_written_value_reads_back(value in crate::schema::arbitrary::json()) {
            let parsed = parse(value.to_string().as_bytes()).unwrap();
            prop_assert_eq!(parsed.value, value);
            prop_assert!(parsed.duplicates.is_empty());
        }
    }
}
