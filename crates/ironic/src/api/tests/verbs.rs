//! Verbs, power, locks and allocations, with hardware that is not there.

use serde_json::{Value, json};

use super::Api;

#[tokio::test]
async fn a_node_lives_from_enrolment_to_deployment_and_back() {
    let api = Api::new().await;
    let node = api.node("n0").await;
    api.verb(&node, "manage", "manageable").await;
    assert_eq!(
        api.get("/v1/nodes/n0").await.json()["power_state"],
        "power off"
    );
    api.verb(&node, "inspect", "manageable").await;
    let shown = api.get("/v1/nodes/n0").await.json();
    assert!(shown["inspection_finished_at"].is_string(), "{shown}");
    assert_eq!(
        api.get("/v1/nodes/n0/inventory").await.is(200).json()["inventory"]["memory"]["physical_mb"],
        8192
    );
    api.verb(&node, "provide", "available").await;
    let patch = json!([
        {"op": "add", "path": "/instance_uuid", "value": "0f000000-0000-4000-8000-000000000001"},
        {"op": "add", "path": "/instance_info/image_source", "value": "http://images/os.raw"},
    ]);
    api.call("PATCH /v1/nodes/n0", patch).await.is(200);
    let drive =
        json!({"meta_data": {"name": "n0"}, "user_data": {"ignition": {"version": "3.2.0"}}});
    api.call(
        "PUT /v1/nodes/n0/states/provision",
        json!({"target": "active", "configdrive": drive}),
    )
    .await
    .is(202);
    api.reaches("n0", "active").await;
    let active = api.get("/v1/nodes/n0").await.json();
    assert_eq!(active["power_state"], "power on");
    assert_eq!(active["instance_info"]["configdrive"], "******");
    assert_eq!(active["target_provision_state"], Value::Null);
    api.verb(&node, "rebuild", "active").await;
    api.call(
        "PUT /v1/nodes/n0/states/provision",
        json!({"target": "rescue", "rescue_password": "pw"}),
    )
    .await
    .is(202);
    api.reaches("n0", "rescue").await;
    api.verb(&node, "unrescue", "active").await;
    let steps = json!([{"interface": "vendor", "step": "log_passthrough"}]);
    let service = json!({"target": "service", "service_steps": steps});
    api.call("PUT /v1/nodes/n0/states/provision", service)
        .await
        .is(202);
    api.reaches("n0", "active").await;
    api.verb(&node, "undeploy", "available").await;
    let free = api.get("/v1/nodes/n0").await.json();
    assert_eq!(
        (&free["instance_uuid"], &free["instance_info"]),
        (&Value::Null, &json!({}))
    );
    api.verb(&node, "manage", "manageable").await;
    api.verb(&node, "adopt", "active").await;
}

#[tokio::test]
async fn manual_cleaning_runs_what_the_driver_has_and_fails_with_a_reason_on_what_it_has_not() {
    let api = Api::new().await;
    let node = api.node("n0").await;
    api.verb(&node, "manage", "manageable").await;
    let clean = |step: &str| json!({"target": "clean", "clean_steps": [{"interface": "bios", "step": step, "args": {}}]});
    api.call("PUT /v1/nodes/n0/states/provision", clean("factory_reset"))
        .await
        .is(202);
    api.reaches("n0", "manageable").await;
    api.call("PUT /v1/nodes/n0/states/provision", clean("polish"))
        .await
        .is(202);
    api.reaches("n0", "clean failed").await;
    let failed = api.get("/v1/nodes/n0").await.json();
    assert!(
        failed["last_error"]
            .as_str()
            .unwrap()
            .contains("bios.polish"),
        "{failed}"
    );
    assert_eq!(
        (&failed["maintenance"], &failed["fault"]),
        (&json!(true), &json!("clean failure"))
    );
    let history = api
        .get("/v1/nodes/n0/history?detail=true")
        .await
        .is(200)
        .json();
    assert_eq!(history["history"][0]["severity"], "ERROR");
    api.call("DELETE /v1/nodes/n0/maintenance", Value::Null)
        .await
        .is(202);
    api.verb(&node, "manage", "manageable").await;
}

#[tokio::test]
async fn a_node_at_work_is_locked() {
    let api = Api::with("fake: {deploy: 30, power: 30}").await;
    let node = api.available("n0").await;
    api.call(
        "PUT /v1/nodes/n0/states/provision",
        json!({"target": "active"}),
    )
    .await
    .is(202);
    let shown = api.get("/v1/nodes/n0").await.json();
    assert_eq!(shown["provision_state"], "deploying");
    assert_eq!(shown["target_provision_state"], "active");
    assert_eq!(shown["reservation"], "plinth");
    for (call, body) in [
        (
            "PUT /v1/nodes/n0/states/provision",
            json!({"target": "deleted"}),
        ),
        (
            "PUT /v1/nodes/n0/states/power",
            json!({"target": "power on"}),
        ),
        (
            "PATCH /v1/nodes/n0",
            json!([{"op": "add", "path": "/extra/a", "value": 1}]),
        ),
        ("DELETE /v1/nodes/n0", Value::Null),
        (
            "PUT /v1/nodes/n0/management/boot_device",
            json!({"boot_device": "pxe"}),
        ),
    ] {
        let answer = api.call(call, body).await.is(409);
        assert!(
            answer
                .fault()
                .contains(&format!("Node {node} is locked by host plinth")),
            "{call}"
        );
    }
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_no_lock_behind() {
    let api = Api::with("fake: {management: 0.5}").await;
    api.node("n0").await;
    tokio::select! {
        answer = api.call("PUT /v1/nodes/n0/management/boot_device", json!({"boot_device": "disk"})) => {
            panic!("it was to be cut off, and was answered with {}", answer.status)
        }
        _ = api.until("n0", |node| node["reservation"] == "plinth") => {}
    }
    api.until("n0", |node| node["reservation"].is_null()).await;
    assert_eq!(
        api.get("/v1/nodes/n0/management/boot_device").await.json()["boot_device"],
        "disk"
    );
}

#[tokio::test]
async fn power_is_changed_in_the_background() {
    let api = Api::new().await;
    let node = api.node("n0").await;
    for (target, state) in [
        ("power on", "power on"),
        ("soft power off", "power off"),
        ("rebooting", "power on"),
    ] {
        api.call(
            &format!("PUT /v1/nodes/{node}/states/power"),
            json!({"target": target}),
        )
        .await
        .is(202);
        let node = api.until(&node, |node| node["reservation"].is_null()).await;
        assert_eq!(
            (&node["power_state"], &node["target_power_state"]),
            (&json!(state), &Value::Null),
            "{target}"
        );
    }
    api.call(
        "PATCH /v1/nodes/n0",
        json!([{"op": "add", "path": "/disable_power_off", "value": true}]),
    )
    .await
    .is(200);
    api.call(
        "PUT /v1/nodes/n0/states/power",
        json!({"target": "power off"}),
    )
    .await
    .is(409);
    let slow = Api::with("fake: {power: 30}").await;
    slow.node("n0").await;
    slow.call(
        "PUT /v1/nodes/n0/states/power",
        json!({"target": "power on", "timeout": 1}),
    )
    .await
    .is(202);
    assert_eq!(
        slow.get("/v1/nodes/n0/states").await.json()["target_power_state"],
        "power on"
    );
    let late = slow.until("n0", |node| node["reservation"].is_null()).await;
    assert!(
        late["last_error"].as_str().unwrap().contains("within 1 s"),
        "{late}"
    );
}

#[tokio::test]
async fn maintenance_protection_and_states_keep_a_node_from_what_would_harm_it() {
    let api = Api::new().await;
    let node = api.available("n0").await;
    api.call("PUT /v1/nodes/n0/maintenance", json!({}))
        .await
        .is(202);
    let answer = api
        .call(
            "PUT /v1/nodes/n0/states/provision",
            json!({"target": "active"}),
        )
        .await
        .is(400);
    assert!(answer.fault().contains("maintenance"));
    api.call("DELETE /v1/nodes/n0/maintenance", Value::Null)
        .await
        .is(202);
    api.verb(&node, "active", "active").await;
    api.call(
        "PATCH /v1/nodes/n0",
        json!([{"op": "add", "path": "/protected", "value": true}]),
    )
    .await
    .is(200);
    for (call, body, status) in [
        (
            "PUT /v1/nodes/n0/states/provision",
            json!({"target": "deleted"}),
            403,
        ),
        (
            "PUT /v1/nodes/n0/states/provision",
            json!({"target": "rebuild"}),
            403,
        ),
        ("DELETE /v1/nodes/n0", Value::Null, 403),
        (
            "PATCH /v1/nodes/n0",
            json!([{"op": "add", "path": "/boot_interface", "value": "fake"}]),
            200,
        ),
        (
            "PATCH /v1/nodes/n0",
            json!([{"op": "add", "path": "/inspect_interface", "value": "agent"}]),
            409,
        ),
        (
            "PATCH /v1/nodes/n0",
            json!([{"op": "remove", "path": "/protected"}]),
            200,
        ),
        ("DELETE /v1/nodes/n0", Value::Null, 409),
        (
            "PUT /v1/nodes/n0/maintenance",
            json!({"reason": "scrapped"}),
            202,
        ),
        ("DELETE /v1/nodes/n0", Value::Null, 204),
    ] {
        assert_eq!(
            api.call(call, body.clone()).await.status.as_u16(),
            status,
            "{call} {body}"
        );
    }
}

#[tokio::test]
async fn an_allocation_finds_a_node_that_fits() {
    let api = Api::new().await;
    for name in ["n0", "n1"] {
        api.available(name).await;
        api.call(
            &format!("PATCH /v1/nodes/{name}"),
            json!([{"op": "add", "path": "/resource_class", "value": "gold"}]),
        )
        .await
        .is(200);
    }
    api.call("PUT /v1/nodes/n1/traits", json!({"traits": ["CUSTOM_GPU"]}))
        .await
        .is(204);
    let wish = json!({"resource_class": "gold", "traits": ["CUSTOM_GPU"], "name": "a0"});
    let got = api.call("POST /v1/allocations", wish).await.is(201).json();
    let n1 = api.get("/v1/nodes/n1").await.json();
    assert_eq!(
        (&got["state"], &got["node_uuid"]),
        (&json!("active"), &n1["uuid"])
    );
    assert_eq!(
        (&n1["instance_uuid"], &n1["allocation_uuid"]),
        (&got["uuid"], &got["uuid"])
    );
    assert_eq!(
        api.get("/v1/nodes/n1/allocation").await.is(200).json()["name"],
        "a0"
    );
    let wish = json!({"resource_class": "gold", "traits": ["CUSTOM_GPU"]});
    let none = api.call("POST /v1/allocations", wish).await.is(201).json();
    assert_eq!(none["state"], "error");
    assert!(
        none["last_error"]
            .as_str()
            .unwrap()
            .contains("no available nodes match")
    );
    assert_eq!(
        api.get("/v1/allocations?state=active").await.json()["allocations"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    api.call(
        "PATCH /v1/allocations/a0",
        json!([{"op": "replace", "path": "/name", "value": "a1"}]),
    )
    .await
    .is(200);
    api.call("DELETE /v1/allocations/a1", Value::Null)
        .await
        .is(204);
    assert_eq!(
        api.get("/v1/nodes/n1").await.json()["instance_uuid"],
        Value::Null
    );
    let named = api
        .call(
            "POST /v1/allocations",
            json!({"resource_class": "gold", "name": "n1"}),
        )
        .await
        .is(201)
        .json();
    assert_eq!(
        named["node_uuid"], n1["uuid"],
        "a node of the allocation's name is preferred"
    );
}

#[tokio::test]
async fn no_more_nodes_are_worked_on_at_once_than_allowed() {
    let api = Api::with("fake: {deploy: 30}\nmax_concurrent_deploy: 1").await;
    for name in ["n0", "n1"] {
        api.available(name).await;
    }
    let active = json!({"target": "active"});
    api.call("PUT /v1/nodes/n0/states/provision", active.clone())
        .await
        .is(202);
    let answer = api
        .call("PUT /v1/nodes/n1/states/provision", active)
        .await
        .is(503);
    assert!(answer.fault().contains("no more than 1"));
}
