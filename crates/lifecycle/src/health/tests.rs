//! Tables of health checks, and the story of a power cycle.

use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::machine::Phase;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn ago(minutes: u64) -> Timestamp {
    now() - Duration::from_mins(minutes)
}

fn check() -> Check {
    Check {
        name: "workers".into(),
        paused: false,
        unhealthy_conditions: vec![UnhealthyCondition {
            kind: "Ready".into(),
            status: "Unknown".into(),
            timeout: Duration::from_mins(5),
        }],
        max_unhealthy: MaxUnhealthy::default(),
        node_startup_timeout: Some(Duration::from_mins(10)),
        power_cycle: false,
        status: Status::default(),
    }
}

fn target(node: NodeState) -> Target {
    Target {
        machine: "m0".into(),
        deleting: false,
        phase: Some(Phase::Running),
        last_updated: Some(ago(60)),
        node,
        has_controller: true,
        in_remediation: false,
    }
}

fn ready(status: &str, minutes: u64) -> NodeState {
    NodeState::Present(vec![("Ready".into(), status.into(), ago(minutes))])
}

/// What is asked for, besides the status.
fn asked(check: &Check, targets: &[Target]) -> Vec<Action> {
    match next(check, targets, now()) {
        Step::Do(actions) => actions
            .into_iter()
            .filter(|action| !matches!(action, Action::Save(_)))
            .collect(),
        Step::Wait { .. } | Step::Done => vec![],
    }
}

#[test]
fn who_is_unwell_and_who_only_looks_like_it() {
    let rows = [
        ("well", target(ready("True", 60)), false),
        ("long unknown", target(ready("Unknown", 6)), true),
        ("just unknown", target(ready("Unknown", 4)), false),
        ("gone", target(NodeState::Gone), true),
        ("never came", target(NodeState::None), true),
        (
            "coming",
            Target {
                last_updated: Some(ago(9)),
                ..target(NodeState::None)
            },
            false,
        ),
        (
            "failed",
            Target {
                phase: Some(Phase::Failed),
                ..target(ready("True", 60))
            },
            true,
        ),
        (
            "going",
            Target {
                deleting: true,
                ..target(NodeState::Gone)
            },
            false,
        ),
        (
            "nobody's",
            Target {
                has_controller: false,
                ..target(NodeState::Gone)
            },
            false,
        ),
    ];
    for (name, target, wanted) in rows {
        assert_eq!(!asked(&check(), &[target]).is_empty(), wanted, "{name}");
    }
    let patient = Check {
        node_startup_timeout: None,
        ..check()
    };
    assert!(asked(&patient, &[target(NodeState::None)]).is_empty());
}

#[test]
fn a_doubtful_machine_is_looked_at_when_its_time_is_up() {
    let targets = [target(ready("Unknown", 4))];
    let mut check = check();
    let Step::Do(actions) = next(&check, &targets, now()) else {
        panic!()
    };
    let [Action::Save(status)] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (
            status.expected_machines,
            status.current_healthy,
            status.remediations_allowed
        ),
        (1, 1, 1)
    );
    check.status = (**status).clone();
    let Step::Wait { until, .. } = next(&check, &targets, now()) else {
        panic!()
    };
    assert_eq!(until, now() + Duration::from_mins(1));
}

#[test]
fn too_many_unwell_machines_are_left_alone_and_that_is_said_once() {
    let mut check = Check {
        max_unhealthy: MaxUnhealthy::parse("40%").unwrap(),
        ..check()
    };
    let targets = [
        target(NodeState::Gone),
        target(NodeState::Gone),
        target(ready("True", 9)),
        target(ready("True", 9)),
    ];
    let actions = asked(&check, &targets);
    assert!(
        matches!(
            actions.as_slice(),
            [Action::Tell {
                reason: "RemediationRestricted",
                ..
            }]
        ),
        "{actions:?}"
    );
    let Step::Do(actions) = next(&check, &targets, now()) else {
        panic!()
    };
    let Some(Action::Save(status)) = actions.last() else {
        panic!()
    };
    check.status = (**status).clone();
    assert_eq!(next(&check, &targets, now()), Step::Done);
    check.max_unhealthy = MaxUnhealthy::Count(2);
    assert_eq!(asked(&check, &targets).len(), 2);
    assert_eq!(MaxUnhealthy::parse("3"), Some(MaxUnhealthy::Count(3)));
    assert_eq!(MaxUnhealthy::parse("many"), None);
    assert_eq!(
        asked(
            &Check {
                paused: true,
                ..check
            },
            &targets
        ),
        vec![]
    );
}

#[test]
fn the_remedy_is_a_power_cycle_where_that_is_asked_for_and_a_new_machine_otherwise() {
    let sick = || target(NodeState::Gone);
    let delete = Action::DeleteMachine {
        machine: "m0".into(),
        reason: "its Node is gone".into(),
    };
    assert_eq!(asked(&check(), &[sick()]), [delete]);
    let cycling = Check {
        power_cycle: true,
        ..check()
    };
    assert_eq!(
        asked(&cycling, &[sick()]),
        [Action::PowerCycle {
            machine: "m0".into()
        }]
    );
    assert_eq!(
        asked(
            &cycling,
            &[Target {
                in_remediation: true,
                ..sick()
            }]
        ),
        vec![]
    );
    let failed = Target {
        phase: Some(Phase::Failed),
        ..sick()
    };
    assert!(
        matches!(asked(&cycling, &[failed])[0], Action::DeleteMachine { .. }),
        "no power cycle helps it"
    );
}

/// A cluster of one: does what it is told, and dies before any action it likes.
struct Ward {
    patient: Patient,
    now: Timestamp,
    node: Backup,
    /// The host's power follows after so many looks.
    slow: u32,
}

impl Ward {
    fn new() -> Self {
        let node = Backup {
            name: "n0".into(),
            labels: [("rack".to_owned(), "1".to_owned())].into(),
            annotations: [("note".to_owned(), "x".to_owned())].into(),
        };
        Self {
            patient: Patient {
                annotations: [(EXTERNAL_REMEDIATION.to_owned(), String::new())].into(),
                deleting: false,
                externally_provisioned: false,
                has_controller: true,
                is_master: false,
                off_requested: false,
                host_powered_on: true,
                node: Some(node.clone()),
            },
            now: now(),
            node,
            slow: 2,
        }
    }

    fn step(&self) -> RemediationStep {
        remediate(&self.patient, Duration::from_mins(20), self.now)
    }

    fn perform(&mut self, action: RemediationAction) {
        let patient = &mut self.patient;
        match action {
            RemediationAction::RequestOff { value } => {
                assert_eq!(value, r#"{"mode":"hard"}"#);
                patient.off_requested = true;
            }
            RemediationAction::AllowOn => {
                assert!(
                    patient.node.is_none(),
                    "the Node is gone before the power is back"
                );
                patient.off_requested = false;
            }
            RemediationAction::Annotate(changes) => {
                for (key, value) in changes {
                    match value {
                        Some(value) => patient.annotations.insert(key.to_owned(), value),
                        None => patient.annotations.remove(key),
                    };
                }
            }
            RemediationAction::DeleteNode { .. } => {
                assert!(
                    !patient.host_powered_on,
                    "a Node is deleted only once its host is off"
                );
                patient.node = None;
            }
            RemediationAction::RestoreNode {
                labels,
                annotations,
                ..
            } => {
                let node = patient.node.as_mut().unwrap();
                node.labels.extend(labels);
                node.annotations.extend(annotations);
            }
            RemediationAction::DeleteMachine => patient.deleting = true,
        }
    }

    /// The host follows its annotation.
    fn live(&mut self) {
        self.slow = self.slow.saturating_sub(1);
        if self.slow > 0 {
            return;
        }
        self.slow = 2;
        let patient = &mut self.patient;
        patient.host_powered_on = !patient.off_requested;
    }
}

#[test]
fn a_power_cycle_fences_before_it_forgets_and_restores_what_the_node_had() {
    // The operator dies before the n-th action, then before every second one, and so on.
    for deadly in 1..8u32 {
        let mut ward = Ward::new();
        let mut count = 0;
        'life: for _ in 0..200 {
            match ward.step() {
                RemediationStep::Done => break,
                RemediationStep::Wait { .. } => {
                    ward.live();
                    let up = ward.patient.host_powered_on && !ward.patient.off_requested;
                    if ward.patient.node.is_none() && up {
                        ward.patient.node = Some(Backup {
                            name: "n0".into(),
                            ..Backup::default()
                        });
                    }
                }
                RemediationStep::Do(actions) => {
                    for action in actions {
                        count += 1;
                        if count % deadly == 0 && deadly > 1 {
                            continue 'life;
                        }
                        ward.perform(action);
                    }
                }
            }
        }
        assert_eq!(
            ward.step(),
            RemediationStep::Done,
            "{deadly}: {:?}",
            ward.patient
        );
        assert_eq!(ward.patient.node, Some(ward.node.clone()), "{deadly}");
        assert!(
            ward.patient.annotations.is_empty(),
            "{deadly}: {:?}",
            ward.patient.annotations
        );
        assert!(!ward.patient.deleting);
    }
}

#[test]
fn a_node_that_does_not_come_back_costs_its_machine_unless_that_cannot_be_made_anew() {
    let mut ward = Ward::new();
    ward.patient.node = None;
    ward.patient.host_powered_on = true;
    let late = (ward.now - Duration::from_secs(1)).to_string();
    ward.patient
        .annotations
        .insert(POWER_ON_TIMES_OUT.into(), late);
    assert_eq!(
        ward.step(),
        RemediationStep::Do(vec![RemediationAction::DeleteMachine])
    );
    for change in [
        (|patient| patient.is_master = true) as fn(&mut Patient),
        |patient| patient.externally_provisioned = true,
        |patient| patient.has_controller = false,
    ] {
        let mut ward = Ward {
            patient: ward.patient.clone(),
            ..Ward::new()
        };
        change(&mut ward.patient);
        assert!(matches!(ward.step(), RemediationStep::Wait { .. }));
    }
}
