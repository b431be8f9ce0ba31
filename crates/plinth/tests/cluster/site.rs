//! A cluster on a rack of its own, seen with the tools of an operator.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use crate::harness::{Lab, poll, str_of, stripped};

pub const API_VIP: &str = "192.168.111.5";
pub const INGRESS_VIP: &str = "192.168.111.6";
pub const NAMESPACE: &str = "openshift-machine-api";

/// Each takes the whole machine.
static ALONE: Mutex<()> = Mutex::new(());

/// A cluster that goes down with the test.
pub struct Cluster {
    pub lab: Lab,
    log: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

/// What happens on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Smooth,
    /// The installer is killed at the end of every phase and run again, and what [`MISHAPS`] says happens as well.
    Rough,
}

#[derive(Debug, Clone, Copy)]
enum Mishap {
    /// The bootstrap VM is gone from one moment to the next, as when its machine starts anew.
    VmKilled,
    PowerLost(&'static str),
    PowerBack(&'static str),
}

/// What happens when the installer first says this.
const MISHAPS: [(&str, Mishap); 5] = [
    ("bootstrap-services: done", Mishap::VmKilled),
    ("deploy.write_image on the agent", Mishap::VmKilled),
    // While etcd forms.
    ("control-plane-deploy: done", Mishap::PowerLost("master-2")),
    ("master-2: it has not joined", Mishap::PowerBack("master-2")),
    ("control-plane-ready: done", Mishap::VmKilled),
];

impl Cluster {
    /// `plinth lab up ARGS`.
    pub fn install(args: &[&str], way: Way) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let lab = Lab::new();
        let program = stripped(&lab);
        let log = program.with_file_name("install.log");
        let cluster = Self {
            lab,
            log,
            _alone: alone,
        };
        let fixed = ["up", "--name", &cluster.lab.name];
        let args = [&fixed[..], args].concat();
        let mut heard = BTreeSet::new();
        let mut first = |words: &str| way == Way::Rough && heard.insert(words.to_owned());
        while !cluster.run_up(&args, &program, &mut first) {}
        if way == Way::Rough {
            let missed: Vec<_> = MISHAPS.iter().filter(|(words, _)| first(words)).collect();
            assert!(missed.is_empty(), "never said: {:?}", missed[0].0);
        }
        println!("{}", std::fs::read_to_string(&cluster.log).unwrap());
        cluster
    }

    /// True if nothing is left to do; false if the installer was killed at the end of a phase. `first`: whether this
    /// was not said before.
    fn run_up(&self, args: &[&str], program: &Path, first: &mut dyn FnMut(&str) -> bool) -> bool {
        let mut log = File::options();
        let mut log = log.create(true).append(true).open(&self.log).unwrap();
        let mut up = self.lab.command(args);
        let up = up.env("PLINTH_BINARY", program).process_group(0);
        let up = up.stdout(Stdio::piped()).stderr(log.try_clone().unwrap());
        let mut up = up.spawn().unwrap();
        for line in BufReader::new(up.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            writeln!(log, "{line}").unwrap();
            let mishaps = MISHAPS.iter().filter(|(words, _)| line.contains(words));
            for (_, mishap) in mishaps.filter(|(words, _)| first(words)) {
                writeln!(log, "== {line}: {mishap:?}").unwrap();
                self.suffer(*mishap);
            }
            let ended = line.split_once(": done in ").map(|(phase, _)| phase);
            if ended.is_some_and(&mut *first) {
                let group = Pid::from_raw(up.id().cast_signed());
                killpg(group, Signal::SIGKILL).unwrap();
                up.wait().unwrap();
                return false;
            }
        }
        let ended = up.wait().unwrap();
        if !ended.success() {
            self.tell();
            panic!("lab up: {ended}");
        }
        true
    }

    fn suffer(&self, mishap: Mishap) {
        match mishap {
            Mishap::VmKilled => {
                let keeper = self.lab.dir().join("site/bootstrap/keeper.json");
                let keeper: Value =
                    serde_json::from_slice(&std::fs::read(keeper).unwrap()).unwrap();
                let pid = i32::try_from(keeper["pid"].as_u64().unwrap()).unwrap();
                kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
            }
            Mishap::PowerLost(master) => self.power(master, "off"),
            Mishap::PowerBack(master) => self.power(master, "on"),
        }
    }

    /// What there is to see of a cluster that does not do what it should.
    fn tell(&self) {
        println!("{}", std::fs::read_to_string(&self.log).unwrap());
        let bootstrap = self.lab.dir().join("site/bootstrap/console.log");
        let console = std::fs::read(bootstrap).unwrap_or_default();
        println!(
            "== bootstrap\n{}",
            end_of(&String::from_utf8_lossy(&console))
        );
        for server in self.lab.status()["servers"].as_array().unwrap() {
            let name = str_of(&server["name"]);
            println!("== {name}\n{}", end_of(&self.lab.console(name)));
        }
    }

    pub fn kubectl(&self, args: &[&str]) -> Output {
        let config = self.lab.dir().join("site/auth/kubeconfig");
        let config = config.to_str().unwrap();
        let fixed = ["kubectl", "--kubeconfig", config, "--request-timeout=10s"];
        self.lab.try_exec(&[&fixed[..], args].concat())
    }

    /// All objects of a kind; none if the API does not answer just now.
    pub fn get(&self, kind: &str) -> Vec<Value> {
        let output = self.kubectl(&["get", kind, "-A", "-o", "json"]);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub fn wait_for(&self, what: &str, within: Duration, so: impl FnMut() -> bool) {
        println!("waiting for {what}");
        if !poll(within, so) {
            self.tell();
            panic!("not seen within {} s: {what}", within.as_secs());
        }
    }

    /// The names of Nodes that are ready.
    pub fn ready(&self) -> Vec<String> {
        let nodes = self.get("nodes");
        let ready = nodes.iter().filter(|node| is_true(node, "Ready"));
        ready.map(|node| name(node).to_owned()).collect()
    }

    /// Each Node with its first address.
    pub fn addresses(&self) -> Vec<(String, String)> {
        let nodes = self.get("nodes");
        let address = |node: &Value| str_of(&node["status"]["addresses"][0]["address"]).to_owned();
        let both = nodes
            .iter()
            .map(|node| (name(node).to_owned(), address(node)));
        both.collect()
    }

    pub fn scale(&self, replicas: u16) {
        let replicas = format!("--replicas={replicas}");
        let args = ["scale", "machineset", "--all", "-n", NAMESPACE, &replicas];
        self.wait_for("kubectl scale", Duration::from_secs(30), || {
            self.kubectl(&args).status.success()
        });
    }

    /// The master on which metal3 is active.
    pub fn metal3_on(&self) -> String {
        let path = "jsonpath={.spec.holderIdentity}";
        let output = self.kubectl(&["get", "lease", "metal3", "-n", NAMESPACE, "-o", path]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The master that has the API's address, by the MAC that answers for it.
    pub fn vip_on(&self) -> String {
        let url = format!("https://{API_VIP}:6443/readyz");
        self.lab.try_exec(&["curl", "-skm5", &url]);
        let seen = self.lab.exec(&["ip", "neighbour", "show", API_VIP]);
        let servers = self.lab.status()["servers"].clone();
        let mut servers = servers.as_array().unwrap().iter();
        let has = |server: &Value| {
            let ports = server["macs"].as_array().into_iter().flatten();
            ports
                .into_iter()
                .any(|port| seen.contains(str_of(&port["mac"])))
        };
        let at = servers.position(has);
        let at = at.unwrap_or_else(|| panic!("nobody has {API_VIP}: {seen}"));
        format!("master-{at}")
    }

    /// Cuts the power of a master, or gives it back.
    pub fn power(&self, master: &str, state: &str) {
        self.lab.ok(&["power", &server(master), state]);
    }
}

/// The lab's name for the server of a master.
pub fn server(master: &str) -> String {
    master.replace("master", "server")
}

pub fn name(object: &Value) -> &str {
    str_of(&object["metadata"]["name"])
}

pub fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|seen| seen["type"] == condition && seen["status"] == "True")
}

fn end_of(text: &str) -> &str {
    let start = text.len().saturating_sub(20_000);
    let start = (start..text.len()).find(|at| text.is_char_boundary(*at));
    &text[start.unwrap_or(text.len())..]
}
