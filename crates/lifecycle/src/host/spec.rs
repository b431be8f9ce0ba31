//! What is wanted of a host: `spec` of a BareMetalHost. Reads the JSON of the object as it is.

use serde::{Deserialize, Serialize};

use super::hints::RootDeviceHints;
use super::raid::Raid;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    pub online: bool,
    pub bmc: Bmc,
    #[serde(rename = "bootMACAddress", skip_serializing_if = "String::is_empty")]
    pub boot_mac_address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<BootMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raid: Option<Raid>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hardware_profile: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretRef>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preprovisioning_network_data_name: String,
    pub externally_provisioned: bool,
    pub automated_cleaning_mode: CleaningMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<ObjectRef>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    pub disable_power_off: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inspection_mode: Option<InspectionMode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bmc {
    pub address: String,
    pub credentials_name: String,
    pub disable_certificate_verification: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum BootMode {
    #[default]
    #[serde(rename = "UEFI")]
    Uefi,
    #[serde(rename = "UEFISecureBoot")]
    UefiSecureBoot,
    #[serde(rename = "legacy")]
    Legacy,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    pub url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub checksum: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub checksum_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub format: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub oci_auth_secret_name: String,
}

impl Image {
    /// Booted, not written.
    pub fn is_live_iso(&self) -> bool {
        self.format == "live-iso"
    }

    pub fn is_oci(&self) -> bool {
        self.url.starts_with("oci://")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomDeploy {
    pub method: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CleaningMode {
    #[default]
    Metadata,
    Disabled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InspectionMode {
    Disabled,
    #[default]
    Agent,
    /// Out of band, by the BMC.
    Fast,
}

impl Spec {
    pub fn has_bmc(&self) -> bool {
        !self.bmc.address.is_empty() || !self.bmc.credentials_name.is_empty()
    }

    /// The URL of the image wanted; empty where none is.
    pub fn image_url(&self) -> &str {
        self.image.as_ref().map_or("", |image| &image.url)
    }

    /// The method of the custom deploy wanted; empty where none is.
    pub fn deploy_method(&self) -> &str {
        self.custom_deploy
            .as_ref()
            .map_or("", |deploy| &deploy.method)
    }
}
