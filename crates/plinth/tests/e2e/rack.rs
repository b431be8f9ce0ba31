//! A rack of QEMU servers: virtual CD, power by both protocols, the console over IPMI, broken cables and disks.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use image::ramdisk::{self, Flavour, Ramdisk};
use serde_json::{Value, json};

use crate::harness::{Lab, poll, str_of, text, wait_for};

/// Emulated, on a machine that does other things too.
const BOOT: Duration = Duration::from_mins(3);
const SOON: Duration = Duration::from_secs(30);

pub fn ramdisk() -> Ramdisk {
    let agent = std::env::var_os("PLINTH_AGENT").map(PathBuf::from);
    let agent = agent.expect("PLINTH_AGENT names the static plinth-agent; `cargo xtask test e2e` builds it and sets this");
    let options = ramdisk::Options {
        flavour: Flavour::Lab,
        agent,
        mirror: None,
        cache: None,
        refresh: false,
    };
    ramdisk::build(&options, |progress| eprintln!("ramdisk: {}", progress.step))
        .expect("the ramdisk builds")
}

/// Boots a server from the ramdisk's CD by Redfish alone.
fn boot_from_cd(lab: &Lab, index: usize, base: &str) {
    let (code, answer) = lab.insert(index, &format!("{base}/ramdisk.iso"));
    assert!(matches!(code, 200..=204), "{code} {answer}");
    let boot =
        json!({"Boot": {"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once"}});
    let (code, answer) = lab.redfish(index, "PATCH", "system", Some(&boot));
    assert!(matches!(code, 200 | 204), "{code} {answer}");
    assert_eq!(lab.reset(index, "On").0, 204);
}

fn inventory(lab: &Lab, name: &str) -> Value {
    lab.wait_console(name, "PLINTH-INVENTORY-END", BOOT);
    let console = lab.console(name);
    let (_, rest) = console
        .split_once("PLINTH-INVENTORY-BEGIN")
        .expect("it begins");
    let (json, _) = rest.split_once("PLINTH-INVENTORY-END").expect("it ends");
    serde_json::from_str(json.trim())
        .unwrap_or_else(|error| panic!("inventory is not JSON: {error}\n{json}"))
}

fn interface<'a>(inventory: &'a Value, server: &Value, network: &str) -> &'a Value {
    let ports = server["macs"].as_array().unwrap();
    let mac = &ports
        .iter()
        .find(|port| port["network"] == network)
        .unwrap()["mac"];
    let interfaces = inventory["interfaces"].as_array().unwrap();
    let found = interfaces
        .iter()
        .find(|interface| interface["mac_address"] == *mac);
    found.unwrap_or_else(|| panic!("no interface {mac} in {inventory:#}"))
}

fn boots_the_ramdisk_from_a_virtual_cd(firmware: &str) {
    let ramdisk = ramdisk();
    let lab = Lab::up(&[
        "--servers",
        "1",
        "--firmware",
        firmware,
        "--disks",
        "2",
        "--disk-size",
        "3",
        "--memory",
        "1024",
    ]);
    let (_files, base) = lab.serve_files(&ramdisk.dir);
    boot_from_cd(&lab, 0, &base);
    let inventory = inventory(&lab, "server-0");
    assert_eq!(inventory["boot"]["current_boot_mode"], firmware);
    let disks = inventory["disks"].as_array().unwrap();
    assert_eq!(disks.len(), 2, "{disks:#?}");
    assert!(
        disks.iter().all(|disk| disk["size"] == 3_u64 << 30),
        "{disks:#?}"
    );
    let server = lab.server(0);
    let outside = interface(&inventory, &server, "baremetal");
    assert_eq!(outside["has_carrier"], true);
    let address = str_of(&outside["ipv4_address"]);
    assert!(
        address.starts_with("192.168.111."),
        "an address from the site's DHCP: {outside}"
    );
    let leases = lab.status()["site"]["leases"].clone();
    assert_eq!(leases[0]["address"], address, "{leases}");
    interface(&inventory, &server, "provisioning");
    assert!(
        server["boot"].is_null() || poll(SOON, || lab.server(0)["boot"].is_null()),
        "once is used up"
    );

    // The agent hears the power button, whoever presses it.
    let soft = lab.ipmi(0, &["chassis", "power", "soft"]);
    assert!(soft.status.success(), "{}", text(&soft));
    lab.wait_power(0, "Off", SOON);
    assert_eq!(lab.redfish_power(0), "Off");
}

#[test]
fn a_uefi_server_boots_the_ramdisk_from_a_virtual_cd() {
    boots_the_ramdisk_from_a_virtual_cd("uefi");
}

#[test]
fn a_bios_server_boots_the_ramdisk_from_a_virtual_cd() {
    boots_the_ramdisk_from_a_virtual_cd("bios");
}

fn qemus(lab: &Lab) -> usize {
    let inside = lab.exec(&[
        "sh",
        "-c",
        // Those who look are among them, and may be gone by now.
        "ip netns pids \"$0\" | while read p; do cat /proc/$p/comm 2>/dev/null || :; done",
        &lab.namespace(),
    ]);
    inside
        .lines()
        .filter(|name| name.starts_with("qemu"))
        .count()
}

#[test]
fn power_verbs_of_both_protocols_are_seen_in_qemu() {
    let lab = Lab::up(&["--servers", "1", "--firmware", "bios", "--memory", "512"]);
    assert_eq!(qemus(&lab), 0, "off means no machine");
    assert_eq!(lab.reset(0, "On").0, 204);
    lab.wait_power(0, "On", SOON);
    assert_eq!(qemus(&lab), 1);
    let ipmi = |args: &[&str]| {
        let output = lab.ipmi(0, args);
        assert!(output.status.success(), "{args:?}: {}", text(&output));
        text(&output)
    };
    assert!(ipmi(&["chassis", "power", "status"]).contains("is on"));
    let boots = || lab.server(0)["boots"].as_u64().unwrap();
    lab.wait_console("server-0", "SeaBIOS", SOON);
    ipmi(&["chassis", "power", "reset"]);
    assert!(
        poll(SOON, || boots() == 2),
        "a reset begins a boot: {}",
        lab.server(0)
    );
    assert_eq!(lab.reset(0, "PowerCycle").0, 204);
    assert!(
        poll(SOON, || boots() == 3 && lab.redfish_power(0) == "On"),
        "{}",
        lab.server(0)
    );
    ipmi(&["chassis", "power", "off"]);
    lab.wait_power(0, "Off", SOON);
    assert_eq!(qemus(&lab), 0);
    ipmi(&["chassis", "power", "on"]);
    lab.wait_power(0, "On", SOON);

    // The lab's process dies: its machines die with it.
    let pid = lab.status()["pid"].as_u64().unwrap();
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let namespace = lab.namespace();
    let inside = || {
        let output = std::process::Command::new("ip")
            .args(["netns", "pids", &namespace])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    wait_for("QEMU to die with the lab", SOON, || inside().is_empty());
}

#[test]
fn serial_over_lan_shows_the_console_and_takes_keys() {
    let lab = Lab::up(&["--servers", "1", "--firmware", "bios", "--memory", "512"]);
    let server = lab.server(0);
    let (host, user, password) = (
        str_of(&server["ipmi"]),
        str_of(&server["user"]),
        str_of(&server["password"]),
    );
    let shown = tempfile::NamedTempFile::new().unwrap();
    let sol = format!("ipmitool -I lanplus -C 17 -H {host} -U {user} -P {password} sol activate");
    let mut session = lab.command(&[
        "exec",
        "--",
        "script",
        "-qfc",
        &sol,
        shown.path().to_str().unwrap(),
    ]);
    let mut session = session
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let screen = || String::from_utf8_lossy(&std::fs::read(shown.path()).unwrap()).into_owned();
    wait_for("SOL to be active", SOON, || {
        screen().contains("SOL Session operational")
    });
    assert_eq!(lab.reset(0, "On").0, 204);
    wait_for("the firmware's greeting over SOL", SOON, || {
        screen().contains("SeaBIOS")
    });
    _ = session.kill();
    _ = session.wait();
}

#[test]
fn broken_cables_and_disks_are_seen_by_the_guest() {
    let ramdisk = ramdisk();
    let lab = Lab::up(&["--servers", "1", "--firmware", "bios", "--memory", "1024"]);
    let (_files, base) = lab.serve_files(&ramdisk.dir);
    lab.ok(&[
        "fault",
        "add",
        "server-0",
        "link-down",
        "--network",
        "provisioning",
    ]);
    lab.ok(&[
        "fault",
        "add",
        "server-0",
        "link-lossy",
        "--network",
        "baremetal",
        "--percent",
        "100",
    ]);
    lab.ok(&["fault", "add", "server-0", "disk-errors"]);
    boot_from_cd(&lab, 0, &base);
    let inventory = inventory(&lab, "server-0");
    let server = lab.server(0);
    assert_eq!(
        interface(&inventory, &server, "provisioning")["has_carrier"],
        false
    );
    let lossy = interface(&inventory, &server, "baremetal");
    assert_eq!(
        (&lossy["has_carrier"], &lossy["ipv4_address"]),
        (&json!(true), &Value::Null),
        "{lossy}"
    );
    let rules = lab.exec(&["nft", "list", "table", "bridge", "plinth"]);
    assert!(rules.contains("iifname \"bm0\" counter packets"), "{rules}");
    assert!(
        poll(SOON, || str_of(&lab.server(0)["trouble"])
            .contains("failed")),
        "{}",
        lab.server(0)
    );
    lab.ok(&["fault", "clear"]);
    lab.ok(&["fault", "add", "server-0", "link-lossy", "--percent", "30"]);
    let rules = || lab.exec(&["nft", "list", "ruleset"]);
    assert!(
        poll(SOON, || rules()
            .contains("iifname \"pr0\" numgen random mod 100 < 30")),
        "{}",
        rules()
    );
    assert!(!rules().contains("bm0"), "mended: {}", rules());
}
