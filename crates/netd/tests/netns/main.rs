//! Nodes on a bridge, with real sockets and the kernel's own addresses.
//!
//! Needs root and iproute2; fails, and says so, without.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../rack/mod.rs"]
mod rack;

mod vip;
