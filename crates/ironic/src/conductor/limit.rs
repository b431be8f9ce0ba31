//! How long a piece of work may take, whoever it is that does not answer.
//!
//! Everything that is asked of a BMC or an agent has a limit of its own, and says more when it is reached. These are
//! longer than all of those together: nothing holds a node for ever.

use std::time::Duration;

use lifecycle::node::{Timers, Work};

/// Several calls to an agent, each tried again.
const AGENT: Duration = Duration::from_mins(15);
/// Several calls to a BMC, each tried again.
const BMC: Duration = Duration::from_mins(10);
/// A BMC's task, such as inserting a medium.
const BMC_TASK: Duration = Duration::from_mins(40);

pub fn limit(work: &Work, timers: &Timers) -> Duration {
    match work {
        Work::ReadPower | Work::PowerOff | Work::PowerOn => BMC + timers.power_change,
        Work::PowerCycle | Work::BootAgain { .. } => BMC_TASK + 2 * timers.power_change,
        Work::SetBootDevice { .. }
        | Work::PrepareBoot { .. }
        | Work::TearDownBoot { .. }
        | Work::RunVerifySteps
        | Work::ReadFacts
        | Work::StartInspection
        // Asked of a BMC or of an agent; either is over before this.
        | Work::CheckStep(_) => BMC_TASK,
        Work::FetchSteps(_)
        | Work::StartStep(_)
        | Work::WriteImage(_)
        | Work::InstallBootloader
        | Work::FinalizeRescue
        | Work::CollectLogs => AGENT,
        Work::StopAgent => AGENT + BMC + timers.power_change,
        Work::StartInstalled => 2 * AGENT + BMC_TASK + 2 * timers.power_change,
        // An image may have a long way; a step of ours is hardware at work.
        Work::CacheImage | Work::RunStep(_) | Work::Simulate(_) => timers.step + BMC_TASK,
        Work::Validate(_)
        | Work::ForgetAgent
        | Work::RecordInventory
        | Work::Unbind
        | Work::Move(_)
        | Work::Advance => BMC,
    }
}
