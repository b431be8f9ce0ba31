//! The conditions of a host, computed from its status and its node.

use jiff::Timestamp;

use super::State;
use super::status::{Condition, Operational, Status, Truth};
use super::told::{Retry, Waiting};
use super::view::{Host, Node};

/// Brings `status.conditions` up to date. Others' conditions are kept.
pub(super) fn refresh(
    status: &mut Status,
    host: &Host,
    node: Option<&Node>,
    retry_at: Timestamp,
    now: Timestamp,
) {
    for (kind, truth, reason, message) in wanted(status, node, retry_at) {
        set(status, host, now, kind, truth, reason, message);
    }
    if let Some((truth, reason)) = health(status, node) {
        set(status, host, now, "Healthy", truth, reason, String::new());
    }
}

fn set(
    status: &mut Status,
    host: &Host,
    now: Timestamp,
    kind: &str,
    truth: Truth,
    reason: &str,
    message: String,
) {
    let old = status.conditions.iter_mut().find(|old| old.kind == kind);
    let since = match &old {
        Some(old) if old.status == truth => old.last_transition_time,
        _ => now,
    };
    let new = Condition {
        kind: kind.to_owned(),
        status: truth,
        reason: reason.to_owned(),
        message,
        last_transition_time: since,
        observed_generation: host.generation,
    };
    match old {
        Some(old) => *old = new,
        None => status.conditions.push(new),
    }
}

type Wanted = (&'static str, Truth, &'static str, String);

fn wanted(status: &Status, node: Option<&Node>, retry_at: Timestamp) -> [Wanted; 5] {
    use Truth::{False, True};
    let state = status.provisioning.state;
    let operational = status.operational_status;
    let is = |truth: bool| if truth { True } else { False };
    let word = match status.error_type {
        Some(_) => {
            let error = status.error_message.clone();
            Retry {
                error,
                at: retry_at,
            }
            .to_string()
        }
        None => String::new(),
    };

    let managed = !state.is_unmanaged() && state != State::Registering;
    let mut manageable = match state {
        State::None | State::Unmanaged => (False, "NotManaged"),
        State::Registering if operational == Operational::Error => (False, "RegistrationFailed"),
        State::Registering => (False, "Registering"),
        State::MatchProfile
        | State::Inspecting
        | State::Preparing
        | State::Available
        | State::Provisioning
        | State::Provisioned
        | State::ExternallyProvisioned
        | State::Deprovisioning
        | State::PoweringOff
        | State::Deleting => (True, "Manageable"),
    };
    let power_failure = node.is_some_and(|node| node.fault.as_deref() == Some("power failure"));
    if managed && power_failure && state != State::Deleting && operational != Operational::Detached
    {
        manageable = (False, "PowerFailure");
    }
    let available = state == State::Available;
    let provisioned = state.is_provisioned();
    let yes = |truth: bool, yes: &'static str, no: &'static str| if truth { yes } else { no };
    let mut ready = (
        is(provisioned),
        yes(provisioned, "Provisioned", "NotProvisioned"),
    );
    let mut progressing = match progress(state) {
        Some(reason) => (True, reason),
        None => (False, "NotProgressing"),
    };
    match operational {
        Operational::Error => ready = (False, "Error"),
        Operational::Servicing => ready = (False, "Servicing"),
        Operational::Detached => {
            ready = (False, "Detached");
            progressing = (False, "Detached");
        }
        Operational::Unknown | Operational::Ok | Operational::Discovered | Operational::Delayed => {
        }
    }
    [
        ("Manageable", manageable.0, manageable.1, String::new()),
        (
            "AvailableForProvisioning",
            is(available),
            yes(available, "Available", "NotAvailable"),
            String::new(),
        ),
        (
            "Provisioned",
            is(provisioned),
            yes(provisioned, "Provisioned", "NotProvisioned"),
            String::new(),
        ),
        ("Ready", ready.0, ready.1, word),
        (
            "Progressing",
            progressing.0,
            progressing.1,
            awaited(status, progressing.1),
        ),
    ]
}

/// What a host at work waits for, as long as it is at the same work.
fn awaited(status: &Status, reason: &str) -> String {
    let old = status
        .conditions
        .iter()
        .find(|old| old.kind == "Progressing");
    old.filter(|old| old.reason == reason && old.status == Truth::True)
        .map_or_else(String::new, |old| old.message.clone())
}

/// Says in the Progressing condition what a host at work waits for.
pub(super) fn tell(status: &mut Status, waiting: &Waiting) {
    let progressing = status
        .conditions
        .iter_mut()
        .find(|old| old.kind == "Progressing");
    if let Some(progressing) = progressing.filter(|seen| seen.status == Truth::True) {
        progressing.message = waiting.to_string();
    }
}

fn progress(state: State) -> Option<&'static str> {
    match state {
        State::Registering => Some("Registering"),
        State::Inspecting => Some("Inspecting"),
        State::MatchProfile | State::Preparing => Some("Preparing"),
        State::Provisioning => Some("Provisioning"),
        State::Deprovisioning => Some("Deprovisioning"),
        State::PoweringOff => Some("PoweringOffBeforeDelete"),
        State::Deleting => Some("Deleting"),
        State::None
        | State::Unmanaged
        | State::Available
        | State::Provisioned
        | State::ExternallyProvisioned => None,
    }
}

/// None keeps what was there.
fn health(status: &Status, node: Option<&Node>) -> Option<(Truth, &'static str)> {
    let known = status.conditions.iter().any(|seen| seen.kind == "Healthy");
    match node.and_then(|node| node.health.as_deref()).unwrap_or("") {
        "OK" => Some((Truth::True, "Healthy")),
        "Warning" => Some((Truth::False, "Warning")),
        "Critical" => Some((Truth::False, "CriticalError")),
        "" if known => None,
        _ => Some((Truth::Unknown, "Unknown")),
    }
}
