//! Watches: from where they begin, what they show, how they end.

use super::*;

fn labelled(name: &str, tier: &str) -> Value {
    let mut object = map(name, &json!({}));
    object["metadata"]["labels"] = json!({"tier": tier});
    object
}

async fn version(it: &Fixture) -> String {
    it.get(MAPS).await.ok()["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version")
        .to_owned()
}

#[tokio::test]
async fn a_watch_goes_on_where_a_list_ended() {
    let it = fixture().await;
    it.post(MAPS, map("old", &json!({}))).await.ok();
    let from = version(&it).await;
    it.post(MAPS, map("a", &json!({}))).await.ok();
    let mut watch = it
        .watch(&format!("{MAPS}?watch=true&resourceVersion={from}"))
        .await;
    assert_eq!(watch.next_line().await, "ADDED a");
    it.patch(
        &format!("{MAPS}/a"),
        body::MERGE_PATCH,
        json!({"data": {"k": "v"}}),
    )
    .await
    .ok();
    assert_eq!(watch.next_line().await, "MODIFIED a");
    it.delete(&format!("{MAPS}/a"), Value::Null).await.ok();
    let deleted = watch.next().await;
    assert_eq!(
        (&deleted["type"], &deleted["object"]["data"]["k"]),
        (&json!("DELETED"), &json!("v"))
    );
    assert_eq!(
        deleted["object"]["metadata"]["resourceVersion"],
        version(&it).await
    );
}

#[tokio::test]
async fn a_watch_without_a_version_begins_with_what_is_there() {
    let it = fixture().await;
    it.post(MAPS, map("a", &json!({}))).await.ok();
    let mut watch = it.watch(&format!("{MAPS}?watch=true")).await;
    assert_eq!(watch.next_line().await, "ADDED a");
    it.post(MAPS, map("b", &json!({}))).await.ok();
    assert_eq!(watch.next_line().await, "ADDED b");
}

#[tokio::test]
async fn a_streamed_list_ends_with_a_bookmark_that_says_so() {
    let it = fixture().await;
    it.post(MAPS, map("a", &json!({}))).await.ok();
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = it.watch(&format!("{MAPS}?{query}")).await;
    assert_eq!(watch.next_line().await, "ADDED a");
    let bookmark = watch.next().await;
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    assert_eq!(
        bookmark["object"]["metadata"]["resourceVersion"],
        version(&it).await
    );
}

#[tokio::test]
async fn what_leaves_the_selection_is_deleted_for_who_selected() {
    let it = fixture().await;
    let from = version(&it).await;
    let mut watch = it
        .watch(&format!(
            "{MAPS}?watch=true&labelSelector=tier%3Da&resourceVersion={from}"
        ))
        .await;
    it.post(MAPS, labelled("x", "b")).await.ok();
    it.patch(&format!("{MAPS}/x"), body::MERGE_PATCH, labelled("x", "a"))
        .await
        .ok();
    assert_eq!(watch.next_line().await, "ADDED x");
    it.patch(&format!("{MAPS}/x"), body::MERGE_PATCH, labelled("x", "b"))
        .await
        .ok();
    let left = watch.next().await;
    assert_eq!(
        (&left["type"], &left["object"]["metadata"]["labels"]["tier"]),
        (&json!("DELETED"), &json!("a"))
    );
    assert_eq!(
        left["object"]["metadata"]["resourceVersion"],
        version(&it).await
    );
    it.delete(&format!("{MAPS}/x"), Value::Null).await.ok();
    it.post(MAPS, labelled("y", "a")).await.ok();
    assert_eq!(
        watch.next_line().await,
        "ADDED y",
        "the deletion of what was not selected is not told"
    );
}

#[tokio::test]
async fn a_watch_ends_in_its_time_with_a_bookmark() {
    let it = fixture().await;
    let from = version(&it).await;
    let mut watch = it
        .watch(&format!(
            "{MAPS}?watch=true&resourceVersion={from}&timeoutSeconds=1&allowWatchBookmarks=true"
        ))
        .await;
    assert_eq!(watch.next_line().await, "BOOKMARK");
    assert_eq!(watch.next_line().await, "END");
}

#[tokio::test]
async fn a_watch_ends_when_the_server_stops() {
    let it = fixture().await;
    let mut watch = it.watch(&format!("{MAPS}?watch=true")).await;
    it.stop.send_replace(true);
    assert_eq!(watch.next_line().await, "END");
}

#[tokio::test]
async fn only_the_first_table_of_a_watch_has_headings() {
    let it = fixture().await;
    it.post(MAPS, map("a", &json!({}))).await.ok();
    it.post(MAPS, map("b", &json!({}))).await.ok();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let response = it
        .send(
            Method::GET,
            &format!("{MAPS}?watch=true"),
            body::JSON,
            accept,
            Bytes::new(),
        )
        .await;
    let mut watch = Watching {
        body: response.into_body(),
    };
    let first = watch.next().await;
    assert_eq!(first["object"]["kind"], "Table");
    assert!(
        first["object"]["columnDefinitions"]
            .as_array()
            .is_some_and(|columns| !columns.is_empty())
    );
    let second = watch.next().await;
    assert!(
        second["object"]["columnDefinitions"]
            .as_array()
            .is_none_or(Vec::is_empty)
    );
}

/// Writes so much that the history of the kind no longer reaches back.
async fn wear_out_the_history(it: &Fixture) {
    let key = crate::store::key("", "configmaps", "metal", "big");
    let value = Bytes::from(map("big", &json!({"k": "x".repeat(1 << 20)})).to_string());
    let mut revision = it
        .core
        .store
        .create(&key, value.clone())
        .await
        .expect("room");
    for _ in 0..40 {
        revision = it
            .core
            .store
            .update(&key, value.clone(), revision)
            .await
            .expect("room");
    }
}

#[tokio::test]
async fn who_asks_for_a_history_that_is_gone_is_told_to_list_anew() {
    let it = fixture().await;
    it.post(MAPS, map("a", &json!({}))).await.ok();
    it.post(MAPS, map("b", &json!({}))).await.ok();
    let page = it.get(&format!("{MAPS}?limit=1")).await.ok();
    let old = version(&it).await;
    wear_out_the_history(&it).await;
    let mut watch = it
        .watch(&format!("{MAPS}?watch=true&resourceVersion={old}"))
        .await;
    let event = watch.next().await;
    assert_eq!(event["type"], "ERROR");
    assert_eq!(
        (&event["object"]["code"], &event["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );
    assert_eq!(watch.next_line().await, "END");
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let late = it.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!(late.reason(), (410, "Expired"), "{}", late.body);
}

#[tokio::test]
async fn a_watch_goes_on_after_a_restart_without_a_gap() {
    let it = fixture().await;
    let from = version(&it).await;
    it.post(MAPS, map("a", &json!({}))).await.ok();
    let it = it.restart().await;
    it.post(MAPS, map("b", &json!({}))).await.ok();
    let mut watch = it
        .watch(&format!("{MAPS}?watch=true&resourceVersion={from}"))
        .await;
    assert_eq!(watch.next_line().await, "ADDED a");
    assert_eq!(watch.next_line().await, "ADDED b");
}
