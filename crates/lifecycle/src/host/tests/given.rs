//! Hosts and nodes as adjectives.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::host::{
    Action, Bmc, Config, Credentials, CredentialsStatus, CustomDeploy, ErrorType, Host, Image,
    Node, Observed, Operational, RootDeviceHints, SecretRef, Spec, State, Status, Step, conditions,
    next,
};
use crate::node;

pub const MAC: &str = "52:54:00:00:00:01";

pub fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// A host with a node, both as they should be.
#[derive(Clone)]
pub struct Given {
    pub host: Host,
    pub seen: Observed,
    pub config: Config,
}

pub fn secret() -> CredentialsStatus {
    CredentialsStatus {
        credentials: Some(SecretRef {
            name: "bmc".into(),
            namespace: "metal".into(),
        }),
        credentials_version: "1".into(),
    }
}

/// A registered host in a state, its node in another.
pub fn host(state: State, node: node::State) -> Given {
    let spec = Spec {
        online: true,
        bmc: Bmc {
            address: "redfish://192.0.2.1/redfish/v1/Systems/1".into(),
            credentials_name: "bmc".into(),
            disable_certificate_verification: false,
        },
        boot_mac_address: MAC.into(),
        ..Spec::default()
    };
    let mut status = Status {
        operational_status: Operational::Ok,
        hardware_profile: "unknown".into(),
        good_credentials: secret(),
        tried_credentials: secret(),
        ..Status::default()
    };
    status.provisioning.state = state;
    status.provisioning.id = "node-1".into();
    status.provisioning.root_device_hints = Some(RootDeviceHints::by_name("/dev/sda"));
    let host = Host {
        namespace: "metal".into(),
        name: "h0".into(),
        uid: "uid-0".into(),
        generation: 1,
        finalizer: true,
        spec,
        status,
        ..Host::default()
    };
    let seen = Observed {
        credentials: Credentials::Present {
            secret: secret().credentials.unwrap(),
            version: "1".into(),
        },
        ironic: Some(110),
        node: Some(Some(node_in(node))),
        ports: Some(vec![MAC.parse().unwrap()]),
        port_owners: BTreeMap::from([(MAC.parse().unwrap(), None)]),
        inventory: Some(None),
        busy: Some(vec![]),
        validation: Some(vec![]),
        deploy_data: Some(Ok(())),
        has_components: Some(false),
        ..Observed::default()
    };
    Given {
        host,
        seen,
        config: Config::default(),
    }
}

pub fn node_in(state: node::State) -> Node {
    serde_json::from_value(json!({
        "uuid": "node-1",
        "name": "metal~h0",
        "driver": "redfish",
        "provision_state": state.as_str(),
        "power_state": "power off",
        "boot_interface": "ipxe",
        "automated_clean": true,
        "properties": {"capabilities": "boot_mode:uefi", "cpu_arch": "x86_64"},
        "driver_info": {
            "redfish_address": "https://192.0.2.1", "redfish_system_id": "/redfish/v1/Systems/1",
            "redfish_username": "admin", "redfish_password": "******",
        },
    }))
    .unwrap()
}

pub fn image(name: &str) -> Image {
    Image {
        url: format!("http://images/{name}"),
        checksum: "c0ffee".into(),
        ..Image::default()
    }
}

/// A host nobody uses, on.
pub fn rest() -> Given {
    host(State::Available, node::State::Available).powered_on()
}

/// A host that runs an image, on.
pub fn in_use() -> Given {
    host(State::Provisioned, node::State::Active)
        .has("a")
        .powered_on()
}

/// A host that nobody has looked at yet.
pub fn fresh() -> Given {
    host(State::None, node::State::Enroll)
        .unknown_to_ironic()
        .with(|given| given.host.status = Status::default())
}

/// The error is new, and was seen with the spec as it is.
pub fn just_now(given: &mut Given) {
    let mut status = given.host.status.clone();
    status.last_updated = Some(now());
    conditions::refresh(&mut status, &given.host, None, now(), now());
    given.host.status = status;
}

impl Given {
    pub fn wants(mut self, name: &str) -> Self {
        self.host.spec.image = Some(image(name));
        self.host.status.last_attempted_image = Some(image(name));
        self
    }

    /// Wants it and has it.
    pub fn has(mut self, name: &str) -> Self {
        self = self.wants(name);
        self.host.status.provisioning.image = Some(image(name));
        self
    }

    pub fn custom(mut self, method: &str) -> Self {
        self.host.spec.custom_deploy = Some(CustomDeploy {
            method: method.into(),
        });
        self
    }

    pub fn failed(mut self, kind: ErrorType, message: &str) -> Self {
        let status = &mut self.host.status;
        status.operational_status = Operational::Error;
        status.error_type = Some(kind);
        status.error_message = message.into();
        status.error_count = 1;
        status.last_updated = Some(now() - Duration::from_hours(1));
        self
    }

    pub fn deleting(mut self) -> Self {
        self.host.deleting = true;
        self
    }

    pub fn offline(mut self) -> Self {
        self.host.spec.online = false;
        self
    }

    pub fn powered_on(mut self) -> Self {
        self.host.status.powered_on = true;
        self.node().power_state = Some("power on".into());
        self
    }

    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.host.annotations.insert(key.into(), value.into());
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn node(&mut self) -> &mut Node {
        self.seen.node.as_mut().unwrap().as_mut().unwrap()
    }

    pub fn unknown_to_ironic(mut self) -> Self {
        self.seen.node = Some(None);
        self
    }

    pub fn next(&self) -> Step {
        let step = next(&self.host, &self.seen, &self.config, now());
        let again = next(&self.host, &self.seen, &self.config, now());
        assert_eq!(step, again, "asking twice gives the same answer");
        step
    }

    /// The next step in short.
    pub fn says(&self) -> String {
        brief(&self.next(), &self.host.status)
    }

    /// The status the next step writes.
    pub fn saves(&self) -> Status {
        let Step::Do { actions, .. } = self.next() else {
            panic!("{:?}", self.next())
        };
        let saved = actions.into_iter().find_map(|action| match action {
            Action::Save(status) => Some(*status),
            _ => None,
        });
        saved.unwrap()
    }
}

pub fn brief(step: &Step, before: &Status) -> String {
    match step {
        Step::Look(look) => format!("look: {look:?}"),
        Step::Wait { reason, until } => {
            format!("wait {}s: {reason}", now().duration_until(*until).as_secs())
        }
        Step::Done => "done".into(),
        Step::Do { actions, events } => {
            let mut words: Vec<String> = actions.iter().map(|action| act(action, before)).collect();
            words.extend(events.iter().map(|event| format!("[{}]", event.reason)));
            words.join(", ")
        }
    }
}

fn act(action: &Action, before: &Status) -> String {
    match action {
        Action::Save(status) => {
            let from = before.state();
            let to = status.state();
            if let Some(kind) = status.error_type
                && before.error_type != status.error_type
            {
                return format!("{kind:?} error: {}", status.error_message);
            }
            if from != to {
                return format!("-> {to}");
            }
            if before.operational_status != status.operational_status {
                return format!("status {:?}", status.operational_status);
            }
            if before.error_type.is_some() && status.error_type.is_none() {
                return "error over".into();
            }
            "save".into()
        }
        Action::Provision { verb, .. } => format!("verb {}", verb.word()),
        Action::Power { power, .. } => power.as_str().into(),
        Action::PatchNode { patch, .. } => {
            let paths = patch.iter().map(|patch| match serde_json::to_value(patch) {
                Ok(Value::Object(patch)) => patch["path"].as_str().unwrap_or("").to_owned(),
                _ => String::new(),
            });
            format!("patch {}", paths.collect::<Vec<_>>().join(" "))
        }
        Action::RemoveAnnotations(keys) => format!("remove {}", keys.join(" ")),
        Action::ClearMaintenance { .. } => "end maintenance".into(),
        Action::SetMaintenance { .. } => "begin maintenance".into(),
        Action::DeleteNode { .. } => "delete node".into(),
        Action::CreateNode(_) => "create node".into(),
        Action::CreatePort { mac, .. } => format!("create port {mac}"),
        Action::PatchDriverInfo { .. } => "set driver_info".into(),
        Action::AddFinalizer => "add finalizer".into(),
        Action::Release => "release".into(),
        Action::SetArchitecture(arch) => format!("architecture {arch}"),
        Action::SaveHardwareData(_) => "save hardware data".into(),
        Action::EnsureFirmwareObjects { .. } => "ensure firmware objects".into(),
        Action::SaveFirmwareUpdates(updates) => format!("save {} updates", updates.len()),
        Action::EnsurePreprovisioningImage(_) => "ensure image".into(),
        Action::SaveDataImage { attached, .. } => format!("data image is {attached:?}"),
        Action::SetRaid { logical_disks, .. } => format!("raid of {}", logical_disks.len()),
        Action::AttachMedia { url, .. } => format!("attach {url}"),
        Action::DetachMedia { .. } => "detach media".into(),
    }
}
