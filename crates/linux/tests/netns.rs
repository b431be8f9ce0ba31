//! The kernel as we set it up, checked by strangers: iproute2, and the kernel's own UDP sockets.
//!
//! Needs root and iproute2; fails, and says so, without.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "netns/links.rs"]
mod links;
#[path = "netns/namespaces.rs"]
mod namespaces;
#[path = "netns/packets.rs"]
mod packets;
#[path = "netns/system.rs"]
mod system;

use linux::netns::Host;
use serde_json::Value;

fn host(name: &str) -> Host {
    Host::new(name).expect("a network namespace (this needs root)")
}

/// What `ip -j -d ARGS` says on the host.
fn ip(host: &Host, args: &[&str]) -> Value {
    let output = host
        .command("ip")
        .args(["-j", "-d"])
        .args(args)
        .output()
        .expect("ip (Debian package iproute2)");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "ip {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_str(if text.trim().is_empty() { "[]" } else { &text }).expect("JSON from ip")
}
