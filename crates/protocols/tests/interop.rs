//! Third-party programs at the other end of our machines. They must be installed: `cargo xtask deps`.

#[path = "interop/ipmi.rs"]
mod ipmi;
#[path = "interop/ipmi_sim.rs"]
mod ipmi_sim;
