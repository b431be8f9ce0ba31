//! BMCs that refuse, stumble, dawdle or are not there: the reason is told, and no other node waits.

use std::time::{Duration, Instant};

use lab::fault::{Kind, Order};
use serde_json::{Value, json};

use super::node::{Node, QUICK, call};
use super::vendors::Served;
use crate::service::Service;

fn address_of_nobody() -> String {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    format!("http://127.0.0.1:{port}")
}

async fn fails_to_be_managed(node: &Node<'_>) -> String {
    node.verb("manage").await;
    let seen = node
        .until(|node| node["provision_state"] == "enroll" && node["reservation"].is_null())
        .await;
    seen["last_error"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_told_at_once() {
    let service = Service::start(QUICK);
    let served = Served::start("ilo").await;
    let mut body = served.node("n0", "redfish");
    body["driver_info"]["redfish_password"] = json!("guess");
    let node = Node::enrol(&service, body).await;
    let error = fails_to_be_managed(&node).await;
    assert!(error.contains("does not let user \"admin\" in"), "{error}");
    assert!(!error.contains("guess"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_are_wrong_are_told_all_at_once() {
    let service = Service::start(QUICK);
    let body = json!({"driver": "redfish", "name": "n0", "driver_info": {"redfish_address": "ftp://x",
        "redfish_system_id": "1"}});
    let node = Node::enrol(&service, body).await;
    let checked = node.get("/validate").await;
    assert_eq!(checked["power"]["result"], false);
    let reason = checked["power"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("redfish_address") && reason.contains("redfish_system_id"),
        "{reason}"
    );
    let error = fails_to_be_managed(&node).await;
    assert!(
        error.contains("redfish_system_id: must be a path"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_bmc_is_named_with_the_reason_and_delays_nobody_else() {
    let service = Service::start(QUICK);
    let served = Served::start("generic").await;
    let absent = json!({"driver": "redfish", "name": "gone", "driver_info": {"redfish_address": address_of_nobody()}});
    let gone = Node::enrol(&service, absent).await;
    let slow = Served::start("generic").await;
    slow.bmc
        .server()
        .faults()
        .add(Order::new(Kind::BmcSlow { millis: 3000 }));
    let dawdler = Node::enrol(&service, slow.node("slow", "redfish")).await;
    dawdler.verb("manage").await;
    gone.verb("manage").await;
    // While these two are waited for, another comes and is done with.
    let started = Instant::now();
    let node = Node::managed(&service, served.node("quick", "redfish")).await;
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    node.power("power on").await;
    let seen = gone
        .until(|node| node["provision_state"] == "enroll" && node["reservation"].is_null())
        .await;
    let error = seen["last_error"].as_str().unwrap();
    assert!(
        error.contains("does not answer: Connection refused") && error.contains("next try in"),
        "{error}"
    );
    let (status, answer) = gone
        .call("GET", "/management/boot_device", Value::Null)
        .await;
    assert_eq!(status, 503, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bmc_that_stumbles_is_asked_again_and_one_that_fails_is_told_of() {
    let service = Service::start(QUICK);
    let served = Served::start("idrac").await;
    let node = Node::managed(&service, served.node("n0", "idrac")).await;
    let strike = |kind, count| {
        served.bmc.server().faults().add(Order {
            count: Some(count),
            ..Order::new(kind)
        });
    };
    strike(Kind::BmcError { status: 503 }, 1);
    let seen = node.power("power on").await;
    assert_eq!(
        (&seen["power_state"], &seen["last_error"]),
        (&json!("power on"), &Value::Null)
    );
    strike(Kind::BmcError { status: 503 }, 20);
    let seen = node.power("power off").await;
    let error = seen["last_error"].as_str().unwrap();
    assert!(error.contains("answers 503"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bmc_has_one_session_which_is_given_back_when_unused_and_at_the_end() {
    let mut service = Service::start(QUICK);
    let served = Served::start("generic").await;
    Node::managed(&service, served.node("n0", "redfish")).await;
    let members = async |path: &str| {
        let request = reqwest::Client::new()
            .get(format!("{}/redfish/v1/{path}", served.url))
            .basic_auth(super::bmc::USER, Some(super::bmc::PASSWORD));
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        answer["Members"].as_array().unwrap().clone()
    };
    let sessions = async || members("SessionService/Sessions").await.len();
    let deadline = Instant::now() + Duration::from_secs(20);
    while sessions().await > 0 {
        assert!(Instant::now() < deadline, "the session is never given back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Another node at the same BMC, which names its system.
    let mut body = served.node("n1", "redfish");
    body["driver_info"]["redfish_system_id"] = members("Systems").await[0]["@odata.id"].clone();
    Node::enrol(&service, body).await;
    for node in ["n0", "n1"] {
        let path = format!("/v1/nodes/{node}/management/boot_device");
        let (status, answer) = call(&service, "GET", &path, Value::Null).await;
        assert_eq!(status, 200, "{answer}");
    }
    assert_eq!(sessions().await, 1, "one, for as long as it is used");
    assert!(service.ends_gracefully());
    assert_eq!(sessions().await, 0);
}
