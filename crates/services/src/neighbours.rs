//! A raw ICMPv6 socket on one link: where routers are asked for, and answer.

use std::io;

use protocols::ra;
use tokio::net::UdpSocket;

/// The kernel computes ICMPv6 checksums even for raw sockets.
pub fn socket(link: &str, index: u32) -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(
        socket2::Domain::IPV6,
        socket2::Type::RAW.nonblocking(),
        Some(socket2::Protocol::ICMPV6),
    )?;
    socket.bind_device(Some(link.as_bytes()))?;
    socket.set_multicast_hops_v6(ra::HOP_LIMIT)?;
    socket.set_unicast_hops_v6(ra::HOP_LIMIT)?;
    socket.set_multicast_if_v6(index)?;
    socket.set_multicast_loop_v6(false)?;
    socket.join_multicast_v6(&ra::ALL_ROUTERS, index)?;
    UdpSocket::from_std(socket.into())
}
