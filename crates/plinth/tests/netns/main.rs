//! The lab through its command line, with simulated servers on real sockets.

#[path = "../harness/mod.rs"]
mod harness;

mod faults;
mod life;
