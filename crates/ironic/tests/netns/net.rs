//! ```text
//!   [metal]  br0 172.22.0.3/24 ── port0 ═══ eth0 [machine0]
//!      plinth ironic           └─ port1 ═══ eth0 [machine1]
//! ```

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linux::addr::Want;
use linux::netlink::Netlink;
use linux::netns::Host;
use serde_json::Value;
use tempfile::TempDir;

const CONFIG: &str = "PLINTH_TEST_IRONIC_CONFIG";
pub const PATIENCE: Duration = Duration::from_secs(30);
pub const API: &str = "http://172.22.0.3:6385";
pub const FILES: &str = "http://172.22.0.3:6180";

/// Not a test: what the process of [`Net::serve`] runs. Called as a test it has nothing to do.
#[test]
fn process() {
    let Some(config) = std::env::var_os(CONFIG) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(ironic::server::run(&PathBuf::from(config)))
        .unwrap();
}

pub struct Net {
    pub metal: Host,
    pub machines: Vec<Host>,
    pub folder: TempDir,
}

impl Net {
    pub fn new(machines: usize) -> Self {
        for program in ["ip", "udhcpc", "dhclient", "dnsmasq", "curl", "rdisc6"] {
            let found = Command::new("sh")
                .args(["-c", &format!("command -v {program}")])
                .stdout(Stdio::null())
                .status();
            assert!(
                found.is_ok_and(|status| status.success()),
                "this test needs the program {program}; `cargo xtask deps` installs it"
            );
        }
        let metal = Host::new("metal").expect("network namespaces need root");
        let machines: Vec<Host> = (0..machines)
            .map(|n| Host::new(&format!("machine{n}")).unwrap())
            .collect();
        for (n, machine) in machines.iter().enumerate() {
            metal.cable(&format!("port{n}"), machine, "eth0").unwrap();
        }
        let ports = machines.len();
        metal.run(move || async move {
            let netlink = Netlink::connect().unwrap();
            netlink.set_up("lo").await.unwrap();
            netlink.ensure_bridge("br0").await.unwrap();
            for n in 0..ports {
                let port = format!("port{n}");
                netlink.set_master(&port, Some("br0")).await.unwrap();
            }
            netlink.set_up("br0").await.unwrap();
            let own = Want::new("172.22.0.3/24".parse().unwrap());
            netlink.ensure_address("br0", own).await.unwrap();
            // Without waiting whether somebody else has it: TFTP listens there at once.
            let status = std::process::Command::new("ip")
                .args(["address", "add", "fd00:1101::3/64", "dev", "br0", "nodad"])
                .status();
            assert!(status.unwrap().success());
        });
        for (n, machine) in machines.iter().enumerate() {
            let mac = mac(n);
            run(
                machine,
                &["ip", "link", "set", "eth0", "address", &mac, "up"],
            );
        }
        let net = Self {
            metal,
            machines,
            folder: tempfile::tempdir().unwrap(),
        };
        net.prepare();
        net
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Loaders, a ramdisk, and what a DHCP client runs when something happens.
    fn prepare(&self) {
        fs::create_dir_all(self.file("loaders")).unwrap();
        for (name, size) in [
            ("loaders/undionly.kpxe", 70_000),
            ("loaders/snponly.efi", 200_000),
            ("vmlinuz", 900_000),
            ("initrd", 700_000),
            ("grubx64.efi", 300_000),
        ] {
            let bytes: Vec<u8> = (0..size).map(|n: u32| (n * 31 % 253) as u8).collect();
            fs::write(self.file(name), bytes).unwrap();
        }
        let text = "#!/bin/sh\n\
            case \"$1\" in\n\
            bound|renew) ip addr replace \"$ip/$mask\" dev \"$interface\" ;;\n\
            deconfig) ip -4 addr flush dev \"$interface\"; ip link set \"$interface\" up ;;\n\
            esac\n\
            echo \"$1 ip=$ip file=$boot_file next=$siaddr\" >> \"$(dirname \"$0\")/log\"\n";
        fs::write(self.file("udhcpc.sh"), text).unwrap();
        let text = "#!/bin/sh\necho \"$reason ip6=$new_ip6_address url=$new_dhcp6_bootfile_url\" >> \"$(dirname \"$0\")/log\"\n\
            case \"$reason\" in PREINIT6) ip link set \"$interface\" up ;; esac\n";
        fs::write(self.file("dhclient.sh"), text).unwrap();
        fs::set_permissions(self.file("dhclient.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(self.file("udhcpc.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Starts the service with these lines in its section `boot`.
    pub fn serve(&self, dhcp: &str) -> Running {
        self.configure(dhcp);
        self.start()
    }

    /// On a network that has no IPv6 of its own.
    pub fn serve_v4(&self, dhcp: &str) -> Running {
        self.write_config(dhcp, "");
        self.start()
    }

    fn start(&self) -> Running {
        let mut service = Running(
            self.metal
                .command(std::env::current_exe().unwrap().to_str().unwrap())
                .args(["--exact", "net::process", "--nocapture"])
                .env(CONFIG, self.file("ironic.yaml"))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        until("the service answers", || {
            if let Some(status) = service.0.try_wait().unwrap() {
                let mut log = String::new();
                let out = service.0.stdout.as_mut().unwrap();
                out.read_to_string(&mut log).unwrap();
                panic!("the service ended with {status}: {log}");
            }
            self.try_curl(&[&format!("{FILES}/boot.ipxe")])
        });
        until("the API answers", || self.try_curl(&[&format!("{API}/v1")]));
        service
    }

    pub fn configure(&self, dhcp: &str) {
        let dhcp6 = "dhcp6: {address: 'fd00:1101::3/64', range: 'fd00:1101::10-fd00:1101::ff'}\n  ";
        self.write_config(dhcp, dhcp6);
    }

    fn write_config(&self, dhcp: &str, dhcp6: &str) {
        let folder = self.folder.path().display();
        let config = format!(
            "listen: '[::]:6385'\nstate: {folder}/state/ironic.redb\nboot:\n  interface: br0\n  address: 172.22.0.3/24\n  \
             {dhcp6}loaders: {folder}/loaders\n  ramdisk: {{kernel: {folder}/vmlinuz, initrd: {folder}/initrd}}\n  \
             dhcp: {dhcp}\n"
        );
        fs::write(self.file("ironic.yaml"), config).unwrap();
    }

    /// curl on the server's own machine.
    pub fn try_curl(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self
            .metal
            .command("curl")
            .args(["-sSf", "--max-time", "20"])
            .args(arguments)
            .output()
            .unwrap();
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    pub fn curl(&self, arguments: &[&str]) -> String {
        self.try_curl(arguments)
            .unwrap_or_else(|error| panic!("curl {arguments:?}: {error}"))
    }

    /// A call of the API; null where there is no body.
    pub fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let url = format!("{API}{path}");
        let body = body.map(Value::to_string);
        let mut arguments = vec![
            "-X",
            method,
            "-H",
            "X-OpenStack-Ironic-API-Version: 1.95",
            "-H",
            "Content-Type: application/json",
            &url,
        ];
        if let Some(body) = &body {
            arguments.extend(["-d", body]);
        }
        serde_json::from_str(&self.curl(&arguments)).unwrap_or_default()
    }

    /// udhcpc in place of a boot ROM.
    pub fn firmware(&self, machine: usize, arguments: &[&str]) -> Running {
        let mut command = self.machines[machine].command("udhcpc");
        command
            .args(["-f", "-q", "-n", "-i", "eth0", "-t", "5", "-T", "1", "-s"])
            .arg(self.file("udhcpc.sh"))
            .args(["-V", "PXEClient:Arch:00007:UNDI:003016", "-x", "0x5d:0007"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }

    /// The last line of the client's script that starts so.
    pub fn line(&self, start: &str) -> Result<String, String> {
        let text = fs::read_to_string(self.file("log")).unwrap_or_default();
        let found = text.lines().rev().find(|line| line.starts_with(start));
        found.map(str::to_owned).ok_or(text)
    }
}

/// A child that is killed when dropped.
pub struct Running(pub Child);

impl Running {
    pub fn wait(&mut self) -> bool {
        self.0.wait().unwrap().success()
    }

    pub fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .args(["-s", name, &self.0.id().to_string()])
            .status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

pub fn mac(machine: usize) -> String {
    format!("52:54:00:00:00:{:02x}", machine + 1)
}

pub fn run(host: &Host, words: &[&str]) {
    let status = host.command(words[0]).args(&words[1..]).status().unwrap();
    assert!(status.success(), "{words:?}");
}

/// Waits for a state, and shows the last one if it does not come.
pub fn until<T, E: std::fmt::Debug>(what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(value) => return value,
            Err(error) => assert!(Instant::now() < deadline, "{what}: {error:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
