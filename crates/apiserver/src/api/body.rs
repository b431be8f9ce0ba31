//! The object in a request's body: JSON, YAML for those who write by hand, protobuf of built-in kinds from Go.

use axum::http::{HeaderMap, header};
use objects::Status;
use objects::json::{self, Parsed};
use serde_json::Value;

use super::protobuf;

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";
pub const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// The body of a create, update or review.
pub fn object(headers: &HeaderMap, body: &[u8]) -> Result<Parsed, Status> {
    let parsed = match media(headers).as_str() {
        // Browsers and curl name these without meaning them.
        "" | JSON | "text/plain" | "application/x-www-form-urlencoded" => json::parse(body)?,
        YAML | "text/yaml" => yaml(body)?,
        protobuf::MEDIA => Parsed {
            value: protobuf::parse(body)?,
            duplicates: Vec::new(),
        },
        _ => {
            return Err(Status::unsupported_media_type(&[
                JSON,
                YAML,
                protobuf::MEDIA,
            ]));
        }
    };
    if parsed.value.is_object() {
        Ok(parsed)
    } else {
        Err(Status::bad_request(
            "the object provided is unrecognized (must be of type JSON object)",
        ))
    }
}

/// The media type of a body, without parameters.
pub fn media(headers: &HeaderMap) -> String {
    let text = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    text.split(';')
        .next()
        .unwrap_or("")
        .trim()
        .to_ascii_lowercase()
}

/// JSON is YAML, but is read as JSON where it is: faster, and exact about duplicate fields.
pub fn yaml(body: &[u8]) -> Result<Parsed, Status> {
    if body.trim_ascii_start().first() == Some(&b'{') {
        return json::parse(body);
    }
    let text =
        std::str::from_utf8(body).map_err(|_| Status::bad_request("the body is not UTF-8"))?;
    // The extract of the source is left out: a Secret may stand there.
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        // An alias repeats what it names: a few lines could become gigabytes.
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        Status::bad_request(format!(
            "error decoding YAML: {}",
            first_line(&error.to_string())
        ))
    })?;
    // Through our own reader once more: it bounds the depth.
    json::parse(value.to_string().as_bytes())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}
