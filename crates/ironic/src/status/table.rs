//! The lines as a person reads them.

use std::fmt::Write as _;
use std::time::SystemTime;

use jiff::Timestamp;

use super::Line;

const HEAD: [&str; 6] = ["NODE", "STATE", "STEP", "%", "SINCE", "WHY"];

/// A table, as wide as its words; what is long comes last.
pub fn render(lines: &[Line], now: SystemTime) -> String {
    let now = Timestamp::try_from(now).unwrap_or(Timestamp::MAX);
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(lines.iter().map(|line| cells(line, now)));
    columns(&rows)
}

/// Rows under one another, each column as wide as its widest cell.
pub fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn cells(line: &Line, now: Timestamp) -> [String; 6] {
    let dash = || "-".to_owned();
    [
        line.node.clone(),
        line.state.clone(),
        line.step.clone().unwrap_or_else(dash),
        line.percent
            .map_or_else(dash, |percent| format!("{percent:.0}")),
        line.since
            .map_or_else(dash, |since| ago(now.duration_since(since).as_secs())),
        why(line, now),
    ]
}

/// What a person would ask next: why it is in maintenance, what it waits for, what went wrong.
fn why(line: &Line, now: Timestamp) -> String {
    let mut told = Vec::new();
    if let Some(reason) = &line.maintenance {
        told.push(format!("maintenance: {reason}"));
    }
    if let Some(what) = &line.waiting_for {
        let left = line.waiting_until.map(|until| until.duration_since(now));
        told.push(match left {
            Some(left) if left.as_secs() > 0 => {
                format!("waiting for {what}, {} at most", ago(left.as_secs()))
            }
            Some(_) | None => format!("waiting for {what}"),
        });
    }
    if let Some(error) = line
        .last_error
        .as_ref()
        .filter(|error| line.maintenance.as_ref() != Some(error))
    {
        told.push(format!("error: {error}"));
    }
    told.join("; ").replace('\n', " ")
}

/// `42s`, `3m05s`, `2h10m`, `3d04h`.
pub fn ago(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(node: &str, state: &str) -> Line {
        Line {
            node: node.into(),
            state: state.into(),
            target: None,
            power: None,
            step: None,
            percent: None,
            waiting_for: None,
            waiting_until: None,
            since: None,
            maintenance: None,
            last_error: None,
        }
    }

    #[test]
    fn the_table_says_where_each_node_is_and_why() {
        let now: Timestamp = "2026-11-15T17:10:00Z".parse().unwrap();
        let lines = [
            Line {
                step: Some("deploy.write_image".into()),
                percent: Some(42.6),
                since: Some("2026-11-15T17:06:55Z".parse().unwrap()),
                waiting_for: Some("step deploy.write_image on the agent".into()),
                waiting_until: Some("2026-11-15T17:36:55Z".parse().unwrap()),
                ..line("worker-0", "wait call-back")
            },
            Line {
                maintenance: Some("the BMC is silent".into()),
                last_error: Some("the BMC is silent".into()),
                since: Some("2026-11-13T17:10:00Z".parse().unwrap()),
                ..line("w1", "active")
            },
            Line {
                last_error: Some("no disk\nmatches".into()),
                ..line("w2", "deploy failed")
            },
        ];
        assert_eq!(
            render(&lines, now.into()),
            "\
NODE      STATE           STEP                %   SINCE  WHY
worker-0  wait call-back  deploy.write_image  43  3m05s  waiting for step deploy.write_image on the agent, 26m55s at most
w1        active          -                   -   2d00h  maintenance: the BMC is silent
w2        deploy failed   -                   -   -      error: no disk matches
"
        );
    }

    #[test]
    fn a_clock_that_runs_behind_makes_no_negative_times() {
        assert_eq!([ago(-5), ago(59), ago(3600)], ["0s", "59s", "1h00m"]);
    }
}
