//! Many descriptors on one thread: edge-triggered epoll, and a bell that other threads ring.

#![expect(unsafe_code, reason = "epoll and eventfd exist only as system calls")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A set of descriptors. Closing a descriptor takes it out.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// Room for what one wait finds.
pub struct Events {
    list: Vec<libc::epoll_event>,
    len: usize,
}

/// What changed about one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// The other side sends no more.
    pub ended: bool,
    /// The connection is broken, or was never made.
    pub failed: bool,
}

impl Epoll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes a number and returns a descriptor that is ours.
        let fd = result(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: just opened, and owned by nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Tells of every change from now on, and of what is so already.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.control(libc::EPOLL_CTL_ADD, fd, events as u32, token)
    }

    /// Tells as long as there is something to read.
    pub fn add_reader(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN as u32, token)
    }

    fn control(&self, what: i32, fd: impl AsFd, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        let (epoll, fd) = (self.0.as_raw_fd(), fd.as_fd().as_raw_fd());
        // SAFETY: the kernel only reads the event.
        result(unsafe { libc::epoll_ctl(epoll, what, fd, &raw mut event) }).map(drop)
    }

    /// Until something changes or the time is up; `None` waits for ever. A signal ends it with nothing.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.len = 0;
        // Rounded up: waking before the time is up would spin.
        let millis = timeout.map_or(-1, |timeout| {
            i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
        });
        let room = i32::try_from(events.list.len()).unwrap_or(i32::MAX);
        // SAFETY: the list has room for as many events as we say.
        let found = result(unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.list.as_mut_ptr(), room, millis)
        });
        match found {
            Ok(found) => events.len = found as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Events {
    pub fn new(room: usize) -> Self {
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Self {
            list: vec![empty; room.max(1)],
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get(&self, at: usize) -> Ready {
        let event = self.list[..self.len][at];
        let has = |flag: i32| event.events & flag as u32 != 0;
        Ready {
            token: event.u64,
            readable: has(libc::EPOLLIN),
            writable: has(libc::EPOLLOUT),
            ended: has(libc::EPOLLRDHUP | libc::EPOLLHUP),
            failed: has(libc::EPOLLERR),
        }
    }
}

/// Wakes a thread that waits; ring it from any thread.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes numbers and returns a descriptor that is ours.
        let fd = result(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: just opened, and owned by nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn ring(&self) {
        // A full counter rings already; nothing else can go wrong.
        let _ = nix::unistd::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes it silent again.
    pub fn quiet(&self) {
        let _ = nix::unistd::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn result(returned: i32) -> io::Result<i32> {
    if returned < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(returned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_change_is_told_once_and_a_bell_until_it_is_quiet() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let (epoll, mut events) = (Epoll::new().unwrap(), Events::new(8));
        let bell = Bell::new().unwrap();
        epoll.add(&near, 7).unwrap();
        epoll.add_reader(&bell, 9).unwrap();
        let soon = Some(Duration::from_millis(1));
        let mut wait = || {
            epoll.wait(&mut events, soon).unwrap();
            (0..events.len())
                .map(|at| events.get(at))
                .collect::<Vec<_>>()
        };
        let first = wait();
        assert!(first.len() == 1 && first[0].writable && !first[0].readable);
        assert!(wait().is_empty());
        far.write_all(b"x").unwrap();
        assert!(wait()[0].readable);
        assert!(wait().is_empty(), "though nobody has read");
        near.read_exact(&mut [0]).unwrap();
        drop(far);
        assert!(wait()[0].ended);
        bell.ring();
        assert_eq!(wait()[0].token, 9);
        assert_eq!(wait()[0].token, 9);
        bell.quiet();
        assert!(wait().is_empty());
    }
}
