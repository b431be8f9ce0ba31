//! Raw sockets of IP protocol 112 on one link, with what the IP header said.
//!
//! Two descriptors: a socket bound to our address sends with it but would not receive multicast; the one
//! that receives is bound to the link only.

#![expect(
    unsafe_code,
    reason = "the hop limit and destination of an IPv6 packet come as control messages"
)]

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const VRRP: i32 = 112;
const TTL: u32 = 255;
/// Internetwork control (RFC 2474), as routing protocols have it.
const TOS: u32 = 0xc0;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not open a VRRP socket on link {link} for {source_address} (this needs root)")]
    Open {
        link: String,
        source_address: IpAddr,
        source: io::Error,
    },
    #[error("could not send an advertisement to {to}")]
    Send { to: IpAddr, source: io::Error },
    #[error("could not receive advertisements on link {link}")]
    Receive { link: String, source: io::Error },
}

/// Where a [`Socket`] speaks and listens.
#[derive(Debug, Clone)]
pub struct Options {
    pub link: String,
    pub index: u32,
    /// Our own address on the link; its family is the socket's.
    pub source: IpAddr,
    /// The multicast group to join.
    pub group: IpAddr,
}

/// Sends and receives VRRP messages on one link, for one family. Made in the calling thread's namespace;
/// needs a tokio runtime.
#[derive(Debug)]
pub struct Socket {
    options: Options,
    send: socket2::Socket,
    receive: AsyncFd<OwnedFd>,
}

/// One message and its IP header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received<'a> {
    pub from: IpAddr,
    pub to: IpAddr,
    pub ttl: u8,
    pub message: &'a [u8],
}

impl Socket {
    pub fn open(options: Options) -> Result<Self, Error> {
        let opened = sender(&options).and_then(|send| Ok((send, receiver(&options)?)));
        match opened {
            Ok((send, receive)) => Ok(Self {
                options,
                send,
                receive,
            }),
            Err(source) => Err(Error::Open {
                link: options.link,
                source_address: options.source,
                source,
            }),
        }
    }

    /// At once; a full queue is an error, since an old advertisement is worth nothing.
    pub fn send(&self, to: IpAddr, message: &[u8]) -> Result<(), Error> {
        let target = match to {
            IpAddr::V4(_) => SocketAddr::new(to, 0),
            IpAddr::V6(to) => SocketAddrV6::new(to, 0, 0, self.scope(to)).into(),
        };
        match self.send.send_to(message, &SockAddr::from(target)) {
            Ok(_) => Ok(()),
            Err(source) => Err(Error::Send { to, source }),
        }
    }

    /// Waits for the next message. `None` is a packet that makes no sense.
    pub async fn receive<'a>(&self, buffer: &'a mut [u8]) -> Result<Option<Received<'a>>, Error> {
        let got = self
            .receive
            .async_io(Interest::READABLE, |fd| receive(fd, buffer))
            .await;
        let (len, from, control) = got.map_err(|source| Error::Receive {
            link: self.options.link.clone(),
            source,
        })?;
        let bytes = &buffer[..len];
        Ok(match self.options.source {
            IpAddr::V4(_) => ipv4(bytes),
            IpAddr::V6(_) => match (from, control.to, control.hops) {
                (Some(from), Some(to), Some(ttl)) => Some(Received {
                    from: from.into(),
                    to: to.into(),
                    ttl,
                    message: bytes,
                }),
                _ => None,
            },
        })
    }

    fn scope(&self, to: Ipv6Addr) -> u32 {
        let on_link = to.is_unicast_link_local() || to.is_multicast();
        if on_link { self.options.index } else { 0 }
    }
}

fn sender(options: &Options) -> io::Result<socket2::Socket> {
    let socket = raw(options)?;
    // Every packet of the protocol also arrives here; nobody reads them.
    socket.set_recv_buffer_size(1)?;
    match options.source {
        IpAddr::V4(source) => {
            socket.set_ttl_v4(TTL)?;
            socket.set_multicast_ttl_v4(TTL)?;
            socket.set_multicast_loop_v4(false)?;
            socket.set_multicast_if_v4(&source)?;
            socket.set_tos_v4(TOS)?;
            socket.bind(&SocketAddr::new(source.into(), 0).into())?;
        }
        IpAddr::V6(source) => {
            socket.set_unicast_hops_v6(TTL)?;
            socket.set_multicast_hops_v6(TTL)?;
            socket.set_multicast_loop_v6(false)?;
            socket.set_multicast_if_v6(options.index)?;
            let scope = if source.is_unicast_link_local() {
                options.index
            } else {
                0
            };
            socket.bind(&SocketAddrV6::new(source, 0, 0, scope).into())?;
        }
    }
    Ok(socket)
}

fn receiver(options: &Options) -> io::Result<AsyncFd<OwnedFd>> {
    let socket = raw(options)?;
    match options.group {
        IpAddr::V4(group) => {
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(options.index))?;
        }
        IpAddr::V6(group) => {
            socket.join_multicast_v6(&group, options.index)?;
            set_option(&socket, libc::IPV6_RECVPKTINFO)?;
            set_option(&socket, libc::IPV6_RECVHOPLIMIT)?;
        }
    }
    // SAFETY: OwnedFd keeps the descriptor open and always returns the same one.
    unsafe { AsyncFd::register(OwnedFd::from(socket)) }.map_err(io::Error::from)
}

fn raw(options: &Options) -> io::Result<socket2::Socket> {
    let domain = match options.source {
        IpAddr::V4(_) => Domain::IPV4,
        IpAddr::V6(_) => Domain::IPV6,
    };
    let socket = socket2::Socket::new(domain, Type::RAW.nonblocking(), Some(Protocol::from(VRRP)))?;
    socket.bind_device(Some(options.link.as_bytes()))?;
    Ok(socket)
}

fn set_option(socket: &socket2::Socket, option: i32) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer and the size are those of one integer, which the kernel only reads.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IPV6,
            option,
            (&raw const on).cast(),
            mem::size_of_val(&on) as libc::socklen_t,
        )
    };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// What the kernel says of an IPv6 packet beside its bytes.
#[derive(Default)]
struct Control {
    to: Option<Ipv6Addr>,
    hops: Option<u8>,
}

/// Room for the control messages, aligned for their headers.
#[repr(C, align(8))]
struct Room([u8; 128]);

fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Option<Ipv6Addr>, Control)> {
    let mut room = Room([0; 128]);
    // SAFETY: all zeros is a valid sockaddr_storage and a valid msghdr.
    let (mut from, mut message): (libc::sockaddr_storage, libc::msghdr) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let mut io = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = mem::size_of_val(&from) as libc::socklen_t;
    message.msg_iov = &raw mut io;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut room).cast();
    message.msg_controllen = mem::size_of_val(&room) as _;
    // SAFETY: every pointer in the message is to a live local or the caller's buffer, with its own length.
    let len = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) };
    if len < 0 {
        return Err(io::Error::last_os_error());
    }
    let source = (i32::from(from.ss_family) == libc::AF_INET6).then(|| {
        // SAFETY: the family says that it is a sockaddr_in6, for which sockaddr_storage has room.
        let from: libc::sockaddr_in6 =
            unsafe { (&raw const from).cast::<libc::sockaddr_in6>().read() };
        Ipv6Addr::from(from.sin6_addr.s6_addr)
    });
    Ok((len as usize, source, control(&message)))
}

fn control(message: &libc::msghdr) -> Control {
    let mut control = Control::default();
    // SAFETY: the kernel filled msg_control and msg_controllen; the CMSG functions return null or a header
    // inside, and each read is of a value whose length was checked.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let holds =
                |size: usize| (*header).cmsg_len as usize >= libc::CMSG_LEN(size as u32) as usize;
            let data = libc::CMSG_DATA(header);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)
                    if holds(mem::size_of::<libc::in6_pktinfo>()) =>
                {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    control.to = Some(info.ipi6_addr.s6_addr.into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) if holds(4) => {
                    let hops = data.cast::<libc::c_int>().read_unaligned();
                    control.hops = u8::try_from(hops).ok();
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    control
}

/// Takes the header off that IPv4 raw sockets deliver.
fn ipv4(packet: &[u8]) -> Option<Received<'_>> {
    let fixed: &[u8; 20] = packet.first_chunk()?;
    let header = usize::from(fixed[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let address = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
    (fixed[0] >> 4 == 4 && header >= 20).then_some(())?;
    Some(Received {
        from: address(12).into(),
        to: address(16).into(),
        ttl: fixed[8],
        message: packet.get(header..total)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_ipv4_header_with_options_is_taken_off() {
        let mut packet = vec![
            0x46, 0xc0, 0, 26, 0, 0, 0, 0, 255, 112, 0, 0, 192, 0, 2, 1, 224, 0, 0, 18,
        ];
        packet.extend([1, 1, 1, 1, 0x31, 7, 0, 0, 0]); // options, message, padding
        let received = ipv4(&packet).unwrap();
        assert_eq!((received.ttl, received.message), (255, &[0x31, 7][..]));
        assert_eq!(received.to, IpAddr::from([224, 0, 0, 18]));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_message_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = ipv4(&bytes);
        }
    }
}
