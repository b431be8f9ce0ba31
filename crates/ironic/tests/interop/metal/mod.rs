//! Real hardware types against BMCs: those of the lab, vendor by vendor, and strangers'.

#[path = "../../../../clients/tests/interop/bmc.rs"]
mod bmc;
#[path = "../../../../clients/tests/interop/emulator.rs"]
mod emulator;
mod faults;
mod node;
#[allow(
    clippy::duplicate_mod,
    reason = "an environment of its own, with other requirements"
)]
#[path = "../../../../lab/tests/interop/python.rs"]
mod python;
mod strangers;
mod vendors;

/// What the foreign BMC in Python is.
const REQUIREMENTS: &str = include_str!("../../../../clients/tests/interop/requirements.txt");
