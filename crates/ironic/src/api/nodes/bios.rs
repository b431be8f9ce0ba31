//! BIOS settings and firmware of a node, as its BMC last told.

use serde_json::{Value, json};

use crate::api::Service;
use crate::api::cell::Stamp;
use crate::api::fault::Fault;
use crate::api::field::links;
use crate::api::request::{Reply, Request, escape};
use crate::api::value::quoted;
use crate::driver::{Component, Facts, Setting};
use crate::record::Object;

/// What a setting has beside name and value, and when it was seen.
const DETAILS: [&str; 9] = [
    "attribute_type",
    "allowable_values",
    "lower_bound",
    "upper_bound",
    "min_length",
    "max_length",
    "read_only",
    "reset_required",
    "unique",
];
const BRIEF: [&str; 5] = ["name", "value", "created_at", "updated_at", "links"];

pub fn bios(
    service: &Service,
    request: &Request,
    ident: &str,
    path: &[&str],
) -> Result<Reply, Fault> {
    request.query.only(&["detail", "fields"])?;
    let node = super::find(service, request, ident)?;
    let facts = Facts::of(&service.store, node.uuid)?;
    let show = |setting: &Setting, keys: &[&str]| show(request, ident, setting, keys);
    match path {
        [] => {
            let keys = keys(request)?;
            let settings: Vec<Object> = facts.bios.iter().map(|it| show(it, &keys)).collect();
            Ok(Reply::ok(&json!({"bios": settings})))
        }
        [name] => {
            let found = facts.bios.iter().find(|setting| setting.name == *name);
            let found = found.ok_or_else(|| {
                Fault::not_found(format!(
                    "Node {} has no BIOS setting {}.",
                    node.uuid,
                    quoted(name)
                ))
            })?;
            let keys = all_keys(request);
            Ok(Reply::ok(&json!({*name: show(found, &keys)})))
        }
        _ => Err(Fault::no_such_path()),
    }
}

fn all_keys(request: &Request) -> Vec<&'static str> {
    let details = DETAILS.iter().filter(|_| request.version.0 >= 74);
    BRIEF.iter().chain(details).copied().collect()
}

/// The keys a list shows: the brief ones, all, or those that were asked for.
fn keys(request: &Request) -> Result<Vec<&'static str>, Fault> {
    let all = all_keys(request);
    if let Some(fields) = request.query.list("fields") {
        request
            .version
            .needs(74, "Choosing fields of BIOS settings")?;
        let pick = |field: &String| {
            all.iter()
                .find(|key| *key == field)
                .copied()
                .ok_or_else(|| {
                    Fault::bad_request(format!("A BIOS setting has no field {}.", quoted(field)))
                })
        };
        let mut keys = fields.iter().map(pick).collect::<Result<Vec<_>, _>>()?;
        keys.push("links");
        return Ok(keys);
    }
    if request.query.bool("detail")?.unwrap_or(false) {
        request.version.needs(74, "Details of BIOS settings")?;
        return Ok(all);
    }
    Ok(BRIEF.to_vec())
}

fn show(request: &Request, ident: &str, setting: &Setting, keys: &[&str]) -> Object {
    let mut shown = match serde_json::to_value(setting) {
        Ok(Value::Object(shown)) => shown,
        _ => Object::new(),
    };
    let here = format!("nodes/{}/bios/{}", escape(ident), escape(&setting.name));
    shown.insert("created_at".into(), stamp(Some(setting.created_at)));
    shown.insert("updated_at".into(), stamp(setting.updated_at));
    shown.insert("links".into(), links(&request.base, &here));
    shown.retain(|key, _| keys.contains(&key.as_str()));
    shown
}

fn stamp(time: Option<jiff::Timestamp>) -> Value {
    time.map_or(Value::Null, |time| json!(Stamp(time).to_string()))
}

pub fn firmware(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let node = super::find(service, request, ident)?;
    let facts = Facts::of(&service.store, node.uuid)?;
    let show = |it: &Component| {
        json!({
            "component": it.component, "initial_version": it.initial_version,
            "current_version": it.current_version, "last_version_flashed": it.last_version_flashed,
            "created_at": stamp(Some(it.created_at)), "updated_at": stamp(it.updated_at),
        })
    };
    let firmware: Vec<Value> = facts.firmware.iter().map(show).collect();
    Ok(Reply::ok(&json!({"firmware": firmware})))
}
