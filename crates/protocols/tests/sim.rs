//! Whole groups of machines in virtual time, with faults from a seed. Every failure names its seed.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "sim/vrrp.rs"]
mod vrrp;
