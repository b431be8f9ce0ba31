//! Many datagrams per system call: a UDP server's inner loop.
//!
//! Answering a small question costs less than the two system calls around it; taking 32 at a time makes the
//! calls cheap too. Several sockets on one address share its load (`SO_REUSEPORT`), one thread each.

#![expect(
    unsafe_code,
    reason = "recvmmsg and sendmmsg take arrays of pointers into our buffers"
)]

use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Type};

/// A longer question is not one.
const LONGEST: usize = 1536;
/// Datagrams taken at one time.
const BATCH: usize = 32;
const RECEIVE_BUFFER: usize = 1 << 20;

/// Opens one of several sockets on the address, which may not be on a link yet.
pub fn bind_shared(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(
        Domain::for_address(address),
        Type::DGRAM.nonblocking(),
        Some(Protocol::UDP),
    )?;
    socket.set_reuse_port(true)?;
    match address {
        SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            socket.set_freebind_v6(true)?;
        }
    }
    room_for_bursts(&socket, RECEIVE_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// So many bytes may wait for us: as root whatever the system's limit, else what it allows.
pub fn room_for_bursts(socket: &socket2::Socket, bytes: usize) {
    if setsockopt(socket, sockopt::RcvBufForce, &bytes).is_err() {
        _ = socket.set_recv_buffer_size(bytes);
    }
}

/// Tells threads that wait for datagrams to end.
#[derive(Debug, Clone)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes two numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave it to us, and nobody else has it.
        Ok(Self(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// For all who wait, now and later.
    pub fn stop(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the pointer and length are those of a local. The only failure is a full counter, which
        // wakes waiters as well.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

/// Waits until a datagram is there; false when told to stop.
pub fn wait(socket: &UdpSocket, stop: &Stop) -> io::Result<bool> {
    let poll = |fd: i32| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds = [poll(socket.as_raw_fd()), poll(stop.0.as_raw_fd())];
    // SAFETY: two entries, as said.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(true),
            _ => Err(error),
        };
    }
    Ok(fds[1].revents == 0)
}

/// Buffers for one round of questions and answers.
pub struct Batch {
    buffers: Vec<[u8; LONGEST]>,
    addresses: Vec<libc::sockaddr_storage>,
    lens: Vec<usize>,
    replies: Vec<Vec<u8>>,
}

/// Where a datagram came from.
#[derive(Clone, Copy)]
pub struct Peer<'a>(&'a libc::sockaddr_storage);

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl Default for Batch {
    fn default() -> Self {
        // SAFETY: all zeros is a valid sockaddr_storage.
        let address: libc::sockaddr_storage = unsafe { mem::zeroed() };
        Self {
            buffers: vec![[0; LONGEST]; BATCH],
            addresses: vec![address; BATCH],
            lens: vec![0; BATCH],
            replies: vec![Vec::new(); BATCH],
        }
    }
}

impl Batch {
    /// Takes what is there and answers it: `reply` writes the answer, or leaves it empty for none.
    /// Returns how many datagrams came; an error is of the receiving only, since answers may get lost.
    pub fn serve(
        &mut self,
        socket: &UdpSocket,
        mut reply: impl FnMut(&[u8], Peer<'_>, &mut Vec<u8>),
    ) -> io::Result<usize> {
        let count = self.receive(socket)?;
        for at in 0..count {
            let out = &mut self.replies[at];
            out.clear();
            let len = self.lens[at];
            if len > 0 && len < LONGEST {
                reply(&self.buffers[at][..len], Peer(&self.addresses[at]), out);
            }
        }
        self.send(socket, count);
        Ok(count)
    }

    fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let mut parts: [libc::iovec; BATCH] = std::array::from_fn(|at| libc::iovec {
            iov_base: self.buffers[at].as_mut_ptr().cast(),
            iov_len: LONGEST,
        });
        let mut headers: [libc::mmsghdr; BATCH] =
            std::array::from_fn(|at| header(&mut self.addresses[at], &mut parts[at]));
        // SAFETY: every header points to one address and one part, each part to one buffer with its
        // length; all live in this frame or in self.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        let count = count as usize;
        for (len, header) in self.lens.iter_mut().zip(&headers[..count]) {
            *len = header.msg_len as usize;
        }
        Ok(count)
    }

    fn send(&mut self, socket: &UdpSocket, count: usize) {
        let mut parts: [libc::iovec; BATCH] = std::array::from_fn(|_| libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        });
        let mut headers: [libc::mmsghdr; BATCH] =
            // SAFETY: all zeros is a valid mmsghdr.
            std::array::from_fn(|_| unsafe { mem::zeroed() });
        let mut filled = 0;
        for at in 0..count {
            if self.replies[at].is_empty() {
                continue;
            }
            parts[filled] = libc::iovec {
                iov_base: self.replies[at].as_mut_ptr().cast(),
                iov_len: self.replies[at].len(),
            };
            headers[filled] = header(&mut self.addresses[at], &mut parts[filled]);
            filled += 1;
        }
        let mut sent = 0;
        while sent < filled {
            // SAFETY: as for receiving; the slice holds `filled - sent` headers.
            let done = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    headers[sent..].as_mut_ptr(),
                    (filled - sent) as u32,
                    libc::MSG_DONTWAIT,
                )
            };
            // One that cannot be sent is skipped: its asker asks again.
            sent += usize::try_from(done).unwrap_or(0).max(1);
        }
    }
}

impl Peer<'_> {
    pub fn address(self) -> SocketAddr {
        if i32::from(self.0.ss_family) == libc::AF_INET6 {
            // SAFETY: the family says that it is a sockaddr_in6, for which sockaddr_storage has room.
            let from = unsafe { (&raw const *self.0).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(from.sin6_addr.s6_addr);
            let port = u16::from_be(from.sin6_port);
            SocketAddrV6::new(ip, port, from.sin6_flowinfo, from.sin6_scope_id).into()
        } else {
            // SAFETY: our sockets are of two families, and this is the other.
            let from = unsafe { (&raw const *self.0).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr));
            SocketAddrV4::new(ip, u16::from_be(from.sin_port)).into()
        }
    }
}

fn header(address: &mut libc::sockaddr_storage, part: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: all zeros is a valid mmsghdr.
    let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
    header.msg_hdr.msg_namelen = match i32::from(address.ss_family) {
        libc::AF_INET => mem::size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => mem::size_of::<libc::sockaddr_in6>(),
        _ => mem::size_of::<libc::sockaddr_storage>(),
    } as libc::socklen_t;
    header.msg_hdr.msg_name = (&raw mut *address).cast();
    header.msg_hdr.msg_iov = &raw mut *part;
    header.msg_hdr.msg_iovlen = 1;
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_answered_in_rounds_until_told_to_stop() {
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let server = bind_shared(ip.parse().unwrap()).unwrap();
            let address = server.local_addr().unwrap();
            let client = UdpSocket::bind(ip).unwrap();
            client
                .set_read_timeout(Some(std::time::Duration::from_secs(5)))
                .unwrap();
            for n in 0..40u8 {
                client.send_to(&[n], address).unwrap();
            }
            let stop = Stop::new().unwrap();
            let thread = {
                let stop = stop.clone();
                std::thread::spawn(move || {
                    let (mut batch, mut got) = (Batch::default(), 0);
                    while wait(&server, &stop).unwrap() {
                        let seen = batch.serve(&server, |query, peer, out| {
                            assert!(peer.address().ip().is_loopback());
                            if query[0] % 2 == 0 {
                                out.extend([query[0], 1]);
                            }
                        });
                        got += seen.unwrap();
                    }
                    got
                })
            };
            for n in 0..20u8 {
                let mut buffer = [0; 9];
                let (len, from) = client.recv_from(&mut buffer).unwrap();
                assert_eq!((&buffer[..len], from), (&[n * 2, 1][..], address));
            }
            stop.stop();
            assert_eq!(thread.join().unwrap(), 40);
        }
    }
}
