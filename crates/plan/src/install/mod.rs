//! The installer's next step.
//!
//! ```text
//! observe ──▶ Seen ──▶ next(plan, seen, kept, now) ──▶ Next { phase, actions, waits, problem }
//!    ▲                                                      │
//!    └──────────────── do the actions ◀──────────────────────┘
//! ```
//!
//! All that decides is what can be seen of the world; what is kept between runs is how often something was tried and
//! when a phase began. Killed anywhere and started again, the loop goes on from what it finds.

mod host;
mod phase;
mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::{HostPlan, Plan};
use crate::install_config::Role;

pub use host::Verb;
pub use phase::Phase;
pub use seen::{
    Api, Far, Images, IronicNode, Joined, Metal3, Problem, Reach, Seen, Site, Trouble, Vm, Worker,
};

/// What is kept between two runs, beside what can be seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    /// When each phase was first entered.
    pub began: BTreeMap<Phase, Timestamp>,
    /// When the last phase that was wanted ended.
    #[serde(default)]
    pub ended: BTreeMap<Phase, Timestamp>,
    /// How often a host was asked for something and it failed.
    pub tries: BTreeMap<String, u32>,
    /// Hosts whose nodes were seen in the cluster: what is on their disks is the cluster's, whoever answers later.
    pub joined: BTreeSet<String>,
    /// The cluster was told, and said, that it needs its bootstrap no more.
    pub complete: bool,
}

impl Kept {
    /// Keeps of what is seen what must not be forgotten; whether there was anything new.
    pub fn heed(&mut self, plan: &Plan, seen: &Seen) -> bool {
        let Reach::Answers(api) = &seen.api else {
            return false;
        };
        let known = self.joined.len();
        let joined = masters(plan).filter(|host| api.node(host).is_some());
        self.joined.extend(joined.map(|host| host.name.clone()));
        self.joined.len() > known
    }

    /// How long each phase took, however often the installer was begun anew meanwhile.
    pub fn took(&self, now: Timestamp) -> Vec<(Phase, Duration)> {
        let mut begun = self.began.iter().peekable();
        let mut took = Vec::new();
        while let Some((phase, began)) = begun.next() {
            let next = begun.peek().map(|(_, began)| **began);
            let ended = self.ended.get(phase).copied().or(next).unwrap_or(now);
            let lasted = Duration::try_from(ended.duration_since(*began));
            took.push((*phase, lasted.unwrap_or_default()));
        }
        took
    }

    /// The installer was run again: somebody has mended what failed, or thinks so.
    pub fn begin_anew(&mut self) {
        self.tries.clear();
    }

    /// As a run of the installer counts that began at `start`: its phases have all their time.
    #[must_use]
    pub fn since(&self, start: Timestamp) -> Self {
        let mut kept = self.clone();
        for began in kept.began.values_mut() {
            *began = (*began).max(start);
        }
        kept
    }

    /// Nothing more is wanted: the last phase is over.
    pub fn end(&mut self, now: Timestamp) {
        if let Some((last, _)) = self.began.last_key_value() {
            self.ended.entry(*last).or_insert(now);
        }
    }
}

/// One thing to do. Doing it twice does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Look for what would stop the install.
    CheckSite,
    WriteAssets,
    FetchImages,
    StartVm,
    /// Register the host with Ironic, or mend what is registered wrongly.
    Enrol(String),
    Ask {
        host: String,
        verb: Verb,
        /// It failed before, and this is another try.
        again: bool,
    },
    /// Certificate requests of masters, by name: before there are Machines nobody else knows who they are.
    Approve(Vec<String>),
    /// By file name.
    Apply(Vec<String>),
    /// Tell the cluster, and keep it: the bootstrap is not needed any more. The bootstrap hears it, gives the API's
    /// address to a master and switches itself off.
    MarkComplete,
    DestroyVm,
}

/// What an install waits for, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// A host, or a part of the cluster.
    pub subject: String,
    pub reason: String,
    /// Of the step that is going on, if it is known.
    pub far: Option<Far>,
    pub until: Timestamp,
}

/// Why an install cannot go on: all that is known of at this moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{phase}: {}", problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n        "))]
pub struct Stuck {
    pub phase: Phase,
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// `None`: the install is done.
    pub phase: Option<Phase>,
    pub actions: Vec<Action>,
    pub waits: Vec<Wait>,
    /// Nothing more is done; what was begun is left as it is for people to look at.
    pub stuck: Option<Stuck>,
}

/// How long a bootstrap may take to leave by itself.
pub const LEAVES_WITHIN: Duration = Duration::from_mins(1);

/// A host is asked for the same thing this often.
pub const TRIES: u32 = 3;

/// What to do, given what is seen.
pub fn next(plan: &Plan, seen: &Seen, kept: &Kept, now: Timestamp) -> Next {
    let Some(phase) = phase(plan, seen, kept) else {
        return Next {
            phase: None,
            actions: Vec::new(),
            waits: Vec::new(),
            stuck: None,
        };
    };
    let mut step = Deciding {
        plan,
        seen,
        kept,
        until: phase.deadline(plan, kept.began.get(&phase).copied().unwrap_or(now)),
        next: Next {
            phase: Some(phase),
            actions: Vec::new(),
            waits: Vec::new(),
            stuck: None,
        },
    };
    step.decide(phase, now);
    if let Some(trouble) = &seen.trouble {
        step.wait(
            &trouble.subject,
            &format!("to try again: {}", trouble.what),
            None,
        );
    }
    step.out_of_time(phase, now);
    step.next
}

/// The first phase whose end cannot be seen.
fn phase(plan: &Plan, seen: &Seen, kept: &Kept) -> Option<Phase> {
    // Once the bootstrap has begun, what answers at the cluster's addresses may be the cluster.
    let begun = kept.began.keys().any(|phase| *phase >= Phase::BootstrapVm);
    if !(begun || kept.complete || seen.site == Site::Sound) {
        return Some(Phase::Preflight);
    }
    if !seen.assets {
        return Some(Phase::Assets);
    }
    if !(kept.complete || seen.complete()) {
        return Some(before_hand_over(plan, seen, kept));
    }
    if seen.vm != Vm::Absent {
        return Some(Phase::BootstrapDestroy);
    }
    (!workers_joined(plan, seen)).then_some(Phase::Workers)
}

fn before_hand_over(plan: &Plan, seen: &Seen, kept: &Kept) -> Phase {
    if !seen.images.missing.is_empty() {
        return Phase::Images;
    }
    match &seen.vm {
        Vm::Absent | Vm::Stopped { .. } => return Phase::BootstrapVm,
        Vm::Running => {}
    }
    let deployed = masters(plan).all(|host| deployed(host, seen, kept));
    // Once every master is written the API decides; Ironic on the bootstrap has done its part.
    if !deployed && (seen.ironic.silence().is_some() || seen.mcs.silence().is_some()) {
        return Phase::BootstrapServices;
    }
    if !deployed {
        return Phase::ControlPlaneDeploy;
    }
    match &seen.api {
        Reach::Answers(api) if control_plane_is_ready(plan, api) => {
            if api.missing_manifests.is_empty() {
                Phase::HandOver
            } else {
                Phase::Manifests
            }
        }
        Reach::Answers(_) | Reach::Silent(_) => Phase::ControlPlaneReady,
    }
}

/// Every master has joined, with its etcd and its API.
pub fn control_plane_is_ready(plan: &Plan, api: &Api) -> bool {
    masters(plan).all(|host| api.ready(host))
}

fn masters(plan: &Plan) -> impl Iterator<Item = &HostPlan> {
    plan.with_role(Role::Master)
        .chain(plan.with_role(Role::Arbiter))
}

/// Every master is written, and Ironic on the bootstrap has done its part.
pub fn ironic_is_done(plan: &Plan, nodes: &BTreeMap<String, IronicNode>) -> bool {
    masters(plan).all(|host| nodes.get(&host.name).is_some_and(IronicNode::is_active))
}

/// Some master has not joined yet. When all have, the bootstrap's Ironic and mcs have done their part, also in a VM that was made
/// anew and does not know.
pub fn masters_are_missing(plan: &Plan, kept: &Kept) -> bool {
    !masters(plan).all(|host| kept.joined.contains(&host.name))
}

/// Between two looks at the world, of which the first took so long: an API that is slow to answer has enough to do. Who does
/// not answer at all may be there in a moment.
pub fn pause(seen: &Seen, took: Duration) -> Duration {
    const LEAST: Duration = Duration::from_secs(1);
    match &seen.api {
        Reach::Answers(_) => (took * 2).clamp(LEAST, Duration::from_secs(5)),
        Reach::Silent(_) => LEAST,
    }
}

fn deployed(host: &HostPlan, seen: &Seen, kept: &Kept) -> bool {
    let active = match &seen.ironic {
        Reach::Answers(nodes) => nodes.get(&host.name).is_some_and(IronicNode::is_active),
        Reach::Silent(_) => false,
    };
    active || joined(host, seen, kept)
}

/// A master that has joined was deployed, whatever a bootstrap that was made anew knows of it.
fn joined(host: &HostPlan, seen: &Seen, kept: &Kept) -> bool {
    let now = match &seen.api {
        Reach::Answers(api) => api.node(host).is_some(),
        Reach::Silent(_) => false,
    };
    now || kept.joined.contains(&host.name)
}

fn workers_joined(plan: &Plan, seen: &Seen) -> bool {
    match &seen.api {
        Reach::Answers(api) => {
            api.workers.iter().filter(|worker| worker.joined).count()
                >= plan.cluster.workers as usize
        }
        Reach::Silent(_) => false,
    }
}

/// In which order objects are applied: what defines others, what others live in, and then the rest, all of which may go
/// at once. Each keeps the name of its file.
pub fn waves<T>(
    files: BTreeMap<String, Vec<T>>,
    kind: impl Fn(&T) -> String,
) -> Vec<Vec<(String, T)>> {
    let mut waves = [const { Vec::new() }; 2];
    for (file, objects) in files {
        for object in objects {
            let first = matches!(&*kind(&object), "CustomResourceDefinition" | "Namespace");
            waves[usize::from(!first)].push((file.clone(), object));
        }
    }
    waves.into_iter().filter(|wave| !wave.is_empty()).collect()
}

struct Deciding<'a> {
    plan: &'a Plan,
    seen: &'a Seen,
    kept: &'a Kept,
    until: Timestamp,
    next: Next,
}

impl Deciding<'_> {
    fn decide(&mut self, phase: Phase, now: Timestamp) {
        match phase {
            Phase::Preflight => self.preflight(),
            Phase::Assets => self.act(Action::WriteAssets),
            Phase::Images if !self.seen.images.unfit.is_empty() => {
                for problem in &self.seen.images.unfit {
                    self.stuck(Phase::Images, problem.clone());
                }
            }
            Phase::Images => {
                self.act(Action::FetchImages);
                for missing in &self.seen.images.missing {
                    self.wait(missing, "to be fetched or built", None);
                }
            }
            Phase::BootstrapVm => self.act(Action::StartVm),
            Phase::BootstrapServices => {
                let Seen { ironic, mcs, .. } = self.seen;
                for (name, silence) in [("ironic", ironic.silence()), ("mcs", mcs.silence())] {
                    if let Some(why) = silence {
                        self.wait(name, why, None);
                    }
                }
            }
            Phase::ControlPlaneDeploy => self.deploy(),
            Phase::ControlPlaneReady => self.ready(),
            Phase::Manifests => {
                if let Reach::Answers(api) = &self.seen.api {
                    self.act(Action::Apply(api.missing_manifests.clone()));
                }
            }
            Phase::HandOver => self.hand_over(),
            Phase::BootstrapDestroy => self.destroy(now),
            Phase::Workers => self.workers(),
        }
    }

    fn preflight(&mut self) {
        match &self.seen.site {
            Site::Unchecked => self.act(Action::CheckSite),
            Site::Sound => {}
            Site::Unsound(problems) => {
                for problem in problems {
                    self.stuck(Phase::Preflight, problem.clone());
                }
            }
        }
    }

    fn deploy(&mut self) {
        let Reach::Answers(nodes) = &self.seen.ironic else {
            return;
        };
        // Those that have joined are never written again.
        let fresh = masters(self.plan).filter(|host| !joined(host, self.seen, self.kept));
        for host in fresh {
            let tries = self.kept.tries.get(&host.name).copied().unwrap_or(0);
            match host::next(&host.name, nodes.get(&host.name), tries) {
                host::Next::Do(action) => self.act(action),
                host::Next::Wait { reason, far } => self.wait(&host.name, &reason, far),
                host::Next::Done => {}
                host::Next::Stuck { what, remedy } => {
                    let subject = host.name.clone();
                    let problem = Problem {
                        subject,
                        what,
                        remedy,
                    };
                    self.stuck(Phase::ControlPlaneDeploy, problem);
                }
            }
        }
    }

    fn ready(&mut self) {
        match &self.seen.api {
            Reach::Silent(why) => self.wait("api", why, None),
            Reach::Answers(api) => {
                if !api.requests.is_empty() {
                    self.act(Action::Approve(api.requests.clone()));
                }
                for host in masters(self.plan) {
                    if let Some(reason) = api.unready(host) {
                        self.wait(host.node.as_deref().unwrap_or(&host.name), &reason, None);
                    }
                }
            }
        }
    }

    /// The order matters: nothing is given up before the cluster can do without it.
    fn hand_over(&mut self) {
        let Reach::Answers(api) = &self.seen.api else {
            return;
        };
        match &api.metal3 {
            Metal3::Absent(why) => self.wait("metal3", why, None),
            Metal3::Active {
                on,
                images: Err(why),
            } => {
                self.wait("metal3", &format!("its images on {on}: {why}"), None);
            }
            Metal3::Active { on, images: Ok(()) }
                if masters(self.plan).any(|host| host.node.as_ref() == Some(on)) =>
            {
                self.act(Action::MarkComplete);
            }
            Metal3::Active { on, images: Ok(()) } => {
                self.wait(
                    "metal3",
                    &format!("to be active on a master; it is on {on}"),
                    None,
                );
            }
        }
    }

    /// A bootstrap that leaves by itself has handed its address over; one that does not is not waited for long.
    fn destroy(&mut self, now: Timestamp) {
        let began = self.kept.began.get(&Phase::BootstrapDestroy);
        let patience = began.and_then(|began| began.checked_add(LEAVES_WITHIN).ok());
        let leaving = patience.is_none_or(|until| now < until);
        match &self.seen.vm {
            Vm::Running if leaving => {
                self.wait(
                    "bootstrap",
                    "it to hand the API's address over and switch itself off",
                    None,
                );
            }
            Vm::Running | Vm::Stopped { .. } | Vm::Absent => self.act(Action::DestroyVm),
        }
    }

    fn workers(&mut self) {
        match &self.seen.api {
            Reach::Silent(why) => self.wait("api", why, None),
            Reach::Answers(api) => {
                for worker in api.workers.iter().filter(|worker| !worker.joined) {
                    self.wait(&worker.name, &worker.doing, worker.far);
                }
                let missing =
                    (self.plan.cluster.workers as usize).saturating_sub(api.workers.len());
                if missing > 0 {
                    let reason = format!("{missing} more machines to be made by the machine set");
                    self.wait("workers", &reason, None);
                }
            }
        }
    }

    fn act(&mut self, action: Action) {
        self.next.actions.push(action);
    }

    fn wait(&mut self, subject: &str, reason: &str, far: Option<Far>) {
        self.next.waits.push(Wait {
            subject: subject.to_owned(),
            reason: reason.to_owned(),
            far,
            until: self.until,
        });
    }

    fn stuck(&mut self, phase: Phase, problem: Problem) {
        let stuck = self.next.stuck.get_or_insert(Stuck {
            phase,
            problems: Vec::new(),
        });
        stuck.problems.push(problem);
    }

    /// A phase that has had its time is over, with the reason it was waiting for.
    fn out_of_time(&mut self, phase: Phase, now: Timestamp) {
        if now < self.until || self.next.stuck.is_some() {
            return;
        }
        let waits = self.next.waits.iter();
        let waits = waits.map(|wait| {
            let reason = format!("still waiting: {}", wait.reason);
            (wait.subject.clone(), reason)
        });
        let mut reasons: Vec<(String, String)> = match &self.seen.trouble {
            Some(trouble) => vec![(trouble.subject.clone(), trouble.what.clone())],
            None => waits.collect(),
        };
        if reasons.is_empty() {
            let reason = "its work did not come to an end".to_owned();
            reasons.push((phase.name().to_owned(), reason));
        }
        let minutes = phase.limit(self.plan).as_secs() / 60;
        for (subject, reason) in reasons {
            let problem = Problem {
                subject,
                what: format!("{reason}, after {minutes} min"),
                remedy: phase.remedy().to_owned(),
            };
            self.stuck(phase, problem);
        }
        self.next.actions.clear();
    }
}

#[cfg(test)]
mod tests;
