//! The lab's servers with third-party programs at the other end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../harness/mod.rs"]
mod harness;

mod console;
mod names;
mod netboot;
mod node;
mod operator;
mod plan;
mod preflight;
mod provision;
#[path = "../../../lab/tests/interop/python.rs"]
mod python;

/// What the clients in Python are.
const REQUIREMENTS: &str = include_str!("../../../ironic/tests/interop/requirements.txt");
