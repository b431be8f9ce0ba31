//! `/v1/nodes`.

mod bios;
mod change;
mod create;
mod delete;
mod fields;
mod inventory;
mod list;
mod maintenance;
mod management;
mod media;
mod provision;
mod states;
mod traits;
mod validate;
mod vendor;
mod vifs;

use std::sync::Arc;

use axum::http::Method;
use uuid::Uuid;

use super::fault::Fault;
use super::field::{self, View};
use super::request::{Reply, Request};
use super::value::quoted;
use super::{Service, portgroups, ports};
use crate::record::{Node, Object};
use crate::store::Tables;
pub use create::parse as parse_new;
pub use list::of_chassis;
pub use traits::check as check_trait;

/// Refuses a new node that another one stands in the way of.
pub fn check_new(tables: &Tables, node: &Node) -> Result<(), Fault> {
    create::unique(tables, node, None)?;
    create::parent(tables, node)
}

pub async fn route(service: &Service, request: &Request, path: &[&str]) -> Result<Reply, Fault> {
    let method = &request.method;
    match path {
        [] => match *method {
            Method::GET => list::list(service, request, false),
            Method::POST => create::create(service, request).await,
            _ => Err(Fault::method_not_allowed()),
        },
        ["detail"] => match *method {
            Method::GET => list::list(service, request, true),
            _ => Err(Fault::method_not_allowed()),
        },
        // Before nodes had sub-resources of this kind, their name went into the query.
        ["validate"] if method == Method::GET => validate::by_query(service, request),
        [ident] => match *method {
            Method::GET => show(service, request, ident),
            Method::PATCH => change::patch(service, request, ident).await,
            Method::DELETE => delete::delete(service, request, ident).await,
            _ => Err(Fault::method_not_allowed()),
        },
        [ident, part, rest @ ..] => part_of(service, request, ident, part, rest).await,
    }
}

async fn part_of(
    service: &Service,
    request: &Request,
    ident: &str,
    part: &str,
    rest: &[&str],
) -> Result<Reply, Fault> {
    let method = &request.method;
    let only = |since: u16| {
        if request.version.0 < since {
            Err(Fault::no_such_path())
        } else {
            Ok(())
        }
    };
    match (part, rest) {
        ("states", rest) => states::route(service, request, ident, rest).await,
        ("management", rest) => management::route(service, request, ident, rest).await,
        ("maintenance", []) => maintenance::route(service, request, ident).await,
        ("validate", []) if method == Method::GET => validate::validate(service, request, ident),
        ("traits", rest) => {
            only(37)?;
            traits::route(service, request, ident, rest).await
        }
        ("vifs", rest) => {
            only(28)?;
            vifs::route(service, request, ident, rest).await
        }
        ("vmedia", []) => {
            only(89)?;
            media::route(service, request, ident).await
        }
        ("bios", rest) if method == Method::GET => {
            only(40)?;
            bios::bios(service, request, ident, rest)
        }
        ("firmware", []) if method == Method::GET => {
            only(86)?;
            bios::firmware(service, request, ident)
        }
        ("inventory", []) if method == Method::GET => {
            only(81)?;
            inventory::inventory(service, request, ident)
        }
        ("history", rest) if method == Method::GET => {
            only(78)?;
            inventory::history(service, request, ident, rest)
        }
        ("children", []) if method == Method::GET => {
            only(83)?;
            let node = find(service, request, ident)?;
            let children: Vec<Uuid> = service
                .store
                .read()
                .nodes
                .of(node.uuid)
                .map(|child| child.uuid)
                .collect();
            Ok(Reply::ok(&serde_json::json!({"children": children})))
        }
        ("ports", rest) if method == Method::GET => {
            let node = find(service, request, ident)?;
            ports::of_node(service, request, node.uuid, rest)
        }
        ("portgroups", rest) if method == Method::GET => {
            only(24)?;
            let node = find(service, request, ident)?;
            portgroups::of_node(service, request, node.uuid, rest)
        }
        ("allocation", []) => {
            only(52)?;
            super::allocations::of_node(service, request, ident).await
        }
        ("volume", rest) if method == Method::GET => {
            only(32)?;
            let node = find(service, request, ident)?;
            super::volume::of_node(service, request, node.uuid, rest)
        }
        ("vendor_passthru", rest) => vendor::route(service, request, ident, rest).await,
        (
            "validate" | "bios" | "firmware" | "inventory" | "history" | "children" | "ports"
            | "portgroups" | "volume",
            _,
        ) => Err(Fault::method_not_allowed()),
        _ => Err(Fault::no_such_path()),
    }
}

fn show(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    request.query.only(&["fields"])?;
    let scope = service.scope(request);
    let node = find(service, request, ident)?;
    let (fields, parts) = match request.query.list("fields") {
        Some(names) => (field::named(&names, request.version)?, false),
        None => (field::all(request.version), true),
    };
    Ok(Reply::ok(&View {
        row: &*node,
        fields: &fields,
        scope: &scope,
        parts,
    }))
}

/// The node of a path, by uuid or, where the version has them, by name.
pub fn find(service: &Service, request: &Request, ident: &str) -> Result<Arc<Node>, Fault> {
    in_tables(&service.store.read(), request, ident)
}

pub fn in_tables(tables: &Tables, request: &Request, ident: &str) -> Result<Arc<Node>, Fault> {
    let found = match ident.parse::<Uuid>() {
        Ok(uuid) => tables.nodes.get(uuid),
        Err(_) if request.version.0 < 5 => None,
        Err(_) => tables.nodes.named(ident),
    };
    found
        .cloned()
        .ok_or_else(|| Fault::not_found(format!("Node {} could not be found.", quoted(ident))))
}

/// A node that may be changed: nobody works on it.
pub fn free(tables: &Tables, request: &Request, ident: &str) -> Result<Node, Fault> {
    let node = in_tables(tables, request, ident)?;
    unlocked(&node)?;
    Ok(Node::clone(&node))
}

pub fn unlocked(node: &Node) -> Result<(), Fault> {
    match &node.reservation {
        None => Ok(()),
        Some(host) => Err(Fault::conflict(format!(
            "Node {} is locked by host {host}, please retry after the current operation is completed.",
            node.uuid
        ))),
    }
}

/// Changes a node that nobody works on, and tells its task.
pub async fn change(
    service: &Service,
    request: &Request,
    ident: &str,
    change: impl FnOnce(&mut Node) -> Result<(), Fault>,
) -> Result<Arc<Node>, Fault> {
    let now = jiff::Timestamp::now();
    let uuid = service
        .store
        .change(|tables| {
            let mut node = free(tables, request, ident)?;
            change(&mut node)?;
            node.updated_at = Some(now);
            service.conductor.settle(&mut node, now);
            let uuid = node.uuid;
            Ok::<_, Fault>((vec![node.into()], uuid))
        })
        .await?;
    service.conductor.poke(uuid);
    find(service, request, &uuid.to_string())
}

/// A boolean of a body, where it is there.
pub fn flag(body: &Object, key: &str) -> Result<Option<bool>, Fault> {
    let value = body.get(key).unwrap_or(&serde_json::Value::Null);
    super::value::optional_boolean(value)
        .map_err(|problem| Fault::bad_request(format!("{key}: {problem}")))
}
