//! Hosts as a person reads them.

use ironic::status::{ago, columns};
use jiff::Timestamp;

use super::line::Line;

const HEAD: [&str; 9] = [
    "HOST", "STATE", "POWER", "CONSUMER", "STEP", "%", "SINCE", "RETRY", "WHY",
];

/// A table; what is long comes last.
pub fn render(lines: &[Line], namespaces: bool, now: Timestamp) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(lines.iter().map(|line| cells(line, namespaces, now)));
    columns(&rows)
}

fn cells(line: &Line, namespaces: bool, now: Timestamp) -> [String; 9] {
    let dash = |text: &str| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            text.to_owned()
        }
    };
    let host = if namespaces {
        format!("{}/{}", line.namespace, line.host)
    } else {
        line.host.clone()
    };
    let retry = line.error.as_ref().and_then(|error| error.next_retry);
    [
        host,
        dash(&state(line)),
        dash(power(line)),
        dash(line.consumer.as_deref().unwrap_or_default()),
        dash(line.step.as_deref().unwrap_or_default()),
        dash(
            &line
                .percent
                .map(|percent| percent.to_string())
                .unwrap_or_default(),
        ),
        dash(&line.since.map(|since| age(since, now)).unwrap_or_default()),
        dash(&retry.map(|at| until(at, now)).unwrap_or_default()),
        why(line),
    ]
}

/// One change, on a line of its own.
pub fn sentence(line: &Line, now: Timestamp) -> String {
    let mut told = vec![
        format!("{now:.0}"),
        format!("{}/{}", line.namespace, line.host),
        state(line),
    ];
    told.extend(line.step.clone());
    told.extend(line.percent.map(|percent| format!("{percent} %")));
    if line.powered_on.is_some() {
        told.push(format!("power {}", power(line)));
    }
    let consumer = line.consumer.as_ref();
    told.extend(consumer.map(|consumer| format!("for {consumer}")));
    let retry = line.error.as_ref().and_then(|error| error.next_retry);
    let retry = retry.map(|at| format!("tried again in {}", until(at, now)));
    let why: Vec<String> = [Some(why(line)), retry]
        .into_iter()
        .flatten()
        .filter(|why| !why.is_empty())
        .collect();
    let mut told = told.join(" ").trim_end().to_owned();
    if !why.is_empty() {
        told.push_str(": ");
        told.push_str(&why.join("; "));
    }
    told
}

/// The state, and what is unusual about it.
fn state(line: &Line) -> String {
    match line.condition.as_str() {
        "" | "OK" => line.state.clone(),
        other => format!("{} ({other})", line.state).trim_start().to_owned(),
    }
}

fn power(line: &Line) -> &'static str {
    match line.powered_on {
        Some(true) => "on",
        Some(false) => "off",
        None => "",
    }
}

fn why(line: &Line) -> String {
    let told = match (&line.error, &line.waiting_for) {
        (Some(error), _) if error.count > 1 => {
            format!("{}, {} times: {}", error.kind, error.count, error.message)
        }
        (Some(error), _) => format!("{}: {}", error.kind, error.message),
        (None, Some(what)) => format!("waits for {what}"),
        (None, None) => String::new(),
    };
    told.replace('\n', " ")
}

fn age(since: Timestamp, now: Timestamp) -> String {
    ago(now.duration_since(since).as_secs())
}

fn until(at: Timestamp, now: Timestamp) -> String {
    match at.duration_since(now).as_secs() {
        ..=0 => "now".to_owned(),
        seconds => ago(seconds),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::{Value, json};

    use super::super::line::tests::host;
    use super::*;

    fn some() -> Vec<Line> {
        let condition = |kind: &str, message: &str| {
            json!({"type": kind, "status": "True", "message": message, "reason": "R",
                   "lastTransitionTime": "2026-11-15T17:05:00Z"})
        };
        let mut lines: Vec<Line> = [
            json!({
                "operationalStatus": "OK", "poweredOn": true, "provisioning": {"state": "provisioning", "ID": ""},
                "operationHistory": {"provision": {"start": "2026-11-15T17:06:00Z"}},
                "conditions": [condition("Progressing", "the host [deploy.write_image 40 %: the agent]")],
            }),
            json!({
                "operationalStatus": "error", "errorType": "registration error", "errorMessage": "no answer\nat all",
                "errorCount": 3, "provisioning": {"state": "registering", "ID": ""},
                "conditions": [condition("Ready", "no answer; next try at 2026-11-15T17:12:05Z")],
            }),
            json!({
                "operationalStatus": "OK", "provisioning": {"state": "available", "ID": ""},
                "conditions": [condition("AvailableForProvisioning", "")],
            }),
            Value::Null,
        ]
        .iter()
        .map(host)
        .collect();
        for (number, line) in lines.iter_mut().enumerate() {
            line.host = format!("worker-{number}");
            if number > 0 {
                line.consumer = None;
            }
        }
        lines
    }

    #[test]
    fn the_table_says_where_each_host_is_and_why() {
        let now = "2026-11-15T17:10:00Z".parse().expect("a time");
        assert_snapshot!(render(&some(), false, now));
    }

    #[test]
    fn a_change_is_a_sentence() {
        let now = "2026-11-15T17:10:00Z".parse().expect("a time");
        let told: Vec<String> = some().iter().map(|line| sentence(line, now)).collect();
        assert_snapshot!(told.join("\n"));
    }
}
