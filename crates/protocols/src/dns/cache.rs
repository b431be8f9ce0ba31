//! Answers remembered: bounded in number and bytes, for as long as they live and, when nobody else answers,
//! for a while longer (RFC 8767).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::reply::Transport;
use super::stored::{Age, Stored};
use super::wire::Question;

/// What an entry takes beside its records and name.
const OVERHEAD: usize = 160;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub entries: usize,
    pub bytes: usize,
    /// Nothing is believed for longer.
    pub longest: Duration,
    /// How long after its life an answer may still be given out.
    pub stale: Duration,
}

/// By a hash that strangers cannot foresee, so that they cannot push a chosen entry out.
#[derive(Debug)]
pub struct Cache {
    limits: Limits,
    seed: u64,
    entries: BTreeMap<u64, Entry>,
    /// In order of arrival; one that was used meanwhile gets another round.
    queue: VecDeque<u64>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    name: Box<[u8]>,
    kind: u16,
    switches: u8,
    stored: Arc<Stored>,
    since: Instant,
    until: Instant,
    used: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Written.
    Fresh,
    /// There, but past its life; nothing is written.
    Stale,
    Nothing,
}

impl Cache {
    pub fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limits,
            seed,
            entries: BTreeMap::new(),
            queue: VecDeque::new(),
            bytes: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn clear(&mut self) {
        *self = Self::new(self.limits, self.seed);
    }

    /// Writes a living answer.
    pub fn answer(
        &mut self,
        now: Instant,
        query: &[u8],
        question: &Question,
        transport: Transport,
        out: &mut Vec<u8>,
    ) -> Found {
        let Some(entry) = self.find(now, question) else {
            return Found::Nothing;
        };
        if entry.until <= now {
            return Found::Stale;
        }
        entry.used = true;
        let age = Age::Fresh(now.saturating_duration_since(entry.since));
        entry.stored.write(query, question, age, transport, out);
        Found::Fresh
    }

    /// Writes what there is, living or not. False if there is nothing.
    pub fn answer_stale(
        &mut self,
        now: Instant,
        query: &[u8],
        question: &Question,
        transport: Transport,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(entry) = self.find(now, question) else {
            return false;
        };
        let age = if entry.until <= now {
            Age::Stale
        } else {
            Age::Fresh(now.saturating_duration_since(entry.since))
        };
        entry.stored.write(query, question, age, transport, out);
        true
    }

    /// Remembers an answer, if it has a life.
    pub fn put(&mut self, now: Instant, question: &Question, stored: Arc<Stored>) {
        let Some(life) = stored.life() else { return };
        let hash = self.hash(question);
        self.remove(hash);
        let entry = Entry {
            name: question.name.as_slice().into(),
            kind: question.kind,
            switches: switches(question),
            stored,
            since: now,
            until: now + life.min(self.limits.longest),
            used: false,
        };
        self.bytes += entry.size();
        self.entries.insert(hash, entry);
        self.queue.push_back(hash);
        while self.entries.len() > self.limits.entries || self.bytes > self.limits.bytes {
            self.evict();
        }
        // Every replacement leaves a place in the queue behind.
        if self.queue.len() > 2 * self.entries.len() + 16 {
            let mut seen = std::collections::BTreeSet::new();
            let entries = &self.entries;
            self.queue
                .retain(|hash| entries.contains_key(hash) && seen.insert(*hash));
        }
    }

    fn find(&mut self, now: Instant, question: &Question) -> Option<&mut Entry> {
        let hash = self.hash(question);
        let stale = self.limits.stale;
        self.entries.get_mut(&hash).filter(|entry| {
            entry.kind == question.kind
                && entry.switches == switches(question)
                && *entry.name == *question.name.as_slice()
                && now < entry.until + stale
        })
    }

    fn evict(&mut self) {
        while let Some(hash) = self.queue.pop_front() {
            match self.entries.get_mut(&hash) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    self.queue.push_back(hash);
                }
                Some(_) => return self.remove(hash),
                None => {}
            }
        }
    }

    fn remove(&mut self, hash: u64) {
        if let Some(entry) = self.entries.remove(&hash) {
            self.bytes -= entry.size();
        }
    }

    /// Eight bytes at a time, mixed by multiplication; the seed makes it ours.
    fn hash(&self, question: &Question) -> u64 {
        let more = u64::from(question.kind) << 8 | u64::from(switches(question));
        let mut hash = self.seed ^ more.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for chunk in question.name.as_slice().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let mixed = u128::from(hash ^ u64::from_le_bytes(word))
                * u128::from(self.seed | 0xa076_1d64_78bd_642f);
            hash = (mixed as u64) ^ ((mixed >> 64) as u64);
        }
        hash
    }
}

impl Entry {
    fn size(&self) -> usize {
        OVERHEAD + self.name.len() + self.stored.size()
    }
}

/// What changes an answer beside name and type.
fn switches(question: &Question) -> u8 {
    u8::from(question.dnssec_ok()) | u8::from(question.checking_disabled()) << 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::testing::{answer_to, query, start};

    fn limits() -> Limits {
        Limits {
            entries: 4,
            bytes: 100_000,
            longest: Duration::from_secs(30),
            stale: Duration::from_mins(1),
        }
    }

    fn put(cache: &mut Cache, now: Instant, name: &str, ttl: u32) {
        let bytes = query(name, 1);
        let question = Question::parse(&bytes).unwrap();
        let answer = answer_to(&bytes, ttl);
        let parsed = Stored::parse(&bytes, &answer, true).unwrap();
        cache.put(now, &question, Arc::new(parsed.stored));
    }

    fn get(cache: &mut Cache, now: Instant, name: &str) -> (Found, Option<u32>) {
        let bytes = query(name, 1);
        let question = Question::parse(&bytes).unwrap();
        let mut out = Vec::new();
        let found = cache.answer(now, &bytes, &question, Transport::Udp, &mut out);
        let ttl = hickory_proto::op::Message::from_vec(&out)
            .ok()
            .map(|message| message.answers[0].ttl);
        (found, ttl)
    }

    #[test]
    fn an_answer_lives_ages_turns_stale_and_goes() {
        let (mut cache, now) = (Cache::new(limits(), 7), start());
        put(&mut cache, now, "a.test", 20);
        put(&mut cache, now, "long.test", 4000);
        let at = |secs| now + Duration::from_secs(secs);
        assert_eq!(get(&mut cache, at(5), "A.test"), (Found::Fresh, Some(15)));
        assert_eq!(get(&mut cache, at(20), "a.test"), (Found::Stale, None));
        assert_eq!(get(&mut cache, at(81), "a.test"), (Found::Nothing, None));
        assert_eq!(get(&mut cache, at(31), "long.test").0, Found::Stale);
        let bytes = query("a.test", 1);
        let question = Question::parse(&bytes).unwrap();
        let mut out = Vec::new();
        assert!(cache.answer_stale(at(50), &bytes, &question, Transport::Udp, &mut out));
        let message = hickory_proto::op::Message::from_vec(&out).unwrap();
        assert_eq!(message.answers[0].ttl, 30);
        put(&mut cache, now, "zero.test", 0);
        assert_eq!(get(&mut cache, now, "zero.test").0, Found::Nothing);
    }

    #[test]
    fn a_full_cache_keeps_what_is_used() {
        let (mut cache, now) = (Cache::new(limits(), 7), start());
        for round in 0..50 {
            put(&mut cache, now, &format!("n{round}.test"), 20);
            put(&mut cache, now, "kept.test", 20);
            assert_eq!(get(&mut cache, now, "kept.test").0, Found::Fresh, "{round}");
            assert!(cache.len() <= 4 && cache.queue.len() < 32);
        }
        let mut small = Cache::new(
            Limits {
                bytes: 900,
                ..limits()
            },
            7,
        );
        for round in 0..50 {
            put(&mut small, now, &format!("n{round}.test"), 20);
            assert!(small.bytes() <= 900);
        }
        let sum: usize = small.entries.values().map(Entry::size).sum();
        assert_eq!(sum, small.bytes());
    }
}
