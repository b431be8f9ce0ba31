//! Keeping the recorded power state and the BMC's in agreement, while nothing else goes on with a node.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Fault, Kind, Power, Timers, View};

/// How a difference is resolved, and how much silence is borne.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PowerPolicy {
    /// A server that is not as recorded is put as recorded; otherwise the record follows the server.
    pub force: bool,
    /// A BMC that fails this often in a row puts its node into maintenance.
    pub failures: u32,
}

impl Default for PowerPolicy {
    fn default() -> Self {
        Self {
            force: true,
            failures: 3,
        }
    }
}

/// What a look at the BMC gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerSeen<'a> {
    /// `None` where the BMC does not know.
    Power(Option<Power>),
    Trouble(&'a str),
}

/// What follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PowerStep {
    /// All is as it should be.
    Agrees,
    /// The record was wrong, or there was none.
    Record(Power),
    /// The server is to be put as recorded.
    Drive(Power),
    /// One more failure; look again next time.
    Count,
    /// Too many: power unknown, maintenance with this reason, fault `power failure`.
    GiveUp { reason: String },
    /// The BMC is back: the fault and its maintenance are over.
    Recovered(Option<Power>),
}

/// When to look at the BMC next after a look; `None` while this node is not watched.
///
/// `busy` is whether somebody holds the node or a change of power is under way.
pub fn power_watch(view: &View, busy: bool, timers: &Timers) -> Option<Duration> {
    if busy || view.operation.doing.is_some() {
        return None;
    }
    if view.maintenance {
        // What a person put into maintenance, a person takes out.
        return (view.fault == Some(Fault::Power)).then_some(timers.power_recovery);
    }
    view.state.syncs_power().then_some(timers.power_sync)
}

/// What to do about what was seen, after `failures` looks in a row that failed.
pub fn power_step(
    view: &View,
    seen: PowerSeen<'_>,
    failures: u32,
    policy: PowerPolicy,
) -> PowerStep {
    let given_up = view.maintenance && view.fault == Some(Fault::Power);
    match (seen, view.power) {
        (PowerSeen::Trouble(_), _) if given_up => PowerStep::Count,
        (PowerSeen::Trouble(trouble), _) if failures + 1 >= policy.failures => PowerStep::GiveUp {
            reason: format!(
                "the BMC failed {} times in a row to tell the power state; the last time: {trouble}",
                failures + 1
            ),
        },
        (PowerSeen::Trouble(_), _) => PowerStep::Count,
        (PowerSeen::Power(power), _) if given_up => PowerStep::Recovered(power),
        (PowerSeen::Power(None), _) => PowerStep::Agrees,
        (PowerSeen::Power(Some(seen)), Some(kept)) if seen == kept => PowerStep::Agrees,
        // A failed node is left as it is for people to look at.
        (PowerSeen::Power(Some(_)), Some(kept))
            if policy.force && view.state.kind() == Kind::Stable =>
        {
            PowerStep::Drive(kept)
        }
        (PowerSeen::Power(Some(seen)), _) => PowerStep::Record(seen),
    }
}
