//! One host, taken apart: what its object says in fields and what its conditions say in words.

use crd::BareMetalHost;
use crd::host::annotation::PAUSED;
use crd::host::{BareMetalHostStatus, OperationMetric, OperationalStatus};
use jiff::Timestamp;
use kube::ResourceExt as _;
use lifecycle::host::{Retry, State, Waiting};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    pub namespace: String,
    pub host: String,
    /// Empty where nobody has looked at the host yet.
    pub state: String,
    /// `OK`, `error`, `delayed`, `detached` ...
    pub condition: String,
    pub step: Option<String>,
    /// How far the step is.
    pub percent: Option<u8>,
    pub waiting_for: Option<String>,
    /// When it came into its state.
    pub since: Option<Timestamp>,
    pub error: Option<Failure>,
    pub consumer: Option<String>,
    /// As last seen; none where it never was.
    pub powered_on: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    pub kind: String,
    pub message: String,
    /// So often in a row.
    pub count: i64,
    pub next_retry: Option<Timestamp>,
}

impl Line {
    pub fn new(host: &BareMetalHost) -> Self {
        let consumer = host.spec.consumer_ref.as_ref();
        let mut line = Self {
            namespace: host.namespace().unwrap_or_default(),
            host: host.name_any(),
            state: String::new(),
            condition: String::new(),
            step: None,
            percent: None,
            waiting_for: None,
            since: host.creation_timestamp().map(|time| time.0),
            error: None,
            consumer: consumer.and_then(|consumer| consumer.name.clone()),
            powered_on: None,
        };
        if let Some(status) = &host.status {
            line.describe(status);
        }
        if host.annotations().contains_key(PAUSED) {
            line.waiting_for = Some(format!("the annotation {PAUSED} to be taken off"));
        }
        if let Some(time) = &host.metadata.deletion_timestamp
            && line.state == "deleting"
        {
            line.since = Some(time.0);
        }
        line
    }

    pub fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.host.clone())
    }

    pub fn gone(&mut self) {
        "gone".clone_into(&mut self.state);
        self.waiting_for = None;
    }

    fn describe(&mut self, status: &BareMetalHostStatus) {
        self.state.clone_from(&status.provisioning.state);
        self.condition = word(status.operational_status);
        self.powered_on =
            (status.operational_status != OperationalStatus::None).then_some(status.powered_on);
        self.since = since(status).or(self.since);
        let message = |kind: &str| {
            let found = status.conditions.iter().find(|seen| seen.type_ == kind);
            found
                .filter(|seen| kind == "Ready" || seen.status == "True")
                .map(|seen| seen.message.as_str())
                .filter(|message| !message.is_empty())
        };
        if let Some(waiting) = message("Progressing").map(Waiting::parse) {
            self.step = waiting.step;
            self.percent = waiting.percent;
            self.waiting_for = Some(match waiting.seen {
                Some(seen) => format!("{} ({seen})", waiting.what),
                None => waiting.what,
            });
        }
        if let Some(kind) = &status.error_type {
            let retry = message("Ready").and_then(Retry::parse);
            self.error = Some(Failure {
                kind: word(kind),
                message: status.error_message.clone(),
                count: status.error_count,
                next_retry: retry.map(|retry| retry.at),
            });
            self.waiting_for = None;
        }
    }
}

/// When it came into its state, as its history tells.
fn since(status: &BareMetalHostStatus) -> Option<Timestamp> {
    let history = &status.operation_history;
    let start =
        |metric: &Option<OperationMetric>| metric.as_ref()?.start.as_ref().map(|time| time.0);
    let end = |metric: &Option<OperationMetric>| metric.as_ref()?.end.as_ref().map(|time| time.0);
    let condition = |kind: &str| {
        let found = status.conditions.iter().find(|seen| seen.type_ == kind);
        found.map(|seen| seen.last_transition_time.0)
    };
    let state = serde_json::from_value::<State>(status.provisioning.state.clone().into()).ok()?;
    match state {
        State::Registering => start(&history.register),
        State::Inspecting => start(&history.inspect),
        State::MatchProfile | State::Preparing => end(&history.inspect),
        State::Available => condition("AvailableForProvisioning"),
        State::Provisioning => start(&history.provision),
        State::Provisioned => end(&history.provision),
        State::ExternallyProvisioned => condition("Provisioned"),
        State::Deprovisioning => start(&history.deprovision),
        State::None | State::Unmanaged | State::PoweringOff | State::Deleting => None,
    }
}

/// An enum as the API spells it.
fn word(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
pub mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub fn host(status: &Value) -> Line {
        let object = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "worker-0", "namespace": "metal", "creationTimestamp": "2026-11-15T17:00:00Z"},
            "spec": {"online": true, "bmc": {"address": "ipmi://192.0.2.1", "credentialsName": "c"},
                     "consumerRef": {"kind": "Machine", "name": "workers-abcde"}},
            "status": status,
        });
        Line::new(&serde_json::from_value(object).expect("a host"))
    }

    fn condition(kind: &str, status: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "message": message, "reason": "R",
               "lastTransitionTime": "2026-11-15T17:05:00Z"})
    }

    #[test]
    fn a_host_at_work_tells_its_step() {
        let line = host(&json!({
            "operationalStatus": "OK", "poweredOn": true, "provisioning": {"state": "provisioning", "ID": ""},
            "operationHistory": {"provision": {"start": "2026-11-15T17:06:00Z"}},
            "conditions": [condition("Progressing", "True", "the host [deploy.write_image 40 %: the agent]")],
        }));
        assert_eq!(line.step.as_deref(), Some("deploy.write_image"));
        assert_eq!(line.percent, Some(40));
        assert_eq!(line.waiting_for.as_deref(), Some("the host (the agent)"));
        assert_eq!(line.since, "2026-11-15T17:06:00Z".parse().ok());
        assert_eq!(line.consumer.as_deref(), Some("workers-abcde"));
        assert_eq!(line.powered_on, Some(true));
        assert_eq!(line.error, None);
    }

    #[test]
    fn a_failed_host_tells_when_it_is_tried_again() {
        let line = host(&json!({
            "operationalStatus": "error", "errorType": "registration error", "errorMessage": "no answer", "errorCount": 3,
            "provisioning": {"state": "registering", "ID": ""},
            "conditions": [condition("Ready", "False", "no answer; next try at 2026-11-15T17:10:00Z"),
                           condition("Progressing", "True", "stale")],
        }));
        let failure = line.error.expect("it failed");
        assert_eq!(
            (failure.kind.as_str(), failure.count),
            ("registration error", 3)
        );
        assert_eq!(failure.next_retry, "2026-11-15T17:10:00Z".parse().ok());
        assert_eq!(line.waiting_for, None);
    }

    #[test]
    fn a_host_nobody_looked_at_is_as_old_as_its_object() {
        let line = host(&Value::Null);
        assert_eq!(line.state, "");
        assert_eq!(line.powered_on, None);
        assert_eq!(line.since, "2026-11-15T17:00:00Z".parse().ok());
    }
}
