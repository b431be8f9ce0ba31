//! Restarting and switching off this very machine.

use std::convert::Infallible;
use std::io;

use nix::sys::reboot::{RebootMode, reboot as nix_reboot};

/// Restarts at once, after writing out what file systems hold. Returns only if it may not.
pub fn reboot() -> io::Result<Infallible> {
    go(RebootMode::RB_AUTOBOOT)
}

/// Switches off at once, after writing out what file systems hold. Returns only if it may not.
pub fn power_off() -> io::Result<Infallible> {
    go(RebootMode::RB_POWER_OFF)
}

/// Starts the kernel loaded before with kexec. Returns only if it may not.
pub fn kexec() -> io::Result<Infallible> {
    go(RebootMode::RB_KEXEC)
}

fn go(mode: RebootMode) -> io::Result<Infallible> {
    nix::unistd::sync();
    Ok(nix_reboot(mode)?)
}
