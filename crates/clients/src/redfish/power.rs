//! Power.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tracing::debug;

use super::Error;
use super::talk::Client;
use crate::Power;

/// What can be done to a server's power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    On,
    ForceOff,
    GracefulShutdown,
    GracefulRestart,
    ForceRestart,
    PowerCycle,
    PushPowerButton,
    Nmi,
}

impl Reset {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "On",
            Self::ForceOff => "ForceOff",
            Self::GracefulShutdown => "GracefulShutdown",
            Self::GracefulRestart => "GracefulRestart",
            Self::ForceRestart => "ForceRestart",
            Self::PowerCycle => "PowerCycle",
            Self::PushPowerButton => "PushPowerButton",
            Self::Nmi => "Nmi",
        }
    }

    /// What the power is afterwards, where that is known.
    fn leaves(self) -> Option<Power> {
        match self {
            Self::On | Self::ForceRestart | Self::GracefulRestart | Self::PowerCycle => {
                Some(Power::On)
            }
            Self::ForceOff | Self::GracefulShutdown => Some(Power::Off),
            Self::PushPowerButton | Self::Nmi => None,
        }
    }
}

/// A server that has just gone off may refuse to go on for a while.
const ON_TRIES: u32 = 6;

impl Client {
    /// The power state; `None` where the BMC says something that is neither on nor off.
    pub async fn power(&self) -> Result<Option<Power>, Error> {
        let operation = "read the power state";
        let system = self.system_resource(operation).await?;
        Ok(parse(system.text(operation, "/PowerState")?))
    }

    /// Sees to it that the server is on or off (at once, asking nobody), and waits until it is.
    pub async fn set_power(&self, power: Power) -> Result<(), Error> {
        if self.power().await? == Some(power) {
            return self.wait_for_power(power, self.limits().power_change).await;
        }
        match power {
            Power::On => self.reset(Reset::On).await?,
            Power::Off => self.reset(Reset::ForceOff).await?,
        }
        self.wait_for_power(power, self.limits().power_change).await
    }

    /// Asks the operating system to shut down, and waits until it has. It may not.
    pub async fn shut_down(&self, patience: Duration) -> Result<(), Error> {
        if self.power().await? == Some(Power::Off) {
            return Ok(());
        }
        self.reset(Reset::GracefulShutdown).await?;
        self.wait_for_power(Power::Off, patience).await
    }

    /// Off and on again.
    pub async fn power_cycle(&self) -> Result<(), Error> {
        self.set_power(Power::Off).await?;
        self.set_power(Power::On).await
    }

    pub async fn reset(&self, reset: Reset) -> Result<(), Error> {
        let operation = "change the power";
        let mut tries = 1;
        loop {
            let system = self.system_resource(operation).await?;
            let action = "#ComputerSystem.Reset";
            let target = system.action(action).ok_or_else(|| {
                system.missing(operation, "/Actions/#ComputerSystem.Reset/target")
            })?;
            let allowed = system.allowable("/Actions/#ComputerSystem.Reset/ResetType");
            if !allowed.is_empty() && !allowed.contains(&reset.as_str()) {
                let why = format!("{} is not among {}", reset.as_str(), allowed.join(", "));
                return Err(Error::Unsupported {
                    operation,
                    url: system.url.clone(),
                    why,
                });
            }
            let Err(error) = self
                .post(
                    operation,
                    target,
                    Some(&json!({"ResetType": reset.as_str()})),
                )
                .await
            else {
                return Ok(());
            };
            if !matches!(error.status(), Some(400 | 409)) {
                return Err(error);
            }
            // Refused because it is so already.
            let restarts = matches!(
                reset,
                Reset::ForceRestart | Reset::GracefulRestart | Reset::PowerCycle
            );
            if let Some(power) = reset.leaves().filter(|_| !restarts)
                && self.power().await? == Some(power)
            {
                return Ok(());
            }
            let again = reset == Reset::On && tries < ON_TRIES && error.status() == Some(409);
            if !again {
                return Err(error);
            }
            debug!(bmc = %self.config.address, error = model::chain(&error), tries, "power on refused, asked again");
            tokio::time::sleep(self.limits().pause * 3).await;
            tries += 1;
        }
    }

    async fn wait_for_power(&self, wanted: Power, patience: Duration) -> Result<(), Error> {
        let operation = "wait for the power state";
        let started = Instant::now();
        loop {
            let system = self.system_resource(operation).await?;
            let state = system.text(operation, "/PowerState")?;
            // On the way is not there yet.
            let there = match wanted {
                Power::On => state == "On",
                Power::Off => state == "Off",
            };
            if there {
                return Ok(());
            }
            if started.elapsed() >= patience {
                let last = format!("the power is {state}, not {}", wanted.as_str());
                return Err(Error::Slow {
                    operation,
                    url: system.url,
                    waited: patience,
                    last,
                });
            }
            tokio::time::sleep(self.limits().poll).await;
        }
    }
}

pub(super) fn parse(state: &str) -> Option<Power> {
    match state {
        "On" | "PoweringOn" => Some(Power::On),
        "Off" | "PoweringOff" => Some(Power::Off),
        _ => None,
    }
}
