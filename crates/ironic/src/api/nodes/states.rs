//! `/v1/nodes/{id}/states`: what a node is in, and the requests to change it.

use axum::http::Method;
use serde_json::{Value, json};

use super::provision;
use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::field;
use crate::api::request::{Reply, Request};
use crate::api::value::quoted;
use crate::record::{BootMode, Errand, Node, Object, PowerTarget};

pub async fn route(
    service: &Service,
    request: &Request,
    ident: &str,
    path: &[&str],
) -> Result<Reply, Fault> {
    let since = |since: u16| {
        if request.version.0 < since {
            Err(Fault::no_such_path())
        } else {
            Ok(())
        }
    };
    match (path, &request.method) {
        ([], &Method::GET) => show(service, request, ident),
        (["provision"], &Method::PUT) => provision::provision(service, request, ident).await,
        (["power"], &Method::PUT) => power(service, request, ident).await,
        (["raid"], &Method::PUT) => {
            since(12)?;
            raid(service, request, ident).await
        }
        (["boot_mode"], &Method::PUT) => {
            since(76)?;
            boot_mode(service, request, ident).await
        }
        (["secure_boot"], &Method::PUT) => {
            since(76)?;
            secure_boot(service, request, ident).await
        }
        (["console"], &Method::GET) => {
            let node = super::find(service, request, ident)?;
            Ok(Reply::ok(
                &json!({"console_enabled": node.console_enabled, "console_info": null}),
            ))
        }
        (["console"], &Method::PUT) => console(service, request, ident).await,
        ([] | ["provision" | "power" | "raid" | "boot_mode" | "secure_boot" | "console"], _) => {
            Err(Fault::method_not_allowed())
        }
        _ => Err(Fault::no_such_path()),
    }
}

const SHOWN: [&str; 11] = [
    "console_enabled",
    "last_error",
    "power_state",
    "provision_state",
    "target_power_state",
    "target_provision_state",
    "provision_updated_at",
    "raid_config",
    "target_raid_config",
    "boot_mode",
    "secure_boot",
];

fn show(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let node = super::find(service, request, ident)?;
    let scope = service.scope(request);
    let states: Object = SHOWN
        .into_iter()
        .filter_map(field::find::<Node>)
        .filter(|field| field.since <= request.version.0)
        .map(|field| (field.name.to_owned(), (field.read)(&node, &scope).bare()))
        .collect();
    Ok(Reply::ok(&states))
}

/// The answer to a request whose work goes on: where to look for how it goes.
pub fn accepted(request: &Request, ident: &str) -> Reply {
    let ident = crate::api::request::escape(ident);
    Reply {
        location: Some(format!("{}/v1/nodes/{ident}/states", request.base)),
        ..Reply::accepted()
    }
}

async fn power(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let body = request.object(&["target", "timeout"])?;
    let words = PowerTarget::ALL.map(PowerTarget::as_str).join(", ");
    let text = body.get("target").and_then(Value::as_str);
    let target = text
        .and_then(|text| {
            PowerTarget::ALL
                .into_iter()
                .find(|target| target.as_str() == text)
        })
        .ok_or_else(|| {
            Fault::bad_request(format!(
                "target: {} is not a power state; there are {words}",
                quoted(text.unwrap_or_default())
            ))
        })?;
    request.version.needs(
        target.since(),
        &format!("Power state {:?}", target.as_str()),
    )?;
    let timeout = match body.get("timeout") {
        None | Some(Value::Null) => None,
        Some(value) => {
            request.version.needs(27, "Property \"timeout\"")?;
            Some(
                value
                    .as_u64()
                    .filter(|seconds| (1..=86_400).contains(seconds))
                    .ok_or_else(|| {
                        Fault::bad_request("timeout: must be a number of seconds, at least 1")
                    })?,
            )
        }
    };
    super::change(service, request, ident, |node| {
        if !node.life.state.may_change_power() {
            return Err(Fault::bad_request(format!(
                "The power of node {} can not be changed while it is in state {}.",
                node.uuid, node.life.state
            )));
        }
        if node.disable_power_off && target != PowerTarget::On {
            let what = format!("Power off is disabled for node {}.", node.uuid);
            if target.result() == lifecycle::node::Power::Off {
                return Err(Fault::conflict(what));
            }
        }
        node.errand = Some(Errand::Power { target, timeout });
        node.life.last_error = None;
        Ok(())
    })
    .await?;
    Ok(accepted(request, ident))
}

async fn boot_mode(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let body = request.object(&["target"])?;
    let mode = match body.get("target").and_then(Value::as_str) {
        Some("uefi") => BootMode::Uefi,
        Some("bios") => BootMode::Bios,
        _ => return Err(Fault::bad_request("target: must be uefi or bios")),
    };
    errand(service, request, ident, Errand::BootMode(mode)).await
}

async fn secure_boot(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let body = request.object(&["target"])?;
    let Some(on) = super::flag(&body, "target")? else {
        return Err(Fault::bad_request("target: must be true or false"));
    };
    errand(service, request, ident, Errand::SecureBoot(on)).await
}

/// Firmware settings are changed only while nothing else goes on.
async fn errand(
    service: &Service,
    request: &Request,
    ident: &str,
    errand: Errand,
) -> Result<Reply, Fault> {
    super::change(service, request, ident, |node| {
        if node.life.target.is_some() {
            return Err(Fault::conflict(format!(
                "Node {} is in state {}, which is not a stable one.",
                node.uuid, node.life.state
            )));
        }
        node.errand = Some(errand);
        node.life.last_error = None;
        Ok(())
    })
    .await?;
    Ok(accepted(request, ident))
}

async fn console(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let body = request.object(&["enabled"])?;
    let Some(enabled) = super::flag(&body, "enabled")? else {
        return Err(Fault::bad_request("enabled: must be true or false"));
    };
    super::change(service, request, ident, |node| {
        if node.interfaces.console == "no-console" {
            return Err(Fault::bad_request(
                "The node's console interface is no-console.",
            ));
        }
        node.console_enabled = enabled;
        Ok(())
    })
    .await?;
    let location = format!(
        "{}/v1/nodes/{}/states/console",
        request.base,
        crate::api::request::escape(ident)
    );
    Ok(Reply {
        location: Some(location),
        ..Reply::accepted()
    })
}

const LEVELS: [&str; 9] = ["0", "1", "2", "5", "6", "1+0", "5+0", "6+0", "JBOD"];

async fn raid(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let body = request.object(&["logical_disks"])?;
    if let Some(disks) = body.get("logical_disks") {
        let Value::Array(disks) = disks else {
            return Err(Fault::bad_request("logical_disks: must be a list"));
        };
        for (at, disk) in disks.iter().enumerate() {
            logical_disk(disk)
                .map_err(|problem| Fault::bad_request(format!("logical_disks[{at}]{problem}")))?;
        }
    }
    super::change(service, request, ident, |node| {
        if node.interfaces.raid == "no-raid" {
            return Err(Fault::bad_request("The node's RAID interface is no-raid."));
        }
        node.target_raid_config = body;
        Ok(())
    })
    .await?;
    Ok(Reply::no_content())
}

fn logical_disk(disk: &Value) -> Result<(), String> {
    const KEYS: [&str; 10] = [
        "size_gb",
        "raid_level",
        "volume_name",
        "is_root_volume",
        "share_physical_disks",
        "disk_type",
        "interface_type",
        "number_of_physical_disks",
        "controller",
        "physical_disks",
    ];
    let Value::Object(disk) = disk else {
        return Err(": must be an object".into());
    };
    if let Some(key) = disk.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!(
            ": unexpected property {}; there are {}",
            quoted(key),
            KEYS.join(", ")
        ));
    }
    match disk.get("size_gb") {
        Some(Value::String(text)) if text == "MAX" => {}
        Some(Value::Number(size)) if size.as_f64().is_some_and(|size| size > 0.0) => {}
        _ => return Err(".size_gb: must be a positive number or MAX".into()),
    }
    if !disk
        .get("raid_level")
        .and_then(Value::as_str)
        .is_some_and(|level| LEVELS.contains(&level))
    {
        return Err(format!(".raid_level: must be one of {}", LEVELS.join(", ")));
    }
    Ok(())
}
