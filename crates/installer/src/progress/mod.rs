//! What an install is at, told to a terminal, a pipe, or a program.

mod picture;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use plan::cluster::Plan;
use plan::install::{Action, Next, Phase, Problem, Stuck, Verb, Wait};
use serde_json::{Value, json};

pub use picture::{Line, Picture};

use crate::cluster::Failed;

/// Whoever is told.
pub trait Tell: Send {
    /// One thing that happened: a line for people, and the same for programs.
    fn event(&mut self, line: &str, event: &Value);
    /// What it looks like now, for whoever can draw.
    fn picture(&mut self, _picture: &Picture) {}
    /// A remark inside a long piece of work.
    fn note(&mut self, what: &str) {
        self.event(
            &format!("  {what}"),
            &json!({"event": "note", "what": what}),
        );
    }
}

/// Tells what changed, and nothing twice.
pub struct Progress {
    plan: Plan,
    phase: Option<(Phase, Timestamp)>,
    waits: BTreeMap<String, String>,
    /// Since when each is waited for, and for what.
    reasons: BTreeMap<String, (String, Timestamp)>,
}

impl Progress {
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            phase: None,
            waits: BTreeMap::new(),
            reasons: BTreeMap::new(),
        }
    }

    pub fn at(&mut self, phase: Phase, next: &Next, now: Timestamp, tell: &mut dyn Tell) {
        if self.phase.is_none_or(|(before, _)| before != phase) {
            self.leave_phase(Some(phase), now, tell);
            self.phase = Some((phase, now));
            self.waits.clear();
            let about = self
                .plan
                .steps
                .iter()
                .find(|step| step.name == phase.name());
            let about = about.map_or("", |step| step.about);
            let expected = phase.expected(&self.plan).as_secs();
            tell.event(
                &format!("{phase}: {about} (about {expected} s)"),
                &json!({"event": "phase", "phase": phase, "about": about, "expected_seconds": expected}),
            );
        }
        let waits = next
            .waits
            .iter()
            .map(|wait| (wait.subject.clone(), words(wait)));
        let waits: BTreeMap<String, String> = waits.collect();
        for (subject, reason) in &waits {
            if self.waits.get(subject) != Some(reason) {
                tell.event(
                    &format!("  {subject}: {reason}"),
                    &json!({"event": "wait", "phase": phase, "subject": subject, "reason": reason}),
                );
            }
        }
        self.waits = waits;
        tell.picture(&self.picture(phase, next, now));
    }

    fn picture(&mut self, phase: Phase, next: &Next, now: Timestamp) -> Picture {
        let before = std::mem::take(&mut self.reasons);
        for wait in &next.waits {
            let same = before.get(&wait.subject);
            let since = same.filter(|(reason, _)| *reason == wait.reason);
            let since = since.map_or(now, |(_, since)| *since);
            let reason = (wait.reason.clone(), since);
            self.reasons.insert(wait.subject.clone(), reason);
        }
        let line = |wait: &Wait| Line {
            subject: wait.subject.clone(),
            reason: wait.reason.clone(),
            far: wait.far,
            since: since(self.reasons[&wait.subject].1, now),
        };
        let number = Phase::ALL.iter().position(|known| *known == phase);
        Picture {
            phase: phase.name(),
            number: number.unwrap_or(0) + 1,
            of: Phase::ALL.len(),
            elapsed: self
                .phase
                .map_or(Duration::ZERO, |(_, begun)| since(begun, now)),
            expected: phase.expected(&self.plan),
            waits: next.waits.iter().map(line).collect(),
        }
    }

    pub fn doing(&mut self, action: &Action, tell: &mut dyn Tell) {
        let what = describe(action);
        tell.event(
            &format!("  {what}"),
            &json!({"event": "action", "what": what}),
        );
    }

    pub fn failed(&mut self, action: &Action, why: &Failed, tell: &mut dyn Tell) {
        let what = describe(action);
        tell.event(
            &format!("  {what}: failed: {}", why.0),
            &json!({"event": "failed", "what": what, "why": why.0}),
        );
    }

    pub fn stuck(&mut self, stuck: &Stuck, tell: &mut dyn Tell) {
        let Stuck { phase, problems } = stuck;
        for Problem {
            subject,
            what,
            remedy,
        } in problems
        {
            tell.event(
                &format!("{phase}: cannot go on: {subject}: {what}"),
                &json!({"event": "stuck", "phase": phase, "subject": subject, "what": what, "remedy": remedy}),
            );
        }
    }

    /// `took`: each phase, in all runs of the installer together.
    pub fn done(&mut self, took: &[(Phase, Duration)], now: Timestamp, tell: &mut dyn Tell) {
        self.leave_phase(None, now, tell);
        let whole: Duration = took.iter().map(|(_, took)| *took).sum();
        let mut table = String::from("done\n");
        for (phase, took) in took {
            _ = writeln!(table, "  {phase:22} {:6.1} s", took.as_secs_f64());
        }
        _ = write!(table, "  {:22} {:6.1} s", "in all", whole.as_secs_f64());
        let phases: BTreeMap<&str, f64> = took
            .iter()
            .map(|(phase, took)| (phase.name(), took.as_secs_f64()))
            .collect();
        tell.event(
            &table,
            &json!({"event": "done", "seconds": whole.as_secs_f64(), "phases": phases}),
        );
    }

    /// A phase is done when a later one begins, or none. Something that was there may have gone, such as the bootstrap VM: then
    /// the install goes back.
    fn leave_phase(&mut self, to: Option<Phase>, now: Timestamp, tell: &mut dyn Tell) {
        let Some((phase, begun)) = self.phase.take() else {
            return;
        };
        let seconds = since(begun, now).as_secs_f64();
        match to.filter(|to| *to < phase) {
            Some(to) => tell.event(
                &format!("{phase}: left after {seconds:.1} s, back to {to}"),
                &json!({"event": "phase-left", "phase": phase, "to": to, "seconds": seconds}),
            ),
            None => tell.event(
                &format!("{phase}: done in {seconds:.1} s"),
                &json!({"event": "phase-done", "phase": phase, "seconds": seconds}),
            ),
        }
    }
}

fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

/// Without the percentage's last digit: a line every tenth is enough.
fn words(wait: &Wait) -> String {
    match wait.far {
        Some(far) => format!("{}, {} %", wait.reason, far.percent / 10 * 10),
        None => wait.reason.clone(),
    }
}

fn describe(action: &Action) -> String {
    match action {
        Action::CheckSite => "looking for what would stop the install".into(),
        Action::WriteAssets => "writing keys, Ignition configs and manifests".into(),
        Action::FetchImages => "getting the images".into(),
        Action::StartVm => "starting the bootstrap VM".into(),
        Action::Enrol(host) => format!("{host}: enrolling"),
        Action::Ask { host, verb, again } => {
            let what = match verb {
                Verb::Manage => "verifying the BMC",
                Verb::Inspect => "inspecting",
                Verb::Provide => "cleaning",
                Verb::Deploy => "deploying",
            };
            let again = if *again { ", again" } else { "" };
            format!("{host}: {what}{again}")
        }
        Action::Approve(names) => format!("letting {} masters in", names.len()),
        Action::Apply(files) => format!("applying {} manifests", files.len()),
        Action::MarkComplete => "telling the cluster that it can do without its bootstrap".into(),
        Action::DestroyVm => "removing the bootstrap VM".into(),
    }
}

#[cfg(test)]
mod tests {
    use plan::install_config::{Facts, parse};

    use super::*;

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Tell for Heard {
        fn event(&mut self, line: &str, _event: &Value) {
            self.0.push(line.to_owned());
        }
    }

    #[test]
    fn a_phase_is_done_when_a_later_one_begins_and_left_when_an_earlier_one_does() {
        let pxe = include_str!("../../../../examples/pxe.yaml");
        let resolved = parse(pxe, &Facts::default()).expect("the example is good");
        let mut progress = Progress::new(Plan::new(&resolved.config, None));
        let next = Next {
            phase: None,
            actions: Vec::new(),
            waits: Vec::new(),
            stuck: None,
        };
        let (mut heard, mut now) = (Heard::default(), Timestamp::UNIX_EPOCH);
        for phase in [
            Phase::BootstrapServices,
            Phase::ControlPlaneDeploy,
            Phase::BootstrapVm,
        ] {
            progress.at(phase, &next, now, &mut heard);
            now += jiff::SignedDuration::from_secs(3);
        }
        progress.done(&[], now, &mut heard);
        let ends = |line: &&String| line.contains(" in 3.0") || line.contains(" after 3.0");
        let ends: Vec<&String> = heard.0.iter().filter(ends).collect();
        assert_eq!(
            ends,
            [
                "bootstrap-services: done in 3.0 s",
                "control-plane-deploy: left after 3.0 s, back to bootstrap-vm",
                "bootstrap-vm: done in 3.0 s",
            ]
        );
    }
}
