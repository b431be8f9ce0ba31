//! One thing that is wrong with an object, in Kubernetes' words.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that is wrong with an object, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    pub reason: CauseReason,
    pub message: String,
    /// Such as `spec.hosts[1].bmc.address`; empty for the object as a whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CauseReason {
    FieldValueNotFound,
    FieldValueRequired,
    FieldValueDuplicate,
    FieldValueInvalid,
    FieldValueNotSupported,
    FieldValueForbidden,
    FieldValueTooLong,
    FieldValueTooMany,
    FieldValueTypeInvalid,
    InternalError,
    FieldManagerConflict,
    UnexpectedServerResponse,
    ResourceVersionTooLarge,
}

impl Cause {
    pub(crate) fn new(reason: CauseReason, field: impl Into<String>, message: String) -> Self {
        Self {
            reason,
            message,
            field: field.into(),
        }
    }

    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = match why {
            "" => "Required value".into(),
            why => format!("Required value: {why}"),
        };
        Self::new(CauseReason::FieldValueRequired, field, message)
    }

    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self::new(
            CauseReason::FieldValueInvalid,
            field,
            format!("Invalid value: {}: {why}", shown(value)),
        )
    }

    /// A value of the wrong type.
    pub fn wrong_type(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self::new(
            CauseReason::FieldValueTypeInvalid,
            field,
            format!("Invalid value: {}: {why}", shown(value)),
        )
    }

    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            CauseReason::FieldValueDuplicate,
            field,
            format!("Duplicate value: {}", shown(value)),
        )
    }

    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new(
            CauseReason::FieldValueForbidden,
            field,
            format!("Forbidden: {why}"),
        )
    }

    /// A value outside a closed list.
    pub fn not_supported(field: impl Into<String>, value: &Value, allowed: &[Value]) -> Self {
        let allowed: Vec<_> = allowed.iter().map(shown).collect();
        let mut message = format!("Unsupported value: {}", shown(value));
        if !allowed.is_empty() {
            message.push_str(": supported values: ");
            message.push_str(&allowed.join(", "));
        }
        Self::new(CauseReason::FieldValueNotSupported, field, message)
    }

    pub fn too_long(field: impl Into<String>, most_bytes: u64) -> Self {
        Self::new(
            CauseReason::FieldValueTooLong,
            field,
            format!("Too long: may not be more than {most_bytes} bytes"),
        )
    }

    pub fn too_many(field: impl Into<String>, count: usize, most: u64) -> Self {
        Self::new(
            CauseReason::FieldValueTooMany,
            field,
            format!("Too many: {count}: must have at most {most} items"),
        )
    }

    /// Another manager owns the field with another value (server-side apply).
    pub fn managed(field: impl Into<String>, message: String) -> Self {
        Self::new(CauseReason::FieldManagerConflict, field, message)
    }

    /// `field: message`, as it stands in a Status' own message.
    pub fn line(&self) -> String {
        match self.field.as_str() {
            "" => self.message.clone(),
            field => format!("{field}: {}", self.message),
        }
    }
}

/// A value as Kubernetes shows it in messages, cut where a person would stop reading.
fn shown(value: &Value) -> String {
    const MOST: usize = 1024;
    let mut text = go_syntax(value);
    if text.len() > MOST {
        let end = (0..=MOST).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push_str("...");
    }
    text
}

/// Objects and lists stand in messages as Go writes them.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, field)| format!("{name:?}:{}", go_syntax(field)));
            let fields: Vec<_> = fields.collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_huge_value_is_cut_in_a_message() {
        let cause = Cause::invalid("a", &json!("ü".repeat(4000)), "no");
        assert!(cause.message.len() < 1100);
    }

    #[test]
    fn objects_and_lists_are_shown_as_go_writes_them() {
        let cause = Cause::duplicate("a", &json!({"name": "x", "ports": [1, true, null]}));
        assert_eq!(
            cause.line(),
            r#"a: Duplicate value: map[string]interface {}{"name":"x", "ports":[]interface {}{1, true, null}}"#
        );
    }
}
