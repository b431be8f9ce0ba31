//! A rack of masters, the bootstrap VM with its Ironic, and the cluster that forms: as much of them as an installer sees.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use plan::cluster::{HostPlan, Plan};
use plan::install::{
    Action, Api, Images, IronicNode, Joined, LEAVES_WITHIN, Metal3, Reach, Seen, Site, Trouble,
    Verb, Vm, Worker,
};
use plan::install_config::{Facts, Role, parse};

const PXE: &str = include_str!("../../../../examples/pxe.yaml");
const MANIFESTS: [&str; 3] = ["00-crds.yaml", "10-hosts.yaml", "20-machines.yaml"];
/// Why Ironic's work fails that was interrupted.
pub const INTERRUPTED: &str = "the service was started anew";
/// One look of an installer, and what it does about it.
pub const TICK: SignedDuration = SignedDuration::from_secs(5);

/// What goes wrong, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    InstallerKilled,
    VmKilled,
    /// `plinth destroy bootstrap`, which somebody ran too early.
    VmTaken,
    /// The machine of installer and VM starts anew.
    HostRebooted,
    PowerLost(usize),
    Broken(usize, Trait),
}

/// What a server does not do until somebody mends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trait {
    LogsNobodyIn,
    NeverBoots,
    TakesNoData,
}

#[derive(Debug, Default)]
pub struct Server {
    pub broken: Option<Trait>,
    /// Since when it runs what is on its disk.
    up: Option<Timestamp>,
    powered: bool,
    written: bool,
    /// It has its certificate, and its Node.
    pub joined: bool,
}

#[derive(Debug, Clone)]
struct Node {
    life: IronicNode,
    /// When its work ends.
    until: Timestamp,
}

pub struct World {
    pub plan: Plan,
    pub now: Timestamp,
    assets: bool,
    pub images: bool,
    vm: Vm,
    vm_up: Timestamp,
    /// On the VM's disk.
    nodes: BTreeMap<String, Node>,
    pub servers: BTreeMap<String, Server>,
    requests: BTreeSet<String>,
    applied: BTreeSet<String>,
    applied_all: Option<Timestamp>,
    complete: Option<Timestamp>,
    /// Hosts whose Nodes an installer has seen.
    seen_joined: BTreeSet<String>,
}

fn masters(plan: &Plan) -> impl Iterator<Item = &HostPlan> {
    plan.with_role(Role::Master)
}

impl World {
    pub fn new() -> Self {
        let resolved = parse(PXE, &Facts::default()).unwrap();
        let plan = Plan::new(&resolved.config, None);
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let servers = masters(&plan).map(|host| (host.name.clone(), Server::default()));
        Self {
            servers: servers.collect(),
            plan,
            now,
            assets: false,
            images: false,
            vm: Vm::Absent,
            vm_up: now,
            nodes: BTreeMap::new(),
            requests: BTreeSet::new(),
            applied: BTreeSet::new(),
            applied_all: None,
            complete: None,
            seen_joined: BTreeSet::new(),
        }
    }

    fn since(&self, then: Timestamp, seconds: i64) -> bool {
        self.now.duration_since(then) >= SignedDuration::from_secs(seconds)
    }

    fn serves(&self) -> bool {
        self.vm == Vm::Running && self.since(self.vm_up, 60)
    }

    fn is_up(&self, server: &Server) -> bool {
        server.up.is_some_and(|up| self.since(up, 60))
    }

    /// Two members are a quorum; the API is the bootstrap's, or one of theirs.
    fn answers(&self) -> bool {
        self.servers.values().filter(|it| self.is_up(it)).count() >= 2
    }

    pub fn look(&mut self, site: Site, trouble: Option<Trouble>) -> Seen {
        let silent = || "no answer".to_owned();
        let ironic = if self.serves() {
            let nodes = self.nodes.iter();
            Reach::Answers(
                nodes
                    .map(|(name, node)| (name.clone(), node.life.clone()))
                    .collect(),
            )
        } else {
            Reach::Silent(silent())
        };
        let api = if self.answers() {
            Reach::Answers(self.api())
        } else {
            Reach::Silent(silent())
        };
        if api.silence().is_none() {
            let joined = self.servers.iter().filter(|(_, server)| server.joined);
            self.seen_joined
                .extend(joined.map(|(name, _)| name.clone()));
        }
        Seen {
            site,
            assets: self.assets,
            images: Images {
                missing: if self.images {
                    Vec::new()
                } else {
                    vec!["OS image".into()]
                },
                unfit: Vec::new(),
            },
            vm: self.vm.clone(),
            mcs: match ironic.silence() {
                None => Reach::Answers(()),
                Some(why) => Reach::Silent(why.to_owned()),
            },
            ironic,
            api,
            trouble,
        }
    }

    fn api(&self) -> Api {
        let joined = masters(&self.plan).filter_map(|host| {
            let server = &self.servers[&host.name];
            let state = if self.is_up(server) {
                Ok(())
            } else {
                Err("its status is Unknown".to_owned())
            };
            let joined = Joined {
                api: state.clone(),
                etcd: state,
            };
            server.joined.then(|| (host.node.clone().unwrap(), joined))
        });
        let missing = MANIFESTS
            .iter()
            .filter(|name| !self.applied.contains(**name));
        let workers = self.plan.cluster.workers as usize;
        let worker = |n: usize| Worker {
            name: format!("worker-{n}"),
            joined: self.complete.is_some_and(|then| self.since(then, 120)),
            doing: "provisioning".into(),
            far: None,
        };
        Api {
            complete: self.complete.is_some(),
            nodes: joined.collect(),
            requests: self.requests.iter().cloned().collect(),
            missing_manifests: missing.map(|name| (*name).to_owned()).collect(),
            metal3: self.metal3(),
            workers: (0..workers).map(worker).collect(),
        }
    }

    fn metal3(&self) -> Metal3 {
        let mut up = masters(&self.plan).filter(|host| self.is_up(&self.servers[&host.name]));
        match (self.applied_all, up.next()) {
            (Some(then), Some(host)) if self.since(then, 30) => Metal3::Active {
                on: host.node.clone().unwrap(),
                images: if self.since(then, 60) {
                    Ok(())
                } else {
                    Err("on their way".into())
                },
            },
            (Some(_) | None, _) => Metal3::Absent("a master to take its lease".into()),
        }
    }

    /// What must hold whenever something is done.
    fn checks(&self, action: &Action) {
        match action {
            Action::Enrol(host) | Action::Ask { host, .. } => {
                assert!(
                    !self.seen_joined.contains(host),
                    "{action:?}: it has joined"
                );
                assert!(self.complete.is_none(), "{action:?}: it is over");
            }
            Action::StartVm => assert!(self.vm != Vm::Running && self.complete.is_none()),
            Action::MarkComplete | Action::DestroyVm => {
                let all = self.servers.values().all(|server| server.joined);
                assert!(
                    all && self.applied_all.is_some(),
                    "{action:?}: it is needed"
                );
            }
            Action::CheckSite => {
                let off = self.servers.values().all(|server| !server.powered);
                assert!(off && self.vm == Vm::Absent, "the install has begun");
            }
            Action::WriteAssets | Action::FetchImages | Action::Approve(_) | Action::Apply(_) => {}
        }
    }

    /// Whether it could be done.
    pub fn act(&mut self, action: &Action) -> Result<(), Trouble> {
        self.checks(action);
        let trouble = |subject: &str| Trouble {
            subject: subject.to_owned(),
            what: "no answer".into(),
        };
        match action {
            Action::CheckSite => {}
            Action::WriteAssets => self.assets = true,
            Action::FetchImages => self.images = true,
            Action::StartVm => {
                assert!(self.assets && self.images);
                self.vm = Vm::Running;
                self.vm_up = self.now;
            }
            Action::DestroyVm => self.take_vm(),
            Action::Enrol(host) | Action::Ask { host, .. } if !self.serves() => {
                return Err(trouble(host));
            }
            Action::Enrol(host) => {
                self.nodes.entry(host.clone()).or_insert_with(|| Node {
                    life: IronicNode {
                        state: "enroll".into(),
                        ..IronicNode::default()
                    },
                    until: Timestamp::MAX,
                });
            }
            Action::Ask { host, verb, .. } => self.ask(host, *verb),
            Action::Approve(_) | Action::Apply(_) | Action::MarkComplete if !self.answers() => {
                return Err(trouble("api"));
            }
            Action::Approve(names) => {
                for name in names {
                    self.requests.remove(name);
                    self.servers.get_mut(name).unwrap().joined = true;
                }
            }
            Action::Apply(files) => {
                self.applied.extend(files.iter().cloned());
                self.applied_all = Some(self.now);
            }
            Action::MarkComplete => self.complete = Some(self.now),
        }
        Ok(())
    }

    fn ask(&mut self, host: &str, verb: Verb) {
        let (state, seconds) = match verb {
            Verb::Manage => ("verifying", 10),
            Verb::Inspect => ("inspect wait", 60),
            Verb::Provide => ("clean wait", 60),
            Verb::Deploy => ("wait call-back", 90),
        };
        let until = self.now + SignedDuration::from_secs(seconds);
        let node = self.nodes.get_mut(host).unwrap();
        node.life = IronicNode {
            state: state.into(),
            inspected: node.life.inspected,
            ..IronicNode::default()
        };
        node.until = until;
        if verb != Verb::Manage {
            // It boots the ramdisk.
            let server = self.servers.get_mut(host).unwrap();
            server.powered = true;
            server.up = None;
        }
        if matches!(verb, Verb::Provide | Verb::Deploy) {
            self.wipe(host);
        }
    }

    fn wipe(&mut self, host: &str) {
        let server = self.servers.get_mut(host).unwrap();
        server.written = false;
        server.joined = false;
        self.requests.remove(host);
    }

    fn take_vm(&mut self) {
        self.vm = Vm::Absent;
        self.nodes.clear();
    }

    pub fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::VmKilled | Fault::HostRebooted if self.vm == Vm::Running => {
                self.vm = Vm::Stopped {
                    why: "killed".into(),
                };
                self.interrupt();
            }
            Fault::VmKilled | Fault::HostRebooted | Fault::InstallerKilled => {}
            Fault::VmTaken => self.take_vm(),
            Fault::PowerLost(n) => {
                let server = self.server(n);
                server.powered = false;
                server.up = None;
            }
            Fault::Broken(n, what) => self.server(n).broken = Some(what),
        }
    }

    fn server(&mut self, n: usize) -> &mut Server {
        self.servers.values_mut().nth(n).unwrap()
    }

    /// Whatever Ironic was at has failed when it is back.
    fn interrupt(&mut self) {
        for node in self.nodes.values_mut() {
            if let Some(failed) = failed(&node.life.state) {
                node.life.state = failed.into();
                node.life.last_error = Some(INTERRUPTED.into());
                node.until = Timestamp::MAX;
            }
        }
    }

    /// What an operator does who was told what is wrong: all that is broken is mended, and what is off is on.
    pub fn mend(&mut self) {
        let now = self.now;
        for server in self.servers.values_mut() {
            server.broken = None;
            if server.written && !server.powered {
                server.powered = true;
                server.up = Some(now);
            }
        }
    }

    pub fn time_passes(&mut self) {
        self.now += TICK;
        let (now, serves) = (self.now, self.serves());
        for (name, node) in &mut self.nodes {
            if serves && node.until <= now {
                let server = self.servers.get_mut(name).unwrap();
                node.until = Timestamp::MAX;
                end(node, server, now);
            }
        }
        let ups = self
            .servers
            .iter()
            .filter(|(_, it)| !it.joined && self.is_up(it));
        let asking: Vec<String> = ups.map(|(name, _)| name.clone()).collect();
        if self.answers() {
            self.requests.extend(asking);
        }
        if let Some(then) = self.complete
            && self.since(then, 20)
            && self.vm == Vm::Running
        {
            assert!(LEAVES_WITHIN.as_secs() > 20);
            self.vm = Vm::Stopped {
                why: "it switched itself off".into(),
            };
        }
    }
}

fn failed(state: &str) -> Option<&'static str> {
    match state {
        "verifying" => Some("enroll"),
        "inspect wait" => Some("inspect failed"),
        "clean wait" => Some("clean failed"),
        "wait call-back" => Some("deploy failed"),
        _ => None,
    }
}

/// Its work ends, well or not.
fn end(node: &mut Node, server: &mut Server, now: Timestamp) {
    let state = node.life.state.clone();
    let fails = match (&*state, server.broken) {
        (_, Some(Trait::LogsNobodyIn)) => Some("the login was refused"),
        ("verifying", _) | (_, None) => None,
        (_, Some(Trait::NeverBoots)) => Some("its agent was not heard"),
        ("wait call-back", Some(Trait::TakesNoData)) => Some("input/output error"),
        (_, Some(Trait::TakesNoData)) => None,
    };
    if let Some(why) = fails {
        node.life.state = failed(&state).unwrap_or("error").into();
        node.life.last_error = Some(why.into());
        if state == "clean wait" {
            node.life.maintenance = Some(why.into());
        }
        return;
    }
    let next = match &*state {
        "verifying" => "manageable",
        "inspect wait" => {
            node.life.inspected = true;
            "manageable"
        }
        "clean wait" => "available",
        "wait call-back" => {
            server.written = true;
            server.powered = true;
            server.up = Some(now);
            "active"
        }
        other => panic!("{other} does not end"),
    };
    node.life.state = next.into();
}
