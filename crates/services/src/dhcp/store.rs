//! Leases on disk: one file, one thread that writes, many leases to one commit.

use std::path::{Path, PathBuf};
use std::thread;

use protocols::dhcp::server::{Lease, Token};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use tokio::sync::mpsc;
use tracing::{error, warn};

/// By address, as JSON.
const LEASES: TableDefinition<u32, &[u8]> = TableDefinition::new("leases");
/// Leases waiting for the disk; a client that finds it full asks again.
const QUEUE: usize = 4096;

/// What went wrong with the file of leases.
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
    #[error("could not start the thread that writes {path}")]
    Thread {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// The file and its writer.
#[derive(Debug)]
pub struct Store {
    writes: Option<mpsc::Sender<(Token, Lease)>>,
    done: mpsc::Receiver<Done>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Written(Token),
    Failed(Token),
}

impl Store {
    /// Opens or makes the file, and reads what it holds. Blocks.
    pub fn open(path: &Path) -> Result<(Self, Vec<Lease>), Error> {
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
        let database = Database::create(path).map_err(|error| open(error.into()))?;
        let leases = read(&database).map_err(|source| Error::Read {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let (writes, queue) = mpsc::channel(QUEUE);
        let (tell, done) = mpsc::channel(QUEUE);
        let thread = thread::Builder::new()
            .name("leases".into())
            .spawn(move || work(&database, queue, &tell))
            .map_err(|source| Error::Thread {
                path: path.to_owned(),
                source,
            })?;
        Ok((
            Self {
                writes: Some(writes),
                done,
                thread: Some(thread),
            },
            leases,
        ))
    }

    /// Queues a record; false if the disk is too far behind.
    pub fn write(&self, token: Token, lease: Lease) -> bool {
        self.writes
            .as_ref()
            .is_some_and(|writes| writes.try_send((token, lease)).is_ok())
    }

    /// The next write that is over.
    pub async fn done(&mut self) -> Option<Done> {
        self.done.recv().await
    }

    /// Waits until everything queued is on disk. Blocks.
    pub fn close(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        drop(self.writes.take());
        self.done.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.finish();
    }
}

fn read(database: &Database) -> Result<Vec<Lease>, redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(LEASES) {
        Ok(table) => table,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut leases = Vec::new();
    for row in table.iter()? {
        let (address, record) = row?;
        match serde_json::from_slice(record.value()) {
            Ok(lease) => leases.push(lease),
            Err(error) => {
                warn!(address = %std::net::Ipv4Addr::from(address.value()), %error, "a lease on disk cannot be read");
            }
        }
    }
    Ok(leases)
}

fn work(database: &Database, mut queue: mpsc::Receiver<(Token, Lease)>, tell: &mpsc::Sender<Done>) {
    while let Some(first) = queue.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < QUEUE
            && let Ok(next) = queue.try_recv()
        {
            batch.push(next);
        }
        let written = commit(database, &batch);
        if let Err(error) = &written {
            error!(leases = batch.len(), %error, "leases could not be written");
        }
        for (token, _) in batch {
            let done = if written.is_ok() {
                Done::Written(token)
            } else {
                Done::Failed(token)
            };
            // Nobody listens any more: we only finish what is queued.
            let _ = tell.blocking_send(done);
        }
    }
}

fn commit(database: &Database, batch: &[(Token, Lease)]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(LEASES)?;
        for (_, lease) in batch {
            let record = serde_json::to_vec(lease)
                .expect("a lease has only names, numbers and times since 1970");
            table.insert(u32::from(lease.address), record.as_slice())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::{Duration, SystemTime};

    use super::*;
    use protocols::dhcp::server::Client;

    fn lease(n: u8) -> Lease {
        let mac = model::Mac([2, 0, 0, 0, 0, n]);
        Lease {
            address: Ipv4Addr::new(10, 0, 0, n),
            client: Client::Mac(mac),
            mac,
            hostname: Some(format!("host-{n}")),
            starts: SystemTime::UNIX_EPOCH + Duration::from_secs(5),
            expires: SystemTime::UNIX_EPOCH + Duration::from_secs(3605),
        }
    }

    #[tokio::test]
    async fn what_is_said_to_be_written_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site/leases.redb");
        let (mut store, found) = Store::open(&path).unwrap();
        assert_eq!(found, []);
        for n in 1..=200 {
            assert!(store.write(Token(n.into()), lease(n)));
        }
        for n in 1..=200 {
            assert_eq!(store.done().await, Some(Done::Written(Token(n))));
        }
        drop(store);
        let (_store, found) = Store::open(&path).unwrap();
        assert_eq!(found, (1..=200).map(lease).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_that_is_something_else_is_refused_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leases");
        std::fs::write(&path, vec![7; 8192]).unwrap();
        let error = Store::open(&path).unwrap_err();
        assert!(error.to_string().contains("leases"), "{error}");
    }
}
