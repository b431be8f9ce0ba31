//! Reading single values of a body; each says what is wrong in words that can follow the field's name.

use model::Mac;
use serde_json::Value;
use uuid::Uuid;

use crate::record::Object;

type Parsed<T> = Result<T, String>;

/// Puts a value where it belongs, if it could be read.
pub fn put<T>(slot: &mut T, value: Parsed<T>) -> Parsed<()> {
    *slot = value?;
    Ok(())
}

/// A text or nothing.
pub fn text(value: Value, most: usize) -> Parsed<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.chars().count() <= most => Ok(Some(text)),
        Value::String(_) => Err(format!("is longer than {most} characters")),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err("must be a text or null".into())
        }
    }
}

pub fn required_text(value: Value, most: usize) -> Parsed<String> {
    text(value, most)?
        .filter(|text| !text.is_empty())
        .ok_or_else(|| "must be a text".into())
}

/// A boolean; `null` is the default. Ironic takes the usual words for one, too.
pub fn boolean(value: &Value, default: bool) -> Parsed<bool> {
    optional_boolean(value).map(|value| value.unwrap_or(default))
}

pub fn optional_boolean(value: &Value) -> Parsed<Option<bool>> {
    let problem = || "must be true or false".to_owned();
    match value {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(*value)),
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Ok(Some(true)),
            "false" | "f" | "no" | "n" | "off" | "0" => Ok(Some(false)),
            _ => Err(problem()),
        },
        Value::Number(_) | Value::Array(_) | Value::Object(_) => Err(problem()),
    }
}

/// An object; `null` is an empty one.
pub fn object(value: Value) -> Parsed<Object> {
    match value {
        Value::Null => Ok(Object::new()),
        Value::Object(object) => Ok(object),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err("must be an object".into())
        }
    }
}

pub fn uuid(value: &Value) -> Parsed<Option<Uuid>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => text
            .parse()
            .map(Some)
            .map_err(|_| format!("{} is not a uuid", quoted(text))),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err("must be a uuid".into())
        }
    }
}

pub fn mac(value: &Value) -> Parsed<Mac> {
    let text = value.as_str().ok_or("must be a MAC address")?;
    let mac: Mac = text
        .parse()
        .map_err(|error: model::ParseMacError| error.to_string())?;
    if mac.is_multicast() || mac.0 == [0; 6] {
        return Err(format!("{mac} cannot be the address of an interface"));
    }
    Ok(mac)
}

/// A logical name, which can stand in a path where a uuid can.
pub fn name(value: Value) -> Parsed<Option<String>> {
    let Some(name) = text(value, 255)? else {
        return Ok(None);
    };
    if name.is_empty() || name.parse::<Uuid>().is_ok() || RESERVED.contains(&name.as_str()) {
        return Err(format!("{} cannot be a name", quoted(&name)));
    }
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    {
        return Err(format!(
            "{} has characters other than letters, digits, and -._~",
            quoted(&name)
        ));
    }
    Ok(Some(name))
}

/// Words that follow a node in paths, and so cannot name one.
const RESERVED: [&str; 17] = [
    "detail",
    "validate",
    "states",
    "management",
    "maintenance",
    "vendor_passthru",
    "ports",
    "portgroups",
    "vifs",
    "traits",
    "bios",
    "firmware",
    "inventory",
    "history",
    "volume",
    "allocation",
    "children",
];

pub fn texts(value: Value, most: usize) -> Parsed<Vec<String>> {
    let Value::Array(items) = value else {
        return Err("must be a list".into());
    };
    if items.len() > most {
        return Err(format!("has more than {most} items"));
    }
    items
        .into_iter()
        .map(|item| required_text(item, 255))
        .collect()
}

pub fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(64).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_words_that_cannot_be_mistaken_in_a_path() {
        for good in ["n", "metal3~host-0", "a.b_c", "0"] {
            assert_eq!(name(json!(good)).unwrap().as_deref(), Some(good));
        }
        assert_eq!(name(json!(null)).unwrap(), None);
        let long = "x".repeat(256);
        for bad in [
            "",
            "a b",
            "a/b",
            "ü",
            "detail",
            "ports",
            "1be26c0b-03f2-4d2e-ae87-c02d7f33c123",
            &long,
        ] {
            assert!(name(json!(bad)).is_err(), "{bad}");
        }
        assert!(name(json!(7)).is_err());
    }

    #[test]
    fn an_address_of_an_interface_is_unicast() {
        assert!(mac(&json!("52:54:00:AA:BB:CC")).is_ok());
        for bad in [
            json!("01:00:5e:00:00:01"),
            json!("00:00:00:00:00:00"),
            json!("x"),
            json!(1),
            json!(null),
        ] {
            assert!(mac(&bad).is_err(), "{bad}");
        }
    }
}
