//! Is what this node serves well? Each check is a task that probes, counts, and publishes.

mod probe;
mod tally;

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::config::Check;
use crate::lb::Serving;
pub use probe::Error;
use probe::Prober;
use tally::Tally;

/// The names of the checks that pass.
pub type Passing = BTreeSet<String>;

/// All checks of this node; they end when it is dropped.
#[derive(Debug)]
pub struct Checks {
    running: BTreeMap<String, Running>,
    publish: watch::Sender<Passing>,
    serving: watch::Receiver<Serving>,
}

#[derive(Debug)]
struct Running {
    check: Check,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Checks {
    /// A check fails until it has passed often enough. `serving`: what the balancer says of itself.
    pub fn spawn(
        checks: Vec<Check>,
        serving: watch::Receiver<Serving>,
    ) -> Result<Self, crate::Error> {
        let mut all = Self {
            running: BTreeMap::new(),
            publish: watch::channel(Passing::new()).0,
            serving,
        };
        all.configure(checks)?;
        Ok(all)
    }

    /// These from now on. What stays as it was goes on; if one cannot be prepared, all stay as they were.
    pub fn configure(&mut self, checks: Vec<Check>) -> Result<(), crate::Error> {
        let mut fresh = Vec::new();
        let mut names = BTreeSet::new();
        for check in checks {
            names.insert(check.name.clone());
            let known = self.running.get(&check.name);
            if known.is_some_and(|known| known.check == check) {
                continue;
            }
            let prober = Prober::new(&check.probe, &self.serving).map_err(|source| {
                crate::Error::PrepareCheck {
                    name: check.name.clone(),
                    source,
                }
            })?;
            fresh.push((check, prober));
        }
        let gone = |name: &String| !names.contains(name);
        self.running.retain(|name, _| !gone(name));
        self.publish.send_if_modified(|passing| {
            let before = passing.len();
            passing.retain(|name| !gone(name));
            passing.len() != before
        });
        for (check, prober) in fresh {
            // The verdict of its predecessor holds until this one has its own.
            let passes = self.publish.borrow().contains(&check.name);
            let task = tokio::spawn(repeat(check.clone(), prober, passes, self.publish.clone()));
            self.running
                .insert(check.name.clone(), Running { check, task });
        }
        Ok(())
    }

    pub fn passing(&self) -> watch::Receiver<Passing> {
        self.publish.subscribe()
    }

    pub fn status(&self) -> BTreeMap<String, bool> {
        let passing = self.publish.borrow();
        let status = |name: &String| (name.clone(), passing.contains(name));
        self.running.keys().map(status).collect()
    }
}

async fn repeat(check: Check, mut prober: Prober, passes: bool, publish: watch::Sender<Passing>) {
    let mut tally = Tally::new(check.rise, check.fall, passes);
    if let Prober::Lb { .. } = prober {
        // The balancer has counted already, and tells of every change.
        tally = Tally::new(1, 1, passes);
    }
    let mut beat = tokio::time::interval(check.interval);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        prober.due(&mut beat).await;
        let outcome = tokio::time::timeout(check.timeout, prober.probe()).await;
        let failure = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(why),
            Err(_) => Some(format!("no answer within {} ms", check.timeout.as_millis())),
        };
        let Some(passes) = tally.count(failure.is_none()) else {
            continue;
        };
        let why = failure.unwrap_or_default();
        tracing::info!(check = check.name, passes, why, "check");
        publish.send_modify(|passing| {
            if passes {
                passing.insert(check.name.clone());
            } else {
                passing.remove(&check.name);
            }
        });
    }
}
