//! The lab's servers with third-party programs at the other end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../harness/mod.rs"]
mod harness;

mod names;
mod netboot;
