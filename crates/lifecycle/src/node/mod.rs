//! The life of one node of the provisioning service: Ironic's state machine as data, and what to do next.
//!
//! ```text
//!   client's verb ──▶ View::ask ──┐                           ┌──▶ Do(work): the shell does it,
//!   agent's call ──▶ View::heard ─┼──▶ View ──▶ next(view) ───┤      then View::record(outcome)
//!   restart ──▶ View::restarted ──┘    ▲                      ├──▶ Wait until a call or a time
//!                                      └── record, fail ◀─────┴──▶ Fail(problem) / Done
//! ```
//!
//! A [`View`] is all there is to know and is kept durably; the shell owns no progress of its own. Each piece of
//! [`Work`] is safe to do again, except the few that [`Work::repeatable`] names: the shell notes those with
//! [`View::starting`] first, so that a restart in their midst is a reasoned failure instead of a second try.
//!
//! `state`, `verb` and `table` are the machine; `rules` is what states permit; `script` lists the stages of each
//! operation; `next` reads them; `record` writes down what came of it in the `view`.
//! `power_sync` is for nodes at rest.

pub mod diagram;
mod next;
mod power_sync;
mod problem;
mod record;
mod rules;
mod script;
mod state;
mod steps;
mod table;
#[cfg(test)]
mod tests;
mod timers;
mod verb;
mod view;
mod work;

pub use next::{Step, Waiting, next};
pub use power_sync::{PowerPolicy, PowerSeen, PowerStep, PowerTries, power_step, power_watch};
pub use problem::Problem;
pub use rules::{AfterRestart, Heartbeat};
pub use state::{Kind, ParseStateError, State};
pub use steps::{Interface, Runner, StepSpec, core_deploy_steps, plan_steps};
pub use table::{EVENTS, Event, Refused, VERBS, allowed, on_event, on_verb};
pub use timers::Timers;
pub use verb::{ParseVerbError, Verb};
pub use view::{
    Agent, AgentSource, BootBy, DeployBy, Drivers, Fault, Impossible, InspectBy, Operation, Power,
    Request, Settings, Task, View,
};
pub use work::{BootDevice, BootInto, Outcome, StepKind, Work};
