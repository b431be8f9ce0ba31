//! What can go wrong between us and an Ironic.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Ironic's address {address:?} is of no use: {why}")]
    Address { address: String, why: String },
    #[error("prepare a client for {address}")]
    Prepare {
        address: String,
        source: reqwest::Error,
    },
    #[error("{operation}: no answer from {url} in {tries} tries")]
    Unreachable {
        operation: &'static str,
        url: String,
        tries: u32,
        source: reqwest::Error,
    },
    #[error("{operation}: {url} answers {status}: {message}")]
    Refused {
        operation: &'static str,
        url: String,
        status: u16,
        message: String,
    },
    #[error("{operation}: the answer of {url} is larger than {limit} bytes")]
    TooLarge {
        operation: &'static str,
        url: String,
        limit: usize,
    },
    #[error("{operation}: the answer of {url} is not what Ironic would say")]
    NotUnderstood {
        operation: &'static str,
        url: String,
        source: serde_json::Error,
    },
    #[error(
        "{url} speaks versions up to 1.{newest}; 1.{} is needed",
        super::OLDEST
    )]
    TooOld { url: String, newest: u16 },
    #[error("{url} is not an Ironic: its answer names no API version")]
    NotIronic { url: String },
}

impl Error {
    /// The status Ironic refused with.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Address { .. }
            | Self::Prepare { .. }
            | Self::Unreachable { .. }
            | Self::TooLarge { .. }
            | Self::NotUnderstood { .. }
            | Self::TooOld { .. }
            | Self::NotIronic { .. } => None,
        }
    }

    /// Can asking again later help, with nothing changed?
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || matches!(status, 409 | 429),
            Self::Address { .. }
            | Self::Prepare { .. }
            | Self::TooLarge { .. }
            | Self::NotUnderstood { .. }
            | Self::TooOld { .. }
            | Self::NotIronic { .. } => false,
        }
    }

    pub fn is_missing(&self) -> bool {
        self.status() == Some(404)
    }
}

/// What a refusal says: JSON within JSON, or, from those who guard bodies and logins, JSON, or just a text.
pub(super) fn message(body: &[u8]) -> String {
    let text = || String::from_utf8_lossy(body).chars().take(500).collect();
    let Ok(outer) = serde_json::from_slice::<serde_json::Value>(body) else {
        return text();
    };
    let inner = match outer.get("error_message") {
        Some(serde_json::Value::String(inner)) => {
            serde_json::from_str(inner).unwrap_or_else(|_| inner.clone().into())
        }
        Some(other) => other.clone(),
        None => outer,
    };
    let found = ["/faultstring", "/title", "/error/message"]
        .into_iter()
        .find_map(|path| inner.pointer(path)?.as_str());
    match (found, inner.as_str()) {
        (Some(found), _) | (None, Some(found)) => found.to_owned(),
        (None, None) => text(),
    }
}

#[test]
fn the_message_is_found_in_whatever_shape_it_comes() {
    let twice = r#"{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node x is locked\", \"debuginfo\": null}"}"#;
    for (body, expected) in [
        (twice, "Node x is locked"),
        (
            r#"{"error_message": {"faultstring": "inner object"}}"#,
            "inner object",
        ),
        (r#"{"error_message": "no JSON inside"}"#, "no JSON inside"),
        (
            r#"{"faultcode": "Client", "faultstring": "body too large"}"#,
            "body too large",
        ),
        (
            r#"{"error": {"message": "who are you", "code": 401}}"#,
            "who are you",
        ),
        ("<html>502</html>", "<html>502</html>"),
        (r#"{"a": 1}"#, r#"{"a": 1}"#),
    ] {
        assert_eq!(message(body.as_bytes()), expected);
    }
}
