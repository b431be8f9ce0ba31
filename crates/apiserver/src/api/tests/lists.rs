//! Lists: pages, selectors, revisions and shapes.

use super::*;

async fn five(it: &Fixture) {
    for (number, tier) in [(1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "a")] {
        let mut object = map(&format!("m{number}"), &json!({}));
        object["metadata"]["labels"] = json!({"tier": tier});
        it.post(MAPS, object).await.ok();
    }
}

fn names(list: &Value) -> String {
    let items = list["items"].as_array().expect("items");
    items
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test]
async fn pages_show_one_moment() {
    let it = fixture().await;
    five(&it).await;
    let first = it.get(&format!("{MAPS}?limit=2")).await.ok();
    assert_eq!(
        (
            names(&first).as_str(),
            &first["metadata"]["remainingItemCount"]
        ),
        ("m1 m2", &json!(3))
    );
    it.delete(&format!("{MAPS}/m3"), Value::Null).await.ok();
    it.post(MAPS, map("m6", &json!({}))).await.ok();
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let second = it
        .get(&format!("{MAPS}?limit=2&continue={token}"))
        .await
        .ok();
    assert_eq!(names(&second), "m3 m4");
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let token = second["metadata"]["continue"].as_str().expect("a token");
    let last = it
        .get(&format!("{MAPS}?limit=2&continue={token}"))
        .await
        .ok();
    assert_eq!(
        (names(&last).as_str(), last["metadata"].get("continue")),
        ("m5", None)
    );
    assert_eq!(names(&it.get(MAPS).await.ok()), "m1 m2 m4 m5 m6");
}

#[tokio::test]
async fn a_page_is_full_although_a_selector_filters() {
    let it = fixture().await;
    five(&it).await;
    let first = it
        .get(&format!("{MAPS}?labelSelector=tier%3Da&limit=2"))
        .await
        .ok();
    assert_eq!(
        (
            names(&first).as_str(),
            first["metadata"].get("remainingItemCount")
        ),
        ("m1 m3", None)
    );
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let rest = it
        .get(&format!(
            "{MAPS}?labelSelector=tier%3Da&limit=2&continue={token}"
        ))
        .await
        .ok();
    assert_eq!(names(&rest), "m5");
}

#[tokio::test]
async fn selectors_choose() {
    let it = fixture().await;
    five(&it).await;
    let table = [
        ("labelSelector=tier%20in%20(a,c)", "m1 m3 m5"),
        ("labelSelector=!tier", ""),
        ("labelSelector=tier!%3Da", "m2 m4"),
        ("fieldSelector=metadata.name%3Dm2", "m2"),
        (
            "fieldSelector=metadata.name!%3Dm2&labelSelector=tier%3Db",
            "m4",
        ),
    ];
    for (query, expected) in table {
        assert_eq!(
            names(&it.get(&format!("{MAPS}?{query}")).await.ok()),
            expected,
            "{query}"
        );
    }
    assert_eq!(
        it.get(&format!("{MAPS}?fieldSelector=data.x%3Dy"))
            .await
            .code,
        400
    );
    assert_eq!(
        it.get(&format!("{MAPS}?labelSelector=%3D%3D%3D"))
            .await
            .code,
        400
    );
}

#[tokio::test]
async fn a_list_can_be_of_the_past_but_not_of_the_future() {
    let it = fixture().await;
    five(&it).await;
    let then = it.get(MAPS).await.ok()["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version")
        .to_owned();
    it.delete(&format!("{MAPS}/m1"), Value::Null).await.ok();
    let past = it
        .get(&format!(
            "{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact"
        ))
        .await
        .ok();
    assert_eq!(names(&past), "m1 m2 m3 m4 m5");
    let now = it.get(&format!("{MAPS}?resourceVersion={then}")).await.ok();
    assert_eq!(names(&now), "m2 m3 m4 m5");
    assert_eq!(
        it.get(&format!(
            "{MAPS}?resourceVersion=999999&resourceVersionMatch=Exact"
        ))
        .await
        .code,
        504
    );
}

#[tokio::test]
async fn a_list_is_of_its_own_kind_even_when_empty() {
    let it = fixture().await;
    let hosts = it.get("/apis/metal3.io/v1alpha1/baremetalhosts").await.ok();
    assert_eq!(
        (&hosts["kind"], &hosts["apiVersion"], &hosts["items"]),
        (
            &json!("BareMetalHostList"),
            &json!("metal3.io/v1alpha1"),
            &json!([])
        )
    );
}

#[tokio::test]
async fn the_client_chooses_the_shape() {
    let it = fixture().await;
    it.post(HOSTS, host("w0", 1)).await.ok();
    let table = it
        .get_as(
            HOSTS,
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        )
        .await
        .ok();
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    assert_eq!(table["rows"][0]["cells"][0], "w0");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let partial = it
        .get_as(
            HOSTS,
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        )
        .await
        .ok();
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert_eq!(
        (
            partial["items"][0].get("spec"),
            &partial["items"][0]["metadata"]["name"]
        ),
        (None, &json!("w0"))
    );
    assert_eq!(
        it.get_as(HOSTS, "application/vnd.kubernetes.protobuf")
            .await
            .reason(),
        (406, "NotAcceptable")
    );
}

#[tokio::test]
async fn long_lists_are_compressed_for_who_can_read_that() {
    let it = fixture().await;
    it.post(MAPS, map("big", &json!({"k": "x".repeat(200 << 10)})))
        .await
        .ok();
    let request = |encoding: &str| {
        Request::builder()
            .uri(MAPS)
            .header(header::ACCEPT_ENCODING, encoding)
            .body(Bytes::new())
            .expect("a request")
    };
    let zipped = it.api.handle(&it.user, request("gzip")).await;
    assert_eq!(
        zipped
            .headers()
            .get(header::CONTENT_ENCODING)
            .map(axum::http::HeaderValue::as_bytes),
        Some(&b"gzip"[..])
    );
    let bytes = zipped
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    let list: Value =
        serde_json::from_reader(flate2::read::GzDecoder::new(&bytes[..])).expect("JSON inside");
    assert_eq!(names(&list), "big");
    let plain = it.api.handle(&it.user, request("identity")).await;
    assert_eq!(plain.headers().get(header::CONTENT_ENCODING), None);
}
