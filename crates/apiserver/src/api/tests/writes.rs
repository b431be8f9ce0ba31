//! Create, update, patch, apply.

use super::*;

#[tokio::test]
async fn what_is_created_can_be_read() {
    let it = fixture().await;
    let created = it.post(MAPS, map("a", &json!({"k": "v"}))).await;
    assert_eq!(created.code, 201);
    let read = it.get(&format!("{MAPS}/a")).await.ok();
    assert_eq!(read, created.body);
    assert_eq!(read["metadata"]["namespace"], "metal");
    assert!(
        read["metadata"]["uid"]
            .as_str()
            .is_some_and(|uid| uid.len() == 36)
    );
    assert!(
        read["metadata"]["resourceVersion"]
            .as_str()
            .is_some_and(|version| version.parse::<u64>().is_ok())
    );
    assert_eq!(
        it.post(MAPS, map("a", &json!({}))).await.reason(),
        (409, "AlreadyExists")
    );
    let absent = it.get(&format!("{MAPS}/b")).await;
    assert_eq!(
        (absent.reason(), absent.message()),
        ((404, "NotFound"), "configmaps \"b\" not found")
    );
}

#[tokio::test]
async fn names_are_generated_and_never_clash() {
    let it = fixture().await;
    let mut nameless = map("", &json!({}));
    nameless["metadata"] = json!({"generateName": "web-"});
    let first = it.post(MAPS, nameless.clone()).await.ok();
    let second = it.post(MAPS, nameless).await.ok();
    for object in [&first, &second] {
        let name = object["metadata"]["name"].as_str().expect("a name");
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    }
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
}

#[tokio::test]
async fn an_update_of_an_old_version_is_a_conflict() {
    let it = fixture().await;
    let created = it.post(MAPS, map("a", &json!({"k": "1"}))).await.ok();
    let mut newer = created.clone();
    newer["data"]["k"] = json!("2");
    let newer = it.put(&format!("{MAPS}/a"), newer).await.ok();
    assert_ne!(
        newer["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );
    let stale = it.put(&format!("{MAPS}/a"), created).await;
    assert_eq!(stale.reason(), (409, "Conflict"));
    let mut stranger = newer.clone();
    stranger["metadata"]["uid"] = json!("5f8f6a4e-2c1b-4c3d-9e0f-0123456789ab");
    assert_eq!(
        it.put(&format!("{MAPS}/a"), stranger).await.reason(),
        (409, "Conflict")
    );
    // Without a version an update of a built-in kind means whatever is there.
    assert_eq!(
        it.put(&format!("{MAPS}/a"), map("a", &json!({"k": "3"})))
            .await
            .ok()["data"]["k"],
        "3"
    );
}

#[tokio::test]
async fn an_update_that_changes_nothing_is_no_write() {
    let it = fixture().await;
    let created = it.post(MAPS, map("a", &json!({"k": "1"}))).await.ok();
    let before = it.core.store.revision();
    let again = it.put(&format!("{MAPS}/a"), created.clone()).await.ok();
    assert_eq!(
        again["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );
    assert_eq!(it.core.store.revision(), before);
}

#[tokio::test]
async fn who_does_not_know_of_managers_takes_nothing_from_them() {
    let it = fixture().await;
    let created = it.post(MAPS, map("a", &json!({"k": "1"}))).await.ok();
    let managed = created["metadata"]["managedFields"].clone();
    assert_eq!(managed[0]["manager"], "tester");
    let mut plain = created.clone();
    plain["metadata"]
        .as_object_mut()
        .expect("metadata")
        .remove("managedFields");
    let after = it.put(&format!("{MAPS}/a"), plain).await.ok();
    assert_eq!(after, created, "nothing changed, so nothing was written");
}

#[tokio::test]
async fn every_patch_is_understood() {
    let it = fixture().await;
    it.post(MAPS, map("a", &json!({"k": "1"}))).await.ok();
    let uri = format!("{MAPS}/a");
    let table = [
        (body::MERGE_PATCH, json!({"data": {"k": "2"}}), "2"),
        (body::STRATEGIC_PATCH, json!({"data": {"k": "3"}}), "3"),
        (
            body::JSON_PATCH,
            json!([{"op": "replace", "path": "/data/k", "value": "4"}]),
            "4",
        ),
    ];
    for (media, patch, expected) in table {
        assert_eq!(
            it.patch(&uri, media, patch).await.ok()["data"]["k"],
            expected,
            "{media}"
        );
    }
    assert_eq!(
        it.patch(&uri, "application/xml", json!({})).await.reason(),
        (415, "UnsupportedMediaType")
    );
    let failed = it
        .patch(
            &uri,
            body::JSON_PATCH,
            json!([{"op": "test", "path": "/data/k", "value": "9"}]),
        )
        .await;
    assert_eq!(failed.code, 422, "{}", failed.body);
    let stale = it
        .patch(
            &uri,
            body::MERGE_PATCH,
            json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "5"}}),
        )
        .await;
    assert_eq!(stale.reason(), (409, "Conflict"));
    assert_eq!(
        it.patch(&format!("{MAPS}/b"), body::MERGE_PATCH, json!({}))
            .await
            .code,
        404
    );
}

#[tokio::test]
async fn custom_kinds_take_no_strategic_patch() {
    let it = fixture().await;
    it.post(HOSTS, host("w0", 1)).await.ok();
    let uri = format!("{HOSTS}/w0");
    assert_eq!(
        it.patch(
            &uri,
            body::STRATEGIC_PATCH,
            json!({"spec": {"online": false}})
        )
        .await
        .code,
        415
    );
    assert_eq!(
        it.patch(&uri, body::MERGE_PATCH, json!({"spec": {"online": false}}))
            .await
            .ok()["spec"]["online"],
        false
    );
}

#[tokio::test]
async fn patches_at_once_all_count() {
    let it = std::sync::Arc::new(fixture().await);
    it.post(MAPS, map("a", &json!({}))).await.ok();
    let writers = (0..50).map(|number| {
        let it = std::sync::Arc::clone(&it);
        tokio::spawn(async move {
            let patch = json!({"data": {format!("k{number}"): "v"}});
            it.patch(&format!("{MAPS}/a"), body::MERGE_PATCH, patch)
                .await
                .ok()
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("no panic");
    }
    let data = it.get(&format!("{MAPS}/a")).await.ok()["data"].clone();
    assert_eq!(
        data.as_object().map(serde_json::Map::len),
        Some(50),
        "{data}"
    );
}

#[tokio::test]
async fn spec_and_status_are_written_apart() {
    let it = fixture().await;
    let mut body = host("w0", 1);
    body["status"] = json!({"poweredOn": true});
    let created = it.post(HOSTS, body).await.ok();
    assert_eq!(
        created.get("status"),
        None,
        "a create does not set the status"
    );
    assert_eq!(created["metadata"]["generation"], 1);
    let uri = format!("{HOSTS}/w0");
    let patch = json!({"spec": {"online": false}, "status": {"errorMessage": "x"}});
    let after = it
        .patch(&format!("{uri}/status"), body::MERGE_PATCH, patch)
        .await;
    // The rest of the status is required by the schema: what matters is that the spec stayed.
    if after.code == 200 {
        assert_eq!(
            (
                &after.body["spec"]["online"],
                &after.body["metadata"]["generation"]
            ),
            (&json!(true), &json!(1))
        );
    }
    let after = it
        .patch(&uri, body::MERGE_PATCH, json!({"spec": {"online": false}}))
        .await
        .ok();
    assert_eq!(after["metadata"]["generation"], 2);
}

#[tokio::test]
async fn apply_creates_then_changes_and_defends_its_fields() {
    let it = fixture().await;
    let uri = |manager: &str, more: &str| format!("{MAPS}/a?fieldManager={manager}{more}");
    let created = it
        .patch(
            &uri("one", ""),
            body::APPLY_PATCH,
            map("a", &json!({"k": "1"})),
        )
        .await;
    assert_eq!(created.code, 201, "{}", created.body);
    let again = it
        .patch(
            &uri("one", ""),
            body::APPLY_PATCH,
            map("a", &json!({"k": "1"})),
        )
        .await;
    assert_eq!(again.code, 200);
    assert_eq!(
        again.body["metadata"]["resourceVersion"], created.body["metadata"]["resourceVersion"],
        "nothing changed"
    );
    let clash = it
        .patch(
            &uri("two", ""),
            body::APPLY_PATCH,
            map("a", &json!({"k": "2"})),
        )
        .await;
    assert_eq!(clash.reason(), (409, "Conflict"));
    assert_eq!(
        clash.body["details"]["causes"][0]["reason"],
        "FieldManagerConflict"
    );
    assert!(clash.message().contains("one"), "{}", clash.message());
    assert_eq!(
        it.patch(
            &uri("two", "&force=true"),
            body::APPLY_PATCH,
            map("a", &json!({"k": "2"}))
        )
        .await
        .ok()["data"]["k"],
        "2"
    );
    let removed = it
        .patch(&uri("two", ""), body::APPLY_PATCH, map("a", &json!({})))
        .await
        .ok();
    assert_eq!(
        removed["data"].get("k"),
        None,
        "what its only owner no longer applies goes: {removed}"
    );
    assert_eq!(
        it.patch(
            &format!("{MAPS}/a"),
            body::APPLY_PATCH,
            map("a", &json!({}))
        )
        .await
        .code,
        422,
        "a manager is needed"
    );
}

#[tokio::test]
async fn apply_takes_yaml() {
    let it = fixture().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  mode: '0644'\n";
    let uri = format!("{MAPS}/a?fieldManager=me");
    let response = it
        .send(
            Method::PATCH,
            &uri,
            body::APPLY_PATCH,
            "application/json",
            yaml.into(),
        )
        .await;
    assert_eq!(heard(response).await.ok()["data"]["mode"], "0644");
}

#[tokio::test]
async fn dry_runs_answer_as_if_and_keep_nothing() {
    let it = fixture().await;
    let before = it.core.store.revision();
    assert_eq!(
        it.post(&format!("{MAPS}?dryRun=All"), map("a", &json!({})))
            .await
            .code,
        201
    );
    assert_eq!(it.core.store.revision(), before);
    assert_eq!(it.get(&format!("{MAPS}/a")).await.code, 404);
    it.post(MAPS, map("a", &json!({"k": "1"}))).await.ok();
    assert_eq!(
        it.post(&format!("{MAPS}?dryRun=All"), map("a", &json!({})))
            .await
            .code,
        409
    );
    let patched = it
        .patch(
            &format!("{MAPS}/a?dryRun=All"),
            body::MERGE_PATCH,
            json!({"data": {"k": "2"}}),
        )
        .await
        .ok();
    assert_eq!(patched["data"]["k"], "2");
    it.delete(&format!("{MAPS}/a?dryRun=All"), Value::Null)
        .await
        .ok();
    assert_eq!(it.get(&format!("{MAPS}/a")).await.ok()["data"]["k"], "1");
}

#[tokio::test]
async fn unknown_fields_are_refused_told_or_dropped_as_asked() {
    let it = fixture().await;
    let mut body = host("w0", 1);
    body["spec"]["onlien"] = json!(true);
    let strict = it
        .post(&format!("{HOSTS}?fieldValidation=Strict"), body.clone())
        .await;
    assert_eq!(strict.reason(), (400, "BadRequest"));
    assert!(
        strict
            .message()
            .contains("strict decoding error: unknown field \"spec.onlien\""),
        "{}",
        strict.message()
    );
    let warned = it.post(&format!("{HOSTS}?dryRun=All"), body.clone()).await;
    assert_eq!(
        warned.warnings,
        ["299 - \"unknown field \\\"spec.onlien\\\"\""]
    );
    assert_eq!(warned.ok()["spec"].get("onlien"), None);
    let quiet = it
        .post(&format!("{HOSTS}?dryRun=All&fieldValidation=Ignore"), body)
        .await;
    assert!(quiet.warnings.is_empty());
}

#[tokio::test]
async fn everything_wrong_is_said_at_once() {
    let it = fixture().await;
    let mut body = host("w0", 1);
    body["spec"]["online"] = json!("yes");
    body["spec"]["bootMode"] = json!("floppy");
    let refused = it.post(HOSTS, body).await;
    assert_eq!(refused.reason(), (422, "Invalid"));
    let fields: Vec<&str> = refused.body["details"]["causes"]
        .as_array()
        .expect("causes")
        .iter()
        .filter_map(|cause| cause["field"].as_str())
        .collect();
    assert!(
        fields.contains(&"spec.online") && fields.contains(&"spec.bootMode"),
        "{fields:?}"
    );
}

#[tokio::test]
async fn two_hosts_cannot_share_a_server() {
    let it = fixture().await;
    it.post(HOSTS, host("w0", 1)).await.ok();
    let twin = it.post(HOSTS, host("w1", 1)).await;
    assert_eq!(twin.reason(), (422, "Invalid"));
    assert!(
        twin.message()
            .contains("already the boot MAC of host metal/w0"),
        "{}",
        twin.message()
    );
    assert!(
        twin.message().contains("already the BMC of host metal/w0"),
        "{}",
        twin.message()
    );
    it.post(HOSTS, host("w1", 2)).await.ok();
}

#[tokio::test]
async fn of_hosts_created_at_once_for_one_server_one_stays() {
    let it = std::sync::Arc::new(fixture().await);
    let writers = (0..20).map(|number| {
        let it = std::sync::Arc::clone(&it);
        tokio::spawn(async move { it.post(HOSTS, host(&format!("w{number}"), 1)).await.code })
    });
    let mut codes = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        codes.push(writer.await.expect("no panic"));
    }
    assert_eq!(
        codes.iter().filter(|code| **code == 201).count(),
        1,
        "{codes:?}"
    );
    assert!(
        codes.iter().all(|code| matches!(code, 201 | 409 | 422)),
        "{codes:?}"
    );
}

#[tokio::test]
async fn a_namespace_must_be_there_and_stay() {
    let it = fixture().await;
    let nowhere = it
        .post(
            "/api/v1/namespaces/nowhere/configmaps",
            map("a", &json!({})),
        )
        .await;
    assert_eq!(
        (nowhere.code, nowhere.message()),
        (404, "namespaces \"nowhere\" not found")
    );
    let finalized = json!({"metadata": {"finalizers": ["test/hold"]}});
    it.patch("/api/v1/namespaces/metal", body::MERGE_PATCH, finalized)
        .await
        .ok();
    it.delete("/api/v1/namespaces/metal", Value::Null)
        .await
        .ok();
    let late = it.post(MAPS, map("a", &json!({}))).await;
    assert_eq!(late.reason(), (403, "Forbidden"));
    assert!(
        late.message().contains("because it is being terminated"),
        "{}",
        late.message()
    );
    assert_eq!(
        it.delete("/api/v1/namespaces/default", Value::Null)
            .await
            .code,
        403
    );
}

#[tokio::test]
async fn secrets_keep_what_they_promised() {
    let it = fixture().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": "calvin"}, "immutable": true});
    let created = it.post(SECRETS, secret).await.ok();
    assert_eq!(
        (&created["data"]["password"], created.get("stringData")),
        (&json!("Y2Fsdmlu"), None)
    );
    assert_eq!(created["type"], "Opaque");
    let uri = format!("{SECRETS}/s");
    assert_eq!(
        it.patch(
            &uri,
            body::MERGE_PATCH,
            json!({"data": {"password": "eA=="}})
        )
        .await
        .code,
        422
    );
    assert_eq!(
        it.patch(&uri, body::MERGE_PATCH, json!({"type": "other"}))
            .await
            .code,
        422
    );
    it.patch(
        &uri,
        body::MERGE_PATCH,
        json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .await
    .ok();
}

#[tokio::test]
async fn an_event_has_two_faces() {
    let it = fixture().await;
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "eventTime": "2026-11-15T16:00:00.000000Z",
        "regarding": {"kind": "BareMetalHost", "namespace": "metal", "name": "n"}, "note": "hello", "reason": "Hi", "type": "Normal", "action": "Greet",
        "reportingController": "metal3", "reportingInstance": "0",
    });
    it.post("/apis/events.k8s.io/v1/namespaces/metal/events", event)
        .await
        .ok();
    let core = it
        .get("/api/v1/namespaces/metal/events?fieldSelector=involvedObject.name=n")
        .await
        .ok();
    assert_eq!(
        (
            &core["items"][0]["message"],
            &core["items"][0]["apiVersion"]
        ),
        (&json!("hello"), &json!("v1"))
    );
    let new = it
        .get("/apis/events.k8s.io/v1/namespaces/metal/events/e")
        .await
        .ok();
    assert_eq!(new["note"], "hello");
}
