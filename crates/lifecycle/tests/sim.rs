//! Racks of hosts in virtual time: an operator, Ironic, BMCs and users, with faults from a seed. Every failure names
//! its seed, and what must always hold is checked after every call.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "sim/dice.rs"]
mod dice;
#[path = "sim/hosts.rs"]
mod hosts;
#[path = "sim/ironic.rs"]
mod ironic;
#[path = "sim/machines.rs"]
mod machines;
#[path = "sim/operator.rs"]
mod operator;
#[path = "sim/rack.rs"]
mod rack;
