//! The life of a MachineSet: as many Machines as it says, or as there are hosts for.
//!
//! `next` counts and makes one change at a time; `order` says which Machine goes first; `autoscale` counts hosts.

mod autoscale;
mod next;
mod order;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::host::Labels;
use crate::machine::LabelSelector;

pub use autoscale::{AUTOSCALE, Consumer, FreeHost, replicas_for_hosts};
pub use next::next;
pub use order::DELETE_MACHINE;

/// A MachineSet of machine.openshift.io/v1beta1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MachineSet {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub deleting: bool,
    pub annotations: BTreeMap<String, String>,
    pub replicas: u32,
    pub min_ready_seconds: u32,
    pub delete_policy: DeletePolicy,
    pub selector: LabelSelector,
    pub template_labels: Labels,
    pub status: Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum DeletePolicy {
    #[default]
    Random,
    Newest,
    Oldest,
}

/// `status`, as JSON spells it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub replicas: u32,
    pub fully_labeled_replicas: u32,
    pub ready_replicas: u32,
    pub available_replicas: u32,
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// A Machine of the set's namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub name: String,
    pub uid: String,
    pub labels: Labels,
    /// The uid of its controller, if it has one.
    pub controller: Option<String>,
    pub created: Timestamp,
    pub deleting: bool,
    /// It carries [`DELETE_MACHINE`], or the older form of it.
    pub marked: bool,
    /// It has an error, or failed.
    pub failed: bool,
    pub has_node: bool,
    /// Since when its Node is ready.
    pub ready_since: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Do it, wait until it shows in what is observed, and begin a new pass.
    Do(Action),
    Wait {
        reason: String,
        until: Timestamp,
    },
    Done,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// From the template, with a generated name and the set as controller.
    CreateMachine,
    DeleteMachine {
        name: String,
    },
    /// Become its controller.
    AdoptMachine {
        name: String,
    },
    /// `spec.replicas`
    SetReplicas(u32),
    Save(Box<Status>),
}
