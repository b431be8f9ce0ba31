//! Bytes from socket to socket without a copy through this process (splice(2)).

#![expect(unsafe_code, reason = "splice exists only as a system call")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// A kernel pipe that holds bytes between two sockets.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    capacity: usize,
}

impl Pipe {
    /// Asks for so much room; a user's limit may allow less.
    pub fn new(capacity: usize) -> io::Result<Self> {
        let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
        let wanted = i32::try_from(capacity).unwrap_or(i32::MAX);
        let sized = |argument| nix::fcntl::fcntl(&write, argument);
        let got = sized(nix::fcntl::FcntlArg::F_SETPIPE_SZ(wanted))
            .or_else(|_| sized(nix::fcntl::FcntlArg::F_GETPIPE_SZ))?;
        let capacity = usize::try_from(got).unwrap_or_default();
        Ok(Self {
            read,
            write,
            capacity,
        })
    }

    /// From the socket into the pipe, as much as there is and fits; 0 is the end.
    pub fn fill(&self, from: impl AsFd) -> io::Result<usize> {
        splice(from, &self.write, self.capacity)
    }

    /// From the pipe into the socket, at most `len`, which must be in the pipe.
    pub fn drain(&self, to: impl AsFd, len: usize) -> io::Result<usize> {
        splice(&self.read, to, len)
    }
}

fn splice(from: impl AsFd, to: impl AsFd, len: usize) -> io::Result<usize> {
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    let none = std::ptr::null_mut();
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
    // SAFETY: both descriptors are open while borrowed; null offsets mean streams.
    let moved = unsafe { libc::splice(from, none, to, none, len, flags) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn bytes_pass_and_an_end_is_zero() {
        let ((mut client, front), (back, mut server)) = (pair(), pair());
        let pipe = Pipe::new(1 << 16).unwrap();
        client.write_all(b"hello").unwrap();
        let len = pipe.fill(&front).unwrap();
        assert_eq!(pipe.drain(&back, len).unwrap(), len);
        let mut seen = [0; 5];
        server.read_exact(&mut seen).unwrap();
        assert_eq!(&seen, b"hello");
        front.set_nonblocking(true).unwrap();
        let empty = pipe.fill(&front).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        client.shutdown(std::net::Shutdown::Write).unwrap();
        front.set_nonblocking(false).unwrap();
        assert_eq!(pipe.fill(&front).unwrap(), 0);
    }
}
