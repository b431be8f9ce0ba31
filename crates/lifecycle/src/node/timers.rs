//! How long a node may stay where it is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::State;

/// Every limit of the provisioning service, each with Ironic's default. Times in configuration are in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timers {
    /// A waiting node without a heartbeat this long fails.
    #[serde(with = "seconds")]
    pub deploy_callback: Duration,
    #[serde(with = "seconds")]
    pub clean_callback: Duration,
    #[serde(with = "seconds")]
    pub service_callback: Duration,
    #[serde(with = "seconds")]
    pub rescue_callback: Duration,
    /// From the start of the inspection, whatever is heard.
    #[serde(with = "seconds")]
    pub inspect_wait: Duration,
    /// A host that booted for us and was never heard is power-cycled after this long; zero is never.
    #[serde(with = "seconds")]
    pub boot_retry: Duration,
    /// How often that is done before the wait runs out.
    pub boot_retries: u32,
    /// Agents calling within this time are there.
    #[serde(with = "seconds")]
    pub heartbeat: Duration,
    /// A step the service itself runs must end within this time.
    #[serde(with = "seconds")]
    pub step: Duration,
    /// How often a step that goes on in the background is looked at.
    #[serde(with = "seconds")]
    pub step_poll: Duration,
    /// How often a piece of work that failed is tried before the operation fails.
    pub tries: u32,
    /// The pause after the first failed try; it doubles, up to a minute.
    #[serde(with = "seconds")]
    pub retry_pause: Duration,
    #[serde(with = "seconds")]
    pub power_change: Duration,
    #[serde(with = "seconds")]
    pub soft_power_off: Duration,
    #[serde(with = "seconds")]
    pub power_sync: Duration,
    #[serde(with = "seconds")]
    pub power_recovery: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            deploy_callback: Duration::from_mins(30),
            clean_callback: Duration::from_mins(30),
            service_callback: Duration::from_mins(30),
            rescue_callback: Duration::from_mins(30),
            inspect_wait: Duration::from_mins(30),
            boot_retry: Duration::ZERO,
            boot_retries: 2,
            heartbeat: Duration::from_mins(5),
            step: Duration::from_hours(2),
            step_poll: Duration::from_mins(1),
            tries: 3,
            retry_pause: Duration::from_secs(5),
            power_change: Duration::from_mins(1),
            soft_power_off: Duration::from_mins(10),
            power_sync: Duration::from_mins(2),
            power_recovery: Duration::from_mins(5),
        }
    }
}

impl Timers {
    /// The patience metal3 runs with: its hosts boot slowly, and are booted again when they do not call.
    pub fn metal3() -> Self {
        Self {
            deploy_callback: Duration::from_mins(80),
            boot_retry: Duration::from_mins(20),
            power_change: Duration::from_mins(2),
            ..Self::default()
        }
    }

    /// How long a waiting state lasts without news.
    pub fn callback(&self, state: State) -> Duration {
        match state {
            State::InspectWait => self.inspect_wait,
            State::CleanWait => self.clean_callback,
            State::RescueWait => self.rescue_callback,
            State::ServiceWait => self.service_callback,
            State::WaitCallBack
            | State::Enroll
            | State::Verifying
            | State::Manageable
            | State::Available
            | State::Inspecting
            | State::InspectFailed
            | State::Cleaning
            | State::CleanHold
            | State::CleanFailed
            | State::Deploying
            | State::DeployHold
            | State::DeployFailed
            | State::Active
            | State::Deleting
            | State::Error
            | State::Adopting
            | State::AdoptFailed
            | State::Rescuing
            | State::RescueFailed
            | State::Rescue
            | State::Unrescuing
            | State::UnrescueFailed
            | State::Servicing
            | State::ServiceHold
            | State::ServiceFailed => self.deploy_callback,
        }
    }

    /// The pause before try number `tried + 1`.
    pub fn pause(&self, tried: u32) -> Duration {
        let doubled = self
            .retry_pause
            .saturating_mul(1 << tried.saturating_sub(1).min(10));
        doubled.min(Duration::from_mins(1))
    }
}

mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_secs_f64().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?)
            .map_err(serde::de::Error::custom)
    }
}
