//! What an agent says of a command.

use serde::Deserialize;
use serde_json::Value;

/// One command, as the agent lists it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Command {
    pub id: String,
    /// Without the extension's prefix, by the agents of today.
    #[serde(rename = "command_name")]
    name: String,
    #[serde(rename = "command_status")]
    pub status: Status,
    #[serde(rename = "command_error", default)]
    pub error: Option<CommandError>,
    #[serde(rename = "command_result", default)]
    pub result: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum Status {
    Running,
    Succeeded,
    Failed,
    /// The agent's hardware managers are not those the steps were fetched from.
    VersionMismatch,
}

impl From<String> for Status {
    fn from(text: String) -> Self {
        match text.as_str() {
            "RUNNING" => Self::Running,
            "SUCCEEDED" => Self::Succeeded,
            "CLEAN_VERSION_MISMATCH" | "VERSION_MISMATCH" => Self::VersionMismatch,
            _ => Self::Failed,
        }
    }
}

/// Why a command failed. Older agents send a text, newer ones an object.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Value")]
pub struct CommandError(pub String);

impl From<Value> for CommandError {
    fn from(value: Value) -> Self {
        let part = |key: &str| {
            value
                .get(key)
                .and_then(Value::as_str)
                .map(str::trim)
                .unwrap_or_default()
        };
        let (kind, message, details) = (part("type"), part("message"), part("details"));
        let mut text = match &value {
            Value::String(text) => text.clone(),
            // Details mostly say the message again, and more.
            _ if details.is_empty() || message.contains(details) => message.to_string(),
            _ if details.contains(message) => details.to_string(),
            _ => format!("{message}: {details}"),
        };
        if text.is_empty() {
            text = if kind.is_empty() {
                value.to_string()
            } else {
                kind.to_string()
            };
        }
        Self(text.chars().take(MOST_OF_AN_ERROR).collect())
    }
}

/// An agent may send a whole traceback; what is kept of it ends up in a field people read.
const MOST_OF_AN_ERROR: usize = 2000;

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a running command is, where the agent says so.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Progress {
    pub percent: Option<f64>,
    pub bytes: Option<u64>,
    pub total: Option<u64>,
    pub mb_per_s: Option<f64>,
    pub phase: Option<String>,
}

impl Command {
    /// The name without its extension: `execute_deploy_step`.
    pub fn name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    pub fn progress(&self) -> Option<Progress> {
        Progress::deserialize(self.result.get("progress")?).ok()
    }

    /// What went wrong, in words.
    pub fn trouble(&self) -> String {
        self.error.as_ref().map_or_else(
            || format!("the agent says that {} failed, and not why", self.name()),
            ToString::to_string,
        )
    }
}
