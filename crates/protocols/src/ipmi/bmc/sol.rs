//! Serial over LAN (15 and 26): one console at a time holds the server's serial port.
//!
//! Characters go out one packet at a time; the next leaves when the console has acknowledged the last, so what the
//! server prints meanwhile gathers by itself.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::channel::LAN_CHANNEL;
use super::table::{Answer, Call, Completion};
use super::{Action, Privilege};
use crate::ipmi::wire::session::PayloadKind;
use crate::ipmi::wire::sol::{Sol, operation, status};

#[derive(Debug)]
pub(super) struct Port {
    settings: Settings,
    link: Option<Link>,
}

/// SOL configuration parameters 0 to 6 (26.3).
#[derive(Debug)]
struct Settings {
    progress: u8,
    enabled: bool,
    privilege: Privilege,
    /// Kept for whoever asks. DEVIATION: characters leave at once; waiting would only slow a virtual serial port.
    accumulate: [u8; 2],
    retries: u8,
    /// In units of 10 ms.
    retry_interval: u8,
    bit_rates: [u8; 2],
}

/// The console that has the port.
#[derive(Debug)]
struct Link {
    session: u32,
    /// Number of the latest packet that was looked at.
    latest: u32,
    queue: VecDeque<u8>,
    sequence: u8,
    in_flight: Option<InFlight>,
    /// The last packet with characters taken from the console, and how many.
    heard: Option<(u8, u8)>,
    /// An acknowledgement not yet sent.
    owed: Option<(u8, u8)>,
    /// Status bits to send along.
    status: u8,
}

#[derive(Debug)]
struct InFlight {
    sequence: u8,
    characters: Vec<u8>,
    retries_left: u8,
    resend_at: Instant,
}

const MAX_CHARACTERS: usize = 200;
const MAX_PAYLOAD: u16 = MAX_CHARACTERS as u16 + 4;
/// What a console that does not keep up may have waiting; older characters are lost, and it is told.
const QUEUE: usize = 64 * 1024;
const BITS_115200: u8 = 0x0a;

impl Port {
    pub(super) fn new() -> Self {
        Self {
            settings: Settings {
                progress: 0,
                enabled: true,
                privilege: Privilege::Operator,
                accumulate: [10, 96],
                retries: 7,
                retry_interval: 50,
                bit_rates: [BITS_115200; 2],
            },
            link: None,
        }
    }

    /// Characters from the server; with nobody listening they are gone.
    pub(super) fn output(&mut self, bytes: &[u8]) {
        let Some(link) = &mut self.link else { return };
        link.queue.extend(bytes);
        let excess = link.queue.len().saturating_sub(QUEUE);
        if excess > 0 {
            link.queue.drain(..excess);
            link.status |= status::OVERRUN;
        }
    }

    pub(super) fn broke(&mut self) {
        if let Some(link) = &mut self.link {
            link.status |= status::BREAK_DETECTED;
        }
    }

    /// A SOL payload from a console, in the packet of this number.
    pub(super) fn input(
        &mut self,
        now: Instant,
        session: u32,
        number: u32,
        payload: &[u8],
        actions: &mut Vec<Action>,
    ) {
        let pause = self.settings.pause();
        let retries = self.settings.retries;
        let Some(link) = self.link.as_mut().filter(|link| link.session == session) else {
            return;
        };
        let Ok(sol) = Sol::decode(payload) else {
            return;
        };
        // Sent before something that has come already: a repetition, which must not be typed again.
        if number <= link.latest {
            return;
        }
        link.latest = number;
        link.acknowledged(&sol, now + pause, retries);
        if sol.sequence == 0 && sol.characters.is_empty() {
            // In a pure acknowledgement the operation bits other than NACK are still orders.
            link.obey(sol.flags, actions);
            return;
        }
        if let Some(heard) = link.heard.filter(|(sequence, _)| *sequence == sol.sequence) {
            link.owed = Some(heard);
            return;
        }
        link.obey(sol.flags, actions);
        let taken = (sol.sequence, sol.characters.len().min(255) as u8);
        if sol.sequence != 0 {
            link.heard = Some(taken);
            link.owed = Some(taken);
        }
        if !sol.characters.is_empty() {
            actions.push(Action::ConsoleInput(sol.characters));
        }
    }

    /// The next packet for the console that has the port, if one is due.
    pub(super) fn next(&mut self, now: Instant) -> Option<(u32, Vec<u8>)> {
        let pause = self.settings.pause();
        let retries = self.settings.retries;
        let link = self.link.as_mut()?;
        let sending = match link.in_flight.take() {
            Some(waiting) if waiting.resend_at > now => {
                link.in_flight = Some(waiting);
                None
            }
            // Parameter 4: "dropped if no ACK/NACK is received by the time the retries are used up".
            Some(InFlight {
                retries_left: 0, ..
            })
            | None => link.take_characters(now + pause, retries),
            Some(again) => Some(InFlight {
                retries_left: again.retries_left - 1,
                resend_at: now + pause,
                ..again
            }),
        };
        if sending.is_none() && link.owed.is_none() && link.status == 0 {
            return None;
        }
        let (acked, accepted) = link.owed.take().unwrap_or((0, 0));
        let flags = std::mem::take(&mut link.status);
        let (sequence, characters) = sending.as_ref().map_or((0, Vec::new()), |sending| {
            (sending.sequence, sending.characters.clone())
        });
        if sending.is_some() {
            link.in_flight = sending;
        }
        Some((
            link.session,
            Sol {
                sequence,
                acked,
                accepted,
                flags,
                characters,
            }
            .encode(),
        ))
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.link
            .as_ref()?
            .in_flight
            .as_ref()
            .map(|sent| sent.resend_at)
    }

    /// The session is gone: says whether it had the port.
    pub(super) fn release(&mut self, session: u32) -> bool {
        self.link.take_if(|link| link.session == session).is_some()
    }
}

impl Settings {
    fn pause(&self) -> Duration {
        // Zero would mean resending without end in no time.
        Duration::from_millis(10 * u64::from(self.retry_interval.max(1)))
    }
}

impl Link {
    fn new(session: u32) -> Self {
        Self {
            session,
            latest: 0,
            queue: VecDeque::new(),
            sequence: 0,
            in_flight: None,
            heard: None,
            owed: None,
            status: 0,
        }
    }

    fn take_characters(&mut self, resend_at: Instant, retries_left: u8) -> Option<InFlight> {
        if self.queue.is_empty() {
            return None;
        }
        let count = self.queue.len().min(MAX_CHARACTERS);
        let characters = self.queue.drain(..count).collect();
        Some(InFlight {
            sequence: self.next_sequence(),
            characters,
            retries_left,
            resend_at,
        })
    }

    fn next_sequence(&mut self) -> u8 {
        self.sequence = self.sequence % 15 + 1;
        self.sequence
    }

    fn acknowledged(&mut self, sol: &Sol, resend_at: Instant, retries_left: u8) {
        let Some(mut sent) = self.in_flight.take_if(|sent| sent.sequence == sol.acked) else {
            return;
        };
        let accepted = usize::from(sol.accepted).min(sent.characters.len());
        let refused = sent.characters.split_off(accepted);
        if !refused.is_empty() {
            // The rest goes in a packet of its own, after a pause: the console asked for one.
            let sequence = self.next_sequence();
            self.in_flight = Some(InFlight {
                sequence,
                characters: refused,
                retries_left,
                resend_at,
            });
        }
    }

    fn obey(&mut self, flags: u8, actions: &mut Vec<Action>) {
        if flags & operation::FLUSH_OUTBOUND != 0 {
            self.queue.clear();
        }
        if flags & operation::BREAK != 0 {
            actions.push(Action::ConsoleBreak);
        }
    }
}

const SOL_PAYLOAD: u8 = 1;
const SOL_INSTANCE: u8 = 1;

/// Completion codes of Activate and Deactivate Payload (24.1, 24.2).
const ALREADY: Completion = Completion(0x80);
const DISABLED: Completion = Completion(0x81);
const NEEDS_ENCRYPTION: Completion = Completion(0x84);

pub(super) fn activate(call: &mut Call) -> Answer {
    let [payload, instance, flags, _, _, _] = call.exactly()?;
    let session = may_use_port(call, payload, instance)?;
    let encrypt = 0x80;
    if flags & encrypt == 0 {
        return Err(NEEDS_ENCRYPTION);
    }
    let port = &mut call.bmc.sol;
    if port.link.is_some() {
        return Err(ALREADY);
    }
    port.link = Some(Link::new(session));
    if let Some(by) = call.bmc.sessions.peer(session) {
        call.actions.push(Action::SolActivated { by });
    }
    let no_vlan = 0xffff_u16;
    let mut answer = vec![0; 4];
    for number in [MAX_PAYLOAD, MAX_PAYLOAD, call.bmc.config.lan.port, no_vlan] {
        answer.extend(number.to_le_bytes());
    }
    Ok(answer)
}

pub(super) fn deactivate(call: &mut Call) -> Answer {
    let ([payload, instance], _) = call.at_least()?;
    let session = may_use_port(call, payload, instance)?;
    let link = call.bmc.sol.link.take().ok_or(ALREADY)?;
    if link.session != session {
        let (sequence, acked, accepted) = (0, 0, 0);
        let farewell = Sol {
            sequence,
            acked,
            accepted,
            flags: status::DEACTIVATED,
            characters: vec![],
        }
        .encode();
        call.bmc
            .send(link.session, PayloadKind::Sol, &farewell, &mut call.actions);
    }
    call.actions.push(Action::SolDeactivated);
    Ok(vec![])
}

fn may_use_port(call: &Call, payload: u8, instance: u8) -> Result<u32, Completion> {
    if payload & 0x3f != SOL_PAYLOAD || instance & 0x0f != SOL_INSTANCE {
        return Err(Completion::INVALID_FIELD);
    }
    let settings = &call.bmc.sol.settings;
    if !settings.enabled {
        return Err(DISABLED);
    }
    let session = call.session.ok_or(Completion::PRIVILEGE)?;
    let active = call
        .bmc
        .sessions
        .active(session)
        .ok_or(Completion::PRIVILEGE)?;
    if active.privilege < settings.privilege {
        return Err(Completion::PRIVILEGE);
    }
    Ok(session)
}

pub(super) fn get_activation_status(call: &mut Call) -> Answer {
    let [payload] = call.exactly()?;
    if payload & 0x3f != SOL_PAYLOAD {
        return Err(Completion::INVALID_FIELD);
    }
    let (capacity, first) = (1, u8::from(call.bmc.sol.link.is_some()));
    Ok(vec![capacity, first, 0])
}

pub(super) fn get_instance_info(call: &mut Call) -> Answer {
    let [payload, instance] = call.exactly()?;
    if payload & 0x3f != SOL_PAYLOAD || instance & 0x0f != SOL_INSTANCE {
        return Err(Completion::INVALID_FIELD);
    }
    let session = call.bmc.sol.link.as_ref().map_or(0, |link| link.session);
    let serial_port = 1;
    let mut answer = session.to_le_bytes().to_vec();
    answer.extend([serial_port, 0, 0, 0, 0, 0, 0, 0]);
    Ok(answer)
}

/// IPMI and SOL; Open Session to RAKP 4; nothing of a vendor's.
pub(super) fn get_payload_support(_call: &mut Call) -> Answer {
    Ok(vec![0x03, 0, 0x3f, 0, 0, 0, 0, 0])
}

pub(super) fn get_payload_version(call: &mut Call) -> Answer {
    let [_channel, payload] = call.exactly()?;
    match payload & 0x3f {
        0 | SOL_PAYLOAD | 0x10..=0x15 => Ok(vec![0x10]),
        _ => Err(Completion(0x80)),
    }
}

pub(super) fn get_parameter(call: &mut Call) -> Answer {
    let [channel, parameter, _set, _block] = call.exactly()?;
    let settings = &call.bmc.sol.settings;
    let mut answer = vec![0x11];
    if channel & 0x80 != 0 {
        return Ok(answer);
    }
    let always_encrypted_and_signed = 0xc0;
    match parameter {
        0 => answer.push(settings.progress),
        1 => answer.push(settings.enabled.into()),
        2 => answer.push(always_encrypted_and_signed | settings.privilege.code()),
        3 => answer.extend(settings.accumulate),
        4 => answer.extend([settings.retries, settings.retry_interval]),
        5 => answer.push(settings.bit_rates[0]),
        6 => answer.push(settings.bit_rates[1]),
        7 => answer.push(LAN_CHANNEL),
        8 => answer.extend(call.bmc.config.lan.port.to_le_bytes()),
        _ => return Err(Completion::PARAMETER_NOT_SUPPORTED),
    }
    Ok(answer)
}

pub(super) fn set_parameter(call: &mut Call) -> Answer {
    let ([_channel, parameter], data) = call.at_least()?;
    let settings = &mut call.bmc.sol.settings;
    match (parameter, data) {
        (0, [progress]) => settings.progress = u8::from(progress & 3 == 1),
        (1, [enabled]) => settings.enabled = enabled & 1 == 1,
        (2, [privilege]) => {
            settings.privilege =
                Privilege::from_code(privilege & 0x0f).ok_or(Completion::INVALID_FIELD)?;
        }
        (3, [interval, threshold]) => settings.accumulate = [*interval, *threshold],
        (4, [retries, interval]) => {
            (settings.retries, settings.retry_interval) = (retries & 0x07, *interval);
        }
        (5, [rate]) => settings.bit_rates[0] = rate & 0x0f,
        (6, [rate]) => settings.bit_rates[1] = rate & 0x0f,
        (7 | 8, _) => return Err(READ_ONLY),
        (0..=6, _) => return Err(Completion::LENGTH),
        _ => return Err(Completion::PARAMETER_NOT_SUPPORTED),
    }
    Ok(vec![])
}

/// Set SOL Configuration Parameters: the parameter cannot be written.
const READ_ONLY: Completion = Completion(0x82);
