//! `HostFirmwareSettings`: what the BIOS is set to and shall be set to. It has the host's name.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings to be changed, by name.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "HostFirmwareSettings",
    plural = "hostfirmwaresettings",
    shortname = "hfs",
    namespaced,
    status = "HostFirmwareSettingsStatus",
    derive = "PartialEq",
    doc = "BIOS settings of the host with the same name."
)]
pub struct HostFirmwareSettingsSpec {
    /// Only what differs from now is applied, when the host is prepared.
    #[serde(default)]
    pub settings: BTreeMap<String, IntOrString>,
}

/// What the BIOS is set to.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HostFirmwareSettingsStatus {
    /// The FirmwareSchema that says what can be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<SchemaReference>,
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// ChangeDetected and Valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaReference {
    pub namespace: String,
    pub name: String,
}
