//! The objects, the servers, and what must always hold between them.

use std::time::Duration;

use jiff::Timestamp;
use lifecycle::host::{Bmc, Config, Host, Image, Operational, Spec, State, Status};
use serde_json::Value;

use crate::dice::Dice;
use crate::ironic::{Deed, Ironic, Metal, mac};

/// A BareMetalHost and what belongs to it.
#[derive(Debug, Clone)]
pub struct Object {
    pub host: Host,
    pub version: u64,
    pub hardware_data: Option<Value>,
    /// The version of the Secret, if there is one.
    pub secret: Option<u64>,
    /// A system runs that nobody asked to be taken off.
    pub settled: bool,
    /// A power off was asked of Ironic when somebody wanted one.
    pub off_asked: bool,
    /// When the operator wants to look again.
    pub wake_at: Timestamp,
    pub reason: String,
}

impl Object {
    pub fn wants_off(&self) -> bool {
        let host = &self.host;
        host.reboot(false).wanted() || !host.spec.online || host.deleting
    }
}

pub struct Rack {
    pub seed: u64,
    pub dice: Dice,
    pub now: Timestamp,
    pub config: Config,
    pub ironic: Ironic,
    /// One for each place in the rack; a place is also the number of the host that is described for it.
    pub metals: Vec<Metal>,
    pub objects: Vec<Option<Object>>,
    /// Deaths of the operator, in a hundred calls.
    pub deadly: usize,
    /// Calls that fail, in a hundred.
    pub flaky: usize,
    pub trace: Vec<String>,
    uids: u64,
}

impl Rack {
    pub fn new(seed: u64, places: usize) -> Self {
        let mut rack = Self {
            seed,
            dice: Dice::new(seed),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            config: Config {
                provisioning_limit: 2,
                ..Config::default()
            },
            ironic: Ironic::default(),
            metals: vec![Metal::default(); places],
            objects: vec![None; places],
            deadly: 0,
            flaky: 0,
            trace: Vec::new(),
            uids: 0,
        };
        for place in 0..places {
            rack.describe(place);
        }
        rack
    }

    /// Somebody describes the server at this place.
    pub fn describe(&mut self, place: usize) {
        self.uids += 1;
        let scheme = if place.is_multiple_of(2) {
            "redfish"
        } else {
            "redfish-virtualmedia"
        };
        let spec = Spec {
            online: true,
            bmc: Bmc {
                address: format!("{scheme}://192.0.2.{place}/redfish/v1/Systems/1"),
                credentials_name: "bmc".into(),
                disable_certificate_verification: false,
            },
            boot_mac_address: mac(place),
            ..Spec::default()
        };
        let host = Host {
            namespace: "metal".into(),
            name: format!("host-{place}"),
            uid: format!("uid-{}", self.uids),
            generation: 1,
            spec,
            ..Host::default()
        };
        self.objects[place] = Some(Object {
            host,
            version: 1,
            hardware_data: None,
            secret: Some(self.metals[place].password),
            settled: false,
            off_asked: false,
            wake_at: self.now,
            reason: String::new(),
        });
    }

    pub fn note(&mut self, line: &str) {
        self.trace.push(format!("{} {line}", self.now));
    }

    pub fn pass_time(&mut self, by: Duration) {
        self.now += by;
    }

    /// A user edits the spec of a host.
    pub fn edit(&mut self, place: usize, edit: impl FnOnce(&mut Spec)) {
        let Some(object) = &mut self.objects[place] else {
            return;
        };
        let before = object.host.spec.clone();
        edit(&mut object.host.spec);
        if object.host.spec != before {
            object.host.generation += 1;
            object.version += 1;
            object.wake_at = self.now;
        }
        self.observe(place);
    }

    pub fn annotate(&mut self, place: usize, key: &str, value: Option<&str>) {
        let Some(object) = &mut self.objects[place] else {
            return;
        };
        match value {
            Some(value) => object
                .host
                .annotations
                .insert(key.to_owned(), value.to_owned()),
            None => object.host.annotations.remove(key),
        };
        object.version += 1;
        object.wake_at = self.now;
    }

    pub fn delete(&mut self, place: usize) {
        let Some(object) = &mut self.objects[place] else {
            return;
        };
        object.host.deleting = true;
        object.host.generation += 1;
        object.version += 1;
        object.wake_at = self.now;
        if !object.host.finalizer {
            self.objects[place] = None;
        }
        self.observe(place);
    }

    pub fn save(&mut self, place: usize, status: &Status) {
        let text = serde_json::to_string(status).unwrap();
        let read: Status = serde_json::from_str(&text).unwrap();
        assert_eq!(
            read, *status,
            "a status survives being written, seed {}",
            self.seed
        );
        let object = self.objects[place].as_mut().unwrap();
        let (from, to) = (object.host.status.state(), status.state());
        object.host.status = read;
        object.version += 1;
        if from != to {
            self.note(&format!("host-{place}: {from:?} -> {to:?}"));
        }
        self.observe(place);
    }

    /// Whether the system on this place's disk is one that nobody may take off without being asked.
    fn observe(&mut self, place: usize) {
        let Some(object) = &mut self.objects[place] else {
            return;
        };
        let host = &object.host;
        let in_use = match host.status.state() {
            State::Provisioned => !host.is_cancelled(),
            State::ExternallyProvisioned => {
                host.spec.externally_provisioned || !host.spec.image_url().is_empty()
            }
            _ => object.settled && !host.is_cancelled(),
        };
        object.settled = in_use && !host.deleting;
    }

    /// What must hold after every call.
    pub fn check(&mut self) {
        for deed in std::mem::take(&mut self.ironic.deeds) {
            let (Deed::Wiped { rack } | Deed::Written { rack } | Deed::TurnedOff { rack }) = deed;
            let Some(object) = &self.objects[rack] else {
                continue;
            };
            let host = &object.host;
            let asked = object.off_asked || object.wants_off();
            let fine = match deed {
                Deed::TurnedOff { .. } => !object.settled || asked,
                Deed::Wiped { .. } | Deed::Written { .. } => !object.settled,
            };
            assert!(
                fine,
                "{deed:?} of a host in use: {:#?}\n{}",
                host,
                self.story()
            );
            if matches!(deed, Deed::TurnedOff { .. }) {
                self.objects[rack].as_mut().unwrap().off_asked = false;
            }
        }
        for (place, object) in self.objects.iter().enumerate() {
            let Some(object) = object else { continue };
            let status = &object.host.status;
            let broken = status.error_type.is_some();
            assert_eq!(
                broken,
                status.operational_status == Operational::Error,
                "an error is said to be one: {status:#?}\n{}",
                self.story()
            );
            let name = object.host.node_name();
            let named = self
                .ironic
                .nodes
                .values()
                .filter(|node| node.name.as_ref() == Some(&name));
            assert!(
                named.count() <= 1,
                "host-{place} has two nodes\n{}",
                self.story()
            );
            if status.state() == State::Provisioned && object.settled && !broken {
                let wanted = Some(status.image_url());
                let there = self.metals[place].system.as_deref();
                assert_eq!(
                    there,
                    wanted,
                    "host-{place} runs what it says\n{}",
                    self.story()
                );
            }
        }
    }

    pub fn story(&self) -> String {
        let tail = self.trace.len().saturating_sub(80);
        format!("seed {}:\n{}", self.seed, self.trace[tail..].join("\n"))
    }
}

pub fn image(name: &str) -> Image {
    Image {
        url: format!("http://images/{name}"),
        checksum: "0123".into(),
        ..Image::default()
    }
}
