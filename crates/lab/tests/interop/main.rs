//! Third-party programs at the other end of the lab's protocols.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod python;
mod redfish;

/// What the clients in Python are.
const REQUIREMENTS: &str = include_str!("requirements.txt");
