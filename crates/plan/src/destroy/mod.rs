//! The end of a cluster with its hosts cleaned: the next step.
//!
//! ```text
//!   images ─▶ power-off ─▶ bootstrap-vm ─▶ bootstrap-services ─▶ clean ─────────▶ bootstrap-destroy
//!             every host    fresh, with     Ironic on it answers   enrol, manage,    the VM is gone
//!             seen off      Ironic alone                           provide, off
//! ```
//!
//! No disk is touched before every host of install-config.yaml was seen to be off: one that is on may be in use, or part
//! of a cluster that still runs. A host that the VM's Ironic is cleaning, or has cleaned, is past that.
//! Nothing is kept between two runs: killed anywhere and started again, it goes on from what it finds.

mod host;
mod run;
mod step;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::cluster::{HostPlan, Plan};
use crate::install::{Far, IronicNode, Reach, TRIES, Trouble, Wait};

pub use host::Verb;
pub use run::{Power, Run};
pub use step::Step;

/// What there is to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The images that the VM and the hosts boot are at hand.
    pub images: bool,
    pub vm: Vm,
    /// On the VM that cleans, by host name.
    pub ironic: Reach<BTreeMap<String, Node>>,
    /// What was done last and failed.
    pub trouble: Option<Trouble>,
}

/// The bootstrap VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vm {
    Absent,
    /// It belongs to an install, or was started to clean other hosts than install-config.yaml has now.
    Other,
    /// Started to clean these hosts.
    Cleaner,
    /// The same, and it does not run.
    Stopped {
        why: String,
    },
}

/// A host as Ironic sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    pub life: IronicNode,
    pub off: bool,
}

/// One thing to do. Doing it twice does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    FetchImages,
    /// These hosts, each until it is seen to be off.
    SwitchOff(Vec<String>),
    /// With an empty disk: nothing of an earlier one is known to it.
    StartVm,
    /// Any of them; with hosts cleaned it is the last thing.
    EndVm,
    Enrol(String),
    Ask {
        host: String,
        verb: Verb,
        /// It failed before, and this is another try.
        again: bool,
    },
}

/// One host, or one part, that stands in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub subject: String,
    pub what: String,
    pub remedy: String,
}

/// Why it cannot go on: all that failed, not only the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct Stuck {
    pub step: Step,
    pub failures: Vec<Failure>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.step)?;
        for (number, failure) in self.failures.iter().enumerate() {
            let Failure {
                subject,
                what,
                remedy,
            } = failure;
            let before = if number == 0 { ": " } else { "\n  " };
            write!(f, "{before}{subject}: {what}; {remedy}")?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    pub step: Step,
    pub actions: Vec<Action>,
    pub waits: Vec<Wait>,
    pub stuck: Option<Stuck>,
}

/// Which hosts are meant, as words of what makes them so: a VM that was started for others is of no use.
pub fn roster(plan: &Plan) -> String {
    let hosts = plan.hosts.iter();
    let lines = hosts.map(|host| {
        let HostPlan {
            name,
            bmc,
            boot_mac,
            boot_mode,
            ..
        } = host;
        let (driver, address) = (bmc.driver, &bmc.address);
        format!("{name} {driver} {address} {boot_mac} {boot_mode:?}\n")
    });
    lines.collect()
}

/// What to do, given what is seen and what this run remembers.
pub fn next(plan: &Plan, seen: &Seen, run: &Run, now: Timestamp) -> Next {
    let mut deciding = Deciding {
        plan,
        seen,
        run,
        now,
        failures: Vec::new(),
        next: Next {
            step: Step::Images,
            actions: Vec::new(),
            waits: Vec::new(),
            stuck: None,
        },
    };
    deciding.decide();
    deciding.finish()
}

struct Deciding<'a> {
    plan: &'a Plan,
    seen: &'a Seen,
    run: &'a Run,
    now: Timestamp,
    /// These are given up; the others may still go on.
    failures: Vec<Failure>,
    next: Next,
}

impl Deciding<'_> {
    fn decide(&mut self) {
        match &self.seen.vm {
            Vm::Cleaner => match &self.seen.ironic {
                Reach::Answers(nodes) => self.clean(nodes),
                Reach::Silent(why) => {
                    // One that was there comes back, or cleaning has had its time.
                    let cleaning = self.run.began(Step::Clean).is_some();
                    self.at(if cleaning {
                        Step::Clean
                    } else {
                        Step::BootstrapServices
                    });
                    self.wait("ironic", why, None);
                }
            },
            // What cannot be cleaned for want of an image need not be switched off.
            Vm::Absent | Vm::Other | Vm::Stopped { .. } if !self.seen.images => {
                self.at(Step::Images);
                self.act(Action::FetchImages);
            }
            Vm::Other => {
                self.at(Step::PowerOff);
                // Its Ironic would switch on again what is switched off.
                self.act(Action::EndVm);
            }
            Vm::Absent => self.start(None),
            Vm::Stopped { why } => self.start(Some(why)),
        }
    }

    fn start(&mut self, ended: Option<&str>) {
        self.at(Step::PowerOff);
        let all: Vec<&HostPlan> = self.plan.hosts.iter().collect();
        if !self.are_off(&all) {
            return;
        }
        self.at(Step::BootstrapVm);
        if self.run.starts < TRIES {
            return self.act(Action::StartVm);
        }
        let trouble = self.seen.trouble.as_ref().map(|trouble| &*trouble.what);
        let why = ended.or(trouble).unwrap_or("it was gone");
        let what = format!("it was started {TRIES} times; the last time: {why}");
        self.fail("bootstrap", what, Step::BootstrapVm.remedy());
    }

    fn clean(&mut self, nodes: &BTreeMap<String, Node>) {
        self.at(Step::Clean);
        let hosts = self.plan.hosts.iter();
        let untouched: Vec<&HostPlan> = hosts
            .filter(|host| !nodes.get(&host.name).is_some_and(host::is_begun))
            .collect();
        if !self.are_off(&untouched) {
            return;
        }
        for host in &self.plan.hosts {
            let name = &host.name;
            match host::next(name, nodes.get(name), self.run.tries(name)) {
                host::Next::Do(action) => self.act(action),
                host::Next::Wait { reason, far } => self.wait(name, &reason, far),
                host::Next::Done => {}
                host::Next::GivenUp { what, remedy } => self.fail(name, what, remedy),
            }
        }
        if self.next.actions.is_empty() && self.next.waits.is_empty() && self.failures.is_empty() {
            self.at(Step::BootstrapDestroy);
            self.act(Action::EndVm);
        }
    }

    /// Whether this run has seen each of them off since the VM is what it is; if not, what is to be done about it.
    fn are_off(&mut self, hosts: &[&HostPlan]) -> bool {
        let mut on = Vec::new();
        for host in hosts {
            match self.run.power(&host.name) {
                Power::Off => {}
                Power::Unknown => on.push(host.name.clone()),
                Power::Failed { why, tries } if tries < TRIES => {
                    self.wait(&host.name, &format!("it to be off: {why}"), None);
                    on.push(host.name.clone());
                }
                Power::Failed { why, .. } => {
                    let what = format!(
                        "it could not be switched off in {TRIES} tries, and may be in use: {why}"
                    );
                    self.fail(&host.name, what, self.next.step.power_remedy());
                }
            }
        }
        if on.is_empty() {
            return self.failures.is_empty();
        }
        self.act(Action::SwitchOff(on));
        false
    }

    fn at(&mut self, step: Step) {
        self.next.step = step;
    }

    fn act(&mut self, action: Action) {
        self.next.actions.push(action);
    }

    fn wait(&mut self, subject: &str, reason: &str, far: Option<Far>) {
        let until = self.until();
        self.next.waits.push(Wait {
            subject: subject.to_owned(),
            reason: reason.to_owned(),
            far,
            until,
        });
    }

    fn fail(&mut self, subject: &str, what: String, remedy: &str) {
        self.failures.push(Failure {
            subject: subject.to_owned(),
            what,
            remedy: remedy.to_owned(),
        });
    }

    fn until(&self) -> Timestamp {
        let step = self.next.step;
        let began = self.run.began(step).unwrap_or(self.now);
        let limit = step.limit(self.plan);
        began.checked_add(limit).unwrap_or(Timestamp::MAX)
    }

    fn finish(mut self) -> Next {
        self.out_of_time();
        let rests = self.next.actions.is_empty() && self.next.waits.is_empty();
        if rests && !self.failures.is_empty() {
            self.next.stuck = Some(Stuck {
                step: self.next.step,
                failures: std::mem::take(&mut self.failures),
            });
        }
        // The others are led to their end first, and meanwhile it is seen who has failed.
        for failure in std::mem::take(&mut self.failures) {
            let reason = format!("the others to end; it is given up: {}", failure.what);
            self.wait(&failure.subject, &reason, None);
        }
        if let Some(trouble) = &self.seen.trouble
            && self.next.stuck.is_none()
        {
            let reason = format!("to try again: {}", trouble.what);
            self.wait(&trouble.subject, &reason, None);
        }
        self.next
    }

    /// A step that has had its time is over: whoever was waited for has failed.
    fn out_of_time(&mut self) {
        if self.now < self.until() {
            return;
        }
        let step = self.next.step;
        let minutes = step.limit(self.plan).as_secs() / 60;
        let waits = std::mem::take(&mut self.next.waits);
        let mut late: Vec<(String, String)> = match &self.seen.trouble {
            // What failed last says more than what is waited for.
            Some(trouble) => vec![(trouble.subject.clone(), trouble.what.clone())],
            None => Vec::new(),
        };
        for wait in waits {
            if late.iter().all(|(subject, _)| *subject != wait.subject) {
                late.push((wait.subject, format!("still waiting: {}", wait.reason)));
            }
        }
        if late.is_empty() && self.failures.is_empty() {
            let what = "its work did not come to an end".to_owned();
            late.push((step.name().to_owned(), what));
        }
        for (subject, what) in late {
            self.fail(
                &subject,
                format!("{what}, after {minutes} min"),
                step.remedy(),
            );
        }
        self.next.actions.clear();
    }
}

#[cfg(test)]
mod tests;
