//! The protocol between Ironic and the agent in a server's ramdisk (ironic-python-agent's), over any [`Machine`].
//!
//! ```text
//!            Ironic                                    agent
//!   continue_inspection  ◀── report ─────────┐
//!   lookup               ◀──────────────── shell ── life (pure: what next, when)
//!   heartbeat            ◀───────────────────┤
//!   agent client ── HTTPS, token ──▶ server ─┤ orders
//!                                            └─▶ work ──▶ Machine (blocking threads)
//!                                        command: what runs, what ran
//! ```
//!
//! [`run`] is one server's agent: one task and what it spawns, gone when the future is dropped.

pub mod certificate;
mod command;
mod image;
mod ironic;
mod life;
mod machine;
mod report;
mod root_disk;
mod server;
mod shell;
mod step;
mod token;
mod work;

pub use certificate::Identity;
pub use image::Image;
pub use machine::{Erase, Failure, Job, Machine, PciDevice, Progress, Thorough};
pub use shell::{Error, Settings, run};
pub use work::End;

#[cfg(test)]
mod tests;
