//! Where objects are kept: keys, values and revisions, with etcd's meaning.
//!
//! ```text
//!   create, update, delete ---> embedded: one thread, a log with group commit     ---+
//!                          \--> etcd: a transaction, retried on another member      |
//!                                                                                    v
//!   list, watch <------------------------- cache: the registry and its recent history
//! ```
//!
//! Keys are `/registry/{group or core}/{plural}/{namespace}/{name}`, without the namespace where a kind has none.
//! Every write has a revision of its own, higher than all before; it is the `resourceVersion` of what was written.

pub mod cache;
pub mod embedded;
pub mod etcd;
#[cfg(test)]
mod model;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

pub use embedded::Embedded;
pub use etcd::Etcd;
pub use watch::Watch;

/// The largest value that is taken: etcd's limit for a request, less some room for the key.
pub const LARGEST_VALUE: usize = (1536 - 16) << 10;

/// One object as it is kept: its JSON without `resourceVersion`, which is the revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kv {
    pub key: Arc<str>,
    pub value: Bytes,
    /// Of the write that made this value.
    pub revision: u64,
}

/// Which part of a listing, and how new it must be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Only keys behind this one.
    pub after: Option<String>,
    /// At most so many; 0 is no limit.
    pub limit: usize,
    pub at: At,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum At {
    /// All writes that were acknowledged, by any server.
    #[default]
    Newest,
    /// What this server knows, if it is no older than this; 0 is anything.
    NotBefore(u64),
    /// As it was then, while the history reaches back so far.
    Exactly(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// By key.
    pub items: Vec<Kv>,
    /// Of the store when it was as listed.
    pub revision: u64,
    /// Whether the limit cut the listing short.
    pub more: bool,
    /// How many items are behind the last one.
    pub remaining: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Put {
        kv: Kv,
        /// What it took the place of.
        previous: Option<Kv>,
    },
    Delete {
        previous: Kv,
        /// Of the deletion.
        revision: u64,
    },
    /// Nothing is left to tell up to here. Comes now and then when all is quiet.
    Progress { revision: u64 },
}

impl Event {
    pub fn revision(&self) -> u64 {
        match self {
            Self::Put { kv, .. } => kv.revision,
            Self::Delete { revision, .. } | Self::Progress { revision } => *revision,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{key} exists already")]
    Exists { key: String },
    #[error("{key} was changed or removed by another")]
    Conflict {
        key: String,
        /// What is there now.
        current: Option<Kv>,
    },
    #[error("revision {asked} is too old: the history begins at {oldest}")]
    Compacted { asked: u64, oldest: u64 },
    #[error("revision {asked} is not here yet: the newest is {current}")]
    Future { asked: u64, current: u64 },
    #[error("a value of {size} bytes is too large: the limit is {LARGEST_VALUE}")]
    TooLarge { size: usize },
    #[error("the store cannot be written; see the log")]
    Broken,
    #[error("the store was closed")]
    Closed,
    #[error("etcd does not do it now")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("could not make the directory {path}")]
    Directory {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("could not open {path}")]
    Open {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{path} holds {key:?}, which is no object of a registry")]
    Foreign { path: PathBuf, key: String },
}

/// A handle on the store; clones are the same store.
#[derive(Clone)]
pub enum Store {
    Embedded(Arc<Embedded>),
    Etcd(Arc<Etcd>),
}

impl Store {
    /// The object and the store's revision when it was read. Sees every write that was acknowledged.
    pub async fn get(&self, key: &str) -> Result<(Option<Kv>, u64), Error> {
        let _timer = self.cache().timer("get");
        match self {
            Self::Embedded(store) => Ok(store.cache().get(key)),
            Self::Etcd(store) => store.get(key).await,
        }
    }

    /// What this server knows without asking anyone; for decisions that may be a moment old.
    pub fn peek(&self, key: &str) -> Option<Kv> {
        self.cache().get(key).0
    }

    /// What a change may be tried with before the newest is asked for: a change of what is no longer there is refused.
    /// Nothing where the newest is here anyway.
    pub fn likely(&self, key: &str) -> Option<Kv> {
        match self {
            Self::Embedded(_) => None,
            Self::Etcd(store) => store.cache().get(key).0,
        }
    }

    pub async fn list(&self, prefix: &str, page: &Page) -> Result<Listing, Error> {
        let _timer = self.cache().timer("list");
        match self {
            Self::Embedded(store) => {
                if let At::NotBefore(revision) = page.at {
                    store.cache().reach(revision).await?;
                }
                store.cache().list(prefix, page)
            }
            Self::Etcd(store) => store.list(prefix, page).await,
        }
    }

    /// The revision of the new object. [`Error::Exists`] if there is one already.
    pub async fn create(&self, key: &str, value: Bytes) -> Result<u64, Error> {
        let _timer = self.cache().timer("create");
        match self {
            Self::Embedded(store) => store.put(key, value, 0).await,
            Self::Etcd(store) => store.put(key, value, 0).await,
        }
    }

    /// Replaces what has the revision `expected`. [`Error::Conflict`] if it has another, or is gone.
    pub async fn update(&self, key: &str, value: Bytes, expected: u64) -> Result<u64, Error> {
        // Nothing has revision 0: that would be a creation.
        if expected == 0 {
            let (current, _) = self.get(key).await?;
            let key = key.to_owned();
            return Err(Error::Conflict { key, current });
        }
        let _timer = self.cache().timer("update");
        match self {
            Self::Embedded(store) => store.put(key, value, expected).await,
            Self::Etcd(store) => store.put(key, value, expected).await,
        }
    }

    /// Removes what has the revision `expected`; gives the revision of the deletion.
    pub async fn delete(&self, key: &str, expected: u64) -> Result<u64, Error> {
        if expected == 0 {
            let (current, _) = self.get(key).await?;
            let key = key.to_owned();
            return Err(Error::Conflict { key, current });
        }
        let _timer = self.cache().timer("delete");
        match self {
            Self::Embedded(store) => store.delete(key, expected).await,
            Self::Etcd(store) => store.delete(key, expected).await,
        }
    }

    /// Everything that happens to keys with this prefix after `revision`, in order, without gaps.
    pub fn watch(&self, prefix: &str, revision: u64) -> Result<Watch, Error> {
        Watch::new(Arc::clone(self.cache()), prefix, revision)
    }

    /// The newest revision this server knows.
    pub fn revision(&self) -> u64 {
        self.cache().revision()
    }

    /// Whether writes are taken, or why not.
    pub fn health(&self) -> Result<(), Error> {
        match self {
            Self::Embedded(store) => store.health(),
            Self::Etcd(store) => store.health(),
        }
    }

    /// Ends every watch with [`Error::Closed`], and lets none begin: the server stops.
    pub fn end_watches(&self) {
        self.cache().close();
    }

    /// How many watches are open.
    pub fn watchers(&self) -> usize {
        self.cache().watchers()
    }

    /// How often each operation was done, and how many seconds all of them took together.
    pub fn timings(&self) -> BTreeMap<&'static str, (u64, f64)> {
        self.cache().timings()
    }

    fn cache(&self) -> &Arc<cache::Cache> {
        match self {
            Self::Embedded(store) => store.cache(),
            Self::Etcd(store) => store.cache(),
        }
    }
}

/// The key of an object: `group` is empty for the core group, `namespace` for kinds without one.
pub fn key(group: &str, plural: &str, namespace: &str, name: &str) -> String {
    let mut key = prefix(group, plural, namespace);
    key.push_str(name);
    key
}

/// What the keys of a kind begin with; of all namespaces if none is given.
pub fn prefix(group: &str, plural: &str, namespace: &str) -> String {
    let group = if group.is_empty() { "core" } else { group };
    if namespace.is_empty() {
        format!("/registry/{group}/{plural}/")
    } else {
        format!("/registry/{group}/{plural}/{namespace}/")
    }
}
