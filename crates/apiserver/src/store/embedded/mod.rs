//! The store of a single server: a file, the log of what is newer, and all of it in memory.
//!
//! ```text
//!   put, delete ---> queue ---> writer thread: decides all that waits, writes it as one frame, then shows it
//!        ^                                                 |
//!        +---------------- answered when ------------------+
//! ```
//!
//! Readers see only what is on disk, so nothing that was ever shown can be lost.

#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use redb::{Database, StorageBackend};
use services::ledger::{self, Found, Ledger};
use tokio::sync::{mpsc, oneshot};

use super::cache::{Cache, Change, Keep};
use super::{Error, Kv, LARGEST_VALUE};
use writer::{Job, Write};

/// Bytes of the log: so much may be newer than the database file, and be watched again after a restart.
const LOG_CAPACITY: u64 = 16 << 20;
/// How many writes may wait for the disk; whoever comes later waits for a place.
const QUEUE: usize = 4096;

pub struct Embedded {
    cache: Arc<Cache>,
    /// Gone when this is dropped, so that the thread ends.
    jobs: Option<mpsc::Sender<Job>>,
    broken: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Embedded {
    /// Opens or makes the file, and reads what it holds. Blocks.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|source| Error::Directory {
                path: parent.to_owned(),
                source,
            })?;
        }
        let (database, log) = ledger::open_files(path).map_err(|source| Error::Open {
            path: path.to_owned(),
            source: source.into(),
        })?;
        Self::over(database, log, LOG_CAPACITY, Keep::default(), path)
    }

    /// `path` is for messages.
    fn over(
        database: Database,
        log: Box<dyn StorageBackend>,
        capacity: u64,
        keep: Keep,
        path: &Path,
    ) -> Result<Self, Error> {
        let open = |source: Box<dyn std::error::Error + Send + Sync>| Error::Open {
            path: path.to_owned(),
            source,
        };
        let (ledger, found) = Ledger::open(Arc::new(database), log, capacity)
            .map_err(|source| open(source.into()))?;
        let cache = Arc::new(Cache::new(keep));
        restore(&cache, found, path)?;
        let (jobs, queue) = mpsc::channel(QUEUE);
        let broken = Arc::new(AtomicBool::new(false));
        let shared = (Arc::clone(&cache), Arc::clone(&broken));
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(move || writer::work(ledger, queue, &shared.0, &shared.1))
            .map_err(|source| open(source.into()))?;
        Ok(Self {
            cache,
            jobs: Some(jobs),
            broken,
            thread: Some(thread),
        })
    }

    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Writes if the key's revision is `expected`; 0 is no object.
    pub async fn put(&self, key: &str, value: Bytes, expected: u64) -> Result<u64, Error> {
        if value.len() > LARGEST_VALUE {
            return Err(Error::TooLarge { size: value.len() });
        }
        self.write(key, Some(value), expected).await
    }

    pub async fn delete(&self, key: &str, expected: u64) -> Result<u64, Error> {
        self.write(key, None, expected).await
    }

    pub fn health(&self) -> Result<(), Error> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(Error::Broken);
        }
        Ok(())
    }

    async fn write(&self, key: &str, value: Option<Bytes>, expected: u64) -> Result<u64, Error> {
        let jobs = self.jobs.as_ref().expect("taken only when dropped");
        let (done, written) = oneshot::channel();
        let write = Write {
            key: key.into(),
            value,
            expected,
        };
        let job = Job { write, done };
        jobs.send(job).await.map_err(|_| Error::Closed)?;
        written.await.map_err(|_| Error::Closed)?
    }
}

impl Drop for Embedded {
    /// Writes what is queued, then ends.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// The entry that tells how far the store is where the last write was a deletion. No object has such a key.
const REVISION: &str = "revision";

/// Fills the cache: first what the database file holds, then the log, which is the history.
fn restore(cache: &Cache, found: Found, path: &Path) -> Result<(), Error> {
    let foreign = |key: &str| Error::Foreign {
        path: path.to_owned(),
        key: key.to_owned(),
    };
    let mut revision = 0;
    let mut items = BTreeMap::new();
    for (key, value) in found.saved {
        let (written, value) = decode(value).ok_or_else(|| foreign(&key))?;
        revision = revision.max(written);
        if key != REVISION {
            items.insert(key, (written, value));
        }
    }
    let items = items.into_iter().map(|(key, (revision, value))| Kv {
        key: key.into(),
        value,
        revision,
    });
    cache.reset(items, revision);
    let mut changes = Vec::new();
    for (key, value) in found.newer {
        let value = match value {
            Some(value) => {
                let (written, value) = decode(value).ok_or_else(|| foreign(&key))?;
                revision = revision.max(written);
                Some(value)
            }
            None => None,
        };
        if key != REVISION {
            changes.push(Change {
                key: key.into(),
                revision,
                value,
            });
        }
    }
    cache.apply(changes);
    cache.advance(revision);
    Ok(())
}

/// The revision in 8 bytes, then the value.
fn encode(revision: u64, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + value.len());
    bytes.extend(revision.to_le_bytes());
    bytes.extend(value);
    bytes
}

fn decode(bytes: Vec<u8>) -> Option<(u64, Bytes)> {
    let revision = u64::from_le_bytes(*bytes.first_chunk()?);
    Some((revision, Bytes::from(bytes).slice(8..)))
}
