//! Every vendor of the lab: whatever its habits, the same calls of the API do the same.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use lab::bmc::{Bmc, redfish};
use lab::server::Power;
use serde_json::{Value, json};
use tokio::net::{TcpListener, UdpSocket};

use super::bmc::{PASSWORD, USER, bmc};
use super::node::{Node, QUICK};
use crate::service::Service;

pub struct Served {
    _dir: tempfile::TempDir,
    pub bmc: Arc<Bmc>,
    pub url: String,
    _handle: redfish::Handle,
}

impl Served {
    pub async fn start(vendor: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bmc = bmc(vendor, dir.path(), true);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let served = redfish::spawn(listener, None, Arc::clone(&bmc)).unwrap();
        let url = format!("http://{}", served.address());
        Self {
            _dir: dir,
            bmc,
            url,
            _handle: served,
        }
    }

    pub fn node(&self, name: &str, driver: &str) -> Value {
        json!({"driver": driver, "name": name, "driver_info": {
            "redfish_address": self.url, "redfish_username": USER, "redfish_password": PASSWORD}})
    }
}

/// Serves `/image.iso` until the test ends.
async fn image_server() -> String {
    let app = Router::new().route("/image.iso", get(|| async { vec![0x5a_u8; 300_000] }));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}/image.iso")
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_every_vendor_are_driven_through_the_api() {
    let service = Service::start(QUICK);
    let drive = |vendor: &'static str, driver| drive(&service, vendor, driver);
    tokio::join!(
        drive("generic", "redfish"),
        drive("idrac", "idrac"),
        drive("ilo", "redfish"),
        drive("supermicro", "redfish"),
        drive("lenovo", "redfish"),
        drive("fujitsu", "redfish"),
    );
}

async fn drive(service: &Service, vendor: &str, driver: &str) {
    let served = Served::start(vendor).await;
    let node = Node::managed(service, served.node(vendor, driver)).await;
    let seen = node.get("").await;
    assert_eq!(seen["power_state"], "power off", "{vendor}");
    assert_eq!(seen["boot_mode"], "uefi", "{vendor}");
    boot_device(&node, vendor).await;
    power(&node, &served, vendor).await;
    media(&node, vendor).await;
    settings(&node, vendor).await;
    extras(&node, vendor).await;
    inspect(&node, vendor, driver).await;
}

async fn boot_device(node: &Node<'_>, vendor: &str) {
    for (device, persistent) in [("pxe", false), ("cdrom", false), ("pxe", true)] {
        let body = json!({"boot_device": device, "persistent": persistent});
        let (status, answer) = node
            .call("PUT", "/management/boot_device", body.clone())
            .await;
        assert_eq!(status, 204, "{vendor}: {answer}");
        assert_eq!(node.get("/management/boot_device").await, body, "{vendor}");
    }
    let body = json!({"boot_device": "floppy"});
    assert_eq!(
        node.call("PUT", "/management/boot_device", body).await.0,
        400
    );
}

async fn power(node: &Node<'_>, served: &Served, vendor: &str) {
    for (target, becomes, on) in [
        ("power on", "power on", true),
        ("rebooting", "power on", true),
        ("power off", "power off", false),
        ("power off", "power off", false),
        ("power on", "power on", true),
        // There is no system in it that would listen: it is cut off.
        ("soft power off", "power off", false),
    ] {
        let seen = node.power(target).await;
        assert_eq!(seen["last_error"], Value::Null, "{vendor}: {target}");
        assert_eq!(seen["power_state"], becomes, "{vendor}: {target}");
        assert_eq!(is_on(&served.bmc), on, "{vendor}: {target}");
    }
}

/// Past the service and past the BMC.
fn is_on(bmc: &Bmc) -> bool {
    bmc.server().view().power == Power::On
}

async fn media(node: &Node<'_>, vendor: &str) {
    let image = image_server().await;
    let body = json!({"device_type": "cdrom", "image_url": image});
    assert_eq!(node.call("POST", "/vmedia", body).await.0, 204, "{vendor}");
    let seen = node.rests().await;
    assert_eq!(seen["last_error"], Value::Null, "{vendor}");
    let inserted = |drives: Value| {
        let drives = drives.as_array().unwrap().clone();
        drives
            .into_iter()
            .filter(|it| it["inserted"] == true)
            .count()
    };
    assert_eq!(inserted(node.get("/vmedia").await), 1, "{vendor}");
    assert_eq!(
        node.call("DELETE", "/vmedia", Value::Null).await.0,
        204,
        "{vendor}"
    );
    let seen = node.rests().await;
    assert_eq!(seen["last_error"], Value::Null, "{vendor}");
    assert_eq!(inserted(node.get("/vmedia").await), 0, "{vendor}");
}

async fn settings(node: &Node<'_>, vendor: &str) {
    let body = json!({"target": true});
    assert_eq!(node.call("PUT", "/states/secure_boot", body).await.0, 202);
    let seen = node.rests().await;
    assert_eq!(
        (&seen["last_error"], &seen["secure_boot"]),
        (&Value::Null, &json!(true)),
        "{vendor}"
    );
    let body = json!({"target": false});
    assert_eq!(node.call("PUT", "/states/secure_boot", body).await.0, 202);
    node.rests().await;
    let bios = node.get("/bios?detail=true").await;
    let setting = bios["bios"]
        .as_array()
        .unwrap()
        .iter()
        .find(|setting| setting["value"] == "Enabled")
        .unwrap_or_else(|| panic!("{vendor}: {bios}"));
    assert_eq!(setting["allowable_values"], json!(["Enabled", "Disabled"]));
    let name = setting["name"].as_str().unwrap();
    let settings = json!([{"name": name, "value": "Disabled"}]);
    node.provision(
        json!({"target": "clean", "disable_ramdisk": true, "clean_steps": [
        {"interface": "bios", "step": "apply_configuration", "args": {"settings": settings}}]}),
    )
    .await;
    node.reaches("manageable").await;
    let now = node.get(&format!("/bios/{name}")).await;
    assert_eq!(now[name]["value"], "Disabled", "{vendor}");
    let firmware = node.get("/firmware").await;
    let components: Vec<_> = firmware["firmware"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["component"].as_str().unwrap())
        .collect();
    assert_eq!(components, ["bios", "bmc"], "{vendor}");
}

async fn extras(node: &Node<'_>, vendor: &str) {
    let body = json!({"state": "ON"});
    let path = "/management/indicators/led@system";
    let (status, answer) = node.call("PUT", path, body).await;
    assert_eq!(status, 204, "{vendor}: {answer}");
    let state = node.get(path).await;
    assert!(
        state["state"] == "ON" || state["state"] == "BLINKING",
        "{vendor}: {state}"
    );
    let new = json!({"Destination": "http://127.0.0.1:9/events", "Context": "me"});
    let (status, made) = node
        .call("POST", "/vendor_passthru?method=create_subscription", new)
        .await;
    assert_eq!(status, 200, "{vendor}: {made}");
    assert_eq!(made["Context"], "me", "{vendor}");
    let all = node.get("/vendor_passthru/get_all_subscriptions").await;
    assert_eq!(all, json!([made["Id"]]), "{vendor}");
    let id = json!({"id": made["Id"]});
    let path = "/vendor_passthru?method=delete_subscription";
    assert_eq!(
        node.call("DELETE", path, id.clone()).await.0,
        200,
        "{vendor}"
    );
    assert_eq!(node.call("DELETE", path, id).await.0, 400, "{vendor}");
    let checked = node.get("/validate").await;
    for interface in ["boot", "power", "management", "bios", "firmware"] {
        assert_eq!(checked[interface]["result"], true, "{vendor}: {checked}");
    }
}

async fn inspect(node: &Node<'_>, vendor: &str, driver: &str) {
    let by = if driver == "idrac" {
        "idrac-redfish"
    } else {
        "redfish"
    };
    let change = json!([{"op": "replace", "path": "/inspect_interface", "value": by}]);
    assert_eq!(node.call("PATCH", "", change).await.0, 200, "{vendor}");
    node.verb("inspect").await;
    node.reaches("manageable").await;
    let found = node.get("/inventory").await;
    let inventory = &found["inventory"];
    assert_eq!(inventory["memory"]["physical_mb"], 8192, "{vendor}");
    assert_eq!(inventory["cpu"]["count"], 4, "{vendor}");
    assert_eq!(
        inventory["interfaces"][0]["mac_address"], "52:54:00:00:00:01",
        "{vendor}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_labs_bmc_is_driven_by_ipmi_through_the_api() {
    let dir = tempfile::tempdir().unwrap();
    let bmc = bmc("supermicro", dir.path(), true);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let served = tokio::spawn(lab::bmc::ipmi::serve(socket, Arc::clone(&bmc)));
    let service = Service::start(QUICK);
    let body = json!({"driver": "ipmi", "name": "n0", "driver_info": {"ipmi_address": "127.0.0.1", "ipmi_port": port,
        "ipmi_username": USER, "ipmi_password": PASSWORD}});
    let node = Node::managed(&service, body).await;
    let body = json!({"boot_device": "pxe", "persistent": true});
    let (status, answer) = node
        .call("PUT", "/management/boot_device", body.clone())
        .await;
    assert_eq!(status, 204, "{answer}");
    assert_eq!(node.get("/management/boot_device").await, body);
    for (target, on) in [
        ("power on", true),
        ("rebooting", true),
        ("power off", false),
    ] {
        let seen = node.power(target).await;
        assert_eq!(seen["last_error"], Value::Null, "{target}");
        assert_eq!(is_on(&bmc), on, "{target}");
    }
    let body = json!({"device_type": "cdrom", "image_url": "http://127.0.0.1/x.iso"});
    assert_eq!(node.call("POST", "/vmedia", body).await.0, 400);
    let lights = node.get("/management/indicators").await;
    assert_eq!(lights, json!({"indicators": []}));
    served.abort();
}
