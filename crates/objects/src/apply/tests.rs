use proptest::prelude::*;

use super::*;
use crate::kinds::{Registry, tests_widget};
use crate::schema::arbitrary;
use std::sync::Arc;

fn schema() -> Arc<Schema> {
    tests_widget().schema.clone()
}

fn at(manager: &'static str, second: i64) -> Writer<'static> {
    Writer {
        manager,
        api_version: "example.com/v1",
        subresource: "",
        now: Timestamp::from_second(1_800_000_000 + second).unwrap(),
    }
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

fn applied(live: Option<&Value>, spec: &Value, writer: Writer<'_>) -> Result<Value, Status> {
    apply(live, &widget(spec), writer, false, &schema())
}

fn owned_by(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut entries = entries.into_iter().flatten();
    entries
        .find(|entry| entry["manager"] == manager)
        .map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

#[test]
fn a_first_apply_makes_the_object_and_owns_what_it_names() {
    let object = applied(None, &json!({"color": "red", "tags": ["x"]}), at("me", 0)).unwrap();
    assert_eq!(object["spec"], json!({"color": "red", "tags": ["x"]}));
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{"manager": "me", "operation": "Apply", "apiVersion": "example.com/v1", "time": "2027-01-15T08:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:color": {}, "f:tags": {"v:\"x\"": {}}}}}])
    );
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let spec = json!({"color": "red", "ports": [{"name": "x", "port": 1}], "labels": {"l": "1"}});
    let once = applied(None, &spec, at("me", 0)).unwrap();
    assert_eq!(applied(Some(&once), &spec, at("me", 60)).unwrap(), once);
}

#[test]
fn what_is_no_longer_applied_goes_unless_another_owns_it() {
    let first = applied(None, &json!({"color": "red", "replicas": 1, "ports": [{"name": "x", "port": 1}, {"name": "y"}], "labels": {"a": "1"}}), at("me", 0)).unwrap();
    let shared = applied(
        Some(&first),
        &json!({"replicas": 1, "ports": [{"name": "y"}]}),
        at("other", 1),
    )
    .unwrap();
    let after = applied(Some(&shared), &json!({"color": "red"}), at("me", 2)).unwrap();
    assert_eq!(
        after["spec"],
        json!({"color": "red", "replicas": 1, "ports": [{"name": "y"}]})
    );
    assert_eq!(owned_by(&after, "me"), json!({"f:spec": {"f:color": {}}}));
    let gone = applied(Some(&after), &json!({}), at("other", 3)).unwrap();
    assert_eq!(gone["spec"], json!({"color": "red"}));
}

#[test]
fn a_key_stays_with_an_item_that_another_shares() {
    let mine = applied(
        None,
        &json!({"ports": [{"name": "x", "port": 1}]}),
        at("me", 0),
    )
    .unwrap();
    let mut shared = mine.clone();
    shared["spec"]["ports"][0]["extra"] = json!("kept");
    track(Some(&mine), &mut shared, at("other", 1), &schema());
    let after = applied(Some(&shared), &json!({"ports": []}), at("me", 2)).unwrap();
    assert_eq!(
        after["spec"]["ports"],
        json!([{"name": "x", "extra": "kept"}])
    );
}

#[test]
fn another_managers_value_is_a_conflict_with_its_name() {
    let live = applied(
        None,
        &json!({"color": "red", "replicas": 1}),
        at("alice", 0),
    )
    .unwrap();
    let status = applied(Some(&live), &json!({"color": "blue"}), at("bob", 1)).unwrap_err();
    assert_eq!(status.code, 409);
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"alice\": .spec.color"
    );
    assert_eq!(
        json!(status.details.unwrap().causes),
        json!([{"reason": "FieldManagerConflict", "message": "conflict with \"alice\"", "field": ".spec.color"}])
    );
    let status = applied(
        Some(&live),
        &json!({"color": "blue", "replicas": 2}),
        at("bob", 1),
    )
    .unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 2 conflicts: conflicts with \"alice\":\n- .spec.color\n- .spec.replicas"
    );
}

#[test]
fn the_same_value_is_shared_and_force_takes_over() {
    let live = applied(None, &json!({"color": "red"}), at("alice", 0)).unwrap();
    let shared = applied(Some(&live), &json!({"color": "red"}), at("bob", 1)).unwrap();
    assert_eq!(owned_by(&shared, "alice"), owned_by(&shared, "bob"));
    let taken = apply(
        Some(&shared),
        &widget(&json!({"color": "blue"})),
        at("bob", 2),
        true,
        &schema(),
    )
    .unwrap();
    assert_eq!(taken["spec"]["color"], "blue");
    assert_eq!(owned_by(&taken, "alice"), Value::Null);
}

#[test]
fn atomic_parts_are_owned_as_a_whole() {
    let live = applied(
        None,
        &json!({"plain": ["a"], "unit": {"a": "1"}}),
        at("alice", 0),
    )
    .unwrap();
    let status = applied(
        Some(&live),
        &json!({"plain": ["a", "b"], "unit": {"b": "1"}}),
        at("bob", 1),
    )
    .unwrap_err();
    assert_eq!(status.details.unwrap().causes.len(), 2);
    let same = applied(
        Some(&live),
        &json!({"plain": ["b"], "unit": {"b": "2"}}),
        at("alice", 1),
    )
    .unwrap();
    assert_eq!(same["spec"], json!({"plain": ["b"], "unit": {"b": "2"}}));
}

#[test]
fn an_update_owns_what_it_changed_and_takes_it_from_others() {
    let live = applied(
        None,
        &json!({"color": "red", "replicas": 1, "tags": ["x"]}),
        at("me", 0),
    )
    .unwrap();
    let mut changed = live.clone();
    changed["spec"] = json!({"color": "blue", "replicas": 1});
    track(Some(&live), &mut changed, at("kubectl-edit", 1), &schema());
    assert_eq!(
        owned_by(&changed, "kubectl-edit"),
        json!({"f:spec": {"f:color": {}}})
    );
    assert_eq!(
        owned_by(&changed, "me"),
        json!({"f:spec": {"f:replicas": {}}})
    );
    let status = applied(Some(&changed), &json!({"color": "red"}), at("me", 2)).unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using example.com/v1 at 2027-01-15T08:00:01Z: .spec.color"
    );
}

#[test]
fn a_create_owns_everything_and_an_empty_update_nothing() {
    let mut object = widget(&json!({"color": "red", "labels": {"l": "1"}}));
    track(None, &mut object, at("kubectl-create", 0), &schema());
    assert_eq!(
        owned_by(&object, "kubectl-create"),
        json!({"f:spec": {"f:color": {}, "f:labels": {".": {}, "f:l": {}}}})
    );
    let mut same = object.clone();
    track(Some(&object), &mut same, at("other", 5), &schema());
    assert_eq!(same, object);
}

#[test]
fn an_object_without_owners_belongs_to_before_first_apply() {
    let live = widget(&json!({"color": "red"}));
    let status = applied(Some(&live), &json!({"color": "blue"}), at("me", 0)).unwrap_err();
    assert!(
        status
            .message
            .contains("conflict with \"before-first-apply\""),
        "{status}"
    );
}

#[test]
fn status_and_the_rest_are_applied_apart() {
    let mut body = widget(&json!({"color": "red"}));
    body["status"] = json!({"phase": "Ready"});
    let made = apply(None, &body, at("me", 0), false, &schema()).unwrap();
    assert_eq!(made.get("status"), None);
    let status = Writer {
        subresource: "status",
        ..at("controller", 1)
    };
    let mut body = widget(&json!({"color": "ignored"}));
    body["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let after = apply(Some(&made), &body, status, false, &schema()).unwrap();
    assert_eq!(after["spec"]["color"], "red");
    assert_eq!(after["status"], body["status"]);
    let entry = &after["metadata"]["managedFields"][1];
    assert_eq!(entry["subresource"], "status");
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}, "f:type": {}}}}})
    );
}

#[test]
fn nulls_and_server_fields_in_a_manifest_are_nobodys() {
    let mut live = applied(None, &json!({"color": "red"}), at("me", 0)).unwrap();
    live["metadata"]["creationTimestamp"] = json!("2026-11-15T16:00:00Z");
    let mut body = widget(&json!({"color": "red", "replicas": null}));
    body["metadata"]["creationTimestamp"] = Value::Null;
    let after = apply(Some(&live), &body, at("me", 1), false, &schema()).unwrap();
    assert_eq!(after, live);
}

#[test]
fn built_in_kinds_merge_by_their_keys() {
    let node = Registry::builtin().find("", "v1", "nodes").unwrap();
    let writer = Writer {
        api_version: "v1",
        subresource: "status",
        ..at("kubelet", 0)
    };
    let live = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [{"type": "Disk", "status": "True"}]}});
    let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let after = apply(Some(&live), &body, writer, false, &node.schema).unwrap();
    assert_eq!(after["status"]["conditions"].as_array().unwrap().len(), 2);
}

#[test]
fn the_oldest_of_many_updates_are_summed_up() {
    let mut object = widget(&json!({}));
    let names: Vec<String> = (0..15).map(|n| format!("m{n:02}")).collect();
    for (n, name) in names.iter().enumerate() {
        let before = object.clone();
        object["spec"]["labels"][format!("l{n}")] = json!("1");
        let writer = Writer {
            manager: name,
            ..at("", n as i64)
        };
        track(Some(&before), &mut object, writer, &schema());
    }
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0]["manager"], "ancient-changes");
    assert_eq!(entries[9]["manager"], "m14");
}

#[test]
fn managers_are_named_after_their_program() {
    assert_eq!(default_manager("kubectl/v1.33.0 (linux/amd64)"), "kubectl");
    assert_eq!(default_manager(""), "unknown");
    assert_eq!(default_manager(&"é".repeat(100)).len(), 128);
    assert!(check_manager("kubectl").is_ok());
    assert_eq!(check_manager(&"x".repeat(129)).unwrap_err().code, 422);
    assert_eq!(check_manager("a\nb").unwrap_err().code, 422);
}

fn object() -> impl Strategy<Value = Value> {
    (arbitrary::json(), arbitrary::json())
        .prop_map(|(spec, status)| json!({"spec": spec, "status": status}))
}

proptest! {
    #[test]
    fn any_apply_twice_changes_nothing(schema in arbitrary::schema(), live in object(), body in object(), force: bool) {
        let schema = Schema::from_json(&schema).unwrap();
        let Ok(once) = apply(Some(&live), &body, at("me", 0), force, &schema) else { return Ok(()) };
        let twice = apply(Some(&once), &body, at("me", 9), force, &schema).unwrap();
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn what_two_managers_apply_is_there(schema in arbitrary::schema(), a in object(), b in object()) {
        let schema = Schema::from_json(&schema).unwrap();
        let first = apply(None, &a, at("a", 0), false, &schema).unwrap();
        let both = apply(Some(&first), &b, at("b", 1), true, &schema).unwrap();
        // Whoever comes last by force has nothing left to change.
        prop_assert_eq!(apply(Some(&both), &b, at("b", 2), false, &schema).unwrap(), both);
    }

    #[test]
    fn tracking_is_total_and_settles(schema in arbitrary::schema(), before in object(), mut after in object(), managed in arbitrary::json()) {
        let schema = Schema::from_json(&schema).unwrap();
        after["metadata"] = json!({"managedFields": managed});
        track(Some(&before), &mut after, at("me", 0), &schema);
        let mut again = after.clone();
        track(Some(&after), &mut again, at("other", 1), &schema);
        prop_assert_eq!(again, after);
    }
}
