//! The kernel's messages (`dmesg`).

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

/// All messages the kernel still has, one record a line, oldest first; empty where it may not be read.
pub fn read() -> Vec<u8> {
    let open = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/kmsg");
    let Ok(mut kmsg) = open else {
        return Vec::new();
    };
    let mut all = vec![];
    let mut record = vec![0; 8192];
    // Each read gives one record; overwritten ones are an error that passes.
    loop {
        match kmsg.read(&mut record) {
            Ok(0) => return all,
            Ok(len) => all.extend_from_slice(&record[..len]),
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return all,
        }
    }
}
