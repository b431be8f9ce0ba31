//! The care of nodes: one task for each, which asks `lifecycle::node` what is next, does it, and writes down what came.
//!
//! ```text
//!   api: change(record) ── on disk ──▶ poke(node) ──▶ task of the node
//!                                                       │  next(life): Do ──▶ driver ──▶ change(record) ──┐
//!                                                       │              Wait until a time or a poke        │
//!                                                       └──────────────◀─────────────────────────────────-┘
//! ```
//!
//! The record is the only memory: a task that is killed anywhere goes on from it at the next start. A node that is
//! being worked on carries a reservation, and whoever else wants to change it is refused.

mod agent_watch;
mod dispatch;
mod effects;
pub mod inspection;
mod limit;
mod power;
mod task;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use lifecycle::node::{Kind, PowerPolicy, Settings, Step, Task, Timers, next};
use model::Mac;
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};
use uuid::Uuid;

use crate::api::Stamp;
use crate::deploy;
use crate::deploy::agent::Deploy;
use crate::driver::{Driver, Drivers};
use crate::record::Node;
use crate::store::{self, Change, Store};
pub use effects::{config_drive_key, power_word};
use limit::limit;

/// What the conductor is told by the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name among conductors, and in reservations.
    pub host: String,
    pub group: String,
    pub timers: Timers,
    pub power: PowerPolicy,
    /// What holds for nodes that do not say otherwise.
    pub defaults: Settings,
    /// How many nodes may be in deployment, and in cleaning, at once.
    pub most_deploys: usize,
    pub most_cleans: usize,
    pub deploy: deploy::Settings,
    /// The directory of the state file: images and logs are kept beside it.
    pub state: PathBuf,
}

/// The address of the medium a node is to boot, where this service has media to offer.
pub type MediaUrl = Box<dyn Fn(&Node) -> Option<String> + Send + Sync>;

/// Where a node shows what it waits for, and until when.
const WAITING: &str = "waiting";

fn wait_for(node: &mut Node, what: &str, until: Timestamp) {
    let waiting = json!({"for": what, "until": Stamp(until).to_string()});
    node.driver_internal_info.insert(WAITING.into(), waiting);
}

pub struct Conductor {
    pub options: Options,
    pub started_at: Timestamp,
    store: Arc<Store>,
    drivers: Drivers,
    deploy: Deploy,
    media: MediaUrl,
    tasks: Mutex<HashMap<Uuid, Handle>>,
    stop: watch::Sender<bool>,
}

struct Handle {
    poke: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Conductor {
    /// Takes up every node where the last run left it.
    pub async fn start(
        store: Arc<Store>,
        drivers: Drivers,
        media: MediaUrl,
        options: Options,
    ) -> Result<Arc<Self>, store::Error> {
        let now = Timestamp::now();
        let deploy = Deploy::new(options.deploy.clone(), &options.state);
        let conductor = Arc::new(Self {
            deploy,
            media,
            options,
            started_at: now,
            store,
            drivers,
            tasks: Mutex::new(HashMap::new()),
            stop: watch::Sender::new(false),
        });
        let nodes = conductor
            .store
            .change(|tables| {
                let mut changes = Vec::new();
                for node in tables.nodes.all() {
                    let mut node = Node::clone(node);
                    node.life.restarted(&conductor.options.timers, now);
                    conductor.settle(&mut node, now);
                    changes.push(Change::from(node));
                }
                Ok::<_, store::Error>((
                    changes,
                    tables.nodes.all().map(|node| node.uuid).collect::<Vec<_>>(),
                ))
            })
            .await?;
        info!(
            nodes = nodes.len(),
            host = conductor.options.host,
            "conductor started"
        );
        for node in nodes {
            conductor.poke(node);
        }
        Ok(conductor)
    }

    /// There is news about a node: its task looks at it.
    pub fn poke(self: &Arc<Self>, node: Uuid) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if *self.stop.borrow() {
            return;
        }
        if let Some(handle) = tasks.get(&node)
            && !handle.task.is_finished()
        {
            handle.poke.notify_one();
            return;
        }
        let poke = Arc::new(Notify::new());
        let task = tokio::spawn(task::run(
            Arc::clone(self),
            node,
            Arc::clone(&poke),
            self.stop.subscribe(),
        ));
        tasks.insert(node, Handle { poke, task });
    }

    /// A node is gone from the store, and so its task ends.
    pub fn forget(&self, node: Uuid) {
        let handle = self
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&node);
        if let Some(handle) = handle {
            handle.poke.notify_one();
        }
    }

    /// Ends all tasks at the next place where they can be taken up again.
    pub async fn stop(&self, patience: Duration) {
        self.stop.send_replace(true);
        let tasks: Vec<Handle> = self
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain()
            .map(|(_, handle)| handle)
            .collect();
        let aborts: Vec<_> = tasks
            .iter()
            .map(|handle| handle.task.abort_handle())
            .collect();
        let all = futures::future::join_all(tasks.into_iter().map(|handle| handle.task));
        if tokio::time::timeout(patience, all).await.is_err() {
            warn!("work goes on at some nodes; it is taken up at the next start");
            aborts.iter().for_each(tokio::task::AbortHandle::abort);
        }
        self.drivers.close().await;
    }

    /// A host of ours was seen on its way: it got an address, it fetched the kernel. Shown to those who wait for it.
    pub async fn saw(self: &Arc<Self>, mac: Mac, what: &str) -> Result<(), store::Error> {
        let seen = self.store.change(|tables| {
            let port = tables.ports.named(&mac.to_string());
            let Some(node) = port.and_then(|port| tables.nodes.get(port.node_uuid)) else {
                return Ok((Vec::new(), None));
            };
            if node.life.boot_trace.as_deref() == Some(what) {
                return Ok((Vec::new(), None));
            }
            let mut node = Node::clone(node);
            node.life.boot_trace = Some(what.to_owned());
            self.settle(&mut node, Timestamp::now());
            let uuid = node.uuid;
            Ok::<_, store::Error>((vec![node.into()], Some(uuid)))
        });
        if let Some(node) = seen.await? {
            self.poke(node);
        }
        Ok(())
    }

    /// Everything wrong with what a node is to be deployed with.
    pub fn deploy_problems(&self, node: &Node) -> Vec<String> {
        // As the next operation would see it.
        let mut node = node.clone();
        node.life.operation.drivers = node.interfaces.drivers();
        self.deploy.problems(&node, Task::Deploy)
    }

    pub fn driver(&self, name: &str) -> Option<&Driver> {
        self.drivers.find(name)
    }

    fn media_url(&self, node: &Node) -> Option<String> {
        (self.media)(node)
    }

    /// Brings what depends on the rest of the record up to date; to be called before any change of a node is stored.
    pub fn settle(&self, node: &mut Node, now: Timestamp) {
        node.settle(self.options.defaults);
        node.reservation = self.busy(node, now).then(|| self.options.host.clone());
        match next(&node.life, &self.options.timers, now) {
            Step::Wait { reason, until } => wait_for(node, &reason.to_string(), until),
            Step::Do(work) => {
                let until = now.saturating_add(limit(&work, &self.options.timers));
                wait_for(node, &work.describe(), until.unwrap_or(Timestamp::MAX));
            }
            Step::Done | Step::Fail { .. } => {
                node.driver_internal_info.remove(WAITING);
            }
        }
    }

    /// Whether somebody works on the node, or is about to.
    pub fn busy(&self, node: &Node, now: Timestamp) -> bool {
        node.errand.is_some()
            || match node.life.state.kind() {
                Kind::Working => true,
                Kind::Waiting | Kind::Failed => {
                    matches!(
                        next(&node.life, &self.options.timers, now),
                        Step::Do(_) | Step::Fail { .. }
                    )
                }
                Kind::Stable | Kind::Held => false,
            }
    }
}
