//! A rack of simulated servers, each led from enrolled to active by the service: verified, cleaned, written, booted.
//! There is nothing to compare it with; sushy-tools' fake servers do not boot.
//!
//! ```text
//!   here ── lab up ── lab exec: the same program, in the lab's network ── ironic ── BMCs, DHCP, TFTP, HTTP, agents
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::daemon::{Daemon, cpu_seconds, peak_mib};
use super::http::{self, Connection, Request, Until};
use super::rack::{self, HERE, Image, Lab, keep};
use super::report::{Better, Report, Row, Target};
use super::{Scratch, plinth, say};

pub const SERVERS: usize = 1000;
const CONNECTIONS: usize = 16;
const VERSION: &str = "X-OpenStack-Ironic-API-Version: 1.94\r\n";
const GIVE_UP: Duration = Duration::from_mins(15);

/// A node that rests in the first is asked for the second.
const LIFE: [(&str, &str); 3] = [
    ("enroll", "manage"),
    ("manageable", "provide"),
    ("available", "active"),
];
const GOAL: &str = "active";

pub fn run(servers: usize) -> Result<()> {
    rack::inside("provision", servers, |lab| lead(lab, servers))
}

/// Leads every node, and reports.
fn lead(lab: &Lab, servers: usize) -> Result<()> {
    let scratch = Scratch::new("ironic")?;
    let image = Image::make(&scratch)?;
    let mut service = Service::start(&scratch, servers)?;
    let begin = Instant::now();
    service.enrol(lab, &image)?;
    let led = service.lead(servers);
    let seconds = begin.elapsed().as_secs_f64();
    if led.is_err() {
        keep(&scratch.join("ironic.log"), "provision-ironic.log");
    }
    led?;
    let mut report = Report::new(
        "provision",
        format!(
            "{servers} simulated servers from enrolled to active: verified, cleaned, written, booted"
        ),
    );
    let mut add = |what: &str, unit, target, value: Option<f64>| {
        let mut row = Row::new(what, unit, Better::Less, target);
        row.ours(value.unwrap_or(f64::NAN));
        report.add(row);
    };
    let (ours, theirs) = (peak_mib(service.daemon.pid())?, peak_mib(lab.pid)?);
    let (time, memory) = targets(servers);
    add("enrol to active, all", "s", time, Some(seconds));
    add(
        "memory at its most, lab and ironic",
        "MiB",
        memory,
        Some(ours + theirs),
    );
    add("memory at its most, lab", "MiB", Target::None, Some(theirs));
    add(
        "memory at its most, ironic",
        "MiB",
        Target::None,
        Some(ours),
    );
    add("processor, lab", "s", Target::None, cpu_seconds(lab.pid));
    add(
        "processor, ironic",
        "s",
        Target::None,
        cpu_seconds(service.daemon.pid()),
    );
    report.finish()
}

/// What holds for a whole rack is said for a whole rack only.
fn targets(servers: usize) -> (Target, Target) {
    if servers == SERVERS {
        (Target::Under(300.0), Target::Under(600.0))
    } else {
        (Target::None, Target::None)
    }
}

/// How to enrol a server.
fn node(lab: &Lab, index: usize, image: &Image) -> Result<Value> {
    let server = &lab.servers[index];
    let redfish = server["redfish"].as_str().context("a BMC's address")?;
    let (host, path) = redfish.split_once("/redfish/").context("a system's path")?;
    Ok(json!({
        "name": name(index), "driver": "redfish", "boot_interface": "ipxe",
        "driver_info": {
            "redfish_address": host, "redfish_system_id": format!("/redfish/{path}"),
            "redfish_username": server["user"], "redfish_password": server["password"],
            "redfish_verify_ca": lab.authority,
        },
        "instance_info": {
            "image_source": image.url, "image_disk_format": "raw",
            "image_os_hash_algo": "sha256", "image_os_hash_value": image.sha256,
        },
    }))
}

fn name(index: usize) -> String {
    format!("node-{index}")
}

struct Service {
    daemon: Daemon,
    address: SocketAddr,
}

impl Service {
    fn start(scratch: &Scratch, servers: usize) -> Result<Self> {
        let address: SocketAddr = format!("{HERE}:6385").parse()?;
        let config = rack::ironic(scratch, servers);
        let config = scratch.write("ironic.yaml", &config.to_string())?;
        let mut command = plinth();
        command
            .args(["--log", "info", "ironic", "--config"])
            .arg(config);
        let mut daemon = Daemon::start("ironic", &scratch.0, &mut command)?;
        daemon.wait_port(address)?;
        Ok(Self { daemon, address })
    }

    fn enrol(&self, lab: &Lab, image: &Image) -> Result<()> {
        let nodes: Vec<Value> = (0..lab.servers.len())
            .map(|index| node(lab, index, image))
            .collect::<Result<_>>()?;
        let all = Until::Requests(nodes.len());
        http::load(self.address, VERSION, CONNECTIONS, all, |number| {
            Request::new("POST", "/v1/nodes", &nodes[number])
        })?;
        http::load(self.address, VERSION, CONNECTIONS, all, |number| {
            let port = json!({"node_ident": name(number), "address": lab.mac(number)});
            Request::new("POST", "/v1/ports", &port)
        })?;
        Ok(())
    }

    /// Asks every node for what comes next as soon as it rests, until all have come to the end.
    fn lead(&mut self, servers: usize) -> Result<()> {
        let mut connection = Connection::new(self.address, VERSION);
        // What each node was asked for last.
        let mut asked: BTreeMap<String, &str> = BTreeMap::new();
        let begin = Instant::now();
        let mut said = begin;
        loop {
            let nodes = list(&mut connection, "name,provision_state,reservation")?;
            let mut states: BTreeMap<&str, usize> = BTreeMap::new();
            let mut wishes = Vec::new();
            for node in &nodes {
                let (name, state) = (text(node, "name"), text(node, "provision_state"));
                *states.entry(state).or_default() += 1;
                let Some((_, verb)) = LIFE.iter().find(|(rest, _)| *rest == state) else {
                    continue;
                };
                if !node["reservation"].is_null() || asked.get(name) == Some(verb) {
                    continue;
                }
                wishes.push((name, *verb));
            }
            for (name, verb) in self.ask_all(&wishes)? {
                asked.insert(name.to_owned(), verb);
            }
            let waited = begin.elapsed();
            if states.get(GOAL) == Some(&servers) {
                return Ok(());
            }
            let failed = states.keys().any(|state| state.ends_with("failed"));
            if failed || waited > GIVE_UP {
                bail!(
                    "after {} s: {states:?}; those behind:\n  {}",
                    waited.as_secs(),
                    self.behind()?.join("\n  ")
                );
            }
            if said.elapsed() > Duration::from_secs(5) {
                say(&format!("{:3} s: {states:?}", waited.as_secs()));
                said = Instant::now();
            }
            thread::sleep(Duration::from_millis(250));
        }
    }

    /// Asks over several connections at once; gives those that were taken.
    fn ask_all<'a>(
        &self,
        wishes: &[(&'a str, &'static str)],
    ) -> Result<Vec<(&'a str, &'static str)>> {
        let some = |wishes: &[(&'a str, &'static str)]| -> Result<Vec<_>> {
            let mut connection = Connection::new(self.address, VERSION);
            let mut taken = Vec::new();
            for (name, verb) in wishes {
                if ask(&mut connection, name, verb)? {
                    taken.push((*name, *verb));
                }
            }
            Ok(taken)
        };
        let share = wishes.len().div_ceil(CONNECTIONS).max(1);
        thread::scope(|scope| {
            let askers: Vec<_> = wishes
                .chunks(share)
                .map(|wishes| scope.spawn(move || some(wishes)))
                .collect();
            let mut taken = Vec::new();
            for asker in askers {
                taken.extend(asker.join().expect("whoever asks does not panic")?);
            }
            Ok(taken)
        })
    }

    /// What some of the nodes that are not active have to say.
    fn behind(&self) -> Result<Vec<String>> {
        let mut connection = Connection::new(self.address, VERSION);
        let fields = "name,provision_state,reservation,last_error,driver_internal_info,deploy_step,clean_step";
        let nodes = list(&mut connection, fields)?;
        let told = |node: &Value| {
            format!(
                "{} {}, held by {}, step {}{}, error {}, waiting {}",
                text(node, "name"),
                text(node, "provision_state"),
                node["reservation"],
                node["deploy_step"]["step"],
                node["clean_step"]["step"],
                node["last_error"],
                node["driver_internal_info"]["waiting"],
            )
        };
        let behind = nodes.iter().filter(|node| node["provision_state"] != GOAL);
        Ok(behind.take(20).map(told).collect())
    }
}

fn list(connection: &mut Connection, fields: &str) -> Result<Vec<Value>> {
    let body = connection.ask(&Request::get(format!("/v1/nodes?fields={fields}")))?;
    let mut list: Value = serde_json::from_slice(&body).context("the list is JSON")?;
    match list["nodes"].take() {
        Value::Array(nodes) => Ok(nodes),
        _ => bail!("the list has no nodes"),
    }
}

/// False where the node is just being looked at.
fn ask(connection: &mut Connection, name: &str, verb: &str) -> Result<bool> {
    let mut body = json!({"target": verb});
    if verb == "active" {
        body["configdrive"] = json!({"meta_data": {"name": name}, "user_data": "{}"});
    }
    let path = format!("/v1/nodes/{name}/states/provision");
    let answer = connection.send(&Request::new("PUT", path, &body))?;
    match answer.status {
        202 => Ok(true),
        409 => Ok(false),
        other => bail!(
            "{name}: {verb}: {other}: {}",
            String::from_utf8_lossy(&answer.body)
        ),
    }
}

fn text<'a>(node: &'a Value, key: &str) -> &'a str {
    node[key].as_str().unwrap_or_default()
}
