//! What has happened to a node, for its history.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Clone, Serialize, Deserialize)]
pub struct Event {
    pub uuid: Uuid,
    pub created_at: Timestamp,
    pub severity: Severity,
    /// What it is about: `provisioning`.
    pub about: String,
    pub text: String,
    pub conductor: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    Info,
    Error,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Error => "ERROR",
        }
    }
}
