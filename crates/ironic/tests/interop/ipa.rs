//! The original agent, ironic-python-agent, works for us: it reports its hardware, looks itself up, gets the token,
//! and is asked for its clean steps over its own certificate.
//!
//! It runs in namespaces of its own: there is no disk in its /dev and /sys, and none of the tools that would write one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::python;
use crate::service::CONFIG;

/// Two machines on a cable.
const HERE: &str = "10.99.0.1";
const THERE: &str = "10.99.0.2";
const MAC: &str = "52:54:00:99:00:02";
/// Python is slow to start on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// The agent's view of its machine: one NIC that looks like hardware, no disks.
const PLACE: &str = r#"
set -e
mount --make-rprivate /
for dir in /sys/block /sys/class/block /run /sys/class/net; do mount -t tmpfs none $dir; done
mkdir -p /sys/class/net/eth0/0000:00:03.0 && echo 1 >/sys/class/net/eth0/carrier
ln -s 0000:00:03.0 /sys/class/net/eth0/device && ln -s veth /sys/class/net/eth0/0000:00:03.0/driver
mount -t tmpfs none "$1/dev"
for name in null zero random urandom; do touch "$1/dev/$name"; mount --bind "/dev/$name" "$1/dev/$name"; done
mkdir "$1/dev/shm"
mount --rbind "$1/dev" /dev
export PATH="$1/bin"
shift
exec "$@"
"#;

#[test]
fn the_original_agent_is_inspected_and_tells_its_clean_steps() {
    let site = Site::new();
    let node = json!({
        "name": "original", "driver": "fake-hardware", "boot_interface": "fake", "deploy_interface": "direct",
        "inspect_interface": "agent",
    });
    let created = site.must("POST", "/v1/nodes", &node);
    let port = json!({"node_uuid": created["uuid"], "address": MAC});
    site.must("POST", "/v1/ports", &port);
    site.provision("manage");
    site.reach(|node| node["provision_state"] == "manageable");

    site.provision("inspect");
    site.reach(|node| node["provision_state"] == "inspect wait");
    let callback = format!("http://{HERE}:6385/v1/continue_inspection");
    let agent = site.agent(&["--inspection_callback_url", &callback]);
    site.reach(|node| node["provision_state"] == "manageable" && node["last_error"].is_null());
    let (_, found) = site.ask("GET", "/v1/nodes/original/inventory", None);
    let nic = &found["inventory"]["interfaces"][0];
    assert_eq!(
        (&nic["mac_address"], &nic["ipv4_address"]),
        (&json!(MAC), &json!(THERE)),
        "{found:#}"
    );
    drop(agent);

    site.provision("provide");
    site.reach(|node| node["provision_state"] == "clean wait");
    let agent = site.agent(&[]);
    // Its first heartbeat makes us ask, and as no step is wanted, that was all.
    let node = site.reach(|node| node["provision_state"] == "available");
    drop(agent);
    let log = site.agent_log();
    assert!(log.contains("Lookup succeeded"), "{log}");
    assert!(log.contains("get_clean_steps"), "{log}");
    assert!(!log.contains("Executing clean step"), "{log}");
    assert!(node["last_error"].is_null(), "{node:#}");
}

/// Us and the agent, each in a network of its own.
struct Site {
    ours: String,
    theirs: String,
    dir: tempfile::TempDir,
    service: Option<Child>,
}

impl Site {
    fn new() -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "this test makes network namespaces and must run as root"
        );
        let id = std::process::id();
        let mut site = Self {
            ours: format!("plinth-ipa-a-{id}"),
            theirs: format!("plinth-ipa-b-{id}"),
            dir: tempfile::tempdir().unwrap(),
            service: None,
        };
        let (ours, theirs) = (site.ours.clone(), site.theirs.clone());
        for command in [
            format!("netns add {ours}"),
            format!("netns add {theirs}"),
            format!(
                "-n {ours} link add eth0 type veth peer name eth0 address {MAC} netns {theirs}"
            ),
            format!("-n {ours} address add {HERE}/24 dev eth0"),
            format!("-n {theirs} address add {THERE}/24 dev eth0"),
            format!("-n {ours} link set lo up"),
            format!("-n {theirs} link set lo up"),
            format!("-n {ours} link set eth0 up"),
            format!("-n {theirs} link set eth0 up"),
        ] {
            let output = Command::new("ip")
                .args(command.split(' '))
                .output()
                .unwrap();
            assert!(output.status.success(), "ip {command}: {}", text(&output));
        }
        site.tools();
        site.serve();
        site
    }

    /// Programs the agent calls: those that only look are stand-ins that see nothing.
    fn tools(&self) {
        let bin = self.dir.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(self.dir.path().join("dev")).unwrap();
        let put = |name: &str, script: &str| {
            let path = bin.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        for name in [
            "udevadm",
            "modprobe",
            "dmidecode",
            "ipmitool",
            "mdadm",
            "multipath",
            "biosdevname",
            "hdparm",
        ] {
            put(name, "exit 0");
        }
        put("lshw", "echo '{}'");
        put(
            "lsblk",
            r#"case "$*" in *--json*|*-J*) echo '{"blockdevices": []}';; esac"#,
        );
        for name in ["ip", "lscpu", "findmnt", "ps", "df"] {
            std::os::unix::fs::symlink(which(name), bin.join(name)).unwrap();
        }
    }

    fn serve(&mut self) {
        let state = self.dir.path().join("ironic.redb");
        let config = json!({
            "listen": format!("{HERE}:6385"), "state": state, "timers": {"heartbeat": 10},
            "deploy": {"erase_devices_priority": 0, "erase_devices_metadata_priority": 0},
        });
        let path = self.dir.path().join("ironic.yaml");
        std::fs::write(&path, config.to_string()).unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", &self.ours])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "service::process", "--nocapture"])
            .env(CONFIG, path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.service = Some(child);
        let deadline = Instant::now() + PATIENCE;
        while self.ask("GET", "/v1/drivers", None).0 != 200 {
            assert!(Instant::now() < deadline, "the service does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts the agent; it ends with the guard.
    fn agent(&self, more: &[&str]) -> Running {
        let python = python::interpreter();
        let program = python.with_file_name("ironic-python-agent");
        assert!(program.exists(), "{} is not there", program.display());
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", &self.theirs])
            .args([
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
            ])
            .args(["sh", "-c", PLACE, "sh"])
            .arg(self.dir.path())
            .arg(python)
            .arg(program)
            .args(["--api_url", &format!("http://{HERE}:6385"), "--debug"])
            .args(["--disk_wait_attempts", "1", "--disk_wait_delay", "0"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Running(child)
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("agent.log")
    }

    fn agent_log(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn provision(&self, verb: &str) {
        let path = "/v1/nodes/original/states/provision";
        self.must("PUT", path, &json!({"target": verb}));
    }

    /// Waits until the node is so and nobody works on it.
    fn reach(&self, so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, node) = self.ask("GET", "/v1/nodes/original", None);
            if so(&node) && node["reservation"].is_null() {
                return node;
            }
            let state = node["provision_state"].as_str().unwrap_or_default();
            let failed = state.ends_with("failed") || Instant::now() > deadline;
            assert!(!failed, "{node:#}\n{}", tail(&self.agent_log()));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn must(&self, method: &str, path: &str, body: &Value) -> Value {
        let (code, answer) = self.ask(method, path, Some(body));
        assert!(
            (200..300).contains(&code),
            "{method} {path}: {code} {answer}"
        );
        answer
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &self.ours,
            "curl",
            "-s",
            "--max-time",
            "20",
            "-X",
            method,
        ]);
        command.args([
            "-w",
            "\n%{http_code}",
            "-H",
            "X-OpenStack-Ironic-API-Version: 1.90",
        ]);
        if let Some(body) = body {
            command.args([
                "-H",
                "Content-Type: application/json",
                "-d",
                &body.to_string(),
            ]);
        }
        let output = command
            .arg(format!("http://{HERE}:6385{path}"))
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, code) = printed.rsplit_once('\n').unwrap_or(("", "0"));
        (
            code.trim().parse().unwrap_or(0),
            serde_json::from_str(body).unwrap_or(Value::Null),
        )
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(service) = &mut self.service {
            _ = service.kill();
            _ = service.wait();
        }
        for name in [&self.ours, &self.theirs] {
            _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn which(name: &str) -> PathBuf {
    let dirs = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let found = dirs
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is needed (cargo xtask deps installs it)"))
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("log_opt_values"))
        .collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
