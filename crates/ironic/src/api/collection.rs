//! Lists: fields, sorting, pages.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use uuid::Uuid;

use super::cell::Cell;
use super::fault::Fault;
use super::field::{self, Field, Fields, Resource, Scope, View};
use super::request::{Reply, Request, escape};
use crate::record::Row;

/// Arguments every list has.
pub const PAGING: [&str; 6] = [
    "fields", "detail", "limit", "marker", "sort_key", "sort_dir",
];

/// One page of `rows`, which are in order of creation. `full` is for paths that end in `/detail`.
pub fn list<T: Resource + Row>(
    request: &Request,
    scope: &Scope<'_>,
    mut rows: Vec<Arc<T>>,
    most: usize,
    full: bool,
) -> Result<Reply, Fault> {
    let (fields, parts) = fields::<T>(request, full)?;
    sort(&mut rows, request, scope)?;
    let limit = limit(request, most)?;
    let start = match request.query.get("marker") {
        None => 0,
        Some(marker) => after(&rows, marker)?,
    };
    let page = rows.get(start..).unwrap_or_default();
    let page = &page[..page.len().min(limit)];
    // A full page may be followed by another.
    let next = page
        .last()
        .filter(|_| page.len() == limit)
        .map(|last| next(request, scope, limit, last.uuid()));
    Ok(Reply::ok(&Page {
        rows: page,
        fields: &fields,
        parts,
        scope,
        next,
    }))
}

fn fields<T: Resource>(request: &Request, full: bool) -> Result<(Fields<T>, bool), Fault> {
    let detail = request.query.bool("detail")?;
    if detail.is_some() {
        request.version.needs(43, "Argument \"detail\"")?;
    }
    let full = full || detail == Some(true);
    match request.query.list("fields") {
        Some(_) if full => Err(Fault::bad_request(
            "Either fields or detail can be asked for, not both.",
        )),
        Some(names) => Ok((field::named(&names, request.version)?, false)),
        None if full => Ok((field::all(request.version), true)),
        None => Ok((field::brief(request.version), false)),
    }
}

fn sort<T: Resource>(
    rows: &mut [Arc<T>],
    request: &Request,
    scope: &Scope<'_>,
) -> Result<(), Fault> {
    if let Some(key) = request.query.get("sort_key").filter(|key| *key != "id") {
        let field = field::pick::<T>(key, request.version)?;
        let unordered = |row: &Arc<T>| {
            matches!(
                (field.read)(row, scope),
                Cell::List(_) | Cell::Uuids(_) | Cell::Object(_) | Cell::Masked(_)
            )
        };
        if rows.iter().any(unordered) {
            return Err(Fault::bad_request(format!(
                "Lists cannot be sorted by {key:?}."
            )));
        }
        rows.sort_by_cached_key(|row| (field.read)(row, scope).order());
    }
    match request.query.get("sort_dir") {
        None | Some("asc") => {}
        Some("desc") => rows.reverse(),
        Some(other) => {
            return Err(Fault::bad_request(format!(
                "Invalid sort direction {other:?}: asc and desc are possible."
            )));
        }
    }
    Ok(())
}

pub fn limit(request: &Request, most: usize) -> Result<usize, Fault> {
    let Some(text) = request.query.get("limit") else {
        return Ok(most);
    };
    match text.parse::<i64>() {
        Ok(limit) if limit > 0 => Ok(most.min(limit as usize)),
        Ok(_) => Err(Fault::bad_request("Limit must be positive.")),
        Err(_) => Err(Fault::bad_request(format!(
            "limit: {text:?} is not a number"
        ))),
    }
}

fn after<T: Resource + Row>(rows: &[Arc<T>], marker: &str) -> Result<usize, Fault> {
    let found = marker
        .parse::<Uuid>()
        .ok()
        .and_then(|uuid| rows.iter().position(|row| row.uuid() == uuid));
    found.map(|at| at + 1).ok_or_else(|| {
        Fault::not_found(format!(
            "Marker {:?} is no {} of this list.",
            marker.chars().take(64).collect::<String>(),
            T::SINGULAR
        ))
    })
}

/// The address of the page after the one that ends with `last`.
fn next(request: &Request, scope: &Scope<'_>, limit: usize, last: Uuid) -> String {
    let mut address = format!(
        "{}/v1/{}?limit={limit}&marker={last}",
        scope.base,
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

struct Page<'a, T: Resource> {
    rows: &'a [Arc<T>],
    fields: &'a [&'static Field<T>],
    parts: bool,
    scope: &'a Scope<'a>,
    next: Option<String>,
}

impl<T: Resource> Serialize for Page<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = |row| View {
            row,
            fields: self.fields,
            scope: self.scope,
            parts: self.parts,
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(
            T::PLURAL,
            &Items(|| self.rows.iter().map(|row| view(&**row))),
        )?;
        if let Some(next) = &self.next {
            map.serialize_entry("next", next)?;
            // Go clients follow this form and no other.
            let links = serde_json::json!([{"href": next, "rel": "next"}]);
            map.serialize_entry(&format!("{}_links", T::PLURAL), &links)?;
        }
        map.end()
    }
}

struct Items<F>(F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for Items<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}
