//! Lines to BMCs: one for each login, shared by all nodes behind it, kept while it is used and given back when not.
//!
//! ```text
//!   node ─┐                ┌─ backoff: may it be asked now?
//!   node ─┼─ talk(access) ─┤
//!   node ─┘                └─ client: one session, few requests at once
//! ```
//!
//! A BMC that does not answer is left alone for a growing while, and whoever asks meanwhile is told why and for how
//! long. Only its own nodes notice.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use clients::{ipmi, redfish};
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::backoff::{Advice, Asker, Backoff};
use super::error::Error;
use super::info::{Access, Verify};
use super::patience::Options;

/// A server as its BMC shows it.
#[derive(Clone)]
pub enum Bmc {
    Redfish(Arc<redfish::Client>),
    Ipmi(Arc<ipmi::Client>),
}

pub struct Lines {
    pub options: Options,
    open: Mutex<HashMap<Key, Arc<Line>>>,
    sweeper: Mutex<Option<JoinHandle<()>>>,
}

/// A digest of everything that makes a login, so that a changed password is another line.
type Key = [u8; 32];

struct Line {
    /// For people.
    name: String,
    backoff: Mutex<Backoff>,
    /// Somebody's talk has ended: it is known whether the BMC answers.
    ended: Notify,
    usage: Mutex<Usage>,
    clients: tokio::sync::Mutex<Clients>,
}

struct Usage {
    users: usize,
    last: Instant,
}

enum Clients {
    None,
    Redfish {
        base: Box<redfish::Client>,
        systems: HashMap<Option<String>, Arc<redfish::Client>>,
    },
    Ipmi(Arc<ipmi::Client>),
}

impl Lines {
    pub fn new(options: Options) -> Arc<Self> {
        Arc::new(Self {
            options,
            open: Mutex::new(HashMap::new()),
            sweeper: Mutex::new(None),
        })
    }

    /// Does something with a BMC, once it is its turn.
    pub async fn talk<T>(
        self: &Arc<Self>,
        access: &Access,
        asker: Asker,
        act: impl AsyncFnOnce(&Bmc) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let line = self.line(access);
        line.turn(asker).await?;
        let _user = User::of(&line);
        let work = async {
            let bmc = line.bmc(access, &self.options).await?;
            act(&bmc).await
        };
        // Boxed: it is part of every future that deals with a BMC.
        let result = Box::pin(work).await;
        let result = line.note(result);
        line.ended.notify_waiters();
        result
    }

    /// Gives every session back.
    pub async fn close(&self) {
        let lines: Vec<_> = lock(&self.open).drain().map(|(_, line)| line).collect();
        if let Some(sweeper) = lock(&self.sweeper).take() {
            sweeper.abort();
        }
        let all = futures::future::join_all(lines.iter().map(|line| line.close()));
        if tokio::time::timeout(CLOSE, all).await.is_err() {
            warn!("some BMCs did not take their sessions back in time");
        }
    }

    fn line(self: &Arc<Self>, access: &Access) -> Arc<Line> {
        let mut lines = lock(&self.open);
        let line = lines.entry(key(access)).or_insert_with(|| {
            Arc::new(Line {
                name: name(access),
                backoff: Mutex::new(Backoff::new(self.options.backoff())),
                ended: Notify::new(),
                usage: Mutex::new(Usage {
                    users: 0,
                    last: Instant::now(),
                }),
                clients: tokio::sync::Mutex::new(Clients::None),
            })
        });
        let line = Arc::clone(line);
        drop(lines);
        let mut sweeper = lock(&self.sweeper);
        if sweeper.as_ref().is_none_or(JoinHandle::is_finished) {
            *sweeper = Some(tokio::spawn(sweep(
                Arc::downgrade(self),
                self.options.idle(),
            )));
        }
        line
    }

    /// Closes what has not been used for a while. Returns whether anything is left.
    async fn sweep(&self) -> bool {
        let now = Instant::now();
        let idle = self.options.idle();
        let unused: Vec<_> = lock(&self.open)
            .iter()
            .filter(|(_, line)| line.unused_for(now) >= Some(idle))
            .map(|(key, line)| (*key, Arc::clone(line)))
            .collect();
        for (key, line) in unused {
            line.close().await;
            let mut lines = lock(&self.open);
            if line.unused_for(now).is_some() && lock(&line.backoff).forgettable(now) {
                lines.remove(&key);
            }
        }
        !lock(&self.open).is_empty()
    }
}

/// A BMC may be silent just when its session is to be given back.
const CLOSE: Duration = Duration::from_secs(5);

async fn sweep(lines: Weak<Lines>, idle: Duration) {
    loop {
        tokio::time::sleep((idle / 3).max(Duration::from_millis(50))).await;
        let Some(lines) = lines.upgrade() else { return };
        if !lines.sweep().await {
            return;
        }
    }
}

impl Line {
    /// Whoever comes while another tries shares what that one finds.
    async fn turn(&self, asker: Asker) -> Result<(), Error> {
        let mut waits = asker == Asker::Work;
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            let asker = if waits { asker } else { Asker::Look };
            let advice = lock(&self.backoff).advice(Instant::now(), asker);
            match advice {
                Advice::Ask => return Ok(()),
                Advice::Wait {
                    pause, trial: true, ..
                } if waits => {
                    // If it is over without a word, whoever tried is lost.
                    _ = tokio::time::timeout(pause, ended).await;
                    waits = false;
                }
                Advice::Wait { reason, pause, .. } => {
                    return Err(Error::Silent {
                        bmc: self.name.clone(),
                        reason,
                        pause,
                    });
                }
            }
        }
    }

    async fn bmc(&self, access: &Access, options: &Options) -> Result<Bmc, Error> {
        let mut clients = self.clients.lock().await;
        match access {
            Access::Ipmi(access) => {
                if let Clients::Ipmi(client) = &*clients {
                    return Ok(Bmc::Ipmi(Arc::clone(client)));
                }
                let mut config = access.config.clone();
                config.limits = options.ipmi();
                let client = Arc::new(ipmi::Client::new(config).await?);
                *clients = Clients::Ipmi(Arc::clone(&client));
                Ok(Bmc::Ipmi(client))
            }
            Access::Redfish(access) => {
                if !matches!(*clients, Clients::Redfish { .. }) {
                    let mut config = access.config.clone();
                    config.limits = options.redfish();
                    config.verify = trusted(&access.verify).await?;
                    *clients = Clients::Redfish {
                        base: Box::new(redfish::Client::new(config)?),
                        systems: HashMap::new(),
                    };
                }
                let Clients::Redfish { base, systems } = &mut *clients else {
                    unreachable!("it was made just now")
                };
                let system = access.config.system.clone();
                let client = systems
                    .entry(system.clone())
                    .or_insert_with(|| Arc::new(base.of_system(system)));
                Ok(Bmc::Redfish(Arc::clone(client)))
            }
        }
    }

    /// Keeps in mind whether the BMC answered.
    fn note<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        let Err(error) = result else {
            lock(&self.backoff).answered();
            return result;
        };
        if !error.is_silence() {
            lock(&self.backoff).answered();
            return Err(error);
        }
        let reason = error.root();
        let pause = lock(&self.backoff).silent(Instant::now(), &reason, rand::random());
        info!(bmc = self.name, reason, ?pause, "the BMC does not answer");
        Err(Error::Silent {
            bmc: self.name.clone(),
            reason,
            pause,
        })
    }

    fn unused_for(&self, now: Instant) -> Option<Duration> {
        let usage = lock(&self.usage);
        (usage.users == 0).then(|| now.saturating_duration_since(usage.last))
    }

    async fn close(&self) {
        let clients = std::mem::replace(&mut *self.clients.lock().await, Clients::None);
        match clients {
            Clients::Redfish { base, .. } => {
                if tokio::time::timeout(CLOSE, base.close()).await.is_err() {
                    warn!(bmc = self.name, "the BMC did not take its session back");
                }
            }
            // Its task closes the session when nobody holds the client any more.
            Clients::Ipmi(client) => drop(client),
            Clients::None => {}
        }
    }
}

/// Somebody uses a line, for as long as this lives.
struct User<'a>(&'a Line);

impl<'a> User<'a> {
    fn of(line: &'a Line) -> Self {
        lock(&line.usage).users += 1;
        Self(line)
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        let mut usage = lock(&self.0.usage);
        usage.users -= 1;
        usage.last = Instant::now();
    }
}

async fn trusted(verify: &Verify) -> Result<redfish::Verify, Error> {
    match verify {
        Verify::System => Ok(redfish::Verify::System),
        Verify::Nobody => Ok(redfish::Verify::Nobody),
        Verify::File(path) => {
            let read = tokio::fs::read(path).await;
            read.map(redfish::Verify::Pem)
                .map_err(|source| Error::Certificates {
                    path: path.clone(),
                    source,
                })
        }
    }
}

fn name(access: &Access) -> String {
    match access {
        Access::Redfish(redfish) => {
            let url = &redfish.config.address;
            let host = url.host_str().unwrap_or_default();
            match url.port() {
                Some(port) => format!("{host}:{port}"),
                None => host.to_owned(),
            }
        }
        Access::Ipmi(ipmi) => ipmi.config.address.clone(),
    }
}

fn key(access: &Access) -> Key {
    let mut digest = Sha256::new();
    let mut add = |part: &str| {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    };
    match access {
        Access::Redfish(access) => {
            let config = &access.config;
            add("redfish");
            add(config.address.as_str());
            add(&config.username);
            add(config.password.expose());
            add(&format!("{:?} {:?}", access.verify, config.auth));
        }
        Access::Ipmi(access) => {
            let config = &access.config;
            add("ipmi");
            add(&config.address);
            add(&config.username);
            add(config.password.expose());
            add(&format!("{:?} {:?}", config.privilege, config.suites));
        }
    }
    digest.finalize().into()
}

/// The lock, whatever became of who held it before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
