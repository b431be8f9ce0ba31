//! Tap devices: a link whose other end is a descriptor, which QEMU is given.

#![expect(
    unsafe_code,
    reason = "TUNSETIFF and TUNSETPERSIST exist only as ioctls"
)]

use std::fs::OpenOptions;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::{link, netlink, netns};

/// What went wrong with a tap device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no /dev/net/tun: load the kernel module \"tun\"")]
    NoDevice { source: io::Error },
    #[error("could not open /dev/net/tun (this needs root)")]
    OpenDevice { source: io::Error },
    #[error("tap {name:?} is in use by another program")]
    Busy { name: String },
    #[error("could not attach to tap {name:?}")]
    Attach { name: String, source: io::Error },
    #[error(transparent)]
    Name(netlink::Error),
    #[error("could not reach the namespace of tap {name:?}")]
    Namespace { name: String, source: netns::Error },
}

/// Opens tap `name` in the calling thread's namespace, making it if need be.
///
/// One that was made here disappears when the descriptor closes; a persistent one stays, without
/// carrier. With `vnet_hdr` each frame carries a virtio header, as QEMU's virtio-net prefers.
pub fn open(name: &str, vnet_hdr: bool) -> Result<OwnedFd, Error> {
    link::check_name(name).map_err(Error::Name)?;
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NoDevice { source },
            _ => Error::OpenDevice { source },
        })?;
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI;
    if vnet_hdr {
        flags |= libc::IFF_VNET_HDR;
    }
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, and the name in it ends with a zero (checked above).
    let attached = unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            libc::TUNSETIFF as libc::Ioctl,
            &raw mut request,
        )
    };
    if attached < 0 {
        let source = io::Error::last_os_error();
        let name = name.to_owned();
        return Err(match source.raw_os_error() {
            Some(libc::EBUSY) => Error::Busy { name },
            _ => Error::Attach { name, source },
        });
    }
    Ok(device.into())
}

/// As [`open`], in another namespace; the calling thread stays where it is.
pub fn open_in(namespace: &netns::Namespace, name: &str, vnet_hdr: bool) -> Result<OwnedFd, Error> {
    namespace
        .run_in(|| open(name, vnet_hdr))
        .map_err(|source| Error::Namespace {
            name: name.to_owned(),
            source,
        })?
}

/// Makes a tap that stays until its link is removed, with or without a program at its other end.
pub fn ensure_persistent(name: &str) -> Result<(), Error> {
    let fd = match open(name, true) {
        Ok(fd) => fd,
        // Someone is attached, so it exists; whether it persists is up to who made it.
        Err(Error::Busy { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let on: libc::c_ulong = 1;
    // SAFETY: TUNSETPERSIST takes a plain number.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETPERSIST as libc::Ioctl, on) } < 0 {
        return Err(Error::Attach {
            name: name.to_owned(),
            source: io::Error::last_os_error(),
        });
    }
    Ok(())
}

/// As [`ensure_persistent`], in another namespace.
pub fn ensure_persistent_in(namespace: &netns::Namespace, name: &str) -> Result<(), Error> {
    namespace
        .run_in(|| ensure_persistent(name))
        .map_err(|source| Error::Namespace {
            name: name.to_owned(),
            source,
        })?
}
