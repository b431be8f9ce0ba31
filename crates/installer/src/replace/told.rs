//! What a replacement is at, in lines for people; nothing is said twice.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plan::cluster::HostPlan;
use plan::replace::{Action, Next, Step};

use crate::lines::Lines;

pub(super) struct Told<F> {
    host: HostPlan,
    tell: F,
    lines: Lines<Step>,
    done: Option<Action>,
}

impl<F: FnMut(&str)> Told<F> {
    pub(super) fn new(host: &HostPlan, tell: F) -> Self {
        Self {
            host: host.clone(),
            tell,
            lines: Lines::default(),
            done: None,
        }
    }

    pub(super) fn at(&mut self, next: &Next) {
        for line in self.lines.at(next.step, next.step.about(), &next.waits) {
            (self.tell)(&line);
        }
    }

    pub(super) fn doing(&mut self, action: &Action) {
        if self.done.as_ref() != Some(action) {
            (self.tell)(&format!("  {}", describe(action, &self.host)));
        }
        self.done = Some(action.clone());
    }

    pub(super) fn done(&mut self, began: &BTreeMap<Step, Timestamp>, now: Timestamp) {
        for line in Lines::done(began, now) {
            (self.tell)(&line);
        }
    }
}

pub(super) fn subject(action: &Action, host: &HostPlan) -> String {
    match action {
        Action::RemoveMember(_) | Action::AddLearner | Action::Promote(_) => "etcd".into(),
        Action::DeleteNode
        | Action::DeleteMachine
        | Action::CreateMachine
        | Action::Approve(_)
        | Action::Forget => "api".into(),
        Action::SwitchOff | Action::DeleteHost | Action::CreateHost { .. } => host.name.clone(),
    }
}

fn describe(action: &Action, host: &HostPlan) -> String {
    let (name, node) = (&host.name, host.node.as_deref().unwrap_or(&host.name));
    match action {
        Action::SwitchOff => format!("switching {name} off"),
        Action::RemoveMember(id) => format!("removing the etcd member {id:x} of {node}"),
        Action::DeleteNode => format!("deleting the Node {node}"),
        Action::DeleteHost => format!("deleting the BareMetalHost {name}"),
        Action::DeleteMachine => "deleting its Machine".into(),
        Action::AddLearner => format!("adding {node} to etcd as a learner"),
        Action::CreateHost { .. } => format!("creating the BareMetalHost {name} anew"),
        Action::CreateMachine => "creating its Machine anew".into(),
        Action::Approve(_) => format!("letting {node} in"),
        Action::Promote(id) => format!("promoting the etcd member {id:x} of {node}"),
        Action::Forget => "taking the host's keys out of the API".into(),
    }
}

#[cfg(test)]
mod tests {
    use plan::cluster::Plan;
    use plan::install::Wait;
    use plan::install_config::{Facts, parse};

    use super::*;

    const PXE: &str = include_str!("../../../../examples/pxe.yaml");

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn what_is_waited_for_is_said_once_and_the_end_has_the_times() {
        let resolved = parse(PXE, &Facts::default()).unwrap();
        let plan = Plan::new(&resolved.config, None);
        let mut lines = Vec::new();
        let mut told = Told::new(&plan.hosts[1], |line: &str| lines.push(line.to_owned()));
        let wait = |reason: &str| Next {
            step: Step::Join,
            actions: Vec::new(),
            waits: vec![Wait {
                subject: "master-1".into(),
                reason: reason.into(),
                far: None,
                until: at(0),
            }],
            stuck: None,
        };
        for reason in ["it to boot", "it to boot", "it to learn"] {
            told.at(&wait(reason));
        }
        told.doing(&Action::Promote(0xc2));
        told.doing(&Action::Promote(0xc2));
        let began = BTreeMap::from([(Step::Join, at(10)), (Step::Ready, at(13))]);
        told.done(&began, at(20));
        assert_eq!(
            lines,
            [
                "join: its etcd member has caught up and votes",
                "  waiting: master-1: it to boot",
                "  waiting: master-1: it to learn",
                "  promoting the etcd member c2 of master-1",
                "done",
                "  join      3.0 s",
                "  ready     7.0 s",
                "  in all   10.0 s",
            ]
        );
    }
}
