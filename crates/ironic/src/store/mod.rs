//! The file everything is remembered in, and the copy in memory that everything is read from.
//!
//! ```text
//!  change(f) --- f(pending) ---> queue ---> writer thread: all that waits in one frame of the log
//!      ^                                        |                             |
//!      +------------- answered when ------------+---> committed ---> read()   +---> database file, now and then
//! ```
//!
//! A change is decided on the newest tables (`pending`), in the order of the queue, and answered when it is on disk.
//! Readers see only what is on disk, so nothing that was ever shown can be lost.

mod ledger;
mod tables;
#[cfg(test)]
pub mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use redb::{Database, ReadableDatabase, StorageBackend};
use tokio::sync::{Semaphore, oneshot, watch};

use crate::record::Record;
use ledger::Ledger;
pub use tables::Tables;
use writer::{Job, Writer};

/// What went wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not make the directory {path}")]
    Directory {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("could not open {path}")]
    Open {
        path: PathBuf,
        source: Box<redb::Error>,
    },
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        source: Box<redb::Error>,
    },
    #[error("{path} holds a record this version cannot read: {key}")]
    Record {
        path: PathBuf,
        key: String,
        source: serde_json::Error,
    },
    #[error("could not start the thread that writes {path}")]
    Thread {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("could not write to the store")]
    Write,
}

/// One thing to be written. Changes made together are written together, or not at all.
pub enum Change {
    Put(Record),
    Remove(Record),
    /// A document is kept on disk only: inventories, config drives, histories.
    PutDocument {
        key: String,
        value: Vec<u8>,
    },
    RemoveDocuments {
        prefix: String,
    },
}

impl Change {
    fn is_port(&self) -> bool {
        match self {
            Self::Put(record) | Self::Remove(record) => matches!(record, Record::Port(_)),
            Self::PutDocument { .. } | Self::RemoveDocuments { .. } => false,
        }
    }
}

impl<T: Into<Record>> From<T> for Change {
    fn from(record: T) -> Self {
        Self::Put(record.into())
    }
}

/// Bytes of the log: so much may be newer than the database file.
const LOG_CAPACITY: u64 = 4 << 20;
/// How many changes may wait for the disk; whoever comes later waits for a place.
const QUEUE: usize = 4096;

pub struct Store {
    path: PathBuf,
    database: Arc<Database>,
    pending: Mutex<Pending>,
    committed: Arc<RwLock<Tables>>,
    places: Semaphore,
    ports: watch::Sender<u64>,
}

struct Pending {
    tables: Tables,
    writer: Writer,
}

impl Store {
    /// Opens or makes the file, and reads what it holds. Blocks.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|source| Error::Directory {
                path: parent.to_owned(),
                source,
            })?;
        }
        let open = |source: redb::Error| Error::Open {
            path: path.to_owned(),
            source: Box::new(source),
        };
        let (database, log) = services::ledger::open_files(path).map_err(open)?;
        Self::over(database, log, LOG_CAPACITY, path)
    }

    fn over(
        database: Database,
        log: Box<dyn StorageBackend>,
        capacity: u64,
        path: &Path,
    ) -> Result<Self, Error> {
        let database = Arc::new(database);
        let (ledger, tables) = Ledger::open(Arc::clone(&database), log, capacity, path)?;
        let committed = Arc::new(RwLock::new(tables.clone()));
        let writer =
            Writer::spawn(ledger, Arc::clone(&committed)).map_err(|source| Error::Thread {
                path: path.to_owned(),
                source,
            })?;
        Ok(Self {
            path: path.to_owned(),
            database,
            pending: Mutex::new(Pending { tables, writer }),
            committed,
            places: Semaphore::new(QUEUE),
            ports: watch::Sender::new(0),
        })
    }

    /// What is on disk now. Hold it briefly: writing waits for it.
    pub fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.committed
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides on the newest state, writes what was decided, and returns when it is on disk.
    ///
    /// `decide` runs alone: no other change comes between what it reads and what it writes.
    pub async fn change<T, E: From<Error>>(
        &self,
        decide: impl FnOnce(&Tables) -> Result<(Vec<Change>, T), E>,
    ) -> Result<T, E> {
        // Held until the change is on disk. The semaphore is never closed.
        let _place = self.places.acquire().await.map_err(|_| Error::Write)?;
        let (value, written, ports) = {
            let mut pending = self.pending();
            let (changes, value) = decide(&pending.tables)?;
            if changes.is_empty() {
                return Ok(value);
            }
            let changes = pending.tables.number(changes);
            let ports = changes.iter().any(Change::is_port);
            pending.tables.apply(&changes);
            let (done, written) = oneshot::channel();
            pending.writer.queue(Job { changes, done })?;
            (value, written, ports)
        };
        match written.await {
            Ok(Ok(())) => {
                if ports {
                    self.ports.send_modify(|count| *count += 1);
                }
                Ok(value)
            }
            Ok(Err(writer::Failed)) | Err(_) => Err(Error::Write.into()),
        }
    }

    /// Changes whenever a port came, went or was changed.
    pub fn ports_changed(&self) -> watch::Receiver<u64> {
        self.ports.subscribe()
    }

    /// A document from disk, if it is there.
    pub fn document(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let read = || -> Result<_, redb::Error> {
            let table = self.database.begin_read()?.open_table(ledger::DOCUMENTS)?;
            Ok(table.get(key)?.map(|value| value.value().to_vec()))
        };
        read().map_err(|source| self.unreadable(source))
    }

    /// Does the disk take what is written to it?
    pub fn healthy(&self) -> bool {
        self.pending().writer.healthy()
    }

    fn unreadable(&self, source: redb::Error) -> Error {
        Error::Read {
            path: self.path.clone(),
            source: Box::new(source),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
