//! The provision states of a node, with Ironic's own spellings.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `provision_state` of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum State {
    Enroll,
    Verifying,
    Manageable,
    Available,
    Inspecting,
    InspectWait,
    InspectFailed,
    Cleaning,
    CleanWait,
    CleanHold,
    CleanFailed,
    Deploying,
    WaitCallBack,
    DeployHold,
    DeployFailed,
    Active,
    Deleting,
    Error,
    Adopting,
    AdoptFailed,
    Rescuing,
    RescueWait,
    RescueFailed,
    Rescue,
    Unrescuing,
    UnrescueFailed,
    Servicing,
    ServiceWait,
    ServiceHold,
    ServiceFailed,
}

/// What a node in a state is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Rests until somebody asks for something.
    Stable,
    /// The service is at work on it.
    Working,
    /// The service waits for the host to call.
    Waiting,
    /// A step asked to stop here until `unhold`.
    Held,
    /// Something went wrong; `last_error` says what.
    Failed,
}

impl State {
    pub const ALL: [Self; 30] = [
        Self::Enroll,
        Self::Verifying,
        Self::Manageable,
        Self::Available,
        Self::Inspecting,
        Self::InspectWait,
        Self::InspectFailed,
        Self::Cleaning,
        Self::CleanWait,
        Self::CleanHold,
        Self::CleanFailed,
        Self::Deploying,
        Self::WaitCallBack,
        Self::DeployHold,
        Self::DeployFailed,
        Self::Active,
        Self::Deleting,
        Self::Error,
        Self::Adopting,
        Self::AdoptFailed,
        Self::Rescuing,
        Self::RescueWait,
        Self::RescueFailed,
        Self::Rescue,
        Self::Unrescuing,
        Self::UnrescueFailed,
        Self::Servicing,
        Self::ServiceWait,
        Self::ServiceHold,
        Self::ServiceFailed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enroll => "enroll",
            Self::Verifying => "verifying",
            Self::Manageable => "manageable",
            Self::Available => "available",
            Self::Inspecting => "inspecting",
            Self::InspectWait => "inspect wait",
            Self::InspectFailed => "inspect failed",
            Self::Cleaning => "cleaning",
            Self::CleanWait => "clean wait",
            Self::CleanHold => "clean hold",
            Self::CleanFailed => "clean failed",
            Self::Deploying => "deploying",
            Self::WaitCallBack => "wait call-back",
            Self::DeployHold => "deploy hold",
            Self::DeployFailed => "deploy failed",
            Self::Active => "active",
            Self::Deleting => "deleting",
            Self::Error => "error",
            Self::Adopting => "adopting",
            Self::AdoptFailed => "adopt failed",
            Self::Rescuing => "rescuing",
            Self::RescueWait => "rescue wait",
            Self::RescueFailed => "rescue failed",
            Self::Rescue => "rescue",
            Self::Unrescuing => "unrescuing",
            Self::UnrescueFailed => "unrescue failed",
            Self::Servicing => "servicing",
            Self::ServiceWait => "service wait",
            Self::ServiceHold => "service hold",
            Self::ServiceFailed => "service failed",
        }
    }

    pub fn kind(self) -> Kind {
        match self {
            Self::Enroll
            | Self::Manageable
            | Self::Available
            | Self::Active
            | Self::Rescue
            | Self::Error => Kind::Stable,
            Self::Verifying
            | Self::Inspecting
            | Self::Cleaning
            | Self::Deploying
            | Self::Deleting
            | Self::Adopting
            | Self::Rescuing
            | Self::Unrescuing
            | Self::Servicing => Kind::Working,
            Self::InspectWait
            | Self::CleanWait
            | Self::WaitCallBack
            | Self::RescueWait
            | Self::ServiceWait => Kind::Waiting,
            Self::CleanHold | Self::DeployHold | Self::ServiceHold => Kind::Held,
            Self::InspectFailed
            | Self::CleanFailed
            | Self::DeployFailed
            | Self::AdoptFailed
            | Self::RescueFailed
            | Self::UnrescueFailed
            | Self::ServiceFailed => Kind::Failed,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a provision state")]
pub struct ParseStateError(String);

impl FromStr for State {
    type Err = ParseStateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| ParseStateError(text.chars().take(64).collect()))
    }
}

impl TryFrom<String> for State {
    type Error = ParseStateError;

    fn try_from(text: String) -> Result<Self, ParseStateError> {
        text.parse()
    }
}

impl From<State> for &'static str {
    fn from(state: State) -> Self {
        state.as_str()
    }
}
