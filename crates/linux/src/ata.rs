//! ATA security: a disk erases itself (ACS-4, 4.18), through the SCSI layer's ATA pass-through (SAT-4, 12.2.2).

#![expect(unsafe_code, reason = "ATA commands go through an ioctl")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// `struct sg_io_hdr` of scsi/sg.h.
#[repr(C)]
struct SgIo {
    interface: i32,
    direction: i32,
    command_len: u8,
    sense_len: u8,
    iovec_count: u16,
    data_len: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_written: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration: u32,
    info: u32,
}

mod ioctl {
    nix::ioctl_readwrite_bad!(sg_io, 0x2285, super::SgIo);
}

const NONE: i32 = -1;
const TO_DEVICE: i32 = -2;
const FROM_DEVICE: i32 = -3;

/// What a disk says of its security features (IDENTIFY DEVICE, words 82, 85, 89, 90 and 128).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Security {
    pub supported: bool,
    pub enabled: bool,
    pub locked: bool,
    /// The firmware forbade changes until the next power cycle.
    pub frozen: bool,
    pub enhanced: bool,
    /// What the disk thinks it takes.
    pub estimate: Duration,
}

pub fn security(device: &File) -> io::Result<Security> {
    let mut data = [0; 512];
    // IDENTIFY DEVICE
    run(
        device,
        0xec,
        Some((FROM_DEVICE, &mut data)),
        Duration::from_secs(10),
    )?;
    Ok(read(&data))
}

fn read(identify: &[u8; 512]) -> Security {
    let word = |number: usize| u16::from_le_bytes([identify[2 * number], identify[2 * number + 1]]);
    let status = word(128);
    let enhanced = status & 0x20 != 0;
    // In units of two minutes.
    let units = word(if enhanced { 90 } else { 89 }) & 0xff;
    Security {
        supported: word(82) & 2 != 0 && status & 1 != 0,
        enabled: word(85) & 2 != 0,
        locked: status & 4 != 0,
        frozen: status & 8 != 0,
        enhanced,
        estimate: Duration::from_mins(2 * u64::from(units)),
    }
}

/// Sets a throw-away password and has the disk erase itself, which also removes it.
pub fn erase(device: &File, security: Security) -> io::Result<()> {
    let short = Duration::from_secs(30);
    // Disks often need longer than they think; the longest known take most of a day.
    let long = (security.estimate * 3).max(Duration::from_hours(12));
    let mut set = password(false);
    // SECURITY SET PASSWORD, SECURITY ERASE PREPARE, SECURITY ERASE UNIT
    run(device, 0xf1, Some((TO_DEVICE, &mut set)), short)?;
    let result = run(device, 0xf3, None, short).and_then(|()| {
        let mut erase = password(security.enhanced);
        run(device, 0xf4, Some((TO_DEVICE, &mut erase)), long)
    });
    if result.is_err() {
        // SECURITY DISABLE PASSWORD: a disk must not stay locked behind a password nobody knows.
        let mut disable = password(false);
        let _ = run(device, 0xf6, Some((TO_DEVICE, &mut disable)), short);
    }
    result
}

/// Word 0 says whose password (user, bit 0) and how to erase (enhanced, bit 1); the password follows.
fn password(enhanced: bool) -> [u8; 512] {
    let mut data = [0; 512];
    data[0] = u8::from(enhanced) << 1;
    data[2..8].copy_from_slice(b"plinth");
    data
}

fn run(
    device: &File,
    command: u8,
    data: Option<(i32, &mut [u8; 512])>,
    limit: Duration,
) -> io::Result<()> {
    let mut cdb = [0_u8; 16];
    // ATA PASS-THROUGH (16): no data, PIO in or PIO out; the length in blocks is in the count.
    cdb[0] = 0x85;
    let (direction, pointer, len) = match data {
        None => {
            cdb[1] = 3 << 1;
            (NONE, std::ptr::null_mut(), 0)
        }
        Some((direction, data)) => {
            let incoming = direction == FROM_DEVICE;
            cdb[1] = if incoming { 4 << 1 } else { 5 << 1 };
            cdb[2] = if incoming { 0x0e } else { 0x06 };
            cdb[6] = 1;
            (direction, data.as_mut_ptr(), 512)
        }
    };
    cdb[14] = command;
    let mut sense = [0_u8; 32];
    let mut request = SgIo {
        interface: i32::from(b'S'),
        direction,
        command_len: 16,
        sense_len: 32,
        iovec_count: 0,
        data_len: len,
        data: pointer,
        command: cdb.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: limit.as_millis().try_into().unwrap_or(u32::MAX),
        flags: 0,
        pack_id: 0,
        user: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_written: 0,
        host_status: 0,
        driver_status: 0,
        residual: 0,
        duration: 0,
        info: 0,
    };
    // SAFETY: the request is as the kernel defines it, and its three buffers outlive the call.
    unsafe { ioctl::sg_io(device.as_raw_fd(), &raw mut request) }?;
    if request.status == 0 && request.host_status == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the disk refuses ATA command {command:#04x} (status {:#x}, host {:#x})",
        request.status, request.host_status
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_as_large_as_the_kernels() {
        assert_eq!(size_of::<SgIo>(), 88);
    }

    #[test]
    fn security_is_read_from_what_the_disk_says() {
        let mut identify = [0; 512];
        let mut set = |word: usize, value: u16| {
            identify[2 * word..2 * word + 2].copy_from_slice(&value.to_le_bytes());
        };
        set(82, 2);
        set(128, 0x29);
        set(90, 30);
        let security = read(&identify);
        assert!(security.supported && security.frozen && security.enhanced);
        assert!(!security.enabled && !security.locked);
        assert_eq!(security.estimate, Duration::from_hours(1));
    }
}
