//! `plinth metal3` on two nodes of a cluster: who is active, and what is where then.
//!
//! ```text
//!   the API ── br0 ──┬── mgmt, node a, prov ──┬── br1
//!                    └── mgmt, node b, prov ──┘
//! ```

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{PLINTH, text, wait_for};

const SOON: Duration = Duration::from_mins(1);
const ADDRESS: &str = "172.22.0.3";
const API: &str = "10.77.0.1";
const NAMESPACE: &str = "openshift-machine-api";

/// Three namespaces, joined by two bridges in the first.
struct Net {
    prefix: String,
}

impl Net {
    fn new() -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "this test makes network namespaces and must run as root"
        );
        let net = Self {
            prefix: format!("plinth-m3-{:x}", std::process::id()),
        };
        let api = net.of("api");
        for place in ["api", "a", "b"] {
            ip(&["netns", "add", &net.of(place)]);
            ip(&["-n", &net.of(place), "link", "set", "lo", "up"]);
        }
        for bridge in ["br0", "br1"] {
            ip(&["-n", &api, "link", "add", bridge, "type", "bridge"]);
            ip(&["-n", &api, "link", "set", bridge, "up"]);
        }
        let own = format!("{API}/24");
        ip(&["-n", &api, "addr", "add", &own, "dev", "br0"]);
        for (node, address) in [("a", "10.77.0.2/24"), ("b", "10.77.0.3/24")] {
            for (bridge, link) in [("br0", "mgmt"), ("br1", "prov")] {
                let port = format!("{link}-{node}");
                let there = net.of(node);
                let pair = ["-n", &api, "link", "add", &port, "type", "veth", "peer"];
                ip(&[&pair[..], &["name", link, "netns", &there]].concat());
                ip(&["-n", &api, "link", "set", &port, "master", bridge, "up"]);
                ip(&["-n", &there, "link", "set", link, "up"]);
            }
            ip(&["-n", &net.of(node), "addr", "add", address, "dev", "mgmt"]);
        }
        net
    }

    fn of(&self, place: &str) -> String {
        format!("{}-{place}", self.prefix)
    }

    fn command(&self, place: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.of(place), program]);
        command
    }

    /// Whether the provisioning address is on this node.
    fn has_address(&self, node: &str) -> bool {
        let shown = ip(&["-n", &self.of(node), "-o", "addr", "show", "dev", "prov"]);
        shown.contains(ADDRESS)
    }

    /// Status and body of what metal3 on this node answers.
    fn asks(&self, node: &str, path: &str) -> (String, String) {
        let url = format!("http://127.0.0.1:29447{path}");
        let mut curl = self.command(node, "curl");
        let output = curl
            .args(["-s", "--max-time", "5", "-w", "\n%{http_code}", &url])
            .output()
            .expect("curl is installed");
        let said = text(&output);
        let (body, code) = said.rsplit_once('\n').unwrap_or_default();
        (code.to_owned(), body.to_owned())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for place in ["a", "b", "api"] {
            _ = Command::new("ip")
                .args(["netns", "del", &self.of(place)])
                .output();
        }
    }
}

fn ip(args: &[&str]) -> String {
    let output = Command::new("ip").args(args).output();
    let output = output.expect("ip is installed (Debian: iproute2)");
    assert!(output.status.success(), "ip {args:?}: {}", text(&output));
    text(&output)
}

/// A process that ends with the test.
struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(mut command: Command, log: PathBuf) -> Self {
        let file = File::create(&log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The Ironic that it runs.
    fn ironic(&self) -> Option<u32> {
        let own = self.child.id().to_string();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.into_iter().find(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
            let mut fields = after.split_whitespace();
            let dead = fields.next() == Some("Z");
            !dead && fields.next() == Some(own.as_str())
        })
    }

    fn terminate(&mut self) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its Ironic ends with it.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

struct Cluster {
    _api: Process,
    net: Net,
    dir: TempDir,
}

impl Cluster {
    fn start() -> Self {
        let (net, dir) = (Net::new(), tempfile::tempdir().unwrap());
        // The API of a cluster; its own controllers have an Ironic that never answers.
        let mut serve = net.command("api", PLINTH);
        serve
            .args(["serve", "--ironic-url", "http://127.0.0.1:9"])
            .args(["--listen", &format!("{API}:6443"), "--dir"])
            .arg(dir.path().join("api"));
        let api = Process::start(serve, dir.path().join("api.log"));
        let cluster = Self {
            _api: api,
            net,
            dir,
        };
        wait_for("the API", SOON, || {
            cluster.kubectl(&["get", "provisionings"]).status.success()
        });
        cluster
    }

    fn kubectl(&self, args: &[&str]) -> Output {
        let mut kubectl = self.net.command("api", "kubectl");
        kubectl
            .arg("--kubeconfig")
            .arg(self.dir.path().join("api/kubeconfig"))
            .args(["--request-timeout", "10s"])
            .args(args)
            .output()
            .unwrap()
    }

    fn apply(&self, object: &Value) {
        let mut kubectl = self.net.command("api", "kubectl");
        let mut child = kubectl
            .arg("--kubeconfig")
            .arg(self.dir.path().join("api/kubeconfig"))
            .args(["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("kubectl is installed");
        let mut input = child.stdin.take().unwrap();
        input.write_all(object.to_string().as_bytes()).unwrap();
        drop(input);
        assert!(child.wait().unwrap().success(), "{object}");
    }

    fn infrastructure(&self, platform: &str) {
        self.apply(&json!({
            "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure",
            "metadata": {"name": "cluster"},
            "spec": {"platformSpec": {"type": platform}},
        }));
    }

    fn holder(&self) -> String {
        let path = "jsonpath={.spec.holderIdentity}";
        let output = self.kubectl(&["-n", NAMESPACE, "get", "lease", "metal3", "-o", path]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn metal3(&self, node: &str) -> Process {
        let dir = self.dir.path().join(node);
        std::fs::create_dir_all(&dir).unwrap();
        let ironic = json!({"listen": "0.0.0.0:6385", "state": dir.join("ironic.redb")});
        write(&dir.join("base.yaml"), &ironic);
        let config = json!({
            "kubeconfig": self.dir.path().join("api/kubeconfig"),
            "node": node, "state": dir, "ironic": {"config": dir.join("base.yaml")},
        });
        write(&dir.join("metal3.yaml"), &config);
        let mut command = self.net.command(node, PLINTH);
        command
            .args(["metal3", "--config"])
            .arg(dir.join("metal3.yaml"));
        Process::start(command, dir.join("log"))
    }

    fn until(&self, what: &str, process: &Process, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + SOON;
        while !holds() {
            assert!(
                Instant::now() < deadline,
                "waited for {what}; the holder is {:?}\n{}",
                self.holder(),
                process.said()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn write(path: &Path, config: &Value) {
    std::fs::write(path, config.to_string()).unwrap();
}

#[test]
fn one_node_is_active_with_the_address_and_ironic_and_gives_both_up_before_another_begins() {
    let cluster = Cluster::start();
    let net = &cluster.net;
    cluster.apply(&json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "Provisioning",
        "metadata": {"name": "provisioning-configuration"},
        "spec": {
            "provisioningNetwork": "Managed", "provisioningInterface": "prov", "provisioningIP": ADDRESS,
            "provisioningNetworkCIDR": "172.22.0.0/24", "provisioningDHCPRange": "172.22.0.10,172.22.0.100",
        },
    }));

    // A cluster on something else: nothing is installed, and that is said.
    cluster.infrastructure("None");
    let a = cluster.metal3("a");
    cluster.until("metal3 to say why it does nothing", &a, || {
        net.asks("a", "/readyz").1.contains("not BareMetal")
    });
    assert_eq!(net.asks("a", "/readyz").0, "200", "that is no fault");
    assert_eq!(cluster.holder(), "");
    assert!(!net.has_address("a") && a.ironic().is_none());

    cluster.infrastructure("BareMetal");
    cluster.until("node a to be active", &a, || cluster.holder() == "a");
    cluster.until("the address", &a, || net.has_address("a"));
    cluster.until("Ironic", &a, || {
        let mut curl = net.command("a", "curl");
        let url = format!("http://{ADDRESS}:6385/v1");
        let output = curl.args(["-sf", "--max-time", "2", &url]).output();
        a.ironic().is_some() && output.unwrap().status.success()
    });
    let (_, numbers) = net.asks("a", "/metrics");
    assert!(numbers.contains("metal3_active 1"), "{numbers}");
    assert!(numbers.contains("# TYPE metal3_hosts gauge"), "{numbers}");
    let mut b = cluster.metal3("b");
    cluster.until("node b to stand by", &b, || {
        net.asks("b", "/readyz").1.contains("standby")
    });

    // Cut off from the API, it cannot know who is active: it is not, before another can be.
    ip(&["-n", &net.of("a"), "link", "set", "mgmt", "down"]);
    cluster.until("node b to have the address", &b, || {
        let there = net.has_address("b");
        if there || b.ironic().is_some() {
            assert!(!net.has_address("a"), "both have it: {}", a.said());
            assert!(a.ironic().is_none(), "both run Ironic: {}", a.said());
        }
        there
    });
    assert_eq!(cluster.holder(), "b");

    // One that leaves in order is followed at once.
    ip(&["-n", &net.of("a"), "link", "set", "mgmt", "up"]);
    cluster.until("node a to stand by", &a, || {
        net.asks("a", "/readyz").1.contains("standby")
    });
    cluster.until("Ironic on node b", &b, || b.ironic().is_some());
    b.terminate();
    assert!(!net.has_address("b"), "{}", b.said());
    cluster.until("node a to be active again", &a, || {
        cluster.holder() == "a" && net.has_address("a") && a.ironic().is_some()
    });
}
