//! All there is to know of a node to decide its next step.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::steps::StepSpec;
use super::work::BootDevice;
use super::{Event, Problem, State};

/// A node, as far as its lifecycle is concerned. Kept durably, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    pub state: State,
    /// `target_provision_state`.
    pub target: Option<State>,
    /// `provision_updated_at`: when this state was entered, or the agent last heard in it.
    pub since: Timestamp,
    pub last_error: Option<String>,
    pub maintenance: bool,
    pub fault: Option<Fault>,
    pub power: Option<Power>,
    pub drivers: Drivers,
    pub settings: Settings,
    pub agent: Option<Agent>,
    /// When the agent last sent an inventory.
    pub inventory_at: Option<Timestamp>,
    /// How far a booting host was last seen to come: "fetched the kernel".
    pub boot_trace: Option<String>,
    pub operation: Operation,
}

/// What is being done to a node, and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    pub task: Task,
    pub started: Timestamp,
    /// As they were when it began; a change meanwhile counts for the next.
    pub drivers: Drivers,
    pub settings: Settings,
    pub agent: AgentSource,
    /// What the client asked for.
    pub asked: Vec<StepSpec>,
    /// What is run, in order, once it is known.
    pub steps: Vec<StepSpec>,
    /// The stage of the script it is at, and since when.
    pub at: usize,
    pub stage_since: Timestamp,
    /// The step of this stage, if it was started.
    pub begun: Option<Begun>,
    /// Work that may not be done twice and is being done now.
    pub doing: Option<String>,
    pub tries: u32,
    pub retry_at: Option<Timestamp>,
    pub trouble: Option<String>,
    pub booted_at: Option<Timestamp>,
    pub boots: u32,
    /// Stop after the running step, which cannot be cut short.
    pub abort: bool,
    pub grace_until: Option<Timestamp>,
    /// The operation cannot be finished.
    pub failed: Option<Problem>,
    /// For [`Task::Recover`]: what failed, and whether it was stopped by request.
    pub failed_task: Option<Task>,
    pub aborted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    pub at: Timestamp,
    /// The agent's call at which it was last asked after.
    pub heard: Option<Timestamp>,
    /// It was seen to be over, and is to be asked after without waiting for a call.
    #[serde(default)]
    pub over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    Rest,
    Verify,
    Inspect,
    Clean,
    CleanManual,
    Deploy,
    Delete,
    Adopt,
    Rescue,
    Unrescue,
    Service,
    /// Putting things away after a failure.
    Recover,
}

impl Task {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Verify => "verify",
            Self::Inspect => "inspect",
            Self::Clean => "automated clean",
            Self::CleanManual => "manual clean",
            Self::Deploy => "deploy",
            Self::Delete => "undeploy",
            Self::Adopt => "adopt",
            Self::Rescue => "rescue",
            Self::Unrescue => "unrescue",
            Self::Service => "service",
            Self::Recover => "clean-up after a failure",
        }
    }
}

/// Where the agent of an operation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentSource {
    NotNeeded,
    /// It is booted for this operation.
    Fresh,
    /// It is up already: fast track.
    Running,
    /// It was booted to inspect and has done so; its first call as an agent is due.
    Due,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drivers {
    pub boot: BootBy,
    pub deploy: DeployBy,
    pub inspect: InspectBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BootBy {
    Pxe,
    VirtualMedia,
    UefiHttp,
    Fake,
}

impl BootBy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pxe => "network",
            Self::VirtualMedia => "virtual media",
            Self::UefiHttp => "UEFI HTTP",
            Self::Fake => "nothing real",
        }
    }

    /// Nothing has to be taken out of the host once it runs from its disk.
    pub fn leaves_nothing(self) -> bool {
        match self {
            Self::Pxe | Self::UefiHttp => true,
            Self::VirtualMedia | Self::Fake => false,
        }
    }

    /// The device a host boots from then.
    pub fn device(self) -> BootDevice {
        match self {
            Self::Pxe | Self::Fake => BootDevice::Pxe,
            Self::VirtualMedia => BootDevice::Cdrom,
            Self::UefiHttp => BootDevice::UefiHttp,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeployBy {
    /// The agent writes the image.
    Direct,
    /// The agent runs the client's steps.
    CustomAgent,
    /// A live system is booted; no disk is written.
    Ramdisk,
    Fake,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InspectBy {
    Agent,
    OutOfBand,
    Fake,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub automated_clean: bool,
    pub retired: bool,
    pub disable_power_off: bool,
    pub fast_track: bool,
    /// The agent starts the installed system in its own place, without the firmware.
    #[serde(default)]
    pub kexec: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            automated_clean: true,
            retired: false,
            disable_power_off: false,
            fast_track: false,
            kexec: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Power {
    #[serde(rename = "power on")]
    On,
    #[serde(rename = "power off")]
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    #[serde(rename = "power failure")]
    Power,
    #[serde(rename = "clean failure")]
    Clean,
    #[serde(rename = "rescue abort failure")]
    RescueAbort,
    #[serde(rename = "service failure")]
    Service,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    pub url: String,
    pub last_heartbeat: Timestamp,
}

/// What comes along with a verb.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    pub steps: Vec<StepSpec>,
    pub disable_ramdisk: bool,
}

/// An event that cannot happen in the state: a bug in the shell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event} cannot happen in state {state:?}")]
pub struct Impossible {
    pub state: State,
    pub event: Event,
}

impl View {
    pub fn enrolled(drivers: Drivers, settings: Settings, now: Timestamp) -> Self {
        Self {
            state: State::Enroll,
            target: None,
            since: now,
            last_error: None,
            maintenance: false,
            fault: None,
            power: None,
            drivers,
            settings,
            agent: None,
            inventory_at: None,
            boot_trace: None,
            operation: Operation::new(Task::Rest, drivers, settings, now),
        }
    }
}

impl Operation {
    pub(super) fn new(task: Task, drivers: Drivers, settings: Settings, now: Timestamp) -> Self {
        Self {
            task,
            started: now,
            drivers,
            settings,
            agent: AgentSource::NotNeeded,
            asked: Vec::new(),
            steps: Vec::new(),
            at: 0,
            stage_since: now,
            begun: None,
            doing: None,
            tries: 0,
            retry_at: None,
            trouble: None,
            booted_at: None,
            boots: 0,
            abort: false,
            grace_until: None,
            failed: None,
            failed_task: None,
            aborted: false,
        }
    }

    /// The last try went well.
    pub(super) fn calm(&mut self) {
        self.tries = 0;
        self.retry_at = None;
        self.trouble = None;
    }
}
