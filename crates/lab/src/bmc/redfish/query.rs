//! The query of a request: `$expand`, where the vendor has it.

use serde_json::Value;

use super::messages::{self as m, Problem};
use super::path::Resource;
use super::render;
use crate::bmc::Bmc;

/// Reads the query: `$expand` where it is offered, and nothing else that begins with a dollar sign.
pub fn wants_expansion(bmc: &Bmc, query: &str) -> Result<bool, Problem> {
    let mut expands = false;
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let name = name.replace("%24", "$");
        // DSP0266: other parameters are ignored, these are not.
        if !name.starts_with('$') {
            continue;
        }
        if name != "$expand" || !bmc.personality.expand {
            return Err(Problem::new(&m::QUERY_UNSUPPORTED, &[&name]));
        }
        let value = value
            .replace("%24", "$")
            .replace("%28", "(")
            .replace("%29", ")")
            .replace("%3D", "=")
            .replace("%2A", "*");
        match value.strip_suffix("($levels=1)").unwrap_or(&value) {
            "." | "*" | "~" => expands = true,
            _ => return Err(Problem::new(&m::QUERY_FORMAT, &[&value, &name])),
        }
    }
    Ok(expands)
}

/// Puts resources in the place of links to them, one level deep; those under `Links` stay links.
pub fn expand(bmc: &Bmc, json: &mut Value) {
    let Value::Object(fields) = json else { return };
    for (name, value) in fields.iter_mut().filter(|(name, _)| *name != "Links") {
        match value {
            Value::Array(members) if name == "Members" || name == "Drives" => {
                for member in members {
                    follow(bmc, member);
                }
            }
            other => follow(bmc, other),
        }
    }
}

fn follow(bmc: &Bmc, value: &mut Value) {
    let Some(object) = value.as_object().filter(|object| object.len() == 1) else {
        return;
    };
    let target = object
        .get("@odata.id")
        .and_then(Value::as_str)
        .and_then(|path| Resource::parse(path, bmc.personality));
    if let Some((_, resource)) = target.and_then(|target| render(bmc, target)) {
        *value = resource;
    }
}
