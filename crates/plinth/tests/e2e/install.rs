//! `plinth lab up`: from powered-off servers to a cluster, with kubectl at its virtual address.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Lab, PLINTH, poll, text};

/// Between two seconds and a minute on real servers; emulated processors share two real ones.
const MOVES: Duration = Duration::from_mins(1);
const SOON: Duration = Duration::from_secs(30);

/// A cluster that goes down with the test.
struct Cluster {
    lab: Lab,
    log: PathBuf,
}

impl Cluster {
    fn install(args: &[&str]) -> Self {
        let lab = Lab::new();
        std::fs::create_dir_all(lab.dir().parent().unwrap()).unwrap();
        let home = lab.dir().parent().unwrap().to_owned();
        // Debug information would travel to every node.
        let program = home.join("plinth");
        let stripped = Command::new("strip").arg("-o").arg(&program).arg(PLINTH);
        assert!({ stripped }.status().unwrap().success());
        let log = home.join("install.log");
        let fixed = ["up", "--name", &lab.name];
        let mut up = lab.command(&[&fixed[..], args].concat());
        let file = std::fs::File::create(&log).unwrap();
        let ended = up
            .env("PLINTH_BINARY", &program)
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .status()
            .unwrap();
        let cluster = Self { lab, log };
        if !ended.success() {
            cluster.tell();
            panic!("lab up: {ended}");
        }
        println!("{}", std::fs::read_to_string(&cluster.log).unwrap());
        cluster
    }

    /// What there is to see of an install that failed.
    fn tell(&self) {
        println!("{}", std::fs::read_to_string(&self.log).unwrap());
        let bootstrap = self.lab.dir().join("site/bootstrap/console.log");
        let console = std::fs::read(bootstrap).unwrap_or_default();
        println!(
            "== bootstrap\n{}",
            end_of(&String::from_utf8_lossy(&console))
        );
        let servers = self.lab.status()["servers"].as_array().unwrap().clone();
        for server in servers {
            let name = server["name"].as_str().unwrap();
            println!("== {name}\n{}", end_of(&self.lab.console(name)));
        }
    }

    fn kubectl(&self, args: &[&str]) -> Output {
        let config = self.lab.dir().join("site/auth/kubeconfig");
        let fixed = [
            "kubectl",
            "--kubeconfig",
            config.to_str().unwrap(),
            // The laptop outside knows nothing of the cluster's names.
            "--server=https://192.168.111.5:6443",
            "--request-timeout=5s",
        ];
        self.lab.try_exec(&[&fixed[..], args].concat())
    }

    fn get(&self, what: &str) -> Vec<Value> {
        let output = self.kubectl(&["get", what, "-A", "-o", "json"]);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    fn wait_for(&self, what: &str, within: Duration, so: impl FnMut() -> bool) {
        if !poll(within, so) {
            self.tell();
            panic!("not seen within {} s: {what}", within.as_secs());
        }
    }
}

fn end_of(text: &str) -> &str {
    let start = text.len().saturating_sub(20_000);
    let start = (start..text.len()).find(|at| text.is_char_boundary(*at));
    &text[start.unwrap_or(text.len())..]
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[test]
fn a_rack_becomes_a_cluster_with_a_worker_by_one_command() {
    let cluster = Cluster::install(&["--masters", "1", "--workers", "1"]);
    let nodes = cluster.get("nodes");
    let names: Vec<&str> = nodes.iter().map(name).collect();
    assert_eq!(names, ["master-0", "worker-0"]);
    assert!(nodes.iter().all(is_ready), "{nodes:#?}");
    // The bootstrap VM is gone, and the API is a master's.
    assert!(!cluster.lab.dir().join("site/bootstrap/disk.qcow2").exists());
    let hosts = cluster.get("baremetalhosts");
    let states: Vec<(&str, &str)> = hosts
        .iter()
        .map(|host| {
            let state = &host["status"]["provisioning"]["state"];
            (name(host), state.as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(
        states,
        [
            ("master-0", "externally provisioned"),
            ("worker-0", "provisioned")
        ]
    );
    // The ingress address is where a router answers.
    cluster.wait_for("the router behind its address", MOVES, || {
        let asked = ["curl", "-s", "-m", "3", "http://192.168.111.6/"];
        let answer = cluster.lab.try_exec(&asked);
        text(&answer).contains("Plinth")
    });
    // The same command again finds nothing to do.
    let again = cluster.lab.lab(&["up", "--name", &cluster.lab.name]);
    assert!(again.status.success(), "{}", text(&again));
    cluster.wait_for("the API after that", SOON, || {
        cluster
            .kubectl(&["get", "--raw", "/readyz"])
            .status
            .success()
    });
}
