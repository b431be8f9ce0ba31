//! The rtnetlink connection: one per namespace, cheap to clone.
//!
//! The verbs are in [`crate::link`], [`crate::addr`] and [`crate::route`]. `ensure_*` and `remove_*`
//! may be called again: what is already so is success.

use std::future::Future;
use std::io;
use std::time::Duration;

use rtnetlink::Handle;

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
