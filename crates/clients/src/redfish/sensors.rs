//! Sensors of the chassis: temperatures, fans, volts, watts.

use serde_json::Value;

use super::Error;
use super::json::{list, text};
use super::talk::Client;

#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub chassis: String,
    pub name: String,
    pub quantity: Quantity,
    /// `None` while the sensor says nothing, as many do with the server off.
    pub value: Option<f64>,
    pub health: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    Celsius,
    /// Revolutions a minute.
    Rpm,
    Percent,
    Volts,
    Watts,
}

/// Where each quantity is found: resource, list, property, name.
const PLACES: &[(&str, &str, &str, Quantity)] = &[
    (
        "/Thermal",
        "/Temperatures",
        "/ReadingCelsius",
        Quantity::Celsius,
    ),
    ("/Thermal", "/Fans", "/Reading", Quantity::Rpm),
    ("/Power", "/Voltages", "/ReadingVolts", Quantity::Volts),
    (
        "/Power",
        "/PowerControl",
        "/PowerConsumedWatts",
        Quantity::Watts,
    ),
    (
        "/Power",
        "/PowerSupplies",
        "/PowerInputWatts",
        Quantity::Watts,
    ),
];

impl Client {
    pub async fn sensors(&self) -> Result<Vec<Reading>, Error> {
        let operation = "read the sensors";
        let system = self.system_resource(operation).await?;
        let mut readings = Vec::new();
        for path in system.links("/Links/Chassis") {
            let chassis = self.get(operation, &path).await?;
            let id = chassis.text_at("/Id").unwrap_or_default();
            for place in ["/Thermal", "/Power"] {
                let Some(path) = chassis.link(place) else {
                    continue;
                };
                let Some(resource) = self.find(operation, path).await? else {
                    continue;
                };
                readings.extend(read(id, place, &resource.body));
            }
        }
        Ok(readings)
    }
}

fn read(chassis: &str, place: &str, body: &Value) -> Vec<Reading> {
    let mut readings = Vec::new();
    for (_, array, property, quantity) in PLACES.iter().filter(|row| row.0 == place) {
        for sensor in list(body, array) {
            if text(sensor, "/Status/State") == Some("Absent") {
                continue;
            }
            let percent = text(sensor, "/ReadingUnits") == Some("Percent");
            readings.push(Reading {
                chassis: chassis.to_string(),
                name: text(sensor, "/Name")
                    .or_else(|| text(sensor, "/MemberId"))
                    .unwrap_or("unnamed")
                    .to_string(),
                quantity: if percent {
                    Quantity::Percent
                } else {
                    *quantity
                },
                value: sensor.pointer(property).and_then(Value::as_f64),
                health: text(sensor, "/Status/Health").map(ToString::to_string),
            });
        }
    }
    readings
}
