//! A part that may have to wait for the world: its address may not be there yet.

use std::error::Error;

/// A service that runs, or why it does not.
#[derive(Debug)]
pub enum Part<H> {
    Off,
    /// Tried, and to be tried again.
    Waiting {
        problem: String,
    },
    On(H),
}

impl<H> Part<H> {
    /// Tries to start it; says why not once.
    pub fn tend<E: Error>(&mut self, name: &str, start: impl FnOnce() -> Result<H, E>) {
        if let Self::On(_) = self {
            return;
        }
        match start() {
            Ok(handle) => *self = Self::On(handle),
            Err(error) => {
                let mut problem = error.to_string();
                let mut cause = error.source();
                while let Some(error) = cause {
                    problem = format!("{problem}: {error}");
                    cause = error.source();
                }
                let known = matches!(self, Self::Waiting { problem: known } if *known == problem);
                if !known {
                    tracing::warn!(part = name, problem, "waits");
                }
                *self = Self::Waiting { problem };
            }
        }
    }

    pub fn take(&mut self) -> Option<H> {
        match std::mem::replace(self, Self::Off) {
            Self::On(handle) => Some(handle),
            Self::Off | Self::Waiting { .. } => None,
        }
    }

    pub fn get(&self) -> Option<&H> {
        match self {
            Self::On(handle) => Some(handle),
            Self::Off | Self::Waiting { .. } => None,
        }
    }

    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Waiting { problem } => Some(problem),
            Self::Off | Self::On(_) => None,
        }
    }
}
