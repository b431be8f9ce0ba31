//! DHCPv6 and router advertisements on one link.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::{Duration, SystemTime};

use ipnet::Ipv6Net;
use linux::netlink::Netlink;
use protocols::dhcp6::SERVER_PORT;
use protocols::dhcp6::server::{Action, Config as Decisions, Report, Server};
use protocols::ra;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};
use tokio::time::{interval, timeout};
use tracing::{debug, info, warn};

use crate::holder::{self, Transport};
use crate::neighbours;

/// Where clients ask: all servers and relays of the link.
const ALL_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
const BUFFER: usize = 2048;
const SEND_WITHIN: Duration = Duration::from_millis(100);
const CHANGES: usize = 4;
/// Errors in a row that mean the link is gone for good.
const MAX_ERRORS: u32 = 20;
const ERROR_PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not look up link {link}")]
    Link {
        link: String,
        source: linux::netlink::Error,
    },
    #[error("could not listen on {what} of {link}{}", by.as_ref().map(|by| format!(", which {by} holds")).unwrap_or_default())]
    Listen {
        link: String,
        what: &'static str,
        by: Option<String>,
        source: io::Error,
    },
    #[error("link {link} is gone")]
    Gone { link: String, source: io::Error },
}

/// A server with its sockets.
pub struct Shell {
    server: Server,
    link: String,
    index: u32,
    udp: UdpSocket,
    /// ICMPv6, raw.
    neighbours: UdpSocket,
    advertisement: Vec<u8>,
    changes: (mpsc::Sender<Decisions>, mpsc::Receiver<Decisions>),
}

impl Shell {
    /// Opens sockets in the caller's network namespace.
    pub async fn bind(link: &str, prefix: Ipv6Net, decisions: Decisions) -> Result<Self, Error> {
        let looked = |source| Error::Link {
            link: link.to_owned(),
            source,
        };
        let netlink = Netlink::connect().map_err(looked)?;
        let index = netlink.link(link).await.map_err(looked)?.index;
        let listening = |what, by: Option<String>| {
            let link = link.to_owned();
            move |source| Error::Listen {
                link,
                what,
                by,
                source,
            }
        };
        let udp = listen(link, index).map_err(|source| {
            listening("UDP port 547", holder::of(Transport::Udp, SERVER_PORT))(source)
        })?;
        let neighbours = neighbours::socket(link, index).map_err(listening("ICMPv6", None))?;
        info!(link, %prefix, "DHCPv6 listens");
        Ok(Self {
            server: Server::new(decisions),
            link: link.to_owned(),
            index,
            udp,
            neighbours,
            advertisement: ra::advertisement(prefix),
            changes: mpsc::channel(CHANGES),
        })
    }

    /// Takes new configurations while the server runs.
    pub fn changes(&self) -> mpsc::Sender<Decisions> {
        self.changes.0.clone()
    }

    /// Serves until told to stop, or until the link is gone. `told` must not block.
    pub async fn run(
        mut self,
        mut stop: watch::Receiver<bool>,
        mut told: impl FnMut(Report),
    ) -> Result<(), Error> {
        let (mut packet, mut asked) = ([0; BUFFER], [0; BUFFER]);
        let mut unasked = interval(Duration::from_secs(ra::EVERY));
        let mut errors = 0;
        loop {
            let received = tokio::select! {
                _ = stop.changed() => return Ok(()),
                _ = unasked.tick() => {
                    self.advertise().await;
                    continue;
                }
                Some(decisions) = self.changes.1.recv() => {
                    self.server.reconfigure(decisions);
                    continue;
                }
                received = self.neighbours.recv_from(&mut asked) => match received {
                    Ok((length, _)) => {
                        if ra::is_solicitation(&asked[..length]) {
                            self.advertise().await;
                        }
                        continue;
                    }
                    Err(error) => Err(error),
                },
                received = self.udp.recv_from(&mut packet) => received,
            };
            match received {
                Ok((length, SocketAddr::V6(from))) => {
                    errors = 0;
                    let actions =
                        self.server
                            .handle(SystemTime::now(), &packet[..length], *from.ip());
                    self.act(actions, from, &mut told).await;
                }
                Ok((_, SocketAddr::V4(_))) => {}
                Err(source) => {
                    errors += 1;
                    if errors > MAX_ERRORS {
                        return Err(Error::Gone {
                            link: self.link,
                            source,
                        });
                    }
                    warn!(link = self.link, error = %source, "could not receive");
                    tokio::time::sleep(ERROR_PAUSE).await;
                }
            }
        }
    }

    async fn act(&self, actions: Vec<Action>, from: SocketAddrV6, told: &mut impl FnMut(Report)) {
        for action in actions {
            match action {
                Action::Send { bytes } => {
                    let sent = timeout(SEND_WITHIN, self.udp.send_to(&bytes, from)).await;
                    debug!(link = self.link, %from, ?sent, "DHCPv6 answer");
                }
                Action::Report(report) => {
                    self.log(&report);
                    told(report);
                }
            }
        }
    }

    async fn advertise(&self) {
        let to = SocketAddrV6::new(ra::ALL_NODES, 0, 0, self.index);
        let send = self.neighbours.send_to(&self.advertisement, to);
        if let Ok(Err(error)) = timeout(SEND_WITHIN, send).await {
            debug!(link = self.link, %error, "a router advertisement was not sent");
        }
    }

    fn log(&self, report: &Report) {
        let link = &self.link;
        match report {
            Report::Leased { address, mac } => info!(link, %address, ?mac, "leased"),
            Report::Released { address } => info!(link, %address, "released"),
            Report::Booting { mac, arch, ignored } => {
                debug!(
                    link,
                    ?mac,
                    arch,
                    ignored,
                    "boots from the network over IPv6"
                );
            }
            Report::Exhausted => warn!(link, "no IPv6 address is left"),
            Report::Malformed(error) => debug!(link, %error, "not a DHCPv6 packet"),
        }
    }
}

fn listen(link: &str, index: u32) -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(
        socket2::Domain::IPV6,
        socket2::Type::DGRAM.nonblocking(),
        Some(socket2::Protocol::UDP),
    )?;
    socket.set_only_v6(true)?;
    socket.bind_device(Some(link.as_bytes()))?;
    socket.bind(&SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, SERVER_PORT, 0, 0).into())?;
    socket.join_multicast_v6(&ALL_SERVERS, index)?;
    UdpSocket::from_std(socket.into())
}
