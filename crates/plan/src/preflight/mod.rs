//! What can be found out before the first server is powered on.
//!
//! ```text
//! plan ── targets ──▶ what to ask ── probes (elsewhere) ──▶ Observed ── checks ──▶ findings
//! ```
//!
//! A check is data and a function from facts to findings; it asks nothing itself. What could not be observed is
//! `unknown`, never a pass.

mod bmc;
mod catalogue;
mod files;
mod firmware;
mod hardware;
mod here;
mod names;
mod observed;
mod table;
mod targets;
mod wire;

use serde::Serialize;

use crate::cluster::Plan;
use crate::install_config::InstallConfig;
use crate::problem::did_you_mean;

pub use catalogue::CHECKS;
pub use observed::{
    Advertisement, Answer, Bmc, Claims, Expiry, Fact, Here, Image, Links, Listening, Nic, Observed,
    Offer, Port, Resolver, Server, Slot, Transport, Wire,
};
pub use table::{remarks, render};
pub use targets::{Segment, Targets};

/// One thing that is looked at.
pub struct Check {
    pub id: &'static str,
    /// What holds if it passes.
    pub title: &'static str,
    /// What it means if it does not.
    pub severity: Severity,
    /// What must be observed for it.
    pub needs: &'static [Need],
    decide: fn(&Site, &mut Report),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The install would not succeed, or would harm somebody.
    Fail,
    /// It may succeed; a person should know.
    Warn,
}

/// A probe, or a family of them: one that nobody needs is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// The BMC of every host.
    Bmcs,
    /// Links, addresses and routes of this machine.
    Links,
    /// Who answers for an address.
    Claims,
    /// A while of listening for VRRP.
    Vrrp,
    /// A question to all DHCP servers.
    Dhcp,
    Dns,
    Ntp,
    /// Where images are fetched from.
    Images,
    /// The cache of images here.
    Cache,
    /// Processors, memory, disk and programs of this machine.
    Here,
    /// What listens on this machine, and on the addresses the bootstrap will have.
    Ports,
    /// Keys and certificates of the install directory.
    Directory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Pass,
    Unknown,
    Warn,
    Fail,
}

/// What a check has to say about one host, address, link or field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub id: &'static str,
    /// A host's name, an address, a link, a field of install-config.yaml.
    pub subject: String,
    pub verdict: Verdict,
    pub what: String,
    /// What to do; empty where nothing is to be done.
    pub remedy: String,
}

/// What a check sees.
pub struct Site<'a> {
    pub plan: &'a Plan,
    pub config: &'a InstallConfig,
    pub observed: &'a Observed,
}

/// Which checks to run.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Empty: all.
    only: Vec<String>,
    skip: Vec<String>,
}

/// An id that no check has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no check {id:?}{}", .meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default())]
pub struct NoSuchCheck {
    pub id: String,
    pub meant: Option<&'static str>,
}

impl Selection {
    /// Every id must be one of a check.
    pub fn new(only: Vec<String>, skip: Vec<String>) -> Result<Self, NoSuchCheck> {
        for id in only.iter().chain(&skip) {
            if !CHECKS.iter().any(|check| check.id == id) {
                let meant = did_you_mean(id, CHECKS.iter().map(|check| check.id));
                return Err(NoSuchCheck {
                    id: id.clone(),
                    meant,
                });
            }
        }
        Ok(Self { only, skip })
    }

    pub fn checks(&self) -> impl Iterator<Item = &'static Check> {
        CHECKS.iter().filter(|check| {
            let is = |id: &String| id == check.id;
            (self.only.is_empty() || self.only.iter().any(is)) && !self.skip.iter().any(is)
        })
    }

    /// Is this to be observed?
    pub fn needs(&self, need: Need) -> bool {
        self.checks().any(|check| check.needs.contains(&need))
    }
}

/// Decides over what was observed. Findings are in the order of the catalogue.
pub fn check(
    plan: &Plan,
    config: &InstallConfig,
    observed: &Observed,
    selection: &Selection,
) -> Vec<Finding> {
    let site = Site {
        plan,
        config,
        observed,
    };
    let mut findings = Vec::new();
    for check in selection.checks() {
        let mut report = Report {
            check,
            findings: &mut findings,
        };
        (check.decide)(&site, &mut report);
    }
    findings
}

/// The worst there is; nothing found is a pass.
pub fn worst(findings: &[Finding]) -> Verdict {
    let verdicts = findings.iter().map(|finding| finding.verdict);
    verdicts.max().unwrap_or(Verdict::Pass)
}

/// Where one check writes its findings.
struct Report<'a> {
    check: &'static Check,
    findings: &'a mut Vec<Finding>,
}

impl Report<'_> {
    fn pass(&mut self, subject: impl ToString, what: impl Into<String>) {
        self.add(Verdict::Pass, subject, what.into(), String::new());
    }

    /// As bad as the check is.
    fn bad(&mut self, subject: impl ToString, what: impl Into<String>, remedy: impl Into<String>) {
        let verdict = match self.check.severity {
            Severity::Fail => Verdict::Fail,
            Severity::Warn => Verdict::Warn,
        };
        self.add(verdict, subject, what.into(), remedy.into());
    }

    /// Worth a word, in a check that could fail.
    fn warn(&mut self, subject: impl ToString, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(Verdict::Warn, subject, what.into(), remedy.into());
    }

    fn unknown(&mut self, subject: impl ToString, why: impl Into<String>) {
        self.add(Verdict::Unknown, subject, why.into(), String::new());
    }

    /// The fact, if there is one; said to be unknown otherwise.
    fn known<'f, T>(&mut self, subject: impl ToString, fact: &'f Fact<T>) -> Option<&'f T> {
        match fact {
            Fact::Known(value) => Some(value),
            Fact::Unknown(why) => {
                self.unknown(subject, why.clone());
                None
            }
            Fact::Unasked => {
                self.unknown(subject, "it was not asked");
                None
            }
        }
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "checks give names, addresses and texts alike"
    )]
    fn add(&mut self, verdict: Verdict, subject: impl ToString, what: String, remedy: String) {
        self.findings.push(Finding {
            id: self.check.id,
            subject: subject.to_string(),
            verdict,
            what,
            remedy,
        });
    }
}

#[cfg(test)]
mod tests;
