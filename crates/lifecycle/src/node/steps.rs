//! Clean, deploy and service steps: what they are and in which order they run.

use std::cmp::Reverse;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Problem;
use super::work::StepKind;

/// The driver interface a step belongs to. Of two steps of equal priority, the one of the later variant runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    Raid,
    Bios,
    Deploy,
    Firmware,
    Management,
    Power,
    Vendor,
}

impl Interface {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raid => "raid",
            Self::Bios => "bios",
            Self::Deploy => "deploy",
            Self::Firmware => "firmware",
            Self::Management => "management",
            Self::Power => "power",
            Self::Vendor => "vendor",
        }
    }
}

/// Who carries a step out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    /// The agent on the host, by command.
    Agent,
    /// The service, through the BMC.
    Service,
}

/// One step, as a driver or agent offers it or a client asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepSpec {
    pub interface: Interface,
    pub step: String,
    #[serde(default)]
    pub args: Map<String, Value>,
    #[serde(default)]
    pub priority: u32,
    #[serde(default)]
    pub abortable: bool,
    #[serde(default)]
    pub reboot_requested: bool,
    #[serde(default = "yes")]
    pub requires_ramdisk: bool,
    #[serde(default = "agent")]
    pub by: Runner,
}

fn yes() -> bool {
    true
}

fn agent() -> Runner {
    Runner::Agent
}

impl StepSpec {
    pub fn new(interface: Interface, step: &str, priority: u32, by: Runner) -> Self {
        Self {
            interface,
            step: step.to_string(),
            args: Map::new(),
            priority,
            abortable: false,
            reboot_requested: false,
            requires_ramdisk: by == Runner::Agent,
            by,
        }
    }

    fn same(&self, other: &Self) -> bool {
        self.interface == other.interface && self.step == other.step
    }

    /// A word any list may use, whatever the drivers offer.
    pub fn reserved(&self) -> bool {
        matches!(
            self.step.as_str(),
            "hold" | "wait" | "power_on" | "power_off" | "reboot"
        )
    }
}

impl fmt::Display for StepSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.interface.as_str(), self.step)
    }
}

/// The steps every deployment by the agent has, after the agent is up.
///
/// Ironic counts the boot of the agent as a step of its own (`deploy`, priority 100); here it is part of the script.
/// DEVIATION: a client's step above 100 runs after that boot too, not before it.
pub fn core_deploy_steps(writes_image: bool) -> Vec<StepSpec> {
    let mut steps = Vec::new();
    if writes_image {
        steps.push(StepSpec::new(
            Interface::Deploy,
            "write_image",
            80,
            Runner::Agent,
        ));
    }
    for (step, priority) in [
        ("prepare_instance_boot", 60),
        ("tear_down_agent", 40),
        ("switch_to_tenant_network", 30),
        ("boot_instance", 20),
    ] {
        steps.push(StepSpec::new(
            Interface::Deploy,
            step,
            priority,
            Runner::Service,
        ));
    }
    steps
}

/// The steps to run, in order.
///
/// `offered` are those of drivers and agent, `asked` those of the client. By hand, exactly what was asked runs, in
/// its order; otherwise all that is offered with a priority above zero runs, highest first, and what was asked
/// replaces what is offered under the same name.
pub fn plan_steps(
    kind: StepKind,
    offered: &[StepSpec],
    asked: &[StepSpec],
) -> Result<Vec<StepSpec>, Problem> {
    let known = |step: &StepSpec| step.reserved() || offered.iter().any(|offer| offer.same(step));
    let unknown: Vec<String> = asked
        .iter()
        .filter(|step| !known(step))
        .map(ToString::to_string)
        .collect();
    if !unknown.is_empty() {
        let known = offered.iter().map(ToString::to_string).collect();
        return Err(Problem::UnknownSteps { unknown, known });
    }
    let filled = asked.iter().map(|step| filled(step, offered));
    match kind {
        StepKind::CleanManual | StepKind::Service => Ok(filled.collect()),
        StepKind::Clean | StepKind::Deploy => {
            let mut steps: Vec<StepSpec> = offered
                .iter()
                .filter(|offer| !asked.iter().any(|step| step.same(offer)))
                .cloned()
                .collect();
            steps.extend(filled);
            steps.retain(|step| step.priority > 0);
            steps.sort_by_key(|step| (Reverse(step.priority), Reverse(step.interface)));
            Ok(steps)
        }
    }
}

/// A step as asked, with what only its offer knows: who runs it and how it behaves.
fn filled(step: &StepSpec, offered: &[StepSpec]) -> StepSpec {
    let Some(offer) = offered.iter().find(|offer| offer.same(step)) else {
        return step.clone();
    };
    StepSpec {
        args: step.args.clone(),
        priority: step.priority,
        ..offer.clone()
    }
}
