//! How far a booting machine came: said by whoever serves it, told to its node, or noted if it is nobody's.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use model::Mac;
use tokio::sync::{mpsc, watch};
use tracing::warn;

use super::notebook::{About, Notebook};
use crate::conductor::Conductor;
use crate::store::{self, Change, Store};

/// News that may wait; more is dropped, for a packet must not.
const QUEUE: usize = 1024;
/// Progress of one machine is told so often.
const EVERY: Duration = Duration::from_secs(2);
/// The notebook is written so often.
const WRITE_EVERY: Duration = Duration::from_secs(2);
const TELL_WITHIN: Duration = Duration::from_secs(10);
/// Machines whose last step is remembered, so that it is not told twice.
const MOST: usize = 4096;

/// A machine was seen.
#[derive(Debug)]
struct Sighting {
    mac: Mac,
    what: String,
    about: About,
    progress: bool,
}

/// Given to all who see machines.
#[derive(Debug, Clone)]
pub struct Sightings {
    news: mpsc::Sender<Sighting>,
    /// Whose address is whose.
    addresses: Arc<RwLock<BTreeMap<IpAddr, Mac>>>,
}

impl Sightings {
    /// Never blocks.
    pub fn saw(&self, mac: Mac, what: impl Into<String>, about: About) {
        self.send(mac, what.into(), about, false);
    }

    /// One of many steps of the same kind.
    pub fn progress(&self, mac: Mac, what: impl Into<String>) {
        self.send(mac, what.into(), About::default(), true);
    }

    pub fn leased(&self, address: IpAddr, mac: Mac) {
        self.book(|book| _ = book.insert(address, mac));
    }

    pub fn ended(&self, address: IpAddr) {
        self.book(|book| _ = book.remove(&address));
    }

    /// The machine at an address, if it has it from us.
    pub fn at(&self, address: IpAddr) -> Option<Mac> {
        let book = self
            .addresses
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        book.get(&address.to_canonical()).copied()
    }

    /// Machines with an address of ours.
    pub fn count(&self) -> usize {
        let book = self
            .addresses
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        book.len()
    }

    fn book(&self, change: impl FnOnce(&mut BTreeMap<IpAddr, Mac>)) {
        change(
            &mut self
                .addresses
                .write()
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    fn send(&self, mac: Mac, what: String, about: About, progress: bool) {
        _ = self.news.try_send(Sighting {
            mac,
            what,
            about,
            progress,
        });
    }
}

/// Tells what is seen, until all who could see are gone.
pub struct Teller {
    news: mpsc::Receiver<Sighting>,
    pub store: Arc<Store>,
    pub conductor: Arc<Conductor>,
    pub notebook: Arc<Notebook>,
    last: BTreeMap<Mac, (String, Instant)>,
}

pub fn start(
    store: Arc<Store>,
    conductor: Arc<Conductor>,
    notebook: Arc<Notebook>,
) -> (Sightings, Teller) {
    let (send, news) = mpsc::channel(QUEUE);
    let sightings = Sightings {
        news: send,
        addresses: Arc::default(),
    };
    let teller = Teller {
        news,
        store,
        conductor,
        notebook,
        last: BTreeMap::new(),
    };
    (sightings, teller)
}

impl Teller {
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut write = tokio::time::interval(WRITE_EVERY);
        write.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = stop.changed() => break,
                _ = write.tick() => self.write().await,
                sighting = self.news.recv() => match sighting {
                    Some(sighting) => self.tell(sighting).await,
                    None => break,
                },
            }
        }
        self.write().await;
    }

    async fn tell(&mut self, sighting: Sighting) {
        let Sighting {
            mac,
            what,
            about,
            progress,
        } = sighting;
        let known = {
            let tables = self.store.read();
            tables.ports.named(&mac.to_string()).is_some()
        };
        if !known {
            return self.notebook.note(mac, &what, &about, Timestamp::now());
        }
        if let Some((last, at)) = self.last.get(&mac)
            && (*last == what || progress && at.elapsed() < EVERY)
        {
            return;
        }
        if self.last.len() >= MOST {
            self.last.clear();
        }
        self.last.insert(mac, (what.clone(), Instant::now()));
        self.notebook.forget(mac);
        let told = tokio::time::timeout(TELL_WITHIN, self.conductor.saw(mac, &what)).await;
        match told {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%mac, what, error = model::chain(&error), "not noted"),
            Err(_) => warn!(%mac, what, "not noted in time"),
        }
    }

    async fn write(&self) {
        let Some(value) = self.notebook.unwritten() else {
            return;
        };
        let put = Change::PutDocument {
            key: Notebook::DOCUMENT.into(),
            value,
        };
        let written = self
            .store
            .change(|_| Ok::<_, store::Error>((vec![put], ())))
            .await;
        if let Err(error) = written {
            warn!(
                error = model::chain(&error),
                "the list of discovered machines was not written"
            );
        }
    }
}
