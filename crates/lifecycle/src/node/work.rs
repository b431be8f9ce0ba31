//! What the service can do for a node, one thing at a time.

use serde::{Deserialize, Serialize};

use super::Event;
use super::steps::StepSpec;
use super::view::{BootBy, Power, Task};

/// One piece of work. All of it may be done again ("see to it that the host is off"), unless
/// [`Work::repeatable`] says otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Work {
    /// Check that the node's settings are complete for this task.
    Validate(Task),
    /// Ask the BMC for the power state.
    ReadPower,
    /// Run the driver's steps for a node seen for the first time, such as emptying a job queue.
    RunVerifySteps,
    /// Read what the BMC knows: vendor, BIOS settings, firmware, boot mode.
    ReadFacts,
    PowerOff,
    PowerOn,
    /// Off and on, or a hard reset where power off is disabled.
    PowerCycle,
    /// Put boot files or media in place, while the host is off.
    PrepareBoot {
        into: BootInto,
        by: BootBy,
    },
    SetBootDevice {
        device: BootDevice,
        persistent: bool,
    },
    /// Take boot files and media away, once the host is off.
    TearDownBoot {
        by: BootBy,
    },
    /// Drop the agent's address, token, certificate and cached steps.
    ForgetAgent,
    /// Ask drivers and agent which steps they offer. Gives [`Outcome::Steps`].
    FetchSteps(StepKind),
    /// Have the image ready to serve: fetched, checked, its checksum known.
    CacheImage,
    /// Give the agent the image to write, unless it is writing it already.
    WriteImage(StepSpec),
    /// Give the agent a step to run, unless it is running it already.
    StartStep(StepSpec),
    /// Ask after a step that was started.
    CheckStep(StepSpec),
    /// Run a step through the BMC. It ends, or goes on in the background ([`Outcome::Pending`]).
    RunStep(StepSpec),
    /// Have the agent make the written disk bootable.
    InstallBootloader,
    /// Have the agent start the system on the disk in its own place; where it cannot, through the firmware.
    StartInstalled,
    /// Have the agent flush and power the host off; force it off if it lingers.
    StopAgent,
    /// Read the inventory through the BMC and record it.
    StartInspection,
    /// Run the inspection's hooks over what the agent sent: ports, properties, stored inventory.
    RecordInventory,
    /// Forget the instance: its image, config drive and identity.
    Unbind,
    /// Have the agent set the rescue password.
    FinalizeRescue,
    /// Fetch the agent's logs, if there is an agent.
    CollectLogs,
    /// Boot the host for its agent again, because it was never heard.
    BootAgain {
        attempt: u32,
    },
    /// Hardware that does not exist takes the time configured for it.
    Simulate(Task),
    /// Move to another state.
    Move(Event),
    /// Nothing in the world: note that this stage is over.
    Advance,
}

impl Work {
    /// May it be done twice? A step on hardware (a firmware update) may not, so it is noted before it starts.
    pub fn repeatable(&self) -> bool {
        !matches!(self, Self::RunStep(_))
    }

    /// What a person reads when it fails.
    pub fn describe(&self) -> String {
        match self {
            Self::Validate(task) => format!("checking the node's settings for {}", task.as_str()),
            Self::ReadPower => "reading the power state".to_string(),
            Self::RunVerifySteps => "running the verify steps".to_string(),
            Self::ReadFacts => "reading the hardware's facts".to_string(),
            Self::PowerOff => "power off".to_string(),
            Self::PowerOn => "power on".to_string(),
            Self::PowerCycle => "power cycle".to_string(),
            Self::PrepareBoot { into, by } => {
                format!("preparing to boot {} by {}", into.as_str(), by.as_str())
            }
            Self::SetBootDevice { device, .. } => {
                format!("setting the boot device to {}", device.as_str())
            }
            Self::TearDownBoot { by } => {
                format!("removing what was prepared for boot by {}", by.as_str())
            }
            Self::ForgetAgent => "forgetting the agent".to_string(),
            Self::FetchSteps(kind) => format!("asking for the {} steps", kind.as_str()),
            Self::CacheImage => "preparing the image".to_string(),
            Self::WriteImage(_) => "starting to write the image".to_string(),
            Self::StartStep(step) => format!("starting step {step}"),
            Self::CheckStep(step) => format!("asking after step {step}"),
            Self::RunStep(step) => format!("step {step}"),
            Self::InstallBootloader => "making the disk bootable".to_string(),
            Self::StartInstalled => "starting the installed system".to_string(),
            Self::StopAgent => "powering off through the agent".to_string(),
            Self::StartInspection => "inspection through the BMC".to_string(),
            Self::RecordInventory => "recording the inventory".to_string(),
            Self::Unbind => "forgetting the instance".to_string(),
            Self::FinalizeRescue => "setting the rescue password".to_string(),
            Self::CollectLogs => "collecting the agent's logs".to_string(),
            Self::BootAgain { attempt } => format!("booting the agent again (attempt {attempt})"),
            Self::Simulate(task) => format!("simulated {}", task.as_str()),
            Self::Move(event) => format!("moving on ({event})"),
            Self::Advance => "moving on".to_string(),
        }
    }
}

/// What came of a piece of work.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Done,
    /// From [`Work::ReadPower`]; `None` where the BMC does not say.
    Power(Option<Power>),
    /// From [`Work::FetchSteps`]: everything drivers and agent offer.
    Steps(Vec<StepSpec>),
    /// From [`Work::RunStep`] and [`Work::CheckStep`]: not over yet.
    Pending,
    /// From [`Work::CheckStep`]: the agent's hardware managers changed; its steps must be fetched afresh.
    Outdated,
    /// It did not work. `again` says whether another try can help.
    Failed {
        trouble: String,
        again: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BootInto {
    /// The agent.
    Ramdisk,
    /// The agent, told to inspect.
    Inspection,
    /// The user's own live system.
    BootIso,
}

impl BootInto {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ramdisk => "the agent",
            Self::Inspection => "the agent for inspection",
            Self::BootIso => "the live system",
        }
    }
}

/// A boot device by Ironic's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootDevice {
    Pxe,
    Disk,
    Cdrom,
    UefiHttp,
}

impl BootDevice {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pxe => "pxe",
            Self::Disk => "disk",
            Self::Cdrom => "cdrom",
            Self::UefiHttp => "uefihttp",
        }
    }
}

/// Whose steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepKind {
    Clean,
    CleanManual,
    Deploy,
    Service,
}

impl StepKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clean | Self::CleanManual => "clean",
            Self::Deploy => "deploy",
            Self::Service => "service",
        }
    }
}
