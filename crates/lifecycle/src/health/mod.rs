//! MachineHealthChecks: which Machines are unwell, whether something may be done, and the power cycle that is done.
//!
//! `check` judges the Machines of one check and says what to ask for; `remediate` carries out a power cycle that was
//! asked for, one step at a time: off, its Node gone, on again. The Node goes only once the host is off, so that no
//! workload ever runs twice.

mod check;
mod remediate;
#[cfg(test)]
mod tests;

pub use check::{
    Action, Check, EXTERNAL_REMEDIATION, MaxUnhealthy, NodeState, Status, Step, Target,
    UnhealthyCondition, next,
};
pub use remediate::{
    Backup, POWER_OFF_REQUEST, POWER_ON_TIMES_OUT, POWERED_OFF, Patient, RemediationAction,
    RemediationStep, remediate,
};
