//! What a client may ask of a node: the `target` of `PUT /v1/nodes/{id}/states/provision`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::State;

/// A provision verb. `active` and `deploy`, and `deleted` and `undeploy`, mean the same; the later spellings came
/// with microversion 1.73.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Verb {
    Manage,
    Inspect,
    Provide,
    Active,
    Deploy,
    Rebuild,
    Deleted,
    Undeploy,
    Clean,
    Abort,
    Adopt,
    Rescue,
    Unrescue,
    Unhold,
    Service,
}

impl Verb {
    pub const ALL: [Self; 15] = [
        Self::Manage,
        Self::Inspect,
        Self::Provide,
        Self::Active,
        Self::Deploy,
        Self::Rebuild,
        Self::Deleted,
        Self::Undeploy,
        Self::Clean,
        Self::Abort,
        Self::Adopt,
        Self::Rescue,
        Self::Unrescue,
        Self::Unhold,
        Self::Service,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manage => "manage",
            Self::Inspect => "inspect",
            Self::Provide => "provide",
            Self::Active => "active",
            Self::Deploy => "deploy",
            Self::Rebuild => "rebuild",
            Self::Deleted => "deleted",
            Self::Undeploy => "undeploy",
            Self::Clean => "clean",
            Self::Abort => "abort",
            Self::Adopt => "adopt",
            Self::Rescue => "rescue",
            Self::Unrescue => "unrescue",
            Self::Unhold => "unhold",
            Self::Service => "service",
        }
    }

    /// The spelling the table uses: synonyms fold onto the older word.
    #[must_use]
    pub fn canonical(self) -> Self {
        match self {
            Self::Deploy => Self::Active,
            Self::Undeploy => Self::Deleted,
            Self::Manage
            | Self::Inspect
            | Self::Provide
            | Self::Active
            | Self::Rebuild
            | Self::Deleted
            | Self::Clean
            | Self::Abort
            | Self::Adopt
            | Self::Rescue
            | Self::Unrescue
            | Self::Unhold
            | Self::Service => self,
        }
    }

    /// The first minor API version that knows this verb for a node in `state`.
    pub fn since(self, state: State) -> u16 {
        match self {
            Self::Active | Self::Rebuild | Self::Deleted => 1,
            Self::Manage | Self::Provide => 4,
            Self::Inspect => 6,
            Self::Abort if state == State::WaitCallBack => 110,
            Self::Abort if state == State::InspectWait => 41,
            Self::Abort => 13,
            Self::Clean => 15,
            Self::Adopt => 17,
            Self::Rescue | Self::Unrescue => 38,
            Self::Deploy | Self::Undeploy => 73,
            Self::Unhold => 85,
            Self::Service => 87,
        }
    }

    /// Where the node is meant to end up: the new `target_provision_state`. `None` keeps the one it has.
    pub fn target(self) -> Option<State> {
        match self {
            Self::Manage | Self::Inspect | Self::Clean => Some(State::Manageable),
            Self::Provide | Self::Deleted | Self::Undeploy => Some(State::Available),
            Self::Active
            | Self::Deploy
            | Self::Rebuild
            | Self::Adopt
            | Self::Unrescue
            | Self::Service => Some(State::Active),
            Self::Rescue => Some(State::Rescue),
            Self::Abort | Self::Unhold => None,
        }
    }

    /// Refused on a node in maintenance: it would write a disk nobody is watching.
    pub fn refused_in_maintenance(self) -> bool {
        match self {
            Self::Active | Self::Deploy | Self::Rebuild => true,
            Self::Manage
            | Self::Inspect
            | Self::Provide
            | Self::Deleted
            | Self::Undeploy
            | Self::Clean
            | Self::Abort
            | Self::Adopt
            | Self::Rescue
            | Self::Unrescue
            | Self::Unhold
            | Self::Service => false,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a provision verb")]
pub struct ParseVerbError(String);

impl FromStr for Verb {
    type Err = ParseVerbError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|verb| verb.as_str() == text)
            .ok_or_else(|| ParseVerbError(text.chars().take(64).collect()))
    }
}

impl TryFrom<String> for Verb {
    type Error = ParseVerbError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Verb> for &'static str {
    fn from(verb: Verb) -> Self {
        verb.as_str()
    }
}
