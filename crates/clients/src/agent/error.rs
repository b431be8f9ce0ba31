//! What can go wrong between us and an agent.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the agent's address {address:?} is of no use")]
    Address { address: String },
    #[error("the certificate of the agent at {address} is of no use")]
    Certificate { address: String },
    #[error("prepare a client for the agent at {address}")]
    Prepare {
        address: String,
        source: reqwest::Error,
    },
    #[error("{operation}: the agent at {address} does not answer (tried {tries} times)")]
    Unreachable {
        operation: String,
        address: String,
        tries: u32,
        source: reqwest::Error,
    },
    #[error(
        "{operation}: another agent answers at {address} than the one that called; the host was restarted"
    )]
    Stranger { operation: String, address: String },
    #[error("{operation}: the agent at {address} is busy with another command: {message}")]
    Busy {
        operation: String,
        address: String,
        message: String,
    },
    #[error("{operation}: the agent at {address} answers {status}: {message}")]
    Refused {
        operation: String,
        address: String,
        status: u16,
        message: String,
    },
    #[error("{operation}: the answer of the agent at {address} is larger than {limit} bytes")]
    TooLarge {
        operation: String,
        address: String,
        limit: usize,
    },
    #[error("{operation}: the answer of the agent at {address} is not what an agent says")]
    Nonsense {
        operation: String,
        address: String,
        source: serde_json::Error,
    },
    #[error("{command} failed: {trouble}")]
    Failed { command: String, trouble: String },
    #[error("{command} did not end within {} s", limit.as_secs())]
    Slow {
        command: String,
        limit: std::time::Duration,
    },
}

impl Error {
    /// Could asking again later help?
    pub fn passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Busy { .. } => true,
            Self::Refused { status, .. } => *status >= 500,
            Self::Address { .. }
            | Self::Certificate { .. }
            | Self::Prepare { .. }
            | Self::Stranger { .. }
            | Self::TooLarge { .. }
            | Self::Nonsense { .. }
            | Self::Failed { .. }
            | Self::Slow { .. } => false,
        }
    }
}
