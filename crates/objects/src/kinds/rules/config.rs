//! Secrets and ConfigMaps.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::immutable;
use crate::json::{fields, object, text};
use crate::status::Cause;

/// All data of one object together.
const DATA_BYTES: usize = 1 << 20;

/// `stringData` is for writing only; a Secret without a type is opaque.
pub(super) fn fill_secret(secret: &mut Value) {
    if let Some(plain) = object(secret).remove("stringData") {
        for (key, value) in fields(&plain, "") {
            let value = value.as_str().unwrap_or_default();
            secret["data"][key] = json!(STANDARD.encode(value));
        }
    }
    if text(secret, "/type").is_empty() {
        secret["type"] = json!("Opaque");
    }
}

pub(super) fn validate_secret(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    check_keys(new, "data", causes);
    let bytes: usize = fields(new, "/data")
        .map(|(_, value)| value.as_str().map_or(0, str::len) / 4 * 3)
        .sum();
    if bytes > DATA_BYTES {
        causes.push(Cause::too_long("data", DATA_BYTES as u64));
    }
    let required: &[&str] = match text(new, "/type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    for key in required {
        if new["data"].get(*key).is_none() {
            causes.push(Cause::required(format!("data[{key}]"), ""));
        }
    }
    if let Some(old) = old {
        immutable("type", &new["type"], &old["type"], causes);
        check_frozen(new, old, &["data"], causes);
    }
}

pub(super) fn validate_config_map(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    check_keys(new, "data", causes);
    check_keys(new, "binaryData", causes);
    for (key, _) in fields(new, "/binaryData") {
        if new["data"].get(key).is_some() {
            let why = "duplicate of key present in data";
            causes.push(Cause::invalid(
                format!("binaryData[{key}]"),
                &json!(key),
                why,
            ));
        }
    }
    let bytes: usize = fields(new, "/data")
        .chain(fields(new, "/binaryData"))
        .map(|(_, value)| value.as_str().map_or(0, str::len))
        .sum();
    if bytes > DATA_BYTES {
        causes.push(Cause::too_long("", DATA_BYTES as u64));
    }
    if let Some(old) = old {
        check_frozen(new, old, &["data", "binaryData"], causes);
    }
}

fn check_keys(new: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (key, _) in fields(new, &format!("/{field}")) {
        let clean = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let fine = !key.is_empty()
            && key.len() <= 253
            && key.bytes().all(clean)
            && !key.starts_with("..")
            && key != ".";
        if !fine {
            let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                       or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
            causes.push(Cause::invalid(format!("{field}[{key}]"), &json!(key), why));
        }
    }
}

/// Data marked immutable stays, and so does the mark.
fn check_frozen(new: &Value, old: &Value, parts: &[&str], causes: &mut Vec<Cause>) {
    if old["immutable"] != true {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if new["immutable"] != true {
        causes.push(Cause::forbidden("immutable", why));
    }
    for part in parts {
        if new[*part] != old[*part] {
            causes.push(Cause::forbidden(*part, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_data_becomes_data() {
        let mut secret = json!({"data": {"a": "eA=="}, "stringData": {"a": "new", "b": "é"}});
        fill_secret(&mut secret);
        assert_eq!(
            secret,
            json!({"type": "Opaque", "data": {"a": "bmV3", "b": "w6k="}})
        );
    }

    #[test]
    fn an_immutable_secret_stays() {
        let old = json!({"type": "Opaque", "immutable": true, "data": {"a": "eA=="}});
        let mut causes = vec![];
        validate_secret(&old, Some(&old), &mut causes);
        assert_eq!(causes, []);
        let new = json!({"type": "Other", "data": {"a": ""}});
        validate_secret(&new, Some(&old), &mut causes);
        let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["type", "immutable", "data"]);
    }

    #[test]
    fn keys_are_file_names_and_types_have_their_keys() {
        let secret = json!({"type": "kubernetes.io/tls", "data": {"a b": "", "tls.crt": ""}});
        let mut causes = vec![];
        validate_secret(&secret, None, &mut causes);
        let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["data[a b]", "data[tls.key]"]);
        let map = json!({"data": {"a": ""}, "binaryData": {"a": ""}});
        let mut causes = vec![];
        validate_config_map(&map, None, &mut causes);
        assert_eq!(causes[0].field, "binaryData[a]");
    }
}
