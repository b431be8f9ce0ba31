//! Deletes: finalizers, preconditions, propagation, collections.

use super::*;

fn held(name: &str) -> Value {
    let mut object = map(name, &json!({}));
    object["metadata"]["finalizers"] = json!(["test.plinth/hold"]);
    object
}

#[tokio::test]
async fn what_nothing_holds_is_gone_at_once() {
    let it = fixture().await;
    let created = it.post(MAPS, map("a", &json!({}))).await.ok();
    let answer = it.delete(&format!("{MAPS}/a"), Value::Null).await.ok();
    assert_eq!(
        (&answer["kind"], &answer["status"]),
        (&json!("Status"), &json!("Success"))
    );
    assert_eq!(
        (&answer["details"]["name"], &answer["details"]["uid"]),
        (&json!("a"), &created["metadata"]["uid"])
    );
    assert_eq!(it.delete(&format!("{MAPS}/a"), Value::Null).await.code, 404);
}

#[tokio::test]
async fn a_finalizer_holds_an_object_until_it_is_removed() {
    let it = fixture().await;
    it.post(MAPS, held("a")).await.ok();
    let uri = format!("{MAPS}/a");
    let marked = it.delete(&uri, Value::Null).await.ok();
    assert!(
        marked["metadata"]["deletionTimestamp"].is_string(),
        "{marked}"
    );
    let again = it.delete(&uri, Value::Null).await.ok();
    assert_eq!(
        again["metadata"]["deletionTimestamp"],
        marked["metadata"]["deletionTimestamp"]
    );
    let added = it
        .patch(
            &uri,
            body::MERGE_PATCH,
            json!({"metadata": {"finalizers": ["test.plinth/hold", "test.plinth/more"]}}),
        )
        .await;
    assert_eq!(added.code, 422, "none may be added now: {}", added.body);
    it.patch(
        &uri,
        body::MERGE_PATCH,
        json!({"metadata": {"finalizers": null}}),
    )
    .await
    .ok();
    assert_eq!(it.get(&uri).await.code, 404);
}

#[tokio::test]
async fn a_deletion_of_another_than_meant_is_refused() {
    let it = fixture().await;
    let created = it.post(MAPS, map("a", &json!({}))).await.ok();
    let uri = format!("{MAPS}/a");
    for preconditions in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let refused = it
            .delete(&uri, json!({"preconditions": preconditions}))
            .await;
        assert_eq!(refused.reason(), (409, "Conflict"), "{}", refused.body);
    }
    let meant = json!({"uid": created["metadata"]["uid"], "resourceVersion": created["metadata"]["resourceVersion"]});
    it.delete(
        &uri,
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": meant}),
    )
    .await
    .ok();
}

#[tokio::test]
async fn propagation_leaves_its_mark_for_the_collector() {
    let it = fixture().await;
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        it.post(MAPS, map(policy.to_lowercase().as_str(), &json!({})))
            .await
            .ok();
        let uri = format!("{MAPS}/{}", policy.to_lowercase());
        let marked = it
            .delete(&uri, json!({"propagationPolicy": policy}))
            .await
            .ok();
        assert_eq!(
            marked["metadata"]["finalizers"],
            json!([finalizer]),
            "{policy}"
        );
    }
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let it = fixture().await;
    for (name, tier) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut object = map(name, &json!({}));
        object["metadata"]["labels"] = json!({"tier": tier});
        it.post(MAPS, object).await.ok();
    }
    let gone = it
        .delete(&format!("{MAPS}?labelSelector=tier%3Dx"), Value::Null)
        .await
        .ok();
    assert_eq!(gone["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        it.get(MAPS).await.ok()["items"].as_array().map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn a_namespace_waits_for_its_own_finalizer() {
    let it = fixture().await;
    let uri = "/api/v1/namespaces/metal";
    let namespace = it.get(uri).await.ok();
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["status"]["phase"], "Active");
    let marked = it.delete(uri, Value::Null).await.ok();
    assert_eq!(marked["status"]["phase"], "Terminating");
    let mut emptied = it.get(uri).await.ok();
    emptied["spec"]["finalizers"] = json!([]);
    it.put(&format!("{uri}/finalize"), emptied).await.ok();
    assert_eq!(it.get(uri).await.code, 404);
}
