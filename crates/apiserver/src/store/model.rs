//! The store as one would explain it: a list of everything that ever happened. Both stores must agree with it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::{At, Error, Event, Page, Store};

#[derive(Debug, Clone)]
pub enum Action {
    Create {
        key: usize,
    },
    /// With the revision it has, or another.
    Update {
        key: usize,
        right: bool,
    },
    Delete {
        key: usize,
        right: bool,
    },
    /// Page by page, as it was so many writes ago.
    List {
        prefix: usize,
        limit: usize,
        ago: usize,
    },
    /// All that happened in the last so many writes.
    Watch {
        prefix: usize,
        ago: usize,
    },
}

/// Two kinds, one of them in namespaces whose names begin alike.
const KEYS: [&str; 6] = [
    "/registry/core/secrets/a/x",
    "/registry/core/secrets/a/y",
    "/registry/core/secrets/ab/x",
    "/registry/core/secrets/b/x",
    "/registry/metal3.io/hosts/m",
    "/registry/metal3.io/hosts/n",
];
const PREFIXES: [&str; 5] = [
    "/registry/core/secrets/",
    "/registry/core/secrets/a/",
    "/registry/metal3.io/hosts/",
    "/registry/",
    "/registry/core/nodes/",
];

pub fn actions(most: usize) -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        3 => (0..KEYS.len()).prop_map(|key| Action::Create { key }),
        3 => (0..KEYS.len(), prop::bool::weighted(0.8)).prop_map(|(key, right)| Action::Update { key, right }),
        2 => (0..KEYS.len(), prop::bool::weighted(0.8)).prop_map(|(key, right)| Action::Delete { key, right }),
        2 => (0..PREFIXES.len(), 0..4_usize, 0..6_usize).prop_map(|(prefix, limit, ago)| Action::List { prefix, limit, ago }),
        1 => (0..PREFIXES.len(), 0..12_usize).prop_map(|(prefix, ago)| Action::Watch { prefix, ago }),
    ];
    prop::collection::vec(action, 1..most)
}

type Revision = u64;

#[derive(Default)]
pub struct Model {
    /// Revision, key, and the value if it was not a deletion.
    pub history: Vec<(Revision, &'static str, Option<Bytes>)>,
    begin: Revision,
}

impl Model {
    /// Of a store that is empty.
    pub fn new(begin: Revision) -> Self {
        Self {
            history: Vec::new(),
            begin,
        }
    }

    /// What is there at this revision.
    pub fn at(&self, revision: Revision) -> BTreeMap<&'static str, (Revision, Bytes)> {
        let mut now = BTreeMap::new();
        for (at, key, value) in self.history.iter().filter(|(at, ..)| *at <= revision) {
            match value {
                Some(value) => _ = now.insert(*key, (*at, value.clone())),
                None => _ = now.remove(key),
            }
        }
        now
    }

    fn revision(&self, ago: usize) -> Revision {
        let index = self.history.len().checked_sub(ago + 1);
        index.map_or(self.begin, |index| self.history[index].0)
    }

    fn note(&mut self, revision: Revision, key: &'static str, value: Option<Bytes>) {
        assert!(revision > self.revision(0), "revisions grow");
        self.history.push((revision, key, value));
    }

    /// Does it with the store, and compares what comes out.
    pub async fn check(&mut self, store: &Store, action: &Action) {
        let now = self.at(Revision::MAX);
        let value = Bytes::from(format!("{{\"turn\":{}}}", self.history.len()));
        match *action {
            Action::Create { key } => {
                let key = KEYS[key];
                match (store.create(key, value.clone()).await, now.get(key)) {
                    (Ok(revision), None) => self.note(revision, key, Some(value)),
                    (Err(Error::Exists { .. }), Some(_)) => {}
                    (result, there) => panic!("create {key}: {result:?} although {there:?}"),
                }
            }
            Action::Update { key, right } => {
                let key = KEYS[key];
                let expected = now
                    .get(key)
                    .map_or(1, |(at, _)| if right { *at } else { at + 1 });
                let result = store.update(key, value.clone(), expected).await;
                match (result, now.get(key)) {
                    (Ok(revision), Some(_)) if right => self.note(revision, key, Some(value)),
                    (Err(error), there) if there.is_none() || !right => {
                        assert_conflict(&error, there);
                    }
                    (result, there) => panic!("update {key}: {result:?} although {there:?}"),
                }
            }
            Action::Delete { key, right } => {
                let key = KEYS[key];
                let expected = now
                    .get(key)
                    .map_or(1, |(at, _)| if right { *at } else { at + 1 });
                match (store.delete(key, expected).await, now.get(key)) {
                    (Ok(revision), Some(_)) if right => self.note(revision, key, None),
                    (Err(error), there) if there.is_none() || !right => {
                        assert_conflict(&error, there);
                    }
                    (result, there) => panic!("delete {key}: {result:?} although {there:?}"),
                }
            }
            Action::List { prefix, limit, ago } => {
                self.check_list(store, PREFIXES[prefix], limit, ago).await;
            }
            Action::Watch { prefix, ago } => self.check_watch(store, PREFIXES[prefix], ago).await,
        }
        for key in KEYS {
            let (found, _) = store.get(key).await.unwrap();
            let found = found.map(|kv| (kv.revision, kv.value));
            assert_eq!(found.as_ref(), self.at(Revision::MAX).get(key), "{key}");
        }
    }

    async fn check_list(&self, store: &Store, prefix: &str, limit: usize, ago: usize) {
        let at = if ago == 0 {
            At::Newest
        } else {
            At::Exactly(self.revision(ago))
        };
        let expected: Vec<_> = self
            .at(self.revision(ago))
            .into_iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .collect();
        let mut page = Page {
            after: None,
            limit,
            at,
        };
        let mut found = Vec::new();
        loop {
            let listing = store.list(prefix, &page).await.unwrap();
            assert!(limit == 0 || listing.items.len() <= limit);
            assert!(listing.revision >= self.revision(ago));
            found.extend(listing.items);
            assert_eq!(listing.remaining, expected.len() - found.len());
            assert_eq!(listing.more, listing.remaining > 0);
            if !listing.more {
                break;
            }
            page.after = found.last().map(|kv| kv.key.to_string());
            page.at = At::Exactly(listing.revision);
        }
        let found: Vec<_> = found
            .iter()
            .map(|kv| (&*kv.key, (kv.revision, kv.value.clone())))
            .collect();
        assert_eq!(found, expected, "{prefix} {ago} writes ago");
    }

    pub async fn check_watch(&self, store: &Store, prefix: &str, ago: usize) {
        let from = self.revision(ago);
        let mut watch = store.watch(prefix, from).unwrap();
        for (revision, key, value) in &self.history {
            if *revision <= from || !key.starts_with(prefix) {
                continue;
            }
            let event = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
            let before = self.at(revision - 1).remove(key);
            let event = event.expect("an event is due").unwrap();
            assert_eq!(event.revision(), *revision);
            match event {
                Event::Put { kv, previous } => {
                    assert_eq!((&*kv.key, Some(&kv.value)), (*key, value.as_ref()));
                    assert_eq!(previous.map(|kv| (kv.revision, kv.value)), before);
                }
                Event::Delete { previous, .. } => {
                    assert!(value.is_none());
                    assert_eq!(Some((previous.revision, previous.value)), before);
                }
                Event::Progress { .. } => panic!("it is not quiet"),
            }
        }
    }
}

fn assert_conflict(error: &Error, there: Option<&(Revision, Bytes)>) {
    let Error::Conflict { current, .. } = error else {
        panic!("{error:?} is no conflict")
    };
    assert_eq!(
        current.as_ref().map(|kv| (kv.revision, kv.value.clone())),
        there.cloned()
    );
}
