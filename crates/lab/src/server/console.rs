//! A server's serial console: what it prints, as it prints it, and the keyboard.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{broadcast, mpsc};
use tracing::warn;

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
        let end = BoardEnd {
            output: output.clone(),
            input: keys,
        };
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

/// Where a board prints: to the log, and to whoever watches.
#[derive(Clone)]
pub struct Screen {
    output: broadcast::Sender<Bytes>,
    log: Option<Arc<Mutex<File>>>,
}

impl Screen {
    pub fn open(output: broadcast::Sender<Bytes>, log: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(log);
        if let Err(error) = &file {
            warn!(path = %log.display(), %error, "console log not opened");
        }
        Self {
            output,
            log: file.ok().map(|file| Arc::new(Mutex::new(file))),
        }
    }

    pub fn print(&self, bytes: Bytes) {
        if let Some(log) = &self.log
            && let Err(error) = log
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write_all(&bytes)
        {
            warn!(%error, "console log not written");
        }
        // No watcher is no error.
        _ = self.output.send(bytes);
    }

    pub fn line(&self, text: &str) {
        self.print(Bytes::from(format!("{text}\r\n")));
    }
}
