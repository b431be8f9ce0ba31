//! Changing a node's fields.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lifecycle::node::State;
use serde_json::Value;

use super::create::{fill, parent, unique};
use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::field;
use crate::api::patch::{self, Operation};
use crate::api::request::{Reply, Request};
use crate::record::{Interfaces, Node};

pub async fn patch(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    request.query.only(&["reset_interfaces"])?;
    let reset = request.query.bool("reset_interfaces")?;
    if reset.is_some() {
        request.version.needs(45, "Argument \"reset_interfaces\"")?;
    }
    let operations = patch::parse(&request.json()?, request.version)?;
    let reset = reset.unwrap_or(false);
    if reset && !operations.iter().any(|operation| operation.sets("driver")) {
        return Err(Fault::bad_request(
            "reset_interfaces can only be used when the driver is changed.",
        ));
    }
    let uuid = service
        .store
        .change(|tables| {
            let before = super::free(tables, request, ident)?;
            let now = Timestamp::now();
            allowed(&before, &operations, request)?;
            let mut node = apply(&before, &operations, request)?;
            if reset {
                let blank = Interfaces::default();
                let asked =
                    |name: &str| operations.iter().any(|operation| operation.field() == name);
                node.interfaces = node.interfaces.kept(&blank, asked);
            }
            fill(&mut node)?;
            consistent(&before, &node)?;
            unique(tables, &node, Some(node.uuid))?;
            parent(tables, &node)?;
            node.updated_at = Some(now);
            service.conductor.settle(&mut node, now);
            let uuid = node.uuid;
            Ok::<_, Fault>((vec![node.into()], uuid))
        })
        .await?;
    service.conductor.poke(uuid);
    let node = super::find(service, request, &uuid.to_string())?;
    Ok(Reply::ok(&field::whole(&*node, &service.scope(request))))
}

/// Whether the node is in a state in which it may be changed at all.
fn allowed(node: &Node, operations: &[Operation], request: &Request) -> Result<(), Fault> {
    let state = node.life.state;
    let unbinds = node.life.maintenance
        && operations
            .iter()
            .all(|operation| operation.removes("instance_uuid"));
    let inspecting = state == State::Inspecting && request.version.0 >= 39;
    let may = state.may_change_fields(node.life.target.is_some()) && !inspecting;
    if !may && !unbinds {
        return Err(Fault::conflict(format!(
            "Node {} can not be updated while a state transition is in progress; it is in state {state}.",
            node.uuid
        )));
    }
    Ok(())
}

fn apply(before: &Node, operations: &[Operation], request: &Request) -> Result<Node, Fault> {
    let mut node = before.clone();
    let scope = field::Scope {
        base: "",
        version: request.version,
        host: "",
    };
    let fields: BTreeMap<String, Value> = patch::apply(operations, |name| {
        let field = field::pick::<Node>(name, request.version)?;
        if field.write.is_none() {
            return Err(Fault::bad_request(format!(
                "{name} of a node cannot be changed by a patch."
            )));
        }
        Ok((field.read)(before, &scope).bare())
    })?;
    for (name, value) in fields {
        if name == "driver" && value.is_null() {
            return Err(Fault::bad_request("driver: cannot be removed"));
        }
        field::write(&mut node, &name, value, request.version)?;
    }
    Ok(node)
}

/// Whether the changes agree with the state, and with one another.
fn consistent(before: &Node, node: &Node) -> Result<(), Fault> {
    let (uuid, state) = (node.uuid, node.life.state);
    let changed = before.driver != node.driver || before.interfaces != node.interfaces;
    if changed && !state.may_change_interfaces(before.life.maintenance || node.life.maintenance) {
        return Err(Fault::conflict(format!(
            "Node {uuid} can not have its driver or interfaces changed in state {state}; put it into maintenance first."
        )));
    }
    if before.instance_uuid.is_some()
        && node.instance_uuid.is_some()
        && before.instance_uuid != node.instance_uuid
    {
        return Err(Fault::conflict(format!(
            "Node {uuid} is associated with an instance already."
        )));
    }
    if node.protected && !before.protected && !matches!(state, State::Active | State::Rescue) {
        return Err(Fault::conflict(format!(
            "Node {uuid} can not be protected in state {state}, only when active."
        )));
    }
    if node.protected_reason.is_some() && !node.protected {
        return Err(Fault::bad_request(
            "protected_reason: the node is not protected",
        ));
    }
    if node.retired && !before.retired && state == State::Available {
        return Err(Fault::conflict(format!(
            "Node {uuid} can not be retired in state {state}; make it manageable first."
        )));
    }
    if node.retired_reason.is_some() && !node.retired {
        return Err(Fault::bad_request(
            "retired_reason: the node is not retired",
        ));
    }
    Ok(())
}

impl Interfaces {
    /// These where they were asked for, and `other` where not.
    fn kept(&self, other: &Self, asked: impl Fn(&str) -> bool) -> Self {
        let pick = |name: &str, ours: &str, theirs: &str| {
            if asked(&format!("{name}_interface")) {
                ours
            } else {
                theirs
            }
            .to_owned()
        };
        Self {
            bios: pick("bios", &self.bios, &other.bios),
            boot: pick("boot", &self.boot, &other.boot),
            console: pick("console", &self.console, &other.console),
            deploy: pick("deploy", &self.deploy, &other.deploy),
            firmware: pick("firmware", &self.firmware, &other.firmware),
            inspect: pick("inspect", &self.inspect, &other.inspect),
            management: pick("management", &self.management, &other.management),
            network: pick("network", &self.network, &other.network),
            power: pick("power", &self.power, &other.power),
            raid: pick("raid", &self.raid, &other.raid),
            rescue: pick("rescue", &self.rescue, &other.rescue),
            storage: pick("storage", &self.storage, &other.storage),
            vendor: pick("vendor", &self.vendor, &other.vendor),
        }
    }
}
