//! Leases on disk: a database file and its log, one thread that writes, all that wait to one write and one sync.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use protocols::dhcp::server::{Lease, Token};
use tokio::sync::mpsc;
use tracing::{error, warn};

use crate::ledger::{Ledger, open_files};

/// Leases waiting for the disk; a client that finds it full asks again.
const QUEUE: usize = 4096;
/// Bytes of the log: so much may be newer than the database file.
const LOG_CAPACITY: u64 = 4 << 20;
/// Quiet time after which the database file is brought up to date.
const QUIET: Duration = Duration::from_secs(1);

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
    writes: Option<SyncSender<Job>>,
    done: mpsc::UnboundedReceiver<Done>,
    thread: Option<thread::JoinHandle<()>>,
}

type Job = (Token, Lease);

/// What became of leases that were written together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub tokens: Vec<Token>,
    pub written: bool,
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
        let (database, log) = open_files(path).map_err(|source| Error::Open {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let opened = Ledger::open(Arc::new(database), log, LOG_CAPACITY);
        let (ledger, found) = opened.map_err(|source| Error::Read {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let (writes, queue) = sync_channel(QUEUE);
        // As many as are queued at most; whoever reads it is never waited for.
        let (tell, done) = mpsc::unbounded_channel();
        let thread = thread::Builder::new()
            .name("leases".into())
            .spawn(move || work(ledger, &queue, &tell))
            .map_err(|source| Error::Thread {
                path: path.to_owned(),
                source,
            })?;
        let store = Self {
            writes: Some(writes),
            done,
            thread: Some(thread),
        };
        Ok((store, leases(found.entries())))
    }

    /// Queues a record; false if the disk is too far behind.
    pub fn write(&self, token: Token, lease: Lease) -> bool {
        self.writes
            .as_ref()
            .is_some_and(|writes| writes.try_send((token, lease)).is_ok())
    }

    /// The next writes that are over.
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

/// In the order of their addresses.
fn leases(entries: BTreeMap<String, Vec<u8>>) -> Vec<Lease> {
    let mut leases = Vec::new();
    for (address, record) in entries {
        match serde_json::from_slice::<Lease>(&record) {
            Ok(lease) => leases.push(lease),
            Err(error) => warn!(address, %error, "a lease on disk cannot be read"),
        }
    }
    leases.sort_by_key(|lease| lease.address);
    leases
}

fn work(mut ledger: Ledger, queue: &Receiver<Job>, tell: &mpsc::UnboundedSender<Done>) {
    loop {
        let first = match queue.recv_timeout(QUIET) {
            Ok(job) => job,
            Err(over) => {
                if ledger.is_behind()
                    && let Err(error) = ledger.save(|_| Ok(()))
                {
                    error!(
                        error = model::chain(&error),
                        "the file of leases could not be brought up to date"
                    );
                }
                match over {
                    RecvTimeoutError::Timeout => continue,
                    RecvTimeoutError::Disconnected => return,
                }
            }
        };
        let (mut tokens, mut entries) = (Vec::new(), Vec::new());
        for (token, lease) in std::iter::once(first).chain(queue.try_iter().take(QUEUE)) {
            let record = serde_json::to_vec(&lease)
                .expect("a lease has only names, numbers and times since 1970");
            entries.push((lease.address.to_string(), Some(record)));
            tokens.push(token);
        }
        let written = ledger.write(entries);
        if let Err(error) = &written {
            error!(
                leases = tokens.len(),
                error = model::chain(error),
                "leases could not be written"
            );
        }
        // Nobody may listen any more: we only finish what is queued.
        let _ = tell.send(Done {
            tokens,
            written: written.is_ok(),
        });
    }
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
        let mut written = Vec::new();
        while written.len() < 200 {
            let done = store.done().await.unwrap();
            assert!(done.written);
            written.extend(done.tokens);
        }
        assert_eq!(written, (1..=200).map(Token).collect::<Vec<_>>());
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
