//! What can be measured of hosts, under the names that metal3's dashboards know.
//!
//! Counted here, and told in Prometheus' text form. How many hosts are in which state is read off the store when asked.

mod family;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lifecycle::host::{Operational, Power, Span, Status};
use serde::Serialize;

use crate::cache::Cache;
use family::{Family, Kind};

/// One for all controllers, and for as long as the process is.
#[derive(Default)]
pub struct Metrics {
    counted: Mutex<BTreeMap<(Family, Labels), Measured>>,
    /// While there are controllers.
    cache: Mutex<Option<Cache>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

type Labels = Vec<(&'static str, String)>;

enum Measured {
    Count(u64),
    Histogram(Histogram),
}

#[derive(Default)]
struct Histogram {
    /// How many were at most as long as each of the family's buckets.
    within: Vec<u64>,
    count: u64,
    seconds: f64,
}

/// Whose metrics they are.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Host<'_> {
    fn labels(self) -> Labels {
        vec![
            ("namespace", self.namespace.to_owned()),
            ("host", self.name.to_owned()),
        ]
    }
}

/// What happened.
impl Metrics {
    pub fn reconciling(&self, host: Host<'_>) {
        self.count(Family::Reconcile, host.labels());
    }

    pub fn reconciled(&self, took: Duration) {
        self.measure(Family::ReconcileDuration, Vec::new(), took);
    }

    pub fn reconcile_failed(&self, host: Host<'_>) {
        self.count(Family::ReconcileError, host.labels());
    }

    /// A host's status was written.
    pub fn saved(&self, host: Host<'_>, before: &Status, after: &Status) {
        let (from, to) = (before.state(), after.state());
        if from != to {
            let labels = vec![
                ("prev_state", from.to_string()),
                ("new_state", to.to_string()),
            ];
            self.count(Family::StateChange, labels);
        }
        if let Some(kind) = after.error_type
            && after.error_count > before.error_count
        {
            self.count(Family::HostError, vec![("error_type", word(kind))]);
        }
        let delayed = Operational::Delayed;
        if after.operational_status == delayed && before.operational_status != delayed {
            let deprovisions = matches!(to, lifecycle::host::State::Deprovisioning);
            let family = if deprovisions {
                Family::DelayedDeprovisioning
            } else {
                Family::DelayedProvisioning
            };
            self.count(family, host.labels());
        }
        let (old, new) = (&before.operation_history, &after.operation_history);
        for (family, old, new) in [
            (Family::Register, old.register, new.register),
            (Family::Inspect, old.inspect, new.inspect),
            (Family::Provision, old.provision, new.provision),
            (Family::Deprovision, old.deprovision, new.deprovision),
        ] {
            if let Some(took) = ended(old, new) {
                self.measure(family, host.labels(), took);
            }
        }
    }

    pub fn powered(&self, host: Host<'_>, power: Power) {
        let to = match power {
            Power::On => "on",
            Power::Off | Power::SoftOff => "off",
            Power::Reboot | Power::SoftReboot => "reboot",
        };
        let mut labels = host.labels();
        labels.push(("on_off", to.to_owned()));
        self.count(Family::PowerChange, labels);
    }

    pub fn credentials_missing(&self, host: Host<'_>) {
        self.count(Family::CredentialsMissing, host.labels());
    }

    pub fn credentials_invalid(&self, host: Host<'_>) {
        self.count(Family::CredentialsInvalid, host.labels());
    }

    pub fn ironic_not_ready(&self, host: Host<'_>) {
        self.count(Family::NotReady, host.labels());
    }

    /// It is gone, and so are its numbers.
    pub fn forget(&self, host: Host<'_>) {
        let own = host.labels();
        self.counted()
            .retain(|(_, labels), _| !labels.starts_with(&own));
    }

    /// Which hosts there are is known while controllers run.
    pub fn follow(&self, cache: Option<Cache>) {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = cache;
    }
}

/// What is told.
impl Metrics {
    pub fn render(&self) -> String {
        let mut text = String::new();
        {
            let counted = self.counted();
            for family in Family::ALL {
                let range = (family, Vec::new())..;
                let own: Vec<_> = counted
                    .range(range)
                    .take_while(|((of, _), _)| *of == family)
                    .collect();
                if !own.is_empty() {
                    family.head(&mut text);
                }
                for ((_, labels), value) in own {
                    render(&mut text, family, labels, value);
                }
            }
        }
        self.render_hosts(&mut text);
        text
    }

    fn render_hosts(&self, text: &mut String) {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(cache) = cache.as_ref() else {
            return;
        };
        let mut states: BTreeMap<String, u64> = BTreeMap::new();
        let mut errors: BTreeMap<String, u64> = BTreeMap::new();
        for host in cache.all_hosts() {
            let status = host.status.as_ref();
            let state = status.map(|status| status.provisioning.state.clone());
            *states.entry(state.unwrap_or_default()).or_default() += 1;
            if let Some(kind) = status.and_then(|status| status.error_type) {
                *errors.entry(word(kind)).or_default() += 1;
            }
        }
        for (family, label, counts) in [
            (Family::Hosts, "state", states),
            (Family::HostsInError, "error_type", errors),
        ] {
            family.head(text);
            for (value, count) in counts {
                render(text, family, &vec![(label, value)], &Measured::Count(count));
            }
        }
    }
}

impl Metrics {
    fn counted(&self) -> MutexGuard<'_, BTreeMap<(Family, Labels), Measured>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, family: Family, labels: Labels) {
        let mut counted = self.counted();
        let value = counted
            .entry((family, labels))
            .or_insert(Measured::Count(0));
        if let Measured::Count(count) = value {
            *count += 1;
        }
    }

    fn measure(&self, family: Family, labels: Labels, took: Duration) {
        let Kind::Histogram(buckets) = family.kind() else {
            return;
        };
        let mut counted = self.counted();
        let empty = || {
            Measured::Histogram(Histogram {
                within: vec![0; buckets.len()],
                ..Histogram::default()
            })
        };
        let value = counted.entry((family, labels)).or_insert_with(empty);
        if let Measured::Histogram(histogram) = value {
            let seconds = took.as_secs_f64();
            for (bucket, within) in buckets.iter().zip(&mut histogram.within) {
                if seconds <= *bucket {
                    *within += 1;
                }
            }
            histogram.count += 1;
            histogram.seconds += seconds;
        }
    }
}

/// How long an operation took that has just ended.
fn ended(old: Span, new: Span) -> Option<Duration> {
    if old.end == new.end {
        return None;
    }
    let took = new.end?.duration_since(new.start?);
    Duration::try_from(took).ok()
}

/// The word that the object has for it.
fn word(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn render(text: &mut String, family: Family, labels: &Labels, value: &Measured) {
    let name = family.name();
    match value {
        Measured::Count(count) => line(text, name, labels, None, &count.to_string()),
        Measured::Histogram(histogram) => {
            let bucket = format!("{name}_bucket");
            if let Kind::Histogram(buckets) = family.kind() {
                for (limit, within) in buckets.iter().zip(&histogram.within) {
                    let limit = limit.to_string();
                    line(text, &bucket, labels, Some(&limit), &within.to_string());
                }
            }
            let count = histogram.count.to_string();
            line(text, &bucket, labels, Some("+Inf"), &count);
            let sum = histogram.seconds.to_string();
            line(text, &format!("{name}_sum"), labels, None, &sum);
            line(text, &format!("{name}_count"), labels, None, &count);
        }
    }
}

fn line(text: &mut String, name: &str, labels: &Labels, limit: Option<&str>, value: &str) {
    let own = labels.iter().map(|(key, value)| (*key, value.as_str()));
    let all: Vec<String> = own
        .chain(limit.map(|limit| ("le", limit)))
        .map(|(key, value)| format!("{key}=\"{}\"", escaped(value)))
        .collect();
    text.push_str(name);
    if !all.is_empty() {
        text.push('{');
        text.push_str(&all.join(","));
        text.push('}');
    }
    text.push(' ');
    text.push_str(value);
    text.push('\n');
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
