//! Simulated servers lead the whole life of a host, with openstacksdk as the one who asks for it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::harness::{Lab, PLINTH, Running, poll, str_of, text, wait_for};
use crate::python;

/// Ours on the provisioning network.
const HERE: &str = "172.22.0.2";
/// The machine may be busy with other tests.
const SOON: Duration = Duration::from_mins(1);
/// Until a node rests, in seconds, whatever was asked of it.
const WITHIN: u64 = 240;

/// How a server is driven: driver and boot interface.
type Way = (&'static str, &'static str);
const NETWORK: Way = ("redfish", "ipxe");
const DISC: Way = ("redfish", "redfish-virtual-media");
const IPMI: Way = ("ipmi", "ipxe");

/// A rack with the provisioning service in it.
struct Rack {
    service: Option<Child>,
    _images: Running,
    files: tempfile::TempDir,
    lab: Lab,
    servers: Vec<Value>,
    image: Value,
}

impl Rack {
    fn new(servers: usize, settings: &Value) -> Self {
        let lab = Lab::up(&["--kind", "sim", "--servers", &servers.to_string()]);
        let address = format!("{HERE}/24");
        lab.exec(&["ip", "address", "add", &address, "dev", "provisioning"]);
        let files = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| {
            std::fs::write(files.path().join(name), bytes).unwrap();
            files.path().join(name)
        };
        // Firmware that is simulated loads them and looks no further.
        let (kernel, initrd) = (
            put("vmlinuz", &vec![1; 100_000]),
            put("initrd", &vec![2; 200_000]),
        );
        put("grubx64.efi", &[3; 10_000]);
        put("eltorito.img", &[4; 10_000]);
        // A disk with a partition table that is empty.
        let mut os: Vec<u8> = (0..4_000_000_u32).map(|i| (i % 251) as u8).collect();
        os[446..510].fill(0);
        os[510..512].copy_from_slice(&[0x55, 0xaa]);
        let os = put("os.raw", &os);
        let (images, base) = lab.serve_files(files.path());
        let image = json!({
            "image_source": format!("{base}/os.raw"), "image_disk_format": "raw",
            "image_os_hash_algo": "sha256", "image_os_hash_value": sha256(&os),
        });
        let mut config = json!({
            "listen": format!("{HERE}:6385"),
            "state": files.path().join("ironic.redb"),
            "boot": {
                "interface": "provisioning", "address": address,
                "dhcp": {"ranges": ["172.22.0.10-172.22.0.250"]},
                "ramdisk": {"kernel": kernel, "initrd": initrd},
            },
        });
        for (key, value) in settings.as_object().unwrap() {
            config[key] = value.clone();
        }
        std::fs::write(files.path().join("ironic.yaml"), config.to_string()).unwrap();
        let servers = lab.status()["servers"].as_array().unwrap().clone();
        let mut rack = Self {
            service: None,
            _images: images,
            files,
            lab,
            servers,
            image,
        };
        rack.start();
        rack
    }

    fn log(&self) -> PathBuf {
        self.files.path().join("ironic.log")
    }

    fn start(&mut self) {
        let config = self.files.path().join("ironic.yaml");
        // One process, so that a signal reaches the service itself.
        let command = format!(
            "exec {PLINTH} --log info ironic --config {} >>{} 2>&1",
            config.display(),
            self.log().display()
        );
        let child = self
            .lab
            .command(&["exec", "--", "sh", "-c", &command])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.service = Some(child);
        let url = format!("http://{HERE}:6385/v1/drivers");
        let answers = || {
            self.lab
                .try_exec(&["curl", "-sfo", "/dev/null", &url])
                .status
                .success()
        };
        assert!(poll(SOON, answers), "it does not answer: {}", self.tail());
    }

    /// As a power cut would end it.
    fn kill(&mut self) {
        if let Some(mut child) = self.service.take() {
            kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).unwrap();
            child.wait().unwrap();
        }
    }

    fn tail(&self) -> String {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// How to enrol a server.
    fn creation(&self, index: usize, (driver, boot): Way) -> Value {
        let server = &self.servers[index];
        let (user, password) = (&server["user"], &server["password"]);
        let driver_info = if driver == "ipmi" {
            json!({"ipmi_address": server["ipmi"], "ipmi_username": user, "ipmi_password": password})
        } else {
            let (host, path) = str_of(&server["redfish"]).split_once("/redfish/").unwrap();
            json!({
                "redfish_address": host, "redfish_system_id": format!("/redfish/{path}"),
                "redfish_username": user, "redfish_password": password,
                "redfish_verify_ca": self.lab.dir().join("ca.pem"),
            })
        };
        json!({
            "driver": driver, "boot_interface": boot, "inspect_interface": "agent", "driver_info": driver_info,
        })
    }

    fn work(&self, index: usize, verbs: &[&str], create: Option<Way>) -> Value {
        let mut work = json!({"name": name(index), "verbs": verbs});
        if let Some(way) = create {
            let macs = self.servers[index]["macs"].as_array().unwrap();
            let port = macs.iter().find(|port| port["network"] == "provisioning");
            work["create"] = self.creation(index, way);
            work["mac"] = port.unwrap()["mac"].clone();
        }
        work
    }

    /// Begins to lead the nodes; the answer is there when all of them rest.
    fn begin(&self, nodes: &[Value]) -> Child {
        let plan = json!({
            "api": format!("http://{HERE}:6385"), "image": self.image, "within": WITHIN, "nodes": nodes,
        });
        let interpreter = python::interpreter();
        let python = interpreter.to_str().unwrap();
        let command = [
            "exec",
            "--",
            python,
            "-c",
            include_str!("provision.py"),
            &plan.to_string(),
        ];
        let mut command = self.lab.command(&command);
        let command = command.env("HOME", "/nonexistent").stdin(Stdio::null());
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn end(&self, leading: Child) -> BTreeMap<String, Value> {
        let output = leading.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}\n{}",
            text(&output),
            self.tail()
        );
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
    }

    fn lead(&self, nodes: &[Value]) -> BTreeMap<String, Value> {
        self.end(self.begin(nodes))
    }

    fn all_reach(&self, state: &str, ends: &BTreeMap<String, Value>) {
        for (name, end) in ends {
            assert_eq!(end["state"], state, "{}\n{name}: {end:#}", self.tail());
        }
    }

    fn state(&self, index: usize) -> String {
        let url = format!("http://{HERE}:6385/v1/nodes/{}", name(index));
        let version = "X-OpenStack-Ironic-API-Version: 1.90";
        let output = self.lab.try_exec(&["curl", "-sf", "-H", version, &url]);
        let node: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        str_of(&node["provision_state"]).to_owned()
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        if let Some(mut child) = self.service.take() {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// Of the node that stands for a server.
fn name(index: usize) -> String {
    format!("node-{index}")
}

fn sha256(path: &std::path::Path) -> String {
    let output = std::process::Command::new("sha256sum")
        .arg(path)
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn servers_live_their_lives_by_network_boot_virtual_media_and_ipmi() {
    let rack = Rack::new(3, &json!({}));
    let verbs = ["manage", "inspect", "provide", "active"];
    let ways = [NETWORK, DISC, IPMI];
    let works: Vec<Value> = (0..3)
        .map(|i| rack.work(i, &verbs, Some(ways[i])))
        .collect();
    let ends = rack.lead(&works);
    rack.all_reach("active", &ends);
    for (index, server) in rack.servers.iter().enumerate() {
        let end = &ends[&name(index)];
        assert_eq!(end["power"], "power on", "{end:#}");
        let cards = end["inventory"]["interfaces"].as_array().unwrap();
        let has = |mac: &Value| cards.iter().any(|card| card["mac_address"] == *mac);
        assert!(
            server["macs"]
                .as_array()
                .unwrap()
                .iter()
                .all(|port| has(&port["mac"])),
            "{cards:#?}"
        );
        let console = str_of(&server["name"]);
        rack.lab
            .wait_console(console, "Booting os.raw with a config drive", SOON);
    }
    let works: Vec<Value> = (0..3).map(|i| rack.work(i, &["deleted"], None)).collect();
    let ends = rack.lead(&works);
    rack.all_reach("available", &ends);
    for (index, end) in ends.values().enumerate() {
        assert_eq!(end["instance_info"], json!({}), "{end:#}");
        rack.lab.wait_power(index, "Off", SOON);
    }
}

#[test]
fn a_service_killed_in_the_middle_of_deployments_finishes_them_when_it_is_back() {
    const SERVERS: usize = 6;
    // Firmware that was answered by nobody meanwhile stands still: it is booted again.
    let settings = json!({"timers": {"boot_retry": 10, "boot_retries": 5}});
    let mut rack = Rack::new(SERVERS, &settings);
    let ways = [NETWORK, DISC, IPMI];
    let works: Vec<Value> = (0..SERVERS)
        .map(|i| rack.work(i, &["manage", "provide"], Some(ways[i % 3])))
        .collect();
    rack.all_reach("available", &rack.lead(&works));
    let works: Vec<Value> = (0..SERVERS)
        .map(|i| rack.work(i, &["active"], None))
        .collect();
    let leading = rack.begin(&works);
    // Twice: while the servers boot, and while they are written.
    for at in ["deploying", "wait call-back"] {
        let seen = poll(SOON, || {
            (0..SERVERS).any(|i| [at, "active"].contains(&&*rack.state(i)))
        });
        assert!(seen, "nobody comes to {at}: {}", rack.tail());
        rack.kill();
        rack.start();
    }
    let ends = rack.end(leading);
    rack.all_reach("active", &ends);
}

/// Short, so that failing takes no minutes.
fn impatient() -> Value {
    json!({
        "timers": {
            "deploy_callback": 20, "clean_callback": 60, "boot_retry": 8, "boot_retries": 1, "power_change": 6, "tries": 2,
            "retry_pause": 1, "power_sync": 60, "power_recovery": 5, "heartbeat": 15,
        },
        "bmc": {"connect": 2, "answer": 5, "tries": 2, "pause": 0.5, "first_silence": 1, "longest_silence": 3},
        "deploy": {"agent_power_off": 4, "progress": 1},
    })
}

#[test]
fn every_fault_ends_in_an_active_host_or_a_reason_and_the_host_is_usable_afterwards() {
    let provisioning = ["--network", "provisioning"];
    let cases: [(Way, Vec<&str>); 15] = [
        (NETWORK, vec!["bmc-down"]),
        (NETWORK, vec!["bmc-slow", "--millis", "1500"]),
        (NETWORK, vec!["bmc-error", "--status", "503"]),
        (DISC, vec!["bmc-error", "--status", "500", "--count", "2"]),
        (NETWORK, vec!["drops-sessions", "--count", "3"]),
        (IPMI, vec!["ignores-reset", "--count", "1"]),
        (NETWORK, vec!["lies-about-power"]),
        (NETWORK, vec!["forgets-boot-override", "--count", "1"]),
        (DISC, vec!["ejects-media"]),
        (NETWORK, vec!["loses-power"]),
        (IPMI, [&["link-down"][..], &provisioning].concat()),
        (
            NETWORK,
            [&["link-lossy"][..], &provisioning, &["--percent", "10"]].concat(),
        ),
        (NETWORK, vec!["disk-errors"]),
        (IPMI, vec!["boot-loop", "--millis", "300"]),
        (DISC, vec!["corrupts-transfer"]),
    ];
    let rack = Rack::new(cases.len(), &impatient());
    let prepare = |i: usize| rack.work(i, &["manage", "provide"], Some(cases[i].0));
    let works: Vec<Value> = (0..cases.len()).map(prepare).collect();
    rack.all_reach("available", &rack.lead(&works));

    let mut works = Vec::new();
    for (index, (_, fault)) in cases.iter().enumerate() {
        let server = str_of(&rack.servers[index]["name"]).to_owned();
        let add = [&["fault", "add", &server][..], fault].concat();
        let mut work = rack.work(index, &["active"], None);
        if fault[0] == "loses-power" {
            work["during"] = json!([&[PLINTH, "lab"][..], &add].concat());
        } else {
            rack.lab.ok(&add);
        }
        works.push(work);
    }
    let ends = rack.lead(&works);
    for (index, (_, fault)) in cases.iter().enumerate() {
        let end = &ends[&name(index)];
        eprintln!("{}: {} {}", fault[0], end["state"], end["last_error"]);
        match str_of(&end["state"]) {
            "active" => {}
            "deploy failed" => {
                let reason = str_of(&end["last_error"]);
                assert!(reason.len() > 20, "{fault:?}: {end:#}");
            }
            _ => panic!("{}\n{fault:?}: {end:#}", rack.tail()),
        }
    }
    rack.lab.ok(&["fault", "clear"]);
    let healed = |i: usize| rack.work(i, &["deleted", "active"], None);
    let works: Vec<Value> = (0..cases.len()).map(healed).collect();
    let ends = rack.lead(&works);
    rack.all_reach("active", &ends);
}

#[test]
fn a_server_nobody_knows_waits_and_is_seen_until_it_is_enrolled() {
    let rack = Rack::new(1, &json!({}));
    let boot =
        json!({"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}});
    rack.lab.redfish(0, "PATCH", "system", Some(&boot));
    assert_eq!(rack.lab.reset(0, "On").0, 204);
    let url = format!("http://{HERE}:6385/plinth/v1/discovered");
    let mac = rack.work(0, &[], Some(NETWORK))["mac"].clone();
    wait_for("the unknown server to be seen", SOON, || {
        let seen = rack.lab.try_exec(&["curl", "-sf", &url]);
        String::from_utf8_lossy(&seen.stdout).contains(str_of(&mac))
    });
    let work = rack.work(0, &["manage", "inspect", "provide"], Some(NETWORK));
    rack.all_reach("available", &rack.lead(&[work]));
}
