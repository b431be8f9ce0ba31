//! The task of one node.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lifecycle::node::{Outcome, Step, View, Work, next};
use tokio::sync::{Notify, watch};
use tracing::{debug, error, warn};
use uuid::Uuid;

use super::agent_watch::AgentWatch;
use super::dispatch::Performed;
use super::effects::{learn, note, powered, show_step, side_effects, tell_step};
use super::limit::limit;
use super::power::PowerWatch;
use super::{Conductor, inspection};
use crate::deploy::agent::keep_mark;
use crate::driver::{Driver, Trouble};
use crate::record::{Errand, Hardware, Node, Record};
use crate::store::{self, Change, Tables};

/// Cares for a node until it is gone, or the service stops.
pub async fn run(
    conductor: Arc<Conductor>,
    node: Uuid,
    poke: Arc<Notify>,
    mut stop: watch::Receiver<bool>,
) {
    let mut watch = PowerWatch::new(node);
    let mut agent = AgentWatch::default();
    // The node's life when it was last acted upon.
    let mut before: Option<View> = None;
    while !*stop.borrow() {
        let found = conductor.store.read().nodes.get(node).cloned();
        let Some(record) = found else { return };
        let todo = todo(&conductor, &record);
        // Work that changes nothing would be done for ever; that it does is a fault of ours, and not the node's.
        let stuck = before
            .replace(record.life.clone())
            .is_some_and(|before| before == record.life);
        let done = match todo {
            Todo::Work(_) | Todo::Move if stuck => {
                error!(node = %node, state = %record.life.state, "work on the node leads nowhere");
                Err(Rest::Trouble)
            }
            Todo::Errand(errand) => conductor.errand(&record, errand).await,
            Todo::Work(work) => conductor.work(&record, work).await,
            Todo::Move => conductor.change(node, |_, _| Vec::new()).await,
            Todo::Wait(until) => Err(Rest::Until(until)),
            Todo::Nothing => Err(Rest::ForGood),
        };
        let pause = match done {
            Ok(()) => continue,
            Err(Rest::Until(until)) => Some(until_then(until)),
            Err(Rest::ForGood) => None,
            Err(Rest::Trouble) => Some(AFTER_TROUBLE),
        };
        before = None;
        agent.see(&record);
        let ask = agent.due(&conductor, &record);
        if ask == Some(Duration::ZERO) {
            // A call of the agent makes the question idle.
            tokio::select! {
                () = agent.look(&conductor, &record) => {}
                () = poke.notified() => {}
                _ = stop.changed() => {}
            }
            continue;
        }
        let look = watch.due(&conductor, &record);
        if look == Some(Duration::ZERO) {
            // A BMC that does not answer does not keep a client's wish waiting.
            tokio::select! {
                () = watch.look(&conductor, &record) => {}
                () = poke.notified() => {}
                _ = stop.changed() => {}
            }
            continue;
        }
        // Whichever comes first.
        let pause = [pause, look, ask].into_iter().flatten().min();
        tokio::select! {
            () = poke.notified() => {}
            _ = stop.changed() => {}
            () = sleep(pause) => {}
        }
    }
}

/// Our own failure, such as a full disk: wait before trying again.
const AFTER_TROUBLE: Duration = Duration::from_secs(10);

enum Todo {
    Errand(Errand),
    Work(Work),
    /// Nothing in the world; the next change of the record carries it out.
    Move,
    Wait(Timestamp),
    Nothing,
}

pub(super) enum Rest {
    Until(Timestamp),
    ForGood,
    Trouble,
}

fn todo(conductor: &Conductor, node: &Node) -> Todo {
    if let Some(errand) = &node.errand {
        return Todo::Errand(errand.clone());
    }
    match next(&node.life, &conductor.options.timers, Timestamp::now()) {
        Step::Do(Work::Move(_) | Work::Advance) | Step::Fail { .. } => Todo::Move,
        Step::Do(work) => Todo::Work(work),
        Step::Wait { reason, until } => {
            debug!(node = %node.uuid, state = %node.life.state, %reason, %until, "waiting");
            Todo::Wait(until)
        }
        Step::Done => Todo::Nothing,
    }
}

impl Conductor {
    async fn work(&self, node: &Node, work: Work) -> Result<(), Rest> {
        let step =
            if let Work::RunStep(step) | Work::StartStep(step) | Work::WriteImage(step) = &work {
                Some(step)
            } else {
                None
            };
        let mut mark = None;
        let mut failed = None;
        if let Work::StartStep(_) | Work::WriteImage(_) = &work {
            match self.deploy.mark(node).await {
                Ok(newest) => mark = newest,
                Err(did) => failed = Some(Performed::from(did)),
            }
        }
        // What may not be done twice, or is to be seen, is noted first.
        let mut noted = None;
        let reboots = matches!(work, Work::PowerCycle | Work::BootAgain { .. });
        if !work.repeatable() || step.is_some() || node.reservation.is_none() || reboots {
            let (work, host) = (&work, &self.options.host);
            let kept = self.store.change(|tables| {
                let Some(node) = tables.nodes.get(node.uuid) else {
                    return Ok((Vec::new(), None));
                };
                let mut node = Node::clone(node);
                if let Some(mark) = mark {
                    keep_mark(&mut node, mark);
                }
                node.life.starting(work);
                node.reservation = Some(host.clone());
                if reboots {
                    // A fast host looks us up again before its BMC has said that it is on.
                    node.forget_agent();
                }
                if let Some(step) = step {
                    show_step(&mut node, step);
                }
                Ok::<_, store::Error>((vec![node.clone().into()], Some(node)))
            });
            noted = kept.await.map_err(|error| trouble(&error))?;
        }
        let node = noted.as_ref().unwrap_or(node);
        if work == Work::RecordInventory {
            return self.record_inventory(node, work).await;
        }
        let report = match failed {
            Some(failed) => failed,
            None => self.perform_in_time(node, &work).await,
        };
        if let Outcome::Failed { trouble, .. } = &report.outcome {
            warn!(node = %node.uuid, work = work.describe(), trouble, "work failed");
        }
        self.change(node.uuid, move |node, tables| {
            let mut found = Vec::new();
            if let Some(result) = &report.found {
                let (inventory, more) = (&result.inventory, &result.plugin_data);
                found.push(inspection::document(node.uuid, inventory, more));
                if work == Work::StartInspection {
                    found.extend(inspection::learn(node, tables, inventory, None));
                }
            }
            if let Some(hardware) = report.hardware {
                learn(node, hardware);
            }
            found.extend(side_effects(node, &work, tables));
            tell_step(node, &work, &report.outcome, &self.options.host);
            if let Some(note) = report.note {
                note(node);
            }
            record(&self.options.timers, node, &work, report.outcome);
            found
        })
        .await
    }

    /// Boxed, for it is the larger part of every node's task and most of them rest.
    async fn perform_in_time(&self, node: &Node, work: &Work) -> Performed {
        let limit = limit(work, &self.options.timers);
        let work = tokio::time::timeout(limit, Box::pin(self.perform(node, work))).await;
        work.unwrap_or_else(|_| {
            Performed::failed(
                format!("it did not come to an end within {} s", limit.as_secs()),
                true,
            )
        })
    }

    async fn record_inventory(&self, node: &Node, work: Work) -> Result<(), Rest> {
        let sent = self
            .store
            .document(&inspection::sent_key(node.uuid))
            .map_err(|error| trouble(&error))?;
        self.change(node.uuid, move |node, tables| {
            let (outcome, changes) = match sent {
                Some(sent) => inspection::record(node, tables, &sent),
                None => (
                    Outcome::Failed {
                        trouble: "nothing was sent".into(),
                        again: false,
                    },
                    Vec::new(),
                ),
            };
            record(&self.options.timers, node, &work, outcome);
            changes
        })
        .await
    }

    async fn errand(&self, node: &Node, errand: Errand) -> Result<(), Rest> {
        let result = match self.driver(&node.driver) {
            Some(driver) => {
                run_errand(driver, node, &errand, self.options.timers.power_change).await
            }
            None => Err(Trouble(format!("no driver is called {:?}", node.driver))),
        };
        self.change(node.uuid, move |node, _| {
            node.errand = None;
            match result {
                Ok(hardware) => {
                    learn(node, hardware);
                    if let Errand::Power { target, .. } = errand {
                        powered(node, target);
                    }
                }
                Err(trouble) => {
                    warn!(node = %node.uuid, %trouble, "errand failed");
                    node.life.last_error = Some(trouble.to_string());
                }
            }
            Vec::new()
        })
        .await
    }

    /// Changes the record, carries out all that needs nothing of the world, and writes the result.
    pub(super) async fn change(
        &self,
        node: Uuid,
        change: impl FnOnce(&mut Node, &Tables) -> Vec<Change>,
    ) -> Result<(), Rest> {
        let now = Timestamp::now();
        let changed = self.store.change(|tables| {
            let Some(before) = tables.nodes.get(node) else {
                return Ok((Vec::new(), ()));
            };
            let mut node = Node::clone(before);
            let mut changes = change(&mut node, tables);
            self.move_on(&mut node, now);
            note(before, &mut node, &self.options.host, now);
            node.updated_at = Some(now);
            self.settle(&mut node, now);
            changes.push(Record::from(node).into());
            Ok::<_, store::Error>((changes, ()))
        });
        changed.await.map_err(|error| trouble(&error))
    }

    /// Everything up to the next thing that has to be done in the world.
    fn move_on(&self, node: &mut Node, now: Timestamp) {
        let timers = &self.options.timers;
        // No operation has as many stages; a circle would be a fault of the tables.
        for _ in 0..100 {
            let result = match next(&node.life, timers, now) {
                Step::Do(work @ (Work::Move(_) | Work::Advance)) => {
                    node.life.record(&work, Outcome::Done, timers, now)
                }
                Step::Fail { problem } => node.life.fail(&problem, now),
                Step::Do(_) | Step::Wait { .. } | Step::Done => return,
            };
            if let Err(impossible) = result {
                error!(node = %node.uuid, %impossible, "the lifecycle contradicts itself");
                return;
            }
        }
    }
}

async fn run_errand(
    driver: &Driver,
    node: &Node,
    errand: &Errand,
    patience: Duration,
) -> Result<Hardware, Trouble> {
    let work = async {
        match errand {
            Errand::Power { target, .. } => driver
                .set_power(node, *target)
                .await
                .map(|(_, hardware)| hardware),
            Errand::BootMode(mode) => driver.set_boot_mode(node, *mode).await,
            Errand::SecureBoot(on) => driver.set_secure_boot(node, *on).await,
            Errand::Insert(medium) => driver.insert(node, medium.clone()).await,
            Errand::Eject { device_types } => driver.eject(node, device_types).await,
        }
    };
    let patience = match errand {
        Errand::Power {
            timeout: Some(seconds),
            ..
        } => Duration::from_secs(*seconds),
        Errand::Power { .. }
        | Errand::BootMode(_)
        | Errand::SecureBoot(_)
        | Errand::Insert(_)
        | Errand::Eject { .. } => patience,
    };
    let late = || {
        Trouble(format!(
            "the hardware did not do it within {} s",
            patience.as_secs()
        ))
    };
    tokio::time::timeout(patience, work)
        .await
        .unwrap_or_else(|_| Err(late()))
}

fn record(timers: &lifecycle::node::Timers, node: &mut Node, work: &Work, outcome: Outcome) {
    if let Err(impossible) = node.life.record(work, outcome, timers, Timestamp::now()) {
        error!(node = %node.uuid, %impossible, "the lifecycle contradicts itself");
    }
}

fn trouble(error: &store::Error) -> Rest {
    error!(
        error = model::chain(error),
        "the record of a node could not be kept"
    );
    Rest::Trouble
}

fn until_then(until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default()
        + Duration::from_millis(1)
}

async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}
