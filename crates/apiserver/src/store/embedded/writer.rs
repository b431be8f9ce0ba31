//! The one thread that writes: all that waits is decided in turn and goes to disk together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use services::ledger::{Entry, Ledger};
use tokio::sync::{mpsc, oneshot};
use tracing::error;

use super::{REVISION, encode};
use crate::store::cache::{Cache, Change};
use crate::store::{Error, Kv};

pub(super) struct Write {
    pub key: Arc<str>,
    /// Nothing to remove it.
    pub value: Option<Bytes>,
    /// The revision it must have; 0 is no object.
    pub expected: u64,
}

pub(super) struct Job {
    pub write: Write,
    pub done: oneshot::Sender<Result<u64, Error>>,
}

/// As much as is written together; more would only delay those in front.
const MOST: usize = 512;
const MOST_BYTES: usize = 4 << 20;

pub(super) fn work(
    mut ledger: Ledger,
    mut queue: mpsc::Receiver<Job>,
    cache: &Cache,
    broken: &AtomicBool,
) {
    while let Some(first) = queue.blocking_recv() {
        let mut bytes = first.size();
        let mut jobs = vec![first];
        while jobs.len() < MOST
            && bytes < MOST_BYTES
            && let Ok(next) = queue.try_recv()
        {
            bytes += next.size();
            jobs.push(next);
        }
        if broken.load(Ordering::Relaxed) {
            for job in jobs {
                job.answer(Err(Error::Broken));
            }
            continue;
        }
        let mut batch = Batch::new(cache);
        let verdicts: Vec<_> = jobs.iter().map(|job| batch.decide(&job.write)).collect();
        let written = match batch.entries() {
            entries if entries.is_empty() => Ok(()),
            entries => ledger.write(entries),
        };
        // After a failure nobody knows what the log holds: nothing may be built on it any more.
        if let Err(problem) = written {
            error!(
                error = model::chain(&problem),
                "the store cannot be written; restart when the disk is well again"
            );
            broken.store(true, Ordering::Relaxed);
            for job in jobs {
                job.answer(Err(Error::Broken));
            }
            continue;
        }
        cache.apply(batch.changes);
        for (job, verdict) in jobs.into_iter().zip(verdicts) {
            job.answer(verdict);
        }
    }
}

impl Job {
    fn size(&self) -> usize {
        self.write.value.as_ref().map_or(0, Bytes::len)
    }

    fn answer(self, verdict: Result<u64, Error>) {
        // Whoever asked may have gone away.
        _ = self.done.send(verdict);
    }
}

/// What is decided and not shown yet.
struct Batch<'a> {
    cache: &'a Cache,
    revision: u64,
    changed: BTreeMap<Arc<str>, Option<Kv>>,
    changes: Vec<Change>,
}

impl<'a> Batch<'a> {
    fn new(cache: &'a Cache) -> Self {
        Self {
            cache,
            revision: cache.revision(),
            changed: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    fn decide(&mut self, write: &Write) -> Result<u64, Error> {
        let current = match self.changed.get(&write.key) {
            Some(current) => current.clone(),
            None => self.cache.get(&write.key).0,
        };
        let found = current.as_ref().map_or(0, |kv| kv.revision);
        if found != write.expected || (found == 0 && write.value.is_none()) {
            let key = write.key.to_string();
            return Err(match write.expected {
                0 if found != 0 => Error::Exists { key },
                _ => Error::Conflict { key, current },
            });
        }
        self.revision += 1;
        let change = Change {
            key: Arc::clone(&write.key),
            revision: self.revision,
            value: write.value.clone(),
        };
        let kv = write.value.clone().map(|value| Kv {
            key: Arc::clone(&write.key),
            value,
            revision: self.revision,
        });
        self.changed.insert(Arc::clone(&write.key), kv);
        self.changes.push(change);
        Ok(self.revision)
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.changes.len());
        for change in &self.changes {
            let key = change.key.to_string();
            if let Some(value) = &change.value {
                entries.push((key, Some(encode(change.revision, value))));
            } else {
                entries.push((REVISION.to_owned(), Some(encode(change.revision, b""))));
                entries.push((key, None));
            }
        }
        entries
    }
}
