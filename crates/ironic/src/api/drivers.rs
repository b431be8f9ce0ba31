//! `/v1/drivers` and `/v1/conductors`: what this service can drive, and the service itself.

use axum::http::Method;
use serde_json::{Value, json};

use super::Service;
use super::cell::Stamp;
use super::fault::Fault;
use super::field::links;
use super::request::{Reply, Request};
use super::value::quoted;
use crate::driver::catalog::{self, HardwareType};

pub fn route(service: &Service, request: &Request, path: &[&str]) -> Result<Reply, Fault> {
    if request.method != Method::GET {
        return match path {
            [_, "vendor_passthru", ..] => Err(Fault::bad_request("The driver has no such method.")),
            _ => Err(Fault::method_not_allowed()),
        };
    }
    let find = |name: &str| {
        catalog::find(name)
            .ok_or_else(|| Fault::not_found(format!("The driver {} is unknown.", quoted(name))))
    };
    match path {
        [] => {
            request.query.only(&["type", "detail", "fields"])?;
            let detail = request.query.bool("detail")?.unwrap_or(false);
            let all = request
                .query
                .get("type")
                .is_none_or(|kind| kind == "dynamic");
            let fields = request.query.list("fields");
            let drivers: Vec<Value> = catalog::TYPES
                .iter()
                .filter(|_| all)
                .map(|hardware| {
                    only(
                        show(service, request, hardware, detail || fields.is_some()),
                        fields.as_deref(),
                    )
                })
                .collect();
            Ok(Reply::ok(&json!({"drivers": drivers})))
        }
        [name] => {
            request.query.only(&["fields"])?;
            let fields = request.query.list("fields");
            Ok(Reply::ok(&only(
                show(service, request, find(name)?, true),
                fields.as_deref(),
            )))
        }
        [name, "properties"] => {
            let properties: serde_json::Map<String, Value> = find(name)?
                .properties
                .iter()
                .map(|(key, help)| ((*key).to_owned(), json!(help)))
                .collect();
            Ok(Reply::ok(&properties))
        }
        [name, "raid", "logical_disk_properties"] if request.version.0 >= 12 => {
            find(name)?;
            Ok(Reply::ok(&logical_disk_properties()))
        }
        [name, "vendor_passthru", "methods"] => {
            find(name)?;
            Ok(Reply::ok(&json!({})))
        }
        [name, "vendor_passthru", ..] => {
            find(name)?;
            Err(Fault::bad_request("The driver has no such method."))
        }
        _ => Err(Fault::no_such_path()),
    }
}

fn only(shown: Value, fields: Option<&[String]>) -> Value {
    let (Value::Object(mut shown), Some(fields)) = (shown.clone(), fields) else {
        return shown;
    };
    shown.retain(|key, _| key == "links" || fields.contains(key));
    Value::Object(shown)
}

fn show(service: &Service, request: &Request, hardware: &HardwareType, full: bool) -> Value {
    let here = format!("drivers/{}", hardware.name);
    let mut shown = json!({
        "name": hardware.name,
        "hosts": [service.conductor.options.host],
        "links": links(&request.base, &here),
    });
    if request.version.0 >= 14 {
        shown["properties"] = links(&request.base, &format!("{here}/properties"));
    }
    if request.version.0 < 30 {
        return shown;
    }
    shown["type"] = json!("dynamic");
    if full {
        for (interface, enabled) in hardware.interfaces {
            shown[format!("default_{interface}_interface")] = json!(enabled.first());
            shown[format!("enabled_{interface}_interfaces")] = json!(enabled);
        }
    }
    shown
}

fn logical_disk_properties() -> Value {
    json!({
        "size_gb": "Size in GiB (Integer) for the logical disk, or 'MAX' for all the room there is. Required.",
        "raid_level": "RAID level: 0, 1, 2, 5, 6, 1+0, 5+0, 6+0 or JBOD. Required.",
        "volume_name": "Name of the volume. Optional.",
        "is_root_volume": "Whether the operating system goes onto this disk (True or False). Optional.",
        "share_physical_disks": "Whether other logical disks may use the same physical disks. Optional.",
        "disk_type": "hdd or ssd. Optional.",
        "interface_type": "sata, scsi or sas. Optional.",
        "number_of_physical_disks": "How many physical disks to use. Optional.",
        "controller": "The controller, as the driver names it. Optional.",
        "physical_disks": "The physical disks to use, as the driver names them. Optional.",
    })
}

pub fn conductors(service: &Service, request: &Request, path: &[&str]) -> Result<Reply, Fault> {
    if request.method != Method::GET {
        return Err(Fault::method_not_allowed());
    }
    let options = &service.conductor.options;
    let show = |full: bool| {
        let mut shown = json!({
            "hostname": options.host, "conductor_group": options.group, "alive": true,
            "links": links(&request.base, &format!("conductors/{}", options.host)),
        });
        if full {
            let drivers: Vec<&str> = catalog::TYPES
                .iter()
                .map(|hardware| hardware.name)
                .collect();
            shown["drivers"] = json!(drivers);
            shown["created_at"] = json!(Stamp(service.conductor.started_at).to_string());
            shown["updated_at"] = json!(Stamp(jiff::Timestamp::now()).to_string());
        }
        shown
    };
    let fields = request.query.list("fields");
    match path {
        [] => {
            request.query.only(&[
                "fields", "limit", "marker", "sort_key", "sort_dir", "detail",
            ])?;
            let full = request.query.bool("detail")?.unwrap_or(false) || fields.is_some();
            let rest = request.query.get("marker").is_none();
            let list: Vec<Value> = rest
                .then(|| only(show(full), fields.as_deref()))
                .into_iter()
                .collect();
            Ok(Reply::ok(&json!({"conductors": list})))
        }
        [host] if *host == options.host => Ok(Reply::ok(&only(show(true), fields.as_deref()))),
        [host] => Err(Fault::not_found(format!(
            "Conductor {} could not be found.",
            quoted(host)
        ))),
        _ => Err(Fault::no_such_path()),
    }
}
