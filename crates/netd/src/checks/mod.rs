//! Is what this node serves well? Each check is a task that probes, counts, and publishes.

mod probe;
mod tally;

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::config::Check;
pub use probe::Error;
use probe::Prober;
use tally::Tally;

/// The names of the checks that pass.
pub type Passing = BTreeSet<String>;

/// All checks of this node; they end when it is dropped.
#[derive(Debug)]
pub struct Checks {
    names: Vec<String>,
    passing: watch::Receiver<Passing>,
    /// Kept, so that no checks is not the end of checks.
    _publish: watch::Sender<Passing>,
    _tasks: JoinSet<()>,
}

impl Checks {
    /// A check fails until it has passed often enough.
    pub fn spawn(checks: Vec<Check>) -> Result<Self, crate::Error> {
        let (publish, passing) = watch::channel(Passing::new());
        let names = checks.iter().map(|check| check.name.clone()).collect();
        let mut tasks = JoinSet::new();
        for check in checks {
            let prober =
                Prober::new(&check.probe).map_err(|source| crate::Error::PrepareCheck {
                    name: check.name.clone(),
                    source,
                })?;
            tasks.spawn(repeat(check, prober, publish.clone()));
        }
        Ok(Self {
            names,
            passing,
            _publish: publish,
            _tasks: tasks,
        })
    }

    pub fn passing(&self) -> watch::Receiver<Passing> {
        self.passing.clone()
    }

    pub fn status(&self) -> BTreeMap<String, bool> {
        let passing = self.passing.borrow();
        let status = |name: &String| (name.clone(), passing.contains(name));
        self.names.iter().map(status).collect()
    }
}

async fn repeat(check: Check, prober: Prober, publish: watch::Sender<Passing>) {
    let mut tally = Tally::new(check.rise, check.fall);
    let mut beat = tokio::time::interval(check.interval);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
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
