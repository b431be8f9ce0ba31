//! Why a daemon's configuration file cannot be used.

use std::path::PathBuf;

/// Every problem at once, with the file they are in.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} is not a configuration: {problem}")]
    Parse { path: PathBuf, problem: String },
    #[error("{path} has {} {}:\n  {}", problems.len(), if problems.len() == 1 { "problem" } else { "problems" }, problems.join("\n  "))]
    Problems {
        path: PathBuf,
        problems: Vec<String>,
    },
}
