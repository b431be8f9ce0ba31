//! Which backends a listener has, and one look after another at each of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use protocols::balance::{Outcome, Pace};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::look::Looker;
use super::{Command, Control};
use crate::config::{Listener, LookAt};
use crate::members::Members;

/// Between two tries to get ready for looking.
const RETRY: Duration = Duration::from_secs(1);

pub struct Sources {
    pub members: watch::Receiver<Members>,
    /// The virtual addresses that are here.
    pub held: watch::Receiver<Vec<String>>,
    pub wanted: watch::Receiver<Vec<Listener>>,
}

/// Until the listener is removed or changed.
pub async fn keep(listener: Listener, sources: Sources, control: Control) {
    let Sources {
        mut members,
        held,
        mut wanted,
    } = sources;
    let mut looks = JoinSet::new();
    let mut running: BTreeMap<SocketAddr, AbortHandle> = BTreeMap::new();
    loop {
        let backends = backends(&listener, &members.borrow_and_update());
        running.retain(|address, look| {
            let stays = backends.contains_key(address);
            if !stays {
                look.abort();
            }
            stays
        });
        control.send(Command::Backends {
            listener: listener.name.clone(),
            members: backends.clone(),
        });
        if let Some(look) = &listener.look {
            for address in backends.keys() {
                running.entry(*address).or_insert_with(|| {
                    let task = Look {
                        listener: listener.name.clone(),
                        address: *address,
                        at: look.clone(),
                        brought_by: listener.brought_by.clone(),
                    };
                    looks.spawn(task.repeat(held.clone(), control.clone()))
                });
            }
        }
        tokio::select! {
            () = changed(&mut members) => {}
            () = unwanted(&mut wanted, &listener) => return,
        }
    }
}

/// If nobody will ever tell of other members, those we have stay.
async fn changed(members: &mut watch::Receiver<Members>) {
    if members.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn unwanted(wanted: &mut watch::Receiver<Vec<Listener>>, listener: &Listener) {
    let _ = wanted.wait_for(|wanted| !wanted.contains(listener)).await;
}

/// The written ones, and the members that the listener asks for. The written name wins.
fn backends(listener: &Listener, members: &Members) -> BTreeMap<SocketAddr, String> {
    let mut backends = BTreeMap::new();
    if let Some(from) = &listener.members {
        let like = listener.listen.first();
        for member in members.values() {
            if from.control_plane && !member.control_plane {
                continue;
            }
            // One address per member: of the listener's family if it has one.
            let same = |address: &&std::net::IpAddr| {
                like.is_none_or(|like| like.is_ipv4() == address.is_ipv4())
            };
            let address = member.addresses.iter().find(same);
            if let Some(address) = address.or(member.addresses.first()) {
                backends.insert(SocketAddr::new(*address, from.port), member.name.clone());
            }
        }
    }
    for (name, address) in &listener.backends {
        backends.insert(*address, name.clone());
    }
    backends
}

/// One backend, looked at again and again.
struct Look {
    listener: String,
    address: SocketAddr,
    at: LookAt,
    brought_by: Vec<String>,
}

impl Look {
    async fn repeat(self, mut held: watch::Receiver<Vec<String>>, control: Control) {
        let looker = prepared(&self.listener, self.address, &self.at).await;
        let mut pace = Pace::new(self.at.interval, self.at.timeout, self.at.fall);
        loop {
            let began = Instant::now();
            let looked = tokio::time::timeout(pace.patience(began), looker.look()).await;
            let outcome = looked.unwrap_or(Outcome::Dead);
            if outcome != Outcome::Dead {
                pace.answered(Instant::now(), began.elapsed());
            }
            control.send(Command::Checked {
                listener: self.listener.clone(),
                address: self.address,
                outcome,
            });
            let needed = self.is_needed(&held.borrow_and_update());
            let pause = pace.after(outcome, needed);
            // An address that has just come brings clients at once.
            let come = async { held.wait_for(|held| !needed && self.is_needed(held)).await };
            let come = async {
                if come.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = come => {}
            }
        }
    }

    fn is_needed(&self, held: &[String]) -> bool {
        self.brought_by.is_empty() || self.brought_by.iter().any(|vip| held.contains(vip))
    }
}

/// What is missing (the authority's file, say) may come while the cluster is being made.
async fn prepared(listener: &str, address: SocketAddr, look: &LookAt) -> Looker {
    let mut told = String::new();
    loop {
        match Looker::new(look, address) {
            Ok(looker) => return looker,
            Err(error) => {
                if told != error.to_string() {
                    told = error.to_string();
                    tracing::error!(listener, %address, error = &error as &dyn std::error::Error, "cannot look at this backend yet");
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}
