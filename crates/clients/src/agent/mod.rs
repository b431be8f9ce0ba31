//! A client of the agent's HTTP API: the small server that runs on a host while it is inspected, cleaned or written.
//!
//! ```text
//!   client ── commands: list, run and wait, start unless started     what is asked of an agent
//!      │
//!   call ── one request: pinned, timed, tried again                  what it takes to be answered
//! ```
//!
//! An agent is known by the certificate it sent with its heartbeat, and by nothing else: neither its name nor its clock,
//! which on a bare server may be years wrong. Whoever answers with another certificate is another agent.

mod call;
mod client;
mod command;
mod error;
mod pin;
#[cfg(test)]
mod tests;

pub use client::{Client, Config, Limits, newer};
pub use command::{Command, CommandError, Progress, Status};
pub use error::Error;
