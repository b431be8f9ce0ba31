//! What can go wrong between us and a BMC.

use std::time::Duration;

use protocols::ipmi::console::sol::Ended;
use protocols::ipmi::console::{self, AnswerError};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("find the address of the BMC {bmc}")]
    Resolve { bmc: String, source: std::io::Error },
    #[error("the name of the BMC {bmc} has no address")]
    NoAddress { bmc: String },
    #[error("open a socket to the BMC {bmc}")]
    Socket { bmc: String, source: std::io::Error },
    #[error("{operation}: BMC {bmc}, asked {tries} times")]
    Talk {
        operation: &'static str,
        bmc: String,
        tries: u32,
        source: console::Error,
    },
    #[error("{operation}: BMC {bmc} did not finish within {} s", limit.as_secs())]
    Slow {
        operation: &'static str,
        bmc: String,
        limit: Duration,
    },
    #[error("{operation}: BMC {bmc} does not do it")]
    Answer {
        operation: &'static str,
        bmc: String,
        source: AnswerError,
    },
    #[error("the server behind BMC {bmc} is {power}, not {wanted}, after {} s", waited.as_secs())]
    PowerStays {
        bmc: String,
        power: &'static str,
        wanted: &'static str,
        waited: Duration,
    },
    #[error("the serial console behind BMC {bmc}")]
    Console { bmc: String, source: Ended },
    #[error("{operation}: the client of BMC {bmc} has ended")]
    Ended {
        operation: &'static str,
        bmc: String,
    },
}

/// Codes with which a BMC says "later": busy, timeout, out of space, starting.
const LATER: [u8; 4] = [0xc0, 0xc3, 0xc4, 0xd2];

impl Error {
    /// Can asking again later help, with nothing changed?
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Resolve { .. } | Self::Slow { .. } | Self::PowerStays { .. } => true,
            Self::Talk { source, .. } => talk_may_pass(source),
            Self::Console { source, .. } => match source {
                Ended::Talk(source) => talk_may_pass(source),
                Ended::InUse | Ended::Limit | Ended::Deactivated | Ended::Dropped => true,
                Ended::Refused { source, .. } => answer_may_pass(source),
                Ended::Disabled | Ended::Unencrypted | Ended::Closed => false,
            },
            Self::Answer { source, .. } => answer_may_pass(source),
            Self::NoAddress { .. } | Self::Socket { .. } | Self::Ended { .. } => false,
        }
    }

    /// Did the BMC not answer at all?
    pub fn is_silence(&self) -> bool {
        match self {
            Self::Resolve { .. } | Self::Slow { .. } => true,
            Self::Talk { source, .. }
            | Self::Console {
                source: Ended::Talk(source),
                ..
            } => matches!(source, console::Error::Silent { .. }),
            Self::NoAddress { .. }
            | Self::Socket { .. }
            | Self::Answer { .. }
            | Self::Console { .. }
            | Self::PowerStays { .. }
            | Self::Ended { .. } => false,
        }
    }

    /// Says how often it was tried.
    pub(super) fn after(self, times: u32) -> Self {
        match self {
            Self::Talk {
                operation,
                bmc,
                source,
                ..
            } => Self::Talk {
                operation,
                bmc,
                tries: times,
                source,
            },
            other => other,
        }
    }
}

fn talk_may_pass(error: &console::Error) -> bool {
    match error {
        console::Error::Silent { .. } | console::Error::Crowded => true,
        // The BMC has no session free, or is starting.
        console::Error::Refused { status, .. } => status.text().contains("resources"),
        console::Error::Password
        | console::Error::Impostor
        | console::Error::Raise { .. }
        | console::Error::Closed => false,
    }
}

fn answer_may_pass(error: &AnswerError) -> bool {
    match error {
        AnswerError::Refused { code } => LATER.contains(code),
        AnswerError::Short { .. } => false,
    }
}
