//! What an install is at, as a few lines that are drawn again and again.
//!
//! ```text
//! control-plane-deploy  5 of 10  [=======>                    ]  52 s of about 12 min
//!   master-0   [==========>         ]  54 %  41 MB/s, wait call-back: writing the image          8 s
//!   master-1                                 inspect wait: the agent to call                    31 s
//! ```

use std::time::Duration;

use plan::install::Far;

/// One moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pub phase: &'static str,
    /// Counted from one.
    pub number: usize,
    pub of: usize,
    pub elapsed: Duration,
    pub expected: Duration,
    pub waits: Vec<Line>,
}

/// What one host, or one part of the cluster, is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub subject: String,
    pub reason: String,
    pub far: Option<Far>,
    /// For this reason.
    pub since: Duration,
}

/// Narrower than this nothing can be read anyway.
const NARROWEST: usize = 40;
const PHASE_BAR: usize = 28;
const HOST_BAR: usize = 20;
/// More hosts than this are counted, not shown.
const MOST_LINES: usize = 20;

impl Picture {
    /// Lines no longer than `width` characters.
    pub fn draw(&self, width: usize) -> Vec<String> {
        let width = width.max(NARROWEST);
        let part = self.elapsed.as_secs_f64() / self.expected.as_secs_f64().max(1.0);
        let head = format!(
            "{}  {} of {}  {}  {} of about {}",
            self.phase,
            self.number,
            self.of,
            // Late is not done.
            bar((part * 100.0).min(99.0) as u8, PHASE_BAR),
            time(self.elapsed),
            time(self.expected),
        );
        let names = self.waits.iter().map(|line| line.subject.chars().count());
        let name = names.max().unwrap_or(0).min(width / 3);
        let mut lines = vec![cut(&head, width)];
        let shown = self.waits.iter().take(MOST_LINES);
        lines.extend(shown.map(|line| line.draw(name, width)));
        let more = self.waits.len().saturating_sub(MOST_LINES);
        if more > 0 {
            lines.push(format!("  and {more} more"));
        }
        lines
    }
}

impl Line {
    fn draw(&self, name: usize, width: usize) -> String {
        let (bar, percent) = match self.far {
            Some(far) => (bar(far.percent, HOST_BAR), format!("{:3} %", far.percent)),
            None => (" ".repeat(HOST_BAR + 2), " ".repeat(5)),
        };
        let rate = self.far.and_then(|far| far.mb_per_s);
        let rate = rate.map_or(String::new(), |rate| format!("{rate} MB/s, "));
        let since = time(self.since);
        // A terminal that is wide enough has the times below one another.
        let subject = cut(&self.subject, name);
        let start = format!("  {subject:name$}  {bar} {percent}  ");
        let room = width.saturating_sub(start.chars().count() + since.len() + 2);
        let reason = cut(&format!("{rate}{}", self.reason), room);
        cut(&format!("{start}{reason:room$}  {since}"), width)
    }
}

fn bar(percent: u8, width: usize) -> String {
    let full = usize::from(percent.min(100)) * width / 100;
    let mut bar = "=".repeat(full);
    if full < width {
        bar.push('>');
    }
    format!("[{bar:width$}]")
}

fn time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=99 => format!("{seconds} s"),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

/// On one line, and not longer than this.
fn cut(text: &str, width: usize) -> String {
    let plain = |found: char| if found.is_control() { ' ' } else { found };
    if text.chars().count() <= width {
        return text.chars().map(plain).collect();
    }
    let start = text.chars().take(width.saturating_sub(1));
    start.map(plain).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(subject: &str, reason: &str, percent: Option<u8>, since: u64) -> Line {
        Line {
            subject: subject.into(),
            reason: reason.into(),
            far: percent.map(|percent| Far {
                percent,
                mb_per_s: (percent > 50).then_some(41),
            }),
            since: Duration::from_secs(since),
        }
    }

    fn picture(waits: Vec<Line>) -> Picture {
        Picture {
            phase: "control-plane-deploy",
            number: 5,
            of: 10,
            elapsed: Duration::from_secs(190),
            expected: Duration::from_mins(12),
            waits,
        }
    }

    #[test]
    fn hosts_stand_below_one_another() {
        let picture = picture(vec![
            line("master-0", "wait call-back: writing the image", Some(54), 8),
            line("master-1", "inspect wait: the agent to call", None, 131),
            line("a-host-with-a-long-name", "deploying", Some(100), 0),
        ]);
        insta::assert_snapshot!(picture.draw(100).join("\n"));
    }

    #[test]
    fn late_is_not_done_and_a_crowd_is_counted() {
        let waits = (0..25).map(|at| line(&format!("h{at}"), "deploying", None, 1));
        let mut picture = picture(waits.collect());
        picture.elapsed = picture.expected * 3;
        let lines = picture.draw(80);
        assert!(lines[0].contains(">]"), "{}", lines[0]);
        assert_eq!(lines.len(), 22);
        assert_eq!(lines[21], "  and 5 more");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(
            subject in ".{0,60}", reason in ".{0,200}", percent in proptest::option::of(0..=255_u8), width in 0..200_usize
        ) {
            for line in picture(vec![line(&subject, &reason, percent, 4000)]).draw(width) {
                prop_assert!(line.chars().count() <= width.max(NARROWEST), "{line:?}");
                prop_assert!(!line.contains('\n'));
            }
        }
    }
}
