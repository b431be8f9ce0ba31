//! `/v1/portgroups`: ports that act as one.

use std::sync::Arc;

use axum::http::Method;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::cell::Cell;
use super::collection;
use super::fault::Fault;
use super::field::{self, Field, Resource, View};
use super::patch;
use super::request::{Reply, Request};
use super::value::{boolean, mac, name, object, put, quoted, required_text, text, uuid};
use super::{Service, nodes, ports};
use crate::record::{Port, Portgroup, Record, Row as _};
use crate::store::{Change, Tables};

impl Resource for Portgroup {
    const PLURAL: &'static str = "portgroups";
    const SINGULAR: &'static str = "port group";
    const FIELDS: &'static [Field<Self>] = FIELDS;
    const BRIEF: &'static [&'static str] = &["uuid", "address", "name"];
    const PARTS: &'static [(&'static str, u16)] = &[("ports", 24)];

    fn ident(&self) -> String {
        self.uuid.to_string()
    }
}

const FIELDS: &[Field<Portgroup>] = &[
    Field::shown("uuid", 23, |p, _| Cell::Uuid(p.uuid)),
    Field::settable(
        "name",
        23,
        |p, _| Cell::text(p.name.as_ref()),
        |p, v| put(&mut p.name, name(v)),
    ),
    Field::settable(
        "address",
        23,
        |p, _| p.address.map_or(Cell::Null, Cell::Mac),
        |p, v| {
            p.address = if v.is_null() { None } else { Some(mac(&v)?) };
            Ok(())
        },
    ),
    Field::shown("node_uuid", 23, |p, _| Cell::Uuid(p.node_uuid)),
    Field::settable(
        "extra",
        23,
        |p, _| Cell::Object(&p.extra),
        |p, v| put(&mut p.extra, object(v)),
    ),
    Field::shown("internal_info", 23, |p, _| Cell::Object(&p.internal_info)),
    Field::settable(
        "standalone_ports_supported",
        23,
        |p, _| Cell::Bool(p.standalone_ports_supported),
        |p, v| put(&mut p.standalone_ports_supported, boolean(&v, true)),
    ),
    Field::settable(
        "mode",
        26,
        |p, _| Cell::Text(&p.mode),
        |p, v| {
            p.mode = if v.is_null() {
                "active-backup".into()
            } else {
                required_text(v, 255)?
            };
            Ok(())
        },
    ),
    Field::settable(
        "properties",
        26,
        |p, _| Cell::Object(&p.properties),
        |p, v| put(&mut p.properties, object(v)),
    ),
    Field::settable(
        "physical_network",
        102,
        |p, _| Cell::text(p.physical_network.as_ref()),
        |p, v| put(&mut p.physical_network, text(v, 64)),
    ),
    Field::settable(
        "category",
        103,
        |p, _| Cell::text(p.category.as_ref()),
        |p, v| put(&mut p.category, text(v, 80)),
    ),
    Field::shown("created_at", 23, |p, _| Cell::Time(p.created_at)),
    Field::shown("updated_at", 23, |p, _| Cell::time(p.updated_at)),
];

pub async fn route(service: &Service, request: &Request, path: &[&str]) -> Result<Reply, Fault> {
    match (path, &request.method) {
        ([], &Method::GET) => list(service, request, false),
        (["detail"], &Method::GET) => list(service, request, true),
        ([], &Method::POST) => create(service, request).await,
        ([ident], &Method::GET) => show(service, request, ident),
        ([ident], &Method::PATCH) => change(service, request, ident).await,
        ([ident], &Method::DELETE) => delete(service, request, ident).await,
        ([ident, "ports"], &Method::GET) => {
            request.query.only(&collection::PAGING)?;
            let tables = service.store.read();
            let group = find(&tables, ident)?;
            let members = |port: &&Arc<Port>| port.portgroup_uuid == Some(group.uuid);
            let rows: Vec<Arc<Port>> = tables
                .ports
                .of(group.node_uuid)
                .filter(members)
                .cloned()
                .collect();
            drop(tables);
            collection::list(
                request,
                &service.scope(request),
                rows,
                service.options.max_limit,
                false,
            )
        }
        ([] | [_] | [_, "ports"], _) => Err(Fault::method_not_allowed()),
        _ => Err(Fault::no_such_path()),
    }
}

fn list(service: &Service, request: &Request, full: bool) -> Result<Reply, Fault> {
    let known: Vec<&str> = collection::PAGING
        .into_iter()
        .chain(["node", "address", "shard", "conductor_groups"])
        .collect();
    request.query.only(&known)?;
    let tables = service.store.read();
    let mut rows: Vec<Arc<Portgroup>> = match request.query.get("node") {
        Some(ident) => {
            let node = nodes::in_tables(&tables, request, ident)?;
            tables.portgroups.of(node.uuid).cloned().collect()
        }
        None => tables.portgroups.all().cloned().collect(),
    };
    if let Some(text) = request.query.get("address") {
        let address = mac(&Value::from(text))
            .map_err(|problem| Fault::bad_request(format!("address: {problem}")))?;
        rows.retain(|group| group.address == Some(address));
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
    let rows: Vec<Arc<Portgroup>> = service.store.read().portgroups.of(node).cloned().collect();
    collection::list(
        request,
        &service.scope(request),
        rows,
        service.options.max_limit,
        full,
    )
}

fn show(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    request.query.only(&["fields"])?;
    let group = find(&service.store.read(), ident)?;
    let scope = service.scope(request);
    let (fields, parts) = match request.query.list("fields") {
        Some(names) => (field::named(&names, request.version)?, false),
        None => (field::all(request.version), true),
    };
    Ok(Reply::ok(&View {
        row: &*group,
        fields: &fields,
        scope: &scope,
        parts,
    }))
}

async fn create(service: &Service, request: &Request) -> Result<Reply, Fault> {
    let Value::Object(body) = request.json()? else {
        return Err(Fault::bad_request("The body must be a JSON object."));
    };
    let own = uuid(body.get("uuid").unwrap_or(&Value::Null))
        .map_err(|problem| Fault::bad_request(format!("uuid: {problem}")))?;
    let owner = ports::owner(request, &body)?;
    let mut group = Portgroup::new(
        own.unwrap_or_else(Uuid::new_v4),
        Uuid::nil(),
        Timestamp::now(),
    );
    field::write_all(
        &mut group,
        &body,
        &["uuid", "node_uuid", "node_ident"],
        request.version,
    )?;
    let own = group.uuid;
    service
        .store
        .change(|tables| {
            group.node_uuid = ports::node_of(tables, &owner)?.uuid;
            unique(tables, &group, None)?;
            Ok::<_, Fault>((vec![group.into()], ()))
        })
        .await?;
    let group = find(&service.store.read(), &own.to_string())?;
    let location = format!("{}/v1/portgroups/{own}", request.base);
    Ok(Reply::created(
        &field::whole(&*group, &service.scope(request)),
        location,
    ))
}

async fn change(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let operations = patch::parse(&request.json()?, request.version)?;
    let uuid = service
        .store
        .change(|tables| {
            let before = find(tables, ident)?;
            if let Some(node) = tables.nodes.get(before.node_uuid) {
                nodes::unlocked(node)?;
            }
            let scope = field::Scope {
                base: "",
                version: request.version,
                host: "",
            };
            let fields = patch::apply(&operations, |name| {
                let field = field::pick::<Portgroup>(name, request.version)?;
                Ok((field.read)(&before, &scope).bare())
            })?;
            let mut group = Portgroup::clone(&before);
            for (name, value) in fields {
                field::write(&mut group, &name, value, request.version)?;
            }
            unique(tables, &group, Some(group.uuid))?;
            group.updated_at = Some(Timestamp::now());
            let uuid = group.uuid;
            Ok::<_, Fault>((vec![group.into()], uuid))
        })
        .await?;
    let group = find(&service.store.read(), &uuid.to_string())?;
    Ok(Reply::ok(&field::whole(&*group, &service.scope(request))))
}

async fn delete(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    request.query.only(&[])?;
    service
        .store
        .change(|tables| {
            let group = find(tables, ident)?;
            if tables
                .ports
                .of(group.node_uuid)
                .any(|port| port.portgroup_uuid == Some(group.uuid))
            {
                return Err(Fault::conflict(format!(
                    "Port group {} is not empty.",
                    group.uuid
                )));
            }
            Ok::<_, Fault>((vec![Change::Remove(Record::Portgroup(group))], ()))
        })
        .await?;
    Ok(Reply::no_content())
}

pub fn find(tables: &Tables, ident: &str) -> Result<Arc<Portgroup>, Fault> {
    let found = match ident.parse::<Uuid>() {
        Ok(uuid) => tables.portgroups.get(uuid),
        Err(_) => tables.portgroups.named(ident),
    };
    found.cloned().ok_or_else(|| {
        Fault::not_found(format!("Port group {} could not be found.", quoted(ident)))
    })
}

fn unique(tables: &Tables, group: &Portgroup, but: Option<Uuid>) -> Result<(), Fault> {
    if but.is_none() && tables.portgroups.get(group.uuid).is_some() {
        return Err(Fault::conflict(format!(
            "A port group with UUID {} already exists.",
            group.uuid
        )));
    }
    for name in group.names() {
        if tables
            .portgroups
            .named(&name)
            .is_some_and(|other| Some(other.uuid) != but)
        {
            return Err(Fault::conflict(format!(
                "A port group {name} already exists."
            )));
        }
    }
    Ok(())
}
