//! Findings for people.

use std::fmt::Write as _;

use super::{Finding, Verdict};

/// What needs a person first; passes are counted unless `all` are wanted.
pub fn render(findings: &[Finding], all: bool) -> String {
    let mut text = String::new();
    for verdict in [Verdict::Fail, Verdict::Warn] {
        for finding in findings.iter().filter(|finding| finding.verdict == verdict) {
            line(
                &mut text,
                word(verdict),
                finding.id,
                &finding.subject,
                &finding.what,
            );
            if !finding.remedy.is_empty() {
                _ = writeln!(text, "         {}", finding.remedy);
            }
        }
    }
    unknown(&mut text, findings);
    if all {
        for finding in findings
            .iter()
            .filter(|finding| finding.verdict == Verdict::Pass)
        {
            line(
                &mut text,
                word(Verdict::Pass),
                finding.id,
                &finding.subject,
                &finding.what,
            );
        }
    }
    let count = |verdict| {
        findings
            .iter()
            .filter(|finding| finding.verdict == verdict)
            .count()
    };
    _ = writeln!(
        text,
        "{}{} passed, {} warnings, {} failed, {} unknown",
        if text.is_empty() { "" } else { "\n" },
        count(Verdict::Pass),
        count(Verdict::Warn),
        count(Verdict::Fail),
        count(Verdict::Unknown),
    );
    text
}

/// What does not stop an install and a person should know, a line each.
pub fn remarks(findings: &[Finding]) -> Vec<String> {
    let mut text = String::new();
    let warnings = findings
        .iter()
        .filter(|found| found.verdict == Verdict::Warn);
    for Finding {
        id,
        subject,
        what,
        remedy,
        ..
    } in warnings
    {
        let what = format!("{what}; {remedy}");
        line(&mut text, word(Verdict::Warn), id, subject, &what);
    }
    unknown(&mut text, findings);
    text.lines().map(str::to_owned).collect()
}

/// One silent BMC leaves a dozen questions open, for one reason: said once.
fn unknown(text: &mut String, findings: &[Finding]) {
    let mut groups: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for finding in findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Unknown)
    {
        let same = |(subject, what, _): &&mut (&str, &str, Vec<&str>)| {
            *subject == finding.subject && *what == finding.what
        };
        match groups.iter_mut().find(same) {
            Some((_, _, ids)) => ids.push(finding.id),
            None => groups.push((&finding.subject, &finding.what, vec![finding.id])),
        }
    }
    for (subject, what, ids) in groups {
        let more = match &ids[1..] {
            [] => String::new(),
            [one] => format!(" (and {one})"),
            more => format!(" (and {} more checks)", more.len()),
        };
        line(
            text,
            word(Verdict::Unknown),
            ids[0],
            subject,
            &format!("{what}{more}"),
        );
    }
}

fn line(text: &mut String, word: &str, id: &str, subject: &str, what: &str) {
    _ = writeln!(text, "{word:8} {id}: {subject}: {what}");
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Unknown => "unknown",
        Verdict::Warn => "WARN",
        Verdict::Fail => "FAIL",
    }
}
