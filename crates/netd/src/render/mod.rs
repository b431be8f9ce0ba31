//! The same decisions as configuration for the programs that netd stands for, where a site must run those.

mod haproxy;
mod keepalived;
mod names;

pub use haproxy::haproxy;
pub use keepalived::keepalived;
pub use names::{corefile, dhclient};

use crate::config::{Config, Probe};

/// Something that cannot be said in the other program's words.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("the configuration has no {0}")]
    Nothing(&'static str),
    #[error("vip {0}: the link is not known; write interface:, or run this on the node")]
    NoLink(String),
    #[error("listener {0}: backends come from members, and none is known here; write backends:")]
    NoBackends(String),
}

/// The command that answers what a check asks, for programs that run one.
fn command(probe: &Probe, timeout_ms: u128, config: &Config) -> String {
    let limit = format!("{}.{:03}", timeout_ms / 1000, timeout_ms % 1000);
    let curl = |insecure: bool, url: &str, status: u16| {
        let insecure = if insecure { "-k " } else { "" };
        format!(
            "/bin/sh -c 'test $(curl -s {insecure}-m {limit} -o /dev/null -w %{{http_code}} {url}) = {status}'"
        )
    };
    match probe {
        Probe::Http {
            url,
            status,
            insecure,
        } => curl(*insecure, url, *status),
        Probe::Tcp(to) => format!(
            "/usr/bin/timeout {limit} /bin/bash -c '</dev/tcp/{}/{}'",
            to.ip(),
            to.port()
        ),
        Probe::File(path) => format!("/usr/bin/test -e {}", path.display()),
        Probe::Command(words) => words.join(" "),
        Probe::Lb { listener, .. } => {
            let at = config.lb.iter().position(|other| other.name == *listener);
            let port = haproxy::monitor_port(at.unwrap_or_default());
            curl(
                false,
                &format!("http://127.0.0.1:{port}/haproxy_monitor"),
                200,
            )
        }
    }
}
