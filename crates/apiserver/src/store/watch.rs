//! One watcher: a place in the history, and a signal that there is more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::cache::Cache;
use super::{Error, Event};

/// Events of one prefix from a revision on. Dropping it ends it.
pub struct Watch {
    cache: Arc<Cache>,
    prefix: String,
    /// All up to here was told or lies in `ready`.
    revision: u64,
    ready: VecDeque<Event>,
    signal: watch::Receiver<u64>,
    progress_at: Instant,
}

/// How long it is quiet before a watcher is told how far the store is.
const QUIET: Duration = Duration::from_secs(20);

impl Watch {
    pub(super) fn new(cache: Arc<Cache>, prefix: &str, revision: u64) -> Result<Self, Error> {
        // Subscribed before anything is read: what comes in between is signalled.
        let signal = cache.signal(prefix);
        let (ready, upto) = cache.since(prefix, revision)?;
        cache.count(1);
        Ok(Self {
            cache,
            prefix: prefix.to_owned(),
            revision: upto,
            ready: ready.into(),
            signal,
            progress_at: Instant::now() + QUIET,
        })
    }

    /// The next event. [`Error::Compacted`] when it was too slow, and then always. May be dropped while it waits.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.progress_at = Instant::now() + QUIET;
                return Ok(event);
            }
            self.signal.borrow_and_update();
            self.read()?;
            if !self.ready.is_empty() {
                continue;
            }
            tokio::select! {
                changed = self.signal.changed() => changed.map_err(|_| Error::Closed)?,
                () = tokio::time::sleep_until(self.progress_at) => {
                    self.progress_at = Instant::now() + QUIET;
                    self.read()?;
                    if self.ready.is_empty() {
                        return Ok(Event::Progress { revision: self.revision });
                    }
                }
            }
        }
    }

    /// The revision up to which all was told; nothing while events are waiting.
    pub fn progress(&mut self) -> Option<u64> {
        if self.ready.is_empty() {
            self.read().ok()?;
        }
        self.ready.is_empty().then_some(self.revision)
    }

    fn read(&mut self) -> Result<(), Error> {
        let (ready, upto) = self.cache.since(&self.prefix, self.revision)?;
        self.ready.extend(ready);
        self.revision = upto;
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.cache.count(-1);
    }
}
