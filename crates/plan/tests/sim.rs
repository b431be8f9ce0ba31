//! Installs in virtual time: installers that are killed, bootstrap VMs that die or are taken away, servers that lose
//! power or do not do what they should. Every step is the one of `plan::install`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

#[path = "sim/install.rs"]
mod install;
#[path = "sim/world.rs"]
mod world;
