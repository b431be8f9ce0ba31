//! All there is to know of a Machine to decide its next step, and what a step can be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host;
use crate::host::{Labels, ObjectRef, Truth};

pub const FINALIZER: &str = "machine.machine.openshift.io";
/// On a Machine: `<namespace>/<name>` of its host.
pub const HOST_ANNOTATION: &str = "metal3.io/BareMetalHost";
pub const INSTANCE_STATE: &str = "machine.openshift.io/instance-state";
/// The Node is not emptied before its Machine goes.
pub const EXCLUDE_DRAIN: &str = "machine.openshift.io/exclude-node-draining";

/// A Machine of machine.openshift.io/v1beta1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Machine {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: Labels,
    pub annotations: BTreeMap<String, String>,
    pub deleting: bool,
    /// It carries [`FINALIZER`].
    pub finalizer: bool,
    /// `spec.providerSpec.value`
    pub provider_spec: Value,
    /// `spec.providerID`
    pub provider_id: String,
    /// `spec.metadata`, copied to the Node.
    pub node_labels: Labels,
    pub node_annotations: BTreeMap<String, String>,
    /// `spec.taints`
    pub taints: Vec<Taint>,
    /// `name (owner)` of each `spec.lifecycleHooks.preTerminate`.
    pub pre_terminate_hooks: Vec<String>,
    pub status: Status,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Taint {
    pub key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    pub effect: String,
}

/// The part of `status` that is decided here, as JSON spells it. Fields of others are to be left as they are.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<NodeRef>,
    /// When any of this last changed; a health check's clock begins here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    pub addresses: Vec<Address>,
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    Provisioning,
    Provisioned,
    Running,
    Deleting,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRef {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Address {
    #[serde(rename = "type")]
    pub kind: AddressKind,
    pub address: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AddressKind {
    #[serde(rename = "InternalIP")]
    InternalIp,
    Hostname,
    #[serde(rename = "InternalDNS")]
    InternalDns,
    #[serde(rename = "ExternalIP")]
    ExternalIp,
    #[serde(rename = "ExternalDNS")]
    ExternalDns,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: Truth,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub severity: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub last_transition_time: Timestamp,
}

/// A host as a Machine sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostSeen {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Changes of the host are made only if it is still at this version.
    pub resource_version: String,
    pub labels: Labels,
    pub annotations: BTreeMap<String, String>,
    pub deleting: bool,
    pub spec: host::Spec,
    pub state: host::State,
    pub detached: bool,
    pub powered_on: bool,
    pub error_message: String,
    /// `status.hardware`
    pub hardware: Option<Value>,
}

/// A Node of Kubernetes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeSeen {
    pub name: String,
    pub uid: String,
    pub provider_id: String,
    pub labels: Labels,
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// `status.addresses` of type InternalIP, in order.
    pub internal_ips: Vec<String>,
    pub ready: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    /// The hosts of the Machine's namespace, and the one it has if that is elsewhere.
    pub hosts: Vec<HostSeen>,
    /// The Node that [`super::link`] gives to this Machine, or that its `nodeRef` names.
    pub node: Option<NodeSeen>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Somebody empties Nodes and says so with the Drained condition.
    pub drain: bool,
    pub poll: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            drain: false,
            poll: Duration::from_secs(30),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Do these in order, each only when the one before went well; then begin a new pass.
    Do(Vec<Action>),
    Wait {
        reason: String,
        until: Timestamp,
    },
    /// Nothing, until somebody changes an object.
    Done,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    AddFinalizer,
    RemoveFinalizer,
    /// Of the Machine.
    Annotate {
        key: &'static str,
        value: String,
    },
    SetProviderId(String),
    Save(Box<Status>),
    /// Change the host's spec in one update, only if it is still at the version seen: that is what keeps two Machines
    /// from one host.
    ChangeHost {
        namespace: String,
        name: String,
        resource_version: String,
        change: Box<HostChange>,
    },
    SetNodeProviderId {
        node: String,
        provider_id: String,
    },
    /// Add these to the Node.
    MarkNode {
        node: String,
        labels: Labels,
        annotations: BTreeMap<String, String>,
        taints: Vec<Taint>,
    },
    DeleteNode {
        node: String,
    },
}

/// The fields of a host's spec that a Machine writes, all of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostChange {
    pub consumer_ref: Option<ObjectRef>,
    pub image: Option<host::Image>,
    pub custom_deploy: Option<host::CustomDeploy>,
    pub user_data: Option<host::SecretRef>,
    pub online: bool,
}

/// How a host's consumer refers to a Machine.
pub fn host_ref(machine: &Machine) -> ObjectRef {
    ObjectRef {
        api_version: "machine.openshift.io/v1beta1".into(),
        kind: "Machine".into(),
        namespace: machine.namespace.clone(),
        name: machine.name.clone(),
        uid: String::new(),
    }
}

/// `baremetalhost:///<namespace>/<name>/<uid>`
pub fn provider_id(host: &HostSeen) -> String {
    format!(
        "baremetalhost:///{}/{}/{}",
        host.namespace, host.name, host.uid
    )
}

impl HostSeen {
    pub fn is_used_by(&self, machine: &Machine) -> bool {
        let wanted = host_ref(machine);
        self.spec.consumer_ref.as_ref().is_some_and(|consumer| {
            ObjectRef {
                uid: String::new(),
                ..consumer.clone()
            } == wanted
        })
    }

    /// The fields a Machine may write, as they are.
    pub fn current(&self) -> HostChange {
        HostChange {
            consumer_ref: self.spec.consumer_ref.clone(),
            image: self.spec.image.clone(),
            custom_deploy: self.spec.custom_deploy.clone(),
            user_data: self.spec.user_data.clone(),
            online: self.spec.online,
        }
    }

    pub fn change(&self, change: HostChange) -> Action {
        Action::ChangeHost {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            resource_version: self.resource_version.clone(),
            change: Box::new(change),
        }
    }

    /// Addresses from its hardware: NICs without one are left out, and none is said twice.
    pub fn addresses(&self) -> Vec<Address> {
        let Some(hardware) = &self.hardware else {
            return Vec::new();
        };
        let nics = hardware["nics"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let ips = nics.iter().filter_map(|nic| nic["ip"].as_str());
        let name = hardware["hostname"].as_str();
        let named = [AddressKind::Hostname, AddressKind::InternalDns]
            .into_iter()
            .filter_map(|kind| name.map(|name| (kind, name)));
        let mut said = BTreeSet::new();
        ips.map(|ip| (AddressKind::InternalIp, ip))
            .chain(named)
            .filter(|(_, text)| !text.is_empty())
            .map(|(kind, text)| Address {
                kind,
                address: text.to_owned(),
            })
            .filter(|address| said.insert(address.clone()))
            .collect()
    }
}
