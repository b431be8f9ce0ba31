//! Chassis, volumes, deploy templates, runbooks and inspection rules: records that clients write and read back.
//!
//! `table` says which fields each kind has; here is what is the same for all: create, list, show, patch, delete.

mod list;
mod table;

use std::sync::Arc;

use axum::http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cell::Stamp;
use super::fault::Fault;
use super::field::links;
use super::request::{Reply, Request};
use super::value::{quoted, uuid};
use super::{Service, nodes, patch};
use crate::record::{Kept, KeptKind, Object, Record, Row as _};
use crate::store::{Change, Tables};
use table::Prop;
pub use table::{Spec, chassis, connectors, deploy_templates, inspection_rules, runbooks, targets};

pub async fn route(
    service: &Service,
    request: &Request,
    spec: &'static Spec,
    path: &[&str],
) -> Result<Reply, Fault> {
    match (path, &request.method) {
        ([], &Method::GET) => list::list(service, request, spec, None, false),
        (["detail"], &Method::GET) => list::list(service, request, spec, None, true),
        ([], &Method::POST) => create(service, request, spec).await,
        ([], &Method::DELETE) if spec.kind == KeptKind::InspectionRule => {
            delete_all(service, spec).await
        }
        ([ident], &Method::GET) => show(service, request, spec, ident),
        ([ident], &Method::PATCH) => change(service, request, spec, ident).await,
        ([ident], &Method::DELETE) => delete(service, request, spec, ident).await,
        ([ident, "nodes"], &Method::GET) if spec.kind == KeptKind::Chassis => {
            let chassis = find(&service.store.read(), spec, ident)?;
            nodes::of_chassis(service, request, chassis.uuid)
        }
        ([] | [_], _) => Err(Fault::method_not_allowed()),
        _ => Err(Fault::no_such_path()),
    }
}

/// Those that belong to one node.
pub fn of_node(
    service: &Service,
    request: &Request,
    spec: &'static Spec,
    node: Uuid,
    path: &[&str],
) -> Result<Reply, Fault> {
    match path {
        [] => list::list(service, request, spec, Some(node), false),
        ["detail"] => list::list(service, request, spec, Some(node), true),
        _ => Err(Fault::no_such_path()),
    }
}

fn show(service: &Service, request: &Request, spec: &Spec, ident: &str) -> Result<Reply, Fault> {
    request.query.only(&["fields"])?;
    let kept = find(&service.store.read(), spec, ident)?;
    let names = match request.query.list("fields") {
        Some(names) => spec.named(&names, request.version)?,
        None => spec.all(request.version),
    };
    Ok(Reply::ok(&view(request, spec, &kept, &names)))
}

async fn create(service: &Service, request: &Request, spec: &Spec) -> Result<Reply, Fault> {
    let Value::Object(body) = request.json()? else {
        return Err(Fault::bad_request("The body must be a JSON object."));
    };
    let own = uuid(body.get("uuid").unwrap_or(&Value::Null))
        .map_err(|problem| Fault::bad_request(format!("uuid: {problem}")))?;
    let mut kept = Kept::new(
        spec.kind,
        own.unwrap_or_else(Uuid::new_v4),
        Timestamp::now(),
    );
    if let Some(missing) = spec
        .props
        .iter()
        .find(|prop| prop.required && body.get(prop.name).is_none_or(Value::is_null))
    {
        return Err(Fault::bad_request(format!("{}: is required", missing.name)));
    }
    for (name, value) in body
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "uuid" | "node_uuid"))
    {
        let prop = spec.pick(name, request.version)?;
        write(&mut kept, prop, value)?;
    }
    fill(&mut kept, spec);
    (spec.settle)(&mut kept.content);
    let node = match (spec.of_node, body.get("node_uuid")) {
        (false, None) => None,
        (true, Some(Value::String(node))) => Some(node.clone()),
        (true, _) => return Err(Fault::bad_request("node_uuid: is required")),
        (false, Some(_)) => {
            return Err(Fault::bad_request(format!(
                "A {} has no field \"node_uuid\".",
                spec.singular
            )));
        }
    };
    let uuid = kept.uuid;
    service
        .store
        .change(|tables| {
            if let Some(ident) = node {
                let node = ident.parse().ok().and_then(|uuid| tables.nodes.get(uuid));
                let node = node.ok_or_else(|| {
                    Fault::bad_request(format!("node_uuid: there is no node {}", quoted(&ident)))
                })?;
                nodes::unlocked(node)?;
                kept.node_uuid = Some(node.uuid);
            }
            unique(tables, spec, &kept, None)?;
            Ok::<_, Fault>((vec![kept.into()], ()))
        })
        .await?;
    let kept = find(&service.store.read(), spec, &uuid.to_string())?;
    let location = format!("{}/v1/{}/{uuid}", request.base, spec.path);
    let names = spec.all(request.version);
    Ok(Reply::created(
        &view(request, spec, &kept, &names),
        location,
    ))
}

async fn change(
    service: &Service,
    request: &Request,
    spec: &Spec,
    ident: &str,
) -> Result<Reply, Fault> {
    let operations = patch::parse(&request.json()?, request.version)?;
    let uuid = service
        .store
        .change(|tables| {
            let before = find(tables, spec, ident)?;
            may_change(tables, spec, &before)?;
            let fields = patch::apply(&operations, |name| {
                spec.pick(name, request.version)?;
                Ok(before.content.get(name).cloned().unwrap_or_default())
            })?;
            let mut kept = Kept::clone(&before);
            for (name, value) in fields {
                let prop = spec.pick(&name, request.version)?;
                if prop.required && value.is_null() {
                    return Err(Fault::bad_request(format!("{name}: cannot be removed")));
                }
                write(&mut kept, prop, &value)?;
            }
            fill(&mut kept, spec);
            (spec.settle)(&mut kept.content);
            unique(tables, spec, &kept, Some(kept.uuid))?;
            kept.updated_at = Some(Timestamp::now());
            let uuid = kept.uuid;
            Ok::<_, Fault>((vec![kept.into()], uuid))
        })
        .await?;
    let kept = find(&service.store.read(), spec, &uuid.to_string())?;
    let names = spec.all(request.version);
    Ok(Reply::ok(&view(request, spec, &kept, &names)))
}

async fn delete(
    service: &Service,
    request: &Request,
    spec: &Spec,
    ident: &str,
) -> Result<Reply, Fault> {
    request.query.only(&[])?;
    service
        .store
        .change(|tables| {
            let kept = find(tables, spec, ident)?;
            may_change(tables, spec, &kept)?;
            let full = |node: &Arc<crate::record::Node>| node.chassis_uuid == Some(kept.uuid);
            if spec.kind == KeptKind::Chassis && tables.nodes.all().any(full) {
                return Err(Fault::bad_request(format!(
                    "Cannot complete the requested action because chassis {} contains nodes.",
                    kept.uuid
                )));
            }
            Ok::<_, Fault>((vec![Change::Remove(Record::Kept(kept))], ()))
        })
        .await?;
    Ok(Reply::no_content())
}

async fn delete_all(service: &Service, spec: &Spec) -> Result<Reply, Fault> {
    service
        .store
        .change(|tables| {
            let all = tables.kept.all().filter(|kept| kept.kind == spec.kind);
            let changes = all.map(|kept| Change::Remove(Record::Kept(Arc::clone(kept))));
            Ok::<_, Fault>((changes.collect(), ()))
        })
        .await?;
    Ok(Reply::no_content())
}

/// By uuid, or by name where the kind has names.
fn find(tables: &Tables, spec: &Spec, ident: &str) -> Result<Arc<Kept>, Fault> {
    let found = match ident.parse::<Uuid>() {
        Ok(uuid) => tables.kept.get(uuid).filter(|kept| kept.kind == spec.kind),
        Err(_) if spec.has_names() => tables.kept.named(&spec.kind.named(ident)),
        Err(_) => None,
    };
    found.cloned().ok_or_else(|| {
        Fault::not_found(format!("There is no {} {}.", spec.singular, quoted(ident)))
    })
}

/// Volumes of a node are changed while nobody works on it and it is off: a running system may use them.
fn may_change(tables: &Tables, spec: &Spec, kept: &Kept) -> Result<(), Fault> {
    let Some(node) = kept.node_uuid.and_then(|node| tables.nodes.get(node)) else {
        return Ok(());
    };
    nodes::unlocked(node)?;
    if node.life.power == Some(lifecycle::node::Power::On) {
        return Err(Fault::bad_request(format!(
            "The {} {} can not be changed while node {} is powered on.",
            spec.singular, kept.uuid, node.uuid
        )));
    }
    Ok(())
}

fn write(kept: &mut Kept, prop: &Prop, value: &Value) -> Result<(), Fault> {
    let checked = if value.is_null() {
        (prop.default)()
    } else {
        (prop.check)(value)
            .map_err(|problem| Fault::bad_request(format!("{}{problem}", prop.name)))?
    };
    kept.content.insert(prop.name.to_owned(), checked);
    Ok(())
}

/// Gives every field that was not written its default.
fn fill(kept: &mut Kept, spec: &Spec) {
    for prop in spec.props {
        kept.content
            .entry(prop.name)
            .or_insert_with(|| (prop.default)());
    }
}

fn unique(tables: &Tables, spec: &Spec, kept: &Kept, but: Option<Uuid>) -> Result<(), Fault> {
    if but.is_none() && tables.kept.get(kept.uuid).is_some() {
        return Err(Fault::conflict(format!(
            "A {} with UUID {} already exists.",
            spec.singular, kept.uuid
        )));
    }
    for name in kept.names() {
        if tables
            .kept
            .named(&name)
            .is_some_and(|other| Some(other.uuid) != but)
        {
            let what = name.split_once('/').map_or("", |(_, what)| what);
            return Err(Fault::conflict(format!(
                "A {} {} already exists.",
                spec.singular,
                quoted(what)
            )));
        }
    }
    Ok(())
}

/// An object as a client sees it.
fn view(request: &Request, spec: &Spec, kept: &Kept, names: &[&'static str]) -> Object {
    let here = format!("{}/{}", spec.path, kept.uuid);
    let stamp = |time: Option<Timestamp>| time.map(|time| Stamp(time).to_string());
    let hidden = |name: &str| {
        let sensitive = kept.content.get("sensitive") == Some(&Value::Bool(true));
        sensitive && matches!(name, "actions" | "conditions")
    };
    let mut shown = Object::new();
    for name in names {
        let value = match *name {
            "uuid" => json!(kept.uuid),
            "node_uuid" => json!(kept.node_uuid),
            "created_at" => json!(stamp(Some(kept.created_at))),
            "updated_at" => json!(stamp(kept.updated_at)),
            // Rules may hold passwords: who wrote them knows them.
            name if hidden(name) => Value::Null,
            name => kept.content.get(name).cloned().unwrap_or_default(),
        };
        shown.insert((*name).to_owned(), value);
    }
    shown.insert("links".into(), links(&request.base, &here));
    if spec.kind == KeptKind::Chassis && names.len() > spec.brief.len() {
        shown.insert(
            "nodes".into(),
            links(&request.base, &format!("{here}/nodes")),
        );
    }
    shown
}
