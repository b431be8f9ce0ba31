//! `/v1/allocations`: a wish for a node, matched at once.

use std::sync::Arc;

use axum::http::Method;
use jiff::Timestamp;
use lifecycle::node::State;
use serde_json::Value;
use uuid::Uuid;

use super::Service;
use super::cell::Cell;
use super::collection;
use super::fault::Fault;
use super::field::{self, Field, Resource, View};
use super::nodes::{self, unlocked};
use super::patch;
use super::request::{Reply, Request};
use super::value::{name, object, put, quoted, text, texts, uuid};
use crate::record::{Allocation, AllocationState, Node, Object, Record};
use crate::store::{Change, Tables};

impl Resource for Allocation {
    const PLURAL: &'static str = "allocations";
    const SINGULAR: &'static str = "allocation";
    const FIELDS: &'static [Field<Self>] = FIELDS;
    const BRIEF: &'static [&'static str] = &[
        "uuid",
        "name",
        "node_uuid",
        "state",
        "last_error",
        "resource_class",
        "candidate_nodes",
        "traits",
        "extra",
        "owner",
        "created_at",
        "updated_at",
    ];
    const PARTS: &'static [(&'static str, u16)] = &[];

    fn ident(&self) -> String {
        self.uuid.to_string()
    }
}

const FIELDS: &[Field<Allocation>] = &[
    Field::shown("uuid", 52, |a, _| Cell::Uuid(a.uuid)),
    Field::settable(
        "name",
        52,
        |a, _| Cell::text(a.name.as_ref()),
        |a, v| put(&mut a.name, name(v)),
    ),
    Field::shown("node_uuid", 52, |a, _| Cell::uuid(a.node_uuid)),
    Field::shown("state", 52, |a, _| Cell::Text(a.state.as_str())),
    Field::shown("last_error", 52, |a, _| Cell::text(a.last_error.as_ref())),
    Field::shown("resource_class", 52, |a, _| {
        Cell::text(a.resource_class.as_ref())
    }),
    Field::shown("candidate_nodes", 52, |a, _| {
        Cell::Uuids(&a.candidate_nodes)
    }),
    Field::shown("traits", 52, |a, _| Cell::List(&a.traits)),
    Field::settable(
        "extra",
        52,
        |a, _| Cell::Object(&a.extra),
        |a, v| put(&mut a.extra, object(v)),
    ),
    Field::shown("owner", 60, |a, _| Cell::text(a.owner.as_ref())),
    Field::shown("created_at", 52, |a, _| Cell::Time(a.created_at)),
    Field::shown("updated_at", 52, |a, _| Cell::time(a.updated_at)),
];

pub async fn route(service: &Service, request: &Request, path: &[&str]) -> Result<Reply, Fault> {
    match (path, &request.method) {
        ([], &Method::GET) => list(service, request),
        ([], &Method::POST) => create(service, request).await,
        ([ident], &Method::GET) => {
            let allocation = find(&service.store.read(), ident)?;
            show(service, request, &allocation)
        }
        ([ident], &Method::PATCH) => change(service, request, ident).await,
        ([ident], &Method::DELETE) => {
            let ident = (*ident).to_owned();
            delete(service, |tables| find(tables, &ident)).await
        }
        ([] | [_], _) => Err(Fault::method_not_allowed()),
        _ => Err(Fault::no_such_path()),
    }
}

/// The allocation of a node.
pub async fn of_node(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let look = |tables: &Tables| {
        let node = nodes::in_tables(tables, request, ident)?;
        let found = node
            .allocation_uuid
            .and_then(|uuid| tables.allocations.get(uuid))
            .cloned();
        found.ok_or_else(|| Fault::not_found(format!("Node {} has no allocation.", node.uuid)))
    };
    match request.method {
        Method::GET => {
            let allocation = look(&service.store.read())?;
            show(service, request, &allocation)
        }
        Method::DELETE => delete(service, look).await,
        _ => Err(Fault::method_not_allowed()),
    }
}

fn list(service: &Service, request: &Request) -> Result<Reply, Fault> {
    let known: Vec<&str> = collection::PAGING
        .into_iter()
        .chain(["node", "resource_class", "state", "owner"])
        .filter(|n| *n != "detail")
        .collect();
    request.query.only(&known)?;
    let query = &request.query;
    let tables = service.store.read();
    let node = match query.get("node") {
        Some(ident) => Some(nodes::in_tables(&tables, request, ident)?.uuid),
        None => None,
    };
    let wanted = |allocation: &&Arc<Allocation>| {
        node.is_none_or(|node| allocation.node_uuid == Some(node))
            && query
                .get("resource_class")
                .is_none_or(|class| allocation.resource_class.as_deref() == Some(class))
            && query
                .get("state")
                .is_none_or(|state| allocation.state.as_str() == state)
            && query
                .get("owner")
                .is_none_or(|owner| allocation.owner.as_deref() == Some(owner))
    };
    let rows: Vec<Arc<Allocation>> = tables.allocations.all().filter(wanted).cloned().collect();
    drop(tables);
    collection::list(
        request,
        &service.scope(request),
        rows,
        service.options.max_limit,
        false,
    )
}

fn show(service: &Service, request: &Request, allocation: &Allocation) -> Result<Reply, Fault> {
    request.query.only(&["fields"])?;
    let scope = service.scope(request);
    let fields = match request.query.list("fields") {
        Some(names) => field::named(&names, request.version)?,
        None => field::all(request.version),
    };
    Ok(Reply::ok(&View {
        row: allocation,
        fields: &fields,
        scope: &scope,
        parts: false,
    }))
}

const KEYS: [&str; 8] = [
    "resource_class",
    "name",
    "traits",
    "candidate_nodes",
    "extra",
    "uuid",
    "node",
    "owner",
];

async fn create(service: &Service, request: &Request) -> Result<Reply, Fault> {
    let body = request.object(&KEYS)?;
    let (wish, backfill, candidates) = parse(request, &body)?;
    let own = wish.uuid;
    service
        .store
        .change(|tables| {
            let mut wish = wish;
            if tables.allocations.get(own).is_some() {
                return Err(Fault::conflict(format!(
                    "An allocation with UUID {own} already exists."
                )));
            }
            if let Some(name) = wish
                .name
                .as_ref()
                .filter(|name| tables.allocations.named(name).is_some())
            {
                return Err(Fault::conflict(format!(
                    "An allocation with name {name} already exists."
                )));
            }
            for ident in &candidates {
                wish.candidate_nodes
                    .push(super::ports::node_of(tables, ident)?.uuid);
            }
            let matched = match &backfill {
                Some(ident) => Some(taken(tables, ident)?),
                None => best(tables, &wish),
            };
            let mut changes: Vec<Change> = Vec::new();
            if let Some(node) = matched {
                changes.push(bind(&mut wish, &node, service).into());
            } else {
                wish.state = AllocationState::Error;
                wish.last_error = Some(no_match(&wish));
            }
            changes.push(wish.into());
            Ok::<_, Fault>((changes, ()))
        })
        .await?;
    let allocation = find(&service.store.read(), &own.to_string())?;
    let location = format!("{}/v1/allocations/{own}", request.base);
    Ok(Reply::created(
        &field::whole(&*allocation, &service.scope(request)),
        location,
    ))
}

/// The wish, the node it is to be given if that is known, and the candidates as the body names them.
fn parse(
    request: &Request,
    body: &Object,
) -> Result<(Allocation, Option<String>, Vec<String>), Fault> {
    let get = |key: &str| body.get(key).cloned().unwrap_or_default();
    let bad =
        |key: &'static str| move |problem: String| Fault::bad_request(format!("{key}: {problem}"));
    let list = |key: &'static str| match get(key) {
        Value::Null => Ok(Vec::new()),
        value => texts(value, 1000).map_err(bad(key)),
    };
    let backfill = text(get("node"), 255).map_err(bad("node"))?;
    if backfill.is_some() {
        request.version.needs(58, "Property \"node\"")?;
    }
    if body.contains_key("owner") {
        request.version.needs(60, "Property \"owner\"")?;
    }
    let resource_class = text(get("resource_class"), 80).map_err(bad("resource_class"))?;
    if resource_class.is_none() && backfill.is_none() {
        return Err(Fault::bad_request(
            "resource_class: is required unless a node is given",
        ));
    }
    let traits = list("traits")?;
    traits
        .iter()
        .try_for_each(|name| super::check_trait(name))?;
    let allocation = Allocation {
        id: 0,
        uuid: uuid(&get("uuid"))
            .map_err(bad("uuid"))?
            .unwrap_or_else(Uuid::new_v4),
        name: name(get("name")).map_err(bad("name"))?,
        node_uuid: None,
        state: AllocationState::Allocating,
        last_error: None,
        resource_class,
        candidate_nodes: Vec::new(),
        traits,
        extra: object(get("extra")).map_err(bad("extra"))?,
        owner: text(get("owner"), 255).map_err(bad("owner"))?,
        created_at: Timestamp::now(),
        updated_at: None,
    };
    Ok((allocation, backfill, list("candidate_nodes")?))
}

/// A node that has an instance already, for which the record of its allocation is made afterwards.
fn taken(tables: &Tables, ident: &str) -> Result<Arc<Node>, Fault> {
    let node = super::ports::node_of(tables, ident)?;
    if node.allocation_uuid.is_some() {
        return Err(Fault::conflict(format!(
            "Node {} has an allocation already.",
            node.uuid
        )));
    }
    if node.life.state != State::Active {
        return Err(Fault::bad_request(format!(
            "Node {} is in state {}, and not active.",
            node.uuid, node.life.state
        )));
    }
    Ok(node)
}

/// A free node that fits. One that is named like the allocation is preferred.
fn best(tables: &Tables, wish: &Allocation) -> Option<Arc<Node>> {
    let fits = |node: &&Arc<Node>| {
        node.life.state == State::Available
            && !node.life.maintenance
            && !node.retired
            && node.instance_uuid.is_none()
            && node.reservation.is_none()
            && node.allocation_uuid.is_none()
            && node.resource_class == wish.resource_class
            && wish
                .traits
                .iter()
                .all(|wanted| node.traits.contains(wanted))
            && (wish.candidate_nodes.is_empty() || wish.candidate_nodes.contains(&node.uuid))
            && (wish.owner.is_none() || node.owner == wish.owner)
    };
    let mut free = tables.nodes.all().filter(fits).peekable();
    let first = free.peek().copied().cloned();
    free.find(|node| node.name.is_some() && node.name == wish.name)
        .cloned()
        .or(first)
}

fn no_match(wish: &Allocation) -> String {
    let class = wish.resource_class.as_deref().unwrap_or("none");
    let traits = if wish.traits.is_empty() {
        String::new()
    } else {
        format!(" with traits {}", wish.traits.join(", "))
    };
    format!(
        "Failed to process allocation {}: no available nodes match the resource class {class}{traits}.",
        wish.uuid
    )
}

/// The node with the allocation's mark: its uuid stands for the instance.
fn bind(wish: &mut Allocation, node: &Node, service: &Service) -> Node {
    let mut node = node.clone();
    node.allocation_uuid = Some(wish.uuid);
    if node.instance_uuid.is_none() {
        node.instance_uuid = Some(wish.uuid.to_string());
    }
    if !wish.traits.is_empty() {
        node.instance_info
            .insert("traits".into(), wish.traits.clone().into());
    }
    let now = Timestamp::now();
    node.updated_at = Some(now);
    service.conductor.settle(&mut node, now);
    wish.node_uuid = Some(node.uuid);
    wish.state = AllocationState::Active;
    if wish.resource_class.is_none() {
        wish.resource_class.clone_from(&node.resource_class);
    }
    node
}

async fn change(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    request.version.needs(57, "Changing an allocation")?;
    let operations = patch::parse(&request.json()?, request.version)?;
    let uuid = service
        .store
        .change(|tables| {
            let before = find(tables, ident)?;
            let scope = field::Scope {
                base: "",
                version: request.version,
                host: "",
            };
            let fields = patch::apply(&operations, |name| {
                let field = field::pick::<Allocation>(name, request.version)?;
                Ok((field.read)(&before, &scope).bare())
            })?;
            let mut allocation = Allocation::clone(&before);
            for (name, value) in fields {
                field::write(&mut allocation, &name, value, request.version)?;
            }
            if let Some(name) = &allocation.name
                && tables
                    .allocations
                    .named(name)
                    .is_some_and(|other| other.uuid != allocation.uuid)
            {
                return Err(Fault::conflict(format!(
                    "An allocation with name {name} already exists."
                )));
            }
            allocation.updated_at = Some(Timestamp::now());
            let uuid = allocation.uuid;
            Ok::<_, Fault>((vec![allocation.into()], uuid))
        })
        .await?;
    let allocation = find(&service.store.read(), &uuid.to_string())?;
    Ok(Reply::ok(&field::whole(
        &*allocation,
        &service.scope(request),
    )))
}

async fn delete(
    service: &Service,
    look: impl FnOnce(&Tables) -> Result<Arc<Allocation>, Fault>,
) -> Result<Reply, Fault> {
    service
        .store
        .change(|tables| {
            let allocation = look(tables)?;
            let mut changes = Vec::new();
            if let Some(node) = allocation.node_uuid.and_then(|uuid| tables.nodes.get(uuid)) {
                unlocked(node)?;
                if node.life.state == State::Active && !node.life.maintenance {
                    return Err(Fault::conflict(format!(
                        "Allocation {} is in use by the active node {}.",
                        allocation.uuid, node.uuid
                    )));
                }
                let mut node = Node::clone(node);
                node.allocation_uuid = None;
                node.instance_uuid = None;
                node.instance_info.remove("traits");
                service.conductor.settle(&mut node, Timestamp::now());
                changes.push(Change::from(node));
            }
            changes.push(Change::Remove(Record::Allocation(allocation)));
            Ok::<_, Fault>((changes, ()))
        })
        .await?;
    Ok(Reply::no_content())
}

fn find(tables: &Tables, ident: &str) -> Result<Arc<Allocation>, Fault> {
    let found = match ident.parse::<Uuid>() {
        Ok(uuid) => tables.allocations.get(uuid),
        Err(_) => tables.allocations.named(ident),
    };
    found.cloned().ok_or_else(|| {
        Fault::not_found(format!("Allocation {} could not be found.", quoted(ident)))
    })
}
