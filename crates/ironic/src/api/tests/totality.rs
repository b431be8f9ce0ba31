//! Any request whatever is answered, in the shape clients parse, and never with our own fault.

use axum::body::Body;
use axum::http::Request;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Api;

const PATHS: [&str; 52] = [
    "/",
    "/v1",
    "/v1/nodes",
    "/v1/nodes/detail",
    "/v1/nodes/n0",
    "/v1/nodes/n0/states",
    "/v1/nodes/n0/states/provision",
    "/v1/nodes/n0/states/power",
    "/v1/nodes/n0/states/raid",
    "/v1/nodes/n0/states/boot_mode",
    "/v1/nodes/n0/states/secure_boot",
    "/v1/nodes/n0/states/console",
    "/v1/nodes/n0/management/boot_device",
    "/v1/nodes/n0/management/inject_nmi",
    "/v1/nodes/n0/management/indicators/led@system",
    "/v1/nodes/n0/maintenance",
    "/v1/nodes/n0/validate",
    "/v1/nodes/n0/traits",
    "/v1/nodes/n0/traits/CUSTOM_A",
    "/v1/nodes/n0/vifs",
    "/v1/nodes/n0/vifs/a",
    "/v1/nodes/n0/vmedia",
    "/v1/nodes/n0/bios",
    "/v1/nodes/n0/firmware",
    "/v1/nodes/n0/inventory",
    "/v1/nodes/n0/history",
    "/v1/nodes/n0/ports",
    "/v1/nodes/n0/allocation",
    "/v1/nodes/n0/vendor_passthru",
    "/v1/ports",
    "/v1/ports/p",
    "/v1/portgroups",
    "/v1/portgroups/g",
    "/v1/drivers",
    "/v1/drivers/fake-hardware/properties",
    "/v1/conductors",
    "/v1/allocations",
    "/v1/allocations/a",
    "/v1/lookup",
    "/v1/heartbeat/n0",
    "/v1/continue_inspection",
    "/v1/volume/connectors",
    "/v1/volume/targets",
    "/v1/nodes/n0/volume/targets",
    "/v1/nodes/n0/vendor_passthru/methods",
    "/v1/chassis",
    "/v1/chassis/c/nodes",
    "/v1/deploy_templates",
    "/v1/runbooks",
    "/v1/inspection_rules",
    "/v1/shards",
    "/%ff/..//x",
];

fn document() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "driver",
        "fake-hardware",
        "name",
        "n0",
        "uuid",
        "target",
        "manage",
        "active",
        "inspect",
        "clean",
        "clean_steps",
        "power on",
        "address",
        "52:54:00:00:00:01",
        "node_uuid",
        "op",
        "path",
        "value",
        "add",
        "remove",
        "/extra/a",
        "/name",
        "/driver_info",
        "inventory",
        "interfaces",
        "mac_address",
        "callback_url",
        "https://x",
        "agent_token",
        "resource_class",
        "traits",
        "CUSTOM_A",
        "interface",
        "bios",
        "step",
        "configdrive",
        "extra",
        "boot_device",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        words.clone().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(words.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => document().prop_map(|document| document.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_requests_are_answered_and_leave_a_state_that_can_be_read_again(
        requests in prop::collection::vec(
            (
                prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE"]),
                prop::sample::select(PATHS.to_vec()),
                "(\\?[a-z_]{0,10}=[a-z0-9%,]{0,6})?",
                prop::sample::select(vec!["1.1", "1.34", "1.58", "1.89", "1.110"]),
                body(),
            ),
            1..40,
        )
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let api = Api::new().await;
            api.call("POST /v1/nodes", json!({"driver": "fake-hardware", "name": "n0"})).await.is(201);
            for (method, path, query, version, body) in requests {
                let request = Request::builder()
                    .method(method)
                    .uri(format!("{path}{query}"))
                    .header("x-openstack-ironic-api-version", version)
                    .body(Body::from(body.clone()));
                let answer = api.send(request.unwrap()).await;
                let about = || format!("{method} {path}{query} at {version} with {:?}: {}", String::from_utf8_lossy(&body), answer.text);
                let status = answer.status.as_u16();
                assert!(status < 500 || status == 501, "{}", about());
                assert!(answer.headers.contains_key("x-openstack-ironic-api-maximum-version"), "{}", about());
                if status >= 400 && answer.json().get("faultcode").is_none() {
                    answer.fault();
                }
            }
            let whole = api.get("/v1/nodes/detail").await.is(200);
            assert!(whole.json()["nodes"].is_array());
        });
    }
}
