//! `MachineHealthCheck`: when a machine counts as sick, and what is done then.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::MachineCondition;

pub const REMEDIATION_STRATEGY: &str = "machine.openshift.io/remediation-strategy";
/// A value of [`REMEDIATION_STRATEGY`]: cycle the host's power in place of deleting the machine.
pub const EXTERNAL_BARE_METAL: &str = "external-baremetal";
pub const PAUSED: &str = "cluster.x-k8s.io/paused";

#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "machine.openshift.io",
    version = "v1beta1",
    kind = "MachineHealthCheck",
    plural = "machinehealthchecks",
    shortname = "mhc",
    shortname = "mhcs",
    namespaced,
    status = "MachineHealthCheckStatus",
    derive = "PartialEq",
    doc = "When a machine counts as sick, and what is done then.",
    printcolumn(
        name = "MaxUnhealthy",
        type_ = "string",
        json_path = ".spec.maxUnhealthy",
        description = "Maximum number of unhealthy machines allowed"
    ),
    printcolumn(
        name = "ExpectedMachines",
        type_ = "integer",
        json_path = ".status.expectedMachines",
        description = "Number of machines currently monitored"
    ),
    printcolumn(
        name = "CurrentHealthy",
        type_ = "integer",
        json_path = ".status.currentHealthy",
        description = "Current observed healthy machines"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckSpec {
    /// Which machines are watched.
    pub selector: LabelSelector,
    /// A machine is sick when one of these holds for its Node.
    #[schemars(length(min = 1, max = 64))]
    pub unhealthy_conditions: Vec<UnhealthyCondition>,
    /// Nothing is done when more are sick than this: a number, or a share such as 40%.
    #[serde(default = "all_of_them")]
    #[x_kube(validation = ("type(self) == int ? self >= 0 : self.matches('^((100|[0-9]{1,2})%|[0-9]+)$')",
        "write a number or a percentage"))]
    pub max_unhealthy: IntOrString,
    /// A machine without a Node is sick after this long; 0 means never.
    #[serde(default = "ten_minutes")]
    #[schemars(
        length(max = 64),
        regex(pattern = r"^0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$")
    )]
    pub node_startup_timeout: String,
    /// What is made from this template cares for a sick machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation_template: Option<ObjectReference>,
}

fn all_of_them() -> IntOrString {
    IntOrString::String("100%".to_owned())
}

fn ten_minutes() -> String {
    "10m".to_owned()
}

/// A condition of a Node that has held for too long.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct UnhealthyCondition {
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub kind: String,
    #[schemars(length(min = 1, max = 16))]
    pub status: String,
    #[schemars(
        length(max = 64),
        regex(pattern = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$")
    )]
    pub timeout: String,
}

#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub expected_machines: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub current_healthy: Option<i32>,
    /// How many more may be sick.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub remediations_allowed: i32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<MachineCondition>,
}
