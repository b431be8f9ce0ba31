//! Disks behind one controller, in the two ways Redfish shows them. There is no RAID.

use serde_json::{Value, json};

use super::path::Resource;
use super::{collection, link};
use crate::bmc::Bmc;
use crate::fault::Kind;

pub fn render_all(bmc: &Bmc) -> Value {
    collection(bmc, "StorageCollection", "Storage", &[Resource::Storage])
}

pub fn render(bmc: &Bmc) -> Value {
    let drives = bmc.server.hardware().disks.len();
    json!({
        "@odata.type": "#Storage.v1_15_1.Storage",
        "Id": bmc.personality.storage,
        "Name": "Storage",
        "Status": {"State": "Enabled", "Health": "OK", "HealthRollup": disk_health(bmc)},
        "StorageControllers": [{
            "@odata.id": format!("{}#/StorageControllers/0", Resource::Storage.path(bmc.personality)),
            "MemberId": "0",
            "Name": "SATA Controller",
            "Status": {"State": "Enabled", "Health": "OK"},
            "SpeedGbps": 6,
            "SupportedControllerProtocols": ["PCIe"],
            "SupportedDeviceProtocols": ["SATA"],
        }],
        "Controllers": link(bmc, &Resource::Controllers),
        "Drives": (0..drives).map(|n| link(bmc, &Resource::Drive(n))).collect::<Vec<_>>(),
        "Drives@odata.count": drives,
        "Volumes": link(bmc, &Resource::Volumes),
    })
}

fn disk_health(bmc: &Bmc) -> &'static str {
    let broken = bmc.server.faults().holds(Kind::DiskErrors);
    if broken { "Critical" } else { "OK" }
}

pub fn render_drive(bmc: &Bmc, number: usize) -> Option<Value> {
    let disk = bmc.server.hardware().disks.get(number)?;
    Some(json!({
        "@odata.type": "#Drive.v1_19_0.Drive",
        "Id": (number + 1).to_string(),
        "Name": format!("Disk {}", number + 1),
        "Manufacturer": "Plinth",
        "Model": "Lab Disk",
        "SerialNumber": disk.serial,
        "CapacityBytes": disk.size_bytes,
        "BlockSizeBytes": 512,
        "MediaType": "SSD",
        "Protocol": "SATA",
        "Identifiers": [],
        "Status": {"State": "Enabled", "Health": disk_health(bmc)},
    }))
}

pub fn render_controllers(bmc: &Bmc) -> Value {
    collection(
        bmc,
        "StorageControllerCollection",
        "Storage Controllers",
        &[Resource::Controller],
    )
}

pub fn render_controller() -> Value {
    json!({
        "@odata.type": "#StorageController.v1_7_1.StorageController",
        "Id": "1",
        "Name": "SATA Controller",
        "SpeedGbps": 6,
        "SupportedControllerProtocols": ["PCIe"],
        "SupportedDeviceProtocols": ["SATA"],
        "SupportedRAIDTypes": [],
        "Status": {"State": "Enabled", "Health": "OK"},
    })
}

pub fn render_volumes(bmc: &Bmc) -> Value {
    collection(bmc, "VolumeCollection", "Volumes", &[])
}

pub fn render_simple_all(bmc: &Bmc) -> Value {
    collection(
        bmc,
        "SimpleStorageCollection",
        "Simple Storage",
        &[Resource::SimpleStorage],
    )
}

pub fn render_simple(bmc: &Bmc) -> Value {
    let health = disk_health(bmc);
    let devices: Vec<Value> = bmc
        .server
        .hardware()
        .disks
        .iter()
        .enumerate()
        .map(|(n, disk)| {
            json!({
                "Name": format!("Disk {}", n + 1),
                "Manufacturer": "Plinth",
                "Model": "Lab Disk",
                "CapacityBytes": disk.size_bytes,
                "Status": {"State": "Enabled", "Health": health},
            })
        })
        .collect();
    json!({
        "@odata.type": "#SimpleStorage.v1_3_1.SimpleStorage",
        "Id": bmc.personality.storage,
        "Name": "Simple Storage",
        "Devices": devices,
        "Status": {"State": "Enabled", "Health": "OK", "HealthRollup": health},
    })
}
