//! Reads a request's body field by field and remembers everything that is wrong with it.
//!
//! Ask for what you know, then [`Body::finish`]: what nobody asked for is unknown, and all problems are reported
//! together, before anything has been changed.

use model::Secret;
use serde_json::{Map, Value};

use super::messages::{self as m, Message, Problem, Row};

/// An object, and what has been found wrong in it.
#[derive(Debug)]
pub struct Body {
    fields: Map<String, Value>,
    of: Of,
    /// A JSON pointer to this object, ending in a slash.
    at: String,
    problems: Vec<(u16, Message)>,
}

/// What the fields of a body are called.
#[derive(Debug, Clone, Copy)]
enum Of {
    /// Properties, in a change or a new member.
    Resource,
    /// Parameters.
    Action(&'static str),
}

/// What was said of a property that can be null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Nothing,
    Null,
    Text(String),
}

impl Said {
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Nothing | Self::Null => None,
        }
    }
}

impl Body {
    pub fn of_resource(fields: Map<String, Value>) -> Self {
        Self {
            fields,
            of: Of::Resource,
            at: "#/".into(),
            problems: vec![],
        }
    }

    pub fn of_action(action: &'static str, fields: Map<String, Value>) -> Self {
        Self {
            fields,
            of: Of::Action(action),
            at: "#/".into(),
            problems: vec![],
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    pub fn text(&mut self, name: &str) -> Option<String> {
        match self.fields.remove(name)? {
            Value::String(text) => Some(text),
            other => self.wrong_type(name, &other),
        }
    }

    pub fn nullable_text(&mut self, name: &str) -> Said {
        match self.fields.remove(name) {
            None => Said::Nothing,
            Some(Value::Null) => Said::Null,
            Some(Value::String(text)) => Said::Text(text),
            Some(other) => {
                self.wrong_type::<()>(name, &other);
                Said::Nothing
            }
        }
    }

    pub fn secret(&mut self, name: &str) -> Option<Secret<String>> {
        match self.fields.remove(name)? {
            Value::Null => None,
            Value::String(text) => Some(Secret::new(text)),
            _ => self.wrong_type(name, &Value::from("******")),
        }
    }

    pub fn flag(&mut self, name: &str) -> Option<bool> {
        match self.fields.remove(name)? {
            Value::Bool(flag) => Some(flag),
            other => self.wrong_type(name, &other),
        }
    }

    pub fn number(&mut self, name: &str) -> Option<u64> {
        let value = self.fields.remove(name)?;
        value.as_u64().or_else(|| self.wrong_type(name, &value))
    }

    pub fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        let value = self.fields.remove(name)?;
        let all: Option<Vec<String>> = value.as_array().and_then(|list| {
            list.iter()
                .map(|item| item.as_str().map(String::from))
                .collect()
        });
        all.or_else(|| self.wrong_type(name, &value))
    }

    pub fn objects(&mut self, name: &str) -> Option<Vec<Map<String, Value>>> {
        let value = self.fields.remove(name)?;
        let all: Option<Vec<_>> = value
            .as_array()
            .and_then(|list| list.iter().map(|item| item.as_object().cloned()).collect());
        // Objects may hold secrets; the kind of thing is enough to know.
        all.or_else(|| self.wrong_type(name, &Value::from("(not a list of objects)")))
    }

    /// A text that must be one of these.
    pub fn one_of(&mut self, name: &str, allowed: &[&str]) -> Option<String> {
        let text = self.text(name)?;
        if allowed.contains(&text.as_str()) {
            return Some(text);
        }
        self.not_in_list(name, &text, allowed);
        None
    }

    /// An object within. Give it back with [`Body::absorb`].
    pub fn object(&mut self, name: &str) -> Option<Self> {
        match self.fields.remove(name)? {
            Value::Object(fields) => Some(Self {
                fields,
                of: Of::Resource,
                at: format!("{}{name}/", self.at),
                problems: vec![],
            }),
            other => self.wrong_type(name, &other),
        }
    }

    /// Ends the reading of an object within.
    pub fn absorb(&mut self, mut inner: Self, known: &Value) {
        inner.refuse_rest(known);
        self.problems.append(&mut inner.problems);
    }

    /// The remaining fields, for an object whose names are data.
    pub fn take_rest(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.fields)
    }

    pub fn require(&mut self, name: &str) {
        if self.has(name) {
            return;
        }
        let (row, message) = match self.of {
            Of::Resource => (&m::PROPERTY_MISSING, m::PROPERTY_MISSING.with(&[name])),
            Of::Action(action) => (
                &m::PARAMETER_MISSING,
                m::PARAMETER_MISSING.with(&[action, name]),
            ),
        };
        self.note(row, message, name);
    }

    pub fn not_in_list(&mut self, name: &str, value: &str, allowed: &[&str]) {
        let (row, message) = match self.of {
            Of::Resource => (
                &m::PROPERTY_VALUE_NOT_IN_LIST,
                m::PROPERTY_VALUE_NOT_IN_LIST.with(&[&short(value), name]),
            ),
            Of::Action(action) => (
                &m::PARAMETER_VALUE_NOT_IN_LIST,
                m::PARAMETER_VALUE_NOT_IN_LIST.with(&[&short(value), name, action]),
            ),
        };
        self.note(
            row,
            message.because(format!("It can be {}.", allowed.join(", "))),
            name,
        );
    }

    pub fn malformed(&mut self, name: &str, value: &str, cause: &str) {
        let (row, message) = match self.of {
            Of::Resource => (
                &m::PROPERTY_VALUE_FORMAT,
                m::PROPERTY_VALUE_FORMAT.with(&[&short(value), name]),
            ),
            Of::Action(action) => (
                &m::PARAMETER_VALUE_FORMAT,
                m::PARAMETER_VALUE_FORMAT.with(&[&short(value), name, action]),
            ),
        };
        self.note(row, message.because(format!("{cause}.")), name);
    }

    pub fn conflict(&mut self, name: &str, with: &str) {
        self.note(
            &m::PROPERTY_VALUE_CONFLICT,
            m::PROPERTY_VALUE_CONFLICT.with(&[name, with]),
            name,
        );
    }

    pub fn wrong_type<T>(&mut self, name: &str, value: &Value) -> Option<T> {
        let value = short(&value.to_string());
        let (row, message) = match self.of {
            Of::Resource => (
                &m::PROPERTY_VALUE_TYPE,
                m::PROPERTY_VALUE_TYPE.with(&[&value, name]),
            ),
            Of::Action(action) => (
                &m::PARAMETER_VALUE_TYPE,
                m::PARAMETER_VALUE_TYPE.with(&[&value, name, action]),
            ),
        };
        self.note(row, message, name);
        None
    }

    fn note(&mut self, row: &Row, message: Message, name: &str) {
        self.problems
            .push((row.status, message.about(format!("{}{name}", self.at))));
    }

    /// `known` is the resource as it is read: what is in it, but was not asked for, cannot be written.
    pub fn finish(mut self, known: &Value) -> Result<(), Problem> {
        self.refuse_rest(known);
        let Some((status, _)) = self.problems.first() else {
            return Ok(());
        };
        let mut problem = Problem::of(*status, m::GENERAL_ERROR.with(&[]));
        problem.messages = self
            .problems
            .into_iter()
            .map(|(_, message)| message)
            .take(MOST)
            .collect();
        Err(problem)
    }

    fn refuse_rest(&mut self, known: &Value) {
        for (name, _) in self.take_rest() {
            // DSP0266: annotations in a request are ignored.
            if name.starts_with("@odata.") {
                continue;
            }
            let shown = short(&name);
            let (row, message) = match self.of {
                Of::Action(action) => (
                    &m::PARAMETER_UNKNOWN,
                    m::PARAMETER_UNKNOWN.with(&[action, &shown]),
                ),
                Of::Resource if known.get(&name).is_some() => (
                    &m::PROPERTY_NOT_WRITABLE,
                    m::PROPERTY_NOT_WRITABLE.with(&[&shown]),
                ),
                Of::Resource => (&m::PROPERTY_UNKNOWN, m::PROPERTY_UNKNOWN.with(&[&shown])),
            };
            self.note(row, message, &shown);
        }
    }
}

/// The most problems one answer lists.
const MOST: usize = 16;

/// What a client sent, as far as it is worth repeating.
fn short(text: &str) -> String {
    const LENGTH: usize = 80;
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(value: Value) -> Body {
        let Value::Object(fields) = value else {
            panic!("an object")
        };
        Body::of_resource(fields)
    }

    fn ids(problem: &Problem) -> Vec<String> {
        problem
            .messages
            .iter()
            .map(|m| m.id().rsplit('.').next().unwrap().into())
            .collect()
    }

    #[test]
    fn all_problems_are_reported_at_once_with_their_places() {
        let mut body =
            body(json!({"A": 1, "B": {"C": "x"}, "Id": 1, "Odd": 1, "@odata.id": "ignored"}));
        assert_eq!(body.text("A"), None);
        let mut inner = body.object("B").unwrap();
        assert_eq!(inner.one_of("C", &["y"]), None);
        body.absorb(inner, &json!({}));
        let problem = body.finish(&json!({"Id": "1"})).unwrap_err();
        assert_eq!(
            ids(&problem),
            [
                "PropertyValueTypeError",
                "PropertyValueNotInList",
                "PropertyNotWritable",
                "PropertyUnknown"
            ]
        );
        assert_eq!(
            problem.messages[1].render()["RelatedProperties"][0],
            "#/B/C"
        );
    }

    #[test]
    fn a_password_of_the_wrong_type_is_not_repeated() {
        let mut body = body(json!({"Password": 123_456}));
        assert!(body.secret("Password").is_none());
        assert!(
            !body
                .finish(&json!({}))
                .unwrap_err()
                .render()
                .to_string()
                .contains("123456")
        );
    }
}
