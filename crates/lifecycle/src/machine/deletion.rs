//! The way out of a Machine: drained, its host given back, its Node gone.

use super::choose::owned;
use super::next::Pass;
use super::view::{Action, EXCLUDE_DRAIN, HostChange, HostSeen, Phase, Step};
use crate::host::{State, Truth};

impl Pass<'_> {
    pub fn deleting(&self) -> Step {
        let machine = self.machine;
        if !machine.finalizer {
            return Step::Done;
        }
        let mut status = machine.status.clone();
        status.phase = Some(Phase::Deleting);
        if let Some(save) = self.saving(status) {
            return Step::Do(vec![save]);
        }
        if self.must_drain() {
            return self.or_wait(vec![], "its Node to be drained");
        }
        if !machine.pre_terminate_hooks.is_empty() {
            let hooks = machine.pre_terminate_hooks.join(", ");
            return self.or_wait(vec![], &format!("the pre-terminate hooks {hooks}"));
        }
        // A provider id that cannot be read names no host of ours; one we claimed is found by its consumer.
        let host = owned(machine, &self.seen.hosts).ok().flatten();
        let host = host.filter(|host| host.is_used_by(machine));
        let host = host.or_else(|| self.seen.hosts.iter().find(|host| host.is_used_by(machine)));
        if let Some(host) = host {
            return self.give_back(host);
        }
        if let Some(node) = &self.seen.node {
            return Step::Do(vec![Action::DeleteNode {
                node: node.name.clone(),
            }]);
        }
        Step::Do(vec![Action::RemoveFinalizer])
    }

    fn must_drain(&self) -> bool {
        let machine = self.machine;
        let drained = machine
            .status
            .conditions
            .iter()
            .any(|seen| seen.kind == "Drained" && seen.status == Truth::True);
        self.config.drain
            && !drained
            && machine.status.node_ref.is_some()
            && !machine.annotations.contains_key(EXCLUDE_DRAIN)
    }

    fn give_back(&self, host: &HostSeen) -> Step {
        let emptied = HostChange {
            consumer_ref: host.spec.consumer_ref.clone(),
            online: host.spec.disable_power_off,
            ..HostChange::default()
        };
        if host.current() != emptied {
            return Step::Do(vec![host.change(emptied)]);
        }
        let busy = match host.state {
            State::Provisioning | State::Provisioned | State::Deprovisioning => true,
            State::ExternallyProvisioned => host.powered_on && !host.spec.disable_power_off,
            State::None
            | State::Unmanaged
            | State::Registering
            | State::MatchProfile
            | State::Inspecting
            | State::Preparing
            | State::Available
            | State::PoweringOff
            | State::Deleting => false,
        };
        if busy {
            let reason = format!("the host {} to be free; it is {}", host.name, host.state);
            return self.or_wait(vec![], &reason);
        }
        Step::Do(vec![host.change(HostChange {
            consumer_ref: None,
            ..emptied
        })])
    }
}
