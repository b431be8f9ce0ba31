//! The steps, in their order.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::cluster::Plan;
use crate::install::Phase;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    Images,
    PowerOff,
    BootstrapVm,
    BootstrapServices,
    Clean,
    BootstrapDestroy,
}

impl Step {
    pub const ALL: [Self; 6] = [
        Self::Images,
        Self::PowerOff,
        Self::BootstrapVm,
        Self::BootstrapServices,
        Self::Clean,
        Self::BootstrapDestroy,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::PowerOff => "power-off",
            Self::BootstrapVm => "bootstrap-vm",
            Self::BootstrapServices => "bootstrap-services",
            Self::Clean => "clean",
            Self::BootstrapDestroy => "bootstrap-destroy",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::Images => "the OS image and the ramdisk are in the cache",
            Self::PowerOff => "every host is off",
            Self::BootstrapVm => "the bootstrap VM runs again",
            Self::BootstrapServices => "Ironic on it answers",
            Self::Clean => "every host is cleaned, and off",
            Self::BootstrapDestroy => "the bootstrap VM is gone",
        }
    }

    /// What the program exits with when this step fails.
    pub fn exit_code(self) -> u8 {
        30 + self as u8
    }

    /// How long it may take.
    pub fn limit(self, plan: &Plan) -> Duration {
        match self {
            Self::Images => Phase::Images.limit(plan),
            // A few tries, each as long as a BMC may take.
            Self::PowerOff => Duration::from_mins(10),
            Self::BootstrapVm => Phase::BootstrapVm.limit(plan),
            Self::BootstrapServices => Phase::BootstrapServices.limit(plan),
            Self::Clean => Phase::ControlPlaneDeploy.limit(plan),
            Self::BootstrapDestroy => Phase::BootstrapDestroy.limit(plan),
        }
    }

    /// What a person can do about a host that stays on.
    pub(super) fn power_remedy(self) -> &'static str {
        match self {
            Self::Images | Self::PowerOff => Self::PowerOff.remedy(),
            Self::BootstrapVm | Self::BootstrapServices | Self::Clean | Self::BootstrapDestroy => {
                "switch it off by hand, mend its BMC, and run the same command again"
            }
        }
    }

    /// What a person can do when it has failed.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::Images => "nothing was touched: mend the cause and run the same command again",
            Self::PowerOff => {
                "no disk was touched: switch it off by hand, mend its BMC, and run the same command again"
            }
            Self::BootstrapVm | Self::BootstrapServices => {
                "look at cleaning/console.log and cleaning/keeper.log in the install directory, then run the same command again"
            }
            Self::Clean => {
                "look at the host's console (plinth console) and its BMC, then run the same command again"
            }
            Self::BootstrapDestroy => "every host is cleaned: run plinth destroy bootstrap",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
