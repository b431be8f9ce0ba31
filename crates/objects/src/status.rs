//! The one error of the API: a Kubernetes `Status`, with its HTTP code, reason and causes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use crate::cause::{Cause, CauseReason};
use crate::kinds::Resource;

/// Why a request was refused, in the shape and words of Kubernetes (`metav1.Status`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    pub code: u16,
    pub reason: Reason,
    pub message: String,
    pub details: Option<Box<Details>>,
}

/// The machine-readable reason; clients branch on it (`apierrors.IsConflict` and its like).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    Unknown,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Expired,
    Invalid,
    ServerTimeout,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    ServiceUnavailable,
}

/// What the refusal is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The kind, or where none is known the plural: Kubernetes puts either here.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Status {
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
        }
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.group.clone_from(&resource.group);
        details.kind.clone_from(&resource.resource);
        details.name = name.into();
        self
    }

    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(
            404,
            Reason::NotFound,
            format!("{resource} {name:?} not found"),
        )
        .about(resource, name)
    }

    /// No such path; what Kubernetes answers where no resource is registered.
    pub fn no_such_path() -> Self {
        let mut status = Self::new(
            404,
            Reason::NotFound,
            "the server could not find the requested resource",
        );
        status.details = Some(Box::default());
        status
    }

    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(
            409,
            Reason::AlreadyExists,
            format!("{resource} {name:?} already exists"),
        )
        .about(resource, name)
    }

    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        Self::new(
            409,
            Reason::Conflict,
            format!("Operation cannot be fulfilled on {resource} {name:?}: {why}"),
        )
        .about(resource, name)
    }

    /// The object changed since it was read.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = match (resource.resource.as_str(), name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{resource} is forbidden: {why}"),
            (_, name) => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Self::new(403, Reason::Forbidden, message).about(resource, name)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, Reason::Unauthorized, "Unauthorized")
    }

    /// What is wrong with an object, all at once.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let lines: Vec<_> = causes.iter().map(Cause::line).collect();
        let what = match lines.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let qualified = match group {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        };
        let details = Details {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            causes,
            ..Details::default()
        };
        Self {
            code: 422,
            reason: Reason::Invalid,
            message: format!("{qualified} {name:?} is invalid: {what}"),
            details: Some(Box::new(details)),
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, Reason::BadRequest, message)
    }

    pub fn method_not_supported(resource: &Resource, verb: &str) -> Self {
        Self::new(
            405,
            Reason::MethodNotAllowed,
            format!("{verb} is not supported on resources of kind \"{resource}\""),
        )
        .about(resource, "")
    }

    pub fn not_acceptable(accepted: &[&str]) -> Self {
        Self::new(
            406,
            Reason::NotAcceptable,
            format!(
                "only the following media types are accepted: {}",
                accepted.join(", ")
            ),
        )
    }

    pub fn unsupported_media_type(supported: &[&str]) -> Self {
        Self::new(
            415,
            Reason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                supported.join(", ")
            ),
        )
    }

    /// The revision asked for is no longer kept: list again.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Expired, message)
    }

    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Gone, message)
    }

    /// A revision from the future: the client may ask again.
    pub fn revision_too_large(asked: u64, current: u64) -> Self {
        let mut status = Self::new(
            504,
            Reason::Timeout,
            format!("Too large resource version: {asked}, current: {current}"),
        );
        status.details = Some(Box::new(Details {
            causes: vec![Cause::new(
                CauseReason::ResourceVersionTooLarge,
                "",
                "Too large resource version".into(),
            )],
            retry_after_seconds: 1,
            ..Details::default()
        }));
        status
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, Reason::RequestEntityTooLarge, message)
    }

    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(504, Reason::Timeout, message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut status = Self::new(429, Reason::TooManyRequests, message);
        status.details = Some(Box::new(Details {
            retry_after_seconds,
            ..Details::default()
        }));
        status
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, Reason::ServiceUnavailable, message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(
            500,
            Reason::InternalError,
            format!("Internal error occurred: {message}"),
        )
    }

    /// The object of the answer's body.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if self.reason == Reason::Unknown {
            status["reason"] = json!("");
        }
        if let Some(details) = &self.details {
            status["details"] = json!(details);
        }
        status
    }

    /// The answer to a deletion that took the object away at once.
    pub fn deleted(resource: &Resource, name: &str, uid: &str) -> Value {
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": Details {
                name: name.into(),
                group: resource.group.clone(),
                kind: resource.resource.clone(),
                uid: uid.into(),
                ..Details::default()
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Resource {
        Resource::new("metal3.io", "baremetalhosts")
    }

    #[test]
    fn messages_are_those_of_kubernetes() {
        let table = [
            (
                Status::not_found(&hosts(), "a"),
                r#"baremetalhosts.metal3.io "a" not found"#,
            ),
            (
                Status::not_found(&Resource::new("", "secrets"), "a"),
                r#"secrets "a" not found"#,
            ),
            (
                Status::already_exists(&hosts(), "a"),
                r#"baremetalhosts.metal3.io "a" already exists"#,
            ),
            (
                Status::forbidden(&hosts(), "", "no"),
                "baremetalhosts.metal3.io is forbidden: no",
            ),
            (
                Status::modified(&hosts(), "a"),
                "Operation cannot be fulfilled on baremetalhosts.metal3.io \"a\": the object has been modified; \
                 please apply your changes to the latest version and try again",
            ),
        ];
        for (status, message) in table {
            assert_eq!(status.message, message);
        }
    }

    #[test]
    fn one_cause_stands_alone_and_several_stand_in_brackets() {
        let one = vec![Cause::required("spec.online", "")];
        assert_eq!(
            Status::invalid("metal3.io", "BareMetalHost", "a", one).message,
            r#"BareMetalHost.metal3.io "a" is invalid: spec.online: Required value"#
        );
        let two = vec![
            Cause::required("spec.online", "say it"),
            Cause::not_supported("spec.mode", &json!("x"), &[json!("a"), json!("b")]),
        ];
        assert_eq!(
            Status::invalid("", "Node", "a", two).message,
            "Node \"a\" is invalid: [spec.online: Required value: say it, \
             spec.mode: Unsupported value: \"x\": supported values: \"a\", \"b\"]"
        );
    }

    #[test]
    fn the_body_carries_reason_code_and_causes() {
        let status = Status::invalid("", "Node", "a", vec![Cause::required("spec", "")]);
        assert_eq!(
            status.to_value(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "Node \"a\" is invalid: spec: Required value",
                "reason": "Invalid", "code": 422,
                "details": {
                    "name": "a", "kind": "Node",
                    "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec"}],
                },
            })
        );
    }
}
