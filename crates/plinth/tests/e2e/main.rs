//! QEMU servers of the lab, from power on.

#[path = "../harness/mod.rs"]
mod harness;

mod rack;
