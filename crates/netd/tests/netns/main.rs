//! Nodes on a bridge, with real sockets and the kernel's own addresses.
//!
//! Needs root and iproute2; fails, and says so, without.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../rack/names.rs"]
mod names;
#[path = "../rack/mod.rs"]
mod rack;

mod dns;
mod lb;
mod mdns;
mod tls;
mod vip;
