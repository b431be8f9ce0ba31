//! Nodes across restarts of the service.

use std::path::Path;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::config::Config;
use crate::server::Server;
use crate::store::tests::Disk;

async fn start(state: &Path, settings: &str) -> Server {
    let mut config = Config::parse(settings, "test".as_ref()).unwrap();
    config.state = state.to_owned();
    // The file of a service that was killed is free once its last task has let go of it.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match Server::start(&config).await {
            Ok(server) => return server,
            Err(error) => assert!(Instant::now() < deadline, "{}", model::chain(&error)),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn call(server: &Server, call: &str, body: Value) -> (u16, Value) {
    let (method, path) = call.split_once(' ').unwrap();
    let body = if body.is_null() {
        Body::empty()
    } else {
        Body::from(body.to_string())
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-openstack-ironic-api-version", "1.110");
    let answer = server
        .router()
        .oneshot(request.body(body).unwrap())
        .await
        .unwrap();
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn verb(server: &Server, body: Value) {
    assert_eq!(
        call(server, "PUT /v1/nodes/n0/states/provision", body)
            .await
            .0,
        202
    );
}

async fn reaches(server: &Server, state: &str) -> Value {
    until(server, |node| {
        node["provision_state"] == state && node["reservation"].is_null()
    })
    .await
}

async fn until(server: &Server, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (_, node) = call(server, "GET /v1/nodes/n0", Value::Null).await;
        if wanted(&node) {
            return node;
        }
        assert!(
            Instant::now() < deadline,
            "it never came; last seen: {node:#}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn enrol(server: &Server, extra: Value) {
    let mut body = json!({"driver": "fake-hardware", "name": "n0"});
    body.as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    assert_eq!(call(server, "POST /v1/nodes", body).await.0, 201);
    verb(server, json!({"target": "manage"})).await;
    reaches(server, "manageable").await;
}

/// Drops all of a service at once, as far as that can be done within one process.
async fn cut(server: Server) {
    server.stop_at_once().await;
}

#[tokio::test]
async fn work_that_was_cut_short_is_done_after_the_restart() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("ironic.redb");
    let slow = "fake: {deploy: 60, inspect: 60, clean: 60, undeploy: 60}";
    let server = start(&state, "{}").await;
    enrol(&server, json!({})).await;
    cut(server).await;
    for (ask, working, reached) in [
        ("inspect", "inspecting", "manageable"),
        ("provide", "cleaning", "available"),
        ("active", "deploying", "active"),
        ("deleted", "deleting", "available"),
    ] {
        let server = start(&state, slow).await;
        verb(&server, json!({"target": ask})).await;
        let (_, node) = call(&server, "GET /v1/nodes/n0", Value::Null).await;
        assert_eq!(node["provision_state"], working);
        cut(server).await;
        let server = start(&state, "{}").await;
        let node = reaches(&server, reached).await;
        assert_eq!(node["last_error"], Value::Null, "{ask}");
        cut(server).await;
    }
}

#[tokio::test]
async fn a_step_that_may_not_run_twice_fails_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("ironic.redb");
    let server = start(&state, "fake: {step: 60}").await;
    enrol(&server, json!({})).await;
    let steps = json!([{"interface": "firmware", "step": "update", "args": {"settings": []}}]);
    verb(&server, json!({"target": "clean", "clean_steps": steps})).await;
    let deadline = Instant::now() + Duration::from_secs(10);
    while call(&server, "GET /v1/nodes/n0", Value::Null).await.1["clean_step"]["step"] != "update" {
        assert!(Instant::now() < deadline, "the step never began");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    cut(server).await;
    let server = start(&state, "{}").await;
    let node = reaches(&server, "clean failed").await;
    assert!(
        node["last_error"]
            .as_str()
            .unwrap()
            .contains("restarted during step firmware.update"),
        "{node:#}"
    );
    verb(&server, json!({"target": "manage"})).await;
    reaches(&server, "manageable").await;
}

#[tokio::test]
async fn a_wait_goes_on_after_the_restart_and_power_is_brought_to_where_it_was_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("ironic.redb");
    let server = start(&state, "{}").await;
    enrol(&server, json!({"inspect_interface": "agent"})).await;
    verb(&server, json!({"target": "inspect"})).await;
    reaches(&server, "inspect wait").await;
    let port = json!({"address": "52:54:00:00:00:01", "node_ident": "n0"});
    assert_eq!(call(&server, "POST /v1/ports", port).await.0, 201);
    cut(server).await;
    let server = start(&state, "{}").await;
    reaches(&server, "inspect wait").await;
    let report = json!({"inventory": {"interfaces": [{"name": "eth0", "mac_address": "52:54:00:00:00:01"}]}});
    assert_eq!(
        call(&server, "POST /v1/continue_inspection", report)
            .await
            .0,
        202
    );
    reaches(&server, "manageable").await;
    cut(server).await;
    let server = start(&state, "fake: {power: 60}").await;
    assert_eq!(
        call(
            &server,
            "PUT /v1/nodes/n0/states/power",
            json!({"target": "power on"})
        )
        .await
        .0,
        202
    );
    cut(server).await;
    let server = start(&state, "{}").await;
    let node = reaches(&server, "manageable").await;
    assert_eq!(node["power_state"], "power on");
}

/// Verbs in order, and the state each leads to.
const LIFE: [(&str, &str); 6] = [
    ("manage", "manageable"),
    ("inspect", "manageable"),
    ("provide", "available"),
    ("active", "active"),
    ("rebuild", "active"),
    ("deleted", "available"),
];

/// Leads a node through its life until the disk takes no more; says which verb was acknowledged last.
async fn live(server: &Server) -> Option<usize> {
    let body = json!({"driver": "fake-hardware", "name": "n0"});
    if call(server, "POST /v1/nodes", body).await.0 != 201 {
        return None;
    }
    let mut acknowledged = 0;
    for (turn, (verb, state)) in LIFE.into_iter().enumerate() {
        let (status, _) = call(
            server,
            "PUT /v1/nodes/n0/states/provision",
            json!({"target": verb}),
        )
        .await;
        if status != 202 {
            break;
        }
        acknowledged = turn + 1;
        loop {
            let (_, node) = call(server, "GET /v1/nodes/n0", Value::Null).await;
            if node["provision_state"] == state && node["reservation"].is_null() {
                break;
            }
            if call(server, "GET /readyz", Value::Null).await.0 != 200 {
                return Some(acknowledged);
            }
            tokio::task::yield_now().await;
        }
    }
    Some(acknowledged)
}

#[tokio::test]
async fn a_power_cut_at_any_write_of_a_nodes_life_loses_nothing_that_was_acknowledged() {
    let config = Config::parse("{}", "test".as_ref()).unwrap();
    for (writes, luck) in (1..60).flat_map(|writes| [(writes, 0), (writes, 0x9e37_79b9_7f4a_7c15)])
    {
        let disk = Disk::default();
        let server = Server::over(disk.open(), &config).await.unwrap();
        disk.breaks_after(writes);
        let acknowledged = live(&server).await;
        cut(server).await;
        let server = Server::over(disk.after_a_power_cut(luck).open(), &config)
            .await
            .unwrap();
        let Some(acknowledged) = acknowledged else {
            continue;
        };
        // What was asked last and not acknowledged may have been kept, too.
        let node = until(&server, |node| {
            node["reservation"].is_null() && node["target_provision_state"].is_null()
        })
        .await;
        let at = |turn: usize| turn.checked_sub(1).map_or("enroll", |turn| LIFE[turn].1);
        let possible = [at(acknowledged), at((acknowledged + 1).min(LIFE.len()))];
        assert!(
            possible.contains(&node["provision_state"].as_str().unwrap()),
            "after {writes} writes: {possible:?}, {node:#}"
        );
        assert_eq!(node["last_error"], Value::Null, "after {writes} writes");
    }
}

#[tokio::test]
async fn a_hundred_nodes_go_from_enrolment_to_active_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("ironic.redb"), "max_concurrent_clean: 200").await;
    let server = std::sync::Arc::new(server);
    let began = Instant::now();
    let all = (0..100).map(|number| {
        let server = std::sync::Arc::clone(&server);
        tokio::spawn(async move {
            let name = format!("h{number}");
            call(
                &server,
                "POST /v1/nodes",
                json!({"driver": "fake-hardware", "name": name}),
            )
            .await;
            for (ask, reached) in [
                ("manage", "manageable"),
                ("provide", "available"),
                ("active", "active"),
            ] {
                let (status, refusal) = call(
                    &server,
                    &format!("PUT /v1/nodes/{name}/states/provision"),
                    json!({"target": ask}),
                )
                .await;
                assert_eq!(status, 202, "{refusal}");
                loop {
                    let (_, node) = call(
                        &server,
                        &format!("GET /v1/nodes/{name}?fields=provision_state,reservation"),
                        Value::Null,
                    )
                    .await;
                    if node["provision_state"] == reached && node["reservation"].is_null() {
                        break;
                    }
                    assert!(
                        began.elapsed() < Duration::from_mins(1),
                        "{name} is not {reached}: {node}"
                    );
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        })
    });
    for done in futures::future::join_all(all).await {
        done.unwrap();
    }
}

#[tokio::test]
async fn a_bmc_that_falls_silent_puts_its_node_into_maintenance_until_it_answers_again() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("ironic.redb");
    let timers = "timers: {power_change: 0.02, power_sync: 0.01, power_recovery: 0.01}";
    let server = start(&state, "{}").await;
    enrol(&server, json!({})).await;
    cut(server).await;
    let server = start(&state, &format!("{timers}\nfake: {{power: 60}}")).await;
    let seen = until(&server, |node| node["maintenance"] == true).await;
    assert_eq!(seen["fault"], "power failure");
    assert_eq!(seen["power_state"], Value::Null);
    assert!(
        seen["maintenance_reason"]
            .as_str()
            .unwrap()
            .contains("failed 3 times in a row"),
        "{seen:#}"
    );
    cut(server).await;
    let server = start(&state, timers).await;
    let seen = until(&server, |node| node["maintenance"] == false).await;
    assert_eq!(
        (&seen["fault"], &seen["power_state"]),
        (&Value::Null, &json!("power off"))
    );
    // What a person put into maintenance stays there.
    assert_eq!(
        call(
            &server,
            "PUT /v1/nodes/n0/maintenance",
            json!({"reason": "mine"})
        )
        .await
        .0,
        202
    );
    cut(server).await;
    let server = start(&state, timers).await;
    assert_eq!(
        reaches(&server, "manageable").await["maintenance_reason"],
        "mine"
    );
}
