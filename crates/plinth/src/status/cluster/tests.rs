//! A cluster in words, from what its API would say.

use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

pub fn heard() -> Heard {
    let condition = |kind: &str, status: &str, why: &str| json!({"type": kind, "status": status, "message": why, "lastTransitionTime": "2026-01-01T00:05:00Z"});
    let node = |name: &str, role: &str, conditions: Vec<Value>| {
        json!({
            "metadata": {"name": name, "labels": {format!("node-role.kubernetes.io/{role}"): ""}},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "192.0.2.20"}, {"type": "Hostname", "address": name}],
                "conditions": conditions,
            },
        })
    };
    let well = |kind: &str| condition(kind, "True", "well");
    Heard {
        name: Some("lab".into()),
        url: "https://192.0.2.5:6443".into(),
        version: Ok(json!({"gitVersion": "v1.33.0"})),
        bootstrap: Ok(json!({"data": {"status": "complete"}})),
        lease: Ok(json!({
            "metadata": {"annotations": {"plinth.io/images": "ready"}},
            "spec": {"holderIdentity": "master-0", "renewTime": "2026-01-01T00:09:57.000000Z"},
        })),
        nodes: Ok(vec![
            node(
                "master-0",
                "master",
                ["Ready", "APIServerReady", "EtcdMemberReady"]
                    .map(well)
                    .into(),
            ),
            node(
                "master-1",
                "master",
                vec![
                    well("Ready"),
                    well("APIServerReady"),
                    condition("EtcdMemberReady", "False", "the member still learns"),
                ],
            ),
            node(
                "worker-0",
                "worker",
                vec![condition(
                    "Ready",
                    "Unknown",
                    "the node stopped renewing its Lease",
                )],
            ),
        ]),
        machines: Ok(vec![
            json!({"metadata": {"name": "a"}, "status": {"phase": "Running"}}),
            json!({"metadata": {"name": "b"}, "status": {"phase": "Failed", "errorMessage": "no host fits"}}),
            json!({"metadata": {"name": "c"}}),
        ]),
        machine_sets: Ok(vec![
            json!({"metadata": {"name": "lab-worker-0"}, "spec": {"replicas": 2}, "status": {"readyReplicas": 1}}),
        ]),
        hosts: Ok(vec![
            json!({
                "metadata": {"name": "master-0"},
                "spec": {"bootMACAddress": "52:54:00:00:00:01"},
                "status": {"provisioning": {"state": "externally provisioned"}},
            }),
            json!({
                "metadata": {"name": "worker-9"},
                "status": {
                    "provisioning": {"state": "registering"},
                    "errorType": "registration error", "errorMessage": "the BMC refuses the password",
                },
            }),
        ]),
        vips: vec![
            VipHeard {
                purpose: "api".into(),
                address: "192.0.2.5".into(),
                answer: Ok(2),
                mac: Some("52:54:00:00:00:01".into()),
                beside: Vec::new(),
            },
            VipHeard {
                purpose: "ingress".into(),
                address: "192.0.2.6".into(),
                answer: Err("connection refused".into()),
                mac: None,
                beside: Vec::new(),
            },
        ],
    }
}

#[test]
fn a_cluster_is_shown_with_its_troubles() {
    insta::assert_snapshot!(Cluster::new(&heard()).render(now()));
}

#[test]
fn a_holder_is_a_node_before_it_is_a_host() {
    let mut heard = heard();
    heard.vips[0].beside = vec!["192.0.2.20".into()];
    heard.hosts = Ok(Vec::new());
    let cluster = Cluster::new(&heard);
    assert_eq!(cluster.vips[0].holder.as_deref(), Some("master-0"));
}

#[test]
fn a_cluster_that_does_not_answer_says_so_once() {
    let silent = || Err(format!("{SILENT} within 5 s"));
    let cluster = Cluster::new(&Heard {
        version: silent().map(|()| Value::Null),
        bootstrap: silent().map(|()| Value::Null),
        lease: silent().map(|()| Value::Null),
        nodes: silent().map(|()| Vec::new()),
        machines: silent().map(|()| Vec::new()),
        machine_sets: silent().map(|()| Vec::new()),
        hosts: silent().map(|()| Vec::new()),
        ..heard()
    });
    let text = cluster.render(now());
    assert_eq!(text.matches(SILENT).count(), 2, "{text}");
    assert_eq!(cluster.bootstrap_complete, None);
    assert!(cluster.troubles.is_empty(), "{:?}", cluster.troubles);
}

#[test]
fn ages_are_told_in_their_largest_unit() {
    let at = |seconds| {
        age(
            Timestamp::UNIX_EPOCH,
            Timestamp::from_second(seconds).unwrap(),
        )
    };
    let told = [0, 119, 120, 7199, 7200, 172_800].map(at);
    assert_eq!(told, ["0s", "119s", "2m", "119m", "2h", "2d"]);
    assert_eq!(
        age(Timestamp::from_second(5).unwrap(), Timestamp::UNIX_EPOCH),
        "0s"
    );
}
