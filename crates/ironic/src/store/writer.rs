//! The one thread that writes: everything that waits goes into one commit.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, mpsc};
use std::thread;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tracing::error;

use super::{Change, Error, Tables};
use crate::record::{Allocation, Node, Port, Portgroup, Record, Row};

/// By kind and uuid, as JSON.
const RECORDS: TableDefinition<&str, &[u8]> = TableDefinition::new("records");
pub(super) const DOCUMENTS: TableDefinition<&str, &[u8]> = TableDefinition::new("documents");

pub(super) struct Job {
    pub changes: Vec<Change>,
    pub done: oneshot::Sender<Result<(), Failed>>,
}

/// The disk did not take it. The log says why.
#[derive(Clone, Copy)]
pub(super) struct Failed;

pub(super) struct Writer {
    /// Unbounded, because it is filled under a lock; the store's places bound it.
    jobs: Option<mpsc::Sender<Job>>,
    broken: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    pub fn spawn(database: Arc<Database>, committed: Arc<RwLock<Tables>>) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let broken = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&broken);
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(move || work(&database, &queue, &committed, &flag))?;
        Ok(Self {
            jobs: Some(jobs),
            broken,
            thread: Some(thread),
        })
    }

    pub fn queue(&self, job: Job) -> Result<(), Error> {
        let jobs = self.jobs.as_ref().expect("taken only when dropped");
        jobs.send(job).map_err(|_| Error::Write)
    }

    pub fn healthy(&self) -> bool {
        !self.broken.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    /// Writes what is queued, then ends.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// As many changes as one commit takes; more would only delay those in front.
const MOST: usize = 512;

fn work(
    database: &Database,
    queue: &mpsc::Receiver<Job>,
    committed: &RwLock<Tables>,
    broken: &AtomicBool,
) {
    while let Ok(first) = queue.recv() {
        let mut jobs = vec![first];
        while jobs.len() < MOST
            && let Ok(next) = queue.try_recv()
        {
            jobs.push(next);
        }
        // After one failure the tables in memory are ahead of the disk: nothing may be built on them any more.
        let result = if broken.load(Ordering::Relaxed) {
            Err(Failed)
        } else {
            commit(database, &jobs)
        };
        if result.is_ok() {
            let mut committed = committed.write().unwrap_or_else(PoisonError::into_inner);
            for job in &jobs {
                committed.apply(&job.changes);
            }
        } else {
            broken.store(true, Ordering::Relaxed);
        }
        for job in jobs {
            // Whoever asked may have gone away.
            _ = job.done.send(result);
        }
    }
}

fn commit(database: &Database, jobs: &[Job]) -> Result<(), Failed> {
    let write = || -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        {
            let mut records = transaction.open_table(RECORDS)?;
            let mut documents = transaction.open_table(DOCUMENTS)?;
            for change in jobs.iter().flat_map(|job| &job.changes) {
                match change {
                    Change::Put(record) => {
                        let (key, value) = encode(record);
                        records.insert(key.as_str(), value.as_slice())?;
                    }
                    Change::Remove(record) => _ = records.remove(key(record).as_str())?,
                    Change::PutDocument { key, value } => {
                        documents.insert(key.as_str(), value.as_slice())?;
                    }
                    Change::RemoveDocuments { prefix } => {
                        let mut gone = Vec::new();
                        for entry in documents.range(prefix.as_str()..)? {
                            let key = entry?.0.value().to_owned();
                            if !key.starts_with(prefix) {
                                break;
                            }
                            gone.push(key);
                        }
                        for key in gone {
                            documents.remove(key.as_str())?;
                        }
                    }
                }
            }
        }
        transaction.commit()?;
        Ok(())
    };
    write().map_err(|problem| {
        error!(
            error = model::chain(&problem),
            "the store cannot be written; restart when the disk is well again"
        );
        Failed
    })
}

fn key(record: &Record) -> String {
    fn of<T: Row>(row: &T) -> String {
        format!("{}/{}", T::KIND, row.uuid())
    }
    match record {
        Record::Node(node) => of(&**node),
        Record::Port(port) => of(&**port),
        Record::Portgroup(portgroup) => of(&**portgroup),
        Record::Allocation(allocation) => of(&**allocation),
    }
}

fn encode(record: &Record) -> (String, Vec<u8>) {
    let value = match record {
        Record::Node(node) => serde_json::to_vec(&**node),
        Record::Port(port) => serde_json::to_vec(&**port),
        Record::Portgroup(portgroup) => serde_json::to_vec(&**portgroup),
        Record::Allocation(allocation) => serde_json::to_vec(&**allocation),
    };
    (key(record), value.expect("records have only text for keys"))
}

/// Reads all records. Makes the tables in a new file, so that readers find them.
pub(super) fn load(database: &Database, path: &Path) -> Result<Tables, Error> {
    let read = || -> Result<_, redb::Error> {
        let transaction = database.begin_write()?;
        transaction.open_table(RECORDS)?;
        transaction.open_table(DOCUMENTS)?;
        transaction.commit()?;
        let records = database.begin_read()?.open_table(RECORDS)?;
        let mut found = Vec::new();
        for entry in records.iter()? {
            let (key, value) = entry?;
            found.push((key.value().to_owned(), value.value().to_vec()));
        }
        Ok(found)
    };
    let found = read().map_err(|source| Error::Read {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    let mut tables = Tables::default();
    for (key, value) in found {
        let record = decode(&key, &value).map_err(|source| Error::Record {
            path: path.to_owned(),
            key: key.clone(),
            source,
        })?;
        tables.apply(&[Change::Put(record)]);
    }
    Ok(tables)
}

fn decode(key: &str, value: &[u8]) -> Result<Record, serde_json::Error> {
    fn read<T: DeserializeOwned>(value: &[u8]) -> Result<T, serde_json::Error> {
        serde_json::from_slice(value)
    }
    match key.split_once('/').map_or(key, |(kind, _)| kind) {
        Node::KIND => read::<Node>(value).map(Into::into),
        Port::KIND => read::<Port>(value).map(Into::into),
        Portgroup::KIND => read::<Portgroup>(value).map(Into::into),
        Allocation::KIND => read::<Allocation>(value).map(Into::into),
        other => Err(serde::de::Error::custom(format!(
            "no kind of record is called {other:?}"
        ))),
    }
}
