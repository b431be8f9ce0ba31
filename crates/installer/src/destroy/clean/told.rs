//! What a cleaning is at, for people and for the log.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plan::destroy::{Action, Failure, Next, Step, Stuck, Verb};
use serde_json::json;

use crate::lines::Lines;
use crate::progress::Tell;

#[derive(Default)]
pub(super) struct Told {
    lines: Lines<Step>,
    done: Vec<Action>,
}

impl Told {
    pub(super) fn at(&mut self, next: &Next, tell: &mut dyn Tell) {
        let step = next.step;
        for line in self.lines.at(step, step.about(), &next.waits) {
            let event = json!({"event": "cleaning", "step": step, "what": line.trim_start()});
            tell.event(&line, &event);
        }
        // What was done and is to be done again shows by what it waits for.
        self.done.retain(|action| next.actions.contains(action));
    }

    pub(super) fn doing(&mut self, action: &Action, tell: &mut dyn Tell) {
        if !self.done.contains(action) {
            let what = describe(action);
            let event = json!({"event": "action", "what": what});
            tell.event(&format!("  {what}"), &event);
            self.done.push(action.clone());
        }
    }

    pub(super) fn stuck(stuck: &Stuck, tell: &mut dyn Tell) {
        for failure in &stuck.failures {
            let Failure { subject, what, .. } = failure;
            let line = format!("{}: cannot go on: {subject}: {what}", stuck.step);
            tell.event(
                &line,
                &json!({"event": "stuck", "step": stuck.step, "failure": failure}),
            );
        }
    }

    pub(super) fn done(began: &BTreeMap<Step, Timestamp>, now: Timestamp, tell: &mut dyn Tell) {
        let table = Lines::done(began, now).join("\n");
        tell.event(&table, &json!({"event": "done", "began": began}));
    }
}

fn describe(action: &Action) -> String {
    match action {
        Action::FetchImages => "getting the images".into(),
        Action::SwitchOff(hosts) => format!("switching {} hosts off", hosts.len()),
        Action::StartVm => "starting the bootstrap VM".into(),
        Action::EndVm => "removing the bootstrap VM".into(),
        Action::Enrol(host) => format!("{host}: enrolling"),
        Action::Ask { host, verb, again } => {
            let what = match verb {
                Verb::Manage => "verifying the BMC",
                Verb::Provide => "cleaning",
                Verb::Undeploy => "bringing it back",
            };
            let again = if *again { ", again" } else { "" };
            format!("{host}: {what}{again}")
        }
    }
}
