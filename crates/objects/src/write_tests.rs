use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::kinds::{Registry, tests_widget};
use crate::schema::arbitrary;

fn now() -> Timestamp {
    "2026-11-15T16:00:00.5Z".parse().unwrap()
}

fn builtin(group: &str, plural: &str) -> Arc<Kind> {
    Registry::builtin().find(group, "v1", plural).unwrap()
}

fn birth() -> Birth<'static> {
    Birth {
        namespace: "ns",
        name: "",
        uid: "u-1",
        suffix: "x7k2p",
        now: now(),
    }
}

fn made(kind: &Kind, body: Value) -> Result<Value, Status> {
    let prepared = prepare(kind, body, "ns", "")?;
    create(kind, prepared.object, birth())
}

fn updated(kind: &Kind, old: &Value, new: Value, subresource: &str) -> Result<Value, Status> {
    let prepared = prepare(kind, new, "ns", "a")?;
    update(kind, old, prepared.object, subresource, now())
}

#[test]
fn a_new_object_is_born_with_identity_defaults_and_no_status() {
    let body = json!({"metadata": {"name": "a", "creationTimestamp": null}, "spec": {"unknown": 1}, "status": {"phase": "x"}});
    let kind = tests_widget();
    let prepared = prepare(&kind, body, "ns", "").unwrap();
    assert_eq!(prepared.unknown, ["spec.unknown"]);
    assert_eq!(
        create(&kind, prepared.object, birth()).unwrap(),
        json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "a", "namespace": "ns", "uid": "u-1", "generation": 1,
                "creationTimestamp": "2026-11-15T16:00:00Z"},
            "spec": {"color": "red"}})
    );
}

#[test]
fn a_generated_name_ends_in_the_suffix() {
    let long = "p".repeat(80);
    for (prefix, name) in [
        ("web-", "web-x7k2p".to_owned()),
        (&long, format!("{}x7k2p", &long[..58])),
    ] {
        let object = made(
            &tests_widget(),
            json!({"metadata": {"generateName": prefix}, "spec": {}}),
        )
        .unwrap();
        assert_eq!(object["metadata"]["name"], json!(name));
    }
}

#[test]
fn bodies_for_another_place_are_refused() {
    let table = [
        json!({"apiVersion": "example.com/v2", "metadata": {"name": "a"}}),
        json!({"kind": "Gadget", "metadata": {"name": "a"}}),
        json!({"metadata": {"name": "a", "namespace": "other"}}),
        json!({"metadata": {"name": "b"}}),
        json!({"metadata": 3}),
        json!([]),
    ];
    for body in table {
        let status = prepare(&tests_widget(), body.clone(), "ns", "a").unwrap_err();
        assert_eq!(status.code, 400, "{body}");
    }
    let versioned = json!({"metadata": {"name": "a", "resourceVersion": "5"}, "spec": {}});
    assert_eq!(made(&tests_widget(), versioned).unwrap_err().code, 400);
}

#[test]
fn everything_wrong_is_said_in_one_answer() {
    let body = json!({"metadata": {"name": "A_"}, "spec": {"color": "green", "replicas": -1}});
    let status = made(&tests_widget(), body).unwrap_err();
    assert_eq!(status.code, 422);
    let fields: Vec<_> = status
        .details
        .unwrap()
        .causes
        .into_iter()
        .map(|cause| cause.field)
        .collect();
    assert_eq!(fields, ["metadata.name", "spec.color", "spec.replicas"]);
}

#[test]
fn a_built_in_kind_with_a_wrong_type_is_a_bad_request() {
    let status = made(
        &builtin("", "configmaps"),
        json!({"metadata": {"name": "a"}, "data": {"x": 1}}),
    )
    .unwrap_err();
    assert_eq!(status.code, 400);
    assert!(
        status
            .message
            .starts_with("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: data.x"),
        "{status}"
    );
    let status = made(
        &builtin("", "secrets"),
        json!({"metadata": {"name": "a"}, "data": {"x": "?"}}),
    )
    .unwrap_err();
    assert_eq!(status.code, 400);
}

#[test]
fn spec_and_status_are_written_apart() {
    let kind = tests_widget();
    let mut old = made(
        &kind,
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}}),
    )
    .unwrap();
    old["status"] = json!({"phase": "Old"});
    let both = json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "spec": {"replicas": 2}, "status": {"phase": "New"}});
    let spec = updated(&kind, &old, both.clone(), "").unwrap();
    assert_eq!(spec["status"]["phase"], "Old");
    assert_eq!(spec["spec"]["replicas"], 2);
    assert_eq!(spec["metadata"]["generation"], 2);
    assert_eq!(spec["metadata"]["labels"]["l"], "1");
    let status = updated(&kind, &old, both, "status").unwrap();
    assert_eq!(status["status"]["phase"], "New");
    assert_eq!(status["spec"]["replicas"], 1);
    assert_eq!(status["metadata"], old["metadata"]);
}

#[test]
fn an_update_that_changes_nothing_gives_the_same_object() {
    let kind = tests_widget();
    let mut old = made(&kind, json!({"metadata": {"name": "a"}, "spec": {}})).unwrap();
    old["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(
        updated(
            &kind,
            &old,
            json!({"metadata": {"name": "a"}, "spec": {}}),
            ""
        )
        .unwrap(),
        old
    );
    assert_eq!(updated(&kind, &old, old.clone(), "").unwrap(), old);
    let labelled = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {}});
    assert_eq!(
        updated(&kind, &old, labelled, "").unwrap()["metadata"]["generation"],
        1
    );
}

#[test]
fn another_identity_is_a_conflict() {
    let kind = tests_widget();
    let old = made(&kind, json!({"metadata": {"name": "a"}, "spec": {}})).unwrap();
    let mut new = old.clone();
    new["metadata"]["uid"] = json!("other");
    assert_eq!(updated(&kind, &old, new, "").unwrap_err().code, 409);
}

#[test]
fn a_namespace_has_its_own_finalizer_and_phase() {
    let kind = builtin("", "namespaces");
    let prepared = prepare(&kind, json!({"metadata": {"name": "a"}}), "", "").unwrap();
    let namespace = create(
        &kind,
        prepared.object,
        Birth {
            namespace: "",
            ..birth()
        },
    )
    .unwrap();
    assert_eq!(namespace["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(namespace["status"], json!({"phase": "Active"}));
    assert_eq!(
        namespace["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": "a"})
    );
    let Deletion::Marked(leaving) = delete(&kind, &namespace, Propagation::Background, now())
    else {
        panic!("its finalizer holds it");
    };
    assert_eq!(leaving["status"]["phase"], "Terminating");
    assert!(!is_done(&leaving));
    let mut emptied = leaving.clone();
    emptied["spec"]["finalizers"] = json!([]);
    let unchanged = update(&kind, &leaving, emptied.clone(), "", now()).unwrap();
    assert_eq!(unchanged, leaving);
    assert!(is_done(
        &update(&kind, &leaving, emptied, "finalize", now()).unwrap()
    ));
}

#[test]
fn finalizers_hold_an_object_until_they_are_gone() {
    let kind = tests_widget();
    let free = made(&kind, json!({"metadata": {"name": "a"}, "spec": {}})).unwrap();
    assert_eq!(
        delete(&kind, &free, Propagation::Background, now()),
        Deletion::Now
    );
    let held = made(
        &kind,
        json!({"metadata": {"name": "a", "finalizers": ["x/y"]}, "spec": {}}),
    )
    .unwrap();
    let Deletion::Marked(marked) = delete(&kind, &held, Propagation::Background, now()) else {
        panic!("a finalizer holds it");
    };
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-11-15T16:00:00Z"
    );
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);
    assert!(!is_done(&marked));
    assert_eq!(
        delete(&kind, &marked, Propagation::Background, now()),
        Deletion::Pending
    );
    let mut released = marked.clone();
    released["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("finalizers");
    released["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("deletionTimestamp");
    let released = updated(&kind, &marked, released, "").unwrap();
    assert_eq!(
        released["metadata"]["deletionTimestamp"],
        "2026-11-15T16:00:00Z"
    );
    assert!(is_done(&released));
}

#[test]
fn propagation_is_a_finalizer() {
    let kind = tests_widget();
    let object = made(&kind, json!({"metadata": {"name": "a"}, "spec": {}})).unwrap();
    for (propagation, name) in [
        (Propagation::Foreground, "foregroundDeletion"),
        (Propagation::Orphan, "orphan"),
    ] {
        let Deletion::Marked(marked) = delete(&kind, &object, propagation, now()) else {
            panic!("it waits");
        };
        assert_eq!(marked["metadata"]["finalizers"], json!([name]));
    }
}

#[test]
fn conditions_of_a_signing_request_get_their_times() {
    let kind = builtin("certificates.k8s.io", "certificatesigningrequests");
    let body = json!({"metadata": {"name": "a"}, "spec": {"request": "eA==", "usages": ["client auth"],
        "signerName": "kubernetes.io/kube-apiserver-client"}});
    let prepared = prepare(&kind, body, "", "").unwrap();
    let old = create(
        &kind,
        prepared.object,
        Birth {
            namespace: "",
            ..birth()
        },
    )
    .unwrap();
    let mut new = old.clone();
    new["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    let approved = update(&kind, &old, new, "approval", now()).unwrap();
    assert_eq!(
        approved["status"]["conditions"][0]["lastUpdateTime"],
        "2026-11-15T16:00:00Z"
    );
    assert_eq!(
        update(&kind, &approved, approved.clone(), "approval", now()).unwrap(),
        approved
    );
}

proptest! {
    #[test]
    fn any_update_by_any_way_is_kept_or_refused(body in arbitrary::json(), other in arbitrary::json(), way in 0..5_usize) {
        let way = ["", "status", "approval", "finalize", "scale"][way];
        let kinds = Registry::builtin();
        let widget = tests_widget();
        for kind in kinds.all().chain([&widget]) {
            let Ok(prepared) = prepare(kind, json!({"metadata": {"name": "a"}, "spec": body, "status": other}), "ns", "a") else { continue };
            let Ok(old) = create(kind, prepared.object, birth()) else { continue };
            let Ok(prepared) = prepare(kind, json!({"metadata": {"name": "a"}, "spec": other, "status": body}), "ns", "a") else { continue };
            if let Ok(new) = update(kind, &old, prepared.object, way, now()) {
                prop_assert_eq!(&new["metadata"]["uid"], &old["metadata"]["uid"]);
                delete(kind, &new, Propagation::Foreground, now());
            }
        }
    }

    #[test]
    fn any_body_is_kept_or_refused_and_keeping_it_again_changes_nothing(body in arbitrary::json()) {
        let kinds = Registry::builtin();
        let widget = tests_widget();
        for kind in kinds.all().chain([&widget]) {
            let mut body = body.clone();
            if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
                metadata.insert("name".into(), json!("a"));
            }
            let Ok(prepared) = prepare(kind, body, "ns", "a") else { continue };
            let Ok(made) = create(kind, prepared.object, birth()) else { continue };
            let again = prepare(kind, made.clone(), "ns", "a").unwrap();
            prop_assert!(again.unknown.is_empty());
            let kept = update(kind, &made, again.object, "", now()).unwrap();
            prop_assert_eq!(kept, made);
        }
    }
}
