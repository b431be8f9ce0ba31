//! The next step for a MachineSet. Asking twice gives the same answer.

use std::time::Duration;

use jiff::Timestamp;

use super::order::first_to_go;
use super::{Action, MachineSet, Member, Status, Step};

/// `autoscaled` is what [`super::replicas_for_hosts`] says.
pub fn next(set: &MachineSet, members: &[Member], autoscaled: Option<u32>, now: Timestamp) -> Step {
    if set.deleting {
        // Its Machines go by garbage collection.
        return Step::Done;
    }
    if let Some(replicas) = autoscaled.filter(|replicas| *replicas != set.replicas) {
        return Step::Do(Action::SetReplicas(replicas));
    }
    if set.selector.is_empty() || !fits(set, &set.template_labels) {
        return refuse(
            set,
            "spec.selector must match the labels of the template, and not everything",
        );
    }
    let mine: Vec<&Member> = members
        .iter()
        .filter(|member| fits(set, &member.labels))
        .filter(|member| member.controller.as_ref().is_none_or(|uid| *uid == set.uid))
        .collect();
    if let Some(orphan) = mine
        .iter()
        .find(|member| member.controller.is_none() && !member.deleting)
    {
        return Step::Do(Action::AdoptMachine {
            name: orphan.name.clone(),
        });
    }
    let living: Vec<&Member> = mine.into_iter().filter(|member| !member.deleting).collect();
    let wanted = set.replicas as usize;
    if living.len() < wanted {
        return Step::Do(Action::CreateMachine);
    }
    if living.len() > wanted
        && let Some(member) = first_to_go(&living, set.delete_policy, now)
    {
        return Step::Do(Action::DeleteMachine {
            name: member.name.clone(),
        });
    }
    settled(set, &living, now)
}

fn fits(set: &MachineSet, labels: &crate::host::Labels) -> bool {
    set.selector.matches(labels).unwrap_or(false)
}

fn refuse(set: &MachineSet, why: &str) -> Step {
    let status = Status {
        error_reason: Some("InvalidConfiguration".into()),
        error_message: Some(why.to_owned()),
        observed_generation: set.generation,
        ..set.status.clone()
    };
    if status == set.status {
        return Step::Done;
    }
    Step::Do(Action::Save(Box::new(status)))
}

fn settled(set: &MachineSet, living: &[&Member], now: Timestamp) -> Step {
    let count = |of: &dyn Fn(&Member) -> bool| {
        u32::try_from(living.iter().filter(|member| of(member)).count()).unwrap_or(u32::MAX)
    };
    let labelled = |member: &Member| {
        set.template_labels
            .iter()
            .all(|(key, value)| member.labels.get(key) == Some(value))
    };
    let settle = Duration::from_secs(u64::from(set.min_ready_seconds));
    let available_at = |member: &Member| member.ready_since?.checked_add(settle).ok();
    let status = Status {
        replicas: count(&|_| true),
        fully_labeled_replicas: count(&labelled),
        ready_replicas: count(&|member| member.ready_since.is_some()),
        available_replicas: count(&|member| available_at(member).is_some_and(|at| at <= now)),
        observed_generation: set.generation,
        error_reason: None,
        error_message: None,
    };
    if status != set.status {
        return Step::Do(Action::Save(Box::new(status)));
    }
    let soon = living
        .iter()
        .filter_map(|member| available_at(member))
        .filter(|at| *at > now)
        .min();
    match soon {
        Some(until) => Step::Wait {
            reason: "Machines to have been ready for minReadySeconds".into(),
            until,
        },
        None => Step::Done,
    }
}
