//! The next step for a node. Asking twice gives the same answer.

use std::time::Duration;

use jiff::Timestamp;

use super::script::{Stage, script};
use super::{AgentSource, Event, Kind, Problem, State, Timers, View, Work};

/// What the shell is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Do this and report with [`View::record`].
    Do(Work),
    /// Come back when something happens, or at `until`.
    Wait { reason: Waiting, until: Timestamp },
    /// Nothing, until a client asks for something.
    Done,
    /// Report with [`View::fail`]: the operation cannot be finished.
    Fail { problem: Problem },
}

/// What a node is waiting for, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting(pub String);

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

pub fn next(view: &View, timers: &Timers, now: Timestamp) -> Step {
    match view.state.kind() {
        Kind::Stable | Kind::Held => Step::Done,
        Kind::Working => working(view, timers, now),
        Kind::Failed => recovering(view),
        Kind::Waiting => waiting(view, timers, now),
    }
}

fn working(view: &View, timers: &Timers, now: Timestamp) -> Step {
    let op = &view.operation;
    if let Some(step) = stopped(view, timers, now) {
        return step;
    }
    let stages = script(op);
    let Some(stage) = stages.get(op.at) else {
        // A view made by hand may say anything; what the scripts make always ends in `Finish`.
        return Step::Fail {
            problem: Problem::Interrupted {
                work: format!("the state {}", view.state),
            },
        };
    };
    match stage {
        Stage::Do(work) => Step::Do(work.clone()),
        Stage::AwaitAgent | Stage::AwaitInventory => Step::Do(Work::Move(Event::Wait)),
        Stage::AgentStep(step) => match op.begun {
            None if step.step == "write_image" => Step::Do(Work::WriteImage(step.clone())),
            None => Step::Do(Work::StartStep(step.clone())),
            Some(_) => Step::Do(Work::Move(Event::Wait)),
        },
        Stage::OwnStep(step) => match op.begun {
            None => Step::Do(Work::RunStep(step.clone())),
            Some(begun) if past(begun.at, timers.step) <= now => Step::Fail {
                problem: Problem::StepTime {
                    step: step.to_string(),
                    limit: timers.step,
                },
            },
            Some(_) => Step::Do(Work::CheckStep(step.clone())),
        },
        Stage::Hold => Step::Do(Work::Move(Event::Hold)),
        Stage::Pause { seconds } => {
            let until = past(op.stage_since, Duration::from_secs(u64::from(*seconds)));
            if now < until {
                wait("a pause between steps", until)
            } else {
                Step::Do(Work::Advance)
            }
        }
        Stage::Finish(event) => Step::Do(Work::Move(*event)),
    }
}

fn recovering(view: &View) -> Step {
    // There is only work in these scripts: nothing is waited for after a failure.
    if let Some(Stage::Do(work)) = script(&view.operation).get(view.operation.at) {
        return Step::Do(work.clone());
    }
    Step::Done
}

fn waiting(view: &View, timers: &Timers, now: Timestamp) -> Step {
    let op = &view.operation;
    if let Some(step) = stopped(view, timers, now) {
        return step;
    }
    let deadline = deadline(view, timers);
    let stages = script(op);
    let stage = stages.get(op.at);
    let late = deadline <= now;
    if view.maintenance {
        return if late {
            Step::Fail {
                problem: timeout(view, stage, now),
            }
        } else {
            wait(
                "maintenance to end: until then the agent's calls are not acted upon",
                deadline,
            )
        };
    }
    match stage {
        Some(Stage::AwaitAgent) if view.agent.is_some() => Step::Do(Work::Move(Event::Resume)),
        Some(Stage::AwaitInventory) if view.inventory_at.is_some_and(|at| at >= op.started) => {
            Step::Do(Work::Move(Event::Resume))
        }
        Some(Stage::AgentStep(step)) if op.begun.is_some() => {
            let heard = op.begun.and_then(|begun| begun.heard);
            let over = op.begun.is_some_and(|begun| begun.over);
            let agent = view.agent.as_ref().map(|agent| agent.last_heartbeat);
            if over || agent > heard {
                Step::Do(Work::CheckStep(step.clone()))
            } else if late {
                Step::Fail {
                    problem: timeout(view, stage, now),
                }
            } else {
                wait(&format!("step {step} on the agent"), deadline)
            }
        }
        Some(Stage::AwaitAgent | Stage::AwaitInventory) if late => Step::Fail {
            problem: timeout(view, stage, now),
        },
        Some(Stage::AwaitAgent | Stage::AwaitInventory) => await_boot(view, timers, now, deadline),
        Some(
            Stage::Do(_)
            | Stage::AgentStep(_)
            | Stage::OwnStep(_)
            | Stage::Hold
            | Stage::Pause { .. }
            | Stage::Finish(_),
        )
        | None => Step::Do(Work::Move(Event::Resume)),
    }
}

/// A host that was booted and is not heard is booted again, a few times, before the wait runs out.
fn await_boot(view: &View, timers: &Timers, now: Timestamp, deadline: Timestamp) -> Step {
    let op = &view.operation;
    let trace = view.boot_trace.as_deref().unwrap_or("no sign of it yet");
    let reason = format!("the agent to call ({trace})");
    let again = !timers.boot_retry.is_zero() && op.boots <= timers.boot_retries;
    match op.booted_at {
        Some(booted) if again => {
            let retry = past(booted, timers.boot_retry);
            if retry <= now {
                Step::Do(Work::BootAgain { attempt: op.boots })
            } else {
                wait(&reason, retry.min(deadline))
            }
        }
        None if op.agent == AgentSource::Due => {
            let due = past(op.stage_since, FIRST_CALL).min(deadline);
            if due <= now {
                Step::Do(Work::Move(Event::Resume))
            } else {
                wait(&reason, due)
            }
        }
        Some(_) | None => wait(&reason, deadline),
    }
}

/// An agent that has reported calls within seconds; after this time one is booted.
const FIRST_CALL: Duration = Duration::from_secs(30);

/// What holds in every state with an operation: a failure is reported, a pause after a failed try is kept.
fn stopped(view: &View, timers: &Timers, now: Timestamp) -> Option<Step> {
    let op = &view.operation;
    if let Some(problem) = &op.failed {
        return Some(Step::Fail {
            problem: problem.clone(),
        });
    }
    let until = op.retry_at.filter(|at| now < *at)?;
    let trouble = op
        .trouble
        .as_deref()
        .unwrap_or("something that goes on in the background");
    let reason = if op.tries > 0 {
        format!("try {} of {} after: {trouble}", op.tries + 1, timers.tries)
    } else {
        trouble.to_string()
    };
    Some(wait(&reason, until))
}

/// When a waiting node gives up.
fn deadline(view: &View, timers: &Timers) -> Timestamp {
    let from = if view.state == State::InspectWait {
        view.operation.started
    } else {
        view.since
    };
    let until = past(from, timers.callback(view.state));
    view.operation
        .grace_until
        .map_or(until, |grace| grace.max(until))
}

fn timeout(view: &View, stage: Option<&Stage>, now: Timestamp) -> Problem {
    let from = if view.state == State::InspectWait {
        view.operation.started
    } else {
        view.since
    };
    let waited = now.duration_since(from).try_into().unwrap_or_default();
    match stage {
        Some(Stage::AgentStep(step)) => Problem::Silent {
            state: view.state,
            waited,
            step: Some(step.to_string()),
            trace: view.boot_trace.clone(),
        },
        Some(Stage::AwaitInventory | Stage::AwaitAgent) if view.agent.is_none() => {
            Problem::NeverCalled {
                state: view.state,
                waited,
                trace: view.boot_trace.clone(),
            }
        }
        Some(_) | None => Problem::Silent {
            state: view.state,
            waited,
            step: None,
            trace: view.boot_trace.clone(),
        },
    }
}

fn wait(reason: &str, until: Timestamp) -> Step {
    Step::Wait {
        reason: Waiting(reason.to_string()),
        until,
    }
}

/// `from + by`, at most the end of time.
pub(super) fn past(from: Timestamp, by: Duration) -> Timestamp {
    from.checked_add(by).unwrap_or(Timestamp::MAX)
}
