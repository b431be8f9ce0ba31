//! `Machine`: one node that is wanted, and the host that carries it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub const FINALIZER: &str = "machine.machine.openshift.io";

pub mod label {
    //! What a machine belongs to.

    pub const CLUSTER: &str = "machine.openshift.io/cluster-api-cluster";
    pub const ROLE: &str = "machine.openshift.io/cluster-api-machine-role";
    pub const TYPE: &str = "machine.openshift.io/cluster-api-machine-type";
    pub const MACHINE_SET: &str = "machine.openshift.io/cluster-api-machineset";
}

pub mod annotation {
    //! What is said about a machine beside its spec.

    /// The host, as namespace/name.
    pub const HOST: &str = "metal3.io/BareMetalHost";
    pub const INSTANCE_STATE: &str = "machine.openshift.io/instance-state";
    /// This machine goes first when its set shrinks.
    pub const DELETE: &str = "machine.openshift.io/delete-machine";
    pub const DELETE_OLD: &str = "machine.openshift.io/cluster-api-delete-machine";
    pub const EXCLUDE_DRAINING: &str = "machine.openshift.io/exclude-node-draining";
    /// On a Node: its machine, as namespace/name.
    pub const NODE_MACHINE: &str = "machine.openshift.io/machine";
    /// The machine is unhealthy, and its host's power is to be cycled.
    pub const EXTERNAL_REMEDIATION: &str = "host.metal3.io/external-remediation";
    pub const NODE_ANNOTATIONS_BACKUP: &str = "remediation.metal3.io/node-annotations-backup";
    pub const NODE_LABELS_BACKUP: &str = "remediation.metal3.io/node-labels-backup";
    pub const POWERED_OFF: &str = "remediation.metal3.io/powered-off-for-remediation";
    pub const POWER_ON_TIMEOUT: &str = "remediation.metal3.io/power-on-will-timeout-at";
}

#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "machine.openshift.io",
    version = "v1beta1",
    kind = "Machine",
    plural = "machines",
    namespaced,
    status = "MachineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A node that is wanted, and the host that carries it.",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Phase of machine"
    ),
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = ".metadata.labels['machine\\.openshift\\.io/instance-type']",
        description = "Type of instance"
    ),
    printcolumn(
        name = "Region",
        type_ = "string",
        json_path = ".metadata.labels['machine\\.openshift\\.io/region']",
        description = "Region associated with machine"
    ),
    printcolumn(
        name = "Zone",
        type_ = "string",
        json_path = ".metadata.labels['machine\\.openshift\\.io/zone']",
        description = "Zone associated with machine"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Machine age"
    ),
    printcolumn(
        name = "Node",
        type_ = "string",
        json_path = ".status.nodeRef.name",
        description = "Node associated with machine",
        priority = 1
    ),
    printcolumn(
        name = "ProviderID",
        type_ = "string",
        json_path = ".spec.providerID",
        description = "Provider ID of machine",
        priority = 1
    ),
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".metadata.annotations['machine\\.openshift\\.io/instance-state']",
        description = "State of the host",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Labels and annotations for the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// What must happen before the Node is drained and the host taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle_hooks: Option<LifecycleHooks>,
    /// Added to the Node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    #[serde(default)]
    pub provider_spec: ProviderSpec,
    /// Which host it is, once there is one.
    #[serde(
        rename = "providerID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 1024))]
    pub provider_id: Option<String>,
    /// Which API has the say over this machine.
    #[serde(rename = "authoritativeAPI", default)]
    pub authoritative_api: AuthoritativeApi,
}

/// What a template gives to those made from it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
}

#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHooks {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub pre_drain: Vec<LifecycleHook>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub pre_terminate: Vec<LifecycleHook>,
}

/// Somebody's wish to act first.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct LifecycleHook {
    #[schemars(
        length(min = 3, max = 256),
        regex(pattern = r"^[a-zA-Z0-9]([a-zA-Z0-9/.-]*[a-zA-Z0-9])?$")
    )]
    pub name: String,
    #[schemars(length(min = 3, max = 512))]
    pub owner: String,
}

/// What the machine is made of; on bare metal a [`crate::BareMetalMachineProviderSpec`].
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct ProviderSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub value: Option<Value>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthoritativeApi {
    #[default]
    MachineAPI,
    ClusterAPI,
    Migrating,
}

#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The Node that runs on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<ObjectReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// In one word, what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub provider_status: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// Provisioning, Provisioned, Running, Deleting or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<MachineCondition>,
    #[serde(
        rename = "authoritativeAPI",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub authoritative_api: Option<AuthoritativeApi>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronized_generation: Option<i64>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// InternalIP, Hostname or InternalDNS.
    #[serde(rename = "type")]
    pub kind: String,
    pub address: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LastOperation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A condition of the Machine API, which has a severity and need not have a reason.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MachineCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    pub last_transition_time: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// An object whose fields are another's affair.
fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
