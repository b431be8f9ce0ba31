//! The system event log (31).

use std::time::Instant;

use super::table::{Answer, Call, Completion};
use crate::ipmi::chassis::PowerState;

#[derive(Debug)]
pub(super) struct Log {
    entries: Vec<[u8; RECORD]>,
    next_id: u16,
    overflow: bool,
    reservation: u16,
    clock: Clock,
    added_at: u32,
    erased_at: u32,
}

/// Seconds since 1970, as last told.
#[derive(Debug)]
struct Clock {
    seconds: u32,
    at: Instant,
}

const RECORD: usize = 16;
const CAPACITY: usize = 512;
/// "Never", for a time that is not known.
const UNSPECIFIED: u32 = u32::MAX;

impl Log {
    pub(super) fn new(now: Instant, unix_seconds: u32) -> Self {
        Self {
            entries: Vec::new(),
            next_id: 1,
            overflow: false,
            reservation: 0,
            clock: Clock {
                seconds: unix_seconds,
                at: now,
            },
            added_at: UNSPECIFIED,
            erased_at: UNSPECIFIED,
        }
    }

    pub(super) fn log_power(&mut self, now: Instant, power: PowerState) {
        let (system_event, acpi_power_state, sensor, specific) = (0x02, 0x22, 0xa0, 0x6f);
        let offset = match power {
            PowerState::On => 0x00,
            PowerState::Off => 0x06,
        };
        let bmc = crate::ipmi::wire::message::BMC_ADDRESS;
        let version = 0x04;
        let record = [
            0,
            0,
            system_event,
            0,
            0,
            0,
            0,
            bmc,
            0,
            version,
            acpi_power_state,
            sensor,
            specific,
            offset,
            0xff,
            0xff,
        ];
        if self.add(now, record).is_none() {
            self.overflow = true;
        }
    }

    /// Gives the record its id and, where its type has one, its time.
    fn add(&mut self, now: Instant, mut record: [u8; RECORD]) -> Option<u16> {
        if self.entries.len() >= CAPACITY {
            return None;
        }
        let id = self.next_id;
        // 0 and FFFFh mean first and last.
        self.next_id = if id == 0xfffe { 1 } else { id + 1 };
        let time = self.time(now);
        record[..2].copy_from_slice(&id.to_le_bytes());
        if record[2] < 0xe0 {
            record[3..7].copy_from_slice(&time.to_le_bytes());
        }
        self.entries.push(record);
        self.added_at = time;
        Some(id)
    }

    fn time(&self, now: Instant) -> u32 {
        let passed = now.saturating_duration_since(self.clock.at).as_secs();
        self.clock.seconds.wrapping_add(passed as u32)
    }

    /// Zero is what a console sends that made none.
    fn check_reservation(&self, bytes: [u8; 2]) -> Result<(), Completion> {
        let id = u16::from_le_bytes(bytes);
        if id != 0 && id == self.reservation {
            Ok(())
        } else {
            Err(Completion::RESERVATION)
        }
    }

    fn position(&self, id: u16) -> Option<usize> {
        match id {
            0 => (!self.entries.is_empty()).then_some(0),
            0xffff => self.entries.len().checked_sub(1),
            id => self
                .entries
                .iter()
                .position(|entry| entry[..2] == id.to_le_bytes()),
        }
    }
}

pub(super) fn get_info(call: &mut Call) -> Answer {
    let log = &call.bmc.sel;
    let free = (CAPACITY - log.entries.len()) * RECORD;
    let (version, reserve, allocation) = (0x51, 0x02, 0x01);
    let mut answer = vec![version];
    answer.extend((log.entries.len() as u16).to_le_bytes());
    answer.extend((free as u16).to_le_bytes());
    answer.extend(log.added_at.to_le_bytes());
    answer.extend(log.erased_at.to_le_bytes());
    answer.push(u8::from(log.overflow) << 7 | reserve | allocation);
    Ok(answer)
}

pub(super) fn get_allocation(call: &mut Call) -> Answer {
    let free = (CAPACITY - call.bmc.sel.entries.len()) as u16;
    let mut answer = Vec::new();
    for number in [CAPACITY as u16, RECORD as u16, free, free] {
        answer.extend(number.to_le_bytes());
    }
    answer.push(1);
    Ok(answer)
}

pub(super) fn reserve(call: &mut Call) -> Answer {
    let log = &mut call.bmc.sel;
    log.reservation = log.reservation.checked_add(1).unwrap_or(1);
    Ok(log.reservation.to_le_bytes().to_vec())
}

pub(super) fn get_entry(call: &mut Call) -> Answer {
    let [r0, r1, i0, i1, offset, count] = call.exactly()?;
    let log = &call.bmc.sel;
    if offset != 0 {
        log.check_reservation([r0, r1])?;
    }
    let at = log
        .position(u16::from_le_bytes([i0, i1]))
        .ok_or(Completion::NOT_PRESENT)?;
    let next = log
        .entries
        .get(at + 1)
        .map_or([0xff; 2], |entry| [entry[0], entry[1]]);
    let rest = log.entries[at]
        .get(usize::from(offset)..)
        .ok_or(Completion::OUT_OF_RANGE)?;
    let mut answer = next.to_vec();
    answer.extend(rest.iter().take(count.into()));
    Ok(answer)
}

pub(super) fn add_entry(call: &mut Call) -> Answer {
    let record = call.exactly()?;
    let id = call
        .bmc
        .sel
        .add(call.now, record)
        .ok_or(Completion::OUT_OF_SPACE)?;
    Ok(id.to_le_bytes().to_vec())
}

pub(super) fn clear(call: &mut Call) -> Answer {
    let [r0, r1, b'C', b'L', b'R', action] = call.exactly()? else {
        return Err(Completion::INVALID_FIELD);
    };
    let log = &mut call.bmc.sel;
    let (status, erase, completed) = (0x00, 0xaa, 0x01);
    if action == erase {
        log.check_reservation([r0, r1])?;
        log.entries.clear();
        log.overflow = false;
        log.erased_at = log.time(call.now);
        log.reservation = log.reservation.checked_add(1).unwrap_or(1);
    } else if action != status {
        return Err(Completion::INVALID_FIELD);
    }
    Ok(vec![completed])
}

pub(super) fn get_time(call: &mut Call) -> Answer {
    Ok(call.bmc.sel.time(call.now).to_le_bytes().to_vec())
}

pub(super) fn set_time(call: &mut Call) -> Answer {
    let seconds = u32::from_le_bytes(call.exactly()?);
    call.bmc.sel.clock = Clock {
        seconds,
        at: call.now,
    };
    Ok(vec![])
}
