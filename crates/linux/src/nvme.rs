//! NVMe administration: what a drive can erase by itself, and having it do so (NVM Express Base 2.0, 5.14 and 5.17).

#![expect(unsafe_code, reason = "NVMe commands go through an ioctl")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// `struct nvme_admin_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

mod ioctl {
    nix::ioctl_none!(id, b'N', 0x40);
    nix::ioctl_readwrite!(admin, b'N', 0x41, super::Command);
}

const IDENTIFY: u8 = 0x06;
const FORMAT: u8 = 0x80;
const CONTROLLER: u32 = 1;
const NAMESPACE: u32 = 0;

/// How a drive erases a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erase {
    /// All user data is overwritten.
    UserData = 1,
    /// The key that everything is encrypted with is thrown away.
    Crypto = 2,
}

/// The best way this drive has; nothing if it has none.
pub fn best_erase(device: &File) -> io::Result<Option<Erase>> {
    let controller = identify(device, 0, CONTROLLER)?;
    Ok(best(&controller))
}

/// Bytes 256-257, bit 1: the format command is there. Byte 524, bit 2: it can throw the key away.
fn best(controller: &[u8; 4096]) -> Option<Erase> {
    let can_format = controller[256] & 2 != 0;
    let can_crypto = controller[524] & 4 != 0;
    match (can_format, can_crypto) {
        (true, true) => Some(Erase::Crypto),
        (true, false) => Some(Erase::UserData),
        (false, _) => None,
    }
}

/// Erases the namespace this device is, keeping its sector size.
pub fn erase(device: &File, how: Erase, limit: Duration) -> io::Result<()> {
    // SAFETY: takes no argument; the answer is the number of the namespace.
    let nsid = unsafe { ioctl::id(device.as_raw_fd()) }?;
    let nsid = u32::try_from(nsid).map_err(io::Error::other)?;
    let namespace = identify(device, nsid, NAMESPACE)?;
    // Byte 26: the format in use, its low four bits here and two more above the metadata's bit.
    let format = u32::from(namespace[26] & 0xf) | (u32::from(namespace[26] >> 5 & 3) << 4);
    let metadata_in_line = u32::from(namespace[26] >> 4 & 1);
    let low = format & 0xf;
    let high = format >> 4;
    let mut command = Command {
        opcode: FORMAT,
        nsid,
        cdw10: low | (metadata_in_line << 4) | ((how as u32) << 9) | (high << 12),
        timeout_ms: limit.as_millis().try_into().unwrap_or(u32::MAX),
        ..Command::default()
    };
    run(device, &mut command)
}

fn identify(device: &File, nsid: u32, what: u32) -> io::Result<Box<[u8; 4096]>> {
    let mut data = Box::new([0_u8; 4096]);
    let mut command = Command {
        opcode: IDENTIFY,
        nsid,
        addr: data.as_mut_ptr() as u64,
        data_len: data.len() as u32,
        cdw10: what,
        timeout_ms: 10_000,
        ..Command::default()
    };
    run(device, &mut command)?;
    Ok(data)
}

fn run(device: &File, command: &mut Command) -> io::Result<()> {
    // SAFETY: the command is as the kernel defines it, and its buffer outlives the call.
    let status = unsafe { ioctl::admin(device.as_raw_fd(), command) }?;
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::other(format!("the drive answers {status:#x}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_as_large_as_the_kernels() {
        assert_eq!(size_of::<Command>(), 72);
    }

    #[test]
    fn the_best_way_to_erase_is_read_from_what_the_drive_says() {
        let mut controller = [0; 4096];
        assert_eq!(best(&controller), None);
        controller[256] = 2;
        assert_eq!(best(&controller), Some(Erase::UserData));
        controller[524] = 4;
        assert_eq!(best(&controller), Some(Erase::Crypto));
    }

    #[test]
    fn a_plain_file_is_no_drive() {
        let file = tempfile::tempfile().unwrap();
        let error = best_erase(&file).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY), "{error}");
    }
}
