//! The computer system: identity, power, boot.

use serde_json::{Value, json};

use super::body::Body;
use super::messages::{self as m, Problem};
use super::path::{Action, Resource};
use super::{Answer, boot, collection, link, tell, vendor};
use crate::bmc::Bmc;
use crate::bmc::personality::Owner;
use crate::server::chassis::Reset;
use crate::server::{Event, Power};

pub fn render_all(bmc: &Bmc) -> Value {
    collection(
        bmc,
        "ComputerSystemCollection",
        "Computer Systems",
        &[Resource::System],
    )
}

pub fn render(bmc: &Bmc) -> Value {
    let p = bmc.personality;
    let hardware = bmc.server.hardware();
    let status = bmc.server.status();
    let view = status.view;
    let memory = bmc.memory();
    let health = if status.trouble.is_some() {
        "Warning"
    } else {
        "OK"
    };
    let mut json = json!({
        "@odata.type": "#ComputerSystem.v1_20_1.ComputerSystem",
        "Id": p.system,
        "Name": "System",
        "Description": hardware.name,
        "HostName": hardware.name,
        "SystemType": "Physical",
        "Manufacturer": p.manufacturer,
        "Model": p.model,
        "SKU": p.sku,
        "PartNumber": p.sku,
        "SerialNumber": hardware.serial,
        "UUID": hardware.uuid.to_string(),
        "AssetTag": memory.asset_tag,
        "IndicatorLED": memory.indicator,
        "BiosVersion": memory.versions["BIOS"],
        "PowerState": view.reported_power,
        "Status": {"State": state(view.reported_power), "Health": health, "HealthRollup": health},
        "Boot": boot::render(p, &view),
        "MemorySummary": {
            "TotalSystemMemoryGiB": gib(hardware.memory_mib),
            "Status": {"State": "Enabled", "Health": "OK", "HealthRollup": "OK"},
        },
        "ProcessorSummary": {
            "Count": 1,
            "CoreCount": hardware.cpus,
            "LogicalProcessorCount": hardware.cpus,
            "Model": "Virtual x86-64",
            "Status": {"State": "Enabled", "Health": "OK", "HealthRollup": "OK"},
        },
        "Bios": link(bmc, &Resource::Bios),
        "SecureBoot": link(bmc, &Resource::SecureBoot),
        "EthernetInterfaces": link(bmc, &Resource::Nics),
        "Processors": link(bmc, &Resource::Processors),
        "Memory": link(bmc, &Resource::Memory),
        "Storage": link(bmc, &Resource::Storages),
        "SimpleStorage": link(bmc, &Resource::SimpleStorages),
        "Links": {
            "Chassis": [link(bmc, &Resource::Chassis)],
            "ManagedBy": [link(bmc, &Resource::Manager)],
        },
        "Actions": {
            "#ComputerSystem.Reset": {
                "target": Resource::Action(Action::Reset).path(p),
                "ResetType@Redfish.AllowableValues": p.resets,
                "@Redfish.ActionInfo": Resource::ResetInfo.path(p),
            },
        },
    });
    if p.media.of == Owner::System {
        json["VirtualMedia"] = link(bmc, &Resource::Slots);
    }
    if p.boot_progress {
        json["BootProgress"] = json!({"LastState": boot_progress(view.reported_power)});
    }
    json
}

/// Memory in GiB: whole where it is.
fn gib(mib: u64) -> Value {
    if mib.is_multiple_of(1024) {
        json!(mib / 1024)
    } else {
        json!(mib as f64 / 1024.0)
    }
}

fn state(power: Power) -> &'static str {
    match power {
        Power::Off | Power::PoweringOff => "StandbyOffline",
        Power::PoweringOn => "Starting",
        Power::On => "Enabled",
    }
}

/// As far as a BMC can tell that does not look into the guest.
fn boot_progress(power: Power) -> &'static str {
    match power {
        Power::Off | Power::PoweringOff => "None",
        Power::PoweringOn => "PrimaryProcessorInitializationStarted",
        Power::On => "OSBootStarted",
    }
}

pub async fn change(bmc: &Bmc, mut body: Body, known: &Value) -> Result<(), Problem> {
    let asset_tag = body.text("AssetTag");
    if let Some(tag) = asset_tag
        .as_ref()
        .filter(|tag| tag.chars().count() > ASSET_TAG_LENGTH)
    {
        body.malformed(
            "AssetTag",
            tag,
            &format!("It can have {ASSET_TAG_LENGTH} characters"),
        );
    }
    let indicator = body.one_of("IndicatorLED", &INDICATORS);
    let boot = boot::read(bmc, &mut body, known);
    body.finish(known)?;
    boot::apply(bmc, boot).await?;
    let mut memory = bmc.memory();
    if let Some(tag) = asset_tag {
        memory.asset_tag = tag;
    }
    if let Some(indicator) = indicator {
        memory.indicator = indicator;
    }
    Ok(())
}

const ASSET_TAG_LENGTH: usize = 63;
pub const INDICATORS: [&str; 3] = ["Lit", "Blinking", "Off"];

pub fn render_reset_info(bmc: &Bmc) -> Value {
    json!({
        "@odata.type": "#ActionInfo.v1_3_0.ActionInfo",
        "Id": "ResetActionInfo",
        "Name": "Reset Action Info",
        "Parameters": [{
            "Name": "ResetType",
            "Required": true,
            "DataType": "String",
            "AllowableValues": bmc.personality.resets,
        }],
    })
}

pub async fn reset(bmc: &Bmc, mut body: Body) -> Result<Answer, Problem> {
    let allowed: Vec<String> = bmc
        .personality
        .resets
        .iter()
        .map(|reset| format!("{reset:?}"))
        .collect();
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    body.require("ResetType");
    let wanted = body.one_of("ResetType", &allowed);
    body.finish(&Value::Null)?;
    let wanted = wanted.and_then(|name| {
        Reset::ALL
            .into_iter()
            .find(|reset| format!("{reset:?}") == name)
    });
    let Some(wanted) = wanted else {
        return Err(Problem::new(&m::INTERNAL_ERROR, &[]));
    };
    if let Some(no) = bmc
        .personality
        .power_repeated
        .filter(|_| is_repeated(wanted, bmc.server.view().reported_power))
    {
        return Err(vendor(&no));
    }
    tell(bmc, Event::Reset(wanted)).await?;
    Ok(Answer::no_content())
}

/// Whether a reset asks for the state there is.
fn is_repeated(reset: Reset, power: Power) -> bool {
    match reset {
        Reset::On | Reset::ForceOn => power == Power::On,
        Reset::ForceOff | Reset::GracefulShutdown => power == Power::Off,
        Reset::GracefulRestart
        | Reset::ForceRestart
        | Reset::PowerCycle
        | Reset::PushPowerButton
        | Reset::Nmi => false,
    }
}
