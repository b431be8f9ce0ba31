//! Watching the power of a node while nothing else goes on with it.

use std::time::{Duration, Instant};

use lifecycle::node::{Fault, Power, PowerSeen, PowerStep, power_step, power_watch};
use tracing::{info, warn};
use uuid::Uuid;

use super::Conductor;
use crate::record::{Errand, Node, PowerTarget};

/// When the BMC was looked at last, and how often it has failed since it did not.
pub struct PowerWatch {
    node: Uuid,
    looked: Option<Instant>,
    began: Instant,
    failures: u32,
}

impl PowerWatch {
    pub fn new(node: Uuid) -> Self {
        Self {
            node,
            looked: None,
            began: Instant::now(),
            failures: 0,
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
        let patience = conductor.options.timers.power_change;
        let answer = tokio::time::timeout(patience, driver.read_power(node)).await;
        self.looked = Some(Instant::now());
        let late = || format!("no answer within {} s", patience.as_secs_f64());
        let answer = answer
            .map_err(|_| late())
            .and_then(|answer| answer.map_err(|trouble| trouble.to_string()));
        let seen = match &answer {
            Ok(power) => PowerSeen::Power(*power),
            Err(trouble) => PowerSeen::Trouble(trouble),
        };
        let step = power_step(&node.life, seen, self.failures, conductor.options.power);
        self.failures = match step {
            PowerStep::Count => self.failures + 1,
            PowerStep::GiveUp { .. }
            | PowerStep::Agrees
            | PowerStep::Record(_)
            | PowerStep::Drive(_)
            | PowerStep::Recovered(_) => 0,
        };
        if matches!(step, PowerStep::Agrees | PowerStep::Count) {
            return;
        }
        // What was seen is old news if somebody has begun to work on the node meanwhile.
        let seen_at = node.updated_at;
        _ = conductor
            .change(node.uuid, |node, _| {
                if node.reservation.is_none() && node.updated_at == seen_at {
                    apply(node, step);
                }
                Vec::new()
            })
            .await;
    }
}

fn apply(node: &mut Node, step: PowerStep) {
    match step {
        PowerStep::Agrees | PowerStep::Count => {}
        PowerStep::Record(power) => {
            info!(node = %node.uuid, ?power, "the power was changed behind our back");
            node.life.power = Some(power);
        }
        PowerStep::Drive(power) => {
            warn!(node = %node.uuid, ?power, "the power was changed behind our back and is put right");
            let target = match power {
                Power::On => PowerTarget::On,
                Power::Off => PowerTarget::Off,
            };
            node.errand = Some(Errand::Power {
                target,
                timeout: None,
            });
        }
        PowerStep::GiveUp { reason } => {
            warn!(node = %node.uuid, reason, "maintenance: the BMC does not answer");
            node.life.power = None;
            node.life.maintenance = true;
            node.life.fault = Some(Fault::Power);
            node.life.last_error = Some(reason.clone());
            node.maintenance_reason = Some(reason);
        }
        PowerStep::Recovered(power) => {
            info!(node = %node.uuid, "the BMC answers again");
            node.life.power = power;
            node.life.last_error = None;
            node.end_maintenance();
        }
    }
}
