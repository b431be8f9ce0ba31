//! A status being changed: errors, transitions, what is remembered of them.

use std::time::Duration;

use jiff::Timestamp;

use super::status::{ErrorType, Operational, Span, Status};
use super::step::Event;
use super::{Host, State};

#[derive(Debug, Clone)]
pub(super) struct Draft<'a> {
    host: &'a Host,
    pub status: Status,
    pub events: Vec<Event>,
}

impl<'a> Draft<'a> {
    pub fn new(host: &'a Host) -> Self {
        Self {
            host,
            status: host.status.clone(),
            events: Vec::new(),
        }
    }

    pub fn event(&mut self, reason: &'static str, note: impl Into<String>) {
        self.events.push(Event::normal(reason, note));
    }

    pub fn set_error(&mut self, kind: ErrorType, message: &str) {
        self.status.operational_status = Operational::Error;
        self.status.error_type = Some(kind);
        message.clone_into(&mut self.status.error_message);
        self.status.error_count = self.status.error_count.saturating_add(1);
        self.events.push(Event::warning(kind.event(), message));
    }

    /// The error is over; how often it went wrong is remembered until something goes well.
    pub fn clear_error(&mut self) {
        let status = &mut self.status;
        status.error_type = None;
        status.error_message.clear();
        if status.operational_status != Operational::Servicing {
            status.operational_status = Operational::Ok;
        }
    }

    /// Something was finished: a new state, and a clean slate.
    pub fn finish(&mut self, to: State, now: Timestamp) {
        self.clear_error();
        self.status.operational_status = Operational::Ok;
        self.status.error_count = 0;
        self.go(to, now);
    }

    /// A new state.
    pub fn go(&mut self, to: State, now: Timestamp) {
        let from = self.status.provisioning.state;
        if let Some(span) = span(&mut self.status, from) {
            span.finish(now);
        }
        if let Some(span) = span(&mut self.status, to) {
            span.begin(now);
        }
        self.status.provisioning.state = to;
        if matches!(
            to,
            State::Registering | State::Inspecting | State::Provisioning
        ) {
            self.status.provisioning.boot_mode = Some(self.host.spec.boot_mode.unwrap_or_default());
        }
    }

    /// What was set up on the host for the next deployment is no longer known to be there.
    pub fn clear_settings(&mut self) {
        let provisioning = &mut self.status.provisioning;
        provisioning.root_device_hints = None;
        if let Some(raid) = &mut provisioning.raid {
            raid.software = None;
            if raid.hardware.is_none() {
                provisioning.raid = None;
            }
        }
    }
}

fn span(status: &mut Status, state: State) -> Option<&mut Span> {
    let history = &mut status.operation_history;
    match state {
        State::Registering => Some(&mut history.register),
        State::Inspecting => Some(&mut history.inspect),
        State::Provisioning => Some(&mut history.provision),
        State::Deprovisioning => Some(&mut history.deprovision),
        State::None
        | State::Unmanaged
        | State::MatchProfile
        | State::Preparing
        | State::Available
        | State::Provisioned
        | State::ExternallyProvisioned
        | State::PoweringOff
        | State::Deleting => None,
    }
}

/// How long to leave a host alone after so many failures in a row: twice as long each time, up to some hours, less up
/// to a half by which hosts that failed together come back apart.
pub fn backoff(unit: Duration, failures: u32, host: &str) -> Duration {
    let full = unit.saturating_mul(1 << failures.clamp(1, 9));
    // FNV-1a; any spread will do, as long as the same host asks twice and hears the same.
    let seed = host
        .bytes()
        .chain(failures.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let cut = u32::try_from((seed >> 17) % 500).unwrap_or(0);
    full.saturating_sub(full / 1000 * cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_up_to_a_limit_and_hosts_differ() {
        let minute = Duration::from_mins(1);
        for failures in 1..20 {
            let full = minute * (1 << failures.min(9));
            for host in ["a", "b", "c-4711"] {
                let wait = backoff(minute, failures, host);
                assert!(wait > full / 2 && wait <= full, "{failures}: {wait:?}");
            }
        }
        assert_eq!(backoff(minute, 0, "a"), backoff(minute, 0, "a"));
        assert_ne!(backoff(minute, 3, "a"), backoff(minute, 3, "b"));
    }
}
