//! A rack of simulated servers, from `kubectl apply` of their objects on `plinth serve` to provisioned: registered,
//! inspected, cleaned, written, booted. Then nothing is asked of it, and what that costs is measured.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::daemon::{Daemon, cpu_seconds, memory_mib, peak_mib};
use super::rack::{self, HERE, Image, Lab, keep};
use super::report::{Better, Report, Row, Target};
use super::{Scratch, plinth, say};
use crate::sh;

pub const SERVERS: usize = 1000;
const NAMESPACE: &str = "openshift-machine-api";
const GIVE_UP: Duration = Duration::from_mins(20);
/// What was begun for the last host is over by then.
const SETTLE: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_mins(1);

pub fn run(servers: usize) -> Result<()> {
    rack::inside("hosts", servers, |lab| lead(lab, servers))
}

fn lead(lab: &Lab, servers: usize) -> Result<()> {
    let scratch = Scratch::new("serve")?;
    let image = Image::make(&scratch)?;
    let (_files, url) = serve_files(&scratch)?;
    let mut site = Site::start(&scratch, servers)?;
    let objects = objects(lab, &image, &url)?;
    let list = scratch.write("hosts.json", &objects.to_string())?;
    let begin = Instant::now();
    let led = site.apply(&list).and_then(|()| {
        let applied = begin.elapsed().as_secs_f64();
        say(&format!("{applied:3.0} s: applied"));
        site.wait(servers, begin)?;
        Ok((applied, begin.elapsed().as_secs_f64()))
    });
    if led.is_err() {
        keep(&scratch.join("serve.log"), "hosts-serve.log");
    }
    let (applied, provisioned) = led?;
    say("provisioned; now idle");
    let busy = cpu_seconds(site.daemon.pid());
    let idle = site.idle(servers)?;
    let mut report = Report::new(
        "hosts",
        format!(
            "{servers} simulated servers from `kubectl apply` on `plinth serve` to provisioned: registered, inspected, \
             cleaned, written, booted"
        ),
    );
    let mut add = |what: &str, unit, target, value: Option<f64>| {
        let mut row = Row::new(what, unit, Better::Less, target);
        row.ours(value.unwrap_or(f64::NAN));
        report.add(row);
    };
    let (time, memory) = targets(servers);
    let (ours, theirs) = (peak_mib(site.daemon.pid())?, peak_mib(lab.pid)?);
    add("apply to provisioned, all", "s", time, Some(provisioned));
    add("of it kubectl apply", "s", Target::None, Some(applied));
    add("memory at its most, serve", "MiB", memory, Some(ours));
    add("memory at its most, lab", "MiB", Target::None, Some(theirs));
    add(
        "memory when idle, serve",
        "MiB",
        Target::None,
        memory_mib(site.daemon.pid()).ok(),
    );
    add("processor, serve", "s", Target::None, busy);
    add("processor, lab", "s", Target::None, cpu_seconds(lab.pid));
    add("idle processor, serve", "% of one", Target::None, idle);
    report.finish()
}

/// What holds for a whole rack is said for a whole rack only.
fn targets(servers: usize) -> (Target, Target) {
    if servers == SERVERS {
        (Target::Under(300.0), Target::Under(1024.0))
    } else {
        (Target::None, Target::None)
    }
}

/// A Secret and a BareMetalHost for each server, as a person would write them.
fn objects(lab: &Lab, image: &Image, url: &str) -> Result<Value> {
    let mut items = Vec::new();
    for (index, server) in lab.servers.iter().enumerate() {
        let name = format!("host-{index}");
        let credentials = format!("{name}-bmc");
        let address = server["redfish"].as_str().context("a BMC's address")?;
        items.push(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": credentials, "namespace": NAMESPACE},
            "stringData": {"username": server["user"], "password": server["password"]},
        }));
        items.push(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "online": true,
                "bootMACAddress": lab.mac(index),
                "bmc": {
                    "address": address.replace("https://", "redfish://"), "credentialsName": credentials,
                    "disableCertificateVerification": true,
                },
                "image": {"url": url, "checksum": image.sha256, "checksumType": "sha256", "format": "raw"},
            },
        }));
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

/// A site's web server, with the image. Ironic fetches it once.
fn serve_files(scratch: &Scratch) -> Result<(Daemon, String)> {
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", "--bind", HERE, "8000", "--directory"]);
    let mut daemon = Daemon::start("http", &scratch.0, command.arg(&scratch.0))?;
    daemon.wait_port(format!("{HERE}:8000").parse()?)?;
    Ok((daemon, format!("http://{HERE}:8000/os.raw")))
}

struct Site {
    daemon: Daemon,
    kubeconfig: PathBuf,
}

impl Site {
    fn start(scratch: &Scratch, servers: usize) -> Result<Self> {
        let mut config = rack::ironic(scratch, servers);
        // Agents call from the provisioning network, the controllers from this machine.
        config["listen"] = json!("0.0.0.0:6385");
        let config = scratch.write("ironic.yaml", &config.to_string())?;
        let dir = scratch.join("serve");
        let mut command = plinth();
        command.args(["serve", "--dir"]).arg(&dir);
        command.arg("--ironic").arg(config);
        command.args(["--provisioning-limit", &servers.to_string()]);
        let mut site = Self {
            daemon: Daemon::start("serve", &scratch.0, &mut command)?,
            kubeconfig: dir.join("kubeconfig"),
        };
        let kubeconfig = site.kubeconfig.clone();
        site.daemon.wait("the API answers", || {
            let mut asking = kubectl(&kubeconfig);
            asking.args(["get", "baremetalhosts,machinesets,provisionings"]);
            fs::exists(&kubeconfig).unwrap_or(false) && sh::output(&mut asking).is_ok()
        })?;
        Ok(site)
    }

    fn apply(&self, list: &std::path::Path) -> Result<()> {
        let mut applying = kubectl(&self.kubeconfig);
        applying.args(["apply", "--server-side", "-f"]).arg(list);
        sh::output(&mut applying).map(drop)
    }

    /// Until every host is provisioned.
    fn wait(&mut self, servers: usize, begin: Instant) -> Result<()> {
        let mut said = Instant::now();
        loop {
            let states = self.states()?;
            let done = states.iter().filter(|state| *state == "provisioned");
            if done.count() == servers {
                return Ok(());
            }
            let mut counted = std::collections::BTreeMap::new();
            for state in states {
                *counted.entry(state).or_insert(0) += 1;
            }
            if begin.elapsed() > GIVE_UP {
                let behind = sh::output(
                    plinth()
                        .args(["status", "hosts", "--kubeconfig"])
                        .arg(&self.kubeconfig),
                );
                let behind = behind.unwrap_or_default();
                let behind: Vec<&str> = behind
                    .lines()
                    .filter(|line| !line.contains(" provisioned "))
                    .take(20)
                    .collect();
                bail!(
                    "after {} s: {counted:?}; those behind:\n  {}",
                    begin.elapsed().as_secs(),
                    behind.join("\n  ")
                );
            }
            if said.elapsed() > Duration::from_secs(10) {
                let mib = memory_mib(self.daemon.pid())?;
                say(&format!(
                    "{:3} s: {counted:?}, {mib:.0} MiB",
                    begin.elapsed().as_secs()
                ));
                said = Instant::now();
            }
            thread::sleep(Duration::from_secs(2));
        }
    }

    /// The state of every host. A table is small, where the objects are not.
    fn states(&self) -> Result<Vec<String>> {
        let mut asking = kubectl(&self.kubeconfig);
        asking.args(["get", "baremetalhosts", "--no-headers"]);
        let table = sh::output(&mut asking)?;
        // Nobody looked at it yet: the next column is ONLINE.
        let state = |line: &str| match line.split_whitespace().nth(1) {
            Some("true") | None => "new".to_owned(),
            Some(state) => state.to_owned(),
        };
        Ok(table.lines().map(state).collect())
    }

    /// Percent of one processor while nothing is asked for.
    fn idle(&self, servers: usize) -> Result<Option<f64>> {
        let (settle, time) = if servers == SERVERS {
            (SETTLE, IDLE)
        } else {
            (SETTLE / 6, IDLE / 6)
        };
        thread::sleep(settle);
        let before = cpu_seconds(self.daemon.pid()).context("it runs")?;
        thread::sleep(time);
        let after = cpu_seconds(self.daemon.pid());
        Ok(after.map(|after| (after - before) / time.as_secs_f64() * 100.0))
    }
}

fn kubectl(kubeconfig: &std::path::Path) -> Command {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(kubeconfig);
    command
}
