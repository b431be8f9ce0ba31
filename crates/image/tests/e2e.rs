//! What is built boots: the ramdisk and the OS image, in QEMU, by BIOS and UEFI.
//!
//! Needs root, the packages that `cargo xtask deps` installs, and a Debian mirror for the first run.

#![expect(
    clippy::unwrap_used,
    reason = "tests, with helpers outside of test functions"
)]

#[path = "e2e/guest.rs"]
mod guest;
#[path = "e2e/os.rs"]
mod os;
#[path = "e2e/ramdisk.rs"]
mod ramdisk;
