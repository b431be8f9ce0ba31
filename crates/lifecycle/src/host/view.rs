//! All there is to know of a host to decide its next step.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use model::Mac;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::spec::{SecretRef, Spec};
use super::status::Status;
use crate::node;

/// A BareMetalHost, as far as its lifecycle is concerned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Host {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub deleting: bool,
    /// It carries [`FINALIZER`].
    pub finalizer: bool,
    /// As they are; [`super::annotations`] reads them.
    pub annotations: BTreeMap<String, String>,
    pub spec: Spec,
    pub status: Status,
}

pub const FINALIZER: &str = "baremetalhost.metal3.io";

impl Host {
    /// The name of its node in Ironic.
    pub fn node_name(&self) -> String {
        format!("{}~{}", self.namespace, self.name)
    }
}

/// What the shell sees besides the host. What costs a call to Ironic is `None` until it was asked for by
/// [`super::Step::Look`]; within one pass nothing is asked for twice, and nothing of a pass is kept for the next.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    pub credentials: Credentials,
    /// `spec.hardware` of the HardwareData of the same name.
    pub hardware_data: Option<Value>,
    pub firmware_settings: Option<FirmwareSettings>,
    pub firmware_components: Option<FirmwareComponents>,
    pub update_policy: UpdatePolicy,
    pub preprovisioning_image: Option<PreprovisioningImage>,
    /// The version of the pre-provisioning network Secret, if there is one.
    pub network_secret_version: Option<String>,
    pub data_image: Option<DataImage>,
    /// The minor version Ironic speaks; none while it is not ready.
    pub ironic: Option<u16>,
    /// For how long it has not been ready.
    pub ironic_away: Duration,

    /// [`Look::Node`]
    pub node: Option<Option<Node>>,
    /// [`Look::PortOwner`], by MAC: the node that has a port with it, if one has.
    pub port_owners: BTreeMap<Mac, Option<PortOwner>>,
    /// [`Look::Ports`]: the MACs of the node's ports.
    pub ports: Option<Vec<Mac>>,
    /// [`Look::Inventory`]: the answer's body; none where there never was an inspection.
    pub inventory: Option<Option<Value>>,
    /// [`Look::Busy`]: names of the nodes that count against the limit, see [`super::busy`].
    pub busy: Option<Vec<String>>,
    /// [`Look::Validation`]: what is wrong with `boot` and `deploy`; empty where nothing is.
    pub validation: Option<Vec<String>>,
    /// [`Look::DeployData`]: the Secrets of the config drive and the image's pull secret, or why they cannot be used.
    pub deploy_data: Option<Result<(), String>>,
    /// [`Look::NetworkData`]: pre-provisioning network data, parsed; empty where the Secret has none.
    pub network_data: Option<Result<Option<Value>, String>>,
    /// [`Look::Components`]: whether the node reports firmware components.
    pub has_components: Option<bool>,
    /// [`Look::VirtualMedia`]: whether something is inserted.
    pub media_inserted: Option<bool>,
    /// [`Look::Bios`]: settings as they are now.
    pub bios: Option<BTreeMap<String, String>>,
    /// A soft power off or reboot was refused in this pass: the BMC cannot.
    pub soft_power_refused: bool,
}

/// The Secret named by `bmc.credentialsName`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Credentials {
    /// There is no such Secret, or none is named.
    #[default]
    Missing,
    /// It lacks something.
    Invalid { reason: String },
    /// Username and password are there. They stay with the shell.
    Present { secret: SecretRef, version: String },
}

/// What is to be asked before a step can be decided. The shell writes the answer into [`Observed`] and asks again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// `GET nodes/<ident>` for each; the first that exists.
    Node {
        idents: Vec<String>,
    },
    /// `GET ports?address=`, and its node.
    PortOwner {
        mac: Mac,
    },
    Ports {
        node: String,
    },
    Inventory {
        node: String,
    },
    /// `GET nodes?fields=uuid,name,provision_state,boot_interface`.
    Busy,
    Validation {
        node: String,
    },
    DeployData,
    NetworkData,
    Components {
        node: String,
    },
    Bios {
        node: String,
    },
    VirtualMedia {
        node: String,
    },
}

/// A node of Ironic's API, as `GET /v1/nodes/<ident>` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub uuid: String,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub driver: String,
    pub provision_state: node::State,
    #[serde(default)]
    pub target_provision_state: Option<String>,
    #[serde(default)]
    pub power_state: Option<String>,
    #[serde(default)]
    pub target_power_state: Option<String>,
    #[serde(default)]
    pub last_error: Option<String>,
    /// The end of the last inspection that went well.
    #[serde(default)]
    pub inspection_finished_at: Option<String>,
    #[serde(default)]
    pub maintenance: bool,
    #[serde(default)]
    pub fault: Option<String>,
    #[serde(default)]
    pub health: Option<String>,
    #[serde(default)]
    pub instance_uuid: Option<String>,
    #[serde(default)]
    pub boot_interface: Option<String>,
    #[serde(default)]
    pub deploy_interface: Option<String>,
    #[serde(default)]
    pub inspect_interface: Option<String>,
    #[serde(default)]
    pub raid_interface: Option<String>,
    #[serde(default)]
    pub automated_clean: Option<bool>,
    #[serde(default)]
    pub disable_power_off: Option<bool>,
    #[serde(default)]
    pub properties: Map<String, Value>,
    #[serde(default)]
    pub driver_info: Map<String, Value>,
    #[serde(default)]
    pub instance_info: Map<String, Value>,
    #[serde(default)]
    pub network_data: Map<String, Value>,
    /// What it is doing; see [`super::Waiting`].
    #[serde(default)]
    pub driver_internal_info: Map<String, Value>,
    #[serde(default)]
    pub deploy_step: Value,
    #[serde(default)]
    pub clean_step: Value,
    #[serde(default)]
    pub service_step: Value,
}

impl Node {
    pub fn powered_on(&self) -> Option<bool> {
        match self.power_state.as_deref() {
            Some("power on") => Some(true),
            Some("power off") => Some(false),
            _ => None,
        }
    }

    /// Text of `last_error`, if there is any.
    pub fn trouble(&self) -> Option<&str> {
        self.last_error.as_deref().filter(|text| !text.is_empty())
    }

    pub fn has_target(&self) -> bool {
        self.target_provision_state
            .as_deref()
            .is_some_and(|target| !target.is_empty())
    }

    pub fn has_fault(&self) -> bool {
        self.fault.as_deref().is_some_and(|fault| !fault.is_empty())
    }
}

/// The node that has a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortOwner {
    pub uuid: String,
    /// A node without a name belongs to nobody yet.
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observation {
    pub generation: i64,
    /// Of both conditions; none where they were never set.
    pub observed_generation: Option<i64>,
    pub change_detected: bool,
    pub valid: bool,
}

impl Observation {
    /// None: it was not looked at yet. Otherwise, whether there is a change to make.
    pub fn change(&self) -> Option<bool> {
        (self.observed_generation == Some(self.generation))
            .then_some(self.change_detected && self.valid)
    }
}

/// HostFirmwareSettings of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FirmwareSettings {
    pub seen: Observation,
    /// `spec.settings`: numbers or texts.
    pub wanted: BTreeMap<String, Value>,
    /// `status.settings`
    pub actual: BTreeMap<String, String>,
}

/// HostFirmwareComponents of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FirmwareComponents {
    pub seen: Observation,
    /// `spec.updates`
    pub wanted: Vec<FirmwareUpdate>,
    /// `status.updates`
    pub applied: Vec<FirmwareUpdate>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FirmwareUpdate {
    pub component: String,
    pub url: String,
}

/// HostUpdatePolicy of the same name: what may be changed when a provisioned host reboots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpdatePolicy {
    pub settings_on_reboot: bool,
    pub updates_on_reboot: bool,
}

/// PreprovisioningImage of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PreprovisioningImage {
    pub generation: i64,
    pub wanted: ImageRequest,
    pub deleting: bool,
    /// The Ready condition is true, for this generation.
    pub ready: bool,
    /// The message of the Error condition, while it is true.
    pub error: Option<String>,
    pub image_url: String,
    pub kernel_url: String,
    pub extra_kernel_params: String,
    pub format: Option<ImageFormat>,
    pub architecture: String,
    pub network_data_name: String,
    pub network_data_version: String,
}

/// `spec` of a PreprovisioningImage.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageRequest {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub network_data_name: String,
    pub architecture: String,
    pub accept_formats: Vec<ImageFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    Iso,
    Initrd,
}

/// DataImage of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataImage {
    /// `spec.url`
    pub url: String,
    pub deleting: bool,
    /// `status.attachedImage.url`; empty where nothing is.
    pub attached: String,
    pub error_count: u32,
    pub last_reconciled: Option<Timestamp>,
}

/// How the operator is set up.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Machines that boot over the network cannot be used.
    pub provisioning_network_disabled: bool,
    /// So many hosts boot the ramdisk over the network at once.
    pub provisioning_limit: usize,
    /// 0: for ever.
    pub max_provisioning_retries: u32,
    /// PreprovisioningImages are built for each host.
    pub image_builder: bool,
    /// Network configuration for the ramdisk is built into those images, so Ironic is not told of it.
    pub network_in_images: bool,
    /// The ramdisk, where it is the same for all.
    pub deploy_kernel: Option<String>,
    pub deploy_ramdisk: Option<String>,
    pub deploy_iso: Option<String>,
    /// The processor of hosts of which nothing is known.
    pub architecture: String,
    /// `external_http_url`, for BMCs with an IPv6 address.
    pub external_url_v6: Option<String>,
    pub live_iso_persistent_boot: Option<String>,
    pub direct_persistent_boot: Option<String>,
    pub pace: Pace,
}

/// How long things are left alone. Tests and impatient sites make it shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// A node that changes soon.
    pub short: Duration,
    /// A node at long work.
    pub long: Duration,
    /// Power of a host at rest.
    pub power: Duration,
    pub unmanaged: Duration,
    pub missing_secret: Duration,
    pub image: Duration,
    /// The longest pause while Ironic is away: it may be about to begin, so it is looked for sooner at first.
    pub not_ready: Duration,
    pub firmware: Duration,
    /// The unit of back-off after errors.
    pub backoff: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            short: Duration::from_secs(3),
            long: Duration::from_secs(10),
            power: Duration::from_mins(1),
            unmanaged: Duration::from_mins(10),
            missing_secret: Duration::from_secs(10),
            image: Duration::from_mins(5),
            not_ready: Duration::from_secs(30),
            firmware: Duration::from_mins(1),
            backoff: Duration::from_mins(1),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            provisioning_network_disabled: false,
            provisioning_limit: 20,
            max_provisioning_retries: 5,
            image_builder: false,
            network_in_images: true,
            deploy_kernel: None,
            deploy_ramdisk: None,
            deploy_iso: None,
            architecture: "x86_64".into(),
            external_url_v6: None,
            live_iso_persistent_boot: None,
            direct_persistent_boot: None,
            pace: Pace::default(),
        }
    }
}
