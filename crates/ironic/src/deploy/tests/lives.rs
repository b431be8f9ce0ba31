//! From enrolment to the installed system and back, by an agent.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};

use super::agent::{Host, MAC, Manners, call, enrol, image, reaches, start, until, verb};
use crate::server::Server;

const BYTES: &[u8] = b"an operating system";

fn sha256() -> String {
    let mut hashing = crate::deploy::checksum::Hashing::new(None);
    hashing.update(BYTES);
    hashing.finish().0
}

/// A web server with an image, and its checksum beside it.
async fn images() -> String {
    let sums = format!("# sums\n{}  os.raw\n", sha256());
    let app = Router::new()
        .route("/os.raw", get(|| async { BYTES }))
        .route(
            "/page",
            get(|| async { "<!DOCTYPE html><html>not here</html>" }),
        )
        .route("/SHA256SUMS", get(|| async { sums }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    url
}

#[tokio::test]
async fn a_host_is_inspected_cleaned_written_and_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "").await;
    let host = Host::new(Manners::default());
    let _plugged = host.plug(&server);
    enrol(&server, "ipxe").await;

    verb(&server, json!({"target": "inspect"})).await;
    let node = reaches(&server, "manageable").await;
    assert_eq!(node["last_error"], Value::Null);
    let properties = &node["properties"];
    assert_eq!(
        (
            &properties["cpus"],
            &properties["memory_mb"],
            &properties["local_gb"],
            &properties["cpu_arch"]
        ),
        (&json!(8), &json!(8192), &json!(63), &json!("x86_64"))
    );
    assert_eq!(properties["capabilities"], "boot_mode:uefi");
    let (_, ports) = call(&server, "GET /v1/ports/detail", Value::Null).await;
    let ports: Vec<_> = ports["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| {
            (
                port["address"].as_str().unwrap(),
                port["pxe_enabled"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(ports, [(MAC, true), ("52:54:00:00:00:02", false)]);
    assert_eq!(node["power_state"], "power off");

    verb(&server, json!({"target": "provide"})).await;
    reaches(&server, "available").await;
    assert_eq!(
        std::mem::take(&mut host.seen().log),
        [
            "get_clean_steps",
            "execute_clean_step erase_devices_metadata"
        ]
    );

    let url = images().await;
    image(
        &server,
        &format!("{url}/os.raw"),
        json!(format!("{url}/SHA256SUMS")),
    )
    .await;
    let drive =
        json!({"meta_data": {"name": "worker-0"}, "user_data": {"ignition": {"version": "3.2.0"}}});
    verb(&server, json!({"target": "active", "configdrive": drive})).await;
    let node = reaches(&server, "active").await;
    assert_eq!(node["power_state"], "power on");
    assert_eq!(
        std::mem::take(&mut host.seen().log),
        [
            "get_deploy_steps",
            "execute_deploy_step write_image",
            "install_bootloader",
            "sync",
            "power_off"
        ]
    );
    let written = host.seen().written.pop().unwrap();
    assert_eq!(
        written["image_info"]["urls"],
        json!([format!("{url}/os.raw")])
    );
    assert_eq!(written["image_info"]["os_hash_algo"], "sha256");
    assert_eq!(written["image_info"]["os_hash_value"], sha256());
    let iso =
        media::config_drive::unpack(written["configdrive"].as_str().unwrap().as_bytes()).unwrap();
    assert!(iso.windows(8).any(|bytes| bytes == b"ignition"));
    let record = server
        .service()
        .store
        .read()
        .nodes
        .named("n0")
        .cloned()
        .unwrap();
    assert!(record.boot_order.is_none() && record.life.agent.is_none());
    let (_, history) = call(&server, "GET /v1/nodes/n0/history?detail=true", Value::Null).await;
    assert!(
        history
            .to_string()
            .contains("step deploy.write_image is done"),
        "{history}"
    );

    verb(&server, json!({"target": "deleted"})).await;
    let node = reaches(&server, "available").await;
    assert_eq!(node["instance_info"], json!({}));
    // For inspection, cleaning, deployment and cleaning again.
    assert!(host.seen().boots >= 4);
}

/// A host that was cleaned and waits to be used, with an image to be written.
async fn available(server: &Arc<Server>, host: &Host, boot: &str) -> String {
    enrol(server, boot).await;
    verb(server, json!({"target": "provide"})).await;
    reaches(server, "available").await;
    host.seen().log.clear();
    let url = images().await;
    image(server, &format!("{url}/os.raw"), json!(sha256())).await;
    url
}

fn why(node: &Value) -> String {
    node["last_error"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn an_image_that_cannot_be_written_fails_before_the_host_is_touched_and_can_be_put_right() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "").await;
    let host = Host::new(Manners::default());
    let _plugged = host.plug(&server);
    let url = available(&server, &host, "ipxe").await;
    let boots = host.seen().boots;
    for (source, checksum, reason) in [
        (
            format!("{url}/page"),
            json!(sha256()),
            "is a web page, not an image",
        ),
        (format!("{url}/nothing"), json!(sha256()), "answers 404"),
        (
            format!("{url}/os.raw"),
            json!(format!("{url}/page")),
            "no entry for \"os.raw\"",
        ),
        (
            format!("{url}/os.raw"),
            json!("abc"),
            "image_checksum: \"abc\"",
        ),
        (
            "file:///etc/passwd".into(),
            Value::Null,
            "image_directories",
        ),
    ] {
        image(&server, &source, checksum).await;
        verb(&server, json!({"target": "active"})).await;
        let node = reaches(&server, "deploy failed").await;
        assert!(why(&node).contains(reason), "{reason}: {}", why(&node));
    }
    assert_eq!(host.seen().boots, boots, "it was never booted");
    image(&server, &format!("{url}/os.raw"), json!(sha256())).await;
    verb(&server, json!({"target": "active"})).await;
    assert_eq!(reaches(&server, "active").await["last_error"], Value::Null);
}

#[tokio::test]
async fn a_host_that_takes_its_last_answer_with_it_does_not_hold_its_deployment_up() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "").await;
    let host = Host::new(Manners {
        leaves: true,
        ..Manners::default()
    });
    let _plugged = host.plug(&server);
    available(&server, &host, "ipxe").await;
    verb(&server, json!({"target": "active"})).await;
    let seen = until(&server, |node| {
        node["driver_internal_info"]["waiting"]["for"] == "powering off through the agent"
    });
    assert_eq!(seen.await["provision_state"], "deploying");
    let node = reaches(&server, "active").await;
    assert_eq!(node["driver_internal_info"]["waiting"], Value::Null);
}

#[tokio::test]
async fn a_step_that_fails_on_the_agent_is_told_with_its_logs_and_the_host_can_be_deployed_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "").await;
    let host = Host::new(Manners::default());
    let _plugged = host.plug(&server);
    available(&server, &host, "ipxe").await;
    host.seen().manners.fails = Some(("write_image", "no space left on /dev/sda"));
    verb(&server, json!({"target": "active"})).await;
    let node = reaches(&server, "deploy failed").await;
    let why = why(&node);
    assert!(
        why.starts_with("step deploy.write_image failed: no space left on /dev/sda"),
        "{why}"
    );
    assert!(
        why.contains("and end: second | I/O error on sda | write failed"),
        "{why}"
    );
    assert_eq!(node["power_state"], "power off");
    let kept = std::fs::read_dir(dir.path().join("logs")).unwrap().count();
    assert_eq!(kept, 1);
    host.seen().manners.fails = None;
    verb(&server, json!({"target": "active"})).await;
    reaches(&server, "active").await;
}

#[tokio::test]
async fn a_lost_call_costs_a_look_and_progress_is_shown_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "").await;
    let host = Host::new(Manners::default());
    let _plugged = host.plug(&server);
    available(&server, &host, "ipxe").await;
    host.seen().manners = Manners {
        mute: true,
        endless: true,
        ..Manners::default()
    };
    verb(&server, json!({"target": "active"})).await;
    let node = until(&server, |node| {
        node["driver_internal_info"]["progress"]["percent"] == 43.0
    })
    .await;
    let progress = &node["driver_internal_info"]["progress"];
    assert_eq!(
        (&progress["phase"], &progress["step"]),
        (&json!("writing"), &json!("deploy.write_image"))
    );
    assert_eq!(node["reservation"], Value::Null, "no lock is held for it");
    host.seen().manners.endless = false;
    let node = reaches(&server, "active").await;
    assert_eq!(node["driver_internal_info"]["progress"], Value::Null);
}

#[tokio::test]
async fn a_host_that_loses_its_power_while_it_is_written_fails_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "").await;
    let host = Host::new(Manners::default());
    let _plugged = host.plug(&server);
    available(&server, &host, "ipxe").await;
    host.seen().manners.endless = true;
    verb(&server, json!({"target": "active"})).await;
    until(&server, |node| {
        node["driver_internal_info"]["progress"]["percent"] == 43.0
    })
    .await;
    // Behind our back.
    let cut = server.service().store.change(|tables| {
        let mut node = crate::record::Node::clone(tables.nodes.named("n0").unwrap());
        node.hardware.power = lifecycle::node::Power::Off;
        Ok::<_, crate::store::Error>((vec![node.into()], ()))
    });
    cut.await.unwrap();
    let node = reaches(&server, "deploy failed").await;
    let why = why(&node);
    assert!(
        why.contains("lost its power during step deploy.write_image"),
        "{why}"
    );
    assert!(why.contains("at 43 % of writing"), "{why}");
}

#[tokio::test]
async fn a_host_whose_agent_never_calls_fails_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "timers: {clean_callback: 0.3}").await;
    let host = Host::new(Manners {
        dead: true,
        ..Manners::default()
    });
    let _plugged = host.plug(&server);
    enrol(&server, "ipxe").await;
    verb(&server, json!({"target": "provide"})).await;
    let node = reaches(&server, "clean failed").await;
    assert!(
        why(&node).contains("no network boot of it was seen"),
        "{}",
        why(&node)
    );
    verb(&server, json!({"target": "manage"})).await;
    reaches(&server, "manageable").await;
}

#[tokio::test]
async fn steps_by_hand_are_checked_run_in_order_and_survive_a_change_of_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "").await;
    let host = Host::new(Manners {
        reboots: true,
        ..Manners::default()
    });
    let _plugged = host.plug(&server);
    enrol(&server, "ipxe").await;
    let clean = |steps: Value| json!({"target": "clean", "clean_steps": steps});
    verb(
        &server,
        clean(json!([{"interface": "deploy", "step": "burnin_cpu", "args": {"x": 1}}])),
    )
    .await;
    let node = reaches(&server, "clean failed").await;
    assert!(
        why(&node).contains("no argument \"x\"") && why(&node).contains("needs the argument"),
        "{}",
        why(&node)
    );
    verb(&server, json!({"target": "manage"})).await;
    reaches(&server, "manageable").await;
    verb(
        &server,
        clean(json!([{"interface": "deploy", "step": "dance"}])),
    )
    .await;
    let node = reaches(&server, "clean failed").await;
    assert!(
        why(&node).contains("deploy.dance are not known"),
        "{}",
        why(&node)
    );
    verb(&server, json!({"target": "manage"})).await;
    reaches(&server, "manageable").await;

    host.seen().log.clear();
    host.seen().manners.mismatch = true;
    let boots = host.seen().boots;
    verb(&server, clean(json!([{"interface": "deploy", "step": "flash"}, {"interface": "deploy", "step": "erase_devices"}]))).await;
    reaches(&server, "manageable").await;
    assert_eq!(
        host.seen().log,
        [
            "get_clean_steps",
            "execute_clean_step flash",
            "get_clean_steps",
            "execute_clean_step flash",
            "execute_clean_step erase_devices"
        ]
    );
    // The host may take the forgetting of its token for a power cut of its own, and boot once more.
    assert!(
        host.seen().boots >= boots + 2,
        "once for cleaning, once because a step wanted it"
    );
}

#[tokio::test]
async fn the_installed_system_starts_without_the_firmware_or_with_it_where_the_agent_cannot() {
    for (fails, ends) in [
        (None, vec!["install_bootloader", "kexec"]),
        (
            Some(("kexec", "no partition has boot entries")),
            vec!["install_bootloader", "kexec", "sync", "power_off"],
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let server = start(dir.path(), "kexec: true\nfast_track: true").await;
        let host = Host::new(Manners {
            fails,
            ..Manners::default()
        });
        let _plugged = host.plug(&server);
        available(&server, &host, "ipxe").await;
        verb(&server, json!({"target": "active"})).await;
        let node = reaches(&server, "active").await;
        assert_eq!(node["power_state"], "power on");
        let log = host.seen().log.clone();
        assert_eq!(log[log.len() - ends.len()..], ends, "{log:?}");
    }
}

#[tokio::test]
async fn with_fast_track_one_boot_serves_inspection_cleaning_and_deployment() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "fast_track: true").await;
    let host = Host::new(Manners::default());
    let _plugged = host.plug(&server);
    enrol(&server, "ipxe").await;
    verb(&server, json!({"target": "inspect"})).await;
    reaches(&server, "manageable").await;
    until(&server, |node| {
        !node["driver_internal_info"]["agent_url"].is_null()
    })
    .await;
    available_from(&server).await;
    verb(&server, json!({"target": "active"})).await;
    reaches(&server, "active").await;
    assert_eq!(host.seen().boots, 1);
}

async fn available_from(server: &Arc<Server>) {
    verb(server, json!({"target": "provide"})).await;
    reaches(server, "available").await;
    let url = images().await;
    image(server, &format!("{url}/os.raw"), json!(sha256())).await;
}

#[tokio::test]
async fn a_service_that_is_killed_at_any_moment_goes_on_and_starts_no_step_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(dir.path(), "").await;
    let host = Host::new(Manners::default());
    let mut plugged = host.plug(&server);
    available(&server, &host, "ipxe").await;
    verb(&server, json!({"target": "active"})).await;
    for wait in [0, 1, 2, 3, 5, 8, 12, 15, 20, 30, 45, 70] {
        tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
        drop(plugged);
        // The host goes on without us; it is plugged in again at once.
        tokio::task::yield_now().await;
        let mut old = server;
        let old = loop {
            match Arc::try_unwrap(old) {
                Ok(server) => break server,
                Err(shared) => {
                    old = shared;
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            }
        };
        old.stop_at_once().await;
        server = start(dir.path(), "").await;
        plugged = host.plug(&server);
    }
    let node = reaches(&server, "active").await;
    assert_eq!(node["last_error"], Value::Null);
    let written = host.seen().written.len();
    let log = host.seen().log.clone();
    assert_eq!(written, 1, "the image was written once: {log:?}");
    drop(plugged);
}

#[tokio::test]
async fn without_boot_media_a_node_that_boots_from_them_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "").await;
    let host = Host::new(Manners::default());
    let _plugged = host.plug(&server);
    enrol(&server, "redfish-virtual-media").await;
    verb(&server, json!({"target": "provide"})).await;
    let node = reaches(&server, "clean failed").await;
    assert!(
        why(&node).contains("serves no boot media"),
        "{}",
        why(&node)
    );
}
