//! The server's own BMC, asked from within through the kernel's IPMI driver (linux/ipmi.h).

#![expect(unsafe_code, reason = "IPMI messages go through ioctls")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

#[repr(C)]
struct Address {
    kind: i32,
    channel: i16,
    lun: u8,
    padding: u8,
}

#[repr(C)]
struct Message {
    netfn: u8,
    command: u8,
    data_len: u16,
    data: *mut u8,
}

#[repr(C)]
struct Request {
    address: *const Address,
    address_len: u32,
    id: libc::c_long,
    message: Message,
}

#[repr(C)]
struct Received {
    kind: i32,
    address: *mut Address,
    address_len: u32,
    id: libc::c_long,
    message: Message,
}

mod ioctl {
    nix::ioctl_read!(send, b'i', 13, super::Request);
    nix::ioctl_readwrite!(receive, b'i', 11, super::Received);
}

const SYSTEM_INTERFACE: i32 = 0x0c;
const BMC_CHANNEL: i16 = 0xf;

/// An open IPMI driver.
#[derive(Debug)]
pub struct Bmc {
    device: File,
}

impl Bmc {
    pub fn open(device: &Path) -> io::Result<Self> {
        let device = File::options().read(true).write(true).open(device)?;
        Ok(Self { device })
    }

    /// Sends a request and waits for its answer: the completion code and what follows.
    pub fn ask(&self, netfn: u8, command: u8, data: &[u8], limit: Duration) -> io::Result<Vec<u8>> {
        let address = Address {
            kind: SYSTEM_INTERFACE,
            channel: BMC_CHANNEL,
            lun: 0,
            padding: 0,
        };
        let mut data = data.to_vec();
        let id = 1;
        let mut request = Request {
            address: &raw const address,
            address_len: size_of::<Address>() as u32,
            id,
            message: Message {
                netfn,
                command,
                data_len: data.len() as u16,
                data: data.as_mut_ptr(),
            },
        };
        // SAFETY: the request is as the kernel defines it; address and data outlive the call.
        unsafe { ioctl::send(self.device.as_raw_fd(), &raw mut request) }?;
        let until = Instant::now() + limit;
        loop {
            self.wait(until.saturating_duration_since(Instant::now()))?;
            let (answered, answer) = self.receive()?;
            if answered == id {
                return Ok(answer);
            }
        }
    }

    fn wait(&self, limit: Duration) -> io::Result<()> {
        let mut fd = libc::pollfd {
            fd: self.device.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let limit = limit.as_millis().try_into().unwrap_or(libc::c_int::MAX);
        // SAFETY: the kernel reads and writes one pollfd.
        match unsafe { libc::poll(&raw mut fd, 1, limit) } {
            0 => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the BMC does not answer",
            )),
            1.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn receive(&self) -> io::Result<(libc::c_long, Vec<u8>)> {
        let mut address = [0_u64; 8];
        let mut data = vec![0; 272];
        let mut received = Received {
            kind: 0,
            address: address.as_mut_ptr().cast(),
            address_len: size_of_val(&address) as u32,
            id: 0,
            message: Message {
                netfn: 0,
                command: 0,
                data_len: data.len() as u16,
                data: data.as_mut_ptr(),
            },
        };
        // SAFETY: the message is as the kernel defines it; it writes within the lengths given.
        unsafe { ioctl::receive(self.device.as_raw_fd(), &raw mut received) }?;
        data.truncate(received.message.data_len.into());
        Ok((received.id, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_large_as_the_kernels() {
        assert_eq!(size_of::<Request>(), 40);
        assert_eq!(size_of::<Received>(), 48);
    }

    #[test]
    fn a_plain_file_is_no_bmc() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bmc = Bmc::open(file.path()).unwrap();
        assert!(bmc.ask(6, 1, &[], Duration::from_secs(1)).is_err());
    }
}
