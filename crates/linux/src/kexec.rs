//! Another kernel in the place of this one, without the firmware.

#![expect(unsafe_code, reason = "the C library has no word for this system call")]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// No initrd.
const NO_INITRD: libc::c_ulong = 4;

/// Loads a kernel; [`crate::power::kexec`] starts it. Needs root, and a kernel that allows it: one under lockdown wants
/// the image signed.
pub fn load(kernel: &File, initrd: Option<&File>, line: &str) -> io::Result<()> {
    let line = CString::new(line)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a kernel line with a zero"))?;
    let line = line.as_bytes_with_nul();
    let flags = if initrd.is_none() { NO_INITRD } else { 0 };
    // SAFETY: both descriptors are open for as long as the call lasts, and the line is as long as it is said to be.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_kexec_file_load,
            kernel.as_raw_fd(),
            initrd.map_or(-1, File::as_raw_fd),
            line.len(),
            line.as_ptr(),
            flags,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
