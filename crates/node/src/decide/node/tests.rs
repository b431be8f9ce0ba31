//! A Node's life in virtual time.

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("it is in range")
}

fn ready() -> Condition {
    Condition {
        kind: "Ready",
        holds: true,
        reason: "NodeReady".into(),
        message: "it is".into(),
    }
}

fn desired() -> Desired {
    Desired {
        name: "worker-0".into(),
        labels: BTreeMap::from([("role".into(), "worker".into())]),
        addresses: vec!["192.0.2.7".parse().expect("an address")],
        capacity: BTreeMap::from([("cpu".into(), Quantity("2".into()))]),
        conditions: vec![ready()],
        ..Desired::default()
    }
}

/// What the API would keep.
fn registered(desired: &Desired, now: Timestamp) -> Node {
    let Some(Write::Create(node)) = next(desired, None, now) else {
        panic!("there is none yet")
    };
    *node
}

fn of<'a>(node: &'a Node, kind: &str) -> &'a NodeCondition {
    let all = node.status.iter().flat_map(|status| &status.conditions);
    all.flatten()
        .find(|condition| condition.type_ == kind)
        .expect("it has the condition")
}

#[test]
fn a_node_is_made_with_all_there_is_to_say() {
    let mut desired = desired();
    desired.provider_id = Some("baremetalhost:///a".into());
    desired.taints = vec![Taint {
        key: "t".into(),
        effect: "NoSchedule".into(),
        ..Taint::default()
    }];
    let node = registered(&desired, at(0));
    let spec = node.spec.expect("it has a spec");
    assert_eq!(spec.provider_id, desired.provider_id);
    assert_eq!(spec.taints.map(|taints| taints.len()), Some(1));
    let status = node.status.expect("it has a status");
    let kinds: Vec<_> = status
        .addresses
        .into_iter()
        .flatten()
        .map(|address| address.type_)
        .collect();
    assert_eq!(kinds, ["InternalIP", "Hostname"]);
    assert_eq!(status.capacity, status.allocatable);
}

#[test]
fn what_has_not_changed_is_not_written_but_every_five_minutes() {
    let desired = desired();
    let mut node = registered(&desired, at(0));
    let mut writes = 0;
    for second in 1..=3600 {
        if let Some(write) = next(&desired, Some(&node), at(second)) {
            let Write::Status(new) = write else {
                panic!("only the status: {write:?}")
            };
            assert_eq!(of(&new, "Ready").last_transition_time, Some(seconds(at(0))));
            node = *new;
            writes += 1;
        }
    }
    assert_eq!(writes, 12);
}

#[test]
fn what_changed_is_written_at_once() {
    type Change = (&'static str, fn(&mut Desired), fn(&mut Node), &'static str);
    let table: [Change; 9] = [
        ("nothing", |_| {}, |_| {}, "None"),
        (
            "a condition",
            |d| d.conditions[0].holds = false,
            |_| {},
            "Some(Status",
        ),
        (
            "a reason",
            |d| d.conditions[0].message = "else".into(),
            |_| {},
            "Some(Status",
        ),
        ("an address", |d| d.addresses.clear(), |_| {}, "Some(Status"),
        (
            "a label",
            |d| _ = d.labels.insert("more".into(), String::new()),
            |_| {},
            "Some(Update",
        ),
        (
            "a label taken off",
            |_| {},
            |n| n.metadata.labels = None,
            "Some(Update",
        ),
        (
            "a stranger's label",
            |_| {},
            |n| {
                _ = n
                    .metadata
                    .labels
                    .get_or_insert_default()
                    .insert("x".into(), "y".into());
            },
            "None",
        ),
        (
            "marked by those who did not hear of it",
            |_| {},
            |n| {
                let conditions = n
                    .status
                    .as_mut()
                    .and_then(|status| status.conditions.as_mut());
                conditions.expect("it has some")[0].status = "Unknown".into();
            },
            "Some(Status",
        ),
        (
            "asked to go",
            |d| d.conditions.clear(),
            |n| n.metadata.deletion_timestamp = Some(Time(at(1))),
            "None",
        ),
    ];
    for (name, change, meddle, expected) in table {
        let mut desired = desired();
        let mut node = registered(&desired, at(0));
        change(&mut desired);
        meddle(&mut node);
        let write = next(&desired, Some(&node), at(1));
        let said = format!("{write:?}");
        assert!(said.starts_with(expected), "{name}: {said}");
        // Done, it is done.
        if let Some(Write::Update(node) | Write::Status(node)) = write {
            assert_eq!(next(&desired, Some(&node), at(1)), None, "{name}");
        }
    }
}

#[test]
fn a_provider_id_is_given_once_and_never_changed() {
    let mut desired = desired();
    let mut node = registered(&desired, at(0));
    desired.provider_id = Some("ours".into());
    let Some(Write::Update(given)) = next(&desired, Some(&node), at(1)) else {
        panic!("it has none")
    };
    assert_eq!(
        given.spec.and_then(|spec| spec.provider_id).as_deref(),
        Some("ours")
    );
    node.spec.get_or_insert_default().provider_id = Some("the machine's".into());
    assert_eq!(next(&desired, Some(&node), at(1)), None);
}

#[test]
fn the_time_of_a_transition_is_that_of_the_value() {
    let mut desired = desired();
    let mut node = registered(&desired, at(0));
    let stranger = NodeCondition {
        type_: "KernelDeadlock".into(),
        status: "False".into(),
        ..NodeCondition::default()
    };
    let status = node.status.get_or_insert_default();
    status
        .conditions
        .get_or_insert_default()
        .push(stranger.clone());
    for (second, holds, message, transition) in [
        (10, false, "gone", 10),
        (20, false, "gone for good", 10),
        (30, true, "back", 30),
    ] {
        desired.conditions[0].holds = holds;
        desired.conditions[0].message = message.into();
        let Some(Write::Status(new)) = next(&desired, Some(&node), at(second)) else {
            panic!("{message}: it changed")
        };
        node = *new;
        assert_eq!(
            of(&node, "Ready").last_transition_time,
            Some(seconds(at(transition))),
            "{message}"
        );
        assert_eq!(
            of(&node, "Ready").last_heartbeat_time,
            Some(seconds(at(second))),
            "{message}"
        );
        assert_eq!(of(&node, "KernelDeadlock"), &stranger);
    }
}
