//! Ironic from the package index: one process, SQLite, a login, fake hardware.
//!
//! Its fake inspection finds nothing, so nodes are inspected by the agent, and the agent is played here: whatever waits
//! to be inspected is told what a server's ramdisk would tell.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::site::remove;
use crate::python;

const REQUIREMENTS: &str = include_str!("ironic.txt");
const USER: &str = "metal3";
const PASSWORD: &str = "a stranger";
const HASH: &str = "$2b$05$b070z72h8SJdtgbckb959OvZI/URulH9FUyRXd11aMkU2.W97j8Te";
const SYNC: &str = "from ironic.command.dbsync import main; main()";
const SERVE: &str = "from ironic.command.singleprocess import main; main()";

pub struct Original {
    dir: PathBuf,
    port: u16,
    process: Child,
    over: Arc<AtomicBool>,
    agent: Option<JoinHandle<()>>,
}

impl Original {
    pub fn start(dir: &Path, port: u16) -> Self {
        let login = dir.join("login");
        std::fs::create_dir(&login).unwrap();
        std::fs::write(login.join("username"), format!("{USER}\n")).unwrap();
        std::fs::write(login.join("password"), format!("{PASSWORD}\n")).unwrap();
        std::fs::write(dir.join("htpasswd"), format!("{USER}:{HASH}\n")).unwrap();
        let conf = CONF
            .replace("DIR", &dir.display().to_string())
            .replace("PORT", &port.to_string());
        std::fs::write(dir.join("ironic.conf"), conf).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let agent = std::thread::spawn({
            let over = over.clone();
            move || play_agents(port, &over)
        });
        Self {
            dir: dir.to_owned(),
            port,
            process: spawn(dir, port),
            over,
            agent: Some(agent),
        }
    }

    /// Ended, its database thrown away, and started again.
    pub fn forget(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        remove(&self.dir, "ironic.sqlite");
        self.process = spawn(&self.dir, self.port);
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn login(&self) -> PathBuf {
        self.dir.join("login")
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        _ = self.process.kill();
        _ = self.process.wait();
        if let Some(agent) = self.agent.take() {
            _ = agent.join();
        }
    }
}

/// A new database, and a process that works on it.
fn spawn(dir: &Path, port: u16) -> Child {
    let log = File::options()
        .create(true)
        .append(true)
        .open(dir.join("ironic.log"))
        .unwrap();
    let interpreter = python::environment(REQUIREMENTS);
    let command = |program: &str| {
        let mut command = Command::new(&interpreter);
        command
            .args(["-c", program, "--config-file"])
            .arg(dir.join("ironic.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log.try_clone().unwrap());
        command
    };
    let made = command(SYNC).arg("create_schema").status().unwrap();
    assert!(made.success(), "Ironic's database was not made");
    let mut process = command(SERVE).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_mins(2);
    while !ask(port, "GET", "drivers", None)
        .to_string()
        .contains("fake-hardware")
    {
        let ended = process.try_wait().unwrap();
        if ended.is_some() || Instant::now() > deadline {
            let said = std::fs::read_to_string(dir.join("ironic.log")).unwrap_or_default();
            panic!("Ironic does not answer (ended: {ended:?}): {said}");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    process
}

/// A request in the name of a person; nothing where there is no answer.
pub fn ask(port: u16, method: &str, path: &str, body: Option<&Value>) -> Value {
    let mut curl = Command::new("curl")
        .args(["--silent", "--max-time", "20", "--globoff"])
        .args(["--request", method, "--user", &format!("{USER}:{PASSWORD}")])
        .args(["--header", "X-OpenStack-Ironic-API-Version: 1.99"])
        .args(["--header", "Content-Type: application/json"])
        .args(body.map(|_| ["--data", "@-"]).into_iter().flatten())
        .arg(format!("http://127.0.0.1:{port}/v1/{path}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl is installed");
    let mut input = curl.stdin.take().unwrap();
    if let Some(body) = body {
        // One that does not listen does not answer either.
        _ = input.write_all(body.to_string().as_bytes());
    }
    drop(input);
    let output = curl.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn play_agents(port: u16, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let waiting = ask(
            port,
            "GET",
            "nodes?provision_state=inspect%20wait&fields=uuid",
            None,
        );
        for node in waiting["nodes"].as_array().into_iter().flatten() {
            let node = node["uuid"].as_str().unwrap_or_default();
            let ports = ask(port, "GET", &format!("ports?node={node}"), None);
            let mac = &ports["ports"][0]["address"];
            let path = format!("continue_inspection?node_uuid={node}");
            ask(port, "POST", &path, Some(&told(mac)));
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// What a small server tells of itself.
fn told(mac: &Value) -> Value {
    json!({
        "inventory": {
            "bmc_address": "0.0.0.0",
            "boot": {"current_boot_mode": "uefi", "pxe_interface": mac},
            "cpu": {"architecture": "x86_64", "count": 8, "frequency": "2000", "flags": ["vmx"],
                "model_name": "A processor"},
            "disks": [{"name": "/dev/sda", "size": 500_107_862_016_u64, "rotational": false, "model": "A disk",
                "serial": "S1", "vendor": "V"}],
            "hostname": "ramdisk",
            "interfaces": [{"name": "eno1", "mac_address": mac, "ipv4_address": "192.0.2.101", "has_carrier": true,
                "product": "0x1", "vendor": "0x8086", "pci_address": "0000:01:00.0"}],
            "memory": {"total": 17_179_869_184_u64, "physical_mb": 16384},
            "system_vendor": {"manufacturer": "M", "product_name": "P", "serial_number": "N"},
        },
    })
}

const CONF: &str = "\
[DEFAULT]
auth_strategy = http_basic
http_basic_auth_user_file = DIR/htpasswd
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = fake,no-bios
enabled_boot_interfaces = fake
enabled_console_interfaces = fake,no-console
enabled_deploy_interfaces = fake
enabled_firmware_interfaces = fake,no-firmware
enabled_inspect_interfaces = agent,fake
default_inspect_interface = agent
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = fake,no-raid
enabled_rescue_interfaces = fake,no-rescue
enabled_storage_interfaces = fake,noop
enabled_vendor_interfaces = fake,no-vendor
host = localhost
rpc_transport = none
tempdir = DIR
state_path = DIR
[api]
host_ip = 127.0.0.1
port = PORT
[conductor]
automated_clean = true
[database]
connection = sqlite:///DIR/ironic.sqlite
[inspector]
require_managed_boot = false
[inventory]
data_backend = database
[oslo_messaging_notifications]
driver = noop
[service_catalog]
endpoint_override = http://127.0.0.1:PORT
";
