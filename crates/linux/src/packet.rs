//! Whole Ethernet frames on one link (AF_PACKET).

#![expect(
    unsafe_code,
    reason = "packet addresses, membership and auxiliary data exist only in libc"
)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use socket2::{Domain, Protocol, SockFilter, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::frame::Checksum;

/// What went wrong with a packet socket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not open a packet socket on link {link} (this needs root)")]
    Open { link: u32, source: io::Error },
    #[error("could not send a frame on link {link}")]
    Send { link: u32, source: io::Error },
    #[error("could not receive a frame on link {link}")]
    Receive { link: u32, source: io::Error },
}

/// Which frames a socket is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// None: the socket only sends, and its queue never fills.
    No,
    /// One EtherType, such as [`ETHERTYPE_IPV4`].
    EtherType(u16),
    /// Of IPv6 only who is where: neighbour solicitations and advertisements.
    Neighbours,
    /// Everything, our own frames included.
    All,
}

pub const ETHERTYPE_IPV4: u16 = 0x0800;
pub const ETHERTYPE_ARP: u16 = 0x0806;
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
pub const ETHERTYPE_LLDP: u16 = 0x88cc;

/// How to open a [`Socket`].
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub listen: Listen,
    /// Also frames for other MAC addresses.
    pub promiscuous: bool,
}

/// A socket that sends and receives whole frames on one link. Made for the link in the calling
/// thread's namespace; needs a tokio runtime.
#[derive(Debug)]
pub struct Socket {
    link: u32,
    fd: AsyncFd<OwnedFd>,
}

/// What is known about a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes in the buffer.
    pub len: usize,
    /// The frame was longer than the buffer.
    pub truncated: bool,
    /// Sent by this machine rather than to it.
    pub outgoing: bool,
    pub checksum: Checksum,
    /// The VLAN tag, which the kernel takes out of the frame.
    pub vlan: Option<u16>,
}

impl Socket {
    pub fn open(link: u32, options: Options) -> Result<Self, Error> {
        open(link, options).map_err(|source| Error::Open { link, source })
    }

    /// Sends one frame, Ethernet header included.
    pub async fn send(&self, frame: &[u8]) -> Result<(), Error> {
        let send = |fd: &OwnedFd| {
            // SAFETY: the pointer and the length are those of one slice.
            let sent = unsafe { libc::send(fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
            if sent < 0 {
                Err(io::Error::last_os_error())
            } else {
                Ok(())
            }
        };
        let sent = self.fd.async_io(Interest::WRITABLE, send).await;
        sent.map_err(|source| Error::Send {
            link: self.link,
            source,
        })
    }

    /// Waits for the next frame.
    pub async fn receive(&self, buffer: &mut [u8]) -> Result<Received, Error> {
        let received = self
            .fd
            .async_io(Interest::READABLE, |fd| receive(fd, buffer))
            .await;
        received.map_err(|source| Error::Receive {
            link: self.link,
            source,
        })
    }
}

fn open(link: u32, options: Options) -> io::Result<Socket> {
    let protocol = match options.listen {
        Listen::No => 0,
        Listen::EtherType(ethertype) => ethertype.to_be(),
        Listen::Neighbours => ETHERTYPE_IPV6.to_be(),
        Listen::All => (libc::ETH_P_ALL as u16).to_be(),
    };
    // Protocol 0 until bound: otherwise frames of every link arrive in between.
    let socket = socket2::Socket::new(
        Domain::PACKET,
        Type::RAW.nonblocking(),
        Some(Protocol::from(0)),
    )?;
    set_option(&socket, libc::PACKET_AUXDATA, &1_i32)?;
    if options.listen == Listen::Neighbours {
        socket.attach_filter(&NEIGHBOURS)?;
    }
    if options.promiscuous {
        let member = libc::packet_mreq {
            mr_ifindex: link as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_option(&socket, libc::PACKET_ADD_MEMBERSHIP, &member)?;
    }
    // SAFETY: all zeros is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = link as i32;
    // SAFETY: the pointer and the size are those of one sockaddr_ll.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            mem::size_of_val(&address) as libc::socklen_t,
        )
    };
    if bound < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: OwnedFd keeps the descriptor open and always returns the same one.
    let fd = unsafe { AsyncFd::register(OwnedFd::from(socket)) }.map_err(io::Error::from)?;
    Ok(Socket { link, fd })
}

/// For the kernel: ICMPv6, and of that two kinds. A node's other traffic never reaches the socket.
const NEIGHBOURS: [SockFilter; 7] = {
    const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    [
        SockFilter::new(LOAD_BYTE, 0, 0, 14 + 6), // the next header after IPv6's
        SockFilter::new(IS, 0, 4, 58),            // ICMPv6, or the last line
        SockFilter::new(LOAD_BYTE, 0, 0, 14 + 40), // its type
        SockFilter::new(IS, 1, 0, 135),           // solicitation: the line before the last
        SockFilter::new(IS, 0, 1, 136),           // advertisement
        SockFilter::new(RETURN, 0, 0, u32::MAX),  // all of it
        SockFilter::new(RETURN, 0, 0, 0),         // none of it
    ]
};

fn set_option<T>(socket: &socket2::Socket, option: i32, value: &T) -> io::Result<()> {
    let size = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the size are those of one value, which the kernel only reads.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size,
        )
    };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Room for one `tpacket_auxdata` control message, aligned for its header.
#[repr(C, align(8))]
struct Control([u8; 64]);

fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = Control([0; 64]);
    // SAFETY: all zeros is a valid sockaddr_ll and a valid msghdr.
    let (mut from, mut message): (libc::sockaddr_ll, libc::msghdr) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let mut io = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = mem::size_of_val(&from) as libc::socklen_t;
    message.msg_iov = &raw mut io;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = mem::size_of_val(&control) as _;
    // SAFETY: every pointer in the message is to a live local or the caller's buffer, with its own length.
    let len = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) };
    if len < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut received = Received {
        len: len as usize,
        truncated: message.msg_flags & libc::MSG_TRUNC != 0,
        outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
        checksum: Checksum::Verify,
        vlan: None,
    };
    if let Some(aux) = auxdata(&message) {
        if aux.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0 {
            received.checksum = Checksum::NotReady;
        }
        received.vlan =
            (aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then_some(aux.tp_vlan_tci);
    }
    Ok(received)
}

fn auxdata(message: &libc::msghdr) -> Option<libc::tpacket_auxdata> {
    let size = mem::size_of::<libc::tpacket_auxdata>();
    // SAFETY: the kernel filled msg_control and msg_controllen; CMSG_FIRSTHDR returns null or a header inside.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null() {
            return None;
        }
        let ours =
            (*header).cmsg_level == libc::SOL_PACKET && (*header).cmsg_type == libc::PACKET_AUXDATA;
        let whole = (*header).cmsg_len as usize >= libc::CMSG_LEN(size as u32) as usize;
        (ours && whole).then(|| {
            libc::CMSG_DATA(header)
                .cast::<libc::tpacket_auxdata>()
                .read_unaligned()
        })
    }
}
