//! The group's sockets on one link, one per family.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;

use protocols::mdns::{GROUP_V4, GROUP_V6, LONGEST, PORT};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::link::Seen;

/// Packets stay on the link, and show it (RFC 6762, 11).
const HOPS: u32 = 255;
const ERROR_PAUSE: Duration = Duration::from_millis(200);

/// A packet and where it came from.
#[derive(Debug)]
pub struct Heard {
    pub link: String,
    pub from: SocketAddr,
    pub bytes: Vec<u8>,
}

/// Open while the link is there; closing them ends their readers.
#[derive(Debug)]
pub struct Sockets {
    pub index: u32,
    pub families: (bool, bool),
    v4: Option<Arc<UdpSocket>>,
    v6: Option<Arc<UdpSocket>>,
    _readers: JoinSet<()>,
}

impl Sockets {
    pub fn open(link: &str, seen: &Seen, hear: &mpsc::Sender<Heard>) -> io::Result<Self> {
        let families = seen.families();
        let v4 = families.0.then(|| open_v4(link, seen.index)).transpose()?;
        let v6 = families.1.then(|| open_v6(link, seen.index)).transpose()?;
        let (v4, v6) = (v4.map(Arc::new), v6.map(Arc::new));
        let mut readers = JoinSet::new();
        for socket in [&v4, &v6].into_iter().flatten() {
            readers.spawn(read(link.to_owned(), Arc::clone(socket), hear.clone()));
        }
        Ok(Self {
            index: seen.index,
            families,
            v4,
            v6,
            _readers: readers,
        })
    }

    /// Lost is lost: everything here is said more than once.
    pub fn multicast(&self, bytes: &[u8]) {
        if let Some(socket) = &self.v4 {
            self.send(socket, SocketAddrV4::new(GROUP_V4, PORT).into(), bytes);
        }
        if let Some(socket) = &self.v6 {
            let group = SocketAddrV6::new(GROUP_V6, PORT, 0, self.index);
            self.send(socket, group.into(), bytes);
        }
    }

    pub fn unicast(&self, to: SocketAddr, bytes: &[u8]) {
        let socket = match to {
            SocketAddr::V4(_) => &self.v4,
            SocketAddr::V6(_) => &self.v6,
        };
        if let Some(socket) = socket {
            self.send(socket, to, bytes);
        }
    }

    #[expect(clippy::unused_self, reason = "a verb of these sockets")]
    fn send(&self, socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) {
        if let Err(error) = socket.try_send_to(bytes, to) {
            tracing::debug!(%to, %error, "mDNS packet not sent");
        }
    }
}

fn open_v4(link: &str, index: u32) -> io::Result<UdpSocket> {
    let socket = open(link, Domain::IPV4)?;
    socket.set_multicast_ttl_v4(HOPS)?;
    socket.set_ttl_v4(HOPS)?;
    socket.join_multicast_v4_n(&GROUP_V4, &InterfaceIndexOrAddress::Index(index))?;
    socket.bind(&SocketAddr::from((GROUP_V4, PORT)).into())?;
    UdpSocket::from_std(socket.into())
}

fn open_v6(link: &str, index: u32) -> io::Result<UdpSocket> {
    let socket = open(link, Domain::IPV6)?;
    socket.set_only_v6(true)?;
    socket.set_multicast_hops_v6(HOPS)?;
    socket.set_unicast_hops_v6(HOPS)?;
    socket.set_multicast_if_v6(index)?;
    socket.join_multicast_v6(&GROUP_V6, index)?;
    socket.bind(&SocketAddrV6::new(GROUP_V6, PORT, 0, index).into())?;
    UdpSocket::from_std(socket.into())
}

/// Shared with whoever else speaks multicast DNS on this machine.
fn open(link: &str, domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind_device(Some(link.as_bytes()))?;
    Ok(socket)
}

async fn read(link: String, socket: Arc<UdpSocket>, hear: mpsc::Sender<Heard>) {
    let mut buffer = vec![0; LONGEST];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((len, from)) => {
                let heard = Heard {
                    link: link.clone(),
                    from,
                    bytes: buffer[..len].to_vec(),
                };
                // A flood is dropped here rather than kept.
                if let Err(mpsc::error::TrySendError::Closed(_)) = hear.try_send(heard) {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(link, %error, "mDNS socket");
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
    }
}
