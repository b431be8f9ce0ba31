//! What an observation of the world gave.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::cluster::HostPlan;
use crate::preflight::{Finding, Verdict};

/// Everything that can be seen at one time. What was not asked for because something before it is missing is silent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub site: Site,
    /// All files of the install are there.
    pub assets: bool,
    pub images: Images,
    pub vm: Vm,
    /// On the bootstrap VM, by host name.
    pub ironic: Reach<BTreeMap<String, IronicNode>>,
    pub mcs: Reach<()>,
    /// Through the VIP.
    pub api: Reach<Api>,
    /// What was done last and failed.
    pub trouble: Option<Trouble>,
}

/// What the checks before the first power-on say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Site {
    Unchecked,
    /// Nothing stands against an install, or nobody wanted to know.
    Sound,
    /// Each of these would stop it.
    Unsound(Vec<Problem>),
}

impl Site {
    pub fn of(findings: &[Finding]) -> Self {
        let failed = findings
            .iter()
            .filter(|found| found.verdict == Verdict::Fail);
        let problem = |found: &Finding| Problem {
            subject: found.subject.clone(),
            // The id is for those who know better, and leave the check out.
            what: format!("{} ({})", found.what, found.id),
            remedy: found.remedy.clone(),
        };
        let problems: Vec<Problem> = failed.map(problem).collect();
        if problems.is_empty() {
            Self::Sound
        } else {
            Self::Unsound(problems)
        }
    }
}

/// What is wrong with a host, an address, or a part of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub subject: String,
    pub what: String,
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject,
            what,
            remedy,
        } = self;
        write!(f, "{subject}: {what}; {remedy}")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub subject: String,
    pub what: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach<T> {
    Answers(T),
    /// Why not, in words.
    Silent(String),
}

impl<T> Reach<T> {
    pub fn silence(&self) -> Option<&str> {
        match self {
            Self::Answers(_) => None,
            Self::Silent(why) => Some(why),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Images {
    pub missing: Vec<String>,
    /// What came and is not what was promised.
    pub unfit: Vec<Problem>,
}

/// The bootstrap VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vm {
    Absent,
    Running,
    /// Its disk is there, it does not run.
    Stopped {
        why: String,
    },
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Far {
    pub percent: u8,
    /// Of an image that is being written.
    pub mb_per_s: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IronicNode {
    pub state: String,
    pub last_error: Option<String>,
    /// The reason, if it is in maintenance.
    pub maintenance: Option<String>,
    /// There is an inventory of it.
    pub inspected: bool,
    pub waiting: Option<String>,
    pub far: Option<Far>,
}

impl IronicNode {
    pub fn is_active(&self) -> bool {
        self.state == "active"
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// The cluster itself says that its bootstrap is over.
    pub complete: bool,
    /// Of the control plane, by node name.
    pub nodes: BTreeMap<String, Joined>,
    /// Names of certificate requests that masters of the plan have made and that nobody has approved yet.
    pub requests: Vec<String>,
    /// By file name; in the order they are to be applied.
    pub missing_manifests: Vec<String>,
    pub metal3: Metal3,
    pub workers: Vec<Worker>,
}

/// A control-plane node as it reports itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// Its own API server answers, or why not.
    pub api: Result<(), String>,
    /// It is a voting, healthy member, or why not.
    pub etcd: Result<(), String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metal3 {
    /// Nobody holds its lease.
    Absent(String),
    Active {
        on: String,
        /// The OS image and the ramdisk are in its store.
        images: Result<(), String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    pub name: String,
    pub joined: bool,
    /// What it is at, for people.
    pub doing: String,
    pub far: Option<Far>,
}

impl Seen {
    pub(super) fn complete(&self) -> bool {
        match &self.api {
            Reach::Answers(api) => api.complete,
            Reach::Silent(_) => false,
        }
    }
}

impl Api {
    pub(super) fn node(&self, host: &HostPlan) -> Option<&Joined> {
        self.nodes.get(host.node.as_deref()?)
    }

    pub(super) fn ready(&self, host: &HostPlan) -> bool {
        self.unready(host).is_none()
    }

    /// Why a master does not count yet.
    pub(super) fn unready(&self, host: &HostPlan) -> Option<String> {
        match self.node(host) {
            None => Some("it has not joined".into()),
            Some(Joined { etcd: Err(why), .. }) => Some(format!("etcd: {why}")),
            Some(Joined { api: Err(why), .. }) => Some(format!("its API: {why}")),
            Some(Joined {
                api: Ok(()),
                etcd: Ok(()),
            }) => None,
        }
    }
}
