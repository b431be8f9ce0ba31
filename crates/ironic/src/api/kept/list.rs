//! Lists of kept objects: fields, sorting, pages.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Spec, view};
use crate::api::collection::{PAGING, limit};
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request, escape};
use crate::api::value::quoted;
use crate::api::{Service, nodes};
use crate::record::Kept;

/// One page. `full` is for paths that end in `/detail`.
pub fn list(
    service: &Service,
    request: &Request,
    spec: &'static Spec,
    node: Option<Uuid>,
    full: bool,
) -> Result<Reply, Fault> {
    let known: Vec<&str> = PAGING
        .into_iter()
        .chain(spec.of_node.then_some("node"))
        .collect();
    request.query.only(&known)?;
    let names = fields(request, spec, full)?;
    let tables = service.store.read();
    let node = match request.query.get("node") {
        Some(ident) => Some(nodes::in_tables(&tables, request, ident)?.uuid),
        None => node,
    };
    let mut rows: Vec<Arc<Kept>> = match node {
        Some(node) => tables.kept.of(node).cloned().collect(),
        None => tables.kept.all().cloned().collect(),
    };
    drop(tables);
    rows.retain(|kept| kept.kind == spec.kind);
    sort(&mut rows, request, spec)?;
    let limit = limit(request, service.options.max_limit)?;
    let start = match request.query.get("marker") {
        None => 0,
        Some(marker) => after(&rows, spec, marker)?,
    };
    let page: Vec<&Arc<Kept>> = rows.iter().skip(start).take(limit).collect();
    let shown: Vec<Value> = page
        .iter()
        .map(|kept| Value::Object(view(request, spec, kept, &names)))
        .collect();
    let mut document = json!({spec.plural: shown});
    if let Some(last) = page.last().filter(|_| page.len() == limit) {
        let next = next(request, limit, last.uuid);
        document["next"] = json!(next);
        // Go clients follow this form and no other.
        document[format!("{}_links", spec.plural)] = json!([{"href": next, "rel": "next"}]);
    }
    Ok(Reply::ok(&document))
}

fn fields(request: &Request, spec: &Spec, full: bool) -> Result<Vec<&'static str>, Fault> {
    let full = full || request.query.bool("detail")? == Some(true);
    match request.query.list("fields") {
        Some(_) if full => Err(Fault::bad_request(
            "Either fields or detail can be asked for, not both.",
        )),
        Some(names) => spec.named(&names, request.version),
        None if full => Ok(spec.all(request.version)),
        None => Ok(spec.brief.to_vec()),
    }
}

fn sort(rows: &mut [Arc<Kept>], request: &Request, spec: &Spec) -> Result<(), Fault> {
    if let Some(key) = request.query.get("sort_key").filter(|key| *key != "id") {
        spec.named(&[key.to_owned()], request.version)?;
        let is_flat = |value: &Value| !value.is_array() && !value.is_object();
        if rows
            .iter()
            .any(|kept| !kept.content.get(key).is_none_or(is_flat))
        {
            return Err(Fault::bad_request(format!(
                "Lists cannot be sorted by {}.",
                quoted(key)
            )));
        }
        rows.sort_by_cached_key(|kept| match key {
            "uuid" => (0, kept.uuid.to_string()),
            "node_uuid" => (0, kept.node_uuid.unwrap_or_default().to_string()),
            "created_at" => (0, kept.created_at.to_string()),
            "updated_at" => (
                0,
                kept.updated_at.map(|at| at.to_string()).unwrap_or_default(),
            ),
            key => match kept.content.get(key) {
                Some(Value::Number(number)) => (number.as_i64().unwrap_or(0), String::new()),
                Some(Value::String(text)) => (0, text.clone()),
                Some(other) => (0, other.to_string()),
                None => (0, String::new()),
            },
        });
    }
    match request.query.get("sort_dir") {
        None | Some("asc") => {}
        Some("desc") => rows.reverse(),
        Some(other) => {
            return Err(Fault::bad_request(format!(
                "Invalid sort direction {}: asc and desc are possible.",
                quoted(other)
            )));
        }
    }
    Ok(())
}

fn after(rows: &[Arc<Kept>], spec: &Spec, marker: &str) -> Result<usize, Fault> {
    let found = marker
        .parse::<Uuid>()
        .ok()
        .and_then(|uuid| rows.iter().position(|row| row.uuid == uuid));
    found.map(|at| at + 1).ok_or_else(|| {
        Fault::not_found(format!(
            "Marker {} is no {} of this list.",
            quoted(marker),
            spec.singular
        ))
    })
}

/// The address of the page after the one that ends with `last`.
fn next(request: &Request, limit: usize, last: Uuid) -> String {
    let mut address = format!(
        "{}/v1/{}?limit={limit}&marker={last}",
        request.base,
        request.path.join("/")
    );
    for (key, value) in request
        .query
        .pairs()
        .filter(|(key, _)| !["limit", "marker"].contains(key))
    {
        _ = write!(address, "&{}={}", escape(key), escape(value));
    }
    address
}
