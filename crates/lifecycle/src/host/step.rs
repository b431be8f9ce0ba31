//! What the shell is to do.

use jiff::Timestamp;
use model::Mac;
use serde::Serialize;
use serde_json::{Map, Value};

use super::spec::SecretRef;
use super::status::Status;
use super::view::{FirmwareUpdate, ImageRequest, Look};
use crate::node;

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Find this out, write it into [`super::Observed`], and ask again: the same pass.
    Look(Look),
    /// Do these in order, each only when the one before went well; then tell the events and begin a new pass.
    /// A death between any two of them is made good by the next pass.
    Do {
        actions: Vec<Action>,
        events: Vec<Event>,
    },
    /// Come back when an object changes, or at `until`.
    Wait { reason: String, until: Timestamp },
    /// Nothing, until somebody changes the object: it is paused, or gone.
    Done,
}

/// One call, to Kubernetes or to Ironic.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    // -- the host and what belongs to it --
    /// Write `status` whole.
    Save(Box<Status>),
    AddFinalizer,
    /// Take our finalizers off the BMC Secret, the network Secret, the PreprovisioningImage and the HardwareData,
    /// then off the host.
    Release,
    RemoveAnnotations(Vec<String>),
    /// `spec.architecture`, where it is empty.
    SetArchitecture(String),
    /// Make the HardwareData of the same name anew with these details.
    SaveHardwareData(Value),
    /// Create the HostFirmwareSettings and, if `components`, the HostFirmwareComponents of the same name, empty, where
    /// they are missing; own the HostUpdatePolicy.
    EnsureFirmwareObjects {
        components: bool,
    },
    /// `status.updates` of the HostFirmwareComponents.
    SaveFirmwareUpdates(Vec<FirmwareUpdate>),
    /// Create or change the PreprovisioningImage of the same name.
    EnsurePreprovisioningImage(ImageRequest),
    /// `status` of the DataImage of the same name.
    SaveDataImage {
        attached: String,
        error: Option<String>,
    },

    // -- Ironic --
    CreateNode(Box<NewNode>),
    PatchNode {
        node: String,
        patch: Vec<Patch>,
    },
    /// As [`Action::PatchNode`]; the shell sets username and password in `driver_info` as well.
    PatchDriverInfo {
        node: String,
        driver_info: Map<String, Value>,
        login: Login,
    },
    CreatePort {
        node: String,
        mac: Mac,
        pxe: bool,
    },
    Provision {
        node: String,
        verb: Verb,
    },
    Power {
        node: String,
        power: Power,
    },
    /// `PUT states/raid`
    SetRaid {
        node: String,
        logical_disks: Vec<Value>,
    },
    SetMaintenance {
        node: String,
        reason: String,
    },
    ClearMaintenance {
        node: String,
    },
    DeleteNode {
        node: String,
    },
    AttachMedia {
        node: String,
        url: String,
    },
    DetachMedia {
        node: String,
    },
}

impl Action {
    /// Whether it is a call to Ironic.
    pub fn is_ironic(&self) -> bool {
        match self {
            Self::CreateNode(_)
            | Self::PatchNode { .. }
            | Self::PatchDriverInfo { .. }
            | Self::CreatePort { .. }
            | Self::Provision { .. }
            | Self::Power { .. }
            | Self::SetRaid { .. }
            | Self::SetMaintenance { .. }
            | Self::ClearMaintenance { .. }
            | Self::DeleteNode { .. }
            | Self::AttachMedia { .. }
            | Self::DetachMedia { .. } => true,
            Self::Save(_)
            | Self::AddFinalizer
            | Self::Release
            | Self::RemoveAnnotations(_)
            | Self::SetArchitecture(_)
            | Self::SaveHardwareData(_)
            | Self::EnsureFirmwareObjects { .. }
            | Self::SaveFirmwareUpdates(_)
            | Self::EnsurePreprovisioningImage(_)
            | Self::SaveDataImage { .. } => false,
        }
    }
}

/// The body of `POST nodes`, as it is, but for username and password, which the shell adds to `driver_info`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewNode {
    pub name: String,
    pub driver: String,
    pub driver_info: Map<String, Value>,
    pub properties: Map<String, Value>,
    /// `boot_interface` and so on; those left out are the driver's defaults.
    #[serde(flatten)]
    pub interfaces: Map<String, Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_power_off: bool,
    pub automated_clean: bool,
    #[serde(skip)]
    pub login: Login,
}

/// Under which keys of `driver_info` the credentials go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Login {
    pub username: &'static str,
    pub password: &'static str,
}

/// One operation of a JSON patch of Ironic's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Patch {
    /// Replaces as well.
    Add {
        path: String,
        value: Value,
    },
    Remove {
        path: String,
    },
}

/// The body of `PUT states/provision`.
#[derive(Debug, Clone, PartialEq)]
pub enum Verb {
    Manage,
    Inspect,
    Provide,
    Adopt,
    Abort,
    Deleted,
    Clean(Vec<StepCall>),
    Service(Vec<StepCall>),
    Active {
        /// None for a live ISO.
        config_drive: Option<ConfigDrive>,
        steps: Vec<StepCall>,
    },
}

impl Verb {
    /// The word of the state table.
    pub fn word(&self) -> crate::node::Verb {
        use crate::node::Verb as Word;
        match self {
            Self::Manage => Word::Manage,
            Self::Inspect => Word::Inspect,
            Self::Provide => Word::Provide,
            Self::Adopt => Word::Adopt,
            Self::Abort => Word::Abort,
            Self::Deleted => Word::Deleted,
            Self::Clean(_) => Word::Clean,
            Self::Service(_) => Word::Service,
            Self::Active { .. } => Word::Active,
        }
    }
}

/// What goes onto the config drive. The shell reads the Secrets; they were found usable by [`Look::DeployData`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigDrive {
    pub user_data: Option<SecretRef>,
    pub network_data: Option<SecretRef>,
    /// Laid over `defaults`.
    pub meta_data: Option<SecretRef>,
    pub defaults: Map<String, Value>,
}

/// A clean, deploy or service step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepCall {
    pub interface: String,
    pub step: String,
    pub args: Map<String, Value>,
    /// Deploy steps have one, others none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    On,
    Off,
    /// With a time limit of [`SOFT_TIMEOUT_SECONDS`].
    SoftOff,
    Reboot,
    SoftReboot,
}

pub const SOFT_TIMEOUT_SECONDS: u64 = 180;

impl Power {
    /// `target` of `PUT states/power`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "power on",
            Self::Off => "power off",
            Self::SoftOff => "soft power off",
            Self::Reboot => "rebooting",
            Self::SoftReboot => "soft rebooting",
        }
    }

    /// May be refused with 400 by BMCs that cannot: tell with [`super::Observed::soft_power_refused`].
    pub fn is_soft(self) -> bool {
        matches!(self, Self::SoftOff | Self::SoftReboot)
    }
}

/// An Event to publish on the host, related to its consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Something a person should see to.
    pub warning: bool,
    pub reason: &'static str,
    pub note: String,
}

impl Event {
    pub fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason,
            note: note.into(),
        }
    }

    pub fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            warning: true,
            reason,
            note: note.into(),
        }
    }
}

/// Why an action did not go well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// 409: the node is locked, or the object changed meanwhile.
    Busy,
    /// 4xx otherwise: it will not go better by itself.
    Refused { message: String },
    /// Refused as well, but the node is in another state by now than the one that was looked at:
    /// what was asked of it was out of date.
    Overtaken { state: String },
    /// No answer, or 5xx.
    Unreachable { message: String },
}

impl Trouble {
    /// A refusal seen with the state the node is in by now: it may be about a state that nobody had looked at, because
    /// what an earlier life of ours asked for was done between our look and our word.
    #[must_use]
    pub fn or_overtaken(self, seen: node::State, now: &str) -> Self {
        match self {
            Self::Refused { .. } if seen.as_str() != now => Self::Overtaken { state: now.into() },
            other => other,
        }
    }
}
