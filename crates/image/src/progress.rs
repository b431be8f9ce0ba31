//! What a build is doing right now.

use std::time::{Duration, Instant};

/// A step begins, or the whole is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Such as `kernel: installing packages`.
    pub step: String,
    /// Since the build began.
    pub elapsed: Duration,
}

/// The caller's ear, and the clock of one build.
pub(crate) struct Reporter<'a> {
    started: Instant,
    listen: &'a mut dyn FnMut(Progress),
}

impl<'a> Reporter<'a> {
    pub fn new(listen: &'a mut dyn FnMut(Progress)) -> Self {
        let started = Instant::now();
        Self { started, listen }
    }

    pub fn step(&mut self, step: &str) {
        let elapsed = self.started.elapsed();
        tracing::info!(step, elapsed_ms = elapsed.as_millis() as u64, "image build");
        (self.listen)(Progress {
            step: step.to_owned(),
            elapsed,
        });
    }
}
