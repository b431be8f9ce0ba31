//! The stages of each operation, in order.
//!
//! A script depends only on what was fixed when the operation began and on the steps once they are known, so a
//! position in it stays true across restarts. Steps come after all that does not depend on them.

use super::Event;
use super::steps::{Runner, StepSpec};
use super::view::{AgentSource, DeployBy, InspectBy, Operation, Task};
use super::work::{BootDevice, BootInto, StepKind, Work};

#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    Do(Work),
    /// Until the agent's first call after a boot.
    AwaitAgent,
    /// Until the agent sent what it found.
    AwaitInventory,
    /// Started on the agent, then asked after at each of its calls.
    AgentStep(StepSpec),
    /// Run through the BMC, asked after while it goes on.
    OwnStep(StepSpec),
    /// Until a client says `unhold`.
    Hold,
    Pause {
        seconds: u32,
    },
    Finish(Event),
}

/// All stages of an operation as far as they are known.
pub fn script(op: &Operation) -> Vec<Stage> {
    match op.task {
        Task::Rest => Vec::new(),
        Task::Verify => works(
            [
                Work::Validate(op.task),
                Work::ReadPower,
                Work::RunVerifySteps,
                Work::ReadFacts,
            ],
            Event::Done,
        ),
        Task::Inspect => inspect(op),
        Task::Clean => clean(
            op,
            if op.settings.retired {
                Event::Manage
            } else {
                Event::Done
            },
        ),
        Task::CleanManual => clean(op, Event::Manage),
        Task::Deploy => deploy(op),
        Task::Delete => delete(op),
        Task::Adopt => works([Work::Validate(op.task), Work::ReadPower], Event::Done),
        Task::Rescue => rescue(op),
        Task::Unrescue => unrescue(op),
        Task::Service => service(op),
        Task::Recover => recover(op),
    }
}

fn inspect(op: &Operation) -> Vec<Stage> {
    match op.drivers.inspect {
        InspectBy::Agent => {
            let mut stages = boot(op, BootInto::Inspection);
            stages.push(Stage::AwaitInventory);
            stages.push(Stage::Do(Work::RecordInventory));
            stages.extend(leave_agent(op));
            stages.push(Stage::Finish(Event::Done));
            stages
        }
        InspectBy::OutOfBand => works([Work::StartInspection], Event::Done),
        InspectBy::Fake => works([Work::Simulate(op.task)], Event::Done),
    }
}

fn clean(op: &Operation, end: Event) -> Vec<Stage> {
    let mut stages = agent_up(op);
    match (op.agent, op.task) {
        (AgentSource::Fresh | AgentSource::Running | AgentSource::Due, Task::CleanManual) => {
            stages.push(Stage::Do(Work::FetchSteps(StepKind::CleanManual)));
        }
        (AgentSource::Fresh | AgentSource::Running | AgentSource::Due, _) => {
            stages.push(Stage::Do(Work::FetchSteps(StepKind::Clean)));
        }
        (AgentSource::NotNeeded, _) if op.drivers.deploy == DeployBy::Fake => {
            stages.push(Stage::Do(Work::Simulate(op.task)));
        }
        (AgentSource::NotNeeded, _) => {}
    }
    stages.extend(steps(op));
    if op.agent != AgentSource::NotNeeded {
        stages.extend(leave_agent(op));
    }
    stages.push(Stage::Finish(end));
    stages
}

fn deploy(op: &Operation) -> Vec<Stage> {
    let by = op.drivers.boot;
    let mut stages = vec![Stage::Do(Work::Validate(op.task))];
    match op.drivers.deploy {
        DeployBy::Fake => stages.push(Stage::Do(Work::Simulate(op.task))),
        DeployBy::Ramdisk => {
            stages.extend(off(op));
            stages.push(Stage::Do(Work::PrepareBoot {
                into: BootInto::BootIso,
                by,
            }));
            stages.push(Stage::Do(Work::SetBootDevice {
                device: by.device(),
                persistent: true,
            }));
            stages.push(Stage::Do(on(op)));
        }
        DeployBy::Direct | DeployBy::CustomAgent => {
            if op.drivers.deploy == DeployBy::Direct {
                stages.push(Stage::Do(Work::CacheImage));
            }
            stages.extend(agent_up(op));
            stages.push(Stage::Do(Work::FetchSteps(StepKind::Deploy)));
            stages.extend(steps(op));
        }
    }
    stages.push(Stage::Finish(Event::Done));
    stages
}

fn delete(op: &Operation) -> Vec<Stage> {
    let mut stages = if op.drivers.deploy == DeployBy::Fake {
        vec![Stage::Do(Work::Simulate(op.task))]
    } else {
        put_away(op)
    };
    stages.push(Stage::Do(Work::ForgetAgent));
    stages.push(Stage::Do(Work::Unbind));
    stages.push(Stage::Finish(Event::Clean));
    stages
}

fn rescue(op: &Operation) -> Vec<Stage> {
    if op.drivers.deploy == DeployBy::Fake {
        return works([Work::Simulate(op.task)], Event::Done);
    }
    let mut stages = agent_up(op);
    stages.push(Stage::Do(Work::FinalizeRescue));
    stages.push(Stage::Finish(Event::Done));
    stages
}

fn unrescue(op: &Operation) -> Vec<Stage> {
    if op.drivers.deploy == DeployBy::Fake {
        return works([Work::Simulate(op.task)], Event::Done);
    }
    let mut stages = back_to_disk(op);
    stages.push(Stage::Finish(Event::Done));
    stages
}

fn service(op: &Operation) -> Vec<Stage> {
    let mut stages = agent_up(op);
    if op.agent != AgentSource::NotNeeded {
        stages.push(Stage::Do(Work::FetchSteps(StepKind::Service)));
    }
    stages.extend(steps(op));
    if op.agent != AgentSource::NotNeeded {
        stages.extend(back_to_disk(op));
    }
    stages.push(Stage::Finish(Event::Done));
    stages
}

/// What is put away after a failure. Each of these is tried once, and the rest goes on without it.
fn recover(op: &Operation) -> Vec<Stage> {
    let Some(failed) = op.failed_task else {
        return Vec::new();
    };
    if op.drivers.deploy == DeployBy::Fake && op.drivers.inspect == InspectBy::Fake {
        return Vec::new();
    }
    let mut stages = Vec::new();
    match failed {
        Task::Deploy | Task::Rescue => {
            stages.push(Stage::Do(Work::CollectLogs));
            stages.extend(put_away(op));
        }
        Task::Inspect if op.drivers.inspect == InspectBy::Agent => stages.extend(put_away(op)),
        // An aborted cleaning ends at rest; one that broke stays on for a person to look at.
        Task::Clean | Task::CleanManual if op.aborted => stages.extend(put_away(op)),
        Task::Clean | Task::CleanManual | Task::Service => {
            stages.push(Stage::Do(Work::CollectLogs));
        }
        Task::Rest
        | Task::Verify
        | Task::Inspect
        | Task::Delete
        | Task::Adopt
        | Task::Unrescue
        | Task::Recover => {}
    }
    stages
}

fn works<const N: usize>(works: [Work; N], end: Event) -> Vec<Stage> {
    works
        .into_iter()
        .map(Stage::Do)
        .chain([Stage::Finish(end)])
        .collect()
}

/// The host running the agent: by a boot, or as it already is.
fn agent_up(op: &Operation) -> Vec<Stage> {
    match op.agent {
        AgentSource::NotNeeded | AgentSource::Running => Vec::new(),
        AgentSource::Due => vec![Stage::AwaitAgent],
        AgentSource::Fresh => {
            let mut stages = boot(op, BootInto::Ramdisk);
            stages.push(Stage::AwaitAgent);
            stages
        }
    }
}

fn boot(op: &Operation, into: BootInto) -> Vec<Stage> {
    let by = op.drivers.boot;
    let mut stages = vec![Stage::Do(Work::ForgetAgent)];
    stages.extend(off(op));
    stages.push(Stage::Do(Work::PrepareBoot { into, by }));
    stages.push(Stage::Do(Work::SetBootDevice {
        device: by.device(),
        persistent: false,
    }));
    stages.push(Stage::Do(on(op)));
    stages
}

/// With fast track the agent stays up for the next operation; otherwise the host goes off, and only then is its
/// medium taken away: BMCs take it badly under a running system.
fn leave_agent(op: &Operation) -> Vec<Stage> {
    if op.settings.fast_track {
        Vec::new()
    } else {
        put_away(op)
    }
}

fn put_away(op: &Operation) -> Vec<Stage> {
    let mut stages: Vec<Stage> = off(op).collect();
    stages.push(Stage::Do(Work::TearDownBoot {
        by: op.drivers.boot,
    }));
    stages
}

fn back_to_disk(op: &Operation) -> Vec<Stage> {
    let mut stages = put_away(op);
    stages.push(Stage::Do(Work::SetBootDevice {
        device: BootDevice::Disk,
        persistent: true,
    }));
    stages.push(Stage::Do(on(op)));
    stages
}

fn off(op: &Operation) -> impl Iterator<Item = Stage> + use<> {
    (!op.settings.disable_power_off)
        .then_some(Stage::Do(Work::PowerOff))
        .into_iter()
}

fn on(op: &Operation) -> Work {
    if op.settings.disable_power_off {
        Work::PowerCycle
    } else {
        Work::PowerOn
    }
}

fn steps(op: &Operation) -> Vec<Stage> {
    op.steps
        .iter()
        .flat_map(|step| stages_of(op, step))
        .collect()
}

fn stages_of(op: &Operation, step: &StepSpec) -> Vec<Stage> {
    match (op.task, step.step.as_str()) {
        (_, "hold") => return vec![Stage::Hold],
        (_, "wait") => return vec![pause(step)],
        (_, "power_on") => return vec![Stage::Do(Work::PowerOn)],
        (_, "power_off") => return off(op).collect(),
        (_, "reboot") => return reboot(op),
        (Task::Deploy, "prepare_instance_boot") => return vec![Stage::Do(Work::InstallBootloader)],
        (Task::Deploy, "tear_down_agent") if kexec(op) => {
            return vec![Stage::Do(Work::SetBootDevice {
                device: BootDevice::Disk,
                persistent: true,
            })];
        }
        // DEVIATION: Ironic ejects the medium while the agent still runs; here the host is off first.
        (Task::Deploy, "tear_down_agent") => {
            let mut stages = Vec::new();
            if !op.settings.disable_power_off {
                stages.push(Stage::Do(Work::StopAgent));
            }
            stages.push(Stage::Do(Work::TearDownBoot {
                by: op.drivers.boot,
            }));
            stages.push(Stage::Do(Work::SetBootDevice {
                device: BootDevice::Disk,
                persistent: true,
            }));
            stages.push(Stage::Do(Work::ForgetAgent));
            return stages;
        }
        // Networks are not ours to switch: the word is known and there is nothing to it.
        (Task::Deploy, "switch_to_tenant_network") => return Vec::new(),
        (Task::Deploy, "boot_instance") if kexec(op) => {
            let by = op.drivers.boot;
            return vec![
                Stage::Do(Work::StartInstalled),
                Stage::Do(Work::TearDownBoot { by }),
            ];
        }
        (Task::Deploy, "boot_instance") => return vec![Stage::Do(on(op))],
        (_, _) => {}
    }
    let mut stages = match step.by {
        Runner::Agent => vec![Stage::AgentStep(step.clone())],
        Runner::Service => vec![Stage::OwnStep(step.clone())],
    };
    if step.reboot_requested {
        stages.extend(reboot(op));
    }
    stages
}

/// A medium stays in the host until it is off, so that such a host goes through its firmware.
fn kexec(op: &Operation) -> bool {
    op.settings.kexec && op.drivers.boot.leaves_nothing()
}

/// A reboot in the midst of steps: back into the agent, where there is one.
fn reboot(op: &Operation) -> Vec<Stage> {
    match op.agent {
        AgentSource::NotNeeded => vec![Stage::Do(Work::PowerCycle)],
        AgentSource::Fresh | AgentSource::Running | AgentSource::Due => agent_up(&Operation {
            agent: AgentSource::Fresh,
            ..op.clone()
        }),
    }
}

/// Ironic's limit of 30 seconds keeps a list from parking a node for good.
fn pause(step: &StepSpec) -> Stage {
    let seconds = step
        .args
        .get("seconds")
        .and_then(serde_json::Value::as_u64)
        .unwrap_or(0);
    Stage::Pause {
        seconds: seconds.min(30) as u32,
    }
}
