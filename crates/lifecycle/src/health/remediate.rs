//! A power cycle for a Machine that is unwell, as its annotations ask.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::check::EXTERNAL_REMEDIATION;

/// On the host: off, for as long as it is there.
pub const POWER_OFF_REQUEST: &str = "reboot.metal3.io/capbm-requested-power-off";
/// On the Machine: its host has been seen off, and its Node was deleted.
pub const POWERED_OFF: &str = "remediation.metal3.io/powered-off-for-remediation";
/// On the Machine: when the Node must be back.
pub const POWER_ON_TIMES_OUT: &str = "remediation.metal3.io/power-on-will-timeout-at";
const LABELS_BACKUP: &str = "remediation.metal3.io/node-labels-backup";
const ANNOTATIONS_BACKUP: &str = "remediation.metal3.io/node-annotations-backup";

/// A Machine, its host and its Node.
#[derive(Debug, Clone, PartialEq)]
pub struct Patient {
    /// Of the Machine.
    pub annotations: BTreeMap<String, String>,
    pub deleting: bool,
    /// Nothing was deployed on the host by us: it cannot be made anew.
    pub externally_provisioned: bool,
    pub has_controller: bool,
    pub is_master: bool,
    /// Annotations of the host hold [`POWER_OFF_REQUEST`].
    pub off_requested: bool,
    pub host_powered_on: bool,
    pub node: Option<Backup>,
}

/// What of a Node must survive it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Backup {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RemediationStep {
    Do(Vec<RemediationAction>),
    Wait {
        reason: String,
        until: Timestamp,
    },
    /// No power cycle is asked for.
    Done,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RemediationAction {
    /// Annotate the host with [`POWER_OFF_REQUEST`], mode hard.
    RequestOff {
        value: String,
    },
    /// Take [`POWER_OFF_REQUEST`] off the host.
    AllowOn,
    /// Of the Machine, all in one update; none takes one away.
    Annotate(Vec<(&'static str, Option<String>)>),
    DeleteNode {
        name: String,
    },
    /// Give the new Node what the old one had and it lacks.
    RestoreNode {
        name: String,
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
    },
    DeleteMachine,
}

/// `startup` is how long a Node may take to come back.
pub fn remediate(patient: &Patient, startup: Duration, now: Timestamp) -> RemediationStep {
    if patient.deleting || !patient.annotations.contains_key(EXTERNAL_REMEDIATION) {
        return RemediationStep::Done;
    }
    if patient.annotations.contains_key(POWER_ON_TIMES_OUT) {
        return coming_back(patient, now);
    }
    if !patient.annotations.contains_key(POWERED_OFF) {
        return going_off(patient, now);
    }
    // Off, and forgotten by the cluster: the clock starts before the power does.
    let until = now.checked_add(startup).unwrap_or(Timestamp::MAX);
    RemediationStep::Do(vec![
        set(POWER_ON_TIMES_OUT, until.to_string()),
        RemediationAction::AllowOn,
    ])
}

fn going_off(patient: &Patient, now: Timestamp) -> RemediationStep {
    if !patient.off_requested {
        return RemediationStep::Do(vec![RemediationAction::RequestOff {
            value: r#"{"mode":"hard"}"#.into(),
        }]);
    }
    if patient.host_powered_on {
        return RemediationStep::Wait {
            reason: "the host to be powered off".into(),
            until: now
                .checked_add(Duration::from_secs(5))
                .unwrap_or(Timestamp::MAX),
        };
    }
    let Some(node) = &patient.node else {
        return RemediationStep::Do(vec![set(POWERED_OFF, String::new())]);
    };
    let json = |map: &BTreeMap<String, String>| serde_json::json!(map).to_string();
    let kept = patient.annotations.contains_key(LABELS_BACKUP);
    let mut actions = Vec::new();
    if !kept {
        actions.push(RemediationAction::Annotate(vec![
            (ANNOTATIONS_BACKUP, Some(json(&node.annotations))),
            (LABELS_BACKUP, Some(json(&node.labels))),
        ]));
    }
    actions.push(RemediationAction::DeleteNode {
        name: node.name.clone(),
    });
    actions.push(set(POWERED_OFF, String::new()));
    RemediationStep::Do(actions)
}

fn coming_back(patient: &Patient, now: Timestamp) -> RemediationStep {
    if patient.off_requested {
        return RemediationStep::Do(vec![RemediationAction::AllowOn]);
    }
    if let Some(node) = &patient.node {
        let mut actions = Vec::new();
        let missing = |key: &str, has: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            let kept = patient.annotations.get(key);
            let kept: BTreeMap<String, String> = kept
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default();
            kept.into_iter()
                .filter(|(key, _)| !has.contains_key(key))
                .collect()
        };
        let labels = missing(LABELS_BACKUP, &node.labels);
        let annotations = missing(ANNOTATIONS_BACKUP, &node.annotations);
        if !labels.is_empty() || !annotations.is_empty() {
            actions.push(RemediationAction::RestoreNode {
                name: node.name.clone(),
                labels,
                annotations,
            });
        }
        let over = [
            LABELS_BACKUP,
            ANNOTATIONS_BACKUP,
            POWERED_OFF,
            POWER_ON_TIMES_OUT,
            EXTERNAL_REMEDIATION,
        ];
        let over = over
            .into_iter()
            .filter(|key| patient.annotations.contains_key(*key));
        actions.push(RemediationAction::Annotate(
            over.map(|key| (key, None)).collect(),
        ));
        return RemediationStep::Do(actions);
    }
    let until = patient.annotations.get(POWER_ON_TIMES_OUT);
    let until = until
        .and_then(|text| text.parse::<Timestamp>().ok())
        .unwrap_or(now);
    if now < until {
        return RemediationStep::Wait {
            reason: "the Node to come back after the power cycle".into(),
            until,
        };
    }
    if !patient.externally_provisioned && patient.has_controller && !patient.is_master {
        return RemediationStep::Do(vec![RemediationAction::DeleteMachine]);
    }
    RemediationStep::Wait {
        reason: "a person: the Node did not come back, and this host may not be made anew".into(),
        until: now
            .checked_add(Duration::from_mins(10))
            .unwrap_or(Timestamp::MAX),
    }
}

fn set(key: &'static str, value: String) -> RemediationAction {
    RemediationAction::Annotate(vec![(key, Some(value))])
}
