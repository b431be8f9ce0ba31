//! What a service says when it refuses: messages of the Base registry or a vendor, put into one body.

use axum::http::StatusCode;
use serde_json::{Value, json};

pub use super::base::*;

/// One message of the registry.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub key: &'static str,
    /// The status of an answer that has this message alone.
    pub status: u16,
    /// With `%1`, `%2` and so on for its arguments.
    pub text: &'static str,
    pub severity: Severity,
    pub resolution: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Ok,
    Warning,
    Critical,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "Warning",
            Self::Critical => "Critical",
        }
    }
}

/// A message with its arguments.
#[derive(Debug, Clone)]
pub struct Message {
    id: String,
    text: String,
    args: Vec<String>,
    severity: Severity,
    resolution: String,
    /// A JSON pointer to the property it is about.
    about: Option<String>,
}

impl Row {
    pub fn with(&self, args: &[&str]) -> Message {
        Message {
            id: format!("{REGISTRY}.{}", self.key),
            text: fill(self.text, args),
            args: args.iter().map(ToString::to_string).collect(),
            severity: self.severity,
            resolution: self.resolution.into(),
            about: None,
        }
    }

    pub fn placeholders(&self) -> usize {
        (1..=9)
            .take_while(|n| self.text.contains(&format!("%{n}")))
            .count()
    }
}

/// Puts arguments in their places, in one pass: an argument that looks like a place is left alone.
fn fill(template: &str, args: &[&str]) -> String {
    let mut parts = template.split('%');
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let place = part
            .bytes()
            .next()
            .filter(u8::is_ascii_digit)
            .map(|digit| usize::from(digit - b'0'));
        if let Some(arg) = place.and_then(|n| args.get(n.checked_sub(1)?)) {
            text.push_str(arg);
            text.push_str(&part[1..]);
        } else {
            text.push('%');
            text.push_str(part);
        }
    }
    text
}

impl Message {
    /// A message that is not in the registry: a vendor's own.
    pub fn of_vendor(id: &str, text: &str) -> Self {
        Self {
            id: id.into(),
            text: text.into(),
            args: vec![],
            severity: Severity::Critical,
            resolution: "See the maker's documentation.".into(),
            about: None,
        }
    }

    /// Adds what the fixed text cannot say.
    #[must_use]
    pub fn because(mut self, cause: impl AsRef<str>) -> Self {
        self.text = format!("{} {}", self.text, cause.as_ref());
        self
    }

    #[must_use]
    pub fn about(mut self, pointer: impl Into<String>) -> Self {
        self.about = Some(pointer.into());
        self
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn render(&self) -> Value {
        let mut json = json!({
            "@odata.type": "#Message.v1_1_2.Message",
            "MessageId": self.id,
            "Message": self.text,
            "MessageArgs": self.args,
            "Severity": self.severity.as_str(),
            "MessageSeverity": self.severity.as_str(),
            "Resolution": self.resolution,
        });
        if let Some(pointer) = &self.about {
            json["RelatedProperties"] = json!([pointer]);
        }
        json
    }
}

/// A request that is not granted.
#[derive(Debug, Clone)]
pub struct Problem {
    pub status: StatusCode,
    pub messages: Vec<Message>,
    pub retry_after: Option<u64>,
}

impl Problem {
    pub fn new(row: &Row, args: &[&str]) -> Self {
        Self::of(row.status, row.with(args))
    }

    pub fn of(status: u16, message: Message) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self {
            status,
            messages: vec![message],
            retry_after: None,
        }
    }

    #[must_use]
    pub fn because(mut self, cause: impl AsRef<str>) -> Self {
        self.messages = self
            .messages
            .into_iter()
            .map(|message| message.because(&cause))
            .collect();
        self
    }

    pub fn render(&self) -> Value {
        let general = GENERAL_ERROR.with(&[]);
        let first = if let [only] = &self.messages[..] {
            only
        } else {
            &general
        };
        json!({
            "error": {
                "code": first.id,
                "message": first.text,
                "@Message.ExtendedInfo": self.messages.iter().map(Message::render).collect::<Vec<_>>(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_take_their_places() {
        let message = PARAMETER_VALUE_NOT_IN_LIST.with(&["Sideways", "ResetType", "Reset"]);
        let json = message.render();
        assert_eq!(
            json["Message"],
            "The value Sideways is not one that the parameter ResetType of the action Reset can have."
        );
        assert_eq!(json["MessageId"], "Base.1.18.ActionParameterValueNotInList");
    }

    #[test]
    fn several_problems_come_under_a_general_one() {
        let mut problem = Problem::new(&PROPERTY_UNKNOWN, &["A"]);
        assert_eq!(
            problem.render()["error"]["code"],
            "Base.1.18.PropertyUnknown"
        );
        problem.messages.push(PROPERTY_UNKNOWN.with(&["B"]));
        let json = problem.render();
        assert_eq!(json["error"]["code"], "Base.1.18.GeneralError");
        assert_eq!(
            json["error"]["@Message.ExtendedInfo"][1]["MessageArgs"][0],
            "B"
        );
    }
}
