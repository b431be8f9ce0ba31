//! Our virtual router beside a stranger's.
//!
//! Needs root and keepalived (Debian package keepalived); fails, and says so, without.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../rack/mod.rs"]
mod rack;

mod keepalived;
