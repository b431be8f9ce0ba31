//! The lab through its command line, with simulated servers on real sockets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../../../netd/tests/rack/mod.rs"]
mod rack;

mod faults;
mod life;
mod metal3;
mod netd;
mod vip;
