//! Keeps resolv.conf pointing at this node first, and gives the original back.
//!
//! The original is on disk under `saved` before ours takes its place, so that no crash loses it. Whoever
//! rewrites the file meanwhile (NetworkManager, dhclient, a person) has written a new original: its servers
//! become the upstreams, and ours goes in front again.
//!
//! systemd-resolved takes any file that is not its own as a list of servers to ask. With ours in place its stub would
//! ask us, and we would ask the stub; so where the original names the stub, its upstreams become ours.

mod content;
mod file;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::dns::Resolv;
use content::{Content, is_ours};
use file::Original;

const LOOK_EVERY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("{path} is not a saved original; put a good resolv.conf in place and delete it")]
    Saved { path: PathBuf },
    #[error("resolv.conf was not restored within {} s", PATIENCE.as_secs())]
    Restore,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    pub path: PathBuf,
    /// Ours is in place.
    pub kept: bool,
    /// How often someone else wrote it.
    pub rewritten: u64,
    pub problem: Option<String>,
}

/// A kept resolv.conf. Dropping it leaves ours in place; [`Keeper::stop`] restores the original.
#[derive(Debug)]
pub struct Keeper {
    upstreams: watch::Receiver<Vec<SocketAddr>>,
    status: watch::Receiver<Status>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), Error>>,
}

/// Puts ours in place at once, then watches.
pub fn start(config: &Resolv, own: Vec<IpAddr>, domain: &str) -> Result<Keeper, Error> {
    let mut desk = Desk {
        config: config.clone(),
        own,
        domain: domain.to_owned(),
        rewritten: 0,
        settling: None,
    };
    let found = desk.look()?;
    let (publish, upstreams) = watch::channel(found.upstreams);
    let (show, status) = watch::channel(Status {
        path: config.path.clone(),
        kept: config.write,
        rewritten: 0,
        problem: None,
    });
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(watch_file(desk, publish, show, stopped));
    Ok(Keeper {
        upstreams,
        status,
        stop: Some(stop),
        task,
    })
}

impl Keeper {
    pub fn upstreams(&self) -> watch::Receiver<Vec<SocketAddr>> {
        self.upstreams.clone()
    }

    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Puts the original back.
    pub async fn stop(mut self) -> Result<(), Error> {
        drop(self.stop.take());
        match timeout(PATIENCE, &mut self.task).await {
            Ok(Ok(restored)) => restored,
            Ok(Err(_)) | Err(_) => Err(Error::Restore),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // After a stop the task has ended.
        if self.stop.take().is_some() {
            self.task.abort();
        }
    }
}

async fn watch_file(
    mut desk: Desk,
    upstreams: watch::Sender<Vec<SocketAddr>>,
    status: watch::Sender<Status>,
    mut stop: oneshot::Receiver<()>,
) -> Result<(), Error> {
    while timeout(LOOK_EVERY, &mut stop).await.is_err() {
        let problem = match desk.look() {
            Ok(found) => {
                if found.replaced {
                    tracing::info!(path = %desk.config.path.display(), upstreams = ?found.upstreams, "resolv.conf was rewritten: ours is in front again");
                }
                upstreams.send_if_modified(|known| {
                    let changed = *known != found.upstreams;
                    known.clone_from(&found.upstreams);
                    changed
                });
                None
            }
            Err(error) => Some(format!("{error}: {}", source(&error))),
        };
        status.send_if_modified(|shown| {
            if problem.is_some() && problem != shown.problem {
                tracing::warn!(problem, "resolv.conf is not kept");
            }
            let now = Status {
                kept: problem.is_none() && desk.config.write,
                rewritten: desk.rewritten,
                problem,
                ..shown.clone()
            };
            let changed = now != *shown;
            *shown = now;
            changed
        });
    }
    desk.restore()
}

fn source(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(String::new, ToString::to_string)
}

struct Desk {
    config: Resolv,
    own: Vec<IpAddr>,
    domain: String,
    rewritten: u64,
    /// Another's file as it was at the last look: it may be half written.
    settling: Option<Original>,
}

struct Found {
    upstreams: Vec<SocketAddr>,
    replaced: bool,
}

impl Desk {
    /// Looks at the file, and puts ours in place if it is another's.
    fn look(&mut self) -> Result<Found, Error> {
        let path = &self.config.path;
        let now = Original::read(path)?;
        let ours = now.is_file() && is_ours(now.text());
        let saved = Original::load(&self.config.saved)?;
        let (original, fresh) = match saved {
            // Ours without an original: someone deleted what was saved. There is nothing better than ours.
            None if ours => (now.clone(), false),
            // Deleted, or by another and not yet the same twice: what was saved holds.
            Some(saved) if ours || now == Original::Absent => (saved, false),
            Some(saved) if self.settling.as_ref() != Some(&now) => {
                self.settling = Some(now.clone());
                (saved, false)
            }
            Some(_) | None => (now.clone(), true),
        };
        let settling = !ours && !fresh && now != Original::Absent;
        let text = match &self.config.upstreams_from {
            Some(other) => Original::read(other)?.into_text(),
            None => original.servers_through(path)?,
        };
        let upstreams = Content::parse(&text).upstreams(&self.own);
        if !self.config.write || settling {
            return Ok(Found {
                upstreams,
                replaced: false,
            });
        }
        self.settling = None;
        if fresh {
            original.save(&self.config.saved)?;
            self.rewritten += 1;
        }
        let wanted = Content::parse(&text).render(&self.own, &self.domain);
        let replaced = !now.is_file() || now.text() != wanted;
        if replaced {
            file::replace(path, wanted.as_bytes(), now.mode())?;
        }
        Ok(Found {
            upstreams,
            replaced,
        })
    }

    /// Puts the original back, unless someone else has written meanwhile.
    fn restore(&self) -> Result<(), Error> {
        if !self.config.write {
            return Ok(());
        }
        let now = Original::read(&self.config.path)?;
        let Some(saved) = Original::load(&self.config.saved)? else {
            return Ok(());
        };
        if now.is_file() && is_ours(now.text()) {
            saved.restore(&self.config.path)?;
        }
        remove(&self.config.saved)
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Write {
            path: path.to_owned(),
            source,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
