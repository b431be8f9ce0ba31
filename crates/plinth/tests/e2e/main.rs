//! QEMU servers of the lab, from power on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../harness/mod.rs"]
mod harness;

mod deploy;
mod install;
mod rack;
mod serve;
