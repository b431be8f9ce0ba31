//! Where every question comes first: answered here, or passed on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use protocols::dns::cache::{Cache, Found, Limits};
use protocols::dns::forward::Asker;
use protocols::dns::{
    Local, Names, Question, Rcode, Stored, Transport, Unreadable, refuse, refuse_unreadable,
};
use tokio::sync::mpsc;

use super::tcp::Connections;
use crate::config::dns::Dns;

/// Workers seldom meet at one of so many.
const SHARDS: usize = 8;
const RECURSION_DESIRED: u16 = 0x0100;

/// A question for others.
#[derive(Debug)]
pub struct Ask {
    pub from: Asker,
    pub bytes: Vec<u8>,
    pub stale: bool,
}

/// What all workers share.
#[derive(Debug)]
pub struct Desk {
    pub listen: Vec<SocketAddr>,
    pub domain: String,
    pub upstreams_from: String,
    pub connections: Connections,
    names: RwLock<Arc<Names>>,
    /// Counts the names that were set, so that workers look at the lock only then.
    version: AtomicU64,
    shards: Vec<Mutex<Cache>>,
    ask: mpsc::Sender<Ask>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    local: AtomicU64,
    cached: AtomicU64,
    forwarded: AtomicU64,
    stale: AtomicU64,
    refused: AtomicU64,
    silent: AtomicU64,
    overflow: AtomicU64,
}

/// The names as one worker sees them.
#[derive(Debug)]
pub struct View {
    version: u64,
    names: Arc<Names>,
}

impl Desk {
    pub fn new(config: &Dns, names: Names, ask: mpsc::Sender<Ask>) -> Self {
        let limits = Limits {
            entries: config.cache.entries.div_ceil(SHARDS),
            bytes: config.cache.bytes / SHARDS,
            ..config.cache
        };
        let shards = (0..SHARDS).map(|_| Mutex::new(Cache::new(limits, rand::random())));
        let from_file = config
            .upstreams
            .is_empty()
            .then_some(config.resolv.as_ref());
        Self {
            listen: config.listen.clone(),
            domain: config.domain.clone(),
            upstreams_from: match from_file.flatten() {
                Some(resolv) => resolv
                    .upstreams_from
                    .as_ref()
                    .unwrap_or(&resolv.path)
                    .display()
                    .to_string(),
                None => "the configuration".into(),
            },
            connections: Connections::default(),
            names: RwLock::new(Arc::new(names)),
            version: AtomicU64::new(0),
            shards: shards.collect(),
            ask,
            counts: Counts::default(),
        }
    }

    pub fn view(&self) -> View {
        let version = self.version.load(Ordering::Acquire);
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        View {
            version,
            names: Arc::clone(&names),
        }
    }

    /// Looks whether there are new names.
    pub fn refresh(&self, view: &mut View) {
        if view.version != self.version.load(Ordering::Acquire) {
            *view = self.view();
        }
    }

    pub fn set_names(&self, names: Names) {
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Writes the answer if it is known here. Otherwise the question is passed on, and the answer comes
    /// another way. True if it was passed on.
    pub fn serve(
        &self,
        view: &View,
        now: Instant,
        query: &[u8],
        from: impl FnOnce() -> Asker,
        transport: Transport,
        out: &mut Vec<u8>,
    ) -> bool {
        let question = match Question::parse(query) {
            Ok(question) => question,
            Err(Unreadable::Silence) => {
                count(&self.counts.silent);
                return false;
            }
            Err(Unreadable::Refuse(rcode)) => {
                count(&self.counts.refused);
                refuse_unreadable(query, rcode, out);
                return false;
            }
        };
        if view.names.answer(query, &question, transport, out) == Local::Answered {
            count(&self.counts.local);
            return false;
        }
        let found = self
            .shard(&question)
            .answer(now, query, &question, transport, out);
        if found == Found::Fresh {
            count(&self.counts.cached);
            return false;
        }
        if question.flags & RECURSION_DESIRED == 0 {
            count(&self.counts.refused);
            refuse(query, &question, Rcode::Refused, transport, out);
            return false;
        }
        let ask = Ask {
            from: from(),
            bytes: query.to_vec(),
            stale: found == Found::Stale,
        };
        if self.ask.try_send(ask).is_err() {
            count(&self.counts.overflow);
            refuse(query, &question, Rcode::ServFail, transport, out);
            return false;
        }
        count(&self.counts.forwarded);
        true
    }

    pub fn remember(&self, now: Instant, query: &[u8], stored: Arc<Stored>) {
        if let Ok(question) = Question::parse(query) {
            self.shard(&question).put(now, &question, stored);
        }
    }

    /// The old answer, or that there is none.
    pub fn stale(&self, now: Instant, query: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let question = Question::parse(query).ok()?;
        let mut out = Vec::new();
        let had = self
            .shard(&question)
            .answer_stale(now, query, &question, transport, &mut out);
        if had {
            count(&self.counts.stale);
        } else {
            refuse(query, &question, Rcode::ServFail, transport, &mut out);
        }
        Some(out)
    }

    /// The answer when there is nobody to ask: what is not known of our own domain does not exist.
    pub fn alone(&self, query: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let question = Question::parse(query).ok()?;
        let view = self.view();
        let mut out = Vec::new();
        match view.names.answer(query, &question, transport, &mut out) {
            Local::Unknown => {
                view.names
                    .write_unknown(query, &question, transport, &mut out);
                Some(out)
            }
            Local::Answered | Local::Elsewhere => None,
        }
    }

    /// Entries and bytes.
    pub fn remembered(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(entries, bytes), shard| {
            let cache = lock(shard);
            (entries + cache.len(), bytes + cache.bytes())
        })
    }

    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let counts = &self.counts;
        [
            ("local", &counts.local),
            ("cached", &counts.cached),
            ("forwarded", &counts.forwarded),
            ("stale", &counts.stale),
            ("refused", &counts.refused),
            ("silent", &counts.silent),
            ("overflow", &counts.overflow),
        ]
        .into_iter()
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
        .collect()
    }

    fn shard(&self, question: &Question) -> MutexGuard<'_, Cache> {
        let sum = question.name.as_slice().iter().fold(0usize, |sum, byte| {
            sum.wrapping_mul(31) + usize::from(*byte)
        });
        lock(&self.shards[sum % SHARDS])
    }
}

fn lock(shard: &Mutex<Cache>) -> MutexGuard<'_, Cache> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
