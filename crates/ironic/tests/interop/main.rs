//! Third parties at both ends: the `baremetal` command line and openstacksdk as clients, BMCs as hardware.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod command_line;
mod ipa;
mod kept;
mod metal;
#[path = "../../../lab/tests/interop/python.rs"]
mod python;
mod sdk;
mod service;
mod tftp;

/// What the clients in Python are.
const REQUIREMENTS: &str = include_str!("requirements.txt");
