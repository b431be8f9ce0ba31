//! Our virtual router beside a stranger's.
//!
//! Needs root and keepalived, dnsmasq, dig, dnsperf, avahi and dbus-daemon (Debian packages keepalived,
//! dnsmasq-base, bind9-dnsutils, dnsperf, avahi-daemon, avahi-utils, dbus-daemon, util-linux); fails, and says so, without.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../rack/names.rs"]
mod names;
#[path = "../rack/mod.rs"]
mod rack;

mod avahi;
mod dig;
mod keepalived;
mod render;
