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
    /// A BMC that fails this often in a row, to tell the power or to change it, puts its node into maintenance.
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

/// What went wrong before, since the BMC last agreed with the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PowerTries {
    /// Looks in a row that failed.
    pub failures: u32,
    /// How often the server was told to be as recorded, and was seen otherwise afterwards.
    pub drives: u32,
}

impl PowerTries {
    /// What is to be kept in mind after a step.
    #[must_use]
    pub fn after(self, step: &PowerStep) -> Self {
        match step {
            PowerStep::Count => Self {
                failures: self.failures + 1,
                ..self
            },
            PowerStep::Drive(_) => Self {
                failures: 0,
                drives: self.drives + 1,
            },
            PowerStep::Agrees
            | PowerStep::Record(_)
            | PowerStep::GiveUp { .. }
            | PowerStep::Recovered(_) => Self::default(),
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
    /// Too many: the power is what the BMC says, if it says anything; maintenance with this reason, fault
    /// `power failure`.
    GiveUp {
        power: Option<Power>,
        reason: String,
    },
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

/// What to do about what was seen, after what was tried already.
pub fn power_step(
    view: &View,
    seen: PowerSeen<'_>,
    tries: PowerTries,
    policy: PowerPolicy,
) -> PowerStep {
    let given_up = view.maintenance && view.fault == Some(Fault::Power);
    match (seen, view.power) {
        (PowerSeen::Trouble(_), _) if given_up => PowerStep::Count,
        (PowerSeen::Trouble(trouble), _) if tries.failures + 1 >= policy.failures => {
            let reason = format!(
                "the BMC failed {} times in a row to tell the power state; the last time: {trouble}",
                tries.failures + 1
            );
            PowerStep::GiveUp {
                power: None,
                reason,
            }
        }
        (PowerSeen::Trouble(_), _) => PowerStep::Count,
        (PowerSeen::Power(power), _) if given_up => PowerStep::Recovered(power),
        (PowerSeen::Power(None), _) => PowerStep::Agrees,
        (PowerSeen::Power(Some(seen)), Some(kept)) if seen == kept => PowerStep::Agrees,
        // A failed node is left as it is for people to look at.
        (PowerSeen::Power(Some(seen)), Some(kept))
            if policy.force && view.state.kind() == Kind::Stable =>
        {
            drive(seen, kept, tries, policy)
        }
        (PowerSeen::Power(Some(seen)), _) => PowerStep::Record(seen),
    }
}

/// A server that does not become what it is told, or a BMC that lies about it, is not told for ever.
fn drive(seen: Power, kept: Power, tries: PowerTries, policy: PowerPolicy) -> PowerStep {
    if tries.drives < policy.failures {
        return PowerStep::Drive(kept);
    }
    let reason = format!(
        "the server is to be powered {} and was told so {} times; its BMC still says that it is {}. Its power is now \
         recorded as the BMC says",
        word(kept),
        tries.drives,
        word(seen)
    );
    PowerStep::GiveUp {
        power: Some(seen),
        reason,
    }
}

fn word(power: Power) -> &'static str {
    match power {
        Power::On => "on",
        Power::Off => "off",
    }
}
