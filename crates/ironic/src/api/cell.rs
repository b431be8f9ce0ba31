//! One value of a record as clients see it.

use std::fmt;

use jiff::Timestamp;
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::Value;
use uuid::Uuid;

use crate::record::Object;

#[derive(Clone)]
pub enum Cell<'a> {
    Null,
    Bool(bool),
    Text(&'a str),
    Uuid(Uuid),
    Mac(model::Mac),
    Time(Timestamp),
    List(&'a [String]),
    Uuids(&'a [Uuid]),
    Object(&'a Object),
    /// An object with passwords in it, which are not shown.
    Masked(&'a Object),
}

pub const MASK: &str = "******";

impl<'a> Cell<'a> {
    pub fn text(value: Option<&'a String>) -> Self {
        value.map_or(Self::Null, |text| Self::Text(text))
    }

    pub fn uuid(value: Option<Uuid>) -> Self {
        value.map_or(Self::Null, Self::Uuid)
    }

    pub fn time(value: Option<Timestamp>) -> Self {
        value.map_or(Self::Null, Self::Time)
    }

    pub fn bool(value: Option<bool>) -> Self {
        value.map_or(Self::Null, Self::Bool)
    }

    /// The value with its passwords, for patching.
    pub fn bare(self) -> Value {
        match self {
            Self::Masked(object) | Self::Object(object) => Value::Object(object.clone()),
            Self::Null
            | Self::Bool(_)
            | Self::Text(_)
            | Self::Uuid(_)
            | Self::Mac(_)
            | Self::Time(_)
            | Self::List(_)
            | Self::Uuids(_) => serde_json::to_value(self).expect("a cell has only text for keys"),
        }
    }

    /// What to sort by; nothing for values that have no order.
    pub fn order(&self) -> Option<String> {
        match self {
            Self::Null | Self::List(_) | Self::Uuids(_) | Self::Object(_) | Self::Masked(_) => None,
            Self::Bool(value) => Some(u8::from(*value).to_string()),
            Self::Text(text) => Some((*text).to_owned()),
            Self::Uuid(uuid) => Some(uuid.to_string()),
            Self::Mac(mac) => Some(mac.to_string()),
            Self::Time(time) => Some(Stamp(*time).to_string()),
        }
    }
}

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Uuid(uuid) => uuid.serialize(serializer),
            Self::Mac(mac) => serializer.collect_str(mac),
            Self::Time(time) => serializer.collect_str(&Stamp(*time)),
            Self::List(list) => list.serialize(serializer),
            Self::Uuids(list) => list.serialize(serializer),
            Self::Object(object) => object.serialize(serializer),
            Self::Masked(object) => masked(object, serializer),
        }
    }
}

/// The value of a nested document, without what looks like a password in it.
struct Hidden<'a>(&'a Value);

impl Serialize for Hidden<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(object) => masked(object, serializer),
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Hidden(item))?;
                }
                list.end()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.0.serialize(serializer)
            }
        }
    }
}

fn masked<S: Serializer>(object: &Object, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(object.len()))?;
    for (key, value) in object {
        if is_secret(key) && !value.is_null() && !value.is_boolean() {
            map.serialize_entry(key, MASK)?;
        } else {
            map.serialize_entry(key, &Hidden(value))?;
        }
    }
    map.end()
}

/// Whether a key names something that must not be shown. Config drives and image addresses carry secrets, too.
pub fn is_secret(key: &str) -> bool {
    const PARTS: [&str; 9] = [
        "password",
        "passwd",
        "secret",
        "token",
        "credential",
        "private_key",
        "snmp_community",
        "auth_key",
        "priv_key",
    ];
    let key = key.to_ascii_lowercase();
    key == "configdrive" || key == "image_url" || PARTS.iter().any(|part| key.contains(part))
}

/// A time as Ironic writes it: with an offset, never a `Z`.
pub struct Stamp(pub Timestamp);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::tz::Offset::UTC.to_datetime(self.0);
        let (year, month, day) = (time.year(), time.month(), time.day());
        let (hour, minute, second) = (time.hour(), time.minute(), time.second());
        let micros = time.subsec_nanosecond() / 1000;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+00:00"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn passwords_are_masked_wherever_they_are_nested() {
        let Value::Object(object) = json!({
            "redfish_address": "https://10.0.0.1", "redfish_password": "hunter2", "ipmi_username": "admin",
            "configdrive": "H4sI", "image_url": "http://x", "image_pull_secret": "s", "Agent_Secret_Token": "t",
            "agent_secret_token_pregenerated": true,
            "nested": {"list": [{"ssh_private_key": "k", "plain": 1}], "password": null},
        }) else {
            unreachable!()
        };
        let shown = serde_json::to_value(Cell::Masked(&object)).unwrap();
        assert_eq!(
            shown,
            json!({
                "redfish_address": "https://10.0.0.1", "redfish_password": MASK, "ipmi_username": "admin",
                "configdrive": MASK, "image_url": MASK, "image_pull_secret": MASK, "Agent_Secret_Token": MASK,
                "agent_secret_token_pregenerated": true,
                "nested": {"list": [{"ssh_private_key": MASK, "plain": 1}], "password": null},
            })
        );
        assert_eq!(Cell::Masked(&object).bare()["redfish_password"], "hunter2");
    }

    #[test]
    fn a_time_has_an_explicit_offset() {
        let time: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(Stamp(time).to_string(), "2026-01-02T03:04:05.678000+00:00");
    }
}
