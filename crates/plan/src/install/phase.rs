//! The phases of an install, in order.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::Plan;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    Preflight,
    Assets,
    Images,
    BootstrapVm,
    BootstrapServices,
    ControlPlaneDeploy,
    ControlPlaneReady,
    Manifests,
    HandOver,
    BootstrapDestroy,
    Workers,
}

impl Phase {
    pub const ALL: [Self; 11] = [
        Self::Preflight,
        Self::Assets,
        Self::Images,
        Self::BootstrapVm,
        Self::BootstrapServices,
        Self::ControlPlaneDeploy,
        Self::ControlPlaneReady,
        Self::Manifests,
        Self::HandOver,
        Self::BootstrapDestroy,
        Self::Workers,
    ];

    /// As the plan's steps are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preflight => "preflight",
            Self::Assets => "assets",
            Self::Images => "images",
            Self::BootstrapVm => "bootstrap-vm",
            Self::BootstrapServices => "bootstrap-services",
            Self::ControlPlaneDeploy => "control-plane-deploy",
            Self::ControlPlaneReady => "control-plane-ready",
            Self::Manifests => "manifests",
            Self::HandOver => "hand-over",
            Self::BootstrapDestroy => "bootstrap-destroy",
            Self::Workers => "workers",
        }
    }

    /// What the program exits with when this phase fails; below are those of bad input and of all else. The checks end as
    /// `plinth preflight` does.
    pub fn exit_code(self) -> u8 {
        if self == Self::Preflight {
            5
        } else {
            9 + self as u8
        }
    }

    pub fn limit(self, plan: &Plan) -> Duration {
        let step = plan.steps.iter().find(|step| step.name == self.name());
        step.map_or(Duration::from_hours(1), |step| {
            Duration::from_secs(step.timeout_seconds)
        })
    }

    pub fn expected(self, plan: &Plan) -> Duration {
        let step = plan.steps.iter().find(|step| step.name == self.name());
        step.map_or(Duration::ZERO, |step| {
            Duration::from_secs(step.expected_seconds)
        })
    }

    pub(super) fn deadline(self, plan: &Plan, began: Timestamp) -> Timestamp {
        began
            .checked_add(self.limit(plan))
            .unwrap_or(Timestamp::MAX)
    }

    /// What a person can do when it has failed.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Preflight => {
                "plinth preflight says more; --skip-check ID leaves a check out of create cluster, --no-preflight all of them"
            }
            Self::Assets | Self::Images => {
                "see the log, mend the cause and run the same command again"
            }
            Self::BootstrapVm | Self::BootstrapServices => {
                "look at the bootstrap VM's console (plinth gather), then run the same command again"
            }
            Self::ControlPlaneDeploy => {
                "look at the host's console and its BMC, then run the same command again"
            }
            Self::ControlPlaneReady => {
                "look at the masters' consoles (plinth gather); a master that never booted may be power-cycled; then run the same command again"
            }
            Self::Manifests | Self::HandOver | Self::BootstrapDestroy => {
                "run the same command again; plinth gather collects what there is to see"
            }
            Self::Workers => {
                "the control plane is up: look at the hosts (plinth status, kubectl describe bmh), then plinth wait-for install-complete"
            }
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
