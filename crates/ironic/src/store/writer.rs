//! The one thread that writes: everything that waits goes to disk together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::error;

use super::ledger::Ledger;
use super::{Change, Error, Tables};

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
    pub fn spawn(ledger: Ledger, committed: Arc<RwLock<Tables>>) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let broken = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&broken);
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(move || work(ledger, &queue, &committed, &flag))?;
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

/// As many changes as are written together; more would only delay those in front.
const MOST: usize = 512;
/// Quiet time after which the database file is brought up to date.
const QUIET: Duration = Duration::from_secs(1);

fn work(
    mut ledger: Ledger,
    queue: &mpsc::Receiver<Job>,
    committed: &RwLock<Tables>,
    broken: &AtomicBool,
) {
    loop {
        let healthy = !broken.load(Ordering::Relaxed);
        let first = match queue.recv_timeout(QUIET) {
            Ok(job) => job,
            Err(over) => {
                if healthy && ledger.is_behind() && told(ledger.save()).is_err() {
                    broken.store(true, Ordering::Relaxed);
                }
                match over {
                    RecvTimeoutError::Timeout => continue,
                    RecvTimeoutError::Disconnected => return,
                }
            }
        };
        let mut jobs = vec![first];
        while jobs.len() < MOST
            && let Ok(next) = queue.try_recv()
        {
            jobs.push(next);
        }
        // After one failure the tables in memory are ahead of the disk: nothing may be built on them any more.
        let result = if healthy {
            let changes: Vec<&Change> = jobs.iter().flat_map(|job| &job.changes).collect();
            told(ledger.write(&changes))
        } else {
            Err(Failed)
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

fn told(result: Result<(), redb::Error>) -> Result<(), Failed> {
    result.map_err(|problem| {
        error!(
            error = model::chain(&problem),
            "the store cannot be written; restart when the disk is well again"
        );
        Failed
    })
}
