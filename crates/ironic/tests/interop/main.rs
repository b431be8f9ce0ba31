//! Third-party clients at the other end of the API: the `baremetal` command line and openstacksdk.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod command_line;
#[path = "../../../lab/tests/interop/python.rs"]
mod python;
mod sdk;
mod service;
mod tftp;

/// What the clients in Python are.
const REQUIREMENTS: &str = include_str!("requirements.txt");
