//! Machines that want hosts: more of them than there are, by controllers that look at old news and die.

use std::time::Duration;

use lifecycle::host::{Operational, State};
use lifecycle::machine::{
    Action, Config, HostChange, HostSeen, Machine, Observed, Phase, Step, host_ref, next,
};
use serde_json::json;

use crate::rack::Rack;

const SEEDS: u64 = 400;

#[test]
fn every_host_has_one_machine_at_most_and_machines_get_hosts_while_there_are_any() {
    for seed in 0..SEEDS {
        let mut floor = Floor::new(seed, 3, 4);
        floor.storm(220);
        floor.calm();
        let up = floor
            .machines
            .iter()
            .flatten()
            .filter(|machine| !machine.provider_id.is_empty())
            .count();
        let wanted = floor.machines.iter().flatten().count().min(3);
        assert_eq!(up, wanted, "{}", floor.rack.story());
    }
}

struct Floor {
    rack: Rack,
    machines: Vec<Option<Machine>>,
    /// What a slow controller still believes of the hosts.
    stale: Vec<HostSeen>,
    born: usize,
}

impl Floor {
    fn new(seed: u64, hosts: usize, machines: usize) -> Self {
        let mut floor = Self {
            rack: Rack::new(seed, hosts),
            machines: vec![None; machines],
            stale: Vec::new(),
            born: 0,
        };
        for slot in 0..machines {
            floor.want(slot);
        }
        floor
    }

    fn want(&mut self, slot: usize) {
        self.born += 1;
        self.machines[slot] = Some(Machine {
            namespace: "metal".into(),
            name: format!("machine-{}", self.born),
            uid: format!("uid-machine-{}", self.born),
            labels: [(
                "machine.openshift.io/cluster-api-cluster".to_owned(),
                "lab".to_owned(),
            )]
            .into(),
            provider_spec: json!({"image": {"url": "http://images/worker", "checksum": "0123"}}),
            ..Machine::default()
        });
    }

    fn hosts(&self) -> Vec<HostSeen> {
        let seen = self.rack.objects.iter().flatten().map(|object| HostSeen {
            namespace: object.host.namespace.clone(),
            name: object.host.name.clone(),
            uid: object.host.uid.clone(),
            resource_version: object.version.to_string(),
            annotations: object.host.annotations.clone(),
            deleting: object.host.deleting,
            spec: object.host.spec.clone(),
            state: object.host.status.state(),
            detached: object.host.status.operational_status == Operational::Detached,
            powered_on: object.host.status.powered_on,
            error_message: object.host.status.error_message.clone(),
            hardware: object.host.status.hardware.clone(),
            ..HostSeen::default()
        });
        seen.collect()
    }

    fn storm(&mut self, turns: usize) {
        self.rack.deadly = 10;
        self.rack.ironic.failing = 5;
        for _ in 0..turns {
            if self.rack.dice.percent(15) {
                self.stale = self.hosts();
            }
            if self.rack.dice.percent(4) {
                let slot = self.rack.dice.below(self.machines.len());
                match &mut self.machines[slot] {
                    Some(machine) if machine.finalizer => machine.deleting = true,
                    Some(_) => self.machines[slot] = None,
                    None => self.want(slot),
                }
            }
            if self.rack.dice.percent(3) {
                self.rack.ironic.forget_everything();
            }
            self.turn();
        }
    }

    fn turn(&mut self) {
        let pause = self.rack.dice.below(20) as u64;
        self.rack.pass_time(Duration::from_secs(pause));
        match self.rack.dice.below(3) {
            0 => {
                let place = self.rack.dice.below(self.rack.objects.len());
                self.rack.reconcile(place);
            }
            1 => {
                for node in self.rack.ironic.nodes.keys().cloned().collect::<Vec<_>>() {
                    self.rack
                        .ironic
                        .work(&node, &mut self.rack.metals, &mut self.rack.dice);
                }
            }
            _ => {
                let slot = self.rack.dice.below(self.machines.len());
                let old = self.rack.dice.percent(40) && !self.stale.is_empty();
                let hosts = if old {
                    self.stale.clone()
                } else {
                    self.hosts()
                };
                self.reconcile(slot, hosts);
            }
        }
        self.rack.check();
        self.check();
    }

    fn reconcile(&mut self, slot: usize, hosts: Vec<HostSeen>) {
        let Some(machine) = self.machines[slot].clone() else {
            return;
        };
        let seen = Observed { hosts, node: None };
        let step = next(&machine, &seen, &Config::default(), self.rack.now);
        assert_eq!(
            step,
            next(&machine, &seen, &Config::default(), self.rack.now)
        );
        let Step::Do(actions) = step else {
            return;
        };
        for action in actions {
            if self.rack.dice.percent(self.rack.deadly) {
                return;
            }
            let mut line = format!("{}: {action:?}", machine.name);
            line.truncate(200);
            self.rack.note(&line);
            if !self.perform(slot, &machine, action) {
                return;
            }
        }
    }

    /// Whether it went well.
    fn perform(&mut self, slot: usize, machine: &Machine, action: Action) -> bool {
        let own = self.machines[slot].as_mut().unwrap();
        match action {
            Action::AddFinalizer => own.finalizer = true,
            Action::RemoveFinalizer => self.machines[slot] = None,
            Action::Annotate { key, value } => {
                own.annotations.insert(key.to_owned(), value);
            }
            Action::SetProviderId(id) => own.provider_id = id,
            Action::Save(status) => own.status = *status,
            Action::ChangeHost {
                name,
                resource_version,
                change,
                ..
            } => {
                return self.change(&name, &resource_version, *change, machine);
            }
            Action::SetNodeProviderId { .. }
            | Action::MarkNode { .. }
            | Action::DeleteNode { .. } => {}
        }
        true
    }

    fn change(&mut self, name: &str, version: &str, change: HostChange, machine: &Machine) -> bool {
        let place = self.rack.objects.iter().position(|object| {
            object
                .as_ref()
                .is_some_and(|object| object.host.name == name)
        });
        let Some(place) = place else {
            return false;
        };
        let object = self.rack.objects[place].as_ref().unwrap();
        if object.version.to_string() != version {
            return false;
        }
        let consumer = object.host.spec.consumer_ref.as_ref();
        let own = consumer.is_none_or(|consumer| *consumer == host_ref(machine));
        assert!(
            own,
            "{} takes the host of {consumer:?}\n{}",
            machine.name,
            self.rack.story()
        );
        self.rack.edit(place, |spec| {
            spec.consumer_ref = change.consumer_ref;
            spec.image = change.image;
            spec.custom_deploy = change.custom_deploy;
            spec.user_data = change.user_data;
            spec.online = change.online;
        });
        true
    }

    fn check(&self) {
        let mut ids: Vec<&str> = self
            .machines
            .iter()
            .flatten()
            .filter(|machine| !machine.deleting && !machine.provider_id.is_empty())
            .map(|machine| machine.provider_id.as_str())
            .collect();
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        assert_eq!(
            ids.len(),
            all,
            "two machines have one host\n{}",
            self.rack.story()
        );
        for machine in self.machines.iter().flatten() {
            let failed = machine.status.phase == Some(Phase::Failed);
            assert!(
                !failed,
                "{} failed though nobody took its host\n{}",
                machine.name,
                self.rack.story()
            );
        }
    }

    fn calm(&mut self) {
        self.rack.deadly = 0;
        self.rack.ironic.failing = 0;
        self.stale.clear();
        for place in 0..self.rack.objects.len() {
            self.rack
                .annotate(place, lifecycle::host::annotations::RETRY_NOW, Some(""));
        }
        for _ in 0..6000 {
            self.turn();
            self.rack.pass_time(Duration::from_secs(30));
            if self.at_rest() {
                return;
            }
        }
        let state = |place: usize| self.rack.state(place);
        panic!(
            "does not settle: {:?} {:?} {:?}\n{}",
            state(0),
            state(1),
            state(2),
            self.rack.story()
        );
    }

    fn at_rest(&self) -> bool {
        let hosts = self.hosts();
        let settled = hosts.iter().all(|host| match &host.spec.consumer_ref {
            Some(_) => host.state == State::Provisioned,
            None => host.state == State::Available,
        });
        let machines = || self.machines.iter().flatten();
        let up = machines()
            .filter(|machine| machine.status.phase == Some(Phase::Provisioned))
            .count();
        let leaving = machines().any(|machine| machine.deleting);
        settled && !leaving && up == machines().count().min(hosts.len())
    }
}
