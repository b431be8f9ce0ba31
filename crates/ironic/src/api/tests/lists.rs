//! Lists: pages, order, filters.

use serde_json::{Value, json};

use super::Api;

fn names(list: &Value) -> Vec<String> {
    list["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn pages_follow_one_another_by_either_kind_of_link() {
    let api = Api::new().await;
    for number in 0..5 {
        api.node(&format!("n{number}")).await;
    }
    let mut address = "/v1/nodes?limit=2&fields=name,uuid".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = api.get(&address).await.is(200).json();
        seen.extend(names(&page));
        let Some(next) = page.get("next") else { break };
        assert_eq!(page["nodes_links"], json!([{"href": next, "rel": "next"}]));
        assert!(next.as_str().unwrap().contains("fields=name,uuid"));
        address = next
            .as_str()
            .unwrap()
            .strip_prefix("http://metal:6385")
            .unwrap()
            .to_owned();
    }
    assert_eq!(seen, ["n0", "n1", "n2", "n3", "n4"]);
    let sorted = api
        .get("/v1/nodes?sort_key=name&sort_dir=desc&limit=2")
        .await
        .is(200)
        .json();
    assert_eq!(names(&sorted), ["n4", "n3"]);
}

#[tokio::test]
async fn a_list_shows_little_unless_asked_for_more() {
    let api = Api::new().await;
    api.node("n0").await;
    let brief = api.get("/v1/nodes").await.json()["nodes"][0].clone();
    let keys: Vec<_> = brief
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        [
            "instance_uuid",
            "links",
            "maintenance",
            "name",
            "power_state",
            "provision_state",
            "uuid"
        ]
    );
    for path in ["/v1/nodes?detail=True", "/v1/nodes/detail"] {
        assert!(
            api.get(path).await.is(200).json()["nodes"][0]
                .get("driver_info")
                .is_some(),
            "{path}"
        );
    }
}

#[tokio::test]
async fn filters_narrow_a_list() {
    let api = Api::new().await;
    let parent = api.node("n0").await;
    let body = json!({
        "driver": "fake-hardware", "name": "n1", "resource_class": "gold", "owner": "ann", "description": "rack seven",
        "conductor_group": "East", "shard": "s1", "instance_uuid": "0f000000-0000-4000-8000-000000000003",
    });
    api.call("POST /v1/nodes", body).await.is(201);
    api.call(
        "POST /v1/nodes",
        json!({"driver": "fake-hardware", "name": "n2", "parent_node": parent}),
    )
    .await
    .is(201);
    api.call("PUT /v1/nodes/n0/maintenance", json!({}))
        .await
        .is(202);
    for (filter, expected) in [
        ("", vec!["n0", "n1"]),
        ("include_children=true", vec!["n0", "n1", "n2"]),
        ("parent_node=n0", vec!["n2"]),
        ("maintenance=true", vec!["n0"]),
        ("maintenance=false", vec!["n1"]),
        ("associated=true", vec!["n1"]),
        (
            "instance_uuid=0f000000-0000-4000-8000-000000000003",
            vec!["n1"],
        ),
        ("provision_state=enroll", vec!["n0", "n1"]),
        ("provision_state=active", vec![]),
        ("driver=fake-hardware&resource_class=gold", vec!["n1"]),
        ("owner=ann", vec!["n1"]),
        ("project=ann", vec!["n1"]),
        ("description_contains=seven", vec!["n1"]),
        ("conductor_group=east", vec!["n1"]),
        ("conductor=elsewhere", vec![]),
        ("conductor=plinth", vec!["n0", "n1"]),
        ("shard=s0,s1", vec!["n1"]),
        ("sharded=false", vec!["n0"]),
        ("fault=clean%20failure", vec![]),
        ("retired=true", vec![]),
    ] {
        let list = api.get(&format!("/v1/nodes?{filter}")).await.is(200).json();
        assert_eq!(names(&list), expected, "{filter}");
    }
    assert_eq!(
        api.get("/v1/nodes/n0/children").await.json()["children"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        api.get("/v1/shards").await.json(),
        json!({"shards": [{"count": 1, "name": "s1"}]})
    );
}

#[tokio::test]
async fn ports_are_found_by_node_and_address() {
    let api = Api::new().await;
    let (a, b) = (api.node("a").await, api.node("b").await);
    api.call(
        "POST /v1/ports",
        json!({"address": "52:54:00:00:00:0A", "node_uuid": a}),
    )
    .await
    .is(201);
    api.call(
        "POST /v1/ports",
        json!({"address": "52:54:00:00:00:0b", "node_ident": "b", "pxe_enabled": false}),
    )
    .await
    .is(201);
    for (filter, count) in [
        ("/v1/ports", 2),
        ("/v1/ports?node=a", 1),
        (&format!("/v1/ports?node_uuid={b}"), 1),
        ("/v1/ports?address=52:54:00:00:00:0a", 1),
        ("/v1/ports?address=52:54:00:00:00:0f", 0),
        ("/v1/nodes/a/ports", 1),
        ("/v1/ports/detail", 2),
    ] {
        assert_eq!(
            api.get(filter).await.is(200).json()["ports"]
                .as_array()
                .unwrap()
                .len(),
            count,
            "{filter}"
        );
    }
    let port = api.get("/v1/ports?node=b&detail=true").await.json()["ports"][0].clone();
    assert_eq!(
        (&port["pxe_enabled"], &port["node_uuid"]),
        (&json!(false), &json!(b))
    );
    let address = format!("PATCH /v1/ports/{}", port["uuid"].as_str().unwrap());
    let patch = json!([{"op": "replace", "path": "/pxe_enabled", "value": true}, {"op": "add", "path": "/extra/x", "value": 1}]);
    assert_eq!(
        api.call(&address, patch).await.is(200).json()["pxe_enabled"],
        true
    );
}
