//! The next step for a Machine. Asking twice gives the same answer.

use jiff::Timestamp;

use super::choose::{choose, owned};
use super::provider::ProviderSpec;
use super::view::{
    Action, Condition, Config, HOST_ANNOTATION, HostChange, HostSeen, INSTANCE_STATE, Machine,
    NodeRef, NodeSeen, Observed, Phase, Status, Step, host_ref, provider_id,
};
use crate::host::{State, Truth};

const CLUSTER_LABEL: &str = "machine.openshift.io/cluster-api-cluster";
const MACHINE_OF_NODE: &str = "machine.openshift.io/machine";

pub fn next(machine: &Machine, seen: &Observed, config: &Config, now: Timestamp) -> Step {
    let pass = Pass {
        machine,
        seen,
        config,
        now,
    };
    if machine.deleting {
        return pass.deleting();
    }
    if machine.status.phase == Some(Phase::Failed) {
        return Step::Done;
    }
    if !machine.finalizer {
        return Step::Do(vec![Action::AddFinalizer]);
    }
    if !machine.labels.contains_key(CLUSTER_LABEL) {
        return pass.invalid(&format!("the label {CLUSTER_LABEL} is missing"));
    }
    let spec = match ProviderSpec::parse(&machine.provider_spec) {
        Ok(spec) => spec,
        Err(why) => return pass.failed("InvalidConfiguration", &why),
    };
    match owned(machine, &seen.hosts) {
        Err(why) => pass.failed("InvalidConfiguration", &why),
        Ok(Some(host)) if exists(host, machine) => pass.update(host),
        Ok(host) => pass.create(&spec, host),
    }
}

/// A system runs, or ran, on the host for this Machine.
fn exists(host: &HostSeen, machine: &Machine) -> bool {
    let up = match host.state {
        State::Provisioned
        | State::ExternallyProvisioned
        | State::Unmanaged
        | State::Registering => true,
        State::None
        | State::MatchProfile
        | State::Inspecting
        | State::Preparing
        | State::Available
        | State::Provisioning
        | State::Deprovisioning
        | State::PoweringOff
        | State::Deleting => false,
    };
    up && host.is_used_by(machine)
}

pub(super) struct Pass<'a> {
    pub machine: &'a Machine,
    pub seen: &'a Observed,
    pub config: &'a Config,
    pub now: Timestamp,
}

impl Pass<'_> {
    /// A host is found, claimed and waited for.
    fn create(&self, spec: &ProviderSpec, host: Option<&HostSeen>) -> Step {
        let machine = self.machine;
        let claimed = host.filter(|host| host.is_used_by(machine));
        let was_up = !machine.provider_id.is_empty() || !machine.status.addresses.is_empty();
        if was_up && claimed.is_none() {
            let why = "the host of this machine is gone, or is used by another";
            return self.failed("InstanceMissing", why);
        }
        let Some(host) = claimed.or_else(|| choose(machine, spec, &self.seen.hosts)) else {
            return self.insufficient();
        };
        let wanted = HostChange {
            consumer_ref: Some(host_ref(machine)),
            image: spec.host_image(),
            custom_deploy: spec.host_deploy(),
            user_data: spec.host_user_data(&machine.namespace),
            online: true,
        };
        let mut now = host.current();
        if host.is_used_by(machine) {
            now.consumer_ref.clone_from(&wanted.consumer_ref);
        }
        if was_up {
            // Its system is being taken off by somebody else, and is not to be put on again.
            return self.failed(
                "InstanceMissing",
                "the host of this machine was deprovisioned",
            );
        }
        if let (Some(image), Some(there)) = (&wanted.image, &now.image)
            && image.url == there.url
            && image.checksum == there.checksum
        {
            // Whoever added a format or a kind of checksum knows better.
            now.image = Some(image.clone());
        }
        if now != wanted {
            let mut actions = vec![host.change(wanted)];
            actions.extend(self.annotations(host));
            return Step::Do(actions);
        }
        let mut status = self.calm(Phase::Provisioning);
        condition(
            &mut status,
            Truth::False,
            "InstanceNotCreated",
            "",
            self.now,
        );
        let mut actions = self.annotations(host);
        actions.extend(self.saving(status));
        self.or_wait(
            actions,
            &format!(
                "the host {} to be provisioned; it is {}",
                host.name, host.state
            ),
        )
    }

    fn insufficient(&self) -> Step {
        let mut status = self.calm(Phase::Provisioning);
        let why = "no available host matches; add one, free one, or change hostSelector";
        status.error_reason = Some("InsufficientResources".into());
        status.error_message = Some(why.into());
        self.or_wait(
            self.saving(status).into_iter().collect(),
            "an available host that matches",
        )
    }

    /// The host runs for this Machine: its id, its addresses, its Node.
    fn update(&self, host: &HostSeen) -> Step {
        let machine = self.machine;
        let mut actions = Vec::new();
        if machine.provider_id.is_empty() {
            actions.push(Action::SetProviderId(provider_id(host)));
        }
        let mut status = self.calm(Phase::Provisioned);
        let addresses = host.addresses();
        if !addresses.is_empty() {
            status.addresses = addresses;
        }
        condition(&mut status, Truth::True, "", "", self.now);
        if let Some(node) = &self.seen.node {
            status.phase = Some(Phase::Running);
            status.node_ref = Some(NodeRef {
                kind: "Node".into(),
                name: node.name.clone(),
                uid: node.uid.clone(),
            });
            actions.extend(self.mark(node, &provider_id(host)));
        } else if status.node_ref.is_some() {
            // It had one; whether that is bad is for a health check to say.
            status.phase = machine
                .status
                .phase
                .filter(|phase| *phase == Phase::Running);
            status.phase = status.phase.or(Some(Phase::Provisioned));
        }
        actions.extend(self.annotations(host));
        actions.extend(self.saving(status));
        let waits_for = match &self.seen.node {
            None => "its Node to register with one of the machine's addresses",
            Some(_) => "a change",
        };
        self.or_wait(actions, waits_for)
    }

    /// What a Machine says of its Node.
    fn mark(&self, node: &NodeSeen, provider_id: &str) -> Vec<Action> {
        let machine = self.machine;
        let mut actions = Vec::new();
        if node.provider_id.is_empty() {
            actions.push(Action::SetNodeProviderId {
                node: node.name.clone(),
                provider_id: provider_id.to_owned(),
            });
        }
        let own = format!("{}/{}", machine.namespace, machine.name);
        let mut annotations = machine.node_annotations.clone();
        annotations.insert(MACHINE_OF_NODE.into(), own);
        annotations.retain(|key, value| node.annotations.get(key) != Some(value));
        let mut labels = machine.node_labels.clone();
        labels.retain(|key, value| node.labels.get(key) != Some(value));
        let mut taints = machine.taints.clone();
        taints.retain(|taint| {
            !node
                .taints
                .iter()
                .any(|there| there.key == taint.key && there.effect == taint.effect)
        });
        // Taints are for a Node that is new; what was taken off later stays off.
        if node.annotations.contains_key(MACHINE_OF_NODE) {
            taints.clear();
        }
        if !labels.is_empty() || !annotations.is_empty() || !taints.is_empty() {
            actions.push(Action::MarkNode {
                node: node.name.clone(),
                labels,
                annotations,
                taints,
            });
        }
        actions
    }

    fn annotations(&self, host: &HostSeen) -> Vec<Action> {
        let wanted = [
            (HOST_ANNOTATION, format!("{}/{}", host.namespace, host.name)),
            (INSTANCE_STATE, host.state.to_string()),
        ];
        wanted
            .into_iter()
            .filter(|(key, value)| self.machine.annotations.get(*key) != Some(value))
            .map(|(key, value)| Action::Annotate { key, value })
            .collect()
    }

    /// The status without trouble, in a phase.
    fn calm(&self, phase: Phase) -> Status {
        let mut status = self.machine.status.clone();
        status.phase = Some(phase);
        status.error_reason = None;
        status.error_message = None;
        status
    }

    pub fn saving(&self, mut status: Status) -> Option<Action> {
        if status == self.machine.status {
            return None;
        }
        status.last_updated = Some(self.now);
        Some(Action::Save(Box::new(status)))
    }

    /// Not as it should be, but may become so by an edit.
    fn invalid(&self, why: &str) -> Step {
        let mut status = self.machine.status.clone();
        status.error_reason = Some("InvalidConfiguration".into());
        status.error_message = Some(why.to_owned());
        self.or_wait(self.saving(status).into_iter().collect(), why)
    }

    fn failed(&self, reason: &str, why: &str) -> Step {
        let mut status = self.machine.status.clone();
        status.phase = Some(Phase::Failed);
        status.error_reason = Some(reason.to_owned());
        status.error_message = Some(why.to_owned());
        if reason == "InstanceMissing" {
            status.error_reason = Some("UpdateError".into());
            condition(&mut status, Truth::False, "InstanceMissing", why, self.now);
        }
        let mut actions: Vec<Action> = self.saving(status).into_iter().collect();
        if self
            .machine
            .annotations
            .get(INSTANCE_STATE)
            .is_some_and(|state| state != "Unknown")
        {
            actions.push(Action::Annotate {
                key: INSTANCE_STATE,
                value: "Unknown".into(),
            });
        }
        Step::Do(actions)
    }

    pub fn or_wait(&self, actions: Vec<Action>, reason: &str) -> Step {
        if !actions.is_empty() {
            return Step::Do(actions);
        }
        Step::Wait {
            reason: reason.to_owned(),
            until: self
                .now
                .checked_add(self.config.poll)
                .unwrap_or(Timestamp::MAX),
        }
    }
}

fn condition(status: &mut Status, truth: Truth, reason: &str, message: &str, now: Timestamp) {
    let old = status
        .conditions
        .iter_mut()
        .find(|old| old.kind == "InstanceExists");
    let since = match &old {
        Some(old) if old.status == truth => old.last_transition_time,
        _ => now,
    };
    let new = Condition {
        kind: "InstanceExists".into(),
        status: truth,
        severity: if truth == Truth::False {
            "Warning".into()
        } else {
            String::new()
        },
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: since,
    };
    match old {
        Some(old) => *old = new,
        None => status.conditions.push(new),
    }
}
