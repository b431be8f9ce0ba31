//! Nodes: made, shown, changed, deleted.

use serde_json::{Value, json};

use super::Api;

#[tokio::test]
async fn a_new_node_is_enrolled_with_the_drivers_defaults() {
    let api = Api::new().await;
    let body = json!({
        "driver": "fake-hardware", "name": "metal3~host-0", "uuid": "0f000000-0000-4000-8000-000000000001",
        "driver_info": {"redfish_password": "hunter2", "redfish_address": "https://10.0.0.1"},
        "properties": {"capabilities": "boot_mode:uefi"}, "inspect_interface": "no-inspect",
    });
    let answer = api.call("POST /v1/nodes", body).await.is(201);
    assert_eq!(
        answer.headers["location"],
        "http://metal:6385/v1/nodes/0f000000-0000-4000-8000-000000000001"
    );
    let node = answer.json();
    assert_eq!(node["provision_state"], "enroll");
    assert_eq!(node["driver_info"]["redfish_password"], "******");
    assert_eq!(node["deploy_interface"], "fake");
    assert_eq!(node["inspect_interface"], "no-inspect");
    assert_eq!(node["power_state"], Value::Null);
    assert_eq!(node["instance_info"], json!({}));
    assert_eq!(node["traits"], json!([]));
    assert_eq!(
        node["states"][0]["href"],
        "http://metal:6385/v1/nodes/0f000000-0000-4000-8000-000000000001/states"
    );
    let shown = api.get("/v1/nodes/metal3~host-0").await.is(200).json();
    assert_eq!(shown, node);
}

#[tokio::test]
async fn an_old_client_sees_only_what_its_version_had() {
    let api = Api::new().await;
    let body = json!({"driver": "fake-hardware"});
    let old = api
        .at("1.1", "POST /v1/nodes", body.clone())
        .await
        .is(201)
        .json();
    for field in [
        "name",
        "driver_internal_info",
        "boot_interface",
        "traits",
        "fault",
        "owner",
        "states",
    ] {
        assert!(old.get(field).is_none(), "{field}");
    }
    // What is available had no name then.
    assert_eq!(old["provision_state"], Value::Null);
    let newer = api
        .at("1.10", "POST /v1/nodes", body.clone())
        .await
        .is(201)
        .json();
    assert_eq!(newer["provision_state"], "available");
    assert_eq!(
        api.at("1.11", "POST /v1/nodes", body).await.is(201).json()["provision_state"],
        "enroll"
    );
    for (version, body) in [
        ("1.4", json!({"driver": "fake-hardware", "name": "n"})),
        (
            "1.30",
            json!({"driver": "fake-hardware", "boot_interface": "fake"}),
        ),
        (
            "1.94",
            json!({"driver": "fake-hardware", "disable_power_off": true}),
        ),
    ] {
        api.at(version, "POST /v1/nodes", body).await.is(406);
    }
}

#[tokio::test]
async fn fields_are_chosen_by_name() {
    let api = Api::new().await;
    api.node("n0").await;
    let node = api
        .get("/v1/nodes/n0?fields=name,provision_state")
        .await
        .is(200)
        .json();
    let keys: Vec<_> = node.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["links", "name", "provision_state"]);
    api.get("/v1/nodes/n0?fields=nonsense").await.is(400);
    api.at("1.50", "GET /v1/nodes?fields=description", Value::Null)
        .await
        .is(406);
    api.at("1.7", "GET /v1/nodes?fields=uuid", Value::Null)
        .await
        .is(406);
}

#[tokio::test]
async fn a_patch_changes_all_it_names_or_nothing() {
    let api = Api::new().await;
    api.node("n0").await;
    let patch = json!([
        {"op": "add", "path": "/driver_info/deploy_kernel", "value": "http://k"},
        {"op": "add", "path": "/driver_info/ipmi_password", "value": "hunter2"},
        {"op": "add", "path": "/automated_clean", "value": false},
        {"op": "replace", "path": "/name", "value": "n1"},
        {"op": "add", "path": "/instance_uuid", "value": "0f000000-0000-4000-8000-000000000002"},
    ]);
    let node = api.call("PATCH /v1/nodes/n0", patch).await.is(200).json();
    assert_eq!(
        node["driver_info"],
        json!({"deploy_kernel": "http://k", "ipmi_password": "******"})
    );
    assert_eq!(
        (&node["automated_clean"], &node["name"]),
        (&json!(false), &json!("n1"))
    );
    let half = json!([{"op": "add", "path": "/extra/a", "value": 1}, {"op": "remove", "path": "/extra/b"}]);
    api.call("PATCH /v1/nodes/n1", half).await.is(400);
    assert_eq!(api.get("/v1/nodes/n1").await.json()["extra"], json!({}));
    let removed = json!([
        {"op": "remove", "path": "/driver_info"}, {"op": "remove", "path": "/automated_clean"},
        {"op": "remove", "path": "/instance_uuid"}, {"op": "remove", "path": "/boot_interface"},
    ]);
    let node = api.call("PATCH /v1/nodes/n1", removed).await.is(200).json();
    assert_eq!(node["driver_info"], json!({}));
    assert_eq!(
        (&node["automated_clean"], &node["instance_uuid"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(node["boot_interface"], "fake");
}

#[tokio::test]
async fn a_secret_that_was_not_touched_survives_a_patch_beside_it() {
    let api = Api::new().await;
    let body = json!({"driver": "fake-hardware", "name": "n0", "driver_info": {"ipmi_password": "hunter2"}});
    api.call("POST /v1/nodes", body).await.is(201);
    let patch = json!([{"op": "add", "path": "/driver_info/ipmi_username", "value": "admin"}]);
    api.call("PATCH /v1/nodes/n0", patch).await.is(200);
    let tables = api.server.service().store.read();
    assert_eq!(
        tables.nodes.named("n0").unwrap().driver_info["ipmi_password"],
        "hunter2"
    );
}

#[tokio::test]
async fn a_node_goes_with_all_that_belongs_to_it() {
    let api = Api::new().await;
    let node = api.node("n0").await;
    api.call(
        "POST /v1/ports",
        json!({"address": "52:54:00:00:00:01", "node_uuid": node}),
    )
    .await
    .is(201);
    api.call(
        "POST /v1/portgroups",
        json!({"name": "bond0", "node_uuid": node}),
    )
    .await
    .is(201);
    api.call("DELETE /v1/nodes/n0", Value::Null).await.is(204);
    assert_eq!(api.get("/v1/ports").await.json()["ports"], json!([]));
    assert_eq!(
        api.get("/v1/portgroups").await.json()["portgroups"],
        json!([])
    );
    api.get("/v1/nodes/n0").await.is(404);
    api.call("DELETE /v1/nodes/n0", Value::Null).await.is(404);
    // The address is free again.
    let node = api.node("n0").await;
    api.call(
        "POST /v1/ports",
        json!({"address": "52:54:00:00:00:01", "node_uuid": node}),
    )
    .await
    .is(201);
}

#[tokio::test]
async fn small_parts_of_a_node_are_set_and_read_back() {
    let api = Api::new().await;
    api.node("n0").await;
    let at = |part: &str| format!("/v1/nodes/n0/{part}");
    api.call(
        &format!("PUT {}", at("traits")),
        json!({"traits": ["HW_CPU_X86_VMX", "CUSTOM_A"]}),
    )
    .await
    .is(204);
    api.call(&format!("PUT {}", at("traits/CUSTOM_B")), Value::Null)
        .await
        .is(204);
    api.call(
        &format!("DELETE {}", at("traits/HW_CPU_X86_VMX")),
        Value::Null,
    )
    .await
    .is(204);
    assert_eq!(
        api.get(&at("traits")).await.json(),
        json!({"traits": ["CUSTOM_A", "CUSTOM_B"]})
    );
    api.call(&format!("POST {}", at("vifs")), json!({"id": "v1"}))
        .await
        .is(204);
    api.call(&format!("POST {}", at("vifs")), json!({"id": "v1"}))
        .await
        .is(409);
    assert_eq!(
        api.get(&at("vifs")).await.json(),
        json!({"vifs": [{"id": "v1"}]})
    );
    api.call(&format!("DELETE {}", at("vifs/v1")), Value::Null)
        .await
        .is(204);
    api.call(
        &format!("PUT {}", at("management/boot_device")),
        json!({"boot_device": "cdrom", "persistent": true}),
    )
    .await
    .is(204);
    assert_eq!(
        api.get(&at("management/boot_device")).await.json(),
        json!({"boot_device": "cdrom", "persistent": true})
    );
    api.call(
        &format!("PUT {}", at("management/indicators/led@system")),
        json!({"state": "ON"}),
    )
    .await
    .is(204);
    assert_eq!(
        api.get(&at("management/indicators/led@system"))
            .await
            .json(),
        json!({"state": "ON"})
    );
    api.call(&format!("PUT {}", at("management/inject_nmi")), json!({}))
        .await
        .is(204);
    api.call(
        &format!("PUT {}", at("maintenance")),
        json!({"reason": "moving"}),
    )
    .await
    .is(202);
    let node = api.get("/v1/nodes/n0").await.json();
    assert_eq!(
        (&node["maintenance"], &node["maintenance_reason"]),
        (&json!(true), &json!("moving"))
    );
    api.call(&format!("DELETE {}", at("maintenance")), Value::Null)
        .await
        .is(202);
    assert_eq!(
        api.get("/v1/nodes/n0").await.json()["maintenance_reason"],
        Value::Null
    );
    let image = json!({"device_type": "cdrom", "image_url": "http://images/live.iso"});
    api.call(&format!("POST {}", at("vmedia")), image)
        .await
        .is(204);
    api.until("n0", |node| node["reservation"].is_null()).await;
    assert_eq!(
        api.get(&at("vmedia")).await.json()[0],
        json!({"media_types": ["cdrom"], "inserted": true, "image": "http://images/live.iso"})
    );
    api.call(
        &format!("DELETE {}?device_types=cdrom", at("vmedia")),
        Value::Null,
    )
    .await
    .is(204);
    api.until("n0", |node| node["reservation"].is_null()).await;
    assert_eq!(api.get(&at("vmedia")).await.json()[0]["inserted"], false);
    let disks =
        json!({"logical_disks": [{"size_gb": "MAX", "raid_level": "1+0", "is_root_volume": true}]});
    api.call(&format!("PUT {}", at("states/raid")), disks.clone())
        .await
        .is(204);
    assert_eq!(
        api.get(&at("states")).await.json()["target_raid_config"],
        disks
    );
    for (part, empty) in [
        ("bios", "bios"),
        ("firmware", "firmware"),
        ("history", "history"),
        ("children", "children"),
    ] {
        assert_eq!(
            api.get(&at(part)).await.is(200).json(),
            json!({empty: []}),
            "{part}"
        );
    }
    let validated = api.get(&at("validate")).await.is(200).json();
    assert_eq!(
        (&validated["boot"], &validated["deploy"]),
        (&json!({"result": true}), &json!({"result": true}))
    );
}
