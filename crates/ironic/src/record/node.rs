//! A server in our care.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use lifecycle::node::{BootBy, BootInto, DeployBy, Drivers, InspectBy, Power, Settings, View};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Event, Object, Row, Vif};

/// One node, with everything needed to go on with it after a restart.
#[expect(clippy::struct_field_names, reason = "the API's own names")]
#[derive(Clone, Serialize, Deserialize)]
pub struct Node {
    pub id: u64,
    pub uuid: Uuid,
    pub name: Option<String>,
    pub instance_uuid: Option<String>,
    pub instance_name: Option<String>,
    pub driver: String,
    pub interfaces: Interfaces,
    pub driver_info: Object,
    pub driver_internal_info: Object,
    pub properties: Object,
    pub instance_info: Object,
    pub extra: Object,
    pub network_data: Object,
    /// Where it is in its life, and how far an operation has come.
    pub life: View,
    /// A smaller thing that was asked for and is not done yet.
    pub errand: Option<Errand>,
    pub maintenance_reason: Option<String>,
    /// Who works on it: a change by anyone else is refused until it is free. Cleared when the service starts.
    pub reservation: Option<String>,
    pub console_enabled: bool,
    pub inspection_started_at: Option<Timestamp>,
    pub inspection_finished_at: Option<Timestamp>,
    pub clean_step: Object,
    pub deploy_step: Object,
    pub service_step: Object,
    pub raid_config: Object,
    pub target_raid_config: Object,
    pub resource_class: Option<String>,
    pub traits: Vec<String>,
    pub conductor_group: String,
    pub automated_clean: Option<bool>,
    pub protected: bool,
    pub protected_reason: Option<String>,
    pub owner: Option<String>,
    pub lessee: Option<String>,
    pub description: Option<String>,
    pub allocation_uuid: Option<Uuid>,
    pub retired: bool,
    pub retired_reason: Option<String>,
    pub boot_mode: Option<BootMode>,
    pub secure_boot: Option<bool>,
    pub shard: Option<String>,
    pub parent_node: Option<Uuid>,
    #[serde(default)]
    pub chassis_uuid: Option<Uuid>,
    pub disable_power_off: bool,
    pub vifs: Vec<Vif>,
    /// The latest of what went wrong.
    pub history: VecDeque<Event>,
    pub created_at: Timestamp,
    pub updated_at: Option<Timestamp>,
    /// What was last seen of the hardware.
    pub hardware: Hardware,
    /// What the host is to boot next over the network or from a virtual CD; from its disk where there is none.
    #[serde(default)]
    pub boot_order: Option<BootOrder>,
}

/// The implementation of each part of a driver that this node uses.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interfaces {
    pub bios: String,
    pub boot: String,
    pub console: String,
    pub deploy: String,
    pub firmware: String,
    pub inspect: String,
    pub management: String,
    pub network: String,
    pub power: String,
    pub raid: String,
    pub rescue: String,
    pub storage: String,
    pub vendor: String,
}

impl Node {
    pub fn new(uuid: Uuid, driver: String, interfaces: Interfaces, now: Timestamp) -> Self {
        let drivers = interfaces.drivers();
        Self {
            id: 0,
            uuid,
            name: None,
            instance_uuid: None,
            instance_name: None,
            driver,
            interfaces,
            driver_info: Object::new(),
            driver_internal_info: Object::new(),
            properties: Object::new(),
            instance_info: Object::new(),
            extra: Object::new(),
            network_data: Object::new(),
            life: View::enrolled(drivers, Settings::default(), now),
            errand: None,
            maintenance_reason: None,
            reservation: None,
            console_enabled: false,
            inspection_started_at: None,
            inspection_finished_at: None,
            clean_step: Object::new(),
            deploy_step: Object::new(),
            service_step: Object::new(),
            raid_config: Object::new(),
            target_raid_config: Object::new(),
            resource_class: None,
            traits: Vec::new(),
            conductor_group: String::new(),
            automated_clean: None,
            protected: false,
            protected_reason: None,
            owner: None,
            lessee: None,
            description: None,
            allocation_uuid: None,
            retired: false,
            retired_reason: None,
            boot_mode: None,
            secure_boot: None,
            shard: None,
            parent_node: None,
            chassis_uuid: None,
            disable_power_off: false,
            vifs: Vec::new(),
            history: VecDeque::new(),
            created_at: now,
            updated_at: None,
            hardware: Hardware::default(),
            boot_order: None,
        }
    }

    /// Tells its life what was changed about it: interfaces and settings count from the next operation on.
    pub fn settle(&mut self, defaults: Settings) {
        let flag = |value: Option<&serde_json::Value>| value.and_then(serde_json::Value::as_bool);
        self.life.drivers = self.interfaces.drivers();
        self.life.settings = Settings {
            automated_clean: self.automated_clean.unwrap_or(defaults.automated_clean),
            retired: self.retired,
            disable_power_off: self.disable_power_off,
            fast_track: flag(self.driver_info.get("fast_track")).unwrap_or(defaults.fast_track),
            kexec: flag(self.driver_info.get("kexec")).unwrap_or(defaults.kexec),
        };
    }

    /// What the power is being changed to, if it is.
    pub fn power_target(&self) -> Option<PowerTarget> {
        match self.errand {
            Some(Errand::Power { target, .. }) => Some(target),
            Some(
                Errand::BootMode(_)
                | Errand::SecureBoot(_)
                | Errand::Insert(_)
                | Errand::Eject { .. },
            )
            | None => None,
        }
    }

    /// Adds to the history; the oldest is dropped where it grows too long.
    pub fn happened(&mut self, event: Event) {
        const MOST: usize = 50;
        self.history.push_back(event);
        while self.history.len() > MOST {
            self.history.pop_front();
        }
    }

    /// Ends maintenance, and with it whatever was its reason.
    pub fn end_maintenance(&mut self) {
        self.life.maintenance = false;
        self.maintenance_reason = None;
        self.life.fault = None;
    }

    /// Forgets the agent that ran on the node: it is gone once the power is cut.
    pub fn forget_agent(&mut self) {
        let pregenerated = self
            .driver_internal_info
            .get("agent_secret_token_pregenerated")
            .is_some();
        for key in [
            "agent_url",
            "agent_last_heartbeat",
            "agent_verify_ca",
            "agent_version",
            "agent_step",
            "hardware_manager_version",
            "progress",
        ] {
            self.driver_internal_info.remove(key);
        }
        self.driver_internal_info
            .retain(|key, _| !key.starts_with("agent_cached_"));
        if !pregenerated {
            self.driver_internal_info.remove("agent_secret_token");
        }
    }

    /// Forgets the agent's token, even one that was made before the agent was booted.
    pub fn forget_token(&mut self) {
        for key in ["agent_secret_token", "agent_secret_token_pregenerated"] {
            self.driver_internal_info.remove(key);
        }
    }
}

impl Row for Node {
    const KIND: &'static str = "node";

    fn id(&self) -> u64 {
        self.id
    }

    fn uuid(&self) -> Uuid {
        self.uuid
    }

    fn names(&self) -> Vec<String> {
        // A name has no slash, so an instance cannot be taken for one.
        self.name
            .iter()
            .cloned()
            .chain(self.instance_uuid.iter().map(|uuid| instance_key(uuid)))
            .collect()
    }

    fn owner(&self) -> Option<Uuid> {
        self.parent_node
    }
}

/// The name under which the node of an instance is found.
fn instance_key(instance: &str) -> String {
    format!("instance/{instance}")
}

/// What a host is to boot. Boot files and media are made from it whenever they are asked for, so a restart loses none.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootOrder {
    pub into: BootInto,
    pub by: BootBy,
    /// Makes the address of the virtual CD unguessable, and tells this boot from earlier ones.
    pub key: Uuid,
}

/// Something asked of a node that is not a verb. The node is locked until it is done.
#[derive(Clone, Serialize, Deserialize)]
pub enum Errand {
    Power {
        target: PowerTarget,
        timeout: Option<u64>,
    },
    BootMode(BootMode),
    SecureBoot(bool),
    Insert(Medium),
    Eject {
        device_types: Vec<String>,
    },
}

impl Interfaces {
    /// What they mean for the order in which things are done.
    pub fn drivers(&self) -> Drivers {
        Drivers {
            boot: match self.boot.as_str() {
                "fake" => BootBy::Fake,
                "redfish-virtual-media" | "idrac-redfish-virtual-media" => BootBy::VirtualMedia,
                "redfish-https" => BootBy::UefiHttp,
                _ => BootBy::Pxe,
            },
            deploy: match self.deploy.as_str() {
                "fake" => DeployBy::Fake,
                "ramdisk" => DeployBy::Ramdisk,
                "custom-agent" => DeployBy::CustomAgent,
                _ => DeployBy::Direct,
            },
            inspect: match self.inspect.as_str() {
                "agent" => InspectBy::Agent,
                "redfish" | "idrac-redfish" => InspectBy::OutOfBand,
                _ => InspectBy::Fake,
            },
        }
    }
}

/// What a client may ask of the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerTarget {
    #[serde(rename = "power on")]
    On,
    #[serde(rename = "power off")]
    Off,
    #[serde(rename = "rebooting")]
    Reboot,
    #[serde(rename = "soft power off")]
    SoftOff,
    #[serde(rename = "soft rebooting")]
    SoftReboot,
}

impl PowerTarget {
    pub const ALL: [Self; 5] = [
        Self::On,
        Self::Off,
        Self::Reboot,
        Self::SoftOff,
        Self::SoftReboot,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "power on",
            Self::Off => "power off",
            Self::Reboot => "rebooting",
            Self::SoftOff => "soft power off",
            Self::SoftReboot => "soft rebooting",
        }
    }

    /// What the power is when it has been done.
    pub fn result(self) -> Power {
        match self {
            Self::On | Self::Reboot | Self::SoftReboot => Power::On,
            Self::Off | Self::SoftOff => Power::Off,
        }
    }

    /// The first minor API version that knows it.
    pub fn since(self) -> u16 {
        match self {
            Self::On | Self::Off | Self::Reboot => 1,
            Self::SoftOff | Self::SoftReboot => 27,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootMode {
    Uefi,
    Bios,
}

impl BootMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Uefi => "uefi",
            Self::Bios => "bios",
        }
    }
}

/// The state of the hardware: what its BMC last said, or all there is where it exists only in our memory.
#[derive(Clone, Serialize, Deserialize)]
pub struct Hardware {
    pub power: Power,
    pub boot: BootDevice,
    pub boot_mode: BootMode,
    pub secure_boot: bool,
    pub media: Vec<Medium>,
    pub indicators: BTreeMap<String, String>,
    /// The BMC keeps a boot device for one boot only: it is set again before every power on.
    #[serde(default)]
    pub resend_boot: bool,
    #[serde(default)]
    pub vendor: Option<String>,
    /// As Redfish names it: `OK`, `Warning`, `Critical`.
    #[serde(default)]
    pub health: Option<String>,
}

impl Default for Hardware {
    fn default() -> Self {
        Self {
            power: Power::Off,
            boot: BootDevice {
                boot_device: "pxe".into(),
                persistent: false,
            },
            boot_mode: BootMode::Uefi,
            secure_boot: false,
            media: Vec::new(),
            indicators: BTreeMap::new(),
            resend_boot: false,
            vendor: None,
            health: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootDevice {
    pub boot_device: String,
    pub persistent: bool,
}

/// An image in a virtual drive.
#[derive(Clone, Serialize, Deserialize)]
pub struct Medium {
    pub device_type: String,
    pub image_url: String,
}
