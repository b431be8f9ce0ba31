//! Ironic, as small as it can be: the table of states from `lifecycle::node`, moved by chance.

use std::collections::BTreeMap;

use lifecycle::host::{Login, NewNode, Node, Patch, Power, StepCall, Trouble, Verb};
use lifecycle::node::{Event, Kind, State, on_event, on_verb};
use model::Mac;
use serde_json::{Value, json};

use crate::dice::Dice;

/// A server, as it stands in the rack. It knows nothing of Ironic or of hosts.
#[derive(Debug, Clone, Default)]
pub struct Metal {
    pub on: bool,
    /// What its disk boots.
    pub system: Option<String>,
    /// Its BMC answers nobody.
    pub bmc_dead: bool,
    /// The version of the credentials its BMC takes.
    pub password: u64,
    /// Its ramdisk never calls.
    pub deaf: bool,
    /// How often it was turned off, by whatever means.
    pub offs: u32,
}

/// What happened to a server, for whoever watches.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    Wiped { rack: usize },
    Written { rack: usize },
    TurnedOff { rack: usize },
}

#[derive(Default)]
pub struct Ironic {
    pub nodes: BTreeMap<String, Node>,
    pub ports: BTreeMap<Mac, String>,
    inventories: BTreeMap<String, Value>,
    /// Steps of the manual cleaning that is going on.
    manual: BTreeMap<String, bool>,
    passwords: BTreeMap<String, u64>,
    born: u64,
    pub away: bool,
    /// Operations that fail, in a hundred.
    pub failing: usize,
    pub deeds: Vec<Deed>,
    /// Whatever is asked for is done before the answer is given.
    pub instant: bool,
}

type Answer = Result<(), Trouble>;

fn refused(message: impl Into<String>) -> Answer {
    Err(Trouble::Refused {
        message: message.into(),
    })
}

/// Which server a node drives: its address says.
pub fn rack_of(node: &Node) -> usize {
    let address = node.driver_info["redfish_address"].as_str().unwrap();
    address.rsplit('.').next().unwrap().parse().unwrap()
}

impl Ironic {
    /// The database is gone; what ran on servers runs on.
    pub fn forget_everything(&mut self) {
        self.nodes.clear();
        self.ports.clear();
        self.inventories.clear();
        self.manual.clear();
        self.passwords.clear();
    }

    pub fn find(&self, ident: &str) -> Option<&Node> {
        let named = || {
            self.nodes
                .values()
                .find(|node| node.name.as_deref() == Some(ident))
        };
        self.nodes.get(ident).or_else(named)
    }

    pub fn create(&mut self, new: &NewNode, password: u64) -> Answer {
        if self.find(&new.name).is_some() {
            return refused("a node of that name exists");
        }
        self.born += 1;
        let uuid = format!("node-{}", self.born);
        let mut body = serde_json::to_value(new).unwrap();
        body["uuid"] = uuid.clone().into();
        body["provision_state"] = "enroll".into();
        let node: Node = serde_json::from_value(body).unwrap();
        self.passwords.insert(uuid.clone(), password);
        self.nodes.insert(uuid, node);
        Ok(())
    }

    pub fn patch(&mut self, uuid: &str, patch: &[Patch]) -> Answer {
        let Some(node) = self.nodes.get_mut(uuid) else {
            return refused("no such node");
        };
        let mut body = serde_json::to_value(&*node).unwrap();
        for operation in patch {
            let (path, value) = match operation {
                Patch::Add { path, value } => (path, value.clone()),
                Patch::Remove { path } => (path, Value::Null),
            };
            let keys: Vec<&str> = path.trim_start_matches('/').split('/').collect();
            match keys.as_slice() {
                [field] => body[*field] = value,
                [field, key] => {
                    let object = body[*field].as_object_mut().unwrap();
                    if matches!(operation, Patch::Remove { .. }) {
                        object.remove(*key);
                    } else {
                        object.insert((*key).to_owned(), value);
                    }
                }
                _ => panic!("an odd path: {path}"),
            }
        }
        *node = serde_json::from_value(body).unwrap();
        Ok(())
    }

    pub fn set_driver_info(
        &mut self,
        uuid: &str,
        info: &serde_json::Map<String, Value>,
        login: Login,
        password: u64,
    ) -> Answer {
        let Some(node) = self.nodes.get_mut(uuid) else {
            return refused("no such node");
        };
        node.driver_info.clone_from(info);
        node.driver_info
            .insert(login.username.into(), "admin".into());
        node.driver_info
            .insert(login.password.into(), "******".into());
        self.passwords.insert(uuid.to_owned(), password);
        Ok(())
    }

    pub fn create_port(&mut self, uuid: &str, mac: Mac) -> Answer {
        if self.ports.contains_key(&mac) {
            return refused("the MAC is in use");
        }
        self.ports.insert(mac, uuid.to_owned());
        Ok(())
    }

    pub fn provision(&mut self, uuid: &str, verb: &Verb) -> Answer {
        let Some(node) = self.nodes.get_mut(uuid) else {
            return refused("no such node");
        };
        let word = verb.word();
        let Ok(to) = on_verb(node.provision_state, word) else {
            return refused(format!(
                "{word} is not possible in {}",
                node.provision_state
            ));
        };
        if node.maintenance && word.refused_in_maintenance() {
            return refused("the node is in maintenance");
        }
        if node.target_power_state.is_some() {
            return Err(Trouble::Busy);
        }
        match verb {
            Verb::Clean(steps) => {
                let erases = |step: &StepCall| step.step.starts_with("erase");
                self.manual
                    .insert(uuid.to_owned(), steps.iter().any(erases));
            }
            Verb::Active { .. } => {
                assert!(node.instance_uuid.is_some(), "a deployment has an instance");
            }
            Verb::Abort if to.kind() == Kind::Failed => {
                node.last_error = Some("the operation was aborted by request".into());
                node.provision_state = to;
                return Ok(());
            }
            Verb::Manage
            | Verb::Inspect
            | Verb::Provide
            | Verb::Adopt
            | Verb::Abort
            | Verb::Deleted
            | Verb::Service(_) => {
                self.manual.remove(uuid);
            }
        }
        node.last_error = None;
        node.provision_state = to;
        node.target_provision_state = match to.kind() {
            Kind::Stable => None,
            _ => word.target().map(|target| target.as_str().to_owned()),
        };
        Ok(())
    }

    pub fn power(&mut self, uuid: &str, power: Power, dice: &mut Dice) -> Answer {
        let Some(node) = self.nodes.get_mut(uuid) else {
            return refused("no such node");
        };
        if node.has_target() || node.target_power_state.is_some() {
            return Err(Trouble::Busy);
        }
        if power.is_soft() && dice.percent(20) {
            return refused("soft power off is not supported");
        }
        node.target_power_state = Some(power.as_str().to_owned());
        node.last_error = None;
        Ok(())
    }

    pub fn maintenance(&mut self, uuid: &str, on: bool) -> Answer {
        let Some(node) = self.nodes.get_mut(uuid) else {
            return refused("no such node");
        };
        node.maintenance = on;
        if !on {
            node.fault = None;
        }
        Ok(())
    }

    pub fn delete(&mut self, uuid: &str) -> Answer {
        let Some(node) = self.nodes.get(uuid) else {
            return Ok(());
        };
        let at_rest = matches!(
            node.provision_state,
            State::Enroll | State::Manageable | State::Available
        );
        let held = node.maintenance && !matches!(node.provision_state.kind(), Kind::Working);
        if !at_rest && !held {
            return refused(format!(
                "a node in {} cannot be deleted",
                node.provision_state
            ));
        }
        self.nodes.remove(uuid);
        self.ports.retain(|_, owner| owner != uuid);
        self.inventories.remove(uuid);
        Ok(())
    }

    pub fn inventory(&self, uuid: &str) -> Option<Value> {
        self.inventories.get(uuid).cloned()
    }

    /// Something happens to a node.
    pub fn work(&mut self, uuid: &str, metals: &mut [Metal], dice: &mut Dice) {
        let Some(mut node) = self.nodes.remove(uuid) else {
            return;
        };
        self.work_on(&mut node, metals, dice);
        node.power_state = match node.provision_state {
            State::Enroll | State::Verifying => node.power_state.take(),
            _ => {
                let on = metals[rack_of(&node)].on;
                Some(if on { "power on" } else { "power off" }.to_owned())
            }
        };
        self.nodes.insert(node.uuid.clone(), node);
    }

    fn work_on(&mut self, node: &mut Node, metals: &mut [Metal], dice: &mut Dice) {
        let rack = rack_of(node);
        let metal = &mut metals[rack];
        if let Some(target) = node.target_power_state.take() {
            if metal.bmc_dead || dice.percent(self.failing) {
                node.last_error = Some("the BMC did not change the power".into());
                return;
            }
            self.switch(
                rack,
                metal,
                target == "power on",
                target.contains("rebooting"),
            );
            return;
        }
        let state = node.provision_state;
        let event = match state.kind() {
            Kind::Stable | Kind::Held | Kind::Failed => return,
            Kind::Waiting if metal.deaf || metal.bmc_dead => Event::Fail,
            Kind::Waiting => Event::Resume,
            Kind::Working if metal.bmc_dead && state != State::Deleting => Event::Fail,
            Kind::Working if state == State::Verifying => {
                if self.passwords.get(&node.uuid) == Some(&metal.password) {
                    Event::Done
                } else {
                    Event::Fail
                }
            }
            Kind::Working if dice.percent(self.failing) => Event::Fail,
            Kind::Working if dice.percent(30) && on_event(state, Event::Wait).is_some() => {
                Event::Wait
            }
            Kind::Working => self.finish(node, rack, metal),
        };
        let Some(to) = on_event(state, event) else {
            return;
        };
        node.provision_state = to;
        match to.kind() {
            Kind::Stable => node.target_provision_state = None,
            Kind::Failed => {
                node.last_error = Some(format!("{state} failed"));
                if to == State::CleanFailed {
                    node.maintenance = true;
                    node.fault = Some("clean failure".into());
                }
            }
            Kind::Working | Kind::Waiting | Kind::Held => {}
        }
        if event == Event::Fail && to == State::Enroll {
            node.last_error = Some("the BMC refused the credentials".into());
        }
    }

    /// The work of a state is done, with all it does to the server.
    fn finish(&mut self, node: &mut Node, rack: usize, metal: &mut Metal) -> Event {
        match node.provision_state {
            State::Inspecting => {
                let inventory = inventory(rack);
                self.inventories.insert(node.uuid.clone(), inventory);
                self.switch(rack, metal, false, false);
                Event::Done
            }
            State::Cleaning => {
                if let Some(erases) = self.manual.remove(&node.uuid) {
                    if erases {
                        self.wipe(rack, metal);
                    }
                    return Event::Manage;
                }
                if node.automated_clean != Some(false) {
                    self.wipe(rack, metal);
                }
                Event::Done
            }
            State::Deploying => {
                let image = node
                    .instance_info
                    .get("image_source")
                    .and_then(Value::as_str);
                metal.system = Some(image.unwrap_or("a custom deployment").to_owned());
                self.deeds.push(Deed::Written { rack });
                metal.on = true;
                Event::Done
            }
            State::Deleting => {
                node.instance_uuid = None;
                node.instance_info.clear();
                self.switch(rack, metal, false, false);
                Event::Clean
            }
            _ => Event::Done,
        }
    }

    fn wipe(&mut self, rack: usize, metal: &mut Metal) {
        if metal.system.take().is_some() {
            self.deeds.push(Deed::Wiped { rack });
        }
        metal.on = false;
    }

    fn switch(&mut self, rack: usize, metal: &mut Metal, on: bool, reboot: bool) {
        if metal.on && !on {
            metal.offs += 1;
            self.deeds.push(Deed::TurnedOff { rack });
        }
        metal.on = on || reboot;
    }
}

pub fn inventory(rack: usize) -> Value {
    json!({
        "inventory": {
            "hostname": format!("server-{rack}"),
            "interfaces": [{"name": "eth0", "mac_address": mac(rack), "ipv4_address": format!("198.51.100.{rack}")}],
            "cpu": {"architecture": "x86_64"},
            "disks": [{"name": "/dev/sda", "size": 1_000_000_000}],
        },
        "plugin_data": {},
    })
}

pub fn mac(rack: usize) -> String {
    format!("52:54:00:00:00:{rack:02x}")
}
