//! Numbers for a monitor, in Prometheus' text form and with the names Kubernetes gives them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::api::request::RequestInfo;
use crate::store::Store;

/// Upper ends of the buckets for the time a request took, in milliseconds.
const BUCKETS: [u64; 8] = [1, 5, 25, 100, 500, 2500, 10_000, 60_000];

#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, String, u16), u64>>,
    times: Mutex<BTreeMap<&'static str, Times>>,
}

#[derive(Default, Clone)]
struct Times {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    /// Only kinds that are served get a name of their own: strangers' paths must not fill the memory.
    pub fn note(&self, info: &RequestInfo, known: bool, code: u16, took: Duration) {
        let verb = info.verb.as_str();
        let resource = match &info.resource {
            Some(at) if known && at.group.is_empty() => at.plural.clone(),
            Some(at) if known => format!("{}.{}", at.plural, at.group),
            Some(_) | None => String::new(),
        };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((verb, resource, code)).or_default() += 1;
        drop(requests);
        // A watch takes as long as it likes.
        if verb != "watch" {
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.entry(verb).or_default().add(took);
        }
    }

    pub fn render(&self, store: &Store, in_flight: usize) -> String {
        let mut text = String::new();
        let head = |text: &mut String, name: &str, kind: &str, help: &str| {
            _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        head(
            &mut text,
            "apiserver_request_total",
            "counter",
            "Requests by verb, resource and code.",
        );
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((verb, resource, code), count) in &*requests {
            _ = writeln!(
                text,
                "apiserver_request_total{{verb=\"{verb}\",resource=\"{resource}\",code=\"{code}\"}} {count}"
            );
        }
        drop(requests);
        let name = "apiserver_request_duration_seconds";
        head(
            &mut text,
            name,
            "histogram",
            "How long requests took, but for watches.",
        );
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        for (verb, times) in &*times {
            times.render(&mut text, name, &format!("verb=\"{verb}\""));
        }
        drop(times);
        let name = "apiserver_storage_request_seconds";
        head(&mut text, name, "summary", "How long the store took.");
        for (operation, (count, seconds)) in store.timings() {
            let label = format!("operation=\"{operation}\"");
            _ = writeln!(
                text,
                "{name}_sum{{{label}}} {seconds}\n{name}_count{{{label}}} {count}"
            );
        }
        let numbers = [
            (
                "apiserver_registered_watchers",
                "Watches that are open.",
                store.watchers() as u64,
            ),
            (
                "apiserver_current_inflight_requests",
                "Requests in progress, but for watches.",
                in_flight as u64,
            ),
            (
                "apiserver_storage_revision",
                "The newest revision this server knows.",
                store.revision(),
            ),
        ];
        for (name, help, value) in numbers {
            head(&mut text, name, "gauge", help);
            _ = writeln!(text, "{name} {value}");
        }
        text
    }
}

impl Times {
    fn add(&mut self, took: Duration) {
        self.count += 1;
        self.seconds += took.as_secs_f64();
        let bucket = BUCKETS
            .iter()
            .position(|end| took <= Duration::from_millis(*end));
        if let Some(bucket) = bucket {
            self.buckets[bucket] += 1;
        }
    }

    fn render(&self, text: &mut String, name: &str, label: &str) {
        let mut below = 0;
        for (end, count) in BUCKETS.iter().zip(self.buckets) {
            below += count;
            let end = *end as f64 / 1000.0;
            _ = writeln!(text, "{name}_bucket{{{label},le=\"{end}\"}} {below}");
        }
        let (count, seconds) = (self.count, self.seconds);
        _ = writeln!(text, "{name}_bucket{{{label},le=\"+Inf\"}} {count}");
        _ = writeln!(
            text,
            "{name}_sum{{{label}}} {seconds}\n{name}_count{{{label}}} {count}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up() {
        let mut times = Times::default();
        for millis in [0, 3, 3, 700, 90_000] {
            times.add(Duration::from_millis(millis));
        }
        let mut text = String::new();
        times.render(&mut text, "t", "v=\"get\"");
        let counts: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("t_bucket"))
            .filter_map(|line| line.rsplit(' ').next())
            .collect();
        assert_eq!(counts, ["1", "3", "3", "3", "3", "4", "4", "4", "5"]);
    }
}
