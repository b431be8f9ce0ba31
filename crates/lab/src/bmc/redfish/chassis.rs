//! The chassis with its sensors: colder and slower when the server is off.

use serde_json::{Value, json};

use super::body::Body;
use super::messages::Problem;
use super::path::Resource;
use super::system::INDICATORS;
use super::{collection, link};
use crate::bmc::Bmc;
use crate::server::Power;

pub fn render_all(bmc: &Bmc) -> Value {
    collection(bmc, "ChassisCollection", "Chassis", &[Resource::Chassis])
}

pub fn render(bmc: &Bmc) -> Value {
    let p = bmc.personality;
    json!({
        "@odata.type": "#Chassis.v1_25_0.Chassis",
        "Id": p.chassis,
        "Name": "Chassis",
        "ChassisType": "RackMount",
        "Manufacturer": p.manufacturer,
        "Model": p.model,
        "SKU": p.sku,
        "SerialNumber": bmc.server.hardware().serial,
        "IndicatorLED": bmc.memory().indicator,
        "PowerState": bmc.server.view().reported_power,
        "Status": {"State": "Enabled", "Health": "OK"},
        "Power": link(bmc, &Resource::Power),
        "Thermal": link(bmc, &Resource::Thermal),
        "Links": {
            "ComputerSystems": [link(bmc, &Resource::System)],
            "ManagedBy": [link(bmc, &Resource::Manager)],
        },
    })
}

pub fn change(bmc: &Bmc, mut body: Body, known: &Value) -> Result<(), Problem> {
    let indicator = body.one_of("IndicatorLED", &INDICATORS);
    body.finish(known)?;
    if let Some(indicator) = indicator {
        bmc.memory().indicator = indicator;
    }
    Ok(())
}

fn runs(bmc: &Bmc) -> bool {
    match bmc.server.view().power {
        Power::On | Power::PoweringOn => true,
        Power::Off | Power::PoweringOff => false,
    }
}

pub fn render_power(bmc: &Bmc) -> Value {
    let watts = if runs(bmc) { 180 } else { 12 };
    let path = Resource::Power.path(bmc.personality);
    json!({
        "@odata.type": "#Power.v1_7_3.Power",
        "Id": "Power",
        "Name": "Power",
        "PowerControl": [{
            "@odata.id": format!("{path}#/PowerControl/0"),
            "MemberId": "0",
            "Name": "System Power Control",
            "PowerConsumedWatts": watts,
            "PowerCapacityWatts": 750,
        }],
        "PowerSupplies": [{
            "@odata.id": format!("{path}#/PowerSupplies/0"),
            "MemberId": "0",
            "Name": "Power Supply 1",
            "PowerSupplyType": "AC",
            "LineInputVoltage": 230,
            "PowerCapacityWatts": 750,
            "LastPowerOutputWatts": watts,
            "Status": {"State": "Enabled", "Health": "OK"},
        }],
    })
}

pub fn render_thermal(bmc: &Bmc) -> Value {
    let (inlet, cpu, fan) = if runs(bmc) {
        (23, 48, 5400)
    } else {
        (21, 24, 1200)
    };
    let path = Resource::Thermal.path(bmc.personality);
    let temperature = |n: usize, name: &str, context: &str, celsius: i32| {
        json!({
            "@odata.id": format!("{path}#/Temperatures/{n}"),
            "MemberId": n.to_string(),
            "Name": name,
            "PhysicalContext": context,
            "ReadingCelsius": celsius,
            "UpperThresholdNonCritical": 75,
            "UpperThresholdCritical": 90,
            "Status": {"State": "Enabled", "Health": "OK"},
        })
    };
    json!({
        "@odata.type": "#Thermal.v1_7_3.Thermal",
        "Id": "Thermal",
        "Name": "Thermal",
        "Temperatures": [
            temperature(0, "Inlet Temp", "Intake", inlet),
            temperature(1, "CPU1 Temp", "CPU", cpu),
        ],
        "Fans": [{
            "@odata.id": format!("{path}#/Fans/0"),
            "MemberId": "0",
            "Name": "Fan 1",
            "Reading": fan,
            "ReadingUnits": "RPM",
            "Status": {"State": "Enabled", "Health": "OK"},
        }],
    })
}
