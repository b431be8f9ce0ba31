//! What is refused, with which status, always in the shape clients parse.

use serde_json::{Value, json};

use super::Api;

#[tokio::test]
async fn malformed_requests_get_a_status_and_a_reason() {
    let api = Api::new().await;
    let node = api.node("n0").await;
    api.node("n1").await;
    api.call(
        "POST /v1/ports",
        json!({"address": "52:54:00:00:00:01", "node_uuid": node}),
    )
    .await
    .is(201);
    let (provision, power) = (
        "PUT /v1/nodes/n0/states/provision",
        "PUT /v1/nodes/n0/states/power",
    );
    for (call, body, status, words) in [
        ("POST /v1/nodes", Value::Null, 400, "needs a body"),
        ("POST /v1/nodes", json!([]), 400, "must be a JSON object"),
        ("POST /v1/nodes", json!({}), 400, "driver: is required"),
        (
            "POST /v1/nodes",
            json!({"driver": 7}),
            400,
            "driver: must be a text",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "nonesuch"}),
            400,
            "No valid host",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "colour": "red"}),
            400,
            "no field \"colour\"",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "provision_state": "active"}),
            400,
            "cannot be set",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "name": "a b"}),
            400,
            "name:",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "name": "detail"}),
            400,
            "name:",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "name": "n0"}),
            409,
            "already exists",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "uuid": node}),
            409,
            "already exists",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "uuid": "x"}),
            400,
            "not a uuid",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "extra": 1}),
            400,
            "extra: must be an object",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "power_interface": "x"}),
            400,
            "power_interface",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "resource_class": "x".repeat(81)}),
            400,
            "longer than 80",
        ),
        (
            "POST /v1/nodes",
            json!({"driver": "fake-hardware", "parent_node": "0f000000-0000-4000-8000-00000000000f"}),
            400,
            "no node",
        ),
        (
            "GET /v1/nodes/nobody",
            Value::Null,
            404,
            "could not be found",
        ),
        ("GET /v1/nodes?limit=0", Value::Null, 400, "positive"),
        ("GET /v1/nodes?limit=-1", Value::Null, 400, "positive"),
        ("GET /v1/nodes?limit=x", Value::Null, 400, "not a number"),
        (
            "GET /v1/nodes?marker=0f000000-0000-4000-8000-00000000000f",
            Value::Null,
            404,
            "Marker",
        ),
        (
            "GET /v1/nodes?sort_key=driver_info",
            Value::Null,
            400,
            "sorted",
        ),
        ("GET /v1/nodes?sort_key=nope", Value::Null, 400, "no field"),
        (
            "GET /v1/nodes?sort_dir=up",
            Value::Null,
            400,
            "sort direction",
        ),
        (
            "GET /v1/nodes?colour=red",
            Value::Null,
            400,
            "Unknown argument",
        ),
        (
            "GET /v1/nodes?fields=uuid&detail=true",
            Value::Null,
            400,
            "not both",
        ),
        (
            "GET /v1/nodes?maintenance=perhaps",
            Value::Null,
            400,
            "neither",
        ),
        (
            "GET /v1/nodes?provision_state=asleep",
            Value::Null,
            400,
            "provision state",
        ),
        ("GET /v1/nodes?fault=tired", Value::Null, 400, "fault"),
        ("GET /v1/nodes?a=%zz", Value::Null, 400, "encoded"),
        ("PATCH /v1/nodes/n0", json!({}), 400, "list of operations"),
        (
            "PATCH /v1/nodes/n0",
            json!([{"op": "add", "path": "/uuid", "value": "x"}]),
            400,
            "cannot be changed",
        ),
        (
            "PATCH /v1/nodes/n0",
            json!([{"op": "add", "path": "/nope", "value": 1}]),
            400,
            "no field",
        ),
        (
            "PATCH /v1/nodes/n0",
            json!([{"op": "add", "path": "/traits", "value": []}]),
            400,
            "cannot be changed",
        ),
        (
            "PATCH /v1/nodes/n0",
            json!([{"op": "remove", "path": "/driver"}]),
            400,
            "driver",
        ),
        (
            "PATCH /v1/nodes/n0",
            json!([{"op": "replace", "path": "/name", "value": "n1"}]),
            409,
            "already exists",
        ),
        (
            "PATCH /v1/nodes/n0",
            json!([{"op": "replace", "path": "/protected", "value": true}]),
            409,
            "protected",
        ),
        (
            "PATCH /v1/nodes/n0?reset_interfaces=true",
            json!([{"op": "add", "path": "/extra/a", "value": 1}]),
            400,
            "reset_interfaces",
        ),
        ("DELETE /v1/nodes", Value::Null, 405, "not allowed"),
        ("PUT /v1/nodes/n0", json!({}), 405, "not allowed"),
        ("GET /v1/nonsense", Value::Null, 404, "could not be found"),
        (
            "GET /v1/nodes/n0/nonsense",
            Value::Null,
            404,
            "could not be found",
        ),
        (provision, json!({}), 400, "target"),
        (provision, json!({"target": "fly"}), 400, "not a verb"),
        (
            provision,
            json!({"target": "active"}),
            400,
            "not possible in state \"enroll\"",
        ),
        (
            provision,
            json!({"target": "manage", "colour": 1}),
            400,
            "Unexpected property",
        ),
        (
            provision,
            json!({"target": "manage", "configdrive": "x"}),
            400,
            "configdrive",
        ),
        (
            provision,
            json!({"target": "manage", "clean_steps": [{"interface": "bios", "step": "x"}]}),
            400,
            "clean_steps",
        ),
        (
            provision,
            json!({"target": "clean"}),
            400,
            "clean_steps is required",
        ),
        (
            provision,
            json!({"target": "clean", "clean_steps": []}),
            400,
            "must not be empty",
        ),
        (
            provision,
            json!({"target": "clean", "clean_steps": [{"step": "x"}]}),
            400,
            "interface is required",
        ),
        (
            provision,
            json!({"target": "clean", "clean_steps": [{"interface": "toaster", "step": "x"}]}),
            400,
            "interface: must be one of",
        ),
        (
            provision,
            json!({"target": "clean", "clean_steps": [{"interface": "vendor", "step": "send_raw"}]}),
            400,
            "not allowed",
        ),
        (
            provision,
            json!({"target": "active", "deploy_steps": [{"interface": "deploy", "step": "x"}]}),
            400,
            "args is required",
        ),
        (
            provision,
            json!({"target": "active", "configdrive": {"colour": 1}}),
            400,
            "Unexpected property",
        ),
        (
            provision,
            json!({"target": "active", "configdrive": 7}),
            400,
            "configdrive",
        ),
        (
            provision,
            json!({"target": "active", "configdrive": "no base64!"}),
            400,
            "base64",
        ),
        (
            provision,
            json!({"target": "rescue"}),
            400,
            "rescue_password is required",
        ),
        (
            power,
            json!({"target": "explode"}),
            400,
            "not a power state",
        ),
        (
            power,
            json!({"target": "power on", "timeout": 0}),
            400,
            "timeout",
        ),
        (
            "PUT /v1/nodes/n0/states/boot_mode",
            json!({"target": "coreboot"}),
            400,
            "uefi or bios",
        ),
        (
            "PUT /v1/nodes/n0/states/secure_boot",
            json!({"target": "maybe"}),
            400,
            "true or false",
        ),
        (
            "PUT /v1/nodes/n0/states/raid",
            json!({"logical_disks": [{"size_gb": 1, "raid_level": "7"}]}),
            400,
            "raid_level",
        ),
        (
            "PUT /v1/nodes/n0/management/boot_device",
            json!({"boot_device": "toaster"}),
            400,
            "Invalid boot device",
        ),
        (
            "PUT /v1/nodes/n0/traits",
            json!({"traits": ["lower"]}),
            400,
            "not a trait",
        ),
        (
            "DELETE /v1/nodes/n0/traits/CUSTOM_X",
            Value::Null,
            404,
            "no trait",
        ),
        ("GET /v1/nodes/n0/inventory", Value::Null, 404, "inventory"),
        ("GET /v1/nodes/n0/bios/x", Value::Null, 404, "BIOS"),
        (
            "POST /v1/nodes/n0/vmedia",
            json!({"device_type": "tape", "image_url": "http://x"}),
            400,
            "Device type",
        ),
        (
            "POST /v1/nodes/n0/vmedia",
            json!({"device_type": "cdrom", "image_url": "file:///etc/passwd"}),
            400,
            "image_url",
        ),
        (
            "GET /v1/nodes/n0/allocation",
            Value::Null,
            404,
            "no allocation",
        ),
        (
            "POST /v1/nodes/n0/vendor_passthru?method=x",
            json!({}),
            400,
            "method",
        ),
        (
            "POST /v1/ports",
            json!({"address": "x", "node_uuid": node}),
            400,
            "MAC",
        ),
        (
            "POST /v1/ports",
            json!({"address": "01:00:00:00:00:01", "node_uuid": node}),
            400,
            "address",
        ),
        (
            "POST /v1/ports",
            json!({"address": "52:54:00:00:00:02"}),
            400,
            "node_uuid: is required",
        ),
        (
            "POST /v1/ports",
            json!({"address": "52:54:00:00:00:02", "node_uuid": "0f000000-0000-4000-8000-00000000000f"}),
            400,
            "could not be found",
        ),
        (
            "POST /v1/ports",
            json!({"address": "52:54:00:00:00:01", "node_uuid": node}),
            409,
            "MAC address",
        ),
        (
            "GET /v1/ports/0f000000-0000-4000-8000-00000000000f",
            Value::Null,
            404,
            "could not be found",
        ),
        ("GET /v1/drivers/nonesuch", Value::Null, 404, "unknown"),
        (
            "GET /v1/conductors/nobody",
            Value::Null,
            404,
            "could not be found",
        ),
        (
            "POST /v1/allocations",
            json!({}),
            400,
            "resource_class: is required",
        ),
        (
            "POST /v1/allocations",
            json!({"resource_class": "gold", "traits": ["x"]}),
            400,
            "not a trait",
        ),
        (
            "POST /v1/allocations",
            json!({"resource_class": "gold", "candidate_nodes": ["nobody"]}),
            400,
            "could not be found",
        ),
        (
            "POST /v1/allocations",
            json!({"node": "n0"}),
            400,
            "not active",
        ),
        ("GET /v1/lookup", Value::Null, 400, "needs"),
        (
            "GET /v1/lookup?addresses=nonsense",
            Value::Null,
            400,
            "needs",
        ),
        ("POST /v1/heartbeat/n0", json!({}), 400, "callback_url"),
        (
            "POST /v1/continue_inspection",
            json!({}),
            400,
            "inventory: is required",
        ),
        (
            "POST /v1/continue_inspection",
            json!({"inventory": {"interfaces": []}}),
            400,
            "interfaces",
        ),
        ("POST /v1/runbooks", json!({}), 400, "name: is required"),
        ("PUT /v1/runbooks", json!({}), 405, "not allowed"),
    ] {
        let answer = api.call(call, body.clone()).await;
        let fault = answer.fault();
        assert_eq!(answer.status.as_u16(), status, "{call} {body}: {fault}");
        assert!(
            fault.contains(words),
            "{call} {body}: {fault:?} does not say {words:?}"
        );
    }
}

#[tokio::test]
async fn a_body_that_is_not_json_is_a_bad_request_everywhere() {
    let api = Api::new().await;
    api.node("n0").await;
    for call in [
        "POST /v1/nodes",
        "PATCH /v1/nodes/n0",
        "PUT /v1/nodes/n0/states/provision",
        "POST /v1/ports",
        "POST /v1/heartbeat/n0",
    ] {
        let (method, path) = call.split_once(' ').unwrap();
        let request = axum::http::Request::builder()
            .method(method)
            .uri(path)
            .header("x-openstack-ironic-api-version", "1.110")
            .body(axum::body::Body::from("{nonsense"))
            .unwrap();
        assert!(
            api.send(request).await.is(400).fault().contains("not JSON"),
            "{call}"
        );
    }
}

#[tokio::test]
async fn what_a_version_does_not_have_is_not_found_or_not_acceptable() {
    let api = Api::new().await;
    let node = api.node("n0").await;
    let at = |part: &str| format!("/v1/nodes/{node}/{part}");
    for (version, call, body, status) in [
        ("1.22", "GET /v1/portgroups".to_owned(), Value::Null, 404),
        ("1.48", "GET /v1/conductors".to_owned(), Value::Null, 404),
        ("1.51", "GET /v1/allocations".to_owned(), Value::Null, 404),
        ("1.36", format!("GET {}", at("traits")), Value::Null, 404),
        ("1.80", format!("GET {}", at("inventory")), Value::Null, 404),
        ("1.88", format!("POST {}", at("vmedia")), json!({}), 404),
        (
            "1.75",
            format!("PUT {}", at("states/boot_mode")),
            json!({"target": "uefi"}),
            404,
        ),
        (
            "1.3",
            format!("PUT {}", at("states/provision")),
            json!({"target": "manage"}),
            406,
        ),
        (
            "1.14",
            format!("PUT {}", at("states/provision")),
            json!({"target": "clean", "clean_steps": [{"interface": "bios", "step": "x"}]}),
            406,
        ),
        (
            "1.26",
            format!("PUT {}", at("states/power")),
            json!({"target": "soft power off"}),
            406,
        ),
        (
            "1.8",
            "GET /v1/nodes?provision_state=enroll".to_owned(),
            Value::Null,
            406,
        ),
        (
            "1.42",
            "GET /v1/nodes?detail=True".to_owned(),
            Value::Null,
            406,
        ),
        (
            "1.44",
            format!("PATCH /v1/nodes/{node}?reset_interfaces=true"),
            json!([]),
            406,
        ),
        (
            "1.50",
            format!("PATCH /v1/nodes/{node}"),
            json!([{"op": "add", "path": "/description", "value": "x"}]),
            406,
        ),
    ] {
        assert_eq!(
            api.at(version, &call, body).await.status.as_u16(),
            status,
            "{version} {call}"
        );
    }
}
