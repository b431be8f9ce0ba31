//! Enrolling a node.

use jiff::Timestamp;
use lifecycle::node::State;
use uuid::Uuid;

use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::field;
use crate::api::request::{Reply, Request};
use crate::api::value;
use crate::driver::catalog;
use crate::record::{KeptKind, Node, Object, Row as _};
use crate::store::Tables;

pub async fn create(service: &Service, request: &Request) -> Result<Reply, Fault> {
    request.query.only(&[])?;
    let serde_json::Value::Object(body) = request.json()? else {
        return Err(Fault::bad_request("The body must be a JSON object."));
    };
    let node = parse(request, &body)?;
    let uuid = node.uuid;
    service
        .store
        .change(|tables| {
            let mut node = node;
            unique(tables, &node, None)?;
            parent(tables, &node)?;
            service.conductor.settle(&mut node, Timestamp::now());
            Ok::<_, Fault>((vec![node.into()], ()))
        })
        .await?;
    service.conductor.poke(uuid);
    let node = super::find(service, request, &uuid.to_string())?;
    let location = format!("{}/v1/nodes/{uuid}", request.base);
    Ok(Reply::created(
        &field::whole(&*node, &service.scope(request)),
        location,
    ))
}

pub fn parse(request: &Request, body: &Object) -> Result<Node, Fault> {
    let driver = match body.get("driver") {
        Some(serde_json::Value::String(driver)) if !driver.is_empty() => driver,
        Some(_) => return Err(Fault::bad_request("driver: must be a text")),
        None => return Err(Fault::bad_request("driver: is required")),
    };
    let hardware = hardware(driver)?;
    let uuid = match body.get("uuid") {
        None => None,
        Some(given) => {
            value::uuid(given).map_err(|problem| Fault::bad_request(format!("uuid: {problem}")))?
        }
    };
    let now = Timestamp::now();
    let mut node = Node::new(
        uuid.unwrap_or_else(Uuid::new_v4),
        driver.clone(),
        hardware.defaults(),
        now,
    );
    field::write_all(&mut node, body, &["uuid", "driver"], request.version)?;
    fill(&mut node)?;
    if request.version.0 < 11 {
        node.life.state = State::Available;
    }
    if node.protected {
        return Err(Fault::bad_request(
            "A new node cannot be protected: only active ones can.",
        ));
    }
    Ok(node)
}

/// The hardware type of a name.
pub fn hardware(driver: &str) -> Result<&'static catalog::HardwareType, Fault> {
    catalog::find(driver).ok_or_else(|| {
        Fault::bad_request(format!(
            "No valid host was found. Reason: No conductor service registered which supports driver {driver}."
        ))
    })
}

/// Gives interfaces that were not chosen the driver's defaults, and refuses those it does not have.
pub fn fill(node: &mut Node) -> Result<(), Fault> {
    let hardware = hardware(&node.driver)?;
    let defaults = hardware.defaults();
    let chosen = &mut node.interfaces;
    for (slot, default) in [
        (&mut chosen.bios, defaults.bios),
        (&mut chosen.boot, defaults.boot),
        (&mut chosen.console, defaults.console),
        (&mut chosen.deploy, defaults.deploy),
        (&mut chosen.firmware, defaults.firmware),
        (&mut chosen.inspect, defaults.inspect),
        (&mut chosen.management, defaults.management),
        (&mut chosen.network, defaults.network),
        (&mut chosen.power, defaults.power),
        (&mut chosen.raid, defaults.raid),
        (&mut chosen.rescue, defaults.rescue),
        (&mut chosen.storage, defaults.storage),
        (&mut chosen.vendor, defaults.vendor),
    ] {
        if slot.is_empty() {
            *slot = default;
        }
    }
    let problems = hardware.problems(&node.interfaces);
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Fault::bad_request(problems.join("; ")))
    }
}

/// Refuses a node whose uuid, name or instance another one has.
pub fn unique(tables: &Tables, node: &Node, but: Option<Uuid>) -> Result<(), Fault> {
    if but.is_none() && tables.nodes.get(node.uuid).is_some() {
        return Err(Fault::conflict(format!(
            "A node with UUID {} already exists.",
            node.uuid
        )));
    }
    for name in node.names() {
        if tables
            .nodes
            .named(&name)
            .is_some_and(|other| Some(other.uuid) != but)
        {
            let what = match name.strip_prefix("instance/") {
                Some(instance) => format!(
                    "Instance {instance} is already associated with a node, it cannot be associated with this other node {}",
                    node.uuid
                ),
                None => format!("A node with name {name} already exists."),
            };
            return Err(Fault::conflict(what));
        }
    }
    Ok(())
}

/// A child's parent exists, and is not itself; its chassis exists too.
pub fn parent(tables: &Tables, node: &Node) -> Result<(), Fault> {
    if let Some(chassis) = node.chassis_uuid
        && !tables
            .kept
            .get(chassis)
            .is_some_and(|kept| kept.kind == KeptKind::Chassis)
    {
        return Err(Fault::bad_request(format!(
            "chassis_uuid: there is no chassis {chassis}"
        )));
    }
    let Some(parent) = node.parent_node else {
        return Ok(());
    };
    if parent == node.uuid {
        return Err(Fault::bad_request(
            "parent_node: a node cannot be its own parent",
        ));
    }
    match tables.nodes.get(parent) {
        None => Err(Fault::bad_request(format!(
            "parent_node: there is no node {parent}"
        ))),
        Some(parent) if parent.parent_node.is_some() => {
            Err(Fault::bad_request("parent_node: is a child itself"))
        }
        Some(_) => Ok(()),
    }
}
