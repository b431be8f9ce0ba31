//! `plinth lab up`: whole clusters, one at a time, because each takes the whole machine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::print_stdout,
    reason = "who reads a failed test wants to know what the cluster said"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod life;
mod site;
