use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::machine::LabelSelector;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn labels(value: &str) -> Labels {
    [("set".to_owned(), value.to_owned())].into()
}

fn set(replicas: u32) -> MachineSet {
    MachineSet {
        name: "workers".into(),
        uid: "set-1".into(),
        replicas,
        selector: LabelSelector {
            match_labels: labels("workers"),
            ..LabelSelector::default()
        },
        template_labels: labels("workers"),
        ..MachineSet::default()
    }
}

fn member(name: &str, age_days: i64) -> Member {
    Member {
        name: name.into(),
        uid: name.into(),
        labels: labels("workers"),
        controller: Some("set-1".into()),
        created: NOW - Duration::from_hours(24) * u32::try_from(age_days).unwrap(),
        deleting: false,
        marked: false,
        failed: false,
        has_node: true,
        ready_since: Some(NOW - Duration::from_hours(1)),
    }
}

fn delete(name: &str) -> Step {
    Step::Do(Action::DeleteMachine { name: name.into() })
}

#[test]
fn machines_are_made_until_there_are_enough() {
    assert_eq!(
        next(&set(1), &[], None, NOW),
        Step::Do(Action::CreateMachine)
    );
    let mut gone = member("a", 1);
    gone.deleting = true;
    assert_eq!(
        next(&set(1), &[gone], None, NOW),
        Step::Do(Action::CreateMachine)
    );
    let mut other = member("b", 1);
    other.controller = Some("set-2".into());
    assert_eq!(
        next(&set(1), &[other], None, NOW),
        Step::Do(Action::CreateMachine)
    );
}

#[test]
fn an_orphan_that_fits_is_adopted_before_another_is_made() {
    let mut orphan = member("a", 1);
    orphan.controller = None;
    let adopt = Step::Do(Action::AdoptMachine { name: "a".into() });
    assert_eq!(
        next(&set(2), std::slice::from_ref(&orphan), None, NOW),
        adopt
    );
    orphan.labels = labels("others");
    assert_eq!(
        next(&set(1), &[orphan], None, NOW),
        Step::Do(Action::CreateMachine)
    );
}

#[test]
fn the_marked_go_first_then_the_failed_then_as_the_policy_says() {
    let mut marked = member("m", 2);
    marked.marked = true;
    let mut failed = member("f", 2);
    failed.failed = true;
    let mut nodeless = member("n", 2);
    nodeless.has_node = false;
    let (old, new) = (member("old", 9), member("new", 1));
    let of = |policy, members: &[&Member]| {
        let set = MachineSet {
            delete_policy: policy,
            ..set(u32::try_from(members.len()).unwrap() - 1)
        };
        let members: Vec<Member> = members.iter().map(|member| (*member).clone()).collect();
        next(&set, &members, None, NOW)
    };
    for policy in [
        DeletePolicy::Random,
        DeletePolicy::Newest,
        DeletePolicy::Oldest,
    ] {
        assert_eq!(
            of(policy, &[&old, &failed, &marked, &new]),
            delete("m"),
            "{policy:?}"
        );
        assert_eq!(
            of(policy, &[&old, &failed, &new]),
            delete("f"),
            "{policy:?}"
        );
    }
    assert_eq!(
        of(DeletePolicy::Random, &[&old, &nodeless, &new]),
        delete("n")
    );
    assert_eq!(
        of(DeletePolicy::Oldest, &[&new, &old, &nodeless]),
        delete("old")
    );
    assert_eq!(
        of(DeletePolicy::Newest, &[&old, &new, &nodeless]),
        delete("new")
    );
    assert_eq!(
        of(DeletePolicy::Random, &[&member("b", 1), &member("a", 1)]),
        delete("a")
    );
}

#[test]
fn the_status_counts_and_waits_for_readiness_to_last() {
    let mut fresh = member("a", 1);
    fresh.ready_since = Some(NOW - Duration::from_secs(10));
    let mut set = MachineSet {
        min_ready_seconds: 30,
        generation: 4,
        ..set(2)
    };
    let members = [fresh, member("b", 1)];
    let Step::Do(Action::Save(status)) = next(&set, &members, None, NOW) else {
        panic!("the status is written")
    };
    assert_eq!(
        *status,
        Status {
            replicas: 2,
            fully_labeled_replicas: 2,
            ready_replicas: 2,
            available_replicas: 1,
            observed_generation: 4,
            ..Status::default()
        }
    );
    set.status = *status;
    let Step::Wait { until, .. } = next(&set, &members, None, NOW) else {
        panic!("one is not available yet")
    };
    assert_eq!(until, NOW + Duration::from_secs(20));
}

#[test]
fn a_selector_that_misses_the_template_is_refused_and_makes_nothing() {
    let mut set = set(3);
    set.template_labels = labels("others");
    let Step::Do(Action::Save(status)) = next(&set, &[], None, NOW) else {
        panic!("it is refused")
    };
    assert_eq!(status.error_reason.as_deref(), Some("InvalidConfiguration"));
    set.status = *status;
    assert_eq!(next(&set, &[], None, NOW), Step::Done);
}

#[test]
fn replicas_follow_the_hosts_where_that_is_asked_for() {
    let host = |labels: Labels, consumer| FreeHost { labels, consumer };
    let selector = LabelSelector {
        match_labels: labels("rack-1"),
        ..LabelSelector::default()
    };
    let hosts = [
        host(labels("rack-1"), Consumer::Nobody),
        host(labels("rack-2"), Consumer::Nobody),
        host(
            labels("rack-2"),
            Consumer::Machine {
                labels: labels("workers"),
            },
        ),
        host(
            labels("rack-1"),
            Consumer::Machine {
                labels: labels("others"),
            },
        ),
        host(labels("rack-1"), Consumer::Stranger),
    ];
    let mut set = set(7);
    assert_eq!(
        replicas_for_hosts(&set, &selector, &hosts),
        Ok(None),
        "not asked for"
    );
    set.annotations.insert(AUTOSCALE.into(), String::new());
    assert_eq!(replicas_for_hosts(&set, &selector, &hosts), Ok(Some(2)));
    assert_eq!(
        next(&set, &[], Some(2), NOW),
        Step::Do(Action::SetReplicas(2))
    );
    let mut more = hosts.to_vec();
    more.push(host(labels("rack-1"), Consumer::Unknown));
    assert_eq!(
        replicas_for_hosts(&set, &selector, &more),
        Ok(None),
        "a Machine may be about to show"
    );
    set.selector = LabelSelector::default();
    assert_eq!(
        replicas_for_hosts(&set, &selector, &hosts),
        Ok(None),
        "a set of everything"
    );
}
