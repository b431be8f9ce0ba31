//! A server's serial console: what it prints, as it prints it, and the keyboard.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::sync::{broadcast, mpsc};

/// Both ends that a person or Serial-over-LAN holds. Everything printed is also in the log file.
#[derive(Debug, Clone)]
pub struct Console {
    output: broadcast::Sender<Bytes>,
    input: mpsc::Sender<Bytes>,
    log: PathBuf,
}

/// The ends that a board holds.
pub struct BoardEnd {
    pub output: broadcast::Sender<Bytes>,
    pub input: mpsc::Receiver<Bytes>,
}

/// A reader that falls further behind than this many chunks loses the oldest.
const BACKLOG: usize = 256;

impl Console {
    pub fn new(log: PathBuf) -> (Self, BoardEnd) {
        let (output, _) = broadcast::channel(BACKLOG);
        let (input, keys) = mpsc::channel(BACKLOG);
        let end = BoardEnd { output: output.clone(), input: keys };
        (Self { output, input, log }, end)
    }

    /// What is printed from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Bytes> {
        self.output.subscribe()
    }

    /// Types. Keys that nobody reads are lost, as on a serial line.
    pub fn type_keys(&self, keys: Bytes) {
        _ = self.input.try_send(keys);
    }

    pub fn log(&self) -> &Path {
        &self.log
    }
}
