//! What can go wrong between us and a BMC.

use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the BMC's address {address:?} is of no use: {why}")]
    Address { address: String, why: String },
    #[error("the certificates to check {address} with are of no use")]
    Certificates {
        address: String,
        source: reqwest::Error,
    },
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
    #[error("{operation}: {url} answers {status}{}: {message}", asked(*tries))]
    Refused {
        operation: &'static str,
        url: String,
        status: u16,
        tries: u32,
        message: String,
        ids: Vec<String>,
    },
    #[error("{operation}: the BMC at {url} does not let user {user:?} in: {message}")]
    Login {
        operation: &'static str,
        url: String,
        user: String,
        message: String,
    },
    #[error("{operation}: the answer of {url} is larger than {limit} bytes")]
    TooLarge {
        operation: &'static str,
        url: String,
        limit: usize,
    },
    #[error("{operation}: the answer of {url} is not a JSON object")]
    NotJson {
        operation: &'static str,
        url: String,
        source: Option<serde_json::Error>,
    },
    #[error("{operation}: {url} lacks {property}")]
    Missing {
        operation: &'static str,
        url: String,
        property: String,
    },
    #[error("{operation}: the task {url} ended as {state}: {message}")]
    Task {
        operation: &'static str,
        url: String,
        state: String,
        message: String,
    },
    #[error("{operation}: {url}: {last} after {} s", waited.as_secs())]
    Slow {
        operation: &'static str,
        url: String,
        waited: Duration,
        last: String,
    },
    #[error("{operation}: the BMC at {url} cannot: {why}")]
    Unsupported {
        operation: &'static str,
        url: String,
        why: String,
    },
}

impl Error {
    /// Can asking again later help, with nothing changed?
    pub fn may_pass(&self) -> bool {
        match self {
            // ManagedBy and the like are missing while a BMC starts.
            Self::Unreachable { .. } | Self::Slow { .. } | Self::Missing { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || matches!(status, 409 | 429),
            Self::Address { .. }
            | Self::Certificates { .. }
            | Self::Prepare { .. }
            | Self::Login { .. }
            | Self::TooLarge { .. }
            | Self::NotJson { .. }
            | Self::Task { .. }
            | Self::Unsupported { .. } => false,
        }
    }

    /// Did the BMC not answer at all?
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// The status the BMC refused with.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Login { .. } => Some(401),
            Self::Address { .. }
            | Self::Certificates { .. }
            | Self::Prepare { .. }
            | Self::Unreachable { .. }
            | Self::TooLarge { .. }
            | Self::NotJson { .. }
            | Self::Missing { .. }
            | Self::Task { .. }
            | Self::Slow { .. }
            | Self::Unsupported { .. } => None,
        }
    }

    /// Does the refusal carry a message of this key, whatever its registry and version?
    pub fn says(&self, key: &str) -> bool {
        match self {
            Self::Refused { ids, message, .. } => {
                ids.iter().any(|id| id.rsplit('.').next() == Some(key)) || message.contains(key)
            }
            Self::Task { message, .. } => message.contains(key),
            Self::Address { .. }
            | Self::Certificates { .. }
            | Self::Prepare { .. }
            | Self::Unreachable { .. }
            | Self::Login { .. }
            | Self::TooLarge { .. }
            | Self::NotJson { .. }
            | Self::Missing { .. }
            | Self::Slow { .. }
            | Self::Unsupported { .. } => false,
        }
    }
}

fn asked(tries: u32) -> String {
    if tries > 1 {
        format!(", asked {tries} times")
    } else {
        String::new()
    }
}
