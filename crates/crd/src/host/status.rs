//! What is known of a server, and how far its provisioning is.

use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BootMode, CustomDeploy, FirmwareConfig, Image, RaidConfig, RootDeviceHints};
use crate::hardware::HardwareDetails;

/// What is known of a server.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalHostStatus {
    /// Whether it goes well.
    #[serde(default)]
    pub operational_status: OperationalStatus,
    /// What the last failure was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorType>,
    /// When this status was last written; absent before the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The profile that default root device hints come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_profile: Option<String>,
    /// What inspection found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareDetails>,
    /// How far it is.
    #[serde(default)]
    pub provisioning: ProvisionStatus,
    /// The last credentials that worked.
    #[serde(default)]
    pub good_credentials: CredentialsStatus,
    /// The last credentials that were tried.
    #[serde(default)]
    pub tried_credentials: CredentialsStatus,
    /// What the last failure said.
    #[serde(default)]
    pub error_message: String,
    /// Whether the server is powered, as last seen.
    #[serde(default)]
    pub powered_on: bool,
    /// When each operation began and ended.
    #[serde(default)]
    pub operation_history: OperationHistory,
    /// Failures in a row; the wait before the next try grows with it.
    #[serde(default)]
    pub error_count: i64,
    /// Failed attempts to provision the image of lastAttemptedImage.
    #[serde(default)]
    pub provisioning_fail_count: i64,
    /// The image of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempted_image: Option<Image>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperationalStatus {
    // Not looked at yet.
    #[default]
    #[serde(rename = "")]
    None,
    #[serde(rename = "OK")]
    Ok,
    #[serde(rename = "discovered")]
    Discovered,
    #[serde(rename = "error")]
    Error,
    #[serde(rename = "delayed")]
    Delayed,
    #[serde(rename = "detached")]
    Detached,
    #[serde(rename = "servicing")]
    Servicing,
}

/// What a failure was about.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    #[serde(rename = "provisioned registration error")]
    ProvisionedRegistration,
    #[serde(rename = "registration error")]
    Registration,
    #[serde(rename = "inspection error")]
    Inspection,
    #[serde(rename = "preparation error")]
    Preparation,
    #[serde(rename = "provisioning error")]
    Provisioning,
    #[serde(rename = "power management error")]
    PowerManagement,
    #[serde(rename = "servicing error")]
    Servicing,
    // DEVIATION: the original's schema forgets this one, and its own status is then refused.
    #[serde(rename = "detach error")]
    Detach,
}

/// How far a server's provisioning is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionStatus {
    /// The state, such as available or provisioned.
    #[serde(default)]
    pub state: String,
    /// The id of the node in Ironic.
    #[serde(rename = "ID", default)]
    pub id: String,
    /// The image that is on the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// The hints in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,
    /// The boot mode in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<BootMode>,
    /// The RAID volumes that were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<FirmwareConfig>,
    /// The deploy step that installed the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
}

/// A Secret in one of its versions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_version: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct OperationHistory {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub register: Option<OperationMetric>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<OperationMetric>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provision: Option<OperationMetric>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprovision: Option<OperationMetric>,
}

/// When an operation began and ended.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct OperationMetric {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Time>,
}
