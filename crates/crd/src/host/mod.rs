//! `BareMetalHost`: a server, what it shall be, and what it is.
//!
//! The admission rules that the original enforces by a webhook stand here as CEL, so that any API server keeps them.
//! What CEL cannot see (annotations, the object's namespace, other hosts) is left to the controller.

mod hints;
mod image;
mod interface;
mod raid;
mod status;

#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{ObjectReference, SecretReference, Taint};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use hints::RootDeviceHints;
pub use image::{ChecksumType, DiskFormat, Image};
pub use interface::{HostNetworkAttachmentRef, NetworkInterface, SwitchPort};
pub use raid::{
    HardwareRaidLevel, HardwareRaidVolume, RaidConfig, SoftwareRaidLevel, SoftwareRaidVolume,
};
pub use status::{
    BareMetalHostStatus, CredentialsStatus, ErrorType, OperationHistory, OperationMetric,
    OperationalStatus, ProvisionStatus,
};

/// What a server shall be.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "BareMetalHost",
    plural = "baremetalhosts",
    shortname = "bmh",
    shortname = "bmhost",
    namespaced,
    status = "BareMetalHostStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A server: how its BMC is reached, what shall run on it, and how far that is.",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.operationalStatus", description = "Operational status", priority = 1),
    printcolumn(name = "State", type_ = "string", json_path = ".status.provisioning.state", description = "Provisioning status"),
    printcolumn(name = "Consumer", type_ = "string", json_path = ".spec.consumerRef.name", description = "Consumer using this host"),
    printcolumn(name = "BMC", type_ = "string", json_path = ".spec.bmc.address", description = "Address of management controller", priority = 1),
    printcolumn(name = "Online", type_ = "string", json_path = ".spec.online", description = "Whether the host is online"),
    printcolumn(name = "Error", type_ = "string", json_path = ".status.errorType", description = "Type of the most recent error"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", description = "Time since the host was created"),
    validation = ("!self.metadata.name.matches('^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$')",
        "a host's name must not look like a UUID: Ironic could not tell it from a node's id"),
    validation = ("!has(oldSelf.spec.bmc) || oldSelf.spec.bmc.address == '' \
        || (has(self.spec.bmc) && self.spec.bmc.address == oldSelf.spec.bmc.address) \
        || (has(oldSelf.status) && (oldSelf.status.operationalStatus == 'detached' || oldSelf.status.provisioning.state == 'registering')) \
        || (has(self.status) && (self.status.operationalStatus == 'detached' || self.status.provisioning.state == 'registering'))",
        "spec.bmc.address can be changed only while the host is registering or detached"),
    validation = ("!(has(self.spec.externallyProvisioned) && self.spec.externallyProvisioned) \
        || (has(oldSelf.spec.externallyProvisioned) && oldSelf.spec.externallyProvisioned) \
        || (has(oldSelf.status) && oldSelf.status.provisioning.state in ['available', 'ready']) \
        || (has(self.status) && self.status.provisioning.state in ['available', 'ready'])",
        "spec.externallyProvisioned can be set only when the host is created or available"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!has(self.firmware)", "firmware is no longer supported; use a HostFirmwareSettings object"),
    validation = ("!has(oldSelf.bootMACAddress) || oldSelf.bootMACAddress == '' \
        || (has(self.bootMACAddress) && self.bootMACAddress.lowerAscii() == oldSelf.bootMACAddress.lowerAscii())",
        "bootMACAddress cannot be changed once it is set"),
    validation = ("!(has(self.disablePowerOff) && self.disablePowerOff) || self.online",
        "a host whose power must not be turned off has to be online"),
    validation = ("!(has(self.inspectionMode) && self.inspectionMode == 'disabled') || !has(self.bmc) || self.bmc.address == '' \
        || (has(self.bootMACAddress) && self.bootMACAddress != '')",
        "bootMACAddress is needed when inspection is disabled"),
    validation = ("!has(self.bmc) || !self.bmc.address.startsWith('libvirt:') || (has(self.bootMACAddress) && self.bootMACAddress != '')",
        "bootMACAddress is needed for a BMC of type libvirt"),
    validation = ("!(has(self.inspectionMode) && self.inspectionMode == 'fast') || !has(self.bmc) || self.bmc.address == '' \
        || self.bmc.address.matches('^(redfish|ilo5-|idrac-)')",
        "fast inspection needs a BMC that speaks Redfish"),
    validation = ("!(has(self.bootMode) && self.bootMode == 'UEFISecureBoot') || !has(self.bmc) || self.bmc.address == '' \
        || self.bmc.address.matches('^(redfish|ilo5-|idrac-)')",
        "secure boot needs a BMC that speaks Redfish"),
    validation = ("!has(self.raid) || !has(self.raid.hardwareRAIDVolumes) || self.raid.hardwareRAIDVolumes.size() == 0 \
        || !has(self.bmc) || self.bmc.address == '' || self.bmc.address.matches('^(redfish|ilo5-|idrac-)')",
        "hardware RAID needs a BMC that speaks Redfish"),
    validation = ("!has(self.rootDeviceHints) || !has(self.raid) || !has(self.raid.softwareRAIDVolumes) \
        || !self.raid.softwareRAIDVolumes.exists(v, has(v.rootVolume) && v.rootVolume)",
        "rootDeviceHints and a software RAID volume with rootVolume exclude each other"),
)]
pub struct BareMetalHostSpec {
    /// Taints for the node on this host. Kept for old manifests; nothing reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// How the server's management controller is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bmc: Option<BmcDetails>,
    /// RAID volumes to be made before the host is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidConfig>,
    /// No longer supported; use a HostFirmwareSettings object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<FirmwareConfig>,
    /// Where default root device hints come from. Deprecated: write rootDeviceHints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub hardware_profile: Option<String>,
    /// Which disk the image is written to. All hints that are given must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,
    /// How the server's firmware boots; UEFI unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<BootMode>,
    /// MAC address of the NIC that is on the provisioning network, never the BMC's.
    #[serde(
        rename = "bootMACAddress",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(
        length(max = 17),
        regex(pattern = r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
    )]
    pub boot_mac_address: Option<String>,
    /// Whether the server shall be powered on while it rests.
    pub online: bool,
    /// Who uses the host. A host with a consumer is not free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<ObjectReference>,
    /// What is written to the root disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Secret with the data handed to the installed system on its first boot (key userData or value).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretReference>,
    /// Name of the Secret with the network configuration of the ramdisk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub preprovisioning_network_data_name: Option<String>,
    /// Secret with the installed system's network configuration (key networkData or value).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,
    /// Secret with further metadata for the config drive (key metaData or value).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,
    /// Free text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Something else installed the server: its power is cared for, its disks are never touched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub externally_provisioned: bool,
    /// What is wiped between two uses of the server.
    #[serde(default)]
    pub automated_cleaning_mode: AutomatedCleaningMode,
    /// A deploy step of the ramdisk that installs the system in place of writing an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
    /// The CPU's architecture, such as x86_64; found by inspection where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub architecture: Option<String>,
    /// Never turn the power off: reboot instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_power_off: bool,
    /// How the hardware is found out; by the ramdisk unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspection_mode: Option<InspectionMode>,
    /// How the host's NICs are attached to switches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = ("self.all(a, self.exists_one(b, \
        (has(a.name) && has(b.name) && a.name.lowerAscii() == b.name.lowerAscii()) \
        || (has(a.macAddress) && has(b.macAddress) && a.macAddress.lowerAscii() == b.macAddress.lowerAscii())))",
        "each interface can be named only once"))]
    pub network_interfaces: Vec<NetworkInterface>,
}

/// How a management controller is reached.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BmcDetails {
    /// A URL whose scheme says how the BMC is driven, such as
    /// redfish-virtualmedia://192.0.2.10/redfish/v1/Systems/1 or ipmi://192.0.2.10.
    #[schemars(length(max = 2048))]
    #[x_kube(validation = ("self == '' || !self.contains('://') || \
        self.matches('^(ipmi|libvirt|(redfish|ilo5-redfish|idrac-redfish|redfish-virtualmedia|ilo5-virtualmedia|idrac-virtualmedia|redfish-uefihttp)([+]https?)?)://')",
        "the scheme is none of ipmi, libvirt, redfish, ilo5-redfish, idrac-redfish, redfish-virtualmedia, ilo5-virtualmedia, idrac-virtualmedia, redfish-uefihttp"))]
    #[x_kube(validation = ("!self.matches('^[^/]*//[^/]*@')", "user and password do not belong into the address; name a Secret in credentialsName"))]
    pub address: String,
    /// Name of a Secret in the host's namespace with the keys username and password.
    #[schemars(length(max = 253))]
    pub credentials_name: String,
    /// Do not check the BMC's certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_certificate_verification: bool,
}

/// Firmware settings of old; refused.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FirmwareConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtualization_enabled: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simultaneous_multithreading_enabled: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sriov_enabled: Option<bool>,
}

/// How a server's firmware boots.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BootMode {
    #[default]
    #[serde(rename = "UEFI")]
    Uefi,
    #[serde(rename = "UEFISecureBoot")]
    UefiSecureBoot,
    #[serde(rename = "legacy")]
    Legacy,
}

/// What is wiped between two uses.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AutomatedCleaningMode {
    #[default]
    Metadata,
    Disabled,
}

/// How the hardware is found out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum InspectionMode {
    Disabled,
    #[default]
    Agent,
    Fast,
}

/// A deploy step in place of writing an image.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomDeploy {
    /// The step's name, such as install_coreos.
    #[schemars(length(max = 256))]
    pub method: String,
}

/// The finalizer of the controller.
pub const FINALIZER: &str = "baremetalhost.metal3.io";
/// On Secrets that hosts use.
pub const SECRET_FINALIZER: &str = "baremetalhost.metal3.io/secret";
pub const HARDWARE_DATA_FINALIZER: &str = "baremetalhost.metal3.io/hardwareData";
pub const PREPROVISIONING_IMAGE_FINALIZER: &str = "baremetalhost.metal3.io/preprovisioningImage";
/// A label, on Secrets that hosts use.
pub const SECRET_LABEL: (&str, &str) = ("environment.metal3.io", "baremetal");

pub mod annotation {
    //! What is said to the controller beside the spec.

    pub const PAUSED: &str = "baremetalhost.metal3.io/paused";
    pub const DETACHED: &str = "baremetalhost.metal3.io/detached";
    /// A status to begin with, after a move.
    pub const STATUS: &str = "baremetalhost.metal3.io/status";
    /// One reboot; with a suffix after a slash the host is held off.
    pub const REBOOT: &str = "reboot.metal3.io";
    pub const INSPECT: &str = "inspect.metal3.io";
    pub const HARDWARE_DETAILS: &str = "inspect.metal3.io/hardwaredetails";
    pub const UNHEALTHY: &str = "capm3.metal3.io/unhealthy";
}
