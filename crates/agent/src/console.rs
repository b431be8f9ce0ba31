//! What a person at the console sees, and what is kept of it for those who ask later.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static KEPT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
const MOST_KEPT: usize = 5000;

/// One line of progress, with the seconds since the kernel started.
pub fn say(text: &str) {
    let text = format!("plinth-agent [{:>7}] {text}", uptime());
    keep(&text);
    line(&text);
}

/// A line as it is. A console that is gone is no reason to stop.
pub fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

/// Everything said so far, as far as it is kept.
pub fn said() -> String {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

fn keep(text: &str) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= MOST_KEPT {
        kept.pop_front();
    }
    kept.push_back(text.to_owned());
}

fn uptime() -> String {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

/// Sends what the library logs to the console; with `debug`, all of ours.
pub fn log_here(debug: bool) {
    let _ = tracing::subscriber::set_global_default(Console { debug });
}

/// As little of a subscriber as a console needs: no spans.
struct Console {
    debug: bool,
}

impl Subscriber for Console {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target().starts_with("agent") || metadata.target().starts_with("linux");
        let most = if self.debug && ours {
            Level::DEBUG
        } else {
            Level::INFO
        };
        *metadata.level() <= most && (ours || *metadata.level() <= Level::WARN)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        say(&format!("{}{}", line.message, line.fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            // There is one server here.
            "server" => {}
            name => _ = write!(self.fields, " {name}={value}"),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
