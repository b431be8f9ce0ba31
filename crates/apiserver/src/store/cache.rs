//! The registry in memory: what is there now, and what happened of late.
//!
//! Kinds have a shelf each, with its own history: a busy kind does not make the watchers of a quiet one start over.
//! A watcher is only a revision and reads on from there, so that a slow one costs nothing; when the history no longer
//! reaches back to it, it is told to list anew.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use super::{At, Error, Event, Kv, Listing, Page};

/// How much of a kind's history is kept: so many changes, of so many bytes together.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    pub changes: usize,
    pub bytes: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self {
            changes: 16_384,
            bytes: 32 << 20,
        }
    }
}

/// One write, in the order of revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub key: Arc<str>,
    pub revision: u64,
    /// Nothing where the object was removed.
    pub value: Option<Bytes>,
}

pub struct Cache {
    keep: Keep,
    inner: RwLock<Inner>,
    /// The newest revision, for those who wait for any.
    newest: watch::Sender<u64>,
    watchers: AtomicUsize,
    timings: Mutex<BTreeMap<&'static str, (u64, f64)>>,
}

/// Notes when it is dropped how long that took.
pub(super) struct Timer<'a> {
    cache: &'a Cache,
    operation: &'static str,
    begun: Instant,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        let timings = self.cache.timings.lock();
        let mut timings = timings.unwrap_or_else(PoisonError::into_inner);
        let (count, seconds) = timings.entry(self.operation).or_default();
        *count += 1;
        *seconds += self.begun.elapsed().as_secs_f64();
    }
}

struct Inner {
    revision: u64,
    shelves: BTreeMap<Arc<str>, Shelf>,
    /// Nothing is known of before this.
    oldest: u64,
    /// Nobody is told anything any more.
    closed: bool,
}

/// The objects of one kind.
struct Shelf {
    items: BTreeMap<Arc<str>, Kv>,
    history: VecDeque<Happened>,
    bytes: usize,
    /// The newest revision that is no longer in the history.
    forgotten: u64,
    /// The newest revision on this shelf.
    newest: watch::Sender<u64>,
}

struct Happened {
    key: Arc<str>,
    revision: u64,
    now: Option<Kv>,
    previous: Option<Kv>,
}

/// As many events as a watcher takes at a time.
const BATCH: usize = 256;
/// How long a reader waits for a revision that it was promised.
const PATIENCE: Duration = Duration::from_secs(3);

impl Cache {
    pub fn new(keep: Keep) -> Self {
        Self {
            keep,
            inner: RwLock::new(Inner {
                revision: 0,
                shelves: BTreeMap::new(),
                oldest: 0,
                closed: false,
            }),
            newest: watch::Sender::new(0),
            watchers: AtomicUsize::new(0),
            timings: Mutex::default(),
        }
    }

    pub fn revision(&self) -> u64 {
        self.read().revision
    }

    pub fn get(&self, key: &str) -> (Option<Kv>, u64) {
        let inner = self.read();
        let shelf = inner.shelves.get(shelf_of(key));
        let found = shelf.and_then(|shelf| shelf.items.get(key)).cloned();
        (found, inner.revision)
    }

    /// Waits until the revision is known here.
    pub async fn reach(&self, revision: u64) -> Result<(), Error> {
        let mut newest = self.newest.subscribe();
        let reached = newest.wait_for(|newest| *newest >= revision);
        match tokio::time::timeout(PATIENCE, reached).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => Err(Error::Future {
                asked: revision,
                current: self.revision(),
            }),
        }
    }

    pub fn list(&self, prefix: &str, page: &Page) -> Result<Listing, Error> {
        let inner = self.read();
        let mut listing = Listing {
            items: Vec::new(),
            revision: inner.revision,
            more: false,
            remaining: 0,
        };
        if let At::Exactly(revision) = page.at {
            if revision > inner.revision {
                return Err(Error::Future {
                    asked: revision,
                    current: inner.revision,
                });
            }
            listing.revision = revision;
        }
        for shelf in inner.shelves(prefix) {
            if listing.revision < shelf.forgotten.max(inner.oldest) {
                return Err(Error::Compacted {
                    asked: listing.revision,
                    oldest: shelf.forgotten.max(inner.oldest),
                });
            }
            shelf.list(prefix, page, &mut listing);
        }
        if listing.revision < inner.oldest {
            return Err(Error::Compacted {
                asked: listing.revision,
                oldest: inner.oldest,
            });
        }
        listing.more = listing.remaining > 0;
        Ok(listing)
    }

    /// What happened after `revision`, in part if it is much, and up to where that is all.
    pub fn since(&self, prefix: &str, revision: u64) -> Result<(Vec<Event>, u64), Error> {
        let inner = self.read();
        if inner.closed {
            return Err(Error::Closed);
        }
        let mut found: Vec<&Happened> = Vec::new();
        let mut oldest = inner.oldest;
        let mut shelves = 0;
        for shelf in inner.shelves(prefix) {
            oldest = oldest.max(shelf.forgotten);
            let from = shelf
                .history
                .partition_point(|happened| happened.revision <= revision);
            let news = shelf.history.range(from..);
            found.extend(
                news.filter(|happened| happened.key.starts_with(prefix))
                    .take(BATCH + 1),
            );
            shelves += 1;
        }
        if revision < oldest {
            return Err(Error::Compacted {
                asked: revision,
                oldest,
            });
        }
        if shelves > 1 {
            found.sort_by_key(|happened| happened.revision);
        }
        let upto = if found.len() > BATCH {
            found.truncate(BATCH);
            found.last().map_or(revision, |last| last.revision)
        } else {
            inner.revision.max(revision)
        };
        Ok((found.into_iter().map(Happened::event).collect(), upto))
    }

    /// Adds writes that are durable. Their revisions are higher than all before.
    pub fn apply(&self, changes: impl IntoIterator<Item = Change>) {
        let mut inner = self.write();
        let mut touched: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for change in changes {
            inner.revision = inner.revision.max(change.revision);
            let name = inner.shelf(&change.key);
            touched.insert(Arc::clone(&name), change.revision);
            let shelf = inner.shelves.get_mut(&name).expect("it was just made");
            shelf.apply(change, self.keep);
        }
        let revision = inner.revision;
        for (name, revision) in touched {
            inner.shelves[&name].newest.send_replace(revision);
        }
        drop(inner);
        self.newest.send_replace(revision);
    }

    /// All up to this revision was told.
    pub fn advance(&self, revision: u64) {
        let mut inner = self.write();
        if revision > inner.revision {
            inner.revision = revision;
            drop(inner);
            self.newest.send_replace(revision);
        }
    }

    /// Starts over with these objects: whoever watches is to list anew.
    pub fn reset(&self, items: impl IntoIterator<Item = Kv>, revision: u64) {
        let mut inner = self.write();
        for shelf in inner.shelves.values_mut() {
            shelf.items.clear();
            shelf.history.clear();
            shelf.bytes = 0;
            shelf.forgotten = revision;
        }
        for kv in items {
            let name = inner.shelf(&kv.key);
            let shelf = inner.shelves.get_mut(&name).expect("it was just made");
            shelf.items.insert(Arc::clone(&kv.key), kv);
        }
        inner.revision = revision;
        inner.oldest = revision;
        for shelf in inner.shelves.values() {
            shelf.newest.send_replace(revision);
        }
        drop(inner);
        self.newest.send_replace(revision);
    }

    /// Ends every watch, and lets none begin.
    pub fn close(&self) {
        let mut inner = self.write();
        inner.closed = true;
        for shelf in inner.shelves.values() {
            shelf.newest.send_modify(|_| {});
        }
        drop(inner);
        self.newest.send_modify(|_| {});
    }

    /// Says when something happens under this prefix.
    pub(super) fn signal(&self, prefix: &str) -> watch::Receiver<u64> {
        if shelf_of(prefix).len() == prefix.len() && !is_shelf(prefix) {
            return self.newest.subscribe();
        }
        let mut inner = self.write();
        let name = inner.shelf(prefix);
        inner.shelves[&name].newest.subscribe()
    }

    pub(super) fn timer(&self, operation: &'static str) -> Timer<'_> {
        Timer {
            cache: self,
            operation,
            begun: Instant::now(),
        }
    }

    pub(super) fn timings(&self) -> BTreeMap<&'static str, (u64, f64)> {
        let timings = self.timings.lock();
        timings.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn count(&self, watchers: isize) {
        if watchers > 0 {
            self.watchers.fetch_add(1, Ordering::Relaxed);
        } else {
            self.watchers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub fn watchers(&self) -> usize {
        self.watchers.load(Ordering::Relaxed)
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The name of a key's shelf, which there is from now on.
    fn shelf(&mut self, key: &str) -> Arc<str> {
        let name = shelf_of(key);
        if let Some((name, _)) = self.shelves.get_key_value(name) {
            return Arc::clone(name);
        }
        let name: Arc<str> = name.into();
        let shelf = Shelf {
            items: BTreeMap::new(),
            history: VecDeque::new(),
            bytes: 0,
            forgotten: self.oldest,
            newest: watch::Sender::new(self.revision),
        };
        self.shelves.insert(Arc::clone(&name), shelf);
        name
    }

    /// All shelves on which keys with this prefix may be.
    fn shelves<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Shelf> {
        let name = shelf_of(prefix);
        let from = self
            .shelves
            .range::<str, _>((Bound::Included(name), Bound::Unbounded));
        let whole = is_shelf(name);
        from.take_while(move |(shelf, _)| {
            if whole {
                &***shelf == name
            } else {
                shelf.starts_with(name)
            }
        })
        .map(|(_, shelf)| shelf)
    }
}

impl Shelf {
    fn apply(&mut self, change: Change, keep: Keep) {
        let now = change.value.map(|value| Kv {
            key: Arc::clone(&change.key),
            value,
            revision: change.revision,
        });
        let previous = match &now {
            Some(kv) => self.items.insert(Arc::clone(&change.key), kv.clone()),
            None => self.items.remove(&change.key),
        };
        // Removing what is not there happened to nobody.
        if now.is_none() && previous.is_none() {
            return;
        }
        let happened = Happened {
            key: change.key,
            revision: change.revision,
            now,
            previous,
        };
        self.bytes += happened.size();
        self.history.push_back(happened);
        while self.history.len() > keep.changes || self.bytes > keep.bytes {
            let Some(oldest) = self.history.pop_front() else {
                break;
            };
            self.bytes -= oldest.size();
            self.forgotten = oldest.revision;
        }
    }

    fn list(&self, prefix: &str, page: &Page, listing: &mut Listing) {
        let after = page.after.as_deref().filter(|after| *after >= prefix);
        let from = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let now = self
            .items
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix));
        let then = self.as_it_was(listing.revision);
        let mut take = |kv: &Kv| {
            if page.limit == 0 || listing.items.len() < page.limit {
                listing.items.push(kv.clone());
            } else {
                listing.remaining += 1;
            }
        };
        if then.is_empty() {
            now.for_each(|(_, kv)| take(kv));
            return;
        }
        let mut merged: BTreeMap<&str, &Kv> = now.map(|(key, kv)| (&**key, kv)).collect();
        for (key, kv) in then {
            let selected = key.starts_with(prefix) && after.is_none_or(|after| key > after);
            match kv {
                Some(kv) if selected => _ = merged.insert(key, kv),
                _ => _ = merged.remove(key),
            }
        }
        merged.into_values().for_each(take);
    }

    /// What was different at that revision.
    fn as_it_was(&self, revision: u64) -> BTreeMap<&str, Option<&Kv>> {
        let newer = self.history.iter().rev();
        newer
            .take_while(|happened| happened.revision > revision)
            .map(|happened| (&*happened.key, happened.previous.as_ref()))
            .collect()
    }
}

impl Happened {
    fn size(&self) -> usize {
        let of = |kv: &Option<Kv>| kv.as_ref().map_or(0, |kv| kv.value.len());
        self.key.len() + of(&self.now) + of(&self.previous)
    }

    fn event(&self) -> Event {
        match (&self.now, &self.previous) {
            (Some(kv), previous) => Event::Put {
                kv: kv.clone(),
                previous: previous.clone(),
            },
            (None, Some(previous)) => Event::Delete {
                previous: previous.clone(),
                revision: self.revision,
            },
            (None, None) => unreachable!("nothing became nothing: that is not remembered"),
        }
    }
}

/// `/registry/{group}/{plural}/` of a key or a prefix; all of it if it is shorter.
fn shelf_of(key: &str) -> &str {
    let mut slashes = key.match_indices('/');
    slashes.nth(3).map_or(key, |(at, _)| &key[..=at])
}

fn is_shelf(name: &str) -> bool {
    name.ends_with('/') && name.matches('/').count() == 4
}
