//! What a person at the console sees.

use std::fs;
use std::io::Write;

/// One line of progress, with the seconds since the kernel started.
pub fn say(text: &str) {
    line(&format!("plinth-agent [{:>7}] {text}", uptime()));
}

/// A line as it is. A console that is gone is no reason to stop.
pub fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

/// An error with its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn uptime() -> String {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
