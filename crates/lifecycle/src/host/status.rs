//! What is written down of a host: `status` of a BareMetalHost. Reads and prints the JSON of the object as it is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::State;
use super::hints::RootDeviceHints;
use super::raid::Raid;
use super::spec::{BootMode, CustomDeploy, Image, SecretRef};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub operational_status: Operational,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorType>,
    pub error_message: String,
    /// Failures in a row; survives the error itself, and is forgotten with the next success.
    pub error_count: u32,
    pub provisioning_fail_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_image: Option<Image>,
    /// When this was last written, changes of conditions aside. Empty: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hardware_profile: String,
    /// HardwareDetails, see [`super::hardware`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Value>,
    pub provisioning: Provisioning,
    pub good_credentials: CredentialsStatus,
    pub tried_credentials: CredentialsStatus,
    pub powered_on: bool,
    pub operation_history: History,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Provisioning {
    pub state: State,
    /// The uuid of the node in Ironic.
    #[serde(rename = "ID")]
    pub id: String,
    /// What is deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<BootMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raid: Option<Raid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Operational {
    #[default]
    #[serde(rename = "")]
    Unknown,
    #[serde(rename = "OK")]
    Ok,
    #[serde(rename = "discovered")]
    Discovered,
    #[serde(rename = "error")]
    Error,
    /// Too many hosts are being worked on.
    #[serde(rename = "delayed")]
    Delayed,
    #[serde(rename = "detached")]
    Detached,
    #[serde(rename = "servicing")]
    Servicing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    #[serde(rename = "detach error")]
    Detach,
}

impl ErrorType {
    /// The reason of the event that tells of it.
    pub fn event(self) -> &'static str {
        match self {
            Self::ProvisionedRegistration => "ProvisionedRegistrationError",
            Self::Registration => "RegistrationError",
            Self::Inspection => "InspectionError",
            Self::Preparation => "PreparationError",
            Self::Provisioning => "ProvisioningError",
            Self::PowerManagement => "PowerManagementError",
            Self::Servicing => "ServicingError",
            Self::Detach => "DetachError",
        }
    }
}

/// Which Secret, in which version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CredentialsStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretRef>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub credentials_version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    pub register: Span,
    pub inspect: Span,
    pub provision: Span,
    pub deprovision: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Span {
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
}

impl Span {
    /// Begins, unless it is going on.
    pub fn begin(&mut self, now: Timestamp) {
        if self.start.is_none() || self.end.is_some() {
            *self = Self {
                start: Some(now),
                end: None,
            };
        }
    }

    pub fn finish(&mut self, now: Timestamp) {
        if self.start.is_some() && self.end.is_none() {
            self.end = Some(now);
        }
    }
}

/// A condition as every Kubernetes object has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: Truth,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
    pub last_transition_time: Timestamp,
    #[serde(default)]
    pub observed_generation: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Truth {
    True,
    False,
    Unknown,
}

/// Labels of a Kubernetes object.
pub type Labels = BTreeMap<String, String>;

impl Status {
    pub fn state(&self) -> State {
        self.provisioning.state
    }

    /// The URL of the image deployed; empty where none is.
    pub fn image_url(&self) -> &str {
        self.provisioning
            .image
            .as_ref()
            .map_or("", |image| &image.url)
    }

    pub fn deploy_method(&self) -> &str {
        let deploy = self.provisioning.custom_deploy.as_ref();
        deploy.map_or("", |deploy| &deploy.method)
    }

    /// Something was deployed, and is not deprovisioned yet.
    pub fn has_deployment(&self) -> bool {
        !self.image_url().is_empty() || !self.deploy_method().is_empty()
    }
}
