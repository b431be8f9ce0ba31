//! The lab's servers with third-party programs at the other end.

#[path = "../harness/mod.rs"]
mod harness;

mod netboot;
