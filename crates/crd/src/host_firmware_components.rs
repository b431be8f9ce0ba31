//! `HostFirmwareComponents`: which firmware a server runs and shall run. It has the host's name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HostFirmwareComponents",
    plural = "hostfirmwarecomponents",
    namespaced,
    status = "HostFirmwareComponentsStatus",
    derive = "PartialEq",
    doc = "Firmware of the host with the same name: what is there, and what is to be flashed."
)]
pub struct HostFirmwareComponentsSpec {
    /// What is to be flashed.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub updates: Vec<FirmwareUpdate>,
}

/// A component and its new firmware.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwareUpdate {
    /// bios, bmc, or a NIC as nic:NAME.
    #[schemars(length(max = 256))]
    #[x_kube(validation = ("self in ['bios', 'bmc'] || self.startsWith('nic:')", "a component is bios, bmc or nic:NAME"))]
    pub component: String,
    #[schemars(length(max = 4096))]
    #[x_kube(validation = ("self.matches('^(http|https|ftp|gopher|oci)://')", "the URL's scheme is none of http, https, ftp, gopher, oci"))]
    pub url: String,
}

#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HostFirmwareComponentsStatus {
    /// What was last sent to be flashed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<FirmwareUpdate>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<FirmwareComponent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// ChangeDetected and Valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FirmwareComponent {
    pub component: String,
    pub initial_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_version_flashed: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Time>,
}
