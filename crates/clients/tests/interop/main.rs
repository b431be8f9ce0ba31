//! Our clients against BMCs: those of the lab, vendor by vendor, and strangers'.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod bmc;
mod emulator;
mod ipmi;
mod lab_redfish;
#[path = "../../../lab/tests/interop/python.rs"]
mod python;
mod sol;
mod sushy_tools;

/// What the clients in Python are.
const REQUIREMENTS: &str = include_str!("requirements.txt");
