//! A dead master gives way to a fresh one under the same name: the next step.
//!
//! ```text
//!   its etcd member   what is done meanwhile
//!   votes             the others are looked at, the old host is switched off, the member is removed
//!   is gone           its Node, BareMetalHost and Machine go; then it is added as a learner
//!   learns            a new BareMetalHost is written and boots; caught up, the member is promoted
//!   votes again       its Node becomes ready, and the keys that were lent to the API are taken back
//! ```
//!
//! The member is the pivot: whatever is there while it is gone is the old master's, and the new BareMetalHost carries
//! the id of the member it was made for. Killed anywhere and started again, a replacement goes on from what it finds.

mod seen;
mod step;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::cluster::{HostPlan, Plan};
use crate::install::{Far, Metal3, Reach, Wait};
use crate::install_config::Role;

pub use seen::{Api, Host, Machine, Member, Node, Power, Seen, mark};
pub use step::Step;

/// What the operator wants.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub plan: &'a Plan,
    pub host: &'a HostPlan,
    /// The host is meant even if it is well, or if its BMC is silent.
    pub force: bool,
}

/// One thing to do. Doing it twice does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    SwitchOff,
    RemoveMember(u64),
    DeleteNode,
    /// Without touching the BMC.
    DeleteHost,
    DeleteMachine,
    AddLearner,
    /// With its Secrets, for this member.
    CreateHost {
        member: u64,
    },
    CreateMachine,
    /// Certificate requests, by name.
    Approve(Vec<String>),
    Promote(u64),
    /// The last: takes the host's keys out of the API.
    Forget,
}

/// Why a replacement cannot go on, or was not begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{step}: {subject}: {what}; {remedy}")]
pub struct Stuck {
    pub step: Step,
    pub subject: String,
    pub what: String,
    pub remedy: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    pub step: Step,
    pub actions: Vec<Action>,
    pub waits: Vec<Wait>,
    pub stuck: Option<Stuck>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchMaster {
    #[error("there is no host {name} in install-config.yaml; the masters are {masters}")]
    Unknown { name: String, masters: String },
    #[error(
        "{name} is not a master: a worker is replaced by deleting its Machine; the masters are {masters}"
    )]
    NotAMaster { name: String, masters: String },
}

/// The master of this name; hosts and nodes may be named differently, and the host's name comes first.
pub fn find<'a>(plan: &'a Plan, name: &str) -> Result<&'a HostPlan, NoSuchMaster> {
    let by_host = plan.hosts.iter().find(|host| host.name == name);
    let by_node = || {
        let mut hosts = plan.hosts.iter();
        hosts.find(|host| host.node.as_deref() == Some(name))
    };
    let masters: Vec<&str> = plan
        .with_role(Role::Master)
        .map(|host| &*host.name)
        .collect();
    let (name, masters) = (name.to_owned(), masters.join(", "));
    match by_host.or_else(by_node) {
        None => Err(NoSuchMaster::Unknown { name, masters }),
        Some(host) if host.role == Some(Role::Master) => Ok(host),
        Some(_) => Err(NoSuchMaster::NotAMaster { name, masters }),
    }
}

/// What to do, given what is seen. `began`: when this run entered each step.
pub fn next(asked: &Asked, seen: &Seen, began: &BTreeMap<Step, Timestamp>, now: Timestamp) -> Next {
    // Until more is seen, a run is where it was.
    let step = began.keys().last().copied().unwrap_or(Step::Check);
    let mut deciding = Deciding {
        asked,
        seen,
        began,
        now,
        remedy: None,
        next: Next {
            step,
            actions: Vec::new(),
            waits: Vec::new(),
            stuck: None,
        },
    };
    deciding.decide();
    if let Some(trouble) = &seen.trouble {
        let reason = format!("to try again: {}", trouble.what);
        deciding.wait(&trouble.subject, &reason);
    }
    deciding.out_of_time();
    deciding.next
}

struct Deciding<'a> {
    asked: &'a Asked<'a>,
    seen: &'a Seen,
    began: &'a BTreeMap<Step, Timestamp>,
    now: Timestamp,
    /// Better than the step's own.
    remedy: Option<String>,
    next: Next,
}

impl Deciding<'_> {
    fn decide(&mut self) {
        let seen = self.seen;
        let api = match &seen.api {
            Reach::Answers(api) => api,
            Reach::Silent(why) => return self.wait("api", why),
        };
        let members = match &seen.etcd {
            Reach::Answers(members) => members,
            Reach::Silent(why) => return self.wait("etcd", why),
        };
        let member = members.iter().find(|member| member.node == self.node());
        let made_for = |member: &Member| {
            let host = api.host.as_ref();
            host.filter(|host| host.mark.as_deref() == Some(&*member.mark()))
        };
        match member {
            None => {
                if self.cleared(api) {
                    self.at(Step::Learn);
                    self.act(Action::AddLearner);
                }
            }
            Some(member) => match made_for(member) {
                Some(_) if member.voter && api.user_data => self.ready(api, members),
                Some(host) if !member.voter => self.join(api, host, member),
                Some(_) | None if member.voter => self.leave(api, members, member),
                Some(_) | None => {
                    if self.cleared(api) {
                        self.create(member);
                    }
                }
            },
        }
    }

    /// The member that votes is the old one: it goes, if the others can do without it.
    fn leave(&mut self, api: &Api, members: &[Member], member: &Member) {
        self.at(Step::Check);
        if let Reach::Silent(why) = &self.seen.assets {
            self.wait("assets", why);
        }
        self.others_hold(members);
        self.is_dead(api, Some(member));
        if self.next.stuck.is_some() || !self.next.waits.is_empty() {
            return;
        }
        self.at(Step::PowerOff);
        if self.is_off() {
            self.at(Step::Leave);
            self.act(Action::RemoveMember(member.id));
        }
    }

    /// The masters that stay are etcd's other members, and enough of them are well.
    fn others_hold(&mut self, members: &[Member]) {
        let own = self.node().to_owned();
        let masters = self.asked.plan.with_role(Role::Master);
        let others: Vec<&str> = masters
            .filter_map(|host| host.node.as_deref())
            .filter(|node| *node != own)
            .collect();
        if others.is_empty() {
            let what = "it is the only master: without it there is no cluster".to_owned();
            return self.stuck(&own, what, "restore the cluster from a backup");
        }
        let mut strangers = members.iter().filter(|member| member.node != own);
        if let Some(stranger) = strangers.find(|member| !others.contains(&&*member.node)) {
            let what = "it is a member of etcd, and no master of install-config.yaml".to_owned();
            return self.stuck(&stranger.node, what, "remove it from etcd first");
        }
        let mut ill = Vec::new();
        for node in &others {
            match members.iter().find(|member| member.node == *node) {
                None => {
                    let what = "it is a master, and no member of etcd".to_owned();
                    return self.stuck(node, what, "replace it first");
                }
                Some(member) if !member.voter => {
                    let what = "its member of etcd only learns".to_owned();
                    return self.stuck(node, what, "finish its own replacement first");
                }
                Some(member) => {
                    if let Err(why) = &member.well {
                        ill.push((*node, why));
                    }
                }
            }
        }
        let (well, needed) = (others.len() - ill.len(), others.len() / 2 + 1);
        if well < needed {
            for (node, why) in ill {
                let reason = format!(
                    "its member of etcd to be well: {well} of the {} others are, {needed} are needed: {why}",
                    others.len()
                );
                self.wait(node, &reason);
            }
            self.remedy = Some(format!(
                "mend the other masters first: without {own} they must be a quorum"
            ));
        }
    }

    /// A master that is well is not replaced by mistake.
    fn is_dead(&mut self, api: &Api, member: Option<&Member>) {
        if self.asked.force {
            return;
        }
        let node = self.node().to_owned();
        let remedy = "switch it off first, or --force";
        if member.is_some_and(|member| member.well.is_ok()) {
            return self.stuck(&node, "it is well: its etcd member answers".into(), remedy);
        }
        if api.node.as_ref().is_some_and(|node| node.ready.is_ok()) {
            self.wait(&node, "its Node to be seen as not ready");
            self.remedy = Some(remedy.to_owned());
        }
    }

    fn is_off(&mut self) -> bool {
        match &self.seen.power {
            Power::Off => return true,
            Power::Silent(_) if self.asked.force => return true,
            Power::Unknown => self.act(Action::SwitchOff),
            Power::Silent(why) => {
                let what = format!("it could not be switched off: {why}");
                let remedy = "a host that comes back would disturb the cluster: mend its BMC; or cut its power for good and use --force";
                self.stuck(&self.asked.host.name, what, remedy);
            }
        }
        false
    }

    /// Nothing is left of the old master, so that what is there later is the new one.
    fn cleared(&mut self, api: &Api) -> bool {
        self.at(Step::Clear);
        if api.host.is_some() || api.node.is_some() {
            self.is_dead(api, None);
            if self.next.stuck.is_some() || !self.next.waits.is_empty() {
                return false;
            }
        }
        if api.host.as_ref().is_some_and(|host| !host.deleting) && !self.is_off() {
            return false;
        }
        if api.node.is_some() {
            self.act(Action::DeleteNode);
        }
        if let Some(host) = &api.host {
            if host.deleting {
                self.wait(&self.asked.host.name, "its old BareMetalHost to be gone");
                self.metal3(api);
            } else {
                self.act(Action::DeleteHost);
            }
        }
        if let Some(machine) = &api.machine {
            if machine.deleting {
                self.wait("machine", "its old Machine to be gone");
            } else {
                self.act(Action::DeleteMachine);
            }
        }
        api.node.is_none() && api.host.is_none() && api.machine.is_none()
    }

    fn create(&mut self, member: &Member) {
        self.at(Step::Provision);
        match &self.seen.assets {
            Reach::Answers(()) => self.act(Action::CreateHost { member: member.id }),
            Reach::Silent(why) => self.wait("assets", why),
        }
    }

    /// The new host is written, and its member catches up.
    fn join(&mut self, api: &Api, host: &Host, member: &Member) {
        self.at(Step::Provision);
        let name = &self.asked.host.name;
        if host.deleting {
            return self.wait(name, "its BareMetalHost to be gone: somebody deleted it");
        }
        if !api.user_data {
            return self.create(member);
        }
        if !host.provisioned {
            self.wait_far(name, &host.doing, host.far);
            return self.metal3(api);
        }
        self.at(Step::Join);
        self.let_in(api);
        let node = self.node().to_owned();
        if member.started {
            self.act(Action::Promote(member.id));
        } else {
            self.wait(&node, "its etcd member to start");
        }
    }

    /// It votes again: the rest is for its own daemons.
    fn ready(&mut self, api: &Api, members: &[Member]) {
        self.at(Step::Ready);
        self.let_in(api);
        let node = self.node().to_owned();
        match &api.node {
            None => self.wait(&node, "it to join"),
            Some(seen) => {
                let Node { ready, joined } = seen;
                for (what, holds) in [
                    ("its Node", ready),
                    ("its API", &joined.api),
                    ("etcd", &joined.etcd),
                ] {
                    if let Err(why) = holds {
                        self.wait(&node, &format!("{what}: {why}"));
                    }
                }
            }
        }
        let voters = members.iter().filter(|member| member.voter).count();
        let masters = self.asked.plan.with_role(Role::Master).count();
        if voters < masters {
            self.wait("etcd", &format!("{masters} voters; it has {voters}"));
        }
        if !self.next.waits.is_empty() {
            let host = &self.asked.host.name;
            self.remedy = Some(format!(
                "look at the host's console (plinth console) and run the same command again; if it has died meanwhile, delete the Secret {} first",
                crate::assets::user_data_name(host)
            ));
        } else if self.next.actions.is_empty() {
            self.at(Step::Tidy);
            self.act(Action::Forget);
        }
    }

    /// Its Machine takes the host over, and its Node may have a certificate.
    fn let_in(&mut self, api: &Api) {
        match &api.machine {
            None => self.act(Action::CreateMachine),
            Some(machine) if machine.deleting => {
                self.wait("machine", "its Machine to be gone: somebody deleted it");
            }
            Some(_) => {}
        }
        if !api.requests.is_empty() {
            self.act(Action::Approve(api.requests.clone()));
        }
    }

    /// Hosts are metal3's; the master that died may have had it.
    fn metal3(&mut self, api: &Api) {
        match &api.metal3 {
            Metal3::Absent(why) => self.wait("metal3", why),
            Metal3::Active { on, .. } if on == self.node() => {
                let reason = format!("another master to take it over from {on}");
                self.wait("metal3", &reason);
            }
            Metal3::Active {
                on,
                images: Err(why),
            } => {
                let reason = format!("its images on {on}: {why}");
                self.wait("metal3", &reason);
            }
            Metal3::Active { images: Ok(()), .. } => {}
        }
    }

    fn node(&self) -> &str {
        let host = self.asked.host;
        host.node.as_deref().unwrap_or(&host.name)
    }

    fn at(&mut self, step: Step) {
        self.next.step = step;
    }

    fn act(&mut self, action: Action) {
        self.next.actions.push(action);
    }

    fn wait(&mut self, subject: &str, reason: &str) {
        self.wait_far(subject, reason, None);
    }

    fn wait_far(&mut self, subject: &str, reason: &str, far: Option<Far>) {
        let until = self.until();
        self.next.waits.push(Wait {
            subject: subject.to_owned(),
            reason: reason.to_owned(),
            far,
            until,
        });
    }

    /// The first reason stays: the others often follow from it.
    fn stuck(&mut self, subject: &str, what: String, remedy: &str) {
        let step = self.next.step;
        self.next.stuck.get_or_insert(Stuck {
            step,
            subject: subject.to_owned(),
            what,
            remedy: remedy.to_owned(),
        });
        self.next.actions.clear();
    }

    fn until(&self) -> Timestamp {
        let step = self.next.step;
        let began = self.began.get(&step).copied().unwrap_or(self.now);
        let limit = step.limit(self.asked.plan);
        began.checked_add(limit).unwrap_or(Timestamp::MAX)
    }

    /// A step that has had its time is over, with the reason it was waiting for.
    fn out_of_time(&mut self) {
        if self.now < self.until() {
            return;
        }
        let step = self.next.step;
        // What failed last says more than what is waited for.
        let waits = &self.next.waits;
        let told = self.seen.trouble.as_ref().and(waits.last());
        let (subject, what) = match told.or(waits.first()) {
            Some(wait) => (
                wait.subject.clone(),
                format!("still waiting: {}", wait.reason),
            ),
            None => (
                step.name().to_owned(),
                "its work did not come to an end".to_owned(),
            ),
        };
        let minutes = step.limit(self.asked.plan).as_secs() / 60;
        let remedy = self
            .remedy
            .take()
            .unwrap_or_else(|| step.remedy().to_owned());
        self.stuck(&subject, format!("{what}, after {minutes} min"), &remedy);
    }
}

#[cfg(test)]
mod tests;
