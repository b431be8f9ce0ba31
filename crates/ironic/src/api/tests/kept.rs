//! Chassis, volumes, deploy templates, runbooks and inspection rules.

use serde_json::{Value, json};

use super::Api;

async fn node(api: &Api) -> String {
    let made = api
        .call(
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "name": "n0"}),
        )
        .await
        .is(201);
    made.json()["uuid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_kind_is_created_shown_listed_changed_and_deleted() {
    let api = Api::new().await;
    let node = node(&api).await;
    let step = json!({"interface": "bios", "step": "factory_reset", "args": {}});
    let with = |key: &str| {
        let mut step = step.clone();
        step[key] = json!(10);
        json!([step])
    };
    for (path, list, body, field, value) in [
        (
            "chassis",
            "chassis",
            json!({"description": "left"}),
            "description",
            json!("right"),
        ),
        (
            "volume/connectors",
            "connectors",
            json!({"node_uuid": node, "type": "iqn", "connector_id": "iqn.2017-07.org.test:1"}),
            "connector_id",
            json!("iqn.2017-07.org.test:2"),
        ),
        (
            "volume/targets",
            "targets",
            json!({"node_uuid": node, "volume_type": "iscsi", "boot_index": 0, "volume_id": "v0"}),
            "volume_id",
            json!("v1"),
        ),
        (
            "deploy_templates",
            "deploy_templates",
            json!({"name": "CUSTOM_A", "steps": with("priority")}),
            "name",
            json!("CUSTOM_B"),
        ),
        (
            "runbooks",
            "runbooks",
            json!({"name": "CUSTOM_A", "steps": with("order"), "owner": "me"}),
            "public",
            json!(true),
        ),
        (
            "inspection_rules",
            "inspection_rules",
            json!({"description": "d", "actions": [{"op": "set-attribute", "args": {"path": "/x", "value": 1}}]}),
            "priority",
            json!(7),
        ),
    ] {
        let made = api
            .call(&format!("POST /v1/{path}"), body.clone())
            .await
            .is(201);
        let uuid = made.json()["uuid"].as_str().unwrap().to_owned();
        let location = made.headers["location"].to_str().unwrap();
        assert_eq!(location, format!("http://metal:6385/v1/{path}/{uuid}"));
        assert_eq!(made.json()["links"][0]["href"], location);
        for (name, sent) in body.as_object().unwrap() {
            assert_eq!(made.json()[name], *sent, "{path}");
        }
        let all = api.get(&format!("/v1/{path}")).await.is(200).json();
        assert_eq!(all[list].as_array().unwrap().len(), 1, "{path}: {all}");
        assert_eq!(all[list][0]["created_at"], Value::Null, "lists are brief");
        let all = api
            .get(&format!("/v1/{path}?detail=true"))
            .await
            .is(200)
            .json();
        assert!(all[list][0]["created_at"].is_string(), "{path}");
        let some = api
            .get(&format!("/v1/{path}?fields=uuid"))
            .await
            .is(200)
            .json();
        assert_eq!(
            some[list][0].as_object().unwrap().len(),
            2,
            "uuid and links"
        );
        let change = json!([{"op": "replace", "path": format!("/{field}"), "value": value}]);
        let changed = api
            .call(&format!("PATCH /v1/{path}/{uuid}"), change)
            .await
            .is(200);
        assert_eq!(changed.json()[field], value, "{path}");
        assert!(changed.json()["updated_at"].is_string());
        api.call(&format!("DELETE /v1/{path}/{uuid}"), Value::Null)
            .await
            .is(204);
        api.get(&format!("/v1/{path}/{uuid}")).await.is(404);
        api.call(&format!("DELETE /v1/{path}/{uuid}"), Value::Null)
            .await
            .is(404);
    }
}

#[tokio::test]
async fn what_is_wrong_is_refused_with_the_field_named() {
    let api = Api::new().await;
    let node = node(&api).await;
    let step = json!({"interface": "bios", "step": "x", "args": {}, "priority": 1});
    for (path, body, status, says) in [
        ("chassis", json!({"odd": 1}), 400, "odd"),
        (
            "chassis",
            json!({"extra": 1}),
            400,
            "extra: must be an object",
        ),
        (
            "volume/connectors",
            json!({"node_uuid": node, "type": "x", "connector_id": "a"}),
            400,
            "type: must be one of",
        ),
        (
            "volume/connectors",
            json!({"type": "ip", "connector_id": "a"}),
            400,
            "node_uuid: is required",
        ),
        (
            "volume/targets",
            json!({"node_uuid": "n9", "volume_type": "a", "boot_index": 0, "volume_id": "b"}),
            400,
            "there is no node",
        ),
        (
            "volume/targets",
            json!({"node_uuid": node, "volume_type": "a", "boot_index": -1, "volume_id": "b"}),
            400,
            "boot_index",
        ),
        (
            "deploy_templates",
            json!({"name": "lower", "steps": [step]}),
            400,
            "name",
        ),
        (
            "deploy_templates",
            json!({"name": "CUSTOM_A", "steps": []}),
            400,
            "steps: must have",
        ),
        (
            "deploy_templates",
            json!({"name": "CUSTOM_A", "steps": [{"interface": "bios", "step": "x"}]}),
            400,
            "steps[0].priority",
        ),
        (
            "runbooks",
            json!({"name": "CUSTOM_A", "steps": [step]}),
            400,
            "steps[0]: unexpected property",
        ),
        (
            "inspection_rules",
            json!({"actions": []}),
            400,
            "actions: must have",
        ),
        (
            "inspection_rules",
            json!({"actions": [{"op": ""}]}),
            400,
            "actions[0].op",
        ),
    ] {
        let answer = api.call(&format!("POST /v1/{path}"), body.clone()).await;
        let fault = answer.fault();
        assert_eq!(answer.status.as_u16(), status, "{body}: {fault}");
        assert!(fault.contains(says), "{fault:?} does not say {says:?}");
    }
}

#[tokio::test]
async fn names_are_taken_once_and_lead_to_their_object() {
    let api = Api::new().await;
    let steps = json!([{"interface": "bios", "step": "x", "args": {}, "priority": 1}]);
    let body = json!({"name": "CUSTOM_A", "steps": steps});
    api.call("POST /v1/deploy_templates", body.clone())
        .await
        .is(201);
    api.call("POST /v1/deploy_templates", body).await.is(409);
    api.get("/v1/deploy_templates/CUSTOM_A").await.is(200);
    api.get("/v1/runbooks/CUSTOM_A").await.is(404);
    api.at("1.54", "GET /v1/deploy_templates", Value::Null)
        .await
        .is(404);
}

#[tokio::test]
async fn volumes_belong_to_their_node_and_go_with_it() {
    let api = Api::new().await;
    let node = node(&api).await;
    let body = json!({"node_uuid": node, "type": "ip", "connector_id": "192.0.2.1"});
    api.call("POST /v1/volume/connectors", body.clone())
        .await
        .is(201);
    api.call("POST /v1/volume/connectors", body).await.is(409);
    let mine = api
        .get("/v1/nodes/n0/volume/connectors")
        .await
        .is(200)
        .json();
    assert_eq!(mine["connectors"][0]["connector_id"], "192.0.2.1");
    let mine = api
        .get("/v1/volume/connectors?node=n0")
        .await
        .is(200)
        .json();
    assert_eq!(mine["connectors"].as_array().unwrap().len(), 1);
    api.get("/v1/nodes/n0/volume").await.is(200);
    api.call("DELETE /v1/nodes/n0", Value::Null).await.is(204);
    let left = api.get("/v1/volume/connectors").await.is(200).json();
    assert_eq!(left["connectors"], json!([]));
}

#[tokio::test]
async fn a_chassis_with_nodes_stays() {
    let api = Api::new().await;
    let made = api.call("POST /v1/chassis", json!({})).await.is(201).json();
    let chassis = made["uuid"].as_str().unwrap();
    let body = json!({"driver": "fake-hardware", "name": "n0", "chassis_uuid": chassis});
    let node = api.call("POST /v1/nodes", body).await.is(201).json();
    assert_eq!(node["chassis_uuid"], chassis);
    let inside = api
        .get(&format!("/v1/chassis/{chassis}/nodes"))
        .await
        .is(200)
        .json();
    assert_eq!(inside["nodes"][0]["name"], "n0");
    let inside = api
        .get(&format!("/v1/nodes?chassis_uuid={chassis}"))
        .await
        .is(200)
        .json();
    assert_eq!(inside["nodes"].as_array().unwrap().len(), 1);
    let refused = api
        .call(&format!("DELETE /v1/chassis/{chassis}"), Value::Null)
        .await
        .is(400);
    assert!(refused.fault().contains("contains nodes"));
    let nowhere = json!([{"op": "replace", "path": "/chassis_uuid", "value": uuid::Uuid::nil()}]);
    api.call("PATCH /v1/nodes/n0", nowhere).await.is(400);
    api.call(
        "PATCH /v1/nodes/n0",
        json!([{"op": "remove", "path": "/chassis_uuid"}]),
    )
    .await
    .is(200);
    api.call(&format!("DELETE /v1/chassis/{chassis}"), Value::Null)
        .await
        .is(204);
}

#[tokio::test]
async fn what_a_sensitive_rule_holds_is_not_shown() {
    let api = Api::new().await;
    let actions =
        json!([{"op": "set-attribute", "args": {"path": "/driver_info/x", "value": "hunter2"}}]);
    let body = json!({"actions": actions, "sensitive": true});
    let made = api.call("POST /v1/inspection_rules", body).await.is(201);
    assert!(!made.text.contains("hunter2"));
    assert_eq!(made.json()["actions"], Value::Null);
    api.call("DELETE /v1/inspection_rules", Value::Null)
        .await
        .is(204);
    assert_eq!(
        api.get("/v1/inspection_rules").await.json()["inspection_rules"],
        json!([])
    );
}

#[tokio::test]
async fn lists_have_pages() {
    let api = Api::new().await;
    for at in 0..5 {
        api.call("POST /v1/chassis", json!({"description": format!("c{at}")}))
            .await
            .is(201);
    }
    let first = api
        .get("/v1/chassis?limit=3&sort_key=description&sort_dir=desc")
        .await
        .is(200)
        .json();
    assert_eq!(first["chassis"][0]["description"], "c4");
    let next = first["next"]
        .as_str()
        .unwrap()
        .strip_prefix("http://metal:6385")
        .unwrap();
    let second = api.get(next).await.is(200).json();
    assert_eq!(second["chassis"].as_array().unwrap().len(), 2);
    assert_eq!(second["chassis"][1]["description"], "c0");
    api.get("/v1/chassis?marker=00000000-0000-0000-0000-000000000000")
        .await
        .is(404);
    api.get("/v1/chassis?sort_key=extra").await.is(400);
}
