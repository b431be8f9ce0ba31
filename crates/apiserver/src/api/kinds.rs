//! The kinds this server serves now: the built-in ones and those of every CustomResourceDefinition in the store.
//!
//! One task follows the definitions; requests take the registry as it is at that moment. A write to a definition is
//! answered only once the registry has seen it, so that the next request finds the new routes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use objects::{Kind, Registry};
use serde_json::Value;
use tokio::sync::watch;
use tracing::{info, warn};

use super::object::Lens;
use crate::store::{self, Event, Kv, Page, Store};

pub const CRD_GROUP: &str = "apiextensions.k8s.io";
pub const CRD_PLURAL: &str = "customresourcedefinitions";

/// How long a write to a definition waits for its routes.
const PATIENCE: Duration = Duration::from_secs(5);
/// Before the definitions are read again after the store failed.
const AGAIN: Duration = Duration::from_secs(1);

/// The registry as it is now. Cheap to read; replaced as a whole.
pub struct Kinds {
    current: RwLock<Arc<Registry>>,
    documents: Mutex<Documents>,
    /// By name of the definition, the revision at which what it says last changed.
    since: RwLock<BTreeMap<String, u64>>,
    /// The newest revision of a definition that the registry reflects.
    seen: watch::Sender<u64>,
}

/// What was made of one registry and asked for: large documents that change only with it.
struct Documents {
    of: Arc<Registry>,
    made: BTreeMap<String, Bytes>,
}

impl Default for Kinds {
    fn default() -> Self {
        let registry = Arc::new(Registry::builtin());
        Self {
            current: RwLock::new(Arc::clone(&registry)),
            documents: Mutex::new(Documents {
                of: registry,
                made: BTreeMap::new(),
            }),
            since: RwLock::default(),
            seen: watch::Sender::new(0),
        }
    }
}

impl Kinds {
    pub fn current(&self) -> Arc<Registry> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How objects of this kind are shown.
    pub fn lens(&self, kind: Arc<Kind>) -> Lens {
        let changes = self.since.read().unwrap_or_else(PoisonError::into_inner);
        let since = if kind.custom {
            changes.get(&kind.resource().to_string()).copied()
        } else {
            None
        };
        Lens {
            kind,
            since: since.unwrap_or(0),
        }
    }

    fn changed(&self, kv: &Kv) {
        let mut changes = self.since.write().unwrap_or_else(PoisonError::into_inner);
        changes.insert(name(kv).to_owned(), kv.revision);
    }

    /// A document about all kinds, made once for as long as they stay the same.
    pub fn document(
        &self,
        name: &str,
        make: impl FnOnce(&Registry) -> Option<Vec<u8>>,
    ) -> Option<Bytes> {
        let registry = self.current();
        let lock = || {
            self.documents
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        {
            let mut documents = lock();
            if !Arc::ptr_eq(&documents.of, &registry) {
                *documents = Documents {
                    of: Arc::clone(&registry),
                    made: BTreeMap::new(),
                };
            }
            if let Some(made) = documents.made.get(name) {
                return Some(made.clone());
            }
        }
        let made = Bytes::from(make(&registry)?);
        let mut documents = lock();
        if Arc::ptr_eq(&documents.of, &registry) {
            documents.made.insert(name.to_owned(), made.clone());
        }
        Some(made)
    }

    /// Fires whenever a definition came, changed or went.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.seen.subscribe()
    }

    /// Waits until the registry reflects the definitions up to this revision, but not for ever.
    pub async fn reach(&self, revision: u64) {
        let mut seen = self.seen.subscribe();
        if tokio::time::timeout(PATIENCE, seen.wait_for(|seen| *seen >= revision))
            .await
            .is_err()
        {
            warn!(revision, "a definition is stored but its routes are late");
        }
    }

    /// Reads the definitions once; what [`run`](Self::run) goes on from.
    pub async fn load(&self, store: &Store) -> Result<u64, store::Error> {
        let listing = store.list(&prefix(), &Page::default()).await?;
        let mut registry = Registry::builtin();
        for kv in &listing.items {
            self.changed(kv);
            put(&mut registry, kv);
        }
        self.replace(registry, listing.revision);
        Ok(listing.revision)
    }

    /// Follows the definitions until dropped.
    pub async fn run(&self, store: &Store) {
        loop {
            if let Err(error) = self.follow(store).await {
                warn!(%error, "reading the definitions again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    async fn follow(&self, store: &Store) -> Result<(), store::Error> {
        let revision = self.load(store).await?;
        let mut watch = store.watch(&prefix(), revision)?;
        loop {
            let event = watch.next().await?;
            let revision = event.revision();
            let mut registry = Registry::clone(&self.current());
            match event {
                Event::Put { kv, previous } => {
                    // A new condition in its status changes nothing for its objects.
                    if previous.is_none_or(|previous| generation(&previous) != generation(&kv)) {
                        self.changed(&kv);
                    }
                    put(&mut registry, &kv);
                }
                Event::Delete { previous, .. } => {
                    let name = name(&previous);
                    info!(crd = name, "no longer served");
                    registry.remove_crd(name);
                }
                Event::Progress { .. } => {
                    self.seen.send_replace(revision);
                    continue;
                }
            }
            self.replace(registry, revision);
        }
    }

    fn replace(&self, registry: Registry, revision: u64) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(registry);
        self.seen.send_replace(revision);
    }
}

/// A definition that cannot be served is left out; its own status says why.
fn put(registry: &mut Registry, kv: &Kv) {
    let problem = match serde_json::from_slice::<Value>(&kv.value) {
        Ok(crd) => match registry.put_crd(&crd) {
            Ok(()) => return,
            Err(causes) => causes
                .iter()
                .map(objects::Cause::line)
                .collect::<Vec<_>>()
                .join(", "),
        },
        Err(error) => error.to_string(),
    };
    warn!(crd = %kv.key, problem, "definition cannot be served");
}

fn name(kv: &Kv) -> &str {
    kv.key.rsplit('/').next().unwrap_or_default()
}

/// Moves with the spec and with nothing else.
fn generation(kv: &Kv) -> Option<i64> {
    let crd: Value = serde_json::from_slice(&kv.value).ok()?;
    crd.pointer("/metadata/generation")?.as_i64()
}

fn prefix() -> String {
    store::prefix(CRD_GROUP, CRD_PLURAL, "")
}
