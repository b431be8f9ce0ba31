//! `plinth serve` with kubectl at the other end: hosts and machines from their objects to what they should be.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

const NAMESPACE: &str = "openshift-machine-api";
const PATIENCE: Duration = Duration::from_mins(2);

/// A server on its own, with fake hardware.
struct Site {
    dir: TempDir,
    server: Child,
    api: u16,
    ironic: u16,
}

impl Site {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (api, ironic) = (free_port(), free_port());
        let state = dir.path().join("ironic.redb");
        let config = json!({"listen": format!("127.0.0.1:{ironic}"), "state": state});
        std::fs::write(dir.path().join("ironic.yaml"), config.to_string()).unwrap();
        let server = spawn(dir.path(), api);
        let site = Self {
            dir,
            server,
            api,
            ironic,
        };
        // The last of the kinds to be defined.
        site.until("the API to answer", || {
            site.kubectl(&["get", "machinesets,provisionings"])
                .status
                .success()
        });
        site
    }

    /// Killed at once, and started again.
    fn crash(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
        self.server = spawn(self.dir.path(), self.api);
    }

    /// As [`Self::crash`], and Ironic has forgotten everything.
    fn crash_without_ironics_memory(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with("ironic.redb") {
                std::fs::remove_file(path).unwrap();
            }
        }
        self.server = spawn(self.dir.path(), self.api);
    }

    fn kubectl(&self, args: &[&str]) -> Output {
        Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.dir.path().join("kubeconfig"))
            .args(["--request-timeout", "20s"])
            .args(args)
            .output()
            .expect("kubectl is installed")
    }

    fn must(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        assert!(
            output.status.success(),
            "kubectl {args:?}: {}",
            said(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.dir.path().join("kubeconfig"))
            .args(["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl is installed");
        child
            .stdin
            .take()
            .unwrap()
            .write_all(list.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "apply: {}", said(&output));
    }

    fn get(&self, what: &str, name: &str) -> Value {
        let output = self.kubectl(&["get", what, name, "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn state(&self, host: &str) -> String {
        let host = self.get("baremetalhost", host);
        host["status"]["provisioning"]["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    fn until_state(&self, host: &str, state: &str) {
        self.until(&format!("{host} to be {state}"), || {
            self.state(host) == state
        });
    }

    /// What Ironic says of a node.
    fn node(&self, name: &str) -> Value {
        let url = format!(
            "http://127.0.0.1:{}/v1/nodes/{NAMESPACE}~{name}",
            self.ironic
        );
        let output = Command::new("curl")
            .args(["-s", "-H", "X-OpenStack-Ironic-API-Version: 1.99", &url])
            .output()
            .expect("curl is installed");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            if Instant::now() > deadline {
                let objects =
                    self.kubectl(&["get", "bmh,machines,machinesets,events", "-o", "wide"]);
                let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                let from = log.len().saturating_sub(6000);
                let tail = log.get(from..).unwrap_or(&log);
                panic!("waited for {what}\n{}\n{tail}", said(&objects));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        _ = self.server.kill();
        _ = self.server.wait();
    }
}

fn spawn(dir: &Path, api: u16) -> Child {
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("log"))
        .unwrap();
    Command::new(env!("CARGO_BIN_EXE_plinth"))
        .args([
            "--log",
            "info,operator=debug",
            "serve",
            "--fake-hardware",
            "--dir",
        ])
        .arg(dir)
        .args(["--listen", &format!("127.0.0.1:{api}")])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("plinth runs")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "stringData": {"username": "admin", "password": "secret"},
    })
}

fn host(name: &str, number: u8) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "online": true,
            "bmc": {"address": format!("redfish://192.0.2.{number}/redfish/v1/Systems/1"), "credentialsName": format!("{name}-bmc")},
            "bootMACAddress": format!("52:54:00:00:00:{number:02x}"),
        },
    })
}

const IMAGE: &str = r#"{"spec":{"image":{"url":"http://192.0.2.200/os.raw","checksum":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","checksumType":"sha256","format":"raw"}}}"#;

#[test]
fn a_host_goes_from_its_object_to_provisioned_and_back_and_away() {
    let mut site = Site::start();
    // A host without a Secret says what it misses.
    site.apply(&[host("h0", 9)]);
    site.until("the missing Secret to be told", || {
        let status = &site.get("bmh", "h0")["status"];
        let told = status["errorMessage"].as_str().unwrap_or_default();
        status["errorType"] == "registration error" && told.contains("h0-bmc")
    });
    site.must(&["delete", "bmh", "h0", "--timeout=60s"]);
    site.apply(&[secret("h1-bmc"), host("h1", 1)]);
    site.until_state("h1", "available");
    let known = site.get("bmh", "h1");
    assert_eq!(known["status"]["operationalStatus"], "OK");
    assert_eq!(
        known["metadata"]["finalizers"][0],
        "baremetalhost.metal3.io"
    );
    assert!(known["status"]["hardware"].is_object(), "{known}");
    assert!(site.get("hardwaredata", "h1")["spec"]["hardware"].is_object());
    site.until("the power to be on", || {
        site.get("bmh", "h1")["status"]["poweredOn"] == true
    });

    site.must(&["patch", "bmh", "h1", "--type=merge", "-p", IMAGE]);
    site.until_state("h1", "provisioned");
    let node = site.node("h1");
    assert_eq!(node["provision_state"], "active", "{node}");
    assert_eq!(
        node["instance_info"]["image_source"],
        "http://192.0.2.200/os.raw"
    );

    // Ironic's memory is disposable: the host is adopted, not deployed again.
    site.crash_without_ironics_memory();
    site.until("the node to be adopted", || {
        site.node("h1")["provision_state"] == "active"
    });
    assert_eq!(site.state("h1"), "provisioned");
    let host = site.get("bmh", "h1");
    assert!(
        host["status"]["operationHistory"]["deprovision"]["start"].is_null(),
        "{host}"
    );

    site.must(&["annotate", "bmh", "h1", "reboot.metal3.io=", "--overwrite"]);
    site.until("the reboot to be done", || {
        let host = site.get("bmh", "h1");
        host["metadata"]["annotations"]["reboot.metal3.io"].is_null()
            && host["status"]["poweredOn"] == true
    });

    site.must(&[
        "patch",
        "bmh",
        "h1",
        "--type=json",
        "-p",
        r#"[{"op":"remove","path":"/spec/image"}]"#,
    ]);
    site.until_state("h1", "available");
    site.must(&["delete", "bmh", "h1", "--timeout=90s"]);
    site.until("the node to be gone", || site.node("h1")["uuid"].is_null());
    let secret = site.get("secret", "h1-bmc");
    assert!(secret["metadata"]["finalizers"].is_null(), "{secret}");
    let events = site.must(&["get", "events", "-o", "json"]);
    for reason in [
        "Registered",
        "ProvisioningStarted",
        "ProvisioningComplete",
        "DeprovisioningComplete",
    ] {
        assert!(events.contains(reason), "no event {reason}: {events}");
    }
}

#[test]
fn a_machine_set_is_scaled_over_hosts_and_survives_a_crash() {
    let mut site = Site::start();
    let names = ["w1", "w2", "w3"];
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "worker-user-data", "namespace": NAMESPACE},
        "stringData": {"userData": "{\"ignition\":{\"version\":\"3.2.0\"}}"},
    })];
    for (name, number) in names.iter().zip(11..) {
        objects.push(secret(&format!("{name}-bmc")));
        objects.push(host(name, number));
    }
    let labels = json!({
        "machine.openshift.io/cluster-api-cluster": "test",
        "machine.openshift.io/cluster-api-machineset": "workers",
    });
    objects.push(json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": "workers", "namespace": NAMESPACE},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"providerSpec": {"value": {
                "apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec",
                "image": {"url": "http://192.0.2.200/os.raw", "checksum": "http://192.0.2.200/os.raw.sha256sum"},
                "userData": {"name": "worker-user-data"}, "hostSelector": {},
            }}},
        }},
    }));
    site.apply(&objects);
    site.must(&["scale", "machineset", "workers", "--replicas=2"]);
    let provisioned = |site: &Site| {
        names
            .iter()
            .filter(|name| site.state(name) == "provisioned")
            .count()
    };
    site.until("a host to be provisioned", || provisioned(&site) >= 1);
    site.crash();
    site.until("two hosts to be provisioned", || provisioned(&site) == 2);
    site.until("two machines to know their hosts", || {
        let machines: Value =
            serde_json::from_str(&site.must(&["get", "machines", "-o", "json"])).unwrap();
        let up = machines["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|machine| {
                machine["status"]["phase"] == "Provisioned"
                    && machine["spec"]["providerID"]
                        .as_str()
                        .is_some_and(|id| id.starts_with("baremetalhost:///"))
            });
        up.count() == 2
    });
    // Nobody has two consumers, and every consumer has one host.
    let hosts: Value = serde_json::from_str(&site.must(&["get", "bmh", "-o", "json"])).unwrap();
    let mut consumers: Vec<&str> = hosts["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|host| host["spec"]["consumerRef"]["name"].as_str())
        .collect();
    consumers.sort_unstable();
    consumers.dedup();
    assert_eq!(consumers.len(), 2, "{hosts}");

    site.must(&["scale", "machineset", "workers", "--replicas=0"]);
    site.until("every host to be free again", || {
        names.iter().all(|name| {
            let host = site.get("bmh", name);
            host["status"]["provisioning"]["state"] == "available"
                && host["spec"]["consumerRef"].is_null()
        })
    });
    site.until("the machines to be gone", || {
        let machines: Value =
            serde_json::from_str(&site.must(&["get", "machines", "-o", "json"])).unwrap();
        machines["items"].as_array().unwrap().is_empty()
    });
    let set = site.get("machineset", "workers");
    assert_eq!(set["status"]["replicas"], 0, "{set}");
}
