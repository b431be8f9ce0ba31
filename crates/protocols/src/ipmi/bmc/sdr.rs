//! Sensors: the records that describe them, and their readings (33, 35 and 43.1).

use super::View;
use super::table::{Answer, Call, Completion};
use crate::ipmi::chassis::PowerState;

/// What the server's sensors measure; those inside it mean nothing while it is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readings {
    pub inlet_celsius: u8,
    pub cpu_celsius: u8,
    pub fan_rpm: u16,
    pub watts: u16,
}

impl Default for Readings {
    fn default() -> Self {
        Self {
            inlet_celsius: 22,
            cpu_celsius: 40,
            fan_rpm: 6000,
            watts: 120,
        }
    }
}

#[derive(Debug)]
pub(super) struct Repository {
    records: Vec<Vec<u8>>,
    reservation: u16,
}

impl Repository {
    pub(super) fn new() -> Self {
        Self {
            records: SENSORS
                .iter()
                .enumerate()
                .map(|(at, sensor)| sensor.record(at))
                .collect(),
            reservation: 0,
        }
    }
}

/// A sensor with thresholds; the reading is `raw * factor` in its unit.
struct Sensor {
    number: u8,
    name: &'static str,
    kind: u8,
    entity: u8,
    unit: u8,
    factor: u8,
    /// Raw; `None` where the sensor has no such threshold.
    lower_critical: Option<u8>,
    upper_noncritical: Option<u8>,
    upper_critical: Option<u8>,
    /// `None`: nothing to read at present.
    raw: fn(View) -> Option<u8>,
}

static SENSORS: &[Sensor] = &[
    Sensor {
        number: 1,
        name: "Inlet Temp",
        kind: TEMPERATURE,
        entity: 0x37,
        unit: CELSIUS,
        factor: 1,
        lower_critical: None,
        upper_noncritical: Some(42),
        upper_critical: Some(47),
        raw: |view| Some(view.readings.inlet_celsius),
    },
    Sensor {
        number: 2,
        name: "CPU Temp",
        kind: TEMPERATURE,
        entity: 0x03,
        unit: CELSIUS,
        factor: 1,
        lower_critical: None,
        upper_noncritical: Some(85),
        upper_critical: Some(95),
        raw: |view| when_on(view, view.readings.cpu_celsius.into(), 1),
    },
    Sensor {
        number: 3,
        name: "Fan 1",
        kind: FAN,
        entity: 0x1d,
        unit: RPM,
        factor: 100,
        lower_critical: Some(5),
        upper_noncritical: None,
        upper_critical: None,
        raw: |view| when_on(view, view.readings.fan_rpm, 100),
    },
    Sensor {
        number: 4,
        name: "Power Draw",
        kind: OTHER,
        entity: 0x0a,
        unit: WATTS,
        factor: 4,
        lower_critical: None,
        upper_noncritical: None,
        upper_critical: Some(250),
        raw: |view| when_on(view, view.readings.watts, 4),
    },
];

const TEMPERATURE: u8 = 0x01;
const FAN: u8 = 0x04;
const OTHER: u8 = 0x0b;
const CELSIUS: u8 = 1;
const WATTS: u8 = 6;
const RPM: u8 = 18;

fn when_on(view: View, value: u16, factor: u16) -> Option<u8> {
    match view.power {
        PowerState::Off => None,
        PowerState::On => Some((value / factor).min(255) as u8),
    }
}

/// Threshold bits, as masks and comparisons use them.
const LOWER_CRITICAL: u8 = 0x02;
const UPPER_NONCRITICAL: u8 = 0x08;
const UPPER_CRITICAL: u8 = 0x10;

impl Sensor {
    /// Thresholds in the order Get Sensor Thresholds lists them, lowest bit of the mask first.
    fn thresholds(&self) -> [Option<u8>; 6] {
        [
            None,
            self.lower_critical,
            None,
            self.upper_noncritical,
            self.upper_critical,
            None,
        ]
    }

    fn readable(&self) -> u8 {
        let set = |threshold: Option<u8>, bit| if threshold.is_some() { bit } else { 0 };
        set(self.lower_critical, LOWER_CRITICAL)
            | set(self.upper_noncritical, UPPER_NONCRITICAL)
            | set(self.upper_critical, UPPER_CRITICAL)
    }

    fn crossed(&self, raw: u8) -> u8 {
        let set = |crossed: bool, bit| if crossed { bit } else { 0 };
        set(
            self.lower_critical.is_some_and(|limit| raw <= limit),
            LOWER_CRITICAL,
        ) | set(
            self.upper_noncritical.is_some_and(|limit| raw >= limit),
            UPPER_NONCRITICAL,
        ) | set(
            self.upper_critical.is_some_and(|limit| raw >= limit),
            UPPER_CRITICAL,
        )
    }

    /// A full sensor record (43.1).
    fn record(&self, at: usize) -> Vec<u8> {
        let [id0, id1] = (at as u16 + 1).to_le_bytes();
        let (version, full, owner, instance, threshold_type) = (0x51, 0x01, 0x20, 1, 0x01);
        let (initialised, readable_thresholds) = (0x7f, 0x44);
        let [_, lower, _, upper, critical, _] =
            self.thresholds().map(|threshold| threshold.unwrap_or(0));
        let mut body = vec![owner, 0, self.number, self.entity, instance];
        body.extend([initialised, readable_thresholds, self.kind, threshold_type]);
        // Event masks: none; then which thresholds can be read, and which set.
        body.extend([0, 0, 0, 0, self.readable(), 0]);
        // Unsigned, unit, no modifier, linear; M, tolerance, B, accuracy, exponents: reading = raw * M.
        body.extend([0, self.unit, 0, 0, self.factor, 0, 0, 0, 0, 0]);
        // No nominal reading; the raw range is the whole byte.
        body.extend([0, 0, 0, 0, 0xff, 0]);
        // Upper: non-recoverable, critical, non-critical; lower: the same; hysteresis; reserved; OEM.
        body.extend([0, critical, upper, 0, lower, 0, 0, 0, 0, 0, 0]);
        body.push(0xc0 | self.name.len() as u8);
        body.extend(self.name.as_bytes());
        let mut record = vec![id0, id1, version, full, body.len() as u8];
        record.extend(body);
        record
    }
}

pub(super) fn get_info(call: &mut Call) -> Answer {
    let (version, reserve_supported) = (0x51, 0x02);
    let mut answer = vec![version];
    answer.extend((call.bmc.sdr.records.len() as u16).to_le_bytes());
    // Full, never added to, never erased.
    answer.extend([0; 2]);
    answer.extend([0; 8]);
    answer.push(reserve_supported);
    Ok(answer)
}

pub(super) fn reserve(call: &mut Call) -> Answer {
    let repository = &mut call.bmc.sdr;
    repository.reservation = repository.reservation.checked_add(1).unwrap_or(1);
    Ok(repository.reservation.to_le_bytes().to_vec())
}

pub(super) fn get_record(call: &mut Call) -> Answer {
    let [r0, r1, i0, i1, offset, count] = call.exactly()?;
    let repository = &call.bmc.sdr;
    if offset != 0 && u16::from_le_bytes([r0, r1]) != repository.reservation {
        return Err(Completion::RESERVATION);
    }
    let last = repository.records.len() - 1;
    let at = match u16::from_le_bytes([i0, i1]) {
        0 => 0,
        0xffff => last,
        id => usize::from(id) - 1,
    };
    let record = repository.records.get(at).ok_or(Completion::NOT_PRESENT)?;
    let next = if at == last { 0xffff } else { at as u16 + 2 };
    let rest = record
        .get(usize::from(offset)..)
        .ok_or(Completion::OUT_OF_RANGE)?;
    let mut answer = next.to_le_bytes().to_vec();
    answer.extend(rest.iter().take(count.into()));
    Ok(answer)
}

fn sensor(call: &Call) -> Result<&'static Sensor, Completion> {
    let ([number], _) = call.at_least()?;
    SENSORS
        .iter()
        .find(|sensor| sensor.number == number)
        .ok_or(Completion::NOT_PRESENT)
}

pub(super) fn get_thresholds(call: &mut Call) -> Answer {
    let sensor = sensor(call)?;
    let mut answer = vec![sensor.readable()];
    answer.extend(sensor.thresholds().map(|threshold| threshold.unwrap_or(0)));
    Ok(answer)
}

pub(super) fn get_reading(call: &mut Call) -> Answer {
    let sensor = sensor(call)?;
    let (scanning, unavailable, reserved) = (0x40, 0x20, 0xc0);
    Ok(match (sensor.raw)(call.bmc.view) {
        Some(raw) => vec![raw, scanning, reserved | sensor.crossed(raw)],
        None => vec![0, scanning | unavailable, reserved],
    })
}
