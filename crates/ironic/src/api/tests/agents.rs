//! What agents call, on a node whose power is fake and whose inspection is real.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Api;

async fn inspecting(api: &Api) -> String {
    let body = json!({"driver": "fake-hardware", "name": "n0", "inspect_interface": "agent"});
    let node = api.call("POST /v1/nodes", body).await.is(201).json()["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    api.call(
        "POST /v1/ports",
        json!({"address": "52:54:00:00:00:01", "node_uuid": node}),
    )
    .await
    .is(201);
    api.verb(&node, "manage", "manageable").await;
    api.verb(&node, "inspect", "inspect wait").await;
    node
}

fn report() -> Value {
    json!({
        "inventory": {
            "interfaces": [
                {"name": "eth0", "mac_address": "52:54:00:00:00:01"}, {"name": "eth1", "mac_address": "52:54:00:00:00:02"},
            ],
            "cpu": {"architecture": "x86_64", "count": 4}, "memory": {"physical_mb": 2048}, "disks": [],
            "bmc_address": "0.0.0.0",
        },
        "boot_interface": "01-52-54-00-00-00-01", "logs": "H4sI", "error": null,
    })
}

#[tokio::test]
async fn an_inspection_ends_when_the_agent_reports() {
    let api = Api::new().await;
    let node = inspecting(&api).await;
    assert_eq!(
        api.at("1.38", "GET /v1/nodes/n0", Value::Null).await.json()["provision_state"],
        "inspecting"
    );
    let waiting = &api.get("/v1/nodes/n0").await.json()["driver_internal_info"]["waiting"];
    assert!(
        waiting["for"]
            .as_str()
            .unwrap()
            .contains("the agent to call"),
        "{waiting}"
    );
    // The agent sends no version.
    let answer = api
        .at("1.1", "POST /v1/continue_inspection", report())
        .await
        .is(202);
    assert_eq!(answer.json(), json!({"uuid": node}));
    api.reaches(&node, "manageable").await;
    let found = api.get("/v1/nodes/n0/inventory").await.is(200).json();
    assert_eq!(found["inventory"]["cpu"]["count"], 4);
    assert_eq!(
        found["plugin_data"]["macs"],
        json!(["52:54:00:00:00:01", "52:54:00:00:00:02"])
    );
    assert_eq!(found["plugin_data"].get("logs"), None);
    let ports = api.get("/v1/ports?node=n0&detail=true").await.json();
    let ports: Vec<_> = ports["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| (port["address"].clone(), port["pxe_enabled"].clone()))
        .collect();
    assert_eq!(
        ports,
        [
            (json!("52:54:00:00:00:01"), json!(true)),
            (json!("52:54:00:00:00:02"), json!(false))
        ]
    );
    assert_eq!(
        api.get("/v1/nodes/n0").await.json()["properties"]["cpu_arch"],
        "x86_64"
    );
    api.at("1.1", "POST /v1/continue_inspection", report())
        .await
        .is(404);
}

#[tokio::test]
async fn an_agent_that_reports_trouble_fails_the_inspection_with_its_words() {
    let api = Api::new().await;
    let node = inspecting(&api).await;
    let mut trouble = report();
    trouble["error"] = json!("no disks at all");
    api.call("POST /v1/continue_inspection", trouble)
        .await
        .is(202);
    api.reaches(&node, "inspect failed").await;
    assert!(
        api.get("/v1/nodes/n0").await.json()["last_error"]
            .as_str()
            .unwrap()
            .contains("no disks at all")
    );
}

#[tokio::test]
async fn a_wait_can_be_aborted_and_runs_out_by_itself() {
    let api = Api::new().await;
    let node = inspecting(&api).await;
    api.verb(&node, "abort", "inspect failed").await;
    assert!(
        api.get("/v1/nodes/n0").await.json()["last_error"]
            .as_str()
            .unwrap()
            .contains("abort")
    );
    let impatient = Api::with("timers: {inspect_wait: 0.2}").await;
    let node = inspecting(&impatient).await;
    impatient.reaches(&node, "inspect failed").await;
    assert!(
        impatient.get("/v1/nodes/n0").await.json()["last_error"]
            .as_str()
            .unwrap()
            .contains("timeout")
    );
}

#[tokio::test]
async fn the_token_is_given_once_and_heartbeats_need_it() {
    let api = Api::new().await;
    let node = inspecting(&api).await;
    api.get("/v1/lookup?addresses=52:54:00:00:00:0f")
        .await
        .is(404);
    let found = api
        .get("/v1/lookup?addresses=52:54:00:00:00:01,nonsense")
        .await
        .is(200)
        .json();
    let token = found["config"]["agent_token"].as_str().unwrap().to_owned();
    assert_eq!(found["node"]["uuid"], node.as_str());
    assert_eq!(token.len(), 43);
    assert_eq!(found["config"]["heartbeat_timeout"], 300);
    let again = api
        .get(&format!("/v1/lookup?node_uuid={node}"))
        .await
        .is(200)
        .json();
    assert_eq!(again["config"]["agent_token"], "******");
    assert_eq!(
        again["node"]["driver_internal_info"]["agent_secret_token"],
        "******"
    );
    let beat = |url: &str, token: &str, certificate: &str| json!({"callback_url": url, "agent_token": token, "agent_version": "11.0", "agent_verify_ca": certificate});
    let call = format!("POST /v1/heartbeat/{node}");
    for (name, body, status) in [
        (
            "wrong token",
            beat("https://10.0.0.7:9999", "x", "pem"),
            400,
        ),
        ("no TLS", beat("http://10.0.0.7:9999", &token, "pem"), 400),
        ("not a URL", beat("gopher", &token, "pem"), 400),
        ("right", beat("https://10.0.0.7:9999", &token, "pem"), 202),
        (
            "right again",
            beat("https://10.0.0.7:9999", &token, "pem"),
            202,
        ),
        (
            "another URL",
            beat("https://10.0.0.8:9999", &token, "pem"),
            400,
        ),
        (
            "another certificate",
            beat("https://10.0.0.7:9999", &token, "other"),
            400,
        ),
        (
            "no version",
            json!({"callback_url": "https://10.0.0.7:9999", "agent_token": token}),
            400,
        ),
    ] {
        let answer = api.call(&call, body).await;
        assert_eq!(answer.status.as_u16(), status, "{name}: {}", answer.text);
    }
    assert_eq!(
        api.get("/v1/nodes/n0").await.json()["driver_internal_info"]["agent_url"],
        "https://10.0.0.7:9999"
    );
}

#[tokio::test]
async fn a_host_that_is_booted_again_gets_a_token_when_its_power_is_settled() {
    let api = Api::with("{timers: {boot_retry: 0.2, boot_retries: 1}, fake: {power: 0.3}}").await;
    let node = inspecting(&api).await;
    let lookup = format!("/v1/lookup?node_uuid={node}");
    let token = |found: &Value| found["config"]["agent_token"].as_str().unwrap().to_owned();
    // The first one dies with its token, unheard.
    let lost = token(&api.get(&lookup).await.is(200).json());
    assert_ne!(lost, "******");
    let deadline = Instant::now() + Duration::from_secs(10);
    let (mut refused, mut given) = (false, None);
    while given.is_none() {
        assert!(
            Instant::now() < deadline,
            "no second token; refused: {refused}"
        );
        let answer = api.get(&lookup).await;
        if answer.status == 409 {
            refused = true;
        } else {
            given = Some(token(&answer.is(200).json())).filter(|token| token != "******");
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(refused, "while the power changes nobody is given a token");
    let given = given.unwrap();
    assert_ne!(given, lost);
    let beat = json!({"callback_url": "https://10.0.0.7:9999", "agent_token": given, "agent_version": "11.0"});
    let call = format!("POST /v1/heartbeat/{node}");
    api.call(&call, beat).await.is(202);
}

#[tokio::test]
async fn a_node_that_waits_for_nobody_is_not_found_by_agents() {
    let api = Api::new().await;
    let node = api.node("n0").await;
    api.get(&format!("/v1/lookup?node_uuid={node}"))
        .await
        .is(404);
    let closed = Api::with("ramdisk_endpoints: false").await;
    closed
        .get(&format!("/v1/lookup?node_uuid={node}"))
        .await
        .is(403);
}
