//! What is in the box: network cards, processors, memory.

use serde_json::{Value, json};

use super::collection;
use super::path::Resource;
use crate::bmc::Bmc;
use crate::fault::Kind;

pub fn render_nics(bmc: &Bmc) -> Value {
    let members: Vec<_> = (0..bmc.server.hardware().nics.len())
        .map(Resource::Nic)
        .collect();
    collection(
        bmc,
        "EthernetInterfaceCollection",
        "Ethernet Interfaces",
        &members,
    )
}

pub fn render_nic(bmc: &Bmc, number: usize) -> Option<Value> {
    let nic = bmc.server.hardware().nics.get(number)?;
    let unplugged = Kind::LinkDown {
        network: nic.network,
    };
    let unplugged = bmc.server.faults().holds(unplugged);
    Some(json!({
        "@odata.type": "#EthernetInterface.v1_11_0.EthernetInterface",
        "Id": format!("{}{}", bmc.personality.nic, number + 1),
        "Name": "Ethernet Interface",
        "Description": format!("On the {} network", nic.network),
        "MACAddress": nic.mac.to_string(),
        "PermanentMACAddress": nic.mac.to_string(),
        "LinkStatus": if unplugged { "LinkDown" } else { "LinkUp" },
        "SpeedMbps": 1000,
        "FullDuplex": true,
        "InterfaceEnabled": true,
        "Status": {"State": "Enabled", "Health": "OK"},
    }))
}

pub fn render_processors(bmc: &Bmc) -> Value {
    collection(
        bmc,
        "ProcessorCollection",
        "Processors",
        &[Resource::Processor],
    )
}

pub fn render_processor(bmc: &Bmc) -> Value {
    let cpus = bmc.server.hardware().cpus;
    json!({
        "@odata.type": "#Processor.v1_19_0.Processor",
        "Id": "1",
        "Name": "Processor",
        "Socket": "CPU 1",
        "ProcessorType": "CPU",
        "ProcessorArchitecture": "x86",
        "InstructionSet": "x86-64",
        "Manufacturer": "Plinth",
        "Model": "Virtual x86-64",
        "ProcessorId": {"VendorId": "Plinth"},
        "MaxSpeedMHz": 2400,
        "TotalCores": cpus,
        "TotalThreads": cpus,
        "Status": {"State": "Enabled", "Health": "OK"},
    })
}

pub fn render_memory(bmc: &Bmc) -> Value {
    collection(bmc, "MemoryCollection", "Memory Modules", &[Resource::Dimm])
}

pub fn render_dimm(bmc: &Bmc) -> Value {
    json!({
        "@odata.type": "#Memory.v1_18_0.Memory",
        "Id": "1",
        "Name": "DIMM 1",
        "MemoryType": "DRAM",
        "MemoryDeviceType": "DDR4",
        "CapacityMiB": bmc.server.hardware().memory_mib,
        "OperatingSpeedMhz": 3200,
        "Status": {"State": "Enabled", "Health": "OK"},
    })
}
