//! Refusals, in the shape Ironic's clients expect: JSON inside a JSON string.

use axum::http::StatusCode;
use serde_json::json;

use crate::store;

/// Why a request was not done.
#[derive(Debug)]
pub struct Fault {
    status: StatusCode,
    text: String,
}

impl Fault {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }

    pub fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    pub fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    pub fn not_acceptable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, text)
    }

    pub fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, text)
    }

    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    pub fn no_such_path() -> Self {
        Self::not_found("The resource could not be found.")
    }

    pub fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "The method is not allowed for this resource.",
        )
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The fault as a document: who is at fault, and what it is.
    pub fn document(&self) -> serde_json::Value {
        let code = if self.status.is_server_error() {
            "Server"
        } else {
            "Client"
        };
        json!({"faultcode": code, "faultstring": self.text, "debuginfo": null})
    }

    /// The body of the answer: the document as text inside another.
    pub fn body(&self) -> Vec<u8> {
        json!({"error_message": self.document().to_string()})
            .to_string()
            .into_bytes()
    }
}

impl From<store::Error> for Fault {
    fn from(error: store::Error) -> Self {
        tracing::error!(error = model::chain(&error), "store");
        Self::unavailable(
            "The change could not be written to disk. Nothing was changed; see the service's log.",
        )
    }
}
