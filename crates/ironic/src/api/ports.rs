//! `/v1/ports`: the network interfaces of nodes.

use std::sync::Arc;

use axum::http::Method;
use jiff::Timestamp;
use lifecycle::node::State;
use serde_json::Value;
use uuid::Uuid;

use super::cell::Cell;
use super::collection;
use super::fault::Fault;
use super::field::{self, Field, Resource, View};
use super::patch;
use super::request::{Reply, Request};
use super::value::{self, boolean, mac, name, object, put, quoted, text, uuid};
use super::{Service, nodes};
use crate::record::{Node, Object, Port, Record, Row as _};
use crate::store::{Change, Tables};

impl Resource for Port {
    const PLURAL: &'static str = "ports";
    const SINGULAR: &'static str = "port";
    const FIELDS: &'static [Field<Self>] = FIELDS;
    const BRIEF: &'static [&'static str] = &["uuid", "address"];
    const PARTS: &'static [(&'static str, u16)] = &[];

    fn ident(&self) -> String {
        self.uuid.to_string()
    }
}

const FIELDS: &[Field<Port>] = &[
    Field::shown("uuid", 1, |p, _| Cell::Uuid(p.uuid)),
    Field::settable(
        "address",
        1,
        |p, _| Cell::Mac(p.address),
        |p, v| put(&mut p.address, mac(&v)),
    ),
    Field::shown("node_uuid", 1, |p, _| Cell::Uuid(p.node_uuid)),
    Field::settable(
        "extra",
        1,
        |p, _| Cell::Object(&p.extra),
        |p, v| put(&mut p.extra, object(v)),
    ),
    Field::shown("internal_info", 18, |p, _| Cell::Object(&p.internal_info)),
    Field::settable(
        "local_link_connection",
        19,
        |p, _| Cell::Object(&p.local_link_connection),
        |p, v| put(&mut p.local_link_connection, object(v)),
    ),
    Field::settable(
        "pxe_enabled",
        19,
        |p, _| Cell::Bool(p.pxe_enabled),
        |p, v| put(&mut p.pxe_enabled, boolean(&v, true)),
    ),
    Field::settable(
        "portgroup_uuid",
        24,
        |p, _| Cell::uuid(p.portgroup_uuid),
        |p, v| put(&mut p.portgroup_uuid, uuid(&v)),
    ),
    Field::settable(
        "physical_network",
        34,
        |p, _| Cell::text(p.physical_network.as_ref()),
        |p, v| put(&mut p.physical_network, text(v, 64)),
    ),
    Field::settable(
        "is_smartnic",
        53,
        |p, _| Cell::Bool(p.is_smartnic),
        |p, v| put(&mut p.is_smartnic, boolean(&v, false)),
    ),
    Field::settable(
        "name",
        88,
        |p, _| Cell::text(p.name.as_ref()),
        |p, v| put(&mut p.name, name(v)),
    ),
    Field::settable(
        "description",
        97,
        |p, _| Cell::text(p.description.as_ref()),
        |p, v| put(&mut p.description, text(v, 255)),
    ),
    Field::settable(
        "vendor",
        100,
        |p, _| Cell::text(p.vendor.as_ref()),
        |p, v| put(&mut p.vendor, text(v, 32)),
    ),
    Field::settable(
        "category",
        101,
        |p, _| Cell::text(p.category.as_ref()),
        |p, v| put(&mut p.category, text(v, 80)),
    ),
    Field::shown("created_at", 1, |p, _| Cell::Time(p.created_at)),
    Field::shown("updated_at", 1, |p, _| Cell::time(p.updated_at)),
];

pub async fn route(service: &Service, request: &Request, path: &[&str]) -> Result<Reply, Fault> {
    match (path, &request.method) {
        ([], &Method::GET) => list(service, request, false),
        (["detail"], &Method::GET) => list(service, request, true),
        ([], &Method::POST) => create(service, request).await,
        ([ident], &Method::GET) => {
            let port = find(&service.store.read(), ident)?;
            show(service, request, &port)
        }
        ([ident], &Method::PATCH) => change(service, request, ident).await,
        ([ident], &Method::DELETE) => delete(service, request, ident).await,
        ([] | [_], _) => Err(Fault::method_not_allowed()),
        _ => Err(Fault::no_such_path()),
    }
}

fn list(service: &Service, request: &Request, full: bool) -> Result<Reply, Fault> {
    const FILTERS: [(&str, u16); 7] = [
        ("node", 6),
        ("node_uuid", 1),
        ("address", 1),
        ("portgroup", 24),
        ("shard", 82),
        ("description_contains", 97),
        ("conductor_groups", 99),
    ];
    let known: Vec<&str> = collection::PAGING
        .into_iter()
        .chain(FILTERS.map(|(name, _)| name))
        .collect();
    request.query.only(&known)?;
    for (name, since) in FILTERS {
        if request.query.get(name).is_some() {
            request.version.needs(since, &format!("Filter {name:?}"))?;
        }
    }
    let query = &request.query;
    let tables = service.store.read();
    let mut rows: Vec<Arc<Port>> = match query.get("node").or_else(|| query.get("node_uuid")) {
        Some(ident) => {
            let node = nodes::in_tables(&tables, request, ident)?;
            tables.ports.of(node.uuid).cloned().collect()
        }
        None => tables.ports.all().cloned().collect(),
    };
    if let Some(text) = query.get("address") {
        let address = mac(&Value::from(text))
            .map_err(|problem| Fault::bad_request(format!("address: {problem}")))?;
        rows.retain(|port| port.address == address);
    }
    if let Some(ident) = query.get("portgroup") {
        let group = super::portgroups::find(&tables, ident)?;
        rows.retain(|port| port.portgroup_uuid == Some(group.uuid));
    }
    if let Some(part) = query.get("description_contains") {
        rows.retain(|port| {
            port.description
                .as_ref()
                .is_some_and(|text| text.contains(part))
        });
    }
    let node = |port: &Port| tables.nodes.get(port.node_uuid).cloned();
    if let Some(shards) = query.list("shard") {
        rows.retain(|port| {
            node(port).is_some_and(|node| {
                node.shard
                    .as_ref()
                    .is_some_and(|shard| shards.contains(shard))
            })
        });
    }
    if let Some(groups) = query.list("conductor_groups") {
        rows.retain(|port| node(port).is_some_and(|node| groups.contains(&node.conductor_group)));
    }
    drop(tables);
    collection::list(
        request,
        &service.scope(request),
        rows,
        service.options.max_limit,
        full,
    )
}

pub fn of_node(
    service: &Service,
    request: &Request,
    node: Uuid,
    path: &[&str],
) -> Result<Reply, Fault> {
    let full = match path {
        [] => false,
        ["detail"] => true,
        _ => return Err(Fault::no_such_path()),
    };
    request.query.only(&collection::PAGING)?;
    let rows: Vec<Arc<Port>> = service.store.read().ports.of(node).cloned().collect();
    collection::list(
        request,
        &service.scope(request),
        rows,
        service.options.max_limit,
        full,
    )
}

async fn create(service: &Service, request: &Request) -> Result<Reply, Fault> {
    let Value::Object(body) = request.json()? else {
        return Err(Fault::bad_request("The body must be a JSON object."));
    };
    let given = |problem: String, key: &str| Fault::bad_request(format!("{key}: {problem}"));
    let address = mac(body.get("address").unwrap_or(&Value::Null))
        .map_err(|problem| given(problem, "address"))?;
    let own =
        uuid(body.get("uuid").unwrap_or(&Value::Null)).map_err(|problem| given(problem, "uuid"))?;
    let owner = owner(request, &body)?;
    let mut port = Port::new(
        own.unwrap_or_else(Uuid::new_v4),
        address,
        Uuid::nil(),
        Timestamp::now(),
    );
    field::write_all(
        &mut port,
        &body,
        &["uuid", "address", "node_uuid", "node_ident"],
        request.version,
    )?;
    let own = port.uuid;
    service
        .store
        .change(|tables| {
            port.node_uuid = node_of(tables, &owner)?.uuid;
            unique(tables, &port, None)?;
            group(tables, &port)?;
            Ok::<_, Fault>((vec![port.into()], ()))
        })
        .await?;
    let port = find(&service.store.read(), &own.to_string())?;
    let location = format!("{}/v1/ports/{own}", request.base);
    Ok(Reply::created(
        &field::whole(&*port, &service.scope(request)),
        location,
    ))
}

/// The node a new port or port group is for, as the body names it.
pub fn owner(request: &Request, body: &Object) -> Result<String, Fault> {
    let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
    if body.contains_key("node_ident") {
        request.version.needs(94, "Property \"node_ident\"")?;
    }
    if let Some(node) = text("node_uuid") {
        if node.parse::<Uuid>().is_err() && request.version.0 < 94 {
            return Err(Fault::bad_request(format!(
                "node_uuid: {} is not a uuid",
                quoted(&node)
            )));
        }
        return Ok(node);
    }
    text("node_ident").ok_or_else(|| Fault::bad_request("node_uuid: is required"))
}

/// That node. In a body it is a bad request if there is none.
pub fn node_of(tables: &Tables, ident: &str) -> Result<Arc<Node>, Fault> {
    let found = match ident.parse::<Uuid>() {
        Ok(uuid) => tables.nodes.get(uuid),
        Err(_) => tables.nodes.named(ident),
    };
    let node = found
        .ok_or_else(|| Fault::bad_request(format!("Node {} could not be found.", quoted(ident))))?;
    Ok(Arc::clone(node))
}

async fn change(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let operations = patch::parse(&request.json()?, request.version)?;
    let uuid = service
        .store
        .change(|tables| {
            let before = find(tables, ident)?;
            let node = tables.nodes.get(before.node_uuid).cloned();
            if let Some(node) = &node {
                nodes::unlocked(node)?;
            }
            let scope = field::Scope {
                base: "",
                version: request.version,
                host: "",
            };
            let fields = patch::apply(&operations, |name| {
                let field = field::pick::<Port>(name, request.version)?;
                Ok((field.read)(&before, &scope).bare())
            })?;
            let mut port = Port::clone(&before);
            for (name, value) in fields {
                field::write(&mut port, &name, value, request.version)?;
            }
            if let Some(node) = &node {
                allowed(&before, &port, node)?;
            }
            unique(tables, &port, Some(port.uuid))?;
            group(tables, &port)?;
            port.updated_at = Some(Timestamp::now());
            let uuid = port.uuid;
            Ok::<_, Fault>((vec![port.into()], uuid))
        })
        .await?;
    let port = find(&service.store.read(), &uuid.to_string())?;
    Ok(Reply::ok(&field::whole(&*port, &service.scope(request))))
}

/// What may change about a port depends on what its node is doing with it.
fn allowed(before: &Port, port: &Port, node: &Node) -> Result<(), Fault> {
    let state = node.life.state;
    let bound = node.instance_uuid.is_some() || state == State::Active;
    if before.address != port.address && bound && !node.life.maintenance {
        return Err(Fault::conflict(format!(
            "Port {}: the address cannot change while node {} has an instance; put it into maintenance first.",
            port.uuid, node.uuid
        )));
    }
    let wired = before.pxe_enabled != port.pxe_enabled
        || before.local_link_connection != port.local_link_connection
        || before.portgroup_uuid != port.portgroup_uuid
        || before.physical_network != port.physical_network;
    let may = matches!(
        state,
        State::Enroll | State::Inspecting | State::InspectWait | State::Manageable
    );
    if wired && !may && !node.life.maintenance {
        return Err(Fault::conflict(format!(
            "Port {}: its connection cannot change while node {} is in state {state}; make it manageable, or put it into maintenance.",
            port.uuid, node.uuid
        )));
    }
    Ok(())
}

async fn delete(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    request.query.only(&[])?;
    service
        .store
        .change(|tables| {
            let port = find(tables, ident)?;
            if let Some(node) = tables.nodes.get(port.node_uuid) {
                nodes::unlocked(node)?;
            }
            Ok::<_, Fault>((vec![Change::Remove(Record::Port(port))], ()))
        })
        .await?;
    Ok(Reply::no_content())
}

fn show(service: &Service, request: &Request, port: &Port) -> Result<Reply, Fault> {
    request.query.only(&["fields"])?;
    let scope = service.scope(request);
    let fields = match request.query.list("fields") {
        Some(names) => field::named(&names, request.version)?,
        None => field::all(request.version),
    };
    Ok(Reply::ok(&View {
        row: port,
        fields: &fields,
        scope: &scope,
        parts: false,
    }))
}

fn find(tables: &Tables, ident: &str) -> Result<Arc<Port>, Fault> {
    let found = match ident.parse::<Uuid>() {
        Ok(uuid) => tables.ports.get(uuid),
        Err(_) => tables.ports.named(ident),
    };
    found
        .cloned()
        .ok_or_else(|| Fault::not_found(format!("Port {} could not be found.", quoted(ident))))
}

fn unique(tables: &Tables, port: &Port, but: Option<Uuid>) -> Result<(), Fault> {
    if but.is_none() && tables.ports.get(port.uuid).is_some() {
        return Err(Fault::conflict(format!(
            "A port with UUID {} already exists.",
            port.uuid
        )));
    }
    for name in port.names() {
        if tables
            .ports
            .named(&name)
            .is_some_and(|other| Some(other.uuid) != but)
        {
            let what = if name == port.address.to_string() {
                "MAC address"
            } else {
                "name"
            };
            return Err(Fault::conflict(format!(
                "A port with {what} {name} already exists."
            )));
        }
    }
    Ok(())
}

fn group(tables: &Tables, port: &Port) -> Result<(), Fault> {
    let Some(uuid) = port.portgroup_uuid else {
        return Ok(());
    };
    match tables.portgroups.get(uuid) {
        Some(group) if group.node_uuid == port.node_uuid => Ok(()),
        Some(_) => Err(Fault::bad_request(
            "portgroup_uuid: belongs to another node",
        )),
        None => Err(Fault::bad_request(format!(
            "portgroup_uuid: there is no port group {uuid}"
        ))),
    }
}

/// For other modules that read a MAC address from a query.
pub fn parse_macs(text: &str) -> Vec<model::Mac> {
    text.split(',')
        .filter_map(|part| value::mac(&Value::from(part.trim())).ok())
        .collect()
}
