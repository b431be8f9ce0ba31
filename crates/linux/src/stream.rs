//! TCP sockets as a balancer wants them: never blocking, and bound before their address is here.

#![expect(unsafe_code, reason = "std's accept needs a second call not to block")]

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// More than any burst of new clients; the kernel may allow less.
const BACKLOG: i32 = 4096;

/// Listens on the address even if it is on no link yet. What it accepts sends at once and notices within
/// two minutes when the other side has vanished: both are inherited.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address)?;
    socket.set_reuse_address(true)?;
    match address {
        SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            socket.set_freebind_v6(true)?;
        }
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The next client, if one waits. Its socket does not block.
pub fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let none = std::ptr::null_mut();
    // SAFETY: null means that nobody asks for the peer's address.
    let fd = unsafe { libc::accept4(listener.as_raw_fd(), none, none.cast(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and owned by nobody else.
    Ok(unsafe { TcpStream::from_raw_fd(fd) })
}

/// Begins to connect; the socket becomes writable when that is done, one way or the other. Who `speaks` as soon as it is
/// done says so: the last packet of the handshake then goes with the first bytes.
pub fn connect(to: SocketAddr, speaks: bool) -> io::Result<TcpStream> {
    let socket = Socket::new(
        Domain::for_address(to),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    socket.set_tcp_nodelay(true)?;
    if speaks {
        socket.set_tcp_quickack(false)?;
    }
    match socket.connect(&to.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// Sends the last bytes before the end of the stream, which is to be told at once: both travel in one packet.
pub fn send_last(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    SockRef::from(stream).send_with_flags(bytes, libc::MSG_MORE | libc::MSG_NOSIGNAL)
}

/// Closes so that the other side sees an error, not an end.
pub fn reset(stream: TcpStream) {
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    drop(stream);
}

/// True if there is no descriptor left for another one.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// Lets this process have as many descriptors as it may, and says how many that is.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        return Ok(hard);
    }
    Ok(soft)
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_mins(1))
        .with_interval(Duration::from_secs(15))
        .with_retries(4);
    socket.set_tcp_keepalive(&keepalive)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_not_here_can_be_listened_on() {
        for address in ["192.0.2.77:0", "[2001:db8::77]:0"] {
            let listener = listen(address.parse().unwrap()).unwrap();
            let none = accept(&listener).unwrap_err();
            assert_eq!(none.kind(), io::ErrorKind::WouldBlock, "{address}");
        }
    }

    #[test]
    fn what_is_accepted_does_not_block_and_sends_at_once() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = accept(&listener).unwrap();
        assert!(accepted.nodelay().unwrap());
        let nothing = accepted.peek(&mut [0]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }
}
