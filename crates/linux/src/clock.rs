//! The machine's clock.

#![expect(unsafe_code, reason = "setting the clock is a bare system call")]

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// Sets the time of day. Needs root.
pub fn set(time: SystemTime) -> io::Result<()> {
    let since = time
        .duration_since(UNIX_EPOCH)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a time before 1970"))?;
    let value = libc::timespec {
        tv_sec: since.as_secs() as libc::time_t,
        tv_nsec: since.subsec_nanos().into(),
    };
    // SAFETY: the kernel reads one timespec.
    let answer = unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const value) };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
