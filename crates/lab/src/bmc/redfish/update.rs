//! Firmware: its versions, and updates that fetch an image and count a version up.

use std::sync::Arc;

use serde_json::{Value, json};

use super::body::Body;
use super::messages::{self as m, Problem};
use super::path::{Action, Resource};
use super::virtual_media::not_fetched;
use super::{Answer, collection, link, tasks, vendor};
use crate::bmc::media::Address;
use crate::bmc::{Bmc, COMPONENTS};

pub fn render_service(bmc: &Bmc) -> Value {
    json!({
        "@odata.type": "#UpdateService.v1_14_0.UpdateService",
        "Id": "UpdateService",
        "Name": "Update Service",
        "ServiceEnabled": true,
        "Status": {"State": "Enabled", "Health": "OK"},
        "FirmwareInventory": link(bmc, &Resource::FirmwareInventory),
        "Actions": {
            "#UpdateService.SimpleUpdate": {
                "target": Resource::Action(Action::Update).path(bmc.personality),
                "TransferProtocol@Redfish.AllowableValues": PROTOCOLS,
            },
        },
    })
}

const PROTOCOLS: [&str; 2] = ["HTTP", "HTTPS"];

pub fn render_inventory(bmc: &Bmc) -> Value {
    collection(
        bmc,
        "SoftwareInventoryCollection",
        "Firmware Inventory",
        &COMPONENTS.map(Resource::Firmware),
    )
}

pub fn render_firmware(bmc: &Bmc, component: &'static str) -> Value {
    json!({
        "@odata.type": "#SoftwareInventory.v1_10_2.SoftwareInventory",
        "Id": component,
        "Name": format!("{component} Firmware"),
        "Manufacturer": bmc.personality.manufacturer,
        "Version": bmc.memory().versions[component],
        "Updateable": true,
        "Status": {"State": "Enabled", "Health": "OK"},
    })
}

pub fn update(bmc: &Arc<Bmc>, mut body: Body) -> Result<Answer, Problem> {
    if let Some(no) = bmc.personality.unlicensed.filter(|_| !bmc.licensed) {
        return Err(vendor(&no));
    }
    body.require("ImageURI");
    let image = body.text("ImageURI");
    body.one_of("TransferProtocol", &PROTOCOLS);
    let mut components = vec![];
    for target in body.texts("Targets").unwrap_or_default() {
        match Resource::parse(&target, bmc.personality) {
            Some(Resource::Firmware(component)) => components.push(component),
            Some(Resource::Manager) => components.push(COMPONENTS[1]),
            Some(Resource::System) => components.push(COMPONENTS[0]),
            Some(_) | None => {
                let allowed =
                    COMPONENTS.map(|component| Resource::Firmware(component).path(bmc.personality));
                body.not_in_list("Targets", &target, &[&allowed[0], &allowed[1]]);
            }
        }
    }
    if components.is_empty() {
        components.push(COMPONENTS[0]);
    }
    let address = image.and_then(|image| {
        Address::parse(&image)
            .map_err(|error| body.malformed("ImageURI", &image, &error.to_string()))
            .ok()
    });
    body.finish(&Value::Null)?;
    let Some(address) = address else {
        return Err(Problem::new(&m::INTERNAL_ERROR, &[]));
    };
    let worker = Arc::clone(bmc);
    tasks::start(bmc, "Firmware Update", async move {
        worker
            .fetcher
            .probe(&address)
            .await
            .map_err(|error| not_fetched(&error))?;
        let mut memory = worker.memory();
        for component in components {
            let newer = memory
                .versions
                .get(component)
                .map(|version| next_version(version))
                .unwrap_or_default();
            tracing::info!(component, version = newer, "firmware updated");
            memory.versions.insert(component, newer);
        }
        Ok(())
    })
}

/// The last number in it, one higher.
fn next_version(version: &str) -> String {
    let Some(end) = version.rfind(|c: char| c.is_ascii_digit()).map(|at| at + 1) else {
        return format!("{version}.1");
    };
    let start = version[..end]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + 1);
    let digits = &version[start..end];
    let next = digits.parse::<u64>().unwrap_or_default().wrapping_add(1);
    format!(
        "{}{next:0width$}{}",
        &version[..start],
        &version[end..],
        width = digits.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_up_in_the_vendors_own_style() {
        for (now, next) in [
            ("1.10.2", "1.10.3"),
            ("7.00.60.09", "7.00.60.10"),
            ("1.4b", "1.5b"),
            ("U46 v2.10", "U46 v2.11"),
            ("IVE190E", "IVE191E"),
            ("é", "é.1"),
            ("", ".1"),
        ] {
            assert_eq!(next_version(now), next);
        }
    }
}
