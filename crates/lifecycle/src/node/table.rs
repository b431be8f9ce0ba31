//! The state machine as data: what a verb starts, and where an event leads.
//!
//! Verbs come from clients; events come from the service itself. Ironic keeps both in one table; here they are two,
//! so that a client's `manage` cannot end a cleaning, nor its `clean` a tear-down.

use std::fmt;

use super::{State, Verb};

/// Something the service noticed or finished.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// The work of this state is finished.
    Done,
    /// It cannot be finished.
    Fail,
    /// Nothing to do until the host calls.
    Wait,
    /// The host called and there is work again.
    Resume,
    /// A step asked to be held here.
    Hold,
    /// Cleaning that ends manageable: by hand, or of a retired node.
    Manage,
    /// Tear-down is over, cleaning follows.
    Clean,
}

impl Event {
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::Fail,
        Self::Wait,
        Self::Resume,
        Self::Hold,
        Self::Manage,
        Self::Clean,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Fail => "fail",
            Self::Wait => "wait",
            Self::Resume => "resume",
            Self::Hold => "hold",
            Self::Manage => "manage",
            Self::Clean => "clean",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Verbs by state. A pair that is not here is refused.
pub const VERBS: &[(State, Verb, State)] = &[
    (State::Enroll, Verb::Manage, State::Verifying),
    (State::Manageable, Verb::Provide, State::Cleaning),
    (State::Manageable, Verb::Clean, State::Cleaning),
    (State::Manageable, Verb::Inspect, State::Inspecting),
    (State::Manageable, Verb::Adopt, State::Adopting),
    (State::Available, Verb::Active, State::Deploying),
    (State::Available, Verb::Manage, State::Manageable),
    (State::InspectWait, Verb::Abort, State::InspectFailed),
    (State::InspectFailed, Verb::Inspect, State::Inspecting),
    (State::InspectFailed, Verb::Manage, State::Manageable),
    (State::CleanWait, Verb::Abort, State::CleanFailed),
    (State::CleanHold, Verb::Unhold, State::CleanWait),
    (State::CleanHold, Verb::Abort, State::CleanFailed),
    (State::CleanFailed, Verb::Manage, State::Manageable),
    (State::WaitCallBack, Verb::Abort, State::DeployFailed),
    (State::WaitCallBack, Verb::Deleted, State::Deleting),
    (State::DeployHold, Verb::Unhold, State::WaitCallBack),
    (State::DeployHold, Verb::Abort, State::DeployFailed),
    (State::DeployFailed, Verb::Active, State::Deploying),
    (State::DeployFailed, Verb::Rebuild, State::Deploying),
    (State::DeployFailed, Verb::Deleted, State::Deleting),
    (State::Active, Verb::Rebuild, State::Deploying),
    (State::Active, Verb::Deleted, State::Deleting),
    (State::Active, Verb::Rescue, State::Rescuing),
    (State::Active, Verb::Service, State::Servicing),
    (State::Error, Verb::Rebuild, State::Deploying),
    (State::Error, Verb::Deleted, State::Deleting),
    (State::AdoptFailed, Verb::Adopt, State::Adopting),
    (State::AdoptFailed, Verb::Manage, State::Manageable),
    (State::RescueWait, Verb::Abort, State::RescueFailed),
    (State::RescueWait, Verb::Deleted, State::Deleting),
    (State::RescueFailed, Verb::Rescue, State::Rescuing),
    (State::RescueFailed, Verb::Unrescue, State::Unrescuing),
    (State::RescueFailed, Verb::Deleted, State::Deleting),
    (State::Rescue, Verb::Rescue, State::Rescuing),
    (State::Rescue, Verb::Unrescue, State::Unrescuing),
    (State::Rescue, Verb::Deleted, State::Deleting),
    (State::UnrescueFailed, Verb::Rescue, State::Rescuing),
    (State::UnrescueFailed, Verb::Unrescue, State::Unrescuing),
    (State::UnrescueFailed, Verb::Deleted, State::Deleting),
    (State::ServiceWait, Verb::Abort, State::ServiceFailed),
    (State::ServiceWait, Verb::Deleted, State::Deleting),
    (State::ServiceHold, Verb::Service, State::Servicing),
    (State::ServiceHold, Verb::Unhold, State::ServiceWait),
    (State::ServiceHold, Verb::Abort, State::ServiceFailed),
    (State::ServiceFailed, Verb::Service, State::Servicing),
    (State::ServiceFailed, Verb::Rescue, State::Rescuing),
    (State::ServiceFailed, Verb::Deleted, State::Deleting),
    (State::ServiceFailed, Verb::Abort, State::Active),
];

/// Events by state. A pair that is not here cannot happen.
pub const EVENTS: &[(State, Event, State)] = &[
    (State::Verifying, Event::Done, State::Manageable),
    (State::Verifying, Event::Fail, State::Enroll),
    (State::Inspecting, Event::Done, State::Manageable),
    (State::Inspecting, Event::Fail, State::InspectFailed),
    (State::Inspecting, Event::Wait, State::InspectWait),
    (State::InspectWait, Event::Done, State::Manageable),
    (State::InspectWait, Event::Fail, State::InspectFailed),
    (State::InspectWait, Event::Resume, State::Inspecting),
    (State::Cleaning, Event::Done, State::Available),
    (State::Cleaning, Event::Manage, State::Manageable),
    (State::Cleaning, Event::Fail, State::CleanFailed),
    (State::Cleaning, Event::Wait, State::CleanWait),
    (State::Cleaning, Event::Hold, State::CleanHold),
    (State::CleanWait, Event::Resume, State::Cleaning),
    (State::CleanWait, Event::Fail, State::CleanFailed),
    (State::CleanWait, Event::Hold, State::CleanHold),
    (State::Deploying, Event::Done, State::Active),
    (State::Deploying, Event::Fail, State::DeployFailed),
    (State::Deploying, Event::Wait, State::WaitCallBack),
    (State::Deploying, Event::Hold, State::DeployHold),
    (State::WaitCallBack, Event::Resume, State::Deploying),
    (State::WaitCallBack, Event::Fail, State::DeployFailed),
    (State::WaitCallBack, Event::Hold, State::DeployHold),
    (State::Deleting, Event::Clean, State::Cleaning),
    (State::Deleting, Event::Fail, State::Error),
    (State::Adopting, Event::Done, State::Active),
    (State::Adopting, Event::Fail, State::AdoptFailed),
    (State::Rescuing, Event::Done, State::Rescue),
    (State::Rescuing, Event::Wait, State::RescueWait),
    (State::Rescuing, Event::Fail, State::RescueFailed),
    (State::RescueWait, Event::Resume, State::Rescuing),
    (State::RescueWait, Event::Fail, State::RescueFailed),
    (State::Unrescuing, Event::Done, State::Active),
    (State::Unrescuing, Event::Fail, State::UnrescueFailed),
    (State::Servicing, Event::Done, State::Active),
    (State::Servicing, Event::Wait, State::ServiceWait),
    (State::Servicing, Event::Fail, State::ServiceFailed),
    (State::Servicing, Event::Hold, State::ServiceHold),
    (State::ServiceWait, Event::Resume, State::Servicing),
    (State::ServiceWait, Event::Fail, State::ServiceFailed),
    (State::ServiceWait, Event::Hold, State::ServiceHold),
    (State::ServiceHold, Event::Fail, State::ServiceFailed),
    (State::ServiceFailed, Event::Wait, State::ServiceWait),
    (State::ServiceFailed, Event::Hold, State::ServiceHold),
];

/// A verb the node's state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the verb {verb:?} is not possible in state {state:?}; possible there: {}", list(allowed), verb = verb.as_str(), state = state.as_str())]
pub struct Refused {
    pub verb: Verb,
    pub state: State,
    pub allowed: Vec<Verb>,
}

/// The state a verb leads to.
pub fn on_verb(state: State, verb: Verb) -> Result<State, Refused> {
    let wanted = verb.canonical();
    VERBS
        .iter()
        .find(|(from, on, _)| *from == state && *on == wanted)
        .map(|(_, _, to)| *to)
        .ok_or_else(|| Refused {
            verb,
            state,
            allowed: allowed(state),
        })
}

/// The state an event leads to, if it can happen in this one.
pub fn on_event(state: State, event: Event) -> Option<State> {
    EVENTS
        .iter()
        .find(|(from, on, _)| *from == state && *on == event)
        .map(|(_, _, to)| *to)
}

/// The verbs possible in a state, in their older spellings.
pub fn allowed(state: State) -> Vec<Verb> {
    VERBS
        .iter()
        .filter(|(from, _, _)| *from == state)
        .map(|(_, verb, _)| *verb)
        .collect()
}

fn list(verbs: &[Verb]) -> String {
    if verbs.is_empty() {
        return "none until it leaves this state by itself".to_string();
    }
    verbs
        .iter()
        .map(|verb| verb.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}
