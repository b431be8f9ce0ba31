//! Why an operation failed: what becomes `last_error`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::State;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Problem {
    #[error("{work} failed {tries} times; the last time: {trouble}")]
    Work {
        work: String,
        tries: u32,
        trouble: String,
    },
    #[error("step {step} failed: {trouble}")]
    Step { step: String, trouble: String },
    #[error("step {step} did not end within {} s", limit.as_secs())]
    StepTime { step: String, limit: Duration },
    #[error("the steps {} are not known to the node; it knows {}", unknown.join(", "), known.join(", "))]
    UnknownSteps {
        unknown: Vec<String>,
        known: Vec<String>,
    },
    #[error("timeout in state {:?}: the host was not heard of for {} s{}", state.as_str(), waited.as_secs(), after(trace.as_ref()))]
    NeverCalled {
        state: State,
        waited: Duration,
        trace: Option<String>,
    },
    #[error("timeout in state {:?}: the agent has been silent for {} s{}{}", state.as_str(), waited.as_secs(), during(step.as_ref()), last(trace.as_ref()))]
    Silent {
        state: State,
        waited: Duration,
        step: Option<String>,
        /// What was last seen of it.
        #[serde(default)]
        trace: Option<String>,
    },
    #[error("the host lost its power{}{}", during(step.as_ref()), last(trace.as_ref()))]
    PowerLost {
        step: Option<String>,
        trace: Option<String>,
    },
    #[error("aborted by request in state {:?}{}", state.as_str(), during(step.as_ref()))]
    Aborted { state: State, step: Option<String> },
    #[error("the service restarted during {work}, which may not be done twice")]
    Interrupted { work: String },
}

/// How far a host that never called was seen to come.
fn after(trace: Option<&String>) -> String {
    trace.map_or_else(
        || "; no network boot of it was seen".to_string(),
        |trace| format!("; last seen: {trace}"),
    )
}

fn last(trace: Option<&String>) -> String {
    trace.map_or_else(String::new, |trace| format!("; last seen: {trace}"))
}

fn during(step: Option<&String>) -> String {
    step.map_or_else(String::new, |step| format!(" during step {step}"))
}
