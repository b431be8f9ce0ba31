//! A request, taken apart, and its answer.

use std::fmt::Write as _;

use axum::http::{HeaderMap, Method, StatusCode};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::fault::Fault;
use super::version::Version;
use crate::record::Object;

pub struct Request {
    pub method: Method,
    /// Elements of the path after `/v1`.
    pub path: Vec<String>,
    pub query: Query,
    pub version: Version,
    /// Where the client sees us: `http://host:port`.
    pub base: String,
    pub body: Bytes,
}

impl Request {
    pub fn json(&self) -> Result<Value, Fault> {
        if self.body.is_empty() {
            return Err(Fault::bad_request(
                "The request needs a body of JSON, and has none.",
            ));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| Fault::bad_request(format!("The body is not JSON: {error}")))
    }

    /// The body, which must be an object with no other keys than these.
    pub fn object(&self, keys: &[&str]) -> Result<Object, Fault> {
        let Value::Object(object) = self.json()? else {
            return Err(Fault::bad_request("The body must be a JSON object."));
        };
        known(&object, keys)?;
        Ok(object)
    }

    /// Like `object`, for calls that may come without a body.
    pub fn object_or_empty(&self, keys: &[&str]) -> Result<Object, Fault> {
        if self.body.is_empty() {
            Ok(Object::new())
        } else {
            self.object(keys)
        }
    }
}

pub fn known(object: &Object, keys: &[&str]) -> Result<(), Fault> {
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Fault::bad_request(format!(
            "Unexpected property {:?}; there are {}",
            key.chars().take(64).collect::<String>(),
            keys.join(", ")
        ))),
    }
}

/// Arguments after the question mark. Of one given twice the last counts.
#[derive(Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let mut pairs = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let decode = |text: &str| unescape(&text.replace('+', " "));
            let (Some(key), Some(value)) = (decode(key), decode(value)) else {
                return Err(Fault::bad_request("The query is not properly encoded."));
            };
            pairs.push((key, value));
        }
        Ok(Self(pairs))
    }

    /// Refuses arguments this call does not have.
    pub fn only(&self, known: &[&str]) -> Result<(), Fault> {
        match self
            .0
            .iter()
            .find(|(key, _)| !known.contains(&key.as_str()))
        {
            None => Ok(()),
            Some((key, _)) => Err(Fault::bad_request(format!(
                "Unknown argument {:?}; there are {}",
                key.chars().take(64).collect::<String>(),
                known.join(", ")
            ))),
        }
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    pub fn bool(&self, key: &str) -> Result<Option<bool>, Fault> {
        let Some(text) = self.get(key) else {
            return Ok(None);
        };
        match text.to_ascii_lowercase().as_str() {
            "1" | "t" | "true" | "on" | "y" | "yes" => Ok(Some(true)),
            "0" | "f" | "false" | "off" | "n" | "no" => Ok(Some(false)),
            _ => Err(Fault::bad_request(format!(
                "{key}: {text:?} is neither true nor false"
            ))),
        }
    }

    /// A comma-separated list.
    pub fn list(&self, key: &str) -> Option<Vec<String>> {
        self.get(key).map(|text| {
            text.split(',')
                .map(|item| item.trim().to_owned())
                .filter(|i| !i.is_empty())
                .collect()
        })
    }

    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// Percent-decodes; nothing if what comes out is not text.
pub fn unescape(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = bytes.get(at + 1..at + 3)?;
            let digit = |byte: u8| char::from(byte).to_digit(16);
            out.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).ok()
}

/// Percent-encodes for use in a query or a path element.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~,:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Where a client sees us: the configured address, or the one it used.
pub fn base(configured: Option<&str>, headers: &HeaderMap, tls: bool) -> String {
    if let Some(base) = configured {
        return base.trim_end_matches('/').to_owned();
    }
    let host = headers
        .get("host")
        .and_then(|value| value.to_str().ok())
        .unwrap_or("localhost:6385");
    let host: String = host
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-._~:[]%".contains(*c))
        .collect();
    format!("{}://{host}", if tls { "https" } else { "http" })
}

/// An answer that is not a refusal.
pub struct Reply {
    pub status: StatusCode,
    pub body: Option<Vec<u8>>,
    pub location: Option<String>,
}

impl Reply {
    pub fn ok(document: &impl Serialize) -> Self {
        Self::json(StatusCode::OK, document)
    }

    pub fn json(status: StatusCode, document: &impl Serialize) -> Self {
        let body = serde_json::to_vec(document).expect("documents have only text for keys");
        Self {
            status,
            body: Some(body),
            location: None,
        }
    }

    pub fn created(document: &impl Serialize, location: String) -> Self {
        Self {
            location: Some(location),
            ..Self::json(StatusCode::CREATED, document)
        }
    }

    pub fn no_content() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            body: None,
            location: None,
        }
    }

    pub fn accepted() -> Self {
        Self {
            status: StatusCode::ACCEPTED,
            body: None,
            location: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_query_is_read_with_its_escapes_and_the_last_of_two_counts() {
        let query = Query::parse("fields=uuid,name&x=a%20b+c&x=2&empty").unwrap();
        assert_eq!(query.list("fields").unwrap(), ["uuid", "name"]);
        assert_eq!(query.get("x"), Some("2"));
        assert_eq!(query.get("empty"), Some(""));
        assert!(query.only(&["fields", "x"]).is_err());
        assert!(
            Query::parse("a=%zz").is_err()
                && Query::parse("a=%ff").is_err()
                && Query::parse("a=%2").is_err()
        );
    }

    proptest! {
        #[test]
        fn any_text_survives_escaping(text: String) {
            prop_assert_eq!(unescape(&escape(&text)), Some(text));
        }

        #[test]
        fn any_query_is_read_or_refused(text: String) {
            _ = Query::parse(&text);
        }
    }
}
