//! Watching the power of a node while nothing else goes on with it.
//!
//! Nobody is kept out meanwhile: no lock is taken, and whoever wants something of the node cuts it short.

use std::time::{Duration, Instant};

use lifecycle::node::{Fault, Power, PowerSeen, PowerStep, PowerTries, power_step, power_watch};
use tracing::{info, warn};
use uuid::Uuid;

use super::Conductor;
use super::effects::{learn, powered};
use crate::driver::Driver;
use crate::record::{Node, PowerTarget};

/// When the BMC was looked at last, and what went wrong since it last agreed.
pub struct PowerWatch {
    node: Uuid,
    looked: Option<Instant>,
    began: Instant,
    tries: PowerTries,
}

impl PowerWatch {
    pub fn new(node: Uuid) -> Self {
        Self {
            node,
            looked: None,
            began: Instant::now(),
            tries: PowerTries::default(),
        }
    }

    /// How long until the next look; nothing while the node is not watched.
    pub fn due(&self, conductor: &Conductor, node: &Node) -> Option<Duration> {
        let interval = power_watch(
            &node.life,
            node.reservation.is_some(),
            &conductor.options.timers,
        )?;
        let at = match self.looked {
            Some(looked) => looked + interval,
            // Nodes are taken up together; their first looks are not.
            None => self.began + interval.mul_f64((self.node.as_u128() % 1000) as f64 / 1000.0),
        };
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Looks, and does what follows.
    pub async fn look(&mut self, conductor: &Conductor, node: &Node) {
        let Some(driver) = conductor.driver(&node.driver) else {
            return;
        };
        // Counted before the answer: whoever cuts this short does not make it happen more often.
        self.looked = Some(Instant::now());
        let patience = conductor.options.timers.power_change;
        let answer = tokio::time::timeout(patience, driver.read_power(node)).await;
        let late = || format!("no answer within {} s", patience.as_secs_f64());
        let answer = answer
            .map_err(|_| late())
            .and_then(|answer| answer.map_err(|trouble| trouble.to_string()));
        let seen = match &answer {
            Ok(power) => PowerSeen::Power(*power),
            Err(trouble) => PowerSeen::Trouble(trouble),
        };
        let step = power_step(&node.life, seen, self.tries, conductor.options.power);
        self.tries = self.tries.after(&step);
        match step {
            PowerStep::Agrees | PowerStep::Count => {}
            PowerStep::Drive(power) => self.drive(conductor, driver, node, power).await,
            PowerStep::Record(power) => {
                info!(node = %node.uuid, ?power, "the power was changed behind our back");
                keep(conductor, node, move |node| node.life.power = Some(power)).await;
            }
            PowerStep::GiveUp { power, reason } => {
                warn!(node = %node.uuid, reason, "maintenance: the BMC is not to be relied on");
                keep(conductor, node, move |node| give_up(node, power, reason)).await;
            }
            PowerStep::Recovered(power) => {
                info!(node = %node.uuid, "the BMC answers again");
                keep(conductor, node, move |node| recover(node, power)).await;
            }
        }
    }

    /// Puts the server as recorded. Whether it worked is seen at the next look.
    async fn drive(&self, conductor: &Conductor, driver: &Driver, node: &Node, power: Power) {
        warn!(node = %node.uuid, ?power, tried = self.tries.drives, "the power was changed behind our back and is put right");
        let target = match power {
            Power::On => PowerTarget::On,
            Power::Off => PowerTarget::Off,
        };
        let patience = conductor.options.timers.power_change;
        match tokio::time::timeout(patience, driver.set_power(node, target)).await {
            Ok(Ok((_, hardware))) => {
                let change = move |node: &mut Node| {
                    learn(node, hardware);
                    powered(node, target);
                };
                keep(conductor, node, change).await;
            }
            Ok(Err(trouble)) => warn!(node = %node.uuid, %trouble, "the power was not put right"),
            Err(_) => {
                warn!(node = %node.uuid, seconds = patience.as_secs_f64(), "the power was not put right in time");
            }
        }
    }
}

/// Changes the record, unless somebody has begun to work on the node meanwhile: then what was seen is old news.
async fn keep(conductor: &Conductor, node: &Node, change: impl FnOnce(&mut Node)) {
    let seen_at = node.updated_at;
    _ = conductor
        .change(node.uuid, |node, _| {
            if node.reservation.is_none() && node.updated_at == seen_at {
                change(node);
            }
            Vec::new()
        })
        .await;
}

/// What is wrong with the BMC is the reason for the maintenance; why the node failed before stays where it is.
fn give_up(node: &mut Node, power: Option<Power>, reason: String) {
    node.life.power = power;
    node.life.maintenance = true;
    node.life.fault = Some(Fault::Power);
    node.life.last_error.get_or_insert_with(|| reason.clone());
    node.maintenance_reason = Some(reason);
}

fn recover(node: &mut Node, power: Option<Power>) {
    node.life.power = power;
    if node.life.last_error == node.maintenance_reason {
        node.life.last_error = None;
    }
    node.end_maintenance();
}
