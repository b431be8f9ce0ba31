//! The rtnetlink connection: one per namespace, cheap to clone.
//!
//! [`Changes`] tells when it is worth looking again. The verbs are in [`crate::link`], [`crate::addr`] and [`crate::route`]. `ensure_*` and `remove_*`
//! may be called again: what is already so is success.

#![expect(
    unsafe_code,
    reason = "only the caller knows that a descriptor stays the same open file"
)]

use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    self, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType,
};
use rtnetlink::Handle;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::netns::{self, Namespace};

/// The kernel answers within microseconds; a silence this long means the answer was lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// What went wrong with a link, an address or a route.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not open a netlink socket")]
    Connect { source: io::Error },
    #[error("could not open a netlink socket in another namespace")]
    Namespace { source: netns::Error },
    #[error("{name:?} is not a link name; it must have 1 to 15 characters, no slash, no space")]
    LinkName { name: String },
    #[error("there is no link {name:?}")]
    NoSuchLink { name: String },
    #[error("link {name:?} exists, but as {found} where {wanted} is wanted")]
    OtherKind {
        name: String,
        found: String,
        wanted: &'static str,
    },
    #[error("could not {doing}")]
    Request { doing: String, source: io::Error },
    #[error("no answer from the kernel within {} s while trying to {doing}", PATIENCE.as_secs())]
    Silence { doing: String },
    #[error("link {name:?} has no carrier after {} ms", waited.as_millis())]
    NoCarrier { name: String, waited: Duration },
}

impl Error {
    /// The errno behind it, if the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Connect { source } | Self::Request { source, .. } => source.raw_os_error(),
            Self::Namespace { .. }
            | Self::LinkName { .. }
            | Self::NoSuchLink { .. }
            | Self::OtherKind { .. }
            | Self::Silence { .. }
            | Self::NoCarrier { .. } => None,
        }
    }
}

/// A connection to the kernel's network configuration, in the namespace where it was made.
#[derive(Debug, Clone)]
pub struct Netlink {
    pub(crate) handle: Handle,
}

impl Netlink {
    /// Connects in the calling thread's namespace. Needs a tokio runtime, which serves the connection
    /// until the last clone is dropped.
    pub fn connect() -> Result<Self, Error> {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(|source| Error::Connect { source })?;
        tokio::spawn(connection);
        Ok(Self { handle })
    }

    /// Connects in another namespace; the calling thread stays where it is.
    pub fn connect_in(namespace: &Namespace) -> Result<Self, Error> {
        namespace
            .run_in(Self::connect)
            .map_err(|source| Error::Namespace { source })?
    }

    /// Awaits one request; `doing` completes the sentence "could not ...".
    pub(crate) async fn ask<T>(
        doing: impl FnOnce() -> String,
        request: impl Future<Output = Result<T, rtnetlink::Error>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(PATIENCE, request).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Error::Request {
                doing: doing(),
                source: io_error(error),
            }),
            Err(_) => Err(Error::Silence { doing: doing() }),
        }
    }

    /// As [`Netlink::ask`]; the given errnos mean that it is so already. True if something changed.
    pub(crate) async fn ensure(
        doing: impl FnOnce() -> String,
        already: &[i32],
        request: impl Future<Output = Result<(), rtnetlink::Error>>,
    ) -> Result<bool, Error> {
        match Self::ask(doing, request).await {
            Ok(()) => Ok(true),
            Err(error) if error.errno().is_some_and(|errno| already.contains(&errno)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Tells that a link has changed or an address is gone; which one is for a look to find out. New addresses are not
/// told: they take nothing away, and one that is renewed again and again would wake its listeners every time.
#[derive(Debug)]
pub struct Changes {
    socket: AsyncFd<OwnedFd>,
}

impl Changes {
    /// Of the calling thread's namespace. Needs a tokio runtime.
    pub fn subscribe() -> Result<Self, Error> {
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        let open = || {
            let socket = socket::socket(
                AddressFamily::Netlink,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
                SockProtocol::NetlinkRoute,
            )?;
            socket::bind(
                socket.as_raw_fd(),
                &NetlinkAddr::new(0, groups.cast_unsigned()),
            )?;
            // SAFETY: an owned descriptor stays the same open file for its whole life.
            let registered = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
            registered.map_err(io::Error::from)
        };
        let socket = open().map_err(|source| Error::Connect { source })?;
        Ok(Self { socket })
    }

    /// Waits for the next change, and forgets all that have come by then.
    pub async fn changed(&mut self) -> Result<(), Error> {
        let failed = |source| Error::Request {
            doing: "hear of changed links".into(),
            source,
        };
        loop {
            let mut ready = self.socket.readable().await.map_err(failed)?;
            if drain(self.socket.as_raw_fd()).map_err(failed)? {
                return Ok(());
            }
            ready.clear_ready();
        }
    }
}

/// Whether there was anything of interest. Readiness is cleared by the next call: it finds nothing and waits.
fn drain(socket: RawFd) -> io::Result<bool> {
    let mut some = false;
    // Only what kind of message it is counts: the rest of it is cut off.
    let mut head = [0; 16];
    loop {
        match socket::recv(socket, &mut head, MsgFlags::MSG_DONTWAIT) {
            Ok(_) => some |= u16::from_ne_bytes([head[4], head[5]]) != libc::RTM_NEWADDR,
            // Too many for the socket to hold: certainly a change.
            Err(Errno::ENOBUFS) => some = true,
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Ok(some),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn io_error(error: rtnetlink::Error) -> io::Error {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles, or daemons could not use it in their tasks.
    #[test]
    fn requests_can_be_made_in_spawned_tasks() {
        fn is_send<T: Send>(_: impl Fn(Netlink) -> T) {}
        is_send(|netlink| async move { netlink.ensure_bridge("br0").await });
        is_send(|netlink| async move { netlink.addresses_of("br0").await });
        is_send(|netlink| async move { netlink.routes().await });
    }
}
