//! The cluster as its API shows it: pure, from what was heard to what is told.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// Everything that was asked for, as it was answered.
pub struct Heard {
    pub name: Option<String>,
    pub url: String,
    /// `/version`, or why there is none.
    pub version: Result<Value, String>,
    /// The ConfigMap that says whether the bootstrap is still needed.
    pub bootstrap: Result<Value, String>,
    pub lease: Result<Value, String>,
    pub nodes: Result<Vec<Value>, String>,
    pub machines: Result<Vec<Value>, String>,
    pub machine_sets: Result<Vec<Value>, String>,
    pub hosts: Result<Vec<Value>, String>,
    pub vips: Vec<VipHeard>,
}

pub struct VipHeard {
    pub purpose: String,
    pub address: String,
    /// Milliseconds to a connection, or why there is none.
    pub answer: Result<u128, String>,
    /// Whose address it is at the moment, on this network.
    pub mac: Option<String>,
    /// What else that card answers for.
    pub beside: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Cluster {
    pub name: Option<String>,
    pub api: Api,
    /// The cluster stands without its bootstrap. Nothing if nobody could say.
    pub bootstrap_complete: Option<bool>,
    pub vips: Vec<Vip>,
    pub metal3: Metal3,
    pub nodes: Vec<Node>,
    /// By phase.
    pub machines: BTreeMap<String, usize>,
    pub machine_sets: Vec<MachineSet>,
    /// By state.
    pub hosts: BTreeMap<String, usize>,
    /// What a person may want to look at.
    pub troubles: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Api {
    pub url: String,
    pub version: Option<String>,
    pub problem: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Vip {
    pub purpose: String,
    pub address: String,
    pub answers_in_ms: Option<u128>,
    /// A node, or a host, or at least its MAC.
    pub holder: Option<String>,
    pub problem: Option<String>,
}

#[derive(Debug, Default, Serialize)]
pub struct Metal3 {
    pub holder: Option<String>,
    pub renewed: Option<Timestamp>,
    pub images: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Node {
    pub name: String,
    pub roles: Vec<String>,
    pub addresses: Vec<String>,
    pub ready: Condition,
    /// Of the control plane only.
    pub api: Option<Condition>,
    pub etcd: Option<Condition>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Condition {
    pub status: String,
    pub why: String,
    pub since: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
pub struct MachineSet {
    pub name: String,
    pub wanted: u64,
    pub ready: u64,
}

impl Condition {
    pub fn holds(&self) -> bool {
        self.status == "True"
    }
}

impl Node {
    pub fn is_worker(&self) -> bool {
        self.roles.iter().any(|role| role == "worker")
    }
}

impl Cluster {
    pub fn new(heard: &Heard) -> Self {
        let mut troubles = Vec::new();
        let mut list = |what: &str, heard: &Result<Vec<Value>, String>| match heard {
            Ok(items) => items.clone(),
            Err(why) => {
                // Silent as a whole, it is said once.
                if !why.starts_with(SILENT) {
                    troubles.push(format!("{what}: {why}"));
                }
                Vec::new()
            }
        };
        let nodes = list("nodes", &heard.nodes);
        let machines = list("machines", &heard.machines);
        let machine_sets = list("machine sets", &heard.machine_sets);
        let hosts = list("hosts", &heard.hosts);
        let nodes: Vec<Node> = nodes.iter().map(node).collect();
        troubles.extend(nodes.iter().flat_map(node_troubles));
        troubles.extend(hosts.iter().filter_map(host_trouble));
        troubles.extend(machines.iter().filter_map(machine_trouble));
        Self {
            name: heard.name.clone(),
            api: api(heard),
            bootstrap_complete: heard.bootstrap.as_ref().ok().map(is_complete),
            vips: heard
                .vips
                .iter()
                .map(|vip| self::vip(vip, &nodes, &hosts))
                .collect(),
            metal3: heard.lease.as_ref().map(metal3).unwrap_or_default(),
            nodes,
            machines: count(&machines, |machine| text(&machine["status"]["phase"])),
            machine_sets: machine_sets.iter().map(machine_set).collect(),
            hosts: count(&hosts, |host| {
                text(&host["status"]["provisioning"]["state"])
            }),
            troubles,
        }
    }

    /// For people.
    pub fn render(&self, now: Timestamp) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: String| _ = writeln!(out, "{name:12} {value}");
        if let Some(name) = &self.name {
            line("Cluster", name.clone());
        }
        let answer = match (&self.api.version, &self.api.problem) {
            (Some(version), _) => version.clone(),
            (None, Some(problem)) => silence(problem),
            (None, None) => "answers".into(),
        };
        line("API", format!("{}  {answer}", self.api.url));
        line(
            "Bootstrap",
            match self.bootstrap_complete {
                Some(true) => "complete".into(),
                Some(false) => "still needed".into(),
                None => "not known".into(),
            },
        );
        for vip in &self.vips {
            let answer = match (&vip.answers_in_ms, &vip.problem) {
                (Some(ms), _) => format!("answers in {ms} ms"),
                (None, problem) => silence(problem.as_deref().unwrap_or("?")),
            };
            let holder = vip.holder.as_ref().map(|holder| format!(", on {holder}"));
            let holder = holder.unwrap_or_default();
            line(
                "VIP",
                format!("{} {}  {answer}{holder}", vip.purpose, vip.address),
            );
        }
        line(
            "metal3",
            match &self.metal3.holder {
                Some(holder) => {
                    let age = self
                        .metal3
                        .renewed
                        .map(|at| format!(", lease renewed {} ago", age(at, now)));
                    let images = self.metal3.images.as_deref().unwrap_or("not told");
                    format!("on {holder}{}, images: {images}", age.unwrap_or_default())
                }
                None => "on no node".into(),
            },
        );
        let counts = |counts: &BTreeMap<String, usize>| {
            let parts = counts.iter().map(|(name, count)| format!("{count} {name}"));
            let parts: Vec<String> = parts.collect();
            if parts.is_empty() {
                "none".into()
            } else {
                parts.join(", ")
            }
        };
        line("Machines", counts(&self.machines));
        for set in &self.machine_sets {
            line(
                "MachineSet",
                format!("{}  {} of {} ready", set.name, set.ready, set.wanted),
            );
        }
        line("Hosts", counts(&self.hosts));
        self.render_nodes(&mut out, now);
        if !self.troubles.is_empty() {
            out.push('\n');
        }
        for trouble in &self.troubles {
            _ = writeln!(out, "{:12} {trouble}", "TROUBLE");
        }
        out
    }

    fn render_nodes(&self, out: &mut String, now: Timestamp) {
        if self.nodes.is_empty() {
            return;
        }
        _ = writeln!(
            out,
            "\n{:20} {:20} {:8} {:8} {:8} {:8} ADDRESSES",
            "NODE", "ROLES", "READY", "API", "ETCD", "SINCE"
        );
        for node in &self.nodes {
            let told = |condition: &Option<Condition>| {
                condition
                    .as_ref()
                    .map_or("-", |condition| condition.status.as_str())
                    .to_owned()
            };
            let since = node
                .ready
                .since
                .map_or_else(|| "-".into(), |since| age(since, now));
            _ = writeln!(
                out,
                "{:20} {:20} {:8} {:8} {:8} {since:8} {}",
                node.name,
                node.roles.join(","),
                node.ready.status,
                told(&node.api),
                told(&node.etcd),
                node.addresses.join(",")
            );
        }
    }
}

/// What an answer begins with that never came.
pub const SILENT: &str = "no answer";

fn silence(problem: &str) -> String {
    if problem.starts_with(SILENT) {
        return problem.to_owned();
    }
    format!("{SILENT}: {problem}")
}

/// From the ConfigMap that says so.
pub fn is_complete(map: &Value) -> bool {
    map["data"]["status"] == "complete"
}

fn api(heard: &Heard) -> Api {
    Api {
        url: heard.url.clone(),
        version: heard
            .version
            .as_ref()
            .ok()
            .map(|version| text(&version["gitVersion"])),
        problem: heard.version.as_ref().err().cloned(),
    }
}

fn vip(heard: &VipHeard, nodes: &[Node], hosts: &[Value]) -> Vip {
    let at = |node: &&Node| node.addresses.iter().any(|own| heard.beside.contains(own));
    let owner = heard.mac.as_ref().map(|mac| {
        let node = nodes.iter().find(at).map(|node| node.name.clone());
        let host = || hosts.iter().find(|host| has_mac(host, mac));
        let host = || host().map(|host| text(&host["metadata"]["name"]));
        node.or_else(host).unwrap_or_else(|| mac.clone())
    });
    Vip {
        purpose: heard.purpose.clone(),
        address: heard.address.clone(),
        answers_in_ms: heard.answer.as_ref().ok().copied(),
        holder: owner.filter(|_| heard.answer.is_ok()),
        problem: heard.answer.as_ref().err().cloned(),
    }
}

fn has_mac(host: &Value, mac: &str) -> bool {
    let nics = host["status"]["hardware"]["nics"]
        .as_array()
        .into_iter()
        .flatten();
    let mut macs = nics
        .map(|nic| &nic["mac"])
        .chain(std::iter::once(&host["spec"]["bootMACAddress"]));
    macs.any(|known| {
        known
            .as_str()
            .is_some_and(|known| known.eq_ignore_ascii_case(mac))
    })
}

fn metal3(lease: &Value) -> Metal3 {
    let some = |value: &Value| Some(text(value)).filter(|text| !text.is_empty());
    Metal3 {
        holder: some(&lease["spec"]["holderIdentity"]),
        renewed: some(&lease["spec"]["renewTime"]).and_then(|text| text.parse().ok()),
        images: some(&lease["metadata"]["annotations"]["plinth.io/images"]),
    }
}

fn node(object: &Value) -> Node {
    let labels = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    let roles = labels.filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"));
    let addresses = object["status"]["addresses"]
        .as_array()
        .into_iter()
        .flatten();
    let addresses = addresses.filter(|address| address["type"] == "InternalIP");
    Node {
        name: text(&object["metadata"]["name"]),
        roles: roles.map(str::to_owned).collect(),
        addresses: addresses.map(|address| text(&address["address"])).collect(),
        ready: condition(object, "Ready").unwrap_or_else(|| Condition {
            status: "Unknown".into(),
            why: "it has not said".into(),
            since: None,
        }),
        api: condition(object, "APIServerReady"),
        etcd: condition(object, "EtcdMemberReady"),
    }
}

fn condition(object: &Value, kind: &str) -> Option<Condition> {
    let mut all = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let found = all.find(|one| one["type"] == kind)?;
    Some(Condition {
        status: text(&found["status"]),
        why: text(&found["message"]),
        since: text(&found["lastTransitionTime"]).parse().ok(),
    })
}

fn node_troubles(node: &Node) -> Vec<String> {
    let conditions = [
        ("not ready", Some(&node.ready)),
        ("its API", node.api.as_ref()),
        ("its etcd", node.etcd.as_ref()),
    ];
    let ill = |(what, condition): (&str, Option<&Condition>)| {
        let condition = condition.filter(|condition| !condition.holds())?;
        Some(format!("node {}: {what}: {}", node.name, condition.why))
    };
    conditions.into_iter().filter_map(ill).collect()
}

fn host_trouble(host: &Value) -> Option<String> {
    let status = &host["status"];
    let message = status["errorMessage"]
        .as_str()
        .filter(|text| !text.is_empty())?;
    let name = text(&host["metadata"]["name"]);
    Some(format!(
        "host {name}: {}: {message}",
        text(&status["errorType"])
    ))
}

fn machine_trouble(machine: &Value) -> Option<String> {
    let message = machine["status"]["errorMessage"]
        .as_str()
        .filter(|text| !text.is_empty())?;
    Some(format!(
        "machine {}: {message}",
        text(&machine["metadata"]["name"])
    ))
}

fn machine_set(object: &Value) -> MachineSet {
    MachineSet {
        name: text(&object["metadata"]["name"]),
        wanted: object["spec"]["replicas"].as_u64().unwrap_or(1),
        ready: object["status"]["readyReplicas"].as_u64().unwrap_or(0),
    }
}

fn count(items: &[Value], of: impl Fn(&Value) -> String) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for item in items {
        let name = Some(of(item)).filter(|name| !name.is_empty());
        *counts
            .entry(name.unwrap_or_else(|| "new".into()))
            .or_default() += 1;
    }
    counts
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// `90s`, `12m`, `5h`, `3d`: the largest unit that says at least two of something.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now
        .duration_since(since)
        .max(SignedDuration::ZERO)
        .as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests;
