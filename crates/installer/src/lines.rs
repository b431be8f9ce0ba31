//! What a run is at, in lines for people: steps, what is waited for, and how long all of it took. Nothing is said twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use jiff::Timestamp;
use plan::install::Wait;

pub struct Lines<S> {
    step: Option<S>,
    waits: BTreeSet<String>,
}

impl<S> Default for Lines<S> {
    fn default() -> Self {
        Self {
            step: None,
            waits: BTreeSet::new(),
        }
    }
}

impl<S: Copy + Ord + Display> Lines<S> {
    /// What is new since the last time.
    pub fn at(&mut self, step: S, about: &str, waits: &[Wait]) -> Vec<String> {
        let mut new = Vec::new();
        if self.step != Some(step) {
            self.step = Some(step);
            self.waits.clear();
            new.push(format!("{step}: {about}"));
        }
        let waits: BTreeSet<String> = waits.iter().map(words).collect();
        let unsaid = waits.difference(&self.waits);
        new.extend(unsaid.map(|wait| format!("  waiting: {wait}")));
        self.waits = waits;
        new
    }

    /// The table at the end.
    pub fn done(began: &BTreeMap<S, Timestamp>, now: Timestamp) -> Vec<String> {
        let took = took(began, now);
        let names = took.iter().map(|(step, _)| step.to_string());
        let mut table: Vec<(String, Duration)> = names.zip(took.iter().map(|it| it.1)).collect();
        table.push(("in all".into(), took.iter().map(|(_, took)| *took).sum()));
        let wide = table.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let rows = table.into_iter().map(|(name, took)| {
            let seconds = took.as_secs_f64();
            format!("  {name:wide$} {seconds:6.1} s")
        });
        ["done".to_owned()].into_iter().chain(rows).collect()
    }
}

/// Each step lasts until the next one of this run.
fn took<S: Copy + Ord>(began: &BTreeMap<S, Timestamp>, now: Timestamp) -> Vec<(S, Duration)> {
    let ends = began.values().skip(1).copied().chain([now]);
    let steps = began.iter().zip(ends);
    steps
        .map(|((step, began), end)| {
            let lasted = Duration::try_from(end.duration_since(*began));
            (*step, lasted.unwrap_or_default())
        })
        .collect()
}

/// Without the percentage's last digit: a line every tenth is enough.
fn words(wait: &Wait) -> String {
    match wait.far {
        Some(far) => format!(
            "{}: {}, {} %",
            wait.subject,
            wait.reason,
            far.percent / 10 * 10
        ),
        None => format!("{}: {}", wait.subject, wait.reason),
    }
}
