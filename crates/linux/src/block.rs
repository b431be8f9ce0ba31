//! Block devices: what only the kernel's ioctls tell or do.
//!
//! Each function takes the open device; on anything else the kernel answers `ENOTTY`.

#![expect(unsafe_code, reason = "block devices are asked by ioctl")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

mod ioctl {
    use nix::{ioctl_none, ioctl_read, ioctl_read_bad, ioctl_write_ptr_bad, request_code_none};

    // linux/fs.h; the old ones carry a size in their number that is not the size of what they move.
    ioctl_read!(get_size_64, 0x12, 114, libc::size_t);
    ioctl_read_bad!(logical_sector, request_code_none!(0x12, 104), libc::c_int);
    ioctl_read_bad!(physical_sector, request_code_none!(0x12, 123), libc::c_uint);
    ioctl_write_ptr_bad!(discard, request_code_none!(0x12, 119), [u64; 2]);
    ioctl_write_ptr_bad!(zero_out, request_code_none!(0x12, 127), [u64; 2]);
    ioctl_none!(reread_partitions, 0x12, 95);
    ioctl_none!(flush_buffers, 0x12, 97);
}

/// The size in bytes (`BLKGETSIZE64`).
pub fn size(device: &File) -> io::Result<u64> {
    let mut bytes = 0;
    // SAFETY: the kernel writes 64 bits, as wide as size_t wherever we run.
    unsafe { ioctl::get_size_64(device.as_raw_fd(), &raw mut bytes) }?;
    Ok(bytes as u64)
}

/// The smallest unit the device can be addressed by, in bytes (`BLKSSZGET`).
pub fn logical_sector(device: &File) -> io::Result<u64> {
    let mut bytes = 0;
    // SAFETY: the kernel writes one int.
    unsafe { ioctl::logical_sector(device.as_raw_fd(), &raw mut bytes) }?;
    u64::try_from(bytes).map_err(io::Error::other)
}

/// The unit the device works in inside, in bytes (`BLKPBSZGET`).
pub fn physical_sector(device: &File) -> io::Result<u64> {
    let mut bytes = 0;
    // SAFETY: the kernel writes one unsigned int.
    unsafe { ioctl::physical_sector(device.as_raw_fd(), &raw mut bytes) }?;
    Ok(bytes.into())
}

/// Makes a range read as zeros, by the device itself where it can (`BLKZEROOUT`). Both numbers are multiples of
/// the logical sector.
pub fn zero_out(device: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: the kernel reads two 64-bit numbers.
    unsafe { ioctl::zero_out(device.as_raw_fd(), &raw const range) }?;
    Ok(())
}

/// Tells the device that a range is not needed; what it reads as afterwards is not said (`BLKDISCARD`).
pub fn discard(device: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: the kernel reads two 64-bit numbers.
    unsafe { ioctl::discard(device.as_raw_fd(), &raw const range) }?;
    Ok(())
}

/// Has the kernel read the partition table again (`BLKRRPART`); `EBUSY` while a partition is in use.
pub fn reread_partitions(device: &File) -> io::Result<()> {
    // SAFETY: takes no argument.
    unsafe { ioctl::reread_partitions(device.as_raw_fd()) }?;
    Ok(())
}

/// Writes out and forgets what the kernel has cached of the device (`BLKFLSBUF`).
pub fn flush_buffers(device: &File) -> io::Result<()> {
    // SAFETY: takes no argument.
    unsafe { ioctl::flush_buffers(device.as_raw_fd()) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_file_is_not_a_block_device() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let refused = [
            size(&file).map(drop),
            logical_sector(&file).map(drop),
            physical_sector(&file).map(drop),
            zero_out(&file, 0, 512),
            discard(&file, 0, 512),
            reread_partitions(&file),
            flush_buffers(&file),
        ];
        for answer in refused {
            let error = answer.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOTTY), "{error}");
        }
    }
}
