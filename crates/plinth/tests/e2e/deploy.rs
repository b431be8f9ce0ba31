//! A server from "somewhere there is a BMC" to an installed system, and back to clean.

use std::path::PathBuf;
use std::time::Duration;

use image::ramdisk::Ramdisk;
use serde_json::{Value, json};

use crate::harness::{Lab, Running, poll, str_of, text, wait_for};
use crate::rack::ramdisk;

/// Emulated, on a machine that does other things too.
const BOOT: Duration = Duration::from_mins(4);
const WRITE: Duration = Duration::from_mins(6);
const SOON: Duration = Duration::from_secs(30);

/// The address of the service on the provisioning network, as on a bootstrap machine.
const HERE: &str = "172.22.0.2";

/// `plinth ironic` inside the lab's namespace.
struct Service<'a> {
    lab: &'a Lab,
    _process: Running,
    log: PathBuf,
}

impl<'a> Service<'a> {
    fn start(lab: &'a Lab, ramdisk: &Ramdisk) -> Self {
        lab.exec(&[
            "ip",
            "address",
            "add",
            &format!("{HERE}/24"),
            "dev",
            "provisioning",
        ]);
        let dir = lab.dir().join("ironic");
        std::fs::create_dir_all(&dir).unwrap();
        let config = json!({
            "listen": "0.0.0.0:6385",
            "state": dir.join("ironic.redb"),
            "boot": {
                "interface": "provisioning",
                "address": format!("{HERE}/24"),
                "dhcp": {"ranges": ["172.22.0.10-172.22.0.254"]},
                "ramdisk": {"kernel": ramdisk.dir.join("vmlinuz"), "initrd": ramdisk.dir.join("initrd")},
            },
        });
        let (path, log) = (dir.join("ironic.yaml"), dir.join("ironic.log"));
        std::fs::write(&path, config.to_string()).unwrap();
        let command = format!(
            "exec {} ironic --config {} >{} 2>&1",
            crate::harness::PLINTH,
            path.display(),
            log.display()
        );
        let process = lab.start(&["sh", "-c", &command]);
        let service = Self {
            lab,
            _process: process,
            log,
        };
        wait_for("the provisioning service", SOON, || {
            service.ask("GET", "/v1/drivers", None).0 == 200
        });
        service
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let url = format!("http://{HERE}:6385{path}");
        let body = body.map(Value::to_string);
        let mut args = vec![
            "curl",
            "-s",
            "--max-time",
            "20",
            "-X",
            method,
            "-w",
            "\n%{http_code}",
        ];
        args.extend(["-H", "X-OpenStack-Ironic-API-Version: 1.110"]);
        if let Some(body) = &body {
            args.extend(["-H", "Content-Type: application/json", "-d", body]);
        }
        args.push(&url);
        let output = self.lab.try_exec(&args);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, code) = printed.rsplit_once('\n').unwrap_or(("", "0"));
        (
            code.trim().parse().unwrap_or(0),
            serde_json::from_str(body).unwrap_or(Value::Null),
        )
    }

    fn must(&self, method: &str, path: &str, body: &Value) -> Value {
        let (code, answer) = self.ask(method, path, Some(body));
        assert!(
            (200..300).contains(&code),
            "{method} {path}: {code} {answer}"
        );
        answer
    }

    fn node(&self, name: &str) -> Value {
        self.ask("GET", &format!("/v1/nodes/{name}"), None).1
    }

    fn provision(&self, name: &str, body: &Value) {
        self.must("PUT", &format!("/v1/nodes/{name}/states/provision"), body);
    }

    /// Waits until the node rests in this state; a failure on the way ends the wait at once.
    fn reach(&self, name: &str, state: &str, within: Duration) {
        let mut last = Value::Null;
        let reached = poll(within, || {
            last = self.node(name);
            let now = str_of(&last["provision_state"]);
            assert!(
                !now.ends_with("failed") && now != "error",
                "{now}: {}\n{}",
                last["last_error"],
                self.tail()
            );
            now == state
                && last["reservation"].is_null()
                && last["target_provision_state"].is_null()
        });
        assert!(
            reached,
            "{name} did not come to {state} within {within:?}: {} {} {}\n{}",
            last["provision_state"],
            last["last_error"],
            last["driver_internal_info"],
            self.tail()
        );
    }

    fn tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

/// What the first boot does: writes a file, and says on the console that it did.
pub fn ignition(word: &str) -> Value {
    let unit = "[Unit]\nAfter=ignition-firstboot-complete.service\n[Service]\nType=oneshot\n\
                StandardOutput=journal+console\nExecStart=/bin/sh -c 'echo IGNITED $(cat /etc/marker)'\n\
                [Install]\nWantedBy=multi-user.target\n";
    json!({
        "ignition": {"version": "3.3.0"},
        "storage": {"files": [{
            "path": "/etc/marker", "mode": 0o644, "overwrite": true, "contents": {"source": format!("data:,{word}")},
        }]},
        "systemd": {"units": [{"name": "report.service", "enabled": true, "contents": unit}]},
    })
}

struct Case {
    firmware: &'static str,
    driver: &'static str,
    boot: &'static str,
    /// Of the OS image: raw or qcow2.
    format: &'static str,
    /// The agent starts the installed system in its own place.
    kexec: bool,
}

fn lives(case: &Case) {
    let ramdisk = ramdisk();
    let os = image::os::build(&image::os::Options::default(), |progress| {
        eprintln!("os: {}", progress.step);
    })
    .expect("the OS image builds");
    let lab = Lab::up(&[
        "--servers",
        "1",
        "--firmware",
        case.firmware,
        "--disk-size",
        "5",
        "--memory",
        "1024",
    ]);
    let service = Service::start(&lab, &ramdisk);
    let (_files, base) = lab.serve_files(&os.dir);
    let server = lab.server(0);
    let mac = |network: &str| {
        let macs = server["macs"].as_array().unwrap();
        macs.iter().find(|port| port["network"] == network).unwrap()["mac"].clone()
    };
    let mut driver_info = if case.driver == "ipmi" {
        json!({"ipmi_address": server["ipmi"], "ipmi_username": server["user"], "ipmi_password": server["password"]})
    } else {
        let (address, system) = split(str_of(&server["redfish"]));
        json!({"redfish_address": address, "redfish_system_id": system, "redfish_username": server["user"],
               "redfish_password": server["password"], "redfish_verify_ca": lab.dir().join("ca.pem")})
    };
    driver_info["kexec"] = json!(case.kexec);
    let created = service.must(
        "POST",
        "/v1/nodes",
        &json!({"name": "metal", "driver": case.driver, "boot_interface": case.boot, "inspect_interface": "agent",
                "driver_info": driver_info, "properties": {"capabilities": format!("boot_mode:{}", case.firmware)}}),
    );
    let port = json!({"node_uuid": created["uuid"], "address": mac("provisioning")});
    service.must("POST", "/v1/ports", &port);

    service.provision("metal", &json!({"target": "manage"}));
    service.reach("metal", "manageable", SOON);
    service.provision("metal", &json!({"target": "inspect"}));
    service.reach("metal", "manageable", BOOT);
    let (code, found) = service.ask("GET", "/v1/nodes/metal/inventory", None);
    assert_eq!(code, 200, "{found}");
    assert_eq!(
        found["inventory"]["boot"]["current_boot_mode"],
        case.firmware
    );
    let addresses = found["inventory"]["interfaces"].as_array().unwrap();
    assert!(
        addresses
            .iter()
            .any(|i| i["mac_address"] == mac("baremetal")),
        "{addresses:#?}"
    );

    service.provision("metal", &json!({"target": "provide"}));
    service.reach("metal", "available", BOOT);

    let image = if case.format == "raw" {
        "os.raw"
    } else {
        "os.qcow2"
    };
    let sum = text_of_sum(&os.dir.join(image));
    let patch = json!([
        {"op": "add", "path": "/instance_info/image_source", "value": format!("{base}/{image}")},
        {"op": "add", "path": "/instance_info/image_os_hash_algo", "value": "sha256"},
        {"op": "add", "path": "/instance_info/image_os_hash_value", "value": sum},
        {"op": "add", "path": "/instance_info/image_disk_format", "value": case.format},
    ]);
    service.must("PATCH", "/v1/nodes/metal", &patch);
    let config_drive =
        json!({"meta_data": {"name": "metal"}, "user_data": ignition("well").to_string()});
    service.provision(
        "metal",
        &json!({"target": "active", "configdrive": config_drive}),
    );
    service.reach("metal", "active", BOOT + WRITE);
    assert_eq!(service.node("metal")["power_state"], "power on");
    lab.wait_console("server-0", "IGNITED well", BOOT);
    let console = lab.console("server-0");
    assert_eq!(
        console.contains("starting the installed system"),
        case.kexec
    );
    assert_eq!(console.contains("Welcome to GRUB"), !case.kexec);

    service.provision("metal", &json!({"target": "deleted"}));
    service.reach("metal", "available", BOOT);
    lab.wait_power(0, "Off", SOON);
    let left = service.node("metal");
    assert_eq!(left["instance_info"], json!({}), "{left:#}");
}

pub fn text_of_sum(path: &std::path::Path) -> String {
    let output = std::process::Command::new("sha256sum")
        .arg(path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8_lossy(&output.stdout)
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned()
}

/// `https://host/redfish/v1/Systems/1` as Ironic wants it: the address, and the path.
fn split(url: &str) -> (String, String) {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    (format!("{scheme}://{host}"), format!("/{path}"))
}

#[test]
fn a_uefi_server_lives_its_life_by_network_boot_and_redfish() {
    lives(&Case {
        firmware: "uefi",
        driver: "redfish",
        boot: "ipxe",
        format: "qcow2",
        kexec: false,
    });
}

#[test]
fn a_bios_server_lives_its_life_by_virtual_media_and_redfish() {
    lives(&Case {
        firmware: "bios",
        driver: "redfish",
        boot: "redfish-virtual-media",
        format: "raw",
        kexec: false,
    });
}

#[test]
fn a_bios_server_lives_its_life_by_network_boot_and_ipmi() {
    lives(&Case {
        firmware: "bios",
        driver: "ipmi",
        boot: "ipxe",
        format: "qcow2",
        kexec: true,
    });
}
