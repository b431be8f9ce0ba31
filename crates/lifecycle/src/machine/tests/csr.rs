//! Certificates that are expected, and those that are not.

use std::time::Duration;

use super::{machine, now};
use crate::machine::csr::{CLIENT_SIGNER, Request, SERVING_SIGNER, Verdict, judge};
use crate::machine::{Address, AddressKind, Machine, NodeRef, NodeSeen};

fn set(values: &[&str]) -> std::collections::BTreeSet<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn client() -> Request {
    Request {
        signer: CLIENT_SIGNER.into(),
        username: "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
            .into(),
        groups: set(&["system:bootstrappers"]),
        usages: set(&["client auth", "digital signature"]),
        created: Some(now()),
        common_name: "system:node:w0".into(),
        organizations: vec!["system:nodes".into()],
        ..Request::default()
    }
}

fn serving() -> Request {
    Request {
        signer: SERVING_SIGNER.into(),
        username: "system:node:w0".into(),
        groups: set(&["system:nodes", "system:authenticated"]),
        usages: set(&["server auth", "digital signature"]),
        dns_names: vec!["w0".into()],
        ips: vec!["192.0.2.7".parse().unwrap()],
        ..client()
    }
}

fn expecting() -> Machine {
    let mut machine = machine();
    machine.provider_id = "baremetalhost:///api/w0/uid".into();
    let address = |kind, text: &str| Address {
        kind,
        address: text.into(),
    };
    machine.status.addresses = vec![
        address(AddressKind::InternalIp, "192.0.2.7"),
        address(AddressKind::Hostname, "w0"),
    ];
    machine
}

fn linked() -> Machine {
    let mut machine = expecting();
    machine.status.node_ref = Some(NodeRef {
        name: "w0".into(),
        ..NodeRef::default()
    });
    machine
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Approve { .. } => "approve",
        Verdict::Wait { .. } => "wait",
        Verdict::Leave { .. } => "leave",
    }
}

#[test]
fn a_first_certificate_is_approved_for_a_machine_without_a_node_and_for_nobody_else() {
    type Change = fn(&mut Request, &mut Machine);
    let rows: [(&str, Change, &str); 12] = [
        ("as expected", |_, _| (), "approve"),
        (
            "by host name",
            |_, machine| {
                machine.status.addresses.clear();
                machine
                    .annotations
                    .insert("metal3.io/BareMetalHost".into(), "api/w0".into());
            },
            "approve",
        ),
        (
            "another name",
            |request, _| request.common_name = "system:node:evil".into(),
            "wait",
        ),
        (
            "not a node",
            |request, _| request.common_name = "system:admin".into(),
            "leave",
        ),
        (
            "another group",
            |request, _| request.organizations = vec!["system:masters".into()],
            "leave",
        ),
        (
            "two groups",
            |request, _| request.organizations.push("system:masters".into()),
            "leave",
        ),
        (
            "by a node",
            |request, _| request.groups = set(&["system:nodes"]),
            "leave",
        ),
        (
            "with addresses",
            |request, _| request.ips = vec!["192.0.2.7".parse().unwrap()],
            "leave",
        ),
        (
            "to serve",
            |request, _| {
                request.usages.insert("server auth".into());
            },
            "leave",
        ),
        (
            "too old",
            |request, _| request.created = Some(now() - Duration::from_hours(3)),
            "leave",
        ),
        (
            "not provisioned",
            |_, machine| machine.provider_id.clear(),
            "wait",
        ),
        ("deleted", |_, machine| machine.deleting = true, "wait"),
    ];
    for (name, change, wanted) in rows {
        let (mut request, mut machine) = (client(), expecting());
        change(&mut request, &mut machine);
        let verdict = judge(&request, &[machine], &[], now());
        assert_eq!(word(&verdict), wanted, "{name}: {verdict:?}");
    }
    let node = NodeSeen {
        name: "w0".into(),
        ..NodeSeen::default()
    };
    assert_eq!(
        word(&judge(&client(), &[expecting()], &[node], now())),
        "leave",
        "the Node is there already"
    );
    assert_eq!(word(&judge(&client(), &[linked()], &[], now())), "wait");
    assert_eq!(
        word(&judge(&client(), &[expecting(), expecting()], &[], now())),
        "wait"
    );
}

#[test]
fn a_serving_certificate_is_approved_for_addresses_the_machine_has() {
    type Change = fn(&mut Request, &mut Machine);
    let rows: [(&str, Change, &str); 8] = [
        ("as expected", |_, _| (), "approve"),
        (
            "another address",
            |request, _| request.ips.push("192.0.2.8".parse().unwrap()),
            "wait",
        ),
        (
            "another name",
            |request, _| request.dns_names.push("api.lab".into()),
            "wait",
        ),
        (
            "for another",
            |request, _| request.username = "system:node:w1".into(),
            "leave",
        ),
        (
            "no names",
            |request, _| {
                request.dns_names.clear();
                request.ips.clear();
            },
            "leave",
        ),
        ("a URI", |request, _| request.other_names = 1, "leave"),
        (
            "as a client",
            |request, _| {
                request.usages.insert("client auth".into());
            },
            "leave",
        ),
        (
            "unlinked",
            |_, machine| machine.status.node_ref = None,
            "wait",
        ),
    ];
    let node = NodeSeen {
        name: "w0".into(),
        ..NodeSeen::default()
    };
    for (name, change, wanted) in rows {
        let (mut request, mut machine) = (serving(), linked());
        change(&mut request, &mut machine);
        let verdict = judge(&request, &[machine], std::slice::from_ref(&node), now());
        assert_eq!(word(&verdict), wanted, "{name}: {verdict:?}");
    }
    assert_eq!(
        word(&judge(&serving(), &[linked()], &[], now())),
        "wait",
        "no Node yet"
    );
    let other = Request {
        signer: "example.com/own".into(),
        ..client()
    };
    assert_eq!(word(&judge(&other, &[expecting()], &[], now())), "leave");
}

#[test]
fn a_master_whose_addresses_nobody_has_seen_is_believed_and_nobody_else_is() {
    let node = NodeSeen {
        name: "w0".into(),
        internal_ips: vec!["192.0.2.7".into()],
        ..NodeSeen::default()
    };
    let unseen = |role: &str| {
        let mut machine = linked();
        machine.status.addresses.clear();
        let label = "machine.openshift.io/cluster-api-machine-role";
        machine.labels.insert(label.into(), role.into());
        machine
    };
    let judged = |request: &Request, machine: Machine| {
        word(&judge(
            request,
            &[machine],
            std::slice::from_ref(&node),
            now(),
        ))
    };
    assert_eq!(judged(&serving(), unseen("master")), "approve");
    assert_eq!(judged(&serving(), unseen("worker")), "wait");
    let mut seen = unseen("master");
    seen.status.addresses = vec![Address {
        kind: AddressKind::InternalIp,
        address: "192.0.2.8".into(),
    }];
    assert_eq!(judged(&serving(), seen), "wait", "its address is another");
    let by_name = Request {
        ips: Vec::new(),
        ..serving()
    };
    assert_eq!(judged(&by_name, unseen("worker")), "approve");
    let foreign = Request {
        ips: vec!["192.0.2.9".parse().unwrap()],
        ..serving()
    };
    assert_eq!(judged(&foreign, unseen("master")), "wait");
}
