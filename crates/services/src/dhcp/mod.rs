//! A DHCP server on one link: one task that owns the machine, its sockets and its file of leases.
//!
//! ```text
//!   link ── UDP 67, 4011 ─▶ run ─▶ Server::handle ─▶ frames, ARP probes ──▶ link
//!    ├───── ARP ───────────▶ │                     ─▶ store: on disk, then the answer
//!    └───── others' offers ▶ │ ◀─ changes           ─▶ reports
//! ```

mod arp;
mod store;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use linux::frame::Datagram;
use linux::netlink::Netlink;
use linux::packet::{self, ETHERTYPE_ARP, Listen, Socket};
use model::Mac;
use protocols::dhcp::server::{
    Action, BOOT_PORT, Config as Decisions, ConfigError, Dest, Event, Lease, Report, Role, Server,
};
use protocols::dhcp::{CLIENT_PORT, SERVER_PORT};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, error, info, trace, warn};

pub use self::store::Error as StoreError;
use self::store::{Done, Store};
use crate::holder::{self, Transport};

/// Larger than any DHCP packet that comes unfragmented.
const BUFFER: usize = 2048;
/// A full transmit queue loses a packet rather than everyone's time; the client asks again.
const SEND_WITHIN: Duration = Duration::from_millis(100);
/// A bridge takes over the MAC of a port that is plugged in: look again.
const MAC_VALID_FOR: Duration = Duration::from_secs(1);
/// Packets taken in a row before anything else is looked at.
const AT_ONCE: usize = 64;
/// Errors in a row that mean the link is gone for good.
const MAX_ERRORS: u32 = 20;
const ERROR_PAUSE: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_hours(1);

/// Changes of the configuration that may wait.
const CHANGES: usize = 4;

/// What is served where.
#[derive(Debug, Clone)]
pub struct Config {
    /// The link, with the server's address on it.
    pub link: String,
    pub dhcp: Decisions,
    /// The file that leases are kept in.
    pub leases: PathBuf,
}

/// Why a server cannot be started, or went.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the DHCP configuration cannot be served")]
    Config(#[source] ConfigError),
    #[error("could not use the file of leases")]
    Store(#[source] StoreError),
    #[error("could not look up link {link}")]
    Link {
        link: String,
        source: linux::netlink::Error,
    },
    #[error("link {link} has no Ethernet address")]
    NotEthernet { link: String },
    #[error("could not open a packet socket on {link}")]
    Packets {
        link: String,
        source: linux::packet::Error,
    },
    #[error("could not listen on UDP port {port} of {link}{}", held(by.as_deref()))]
    Listen {
        link: String,
        port: u16,
        /// The program that has the port.
        by: Option<String>,
        source: io::Error,
    },
    #[error("link {link} is gone")]
    Gone { link: String, source: io::Error },
}

fn held(by: Option<&str>) -> String {
    by.map(|by| format!(", which {by} holds"))
        .unwrap_or_default()
}

/// A server with its sockets and its file.
pub struct Shell {
    server: Server,
    link: String,
    netlink: Netlink,
    mac: (Mac, Instant),
    /// Requests come in here, and answers for relays go out.
    udp: UdpSocket,
    /// Firmware asks its boot server here, beside another DHCP server.
    boot: Option<UdpSocket>,
    /// What other servers say to everyone.
    others: Option<UdpSocket>,
    /// Answers for clients: frames, because clients do not answer ARP yet.
    frames: Socket,
    arp: Socket,
    store: Store,
    changes: (mpsc::Sender<Decisions>, mpsc::Receiver<Decisions>),
}

impl std::fmt::Debug for Shell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shell on {}", self.link)
    }
}

/// What woke the shell.
enum Woken {
    Packet(usize),
    Boot(usize, SocketAddr),
    Arp(usize),
    Change(Box<Decisions>),
    Stored(Option<Done>),
    Timer,
    Stop,
    Trouble(io::Error),
}

impl Shell {
    /// Opens sockets and the file of leases in the caller's network namespace.
    pub async fn bind(config: Config) -> Result<Self, Error> {
        let link = config.link.clone();
        let netlink = Netlink::connect().map_err(|source| Error::Link {
            link: link.clone(),
            source,
        })?;
        let found = netlink.link(&link).await.map_err(|source| Error::Link {
            link: link.clone(),
            source,
        })?;
        let mac = found
            .mac
            .ok_or_else(|| Error::NotEthernet { link: link.clone() })?;
        let open = |listen| {
            let options = packet::Options {
                listen,
                promiscuous: false,
            };
            Socket::open(found.index, options).map_err(|source| Error::Packets {
                link: link.clone(),
                source,
            })
        };
        let (frames, arp) = (open(Listen::No)?, open(Listen::EtherType(ETHERTYPE_ARP))?);
        let bound = |port: u16| {
            listen(&link, Ipv4Addr::UNSPECIFIED, port).map_err(|source| Error::Listen {
                link: link.clone(),
                port,
                by: holder::of(Transport::Udp, port),
                source,
            })
        };
        let udp = bound(SERVER_PORT)?;
        let (boot, others) = match config.dhcp.role {
            // Only what goes to everyone: a client on this machine keeps what is for it alone.
            Role::Addresses => (None, listen(&link, Ipv4Addr::BROADCAST, CLIENT_PORT).ok()),
            Role::BootFiles => (Some(bound(BOOT_PORT)?), None),
        };

        let path = config.leases.clone();
        let opened = tokio::task::spawn_blocking(move || Store::open(&path))
            .await
            .expect("opening the file does not panic");
        let (store, leases) = opened.map_err(Error::Store)?;
        let now = SystemTime::now();
        let server = Server::restore(now, config.dhcp.clone(), leases).map_err(Error::Config)?;
        info!(link, server = %config.dhcp.server_id, leases = server.leases(now).count(), "DHCP listens");
        Ok(Self {
            server,
            link,
            netlink,
            mac: (mac, Instant::now()),
            udp,
            boot,
            others,
            frames,
            arp,
            store,
            changes: mpsc::channel(CHANGES),
        })
    }

    /// Leases that hold now.
    pub fn leases(&self) -> Vec<Lease> {
        self.server.leases(SystemTime::now()).cloned().collect()
    }

    /// Takes new configurations while the server runs; leases stay. The role cannot change.
    pub fn changes(&self) -> mpsc::Sender<Decisions> {
        self.changes.0.clone()
    }

    /// Serves until told to stop, or until the link is gone. `told` must not block.
    pub async fn run(
        mut self,
        mut stop: watch::Receiver<bool>,
        mut told: impl FnMut(Report),
    ) -> Result<(), Error> {
        let mut packet = [0; BUFFER];
        let mut frame = [0; BUFFER];
        let mut errors = 0;
        loop {
            let woken = self.wait(&mut stop, &mut packet, &mut frame).await;
            let event = match woken {
                Woken::Packet(length) => Event::Packet {
                    bytes: &packet[..length],
                },
                Woken::Boot(length, from) => {
                    let bytes = &packet[..length];
                    let actions = self
                        .server
                        .handle(SystemTime::now(), Event::BootPacket { bytes });
                    self.act(actions, Some(from), &mut told).await;
                    continue;
                }
                Woken::Change(decisions) => {
                    self.change(*decisions);
                    continue;
                }
                Woken::Arp(length) => match arp::claim(&frame[..length]) {
                    Some((address, mac)) => Event::ProbeResult {
                        address,
                        used_by: Some(mac),
                    },
                    None => continue,
                },
                Woken::Stored(Some(done)) => {
                    self.stored(done, &mut told).await;
                    continue;
                }
                Woken::Timer => Event::Timer,
                Woken::Stop => break,
                Woken::Stored(None) => {
                    error!(link = self.link, "the thread that writes leases has ended");
                    break;
                }
                Woken::Trouble(source) => {
                    errors += 1;
                    if errors > MAX_ERRORS {
                        return Err(Error::Gone {
                            link: self.link,
                            source,
                        });
                    }
                    warn!(link = self.link, error = %source, "could not receive");
                    tokio::time::sleep(ERROR_PAUSE).await;
                    continue;
                }
            };
            errors = 0;
            let actions = self.server.handle(SystemTime::now(), event);
            self.act(actions, None, &mut told).await;
            self.more(&mut packet, &mut told).await;
        }
        let store = self.store;
        tokio::task::spawn_blocking(move || store.close())
            .await
            .expect("closing the file does not panic");
        Ok(())
    }

    /// Packets that have come meanwhile: the disk is asked once for all who want a lease.
    async fn more(&mut self, packet: &mut [u8], told: &mut impl FnMut(Report)) {
        for _ in 0..AT_ONCE {
            let Ok((length, _)) = self.udp.try_recv_from(packet) else {
                return;
            };
            let bytes = &packet[..length];
            let actions = self
                .server
                .handle(SystemTime::now(), Event::Packet { bytes });
            self.act(actions, None, told).await;
        }
    }

    /// Leases that are on disk, or are not.
    async fn stored(&mut self, done: Done, told: &mut impl FnMut(Report)) {
        for token in done.tokens {
            let event = if done.written {
                Event::Persisted { token }
            } else {
                Event::PersistFailed { token }
            };
            let actions = self.server.handle(SystemTime::now(), event);
            self.act(actions, None, told).await;
        }
    }

    async fn wait(
        &mut self,
        stop: &mut watch::Receiver<bool>,
        packet: &mut [u8],
        frame: &mut [u8],
    ) -> Woken {
        // Packets are large enough for one buffer; only one branch wins, and the others have read nothing.
        let (mut boot, mut foreign) = ([0; BUFFER], [0; BUFFER]);
        let left = self
            .server
            .wake_at()
            .map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
        let wake = Instant::now() + left.unwrap_or(IDLE).min(IDLE);
        tokio::select! {
            _ = stop.changed() => Woken::Stop,
            received = self.udp.recv_from(packet) => match received {
                Ok((length, _)) => Woken::Packet(length),
                Err(error) => Woken::Trouble(error),
            },
            received = receive(self.boot.as_ref(), &mut boot) => match received {
                Ok((length, from)) => {
                    packet[..length].copy_from_slice(&boot[..length]);
                    Woken::Boot(length, from)
                }
                Err(error) => Woken::Trouble(error),
            },
            received = receive(self.others.as_ref(), &mut foreign) => match received {
                Ok((length, _)) => {
                    packet[..length].copy_from_slice(&foreign[..length]);
                    Woken::Packet(length)
                }
                Err(error) => Woken::Trouble(error),
            },
            Some(decisions) = self.changes.1.recv() => Woken::Change(Box::new(decisions)),
            received = self.arp.receive(frame) => match received {
                Ok(received) if received.outgoing => Woken::Arp(0),
                Ok(received) => Woken::Arp(received.len),
                Err(error) => Woken::Trouble(io::Error::other(error)),
            },
            done = self.store.done() => Woken::Stored(done),
            () = sleep_until(wake) => Woken::Timer,
        }
    }

    fn change(&mut self, decisions: Decisions) {
        if decisions.role != self.server.config().role {
            warn!(
                link = self.link,
                "the role of the DHCP server cannot change while it runs"
            );
            return;
        }
        if let Err(error) = self.server.reconfigure(SystemTime::now(), decisions) {
            error!(link = self.link, %error, "the DHCP configuration stays as it was");
        }
    }

    /// `from` is where a packet came from that may be answered there.
    async fn act(
        &mut self,
        actions: Vec<Action>,
        from: Option<SocketAddr>,
        told: &mut impl FnMut(Report),
    ) {
        let mut todo = std::collections::VecDeque::from(actions);
        while let Some(action) = todo.pop_front() {
            match action {
                Action::Probe { address } => {
                    let frame = arp::probe(self.mac().await, address);
                    self.send_frame(&frame).await;
                }
                Action::Persist { lease, token } => {
                    if !self.store.write(token, lease) {
                        warn!(
                            link = self.link,
                            "the disk is too far behind: a lease is not given"
                        );
                        todo.extend(
                            self.server
                                .handle(SystemTime::now(), Event::PersistFailed { token }),
                        );
                    }
                }
                Action::Send { bytes, dest } => self.send(&bytes, dest, from).await,
                Action::Report(report) => {
                    self.log(&report);
                    told(report);
                }
            }
        }
    }

    async fn send(&mut self, bytes: &[u8], dest: Dest, from: Option<SocketAddr>) {
        let (ip, mac) = match dest {
            Dest::Broadcast => (Ipv4Addr::BROADCAST, Mac::BROADCAST),
            Dest::Unicast { ip, mac } => (ip, mac),
            Dest::Back => {
                let (Some(boot), Some(from)) = (&self.boot, from) else {
                    return;
                };
                let sent = timeout(SEND_WITHIN, boot.send_to(bytes, from)).await;
                return trace!(link = self.link, %from, ?sent, "answer of the boot server");
            }
            Dest::Relay { giaddr } => {
                let sent =
                    timeout(SEND_WITHIN, self.udp.send_to(bytes, (giaddr, SERVER_PORT))).await;
                return trace!(link = self.link, relay = %giaddr, ?sent, "answer to a relay");
            }
        };
        let datagram = Datagram {
            from_mac: self.mac().await,
            to_mac: mac,
            from: SocketAddrV4::new(self.server.config().server_id, SERVER_PORT),
            to: SocketAddrV4::new(ip, CLIENT_PORT),
            payload: bytes,
        };
        let frame = datagram
            .encode()
            .expect("a DHCP packet is far shorter than a datagram can be");
        self.send_frame(&frame).await;
    }

    async fn send_frame(&self, frame: &[u8]) {
        match timeout(SEND_WITHIN, self.frames.send(frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                debug!(link = self.link, error = %model::chain(&error), "a frame was not sent");
            }
            Err(_) => debug!(link = self.link, "a frame was not sent: the queue is full"),
        }
    }

    async fn mac(&mut self) -> Mac {
        let (mac, seen) = self.mac;
        if seen.elapsed() < MAC_VALID_FOR {
            return mac;
        }
        let found = timeout(SEND_WITHIN, self.netlink.link(&self.link)).await;
        let mac = found
            .ok()
            .and_then(Result::ok)
            .and_then(|link| link.mac)
            .unwrap_or(mac);
        self.mac = (mac, Instant::now());
        mac
    }

    fn log(&self, report: &Report) {
        let link = &self.link;
        match report {
            Report::Leased(lease) => {
                info!(link, mac = %lease.mac, address = %lease.address, name = lease.hostname, "leased");
            }
            Report::Released(lease) => {
                info!(link, mac = %lease.mac, address = %lease.address, "released");
            }
            Report::Expired(lease) => {
                info!(link, mac = %lease.mac, address = %lease.address, "lease ran out");
            }
            Report::Declined { address, mac } => {
                warn!(link, %mac, %address, "a client found its address in use");
            }
            Report::Conflict { address, used_by } => {
                warn!(link, %address, mac = %used_by, "an address of the pool is in use");
            }
            Report::Refused { mac, address, why } => info!(link, %mac, %address, why, "refused"),
            Report::PoolExhausted { mac } => warn!(link, %mac, "no address is left"),
            Report::Booting {
                mac,
                firmware,
                ignored,
            } => {
                debug!(link, %mac, arch = firmware.arch, ipxe = firmware.ipxe, ignored, "boots from the network");
            }
            Report::OtherServer { id } => {
                warn!(link, server = %id, "another DHCP server is on this link");
            }
            Report::Malformed(error) => debug!(link, %error, "not a DHCP packet"),
        }
    }
}

async fn receive(socket: Option<&UdpSocket>, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    match socket {
        Some(socket) => socket.recv_from(buffer).await,
        None => std::future::pending().await,
    }
}

fn listen(link: &str, address: Ipv4Addr, port: u16) -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::DGRAM.nonblocking(),
        Some(socket2::Protocol::UDP),
    )?;
    // Clients on this machine have the clients' port too.
    socket.set_reuse_address(port == CLIENT_PORT)?;
    socket.set_broadcast(true)?;
    // A rack that is switched on at once fits.
    linux::mmsg::room_for_bursts(&socket, 1 << 20);
    socket.bind_device(Some(link.as_bytes()))?;
    socket.bind(&SocketAddrV4::new(address, port).into())?;
    // We do not push in beside a server that is there already; one for another link may come after us.
    socket.set_reuse_address(true)?;
    UdpSocket::from_std(socket.into())
}
