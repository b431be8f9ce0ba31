//! `plinth serve` beside a rack, with kubectl at the other end: from three objects to two running systems, and back.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use image::ramdisk::Ramdisk;
use serde_json::{Value, json};

use crate::deploy::{ignition, text_of_sum};
use crate::harness::{Lab, PLINTH, Running, poll, str_of, text, wait_for};
use crate::rack::ramdisk;

/// Emulated, three at a time, on a machine that does other things too.
const INSPECTION: Duration = Duration::from_mins(5);
const DEPLOYMENT: Duration = Duration::from_mins(10);
const BOOT: Duration = Duration::from_mins(4);
const CLEANING: Duration = Duration::from_mins(5);
const SOON: Duration = Duration::from_secs(45);

/// The service's address on the provisioning network.
const HERE: &str = "172.22.0.2";
const NAMESPACE: &str = "openshift-machine-api";

/// `plinth serve` inside the lab's namespace.
struct Site<'a> {
    lab: &'a Lab,
    _process: Running,
    dir: PathBuf,
}

impl<'a> Site<'a> {
    fn start(lab: &'a Lab, ramdisk: &Ramdisk) -> Self {
        let ours = format!("{HERE}/24");
        lab.exec(&["ip", "address", "add", &ours, "dev", "provisioning"]);
        let dir = lab.dir().join("serve");
        std::fs::create_dir_all(&dir).unwrap();
        let config = json!({
            "listen": "0.0.0.0:6385",
            "state": dir.join("ironic.redb"),
            // One boot serves inspection, cleaning and deployment.
            "fast_track": true,
            "boot": {
                "interface": "provisioning",
                "address": ours,
                "dhcp": {"ranges": ["172.22.0.10-172.22.0.254"]},
                "ramdisk": {"kernel": ramdisk.dir.join("vmlinuz"), "initrd": ramdisk.dir.join("initrd")},
            },
        });
        std::fs::write(dir.join("ironic.yaml"), config.to_string()).unwrap();
        let command = format!(
            "exec {PLINTH} serve --dir {dir} >{dir}/log 2>&1",
            dir = dir.display()
        );
        let process = lab.start(&["sh", "-c", &command]);
        let site = Self {
            lab,
            _process: process,
            dir,
        };
        wait_for("the API", SOON, || {
            let kinds = ["get", "baremetalhosts,machinesets,provisionings"];
            site.kubectl(&kinds, None).status.success()
        });
        site
    }

    fn kubectl(&self, args: &[&str], input: Option<&Value>) -> std::process::Output {
        let config = self.dir.join("kubeconfig");
        let fixed = [
            "exec",
            "--",
            "kubectl",
            "--kubeconfig",
            config.to_str().unwrap(),
        ];
        let mut command = self.lab.command(&[&fixed[..], args].concat());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        if let Some(input) = input {
            stdin.write_all(input.to_string().as_bytes()).unwrap();
        }
        drop(stdin);
        child.wait_with_output().unwrap()
    }

    fn must(&self, args: &[&str]) -> String {
        let output = self.kubectl(args, None);
        assert!(
            output.status.success(),
            "kubectl {args:?}: {}",
            text(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let output = self.kubectl(&["apply", "-f", "-"], Some(&list));
        assert!(output.status.success(), "apply: {}", text(&output));
    }

    fn hosts(&self) -> Vec<Host> {
        let output = self.kubectl(&["get", "baremetalhosts", "-o", "json"], None);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().map(Host).collect()
    }

    fn host(&self, name: &str) -> Host {
        let hosts = self.hosts();
        let found = hosts.into_iter().find(|host| host.name() == name);
        found.unwrap_or(Host(Value::Null))
    }

    fn until(&self, what: &str, within: Duration, mut so: impl FnMut(&[Host]) -> bool) {
        let reached = poll(within, || {
            let hosts = self.hosts();
            for host in &hosts {
                let status = &host.0["status"];
                let trouble = str_of(&status["errorMessage"]);
                assert!(trouble.is_empty(), "{status:#}\n{}", self.report());
            }
            so(&hosts)
        });
        assert!(reached, "waited {within:?} for {what}\n{}", self.report());
    }

    fn report(&self) -> String {
        let objects = self.kubectl(
            &["get", "bmh,machines,machinesets,events", "-o", "wide"],
            None,
        );
        let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(60)..].join("\n");
        format!("{}\n{end}", text(&objects))
    }
}

/// A BareMetalHost as kubectl shows it.
struct Host(Value);

impl Host {
    fn name(&self) -> &str {
        str_of(&self.0["metadata"]["name"])
    }

    fn state(&self) -> &str {
        str_of(&self.0["status"]["provisioning"]["state"])
    }

    fn consumer(&self) -> Option<&str> {
        self.0["spec"]["consumerRef"]["name"].as_str()
    }
}

fn names<'a>(hosts: &'a [Host], state: &'a str) -> BTreeSet<String> {
    let there = hosts.iter().filter(|host| host.state() == state);
    there.map(|host| host.name().to_owned()).collect()
}

/// The objects of a server of the lab: what one would write into a file.
fn objects(server: &Value) -> [Value; 2] {
    let name = str_of(&server["name"]);
    let ports = server["macs"].as_array().unwrap();
    let boot = ports.iter().find(|port| port["network"] == "provisioning");
    let address = str_of(&server["redfish"]).replace("https://", "redfish-virtualmedia://");
    let credentials = format!("{name}-bmc");
    [
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": credentials, "namespace": NAMESPACE},
            "stringData": {"username": server["user"], "password": server["password"]},
        }),
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "online": true,
                "bootMode": "legacy",
                "bootMACAddress": boot.unwrap()["mac"],
                "bmc": {"address": address, "credentialsName": credentials, "disableCertificateVerification": true},
            },
        }),
    ]
}

/// Two systems that say on their consoles that they are there.
fn machine_set(base: &str, sum: &str) -> [Value; 2] {
    let labels = json!({
        "machine.openshift.io/cluster-api-cluster": "metal",
        "machine.openshift.io/cluster-api-machineset": "workers",
    });
    let provider = json!({
        "apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec",
        "image": {"url": format!("{base}/os.qcow2"), "checksum": sum},
        "userData": {"name": "worker-user-data"}, "hostSelector": {},
    });
    [
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "worker-user-data", "namespace": NAMESPACE},
            "stringData": {"userData": ignition("worker").to_string()},
        }),
        json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "metadata": {"name": "workers", "namespace": NAMESPACE},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"providerSpec": {"value": provider}},
            }},
        }),
    ]
}

/// Whether there is a partition table on a server's first disk.
fn has_partitions(lab: &Lab, name: &str) -> bool {
    let disk = lab.dir().join("servers").join(name).join("disk0.qcow2");
    let start = lab.dir().join("serve").join(format!("{name}.start"));
    let output = std::process::Command::new("qemu-img")
        .args(["dd", "-U", "-f", "qcow2", "-O", "raw", "bs=1M", "count=1"])
        .arg(format!("if={}", disk.display()))
        .arg(format!("of={}", start.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let start = std::fs::read(start).unwrap();
    start[510..512] == [0x55, 0xaa]
}

#[test]
fn a_machine_set_is_scaled_over_a_rack() {
    let ramdisk = ramdisk();
    let os = image::os::build(&image::os::Options::default(), |progress| {
        eprintln!("os: {}", progress.step);
    })
    .expect("the OS image builds");
    let sum = text_of_sum(&os.dir.join("os.qcow2"));
    let lab = Lab::up(&[
        "--servers",
        "3",
        "--firmware",
        "bios",
        "--disk-size",
        "5",
        "--memory",
        "1024",
    ]);
    let site = Site::start(&lab, &ramdisk);
    let (_files, base) = lab.serve_files(&os.dir);
    let servers = lab.status()["servers"].as_array().unwrap().clone();
    let mut all: Vec<Value> = servers.iter().flat_map(objects).collect();
    all.extend(machine_set(&base, &sum));
    site.apply(&all);

    site.until("three hosts to be inspected", INSPECTION, |hosts| {
        let known = hosts.iter().filter(|host| {
            let nics = host.0["status"]["hardware"]["nics"].as_array();
            nics.is_some_and(|nics| nics.len() == 2)
        });
        known.count() == 3
    });
    site.until("two hosts to be provisioned", DEPLOYMENT, |hosts| {
        names(hosts, "provisioned").len() == 2
    });
    let used = names(&site.hosts(), "provisioned");
    for name in &used {
        lab.wait_console(name, "IGNITED worker", BOOT);
        assert!(has_partitions(&lab, name));
        assert!(site.host(name).consumer().is_some());
    }
    let spare = site
        .hosts()
        .into_iter()
        .find(|host| !used.contains(host.name()));
    let spare = spare.expect("two of three are used");
    assert_eq!((spare.state(), spare.consumer()), ("available", None));

    site.must(&["scale", "machineset", "workers", "--replicas=1"]);
    site.until("one host to be free again", CLEANING, |hosts| {
        let free = hosts
            .iter()
            .filter(|host| host.state() == "available" && host.consumer().is_none());
        free.count() == 2 && names(hosts, "provisioned").len() == 1
    });
    let kept = names(&site.hosts(), "provisioned");
    let freed = used.difference(&kept).next().expect("one is free");
    let index = |name: &str| servers.iter().position(|server| server["name"] == name);
    lab.wait_power(index(freed).unwrap(), "Off", SOON);
    assert!(!has_partitions(&lab, freed), "{freed} is clean");
    for name in &kept {
        assert_eq!(lab.server(index(name).unwrap())["power"], "On");
    }

    site.must(&["delete", "baremetalhost", spare.name(), "--timeout=2m"]);
    assert!(site.host(spare.name()).name().is_empty());
    lab.wait_power(index(spare.name()).unwrap(), "Off", SOON);
    let machines: Value =
        serde_json::from_str(&site.must(&["get", "machines", "-o", "json"])).unwrap();
    assert_eq!(machines["items"].as_array().unwrap().len(), 1);
}
