use super::*;
use crate::install_config::{Facts, parse};

fn plan(text: &str) -> Plan {
    Plan::new(&parse(text, &Facts::default()).unwrap().config, None)
}

const PXE: &str = include_str!("../../../../examples/pxe.yaml");

#[test]
fn the_plan_of_every_example_is_as_agreed() {
    for (name, text) in [
        ("pxe", PXE),
        (
            "virtual-media",
            include_str!("../../../../examples/virtual-media.yaml"),
        ),
        (
            "dual-stack",
            include_str!("../../../../examples/dual-stack.yaml"),
        ),
        ("compact", include_str!("../../../../examples/compact.yaml")),
        (
            "single-node",
            include_str!("../../../../examples/single-node.yaml"),
        ),
        (
            "static-bonds-vlans",
            include_str!("../../../../examples/static-bonds-vlans.yaml"),
        ),
    ] {
        let plan = plan(text);
        insta::assert_snapshot!(format!("table-{name}"), plan.render());
        insta::assert_json_snapshot!(format!("plan-{name}"), plan);
    }
}

#[test]
fn every_bmc_scheme_is_planned() {
    let mut lines = String::new();
    for scheme in model::Scheme::ALL {
        let address = format!("{}://192.0.2.101/redfish/v1/Systems/1", scheme.name());
        let plan = plan(&PXE.replacen("redfish://192.0.2.101/redfish/v1/Systems/1", &address, 1));
        let bmc = serde_json::to_string(&plan.hosts[0].bmc).unwrap();
        lines.push_str(&bmc);
        lines.push('\n');
    }
    insta::assert_snapshot!(lines);
}

#[test]
fn an_infra_id_is_cut_and_clean() {
    let made = |name: &str| Identity::new(name, "abcde", String::new()).infra_id;
    assert_eq!(made("mycluster"), "mycluster-abcde");
    assert_eq!(made("a..b--c"), "a-b-c-abcde");
    assert_eq!(
        made("a23456789b123456789c-23456789"),
        "a23456789b123456789c-abcde"
    );
}

#[test]
fn the_bootstrap_is_above_every_master_and_no_two_nodes_are_equal() {
    for vip in plan(PXE).vips {
        let mut bases: Vec<_> = vip.holders.iter().map(|holder| holder.best).collect();
        let top = bases[0];
        assert!(bases[1..].iter().all(|best| *best < top) || vip.purpose == "ingress");
        bases.dedup();
        assert_eq!(bases.len(), vip.holders.len(), "{}", vip.name);
    }
}

#[test]
fn a_host_beyond_the_replicas_stays_in_reserve() {
    let plan = plan(&PXE.replace("replicas: 2", "replicas: 1"));
    let spare = plan.hosts.last().unwrap();
    assert_eq!((spare.role, spare.node.as_deref()), (None, None));
}

#[test]
fn a_difference_is_told_by_name() {
    let before = serde_json::to_value(plan(PXE)).unwrap();
    let after = serde_json::to_value(plan(
        &PXE.replace("- 192.0.2.5", "- 192.0.2.7")
            .replace("change-me", "hunter2"),
    ))
    .unwrap();
    let changes: Vec<_> = diff(&before, &after)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        changes[0],
        "~ certificates[apiserver].names[13]: \"192.0.2.5\" -> \"192.0.2.7\""
    );
    assert!(
        changes.contains(&"~ vips[api].address: \"192.0.2.5\" -> \"192.0.2.7\"".to_owned()),
        "{changes:?}"
    );
    assert_eq!(diff(&before, &before), []);
}

#[test]
fn no_secret_is_in_a_plan() {
    let plan = plan(&PXE.replace("change-me", "hunter2"));
    let all = format!(
        "{plan:?}{}{}",
        plan.render(),
        serde_json::to_string(&plan).unwrap()
    );
    assert!(!all.contains("hunter2"));
}

#[test]
fn five_hundred_hosts_are_no_burden() {
    use std::fmt::Write as _;
    let (head, tail) = PXE.split_once("payload:").unwrap();
    let mut text = head.replace("replicas: 2", "replicas: 490");
    for n in 10..500 {
        _ = write!(
            text,
            "      - name: more-{n}\n        role: worker\n        bmc: {{address: 'ipmi://198.51.{}.{}', username: a, password: b}}\n        bootMACAddress: 52:54:00:00:{:02x}:{:02x}\n",
            n / 250,
            n % 250 + 1,
            n / 256 + 1,
            n % 256
        );
    }
    text.push_str("payload:");
    text.push_str(tail);
    let plan = plan(&text);
    assert_eq!(plan.hosts.len(), 495);
    assert_eq!(
        plan.hosts
            .iter()
            .filter(|host| host.role == Some(Role::Worker))
            .count(),
        490
    );
}
