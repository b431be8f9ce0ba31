//! One MachineHealthCheck.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::machine::Phase;

/// On a Machine: its host is to be power cycled.
pub const EXTERNAL_REMEDIATION: &str = "host.metal3.io/external-remediation";

#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    pub name: String,
    /// Annotated `cluster.x-k8s.io/paused`.
    pub paused: bool,
    pub unhealthy_conditions: Vec<UnhealthyCondition>,
    pub max_unhealthy: MaxUnhealthy,
    /// None: for ever.
    pub node_startup_timeout: Option<Duration>,
    /// Annotated `machine.openshift.io/remediation-strategy: external-baremetal`: power cycle first.
    pub power_cycle: bool,
    pub status: Status,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnhealthyCondition {
    pub kind: String,
    pub status: String,
    pub timeout: Duration,
}

/// `spec.maxUnhealthy`: more than this many, and nothing is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxUnhealthy {
    Count(u32),
    Percent(u32),
}

impl Default for MaxUnhealthy {
    fn default() -> Self {
        Self::Percent(100)
    }
}

impl MaxUnhealthy {
    /// A number, or a number and a percent sign.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse().ok().map(Self::Percent),
            None => text.parse().ok().map(Self::Count),
        }
    }

    /// Of so many Machines; part of a Machine does not count.
    pub fn of(self, machines: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => machines.saturating_mul(percent as usize) / 100,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub expected_machines: u32,
    pub current_healthy: u32,
    pub remediations_allowed: u32,
    /// The RemediationAllowed condition: why not, where it is not.
    #[serde(skip)]
    pub restricted: Option<String>,
}

/// A Machine the check selects.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub machine: String,
    pub deleting: bool,
    pub phase: Option<Phase>,
    /// `status.lastUpdated`
    pub last_updated: Option<Timestamp>,
    pub node: NodeState,
    /// It is made anew by whoever controls it.
    pub has_controller: bool,
    /// It carries [`EXTERNAL_REMEDIATION`].
    pub in_remediation: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum NodeState {
    /// It has none yet.
    None,
    /// It had one.
    Gone,
    /// Its conditions: type, status, since.
    Present(Vec<(String, String, Timestamp)>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Do(Vec<Action>),
    Wait { reason: String, until: Timestamp },
    Done,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Save(Box<Status>),
    /// Annotate the Machine with [`EXTERNAL_REMEDIATION`].
    PowerCycle {
        machine: String,
    },
    DeleteMachine {
        machine: String,
        reason: String,
    },
    /// An Event: why nothing is done.
    Tell {
        reason: &'static str,
        note: String,
    },
}

/// How a Machine is.
#[derive(Debug, PartialEq)]
enum Judgement {
    Well,
    /// It will be unwell then, if nothing changes.
    Doubtful(Timestamp),
    Unwell(String),
}

pub fn next(check: &Check, targets: &[Target], now: Timestamp) -> Step {
    if check.paused {
        return Step::Done;
    }
    let judged: Vec<(&Target, Judgement)> = targets
        .iter()
        .map(|target| (target, judge(check, target, now)))
        .collect();
    let unwell: Vec<(&Target, &String)> = judged
        .iter()
        .filter_map(|(target, judgement)| match judgement {
            Judgement::Unwell(why) => Some((*target, why)),
            Judgement::Well | Judgement::Doubtful(_) => None,
        })
        .collect();
    let limit = check.max_unhealthy.of(targets.len());
    let restricted = unwell.len() > limit;
    let mut actions = Vec::new();
    let status = Status {
        expected_machines: count(targets.len()),
        current_healthy: count(targets.len() - unwell.len()),
        remediations_allowed: count(limit.saturating_sub(unwell.len())),
        restricted: restricted.then(|| {
            format!(
                "{} of {} Machines are unhealthy, and {limit} may be",
                unwell.len(),
                targets.len()
            )
        }),
    };
    if status != check.status {
        if let Some(note) = &status.restricted {
            actions.push(Action::Tell {
                reason: "RemediationRestricted",
                note: note.clone(),
            });
        }
        actions.push(Action::Save(Box::new(status)));
    }
    if !restricted {
        actions.extend(
            unwell
                .iter()
                .filter_map(|(target, why)| remedy(check, target, why)),
        );
    }
    if !actions.is_empty() {
        return Step::Do(actions);
    }
    let soonest = judged
        .iter()
        .filter_map(|(_, judgement)| match judgement {
            Judgement::Doubtful(until) => Some(*until),
            Judgement::Well | Judgement::Unwell(_) => None,
        })
        .min();
    match soonest {
        Some(until) => Step::Wait {
            reason: "Machines in doubt to be well again".into(),
            until,
        },
        None => Step::Done,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn judge(check: &Check, target: &Target, now: Timestamp) -> Judgement {
    if target.phase == Some(Phase::Failed) {
        return Judgement::Unwell("the Machine failed".into());
    }
    let since =
        |since: Timestamp, limit: Duration| since.checked_add(limit).unwrap_or(Timestamp::MAX);
    match &target.node {
        NodeState::Gone => Judgement::Unwell("its Node is gone".into()),
        NodeState::None => {
            let (Some(limit), Some(begin)) = (check.node_startup_timeout, target.last_updated)
            else {
                return Judgement::Well;
            };
            match since(begin, limit) {
                late if late <= now => {
                    Judgement::Unwell(format!("it has no Node after {} s", limit.as_secs()))
                }
                late => Judgement::Doubtful(late),
            }
        }
        NodeState::Present(conditions) => {
            let mut soonest: Option<Timestamp> = None;
            for wanted in &check.unhealthy_conditions {
                let met = conditions
                    .iter()
                    .find(|(kind, status, _)| *kind == wanted.kind && *status == wanted.status);
                let Some((kind, status, begin)) = met else {
                    continue;
                };
                let late = since(*begin, wanted.timeout);
                if late <= now {
                    return Judgement::Unwell(format!("{kind} of its Node is {status}"));
                }
                soonest = Some(soonest.map_or(late, |soonest| soonest.min(late)));
            }
            soonest.map_or(Judgement::Well, Judgement::Doubtful)
        }
    }
}

fn remedy(check: &Check, target: &Target, why: &str) -> Option<Action> {
    let machine = target.machine.clone();
    if target.deleting {
        return None;
    }
    if check.power_cycle && target.phase != Some(Phase::Failed) {
        return (!target.in_remediation).then_some(Action::PowerCycle { machine });
    }
    // Without anyone to make it anew, a Machine is not thrown away.
    target.has_controller.then(|| Action::DeleteMachine {
        machine,
        reason: why.to_owned(),
    })
}
