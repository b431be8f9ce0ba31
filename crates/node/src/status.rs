//! How the node is doing, for people and monitors.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;

use crate::decide::node::Condition;

#[derive(Debug, Clone, Default, Serialize)]
pub struct Status {
    pub name: Option<String>,
    /// What must happen before it can go on.
    pub waits_for: Option<String>,
    pub registered: bool,
    /// When the certificate ends, and when the next one is asked for.
    pub certificate_ends: Option<Timestamp>,
    pub certificate_renewal: Option<Timestamp>,
    /// What the next certificate waits for, while this one is still good.
    pub renewal_waits_for: Option<String>,
    /// When the certificate that logs are served with ends, and what the next one waits for.
    pub serving_ends: Option<Timestamp>,
    pub serving_waits_for: Option<String>,
    pub lease_renewed: Option<Timestamp>,
    pub conditions: Vec<Condition>,
    pub addresses: Vec<std::net::IpAddr>,
    pub counts: Counts,
}

/// Since the start.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Counts {
    pub lease_renewals: u64,
    pub node_writes: u64,
    pub certificates: u64,
    pub failures: u64,
}

impl Status {
    /// For people.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| _ = writeln!(text, "{name:12} {value}");
        let time =
            |time: Option<Timestamp>| time.map_or_else(|| "-".into(), |time| time.to_string());
        line("Node", self.name.as_deref().unwrap_or("-"));
        line(
            "Registered",
            if self.registered { "yes" } else { "not yet" },
        );
        if let Some(reason) = &self.waits_for {
            line("Waits for", reason);
        }
        line(
            "Certificate",
            &format!(
                "until {}, renewed from {}",
                time(self.certificate_ends),
                time(self.certificate_renewal)
            ),
        );
        if let Some(reason) = &self.renewal_waits_for {
            line("Renewal", &format!("waits for {reason}"));
        }
        if self.serving_ends.is_some() || self.serving_waits_for.is_some() {
            line(
                "Logs",
                &match &self.serving_waits_for {
                    Some(reason) => format!("a certificate to serve them waits for {reason}"),
                    None => format!("served, certificate until {}", time(self.serving_ends)),
                },
            );
        }
        line("Lease", &format!("renewed {}", time(self.lease_renewed)));
        for address in &self.addresses {
            line("Address", &address.to_string());
        }
        for condition in &self.conditions {
            let holds = if condition.holds { "True" } else { "False" };
            line(condition.kind, &format!("{holds}: {}", condition.message));
        }
        text
    }

    /// In Prometheus' text form.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let mut number = |name: &str, kind: &str, labels: &str, value: i64| {
            _ = writeln!(
                text,
                "# TYPE plinth_node_{name} {kind}\nplinth_node_{name}{labels} {value}"
            );
        };
        let seconds = |time: Option<Timestamp>| time.map_or(0, Timestamp::as_second);
        number("registered", "gauge", "", i64::from(self.registered));
        number("waiting", "gauge", "", i64::from(self.waits_for.is_some()));
        number(
            "certificate_ends_seconds",
            "gauge",
            "",
            seconds(self.certificate_ends),
        );
        number(
            "serving_certificate_ends_seconds",
            "gauge",
            "",
            seconds(self.serving_ends),
        );
        number(
            "lease_renewed_seconds",
            "gauge",
            "",
            seconds(self.lease_renewed),
        );
        let counts = self.counts;
        for (name, value) in [
            ("lease_renewals_total", counts.lease_renewals),
            ("writes_total", counts.node_writes),
            ("certificates_total", counts.certificates),
            ("failures_total", counts.failures),
        ] {
            number(name, "counter", "", value as i64);
        }
        _ = writeln!(text, "# TYPE plinth_node_condition gauge");
        for condition in &self.conditions {
            let holds = u8::from(condition.holds);
            _ = writeln!(
                text,
                "plinth_node_condition{{type=\"{}\"}} {holds}",
                condition.kind
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_one_type_line_and_every_condition_a_value() {
        let status = Status {
            conditions: ["Ready", "APIServerReady"]
                .map(|kind| Condition {
                    kind,
                    holds: kind == "Ready",
                    reason: String::new(),
                    message: String::new(),
                })
                .into(),
            ..Status::default()
        };
        let text = status.metrics();
        let mut types: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE"))
            .collect();
        let count = types.len();
        types.dedup();
        assert_eq!(types.len(), count);
        assert!(
            text.contains("condition{type=\"Ready\"} 1")
                && text.contains("{type=\"APIServerReady\"} 0"),
            "{text}"
        );
    }
}
