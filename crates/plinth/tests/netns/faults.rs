//! Each kind of fault, and the effect that a client of the BMC sees.
//!
//! Cables and disks of QEMU servers are seen by a guest, in the e2e tier.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Lab, poll, text};

const SOON: Duration = Duration::from_secs(20);

fn rack() -> Lab {
    Lab::up(&["--kind", "sim", "--servers", "1"])
}

fn add(lab: &Lab, fault: &[&str]) {
    lab.ok(&[&["fault", "add", "server-0"], fault].concat());
}

fn struck(lab: &Lab) -> u64 {
    let list: serde_json::Value =
        serde_json::from_str(&lab.ok(&["fault", "list", "-o", "json"])).unwrap();
    list[0]["struck"].as_u64().unwrap()
}

fn boot_from(lab: &Lab, target: &str) {
    let boot =
        json!({"Boot": {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Once"}});
    let (code, answer) = lab.redfish(0, "PATCH", "system", Some(&boot));
    assert!(matches!(code, 200 | 204), "{code} {answer}");
}

#[test]
fn bmc_down_is_silence_until_it_is_cleared() {
    let lab = rack();
    add(&lab, &["bmc-down"]);
    assert_eq!(
        lab.redfish(0, "GET", "/redfish/v1/", None).0,
        0,
        "no answer at all"
    );
    assert!(
        !lab.ipmi(0, &["-N", "1", "chassis", "power", "status"])
            .status
            .success()
    );
    lab.ok(&["fault", "clear"]);
    assert_eq!(lab.redfish(0, "GET", "/redfish/v1/", None).0, 200);
    let power = lab.ipmi(0, &["chassis", "power", "status"]);
    assert!(text(&power).contains("is off"), "{}", text(&power));
}

#[test]
fn bmc_slow_takes_its_time_as_often_as_counted() {
    let lab = rack();
    add(&lab, &["bmc-slow", "--millis", "1500", "--count", "1"]);
    let begin = Instant::now();
    assert_eq!(lab.redfish(0, "GET", "system", None).0, 200);
    assert!(begin.elapsed() >= Duration::from_millis(1500));
    assert_eq!(struck(&lab), 1);
}

#[test]
fn bmc_error_answers_so_often_and_no_more() {
    let lab = rack();
    add(&lab, &["bmc-error", "--status", "503", "--count", "2"]);
    let codes: Vec<u16> = (0..3)
        .map(|_| lab.redfish(0, "GET", "system", None).0)
        .collect();
    assert_eq!(codes, [503, 503, 200]);
}

#[test]
fn an_ignored_reset_is_acknowledged_by_either_protocol_and_nothing_happens() {
    let lab = rack();
    add(&lab, &["ignores-reset", "--count", "2"]);
    assert_eq!(lab.reset(0, "On").0, 204);
    assert!(lab.ipmi(0, &["chassis", "power", "on"]).status.success());
    assert_eq!(struck(&lab), 2);
    assert_eq!(lab.server(0)["power"], "Off");
    assert_eq!(lab.reset(0, "On").0, 204);
    lab.wait_power(0, "On", SOON);
}

#[test]
fn a_bmc_that_lies_says_on_for_off_in_both_protocols() {
    let lab = rack();
    add(&lab, &["lies-about-power"]);
    assert_eq!(lab.redfish_power(0), "On");
    assert!(poll(SOON, || text(
        &lab.ipmi(0, &["chassis", "power", "status"])
    )
    .contains("is on")));
    assert_eq!(lab.server(0)["power"], "Off", "the lab itself does not lie");
}

#[test]
fn a_forgotten_override_boots_the_usual_way() {
    let lab = rack();
    add(&lab, &["forgets-boot-override"]);
    boot_from(&lab, "BiosSetup");
    lab.reset(0, "On");
    lab.wait_console("server-0", "Trying Hdd", SOON);
    assert!(!lab.console("server-0").contains("Trying BiosSetup"));
}

#[test]
fn media_that_ejects_itself_is_gone_when_the_server_starts() {
    let lab = rack();
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("a.iso"), vec![1; 100_000]).unwrap();
    let (_server, base) = lab.serve_files(files.path());
    add(&lab, &["ejects-media"]);
    let (code, answer) = lab.insert(0, &format!("{base}/a.iso"));
    assert!(matches!(code, 200..=204), "{code} {answer}");
    assert!(lab.server(0)["media"].is_string());
    boot_from(&lab, "Cd");
    lab.reset(0, "On");
    lab.wait_console("server-0", "no medium", SOON);
    assert!(lab.server(0)["media"].is_null());
}

#[test]
fn a_corrupted_transfer_changes_the_image_that_arrives() {
    let lab = rack();
    let files = tempfile::tempdir().unwrap();
    let image = vec![1; 100_000];
    std::fs::write(files.path().join("a.iso"), &image).unwrap();
    let (_server, base) = lab.serve_files(files.path());
    add(&lab, &["corrupts-transfer", "--count", "1"]);
    let arrived = || {
        let (code, answer) = lab.insert(0, &format!("{base}/a.iso"));
        assert!(matches!(code, 200..=204), "{code} {answer}");
        let kept = std::fs::read_dir(lab.dir().join("servers/server-0/media"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        std::fs::read(kept.path()).unwrap()
    };
    let first = arrived();
    assert_eq!(first.len(), image.len());
    assert_ne!(first, image);
    assert_eq!(arrived(), image, "the second transfer is whole");
}

#[test]
fn a_server_that_loses_power_is_off_and_can_be_started_again() {
    let lab = rack();
    lab.reset(0, "On");
    lab.wait_power(0, "On", SOON);
    add(&lab, &["loses-power"]);
    lab.wait_power(0, "Off", SOON);
    lab.reset(0, "On");
    lab.wait_power(0, "On", SOON);
}

#[test]
fn a_boot_loop_starts_over_and_over_until_cleared() {
    let lab = rack();
    add(&lab, &["boot-loop", "--millis", "100"]);
    boot_from(&lab, "BiosSetup");
    lab.reset(0, "On");
    assert!(
        poll(SOON, || lab.server(0)["boots"].as_u64().unwrap() > 3),
        "{}",
        lab.server(0)
    );
    lab.ok(&["fault", "clear", "server-0"]);
}

#[test]
fn a_pulled_cable_gets_no_address() {
    let lab = rack();
    add(
        &lab,
        &["link-lossy", "--network", "baremetal", "--percent", "100"],
    );
    let boot = json!({"Boot": {"BootSourceOverrideTarget": "UefiHttp", "BootSourceOverrideEnabled": "Once", "HttpBootUri": "http://192.168.111.1/x"}});
    lab.redfish(0, "PATCH", "system", Some(&boot));
    lab.reset(0, "On");
    lab.wait_console("server-0", "Trying UefiHttp", SOON);
    assert!(!poll(Duration::from_secs(2), || {
        !lab.status()["site"]["leases"]
            .as_array()
            .unwrap()
            .is_empty()
    }));
    lab.ok(&["fault", "clear"]);
    assert!(
        poll(SOON, || !lab.status()["site"]["leases"]
            .as_array()
            .unwrap()
            .is_empty()),
        "mended, it is asked again"
    );
}

#[test]
fn sessions_are_dropped_on_demand() {
    let lab = rack();
    let server = lab.server(0);
    let url = format!(
        "https://{}/redfish/v1/SessionService/Sessions",
        server["ipmi"].as_str().unwrap()
    );
    let body = json!({"UserName": server["user"], "Password": server["password"]}).to_string();
    let created = lab.exec(&[
        "curl",
        "-sk",
        "-i",
        "-H",
        "Content-Type: application/json",
        "-d",
        &body,
        &url,
    ]);
    let token = created.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .starts_with("x-auth-token:")
            .then(|| line[13..].trim().to_string())
    });
    let header = format!("X-Auth-Token: {}", token.expect("a token"));
    let system = server["redfish"].as_str().unwrap().to_string();
    let get = || {
        lab.exec(&[
            "curl",
            "-sk",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-H",
            &header,
            &system,
        ])
    };
    assert_eq!(get(), "200");
    add(&lab, &["drops-sessions", "--count", "1"]);
    assert_eq!(get(), "401");
    assert_eq!(get(), "401", "the session is gone for good");
}
