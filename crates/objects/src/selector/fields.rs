//! Field selectors: `metadata.name=a,status.phase!=Running`.

use serde_json::Value;

use crate::kinds::Kind;
use crate::status::Status;

/// A field selector; every term must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    equal: bool,
    value: String,
}

impl Fields {
    /// Reads the query parameter and refuses fields this kind cannot be selected by.
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, Status> {
        let mut terms = vec![];
        for part in split(text) {
            if part.is_empty() {
                continue;
            }
            let term = term(part).ok_or_else(|| {
                Status::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                ))
            })?;
            let known = ["metadata.name", "metadata.namespace"].contains(&term.field.as_str())
                || kind.selectable.contains(&term.field);
            if !known {
                let why = format!("field label not supported: {}", term.field);
                return Err(Status::bad_request(why));
            }
            terms.push(term);
        }
        Ok(Self(terms))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn matches(&self, object: &Value) -> bool {
        self.0
            .iter()
            .all(|term| (value(object, &term.field) == term.value) == term.equal)
    }

    /// The name, when the selector asks for exactly one (`metadata.name=a`).
    pub fn name(&self) -> Option<&str> {
        self.0
            .iter()
            .find(|term| term.equal && term.field == "metadata.name")
            .map(|term| term.value.as_str())
    }
}

/// The parts between commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut parts = vec![];
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn term(part: &str) -> Option<Term> {
    let at = part.find('=')?;
    let (field, equal) = match part[..at].strip_suffix('!') {
        Some(field) => (field, false),
        None => (&part[..at], true),
    };
    let value = part[at + 1..].strip_prefix('=').filter(|_| equal);
    let value = unescape(value.unwrap_or(&part[at + 1..]))?;
    (!field.is_empty()).then(|| Term {
        field: field.trim().into(),
        equal,
        value,
    })
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|c| "\\,=".contains(*c))?),
            '=' | ',' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

/// The value of a field as text; what is absent is empty, or false where only a boolean can be.
fn value(object: &Value, field: &str) -> String {
    let field = match field {
        "source" => "source.component",
        field => field,
    };
    let found = field
        .split('.')
        .try_fold(object, |value, name| value.get(name));
    match found {
        None | Some(Value::Null) => {
            let boolean = ["spec.unschedulable", "spec.hostNetwork"].contains(&field);
            if boolean {
                "false".into()
            } else {
                String::new()
            }
        }
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::{Registry, tests_widget};

    #[test]
    fn terms_choose_by_field() {
        let kind = tests_widget();
        let object = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"color": "x,y"}});
        let table = [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name==a", true),
            ("metadata.name!=a", false),
            ("metadata.name=a,metadata.namespace=c", false),
            ("spec.color=x\\,y", true),
            ("spec.color!=", true),
        ];
        for (text, expected) in table {
            let selector = Fields::parse(text, &kind).unwrap();
            assert_eq!(selector.matches(&object), expected, "{text}");
        }
        let one = Fields::parse("metadata.name=a", &kind).unwrap();
        assert_eq!(one.name(), Some("a"));
    }

    #[test]
    fn fields_that_are_not_selectable_are_refused() {
        let kind = tests_widget();
        let status = Fields::parse("spec.size=3", &kind).unwrap_err();
        assert_eq!(
            (status.code, status.message.as_str()),
            (400, "field label not supported: spec.size")
        );
        assert_eq!(Fields::parse("nonsense", &kind).unwrap_err().code, 400);
    }

    #[test]
    fn an_absent_boolean_is_false() {
        let node = Registry::builtin().find("", "v1", "nodes").unwrap();
        let selector = Fields::parse("spec.unschedulable=false", &node).unwrap();
        assert!(selector.matches(&json!({"spec": {}})));
        assert!(!selector.matches(&json!({"spec": {"unschedulable": true}})));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_selector_or_refused(text in "[a-z.,=!\\\\é]{0,30}") {
            let _ = Fields::parse(&text, &tests_widget());
        }
    }
}
