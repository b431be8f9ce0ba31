//! Looking after an agent at work: how far it is, whether it is done, whether it is still there.
//!
//! An agent calls when its step is over. Asking it meanwhile shows its progress, and makes up for a call that was lost.
//! No lock is taken for it; only what changed is written.

use std::time::{Duration, Instant};

use clients::agent::{Client, Limits, Progress};
use jiff::Timestamp;
use lifecycle::node::{Kind, Power, Runner, StepSpec};
use serde_json::{Value, json};
use tracing::{debug, info, warn};
use uuid::Uuid;

use super::Conductor;
use crate::deploy::agent::{PROGRESS, Verdict, connect, how_far, verdict};
use crate::record::Node;
use crate::store;

#[derive(Default)]
pub struct AgentWatch {
    looked: Option<Instant>,
    /// The connection is kept from look to look; the key says whose it is.
    client: Option<(String, Client)>,
    failures: u32,
    shown: Option<Progress>,
}

/// After so many looks in vain, the BMC is asked whether the host has power; and again after as many.
const SUSPICIOUS: u32 = 3;

impl AgentWatch {
    /// How long until the next look; nothing while no agent is at work.
    pub fn due(&self, conductor: &Conductor, node: &Node) -> Option<Duration> {
        at_work(node)?;
        let looked = self.looked?;
        let next = looked + conductor.deploy.settings.poll();
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Begins to count at the first sight of a running step.
    pub fn see(&mut self, node: &Node) {
        if at_work(node).is_none() {
            *self = Self::default();
        } else if self.looked.is_none() {
            self.looked = Some(Instant::now());
        }
    }

    pub async fn look(&mut self, conductor: &Conductor, node: &Node) {
        let Some(step) = at_work(node) else { return };
        // Counted before the answer: whoever cuts this short does not make it happen more often.
        self.looked = Some(Instant::now());
        let answer = match self.client(node) {
            Ok(client) => client.glance().await.map_err(|error| model::chain(&error)),
            Err(trouble) => Err(trouble),
        };
        match answer {
            Ok(commands) => {
                self.failures = 0;
                let newest = commands
                    .iter()
                    .rev()
                    .find_map(clients::agent::Command::progress);
                let over = !matches!(verdict(node, &step, &commands), Verdict::Running);
                self.report(conductor, node, &step, newest, over).await;
            }
            Err(trouble) => {
                self.failures += 1;
                debug!(node = %node.uuid, trouble, "the agent does not answer");
                if self.failures.is_multiple_of(SUSPICIOUS) {
                    self.suspect(conductor, node, &trouble).await;
                }
            }
        }
    }

    fn client(&mut self, node: &Node) -> Result<&Client, String> {
        let text = |key: &str| node.driver_internal_info.get(key).and_then(Value::as_str);
        let key = format!("{:?} {:?}", text("agent_url"), text("agent_verify_ca"));
        if self.client.as_ref().is_none_or(|(known, _)| *known != key) {
            let limits = Limits {
                connect: Duration::from_secs(5),
                answer: Duration::from_secs(10),
                ..Limits::default()
            };
            self.client = Some((key, connect(node, limits)?));
        }
        let (_, client) = self.client.as_ref().expect("it was just made");
        Ok(client)
    }

    async fn report(
        &mut self,
        conductor: &Conductor,
        node: &Node,
        step: &StepSpec,
        progress: Option<Progress>,
        over: bool,
    ) {
        let now = Timestamp::now();
        // A sign of life counts as a call, but need not be written each time.
        let stale = now.duration_since(node.life.since) > REFRESH || node.life.boot_trace.is_some();
        let news = progress.is_some() && progress != self.shown;
        if !over && !news && !stale {
            return;
        }
        let same = (node.life.operation.started, node.life.operation.at);
        let shown = progress.as_ref().map(|progress| show(step, progress, now));
        let kept = update(conductor, node.uuid, now, |node| {
            if (node.life.operation.started, node.life.operation.at) != same {
                return false;
            }
            node.life.answered(over, now);
            if let Some(shown) = shown {
                node.driver_internal_info.insert(PROGRESS.into(), shown);
            }
            true
        });
        if kept.await {
            self.shown = progress;
        }
    }

    /// Nobody answers: is there still power?
    async fn suspect(&mut self, conductor: &Conductor, node: &Node, trouble: &str) {
        let off = match conductor.driver(&node.driver) {
            Some(driver) => {
                let patience = conductor.options.timers.power_change;
                let read = tokio::time::timeout(patience, driver.read_power(node)).await;
                matches!(read, Ok(Ok(Some(Power::Off))))
            }
            None => false,
        };
        if off {
            warn!(node = %node.uuid, "the host lost its power while its agent was at work");
        } else if self.failures == SUSPICIOUS {
            info!(node = %node.uuid, trouble, "the agent has stopped answering");
        }
        let same = (node.life.operation.started, node.life.operation.at);
        let now = Timestamp::now();
        let trace = format!("its agent stopped answering{}: {trouble}", how_far(node));
        update(conductor, node.uuid, now, |node| {
            if (node.life.operation.started, node.life.operation.at) != same {
                return false;
            }
            let known = node.life.boot_trace.is_some();
            node.life.boot_trace.get_or_insert(trace);
            if off {
                node.life.lost_power();
            }
            off || !known
        })
        .await;
    }
}

/// How old the last sign of life may get before another is written down.
const REFRESH: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

/// The step an agent is at work on.
fn at_work(node: &Node) -> Option<StepSpec> {
    let waits = node.life.state.kind() == Kind::Waiting && !node.life.maintenance;
    let running = node.life.running_step().filter(|_| waits)?;
    (running.by == Runner::Agent).then_some(running)
}

fn show(step: &StepSpec, progress: &Progress, now: Timestamp) -> Value {
    json!({
        "step": step.to_string(),
        "phase": progress.phase,
        "percent": progress.percent,
        "mb_per_s": progress.mb_per_s,
        "bytes": progress.bytes,
        "total": progress.total,
        "updated": crate::api::Stamp(now).to_string(),
    })
}

/// Changes a node that nobody holds, if `change` says so.
async fn update(
    conductor: &Conductor,
    node: Uuid,
    now: Timestamp,
    change: impl FnOnce(&mut Node) -> bool,
) -> bool {
    let changed = conductor.store.change(|tables| {
        let found = tables
            .nodes
            .get(node)
            .filter(|node| node.reservation.is_none());
        let Some(mut node) = found.map(|node| Node::clone(node)) else {
            return Ok((Vec::new(), false));
        };
        if !change(&mut node) {
            return Ok((Vec::new(), false));
        }
        conductor.settle(&mut node, now);
        Ok::<_, store::Error>((vec![node.into()], true))
    });
    match changed.await {
        Ok(changed) => changed,
        Err(error) => {
            warn!(%node, error = model::chain(&error), "progress could not be kept");
            false
        }
    }
}
