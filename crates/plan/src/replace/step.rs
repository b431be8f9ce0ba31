//! The steps of a replacement, in their order.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::cluster::Plan;
use crate::install::Phase;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    Check,
    PowerOff,
    Leave,
    Clear,
    Learn,
    Provision,
    Join,
    Ready,
    Tidy,
}

impl Step {
    pub const ALL: [Self; 9] = [
        Self::Check,
        Self::PowerOff,
        Self::Leave,
        Self::Clear,
        Self::Learn,
        Self::Provision,
        Self::Join,
        Self::Ready,
        Self::Tidy,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::PowerOff => "power-off",
            Self::Leave => "leave",
            Self::Clear => "clear",
            Self::Learn => "learn",
            Self::Provision => "provision",
            Self::Join => "join",
            Self::Ready => "ready",
            Self::Tidy => "tidy",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::Check => "the other masters can do without it, and it is dead",
            Self::PowerOff => "the old host is off",
            Self::Leave => "its etcd member is gone",
            Self::Clear => "its Node, BareMetalHost and Machine are gone",
            Self::Learn => "etcd has it as a learner",
            Self::Provision => "the host is cleaned and written",
            Self::Join => "its etcd member has caught up and votes",
            Self::Ready => "its Node, its API server and its etcd member are ready",
            Self::Tidy => "its keys are no longer in the API",
        }
    }

    /// How long it may take. What a host needs depends on the site as it does in an install.
    pub fn limit(self, plan: &Plan) -> Duration {
        match self {
            // A node that has just died is ready for most of a minute.
            Self::Check | Self::Leave | Self::Learn | Self::Tidy => Duration::from_mins(2),
            Self::PowerOff => Duration::from_mins(3),
            // metal3 may have to move first, from the master that died.
            Self::Clear => Duration::from_mins(10),
            Self::Provision => Phase::ControlPlaneDeploy.limit(plan),
            Self::Join | Self::Ready => Phase::ControlPlaneReady.limit(plan),
        }
    }

    /// What a person can do when it has had its time.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Check => "mend that first: nothing was changed",
            Self::PowerOff | Self::Leave | Self::Learn | Self::Tidy => {
                "mend the cause and run the same command again"
            }
            Self::Clear => "look at metal3 (plinth status), then run the same command again",
            Self::Provision => {
                "look at the host (plinth status hosts, plinth console), mend the cause and run the same command again"
            }
            Self::Join | Self::Ready => {
                "look at the host's console (plinth console), then run the same command again"
            }
        }
    }

    /// Nothing is changed in this step.
    pub fn is_before_changes(self) -> bool {
        self <= Self::PowerOff
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
