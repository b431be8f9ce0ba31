//! What a Machine does when something happens to it or its host.

use serde_json::json;

use super::{host, machine, now, step};
use crate::host::{Image, ObjectRef, State};
use crate::machine::{
    Action, AddressKind, Config, HOST_ANNOTATION, HostChange, HostSeen, Link, Machine, NodeRef,
    NodeSeen, Observed, Phase, Step, Taint, host_ref, link, may_be, next, provider_id,
};

/// A host that this Machine claimed, in a state.
fn claimed(by: &Machine, state: State) -> HostSeen {
    let mut host = host("h0", state);
    host.spec.consumer_ref = Some(host_ref(by));
    host.spec.image = Some(Image {
        url: "http://images/a".into(),
        checksum: "c0ffee".into(),
        ..Image::default()
    });
    host.spec.user_data = Some(crate::host::SecretRef {
        name: "worker-user-data".into(),
        namespace: "api".into(),
    });
    host.spec.online = true;
    host
}

/// A Machine whose host runs.
fn running() -> Machine {
    let mut machine = machine();
    machine.provider_id = "baremetalhost:///api/h0/uid-h0".into();
    machine
        .annotations
        .insert(HOST_ANNOTATION.into(), "api/h0".into());
    machine
}

fn actions(step: Step) -> Vec<Action> {
    let Step::Do(actions) = step else {
        panic!("{step:?}")
    };
    actions
}

fn chosen(machine: &Machine, hosts: &[HostSeen]) -> Option<String> {
    match step(machine, hosts) {
        Step::Do(actions) => actions.into_iter().find_map(|action| match action {
            Action::ChangeHost { name, .. } => Some(name),
            _ => None,
        }),
        Step::Wait { .. } | Step::Done => None,
    }
}

fn saved(step: Step) -> crate::machine::Status {
    let found = actions(step).into_iter().find_map(|action| match action {
        Action::Save(status) => Some(*status),
        _ => None,
    });
    found.unwrap()
}

#[test]
fn only_hosts_that_are_free_and_match_are_chosen() {
    type Change = fn(&mut HostSeen);
    let free = || host("h0", State::Available);
    let rows: [(&str, Change, bool); 13] = [
        ("free", |_| (), true),
        (
            "consumed",
            |host| host.spec.consumer_ref = Some(ObjectRef::default()),
            false,
        ),
        ("deleted", |host| host.deleting = true, false),
        ("inspected", |host| host.state = State::Inspecting, false),
        ("in use", |host| host.state = State::Provisioned, false),
        ("failed", |host| host.error_message = "broken".into(), false),
        (
            "external",
            |host| host.spec.externally_provisioned = true,
            false,
        ),
        ("detached", |host| host.detached = true, false),
        (
            "paused",
            |host| {
                host.annotations
                    .insert("baremetalhost.metal3.io/paused".into(), String::new());
            },
            false,
        ),
        (
            "unhealthy",
            |host| {
                host.annotations
                    .insert("capm3.metal3.io/unhealthy".into(), String::new());
            },
            false,
        ),
        ("elsewhere", |host| host.namespace = "other".into(), false),
        (
            "labelled",
            |host| {
                host.labels.insert("rack".into(), "1".into());
            },
            true,
        ),
        ("powered on", |host| host.powered_on = true, true),
    ];
    for (name, change, wanted) in rows {
        let mut host = free();
        change(&mut host);
        assert_eq!(chosen(&machine(), &[host]).is_some(), wanted, "{name}");
    }
    let mut picky = machine();
    picky.provider_spec["hostSelector"] = json!({"matchLabels": {"rack": "1"}, "matchExpressions": [{"key": "size", "operator": "IN", "values": ["big"]}]});
    let mut fits = free();
    fits.labels = [
        ("rack".to_owned(), "1".to_owned()),
        ("size".to_owned(), "big".to_owned()),
    ]
    .into();
    assert_eq!(chosen(&picky, &[free()]), None);
    assert_eq!(
        chosen(
            &picky,
            &[
                free(),
                HostSeen {
                    name: "h1".into(),
                    ..fits
                }
            ]
        )
        .as_deref(),
        Some("h1")
    );
}

#[test]
fn a_claim_is_one_update_with_everything_in_it_at_the_version_seen() {
    let claim = actions(step(&machine(), &[host("h0", State::Available)]));
    let Action::ChangeHost {
        resource_version,
        change,
        ..
    } = &claim[0]
    else {
        panic!("{claim:?}")
    };
    assert_eq!(resource_version, "7");
    let wanted = claimed(&machine(), State::Available).current();
    assert_eq!(**change, wanted);
    assert_eq!(
        claim[1..],
        [
            Action::Annotate {
                key: HOST_ANNOTATION,
                value: "api/h0".into()
            },
            Action::Annotate {
                key: "machine.openshift.io/instance-state",
                value: "available".into()
            },
        ]
    );
}

#[test]
fn a_host_that_was_claimed_before_a_death_is_found_again_and_machines_spread() {
    let mine = claimed(&machine(), State::Provisioning);
    let hosts = [
        host("a", State::Available),
        host("b", State::Available),
        mine,
    ];
    let claim = actions(step(&machine(), &hosts));
    assert_eq!(
        claim[0],
        Action::Annotate {
            key: HOST_ANNOTATION,
            value: "api/h0".into()
        }
    );
    let free: Vec<HostSeen> = ["a", "b", "c", "d"]
        .map(|name| host(name, State::Available))
        .to_vec();
    let chosen: std::collections::BTreeSet<_> = (0..12)
        .map(|number| {
            let mut machine = machine();
            machine.uid = format!("uid-{number}");
            chosen(&machine, &free).unwrap()
        })
        .collect();
    assert!(chosen.len() > 1, "{chosen:?}");
}

#[test]
fn without_a_host_the_machine_says_so_and_waits() {
    let status = saved(step(&machine(), &[]));
    assert_eq!(
        status.error_reason.as_deref(),
        Some("InsufficientResources")
    );
    assert_eq!(status.phase, Some(Phase::Provisioning));
    let mut waits = machine();
    waits.status = status;
    assert!(matches!(step(&waits, &[]), Step::Wait { .. }));
}

#[test]
fn a_wrong_provider_spec_fails_the_machine_with_the_field() {
    let rows = [
        (json!(null), "providerSpec.value is missing"),
        (
            json!({"image": {"url": "u"}}),
            "providerSpec.value.image.checksum is missing",
        ),
        (
            json!({}),
            "providerSpec.value.image.url is missing; give it, or customDeploy.method",
        ),
        (
            json!({"colour": "red"}),
            "providerSpec.value: unknown field `colour`",
        ),
        (
            json!({"customDeploy": {"method": "m"}, "hostSelector": {"matchExpressions": [{"key": "k", "operator": "near"}]}}),
            "hostSelector.matchExpressions[0]: operator \"near\" is not known",
        ),
    ];
    for (spec, wanted) in rows {
        let mut machine = machine();
        machine.provider_spec = spec;
        let status = saved(step(&machine, &[]));
        assert_eq!(status.phase, Some(Phase::Failed));
        assert_eq!(status.error_reason.as_deref(), Some("InvalidConfiguration"));
        let message = status.error_message.unwrap();
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn a_provisioned_host_gives_id_addresses_and_a_phase() {
    let mut machine = machine();
    machine
        .annotations
        .insert(HOST_ANNOTATION.into(), "api/h0".into());
    let host = claimed(&machine, State::Provisioned);
    let done = actions(step(&machine, std::slice::from_ref(&host)));
    assert_eq!(
        done[0],
        Action::SetProviderId("baremetalhost:///api/h0/uid-h0".into())
    );
    let status = saved(Step::Do(done));
    assert_eq!(status.phase, Some(Phase::Provisioned));
    let said: Vec<String> = status
        .addresses
        .iter()
        .map(|seen| format!("{:?} {}", seen.kind, seen.address))
        .collect();
    assert_eq!(
        said,
        [
            "InternalIp 192.0.2.7",
            "InternalIp 2001:db8::7",
            "Hostname h0",
            "InternalDns h0"
        ]
    );
    assert_eq!(provider_id(&host), "baremetalhost:///api/h0/uid-h0");
}

#[test]
fn a_node_makes_the_machine_run_and_is_marked_once() {
    let mut machine = running();
    machine.node_labels = [("role".to_owned(), "worker".to_owned())].into();
    machine.taints = vec![Taint {
        key: "new".into(),
        effect: "NoSchedule".into(),
        ..Taint::default()
    }];
    let node = NodeSeen {
        name: "n0".into(),
        uid: "uid-n0".into(),
        ..NodeSeen::default()
    };
    let mut seen = Observed {
        hosts: vec![claimed(&machine, State::Provisioned)],
        node: Some(node),
    };
    let done = actions(next(&machine, &seen, &Config::default(), now()));
    assert!(done.contains(&Action::SetNodeProviderId {
        node: "n0".into(),
        provider_id: machine.provider_id.clone()
    }));
    let Some(Action::MarkNode {
        labels,
        annotations,
        taints,
        ..
    }) = done
        .iter()
        .find(|action| matches!(action, Action::MarkNode { .. }))
    else {
        panic!("{done:?}")
    };
    assert_eq!(annotations["machine.openshift.io/machine"], "api/m0");
    assert_eq!((labels.len(), taints.len()), (1, 1));
    let node = seen.node.as_mut().unwrap();
    node.provider_id = machine.provider_id.clone();
    node.labels = labels.clone();
    node.annotations = annotations.clone();
    let status = saved(Step::Do(done.clone()));
    assert_eq!(status.phase, Some(Phase::Running));
    assert_eq!(status.node_ref.as_ref().unwrap().name, "n0");
    machine.status = status;
    machine.annotations.insert(
        "machine.openshift.io/instance-state".into(),
        "provisioned".into(),
    );
    assert!(
        matches!(
            next(&machine, &seen, &Config::default(), now()),
            Step::Wait { .. }
        ),
        "a taint taken off stays off"
    );
}

#[test]
fn a_machine_whose_host_was_taken_away_fails_and_stays_failed() {
    let machine = running();
    let mut other = host("h0", State::Provisioned);
    other.spec.consumer_ref = Some(ObjectRef {
        name: "m9".into(),
        ..host_ref(&machine)
    });
    let mut anew = claimed(&machine, State::Provisioned);
    anew.uid = "uid-new".into();
    for hosts in [
        vec![],
        vec![other],
        vec![anew],
        vec![claimed(&machine, State::Deprovisioning)],
    ] {
        let status = saved(step(&machine, &hosts));
        assert_eq!(status.phase, Some(Phase::Failed), "{hosts:?}");
        let mut failed = machine.clone();
        failed.status = status;
        assert_eq!(step(&failed, &[host("h1", State::Available)]), Step::Done);
    }
}

#[test]
fn deletion_empties_the_host_waits_for_it_and_only_then_lets_go() {
    let mut machine = running();
    machine.deleting = true;
    assert_eq!(saved(step(&machine, &[])).phase, Some(Phase::Deleting));
    machine.status.phase = Some(Phase::Deleting);
    let full = claimed(&machine, State::Provisioned);
    let first = actions(step(&machine, std::slice::from_ref(&full)));
    let emptied = HostChange {
        consumer_ref: full.spec.consumer_ref.clone(),
        ..HostChange::default()
    };
    assert_eq!(first, [full.change(emptied)]);
    let empty = |state| {
        let mut host = claimed(&machine, state);
        host.spec.image = None;
        host.spec.user_data = None;
        host.spec.online = false;
        host
    };
    for state in [
        State::Provisioning,
        State::Provisioned,
        State::Deprovisioning,
    ] {
        assert!(
            matches!(step(&machine, &[empty(state)]), Step::Wait { .. }),
            "{state}"
        );
    }
    let mut external = empty(State::ExternallyProvisioned);
    external.powered_on = true;
    assert!(matches!(step(&machine, &[external]), Step::Wait { .. }));
    let free = empty(State::Available);
    assert_eq!(
        actions(step(&machine, std::slice::from_ref(&free))),
        [free.change(HostChange::default())]
    );
    let mut released = free;
    released.spec.consumer_ref = None;
    assert_eq!(
        actions(step(&machine, &[released])),
        [Action::RemoveFinalizer]
    );
    let seen = Observed {
        hosts: vec![],
        node: Some(NodeSeen {
            name: "n0".into(),
            ..NodeSeen::default()
        }),
    };
    assert_eq!(
        next(&machine, &seen, &Config::default(), now()),
        Step::Do(vec![Action::DeleteNode { node: "n0".into() }])
    );
}

#[test]
fn deletion_waits_for_draining_and_hooks() {
    let mut machine = running();
    machine.deleting = true;
    machine.status.phase = Some(Phase::Deleting);
    machine.status.node_ref = Some(NodeRef::default());
    let config = Config {
        drain: true,
        ..Config::default()
    };
    let says = |machine: &Machine| match next(machine, &Observed::default(), &config, now()) {
        Step::Wait { reason, .. } => reason,
        other => format!("{other:?}"),
    };
    assert_eq!(says(&machine), "its Node to be drained");
    machine
        .annotations
        .insert(crate::machine::EXCLUDE_DRAIN.into(), String::new());
    machine.pre_terminate_hooks = vec!["backup (ops)".into()];
    assert_eq!(says(&machine), "the pre-terminate hooks backup (ops)");
}

#[test]
fn a_node_belongs_to_the_machine_with_its_id_or_its_first_address() {
    let address = |machine: &mut Machine, ip: &str| {
        machine.status.addresses.push(crate::machine::Address {
            kind: AddressKind::InternalIp,
            address: ip.into(),
        });
    };
    let mut first = machine();
    first.provider_id = "baremetalhost:///api/h0/x".into();
    address(&mut first, "192.0.2.1");
    let mut second = machine();
    second.name = "m1".into();
    address(&mut second, "192.0.2.2");
    let node = |id: &str, ips: &[&str]| NodeSeen {
        name: "n".into(),
        provider_id: id.into(),
        internal_ips: ips.iter().map(|ip| (*ip).to_owned()).collect(),
        ..NodeSeen::default()
    };
    let machines = [first.clone(), second.clone()];
    let name = |link: Link<'_>| match link {
        Link::Machine(machine) => machine.name.clone(),
        Link::Nobody => "nobody".into(),
        Link::Ambiguous(names) => names.join(" or "),
    };
    assert_eq!(
        name(link(
            &node("baremetalhost:///api/h0/x", &["192.0.2.2"]),
            &machines
        )),
        "m0",
        "the id wins"
    );
    assert_eq!(
        name(link(&node("", &["192.0.2.2", "192.0.2.1"]), &machines)),
        "m1",
        "only the first address"
    );
    assert_eq!(name(link(&node("", &[]), &machines)), "nobody");
    second.status.addresses.clear();
    address(&mut second, "192.0.2.1");
    assert_eq!(
        name(link(
            &node("", &["192.0.2.1"]),
            &[first.clone(), second.clone()]
        )),
        "m0 or m1"
    );
    second.status.node_ref = Some(NodeRef {
        name: "other".into(),
        ..NodeRef::default()
    });
    assert_eq!(
        name(link(&node("", &["192.0.2.1"]), &[first, second])),
        "m0",
        "who has a Node keeps it"
    );
}

#[test]
fn a_node_whose_addresses_nobody_knows_belongs_to_the_machine_of_its_host() {
    let mut master = machine();
    let host = "api/master-0".to_owned();
    master.annotations.insert(HOST_ANNOTATION.into(), host);
    let node = NodeSeen {
        name: "master-0".into(),
        internal_ips: vec!["192.0.2.1".into()],
        ..NodeSeen::default()
    };
    let found = |machine: &Machine| {
        let linked = matches!(link(&node, std::slice::from_ref(machine)), Link::Machine(_));
        assert_eq!(linked, may_be(&node, machine));
        linked
    };
    assert!(!found(&master), "its host is not ready");
    master.provider_id = "baremetalhost:///api/master-0/x".into();
    assert!(found(&master));
    master.status.addresses.push(crate::machine::Address {
        kind: AddressKind::InternalIp,
        address: "192.0.2.9".into(),
    });
    assert!(!found(&master), "an address that is known must match");
}
