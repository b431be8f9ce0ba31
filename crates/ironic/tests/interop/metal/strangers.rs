//! BMCs that are not ours: sushy-tools and ipmi_sim.

use serde_json::{Value, json};

use super::emulator::{UUID, emulator, simulator};
use super::node::{Node, QUICK};
use crate::service::Service;

#[tokio::test(flavor = "multi_thread")]
async fn sushy_tools_is_a_server_like_any_other() {
    let emulator = emulator().await;
    // Its power changes take up to eleven seconds.
    let service = Service::start(&QUICK.replace("power_change: 20", "power_change: 60"));
    let node = Node::managed(
        &service,
        json!({"driver": "redfish", "name": "n0", "driver_info": {
            "redfish_address": emulator.url, "redfish_system_id": format!("/redfish/v1/Systems/{UUID}"),
            "redfish_username": "admin", "redfish_password": "s3cret"}}),
    )
    .await;
    // What the emulator itself says, asked past the service.
    let system = async || -> Value {
        let url = format!("{}/redfish/v1/Systems/{UUID}", emulator.url);
        let request = reqwest::Client::new()
            .get(url)
            .basic_auth("admin", Some("s3cret"));
        request.send().await.unwrap().json().await.unwrap()
    };
    for (target, power) in [("power on", "On"), ("power off", "Off")] {
        let seen = node.power(target).await;
        assert_eq!(seen["last_error"], Value::Null, "{target}");
        assert_eq!(system().await["PowerState"], power);
    }
    for (device, target) in [("cdrom", "Cd"), ("pxe", "Pxe"), ("disk", "Hdd")] {
        let body = json!({"boot_device": device, "persistent": true});
        let (status, answer) = node.call("PUT", "/management/boot_device", body).await;
        assert_eq!(status, 204, "{answer}");
        assert_eq!(system().await["Boot"]["BootSourceOverrideTarget"], target);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ipmi_sim_is_a_server_like_any_other() {
    let simulator = simulator();
    let (host, port) = simulator.address.rsplit_once(':').unwrap();
    let service = Service::start(QUICK);
    let node = Node::managed(
        &service,
        json!({"driver": "ipmi", "name": "n0", "driver_info": {"ipmi_address": host, "ipmi_port": port,
            "ipmi_username": "admin", "ipmi_password": "s3cret"}}),
    )
    .await;
    let read = |name: &str| {
        let path = simulator.directory.path().join(name);
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    for (target, power) in [("power on", "1"), ("power off", "0")] {
        let seen = node.power(target).await;
        assert_eq!(seen["last_error"], Value::Null, "{target}");
        assert_eq!(read("power"), power, "{target}");
    }
    let body = json!({"boot_device": "pxe", "persistent": true});
    let (status, answer) = node.call("PUT", "/management/boot_device", body).await;
    assert_eq!(status, 204, "{answer}");
    assert_eq!(read("boot"), "pxe");
}
