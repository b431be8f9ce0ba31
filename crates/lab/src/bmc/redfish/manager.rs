//! The BMC about itself: identity, clock, network, reset.

use std::net::IpAddr;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::body::Body;
use super::messages::Problem;
use super::path::{Action, Resource};
use super::{Answer, collection, link};
use crate::bmc::personality::Owner;
use crate::bmc::{Bmc, lock};

pub fn render_all(bmc: &Bmc) -> Value {
    collection(bmc, "ManagerCollection", "Managers", &[Resource::Manager])
}

pub fn render(bmc: &Bmc) -> Value {
    let p = bmc.personality;
    let now = bmc.now();
    let mut json = json!({
        "@odata.type": "#Manager.v1_19_0.Manager",
        "Id": p.manager,
        "Name": "Manager",
        "ManagerType": "BMC",
        "Manufacturer": p.manufacturer,
        "Model": p.bmc_model,
        "FirmwareVersion": bmc.memory().versions["BMC"],
        "UUID": bmc.server.hardware().uuid.to_string(),
        "PowerState": "On",
        "Status": {"State": "Enabled", "Health": "OK"},
        "DateTime": now.to_string(),
        "DateTimeLocalOffset": "+00:00",
        "EthernetInterfaces": link(bmc, &Resource::ManagerNics),
        "Links": {
            "ManagerForServers": [link(bmc, &Resource::System)],
            "ManagerForChassis": [link(bmc, &Resource::Chassis)],
            "ManagerInChassis": link(bmc, &Resource::Chassis),
        },
        "Actions": {
            "#Manager.Reset": {
                "target": Resource::Action(Action::ResetBmc).path(p),
                "ResetType@Redfish.AllowableValues": RESETS,
            },
        },
    });
    if p.media.of == Owner::Manager {
        json["VirtualMedia"] = link(bmc, &Resource::Slots);
    }
    json
}

const RESETS: [&str; 2] = ["GracefulRestart", "ForceRestart"];

pub fn change(bmc: &Bmc, mut body: Body, known: &Value) -> Result<(), Problem> {
    let time = body.text("DateTime").and_then(|text| {
        let parsed: Result<Timestamp, _> = text.parse();
        parsed
            .map_err(|error| body.malformed("DateTime", &text, &error.to_string()))
            .ok()
    });
    body.one_of("DateTimeLocalOffset", &["+00:00", "Z"]);
    body.finish(known)?;
    if let Some(time) = time {
        bmc.memory().clock_ahead = time.duration_since(Timestamp::now());
    }
    Ok(())
}

/// The BMC goes away for a while and comes back without its sessions. The server runs on.
pub fn reset(bmc: &Bmc, mut body: Body) -> Result<Answer, Problem> {
    body.one_of("ResetType", &RESETS);
    body.finish(&Value::Null)?;
    lock(&bmc.sessions).forget_all();
    bmc.memory().away_until = Some(Instant::now() + bmc.restart);
    Ok(Answer::no_content())
}

pub fn render_nics(bmc: &Bmc) -> Value {
    collection(
        bmc,
        "EthernetInterfaceCollection",
        "Ethernet Interfaces",
        &[Resource::ManagerNic],
    )
}

pub fn render_nic(bmc: &Bmc) -> Value {
    let of = |v4: bool| {
        bmc.addresses
            .iter()
            .filter(move |address| address.is_ipv4() == v4)
            .collect::<Vec<&IpAddr>>()
    };
    let v4: Vec<Value> = of(true)
        .into_iter()
        .map(|address| json!({"Address": address, "AddressOrigin": "Static"}))
        .collect();
    let v6: Vec<Value> = of(false)
        .into_iter()
        .map(|address| json!({"Address": address, "AddressOrigin": "Static", "PrefixLength": 64}))
        .collect();
    json!({
        "@odata.type": "#EthernetInterface.v1_11_0.EthernetInterface",
        "Id": "1",
        "Name": "Manager Ethernet Interface",
        "MACAddress": bmc.mac.to_string(),
        "PermanentMACAddress": bmc.mac.to_string(),
        "IPv4Addresses": v4,
        "IPv6Addresses": v6,
        "LinkStatus": "LinkUp",
        "SpeedMbps": 1000,
        "FullDuplex": true,
        "InterfaceEnabled": true,
        "Status": {"State": "Enabled", "Health": "OK"},
    })
}
