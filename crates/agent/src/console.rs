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

fn uptime() -> String {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
