//! The DHCP server on real sockets: one task that owns the machine.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, SystemTime};

use linux::frame::Datagram;
use linux::netlink::Netlink;
use linux::packet::{self, ETHERTYPE_ARP, Listen, Socket};
use model::Mac;
use protocols::dhcp::server::{Action, Dest, Event, Report, Server};
use protocols::dhcp::{CLIENT_PORT, SERVER_PORT};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, error, info, trace, warn};

use super::book::Book;
use super::store::{Done, Store};
use super::{Config, Error, arp};

/// Larger than any DHCP packet that comes unfragmented.
const BUFFER: usize = 2048;
/// A full transmit queue loses a packet rather than everyone's time; the client asks again.
const SEND_WITHIN: Duration = Duration::from_millis(100);
/// A bridge takes over the MAC of a port that is plugged in: look again.
const MAC_VALID_FOR: Duration = Duration::from_secs(1);
/// Errors in a row that mean the link is gone for good.
const MAX_ERRORS: u32 = 20;
const ERROR_PAUSE: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_hours(1);

/// A server with its sockets and its file.
pub struct Shell {
    server: Server,
    link: String,
    netlink: Netlink,
    mac: (Mac, Instant),
    /// Requests come in here, and answers for relays go out.
    udp: UdpSocket,
    /// Answers for clients: frames, because clients do not answer ARP yet.
    frames: Socket,
    arp: Socket,
    store: Store,
    book: Book,
}

/// What woke the shell.
enum Woken {
    Packet(usize),
    Arp(usize),
    Stored(Option<Done>),
    Timer,
    Stop,
    Trouble(io::Error),
}

impl Shell {
    pub async fn bind(config: &Config, book: Book) -> Result<Self, Error> {
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
        let udp = listen(&link).map_err(|source| Error::Listen {
            what: format!("port {SERVER_PORT} of {link}"),
            source,
        })?;

        let path = config.leases.clone();
        let opened = tokio::task::spawn_blocking(move || Store::open(&path))
            .await
            .expect("opening the file does not panic");
        let (store, leases) = opened.map_err(Error::Store)?;
        let now = SystemTime::now();
        let server = Server::restore(now, config.dhcp.clone(), leases).map_err(Error::Config)?;
        for lease in server.leases(now) {
            book.leased(lease);
        }
        info!(link, server = %config.dhcp.server_id, leases = server.leases(now).count(), "the site's DHCP listens");
        Ok(Self {
            server,
            link,
            netlink,
            mac: (mac, Instant::now()),
            udp,
            frames,
            arp,
            store,
            book,
        })
    }

    /// Serves until told to stop, or until the link is gone.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<(), Error> {
        let mut packet = [0; BUFFER];
        let mut frame = [0; BUFFER];
        let mut errors = 0;
        loop {
            let woken = self.wait(&mut stop, &mut packet, &mut frame).await;
            let event = match woken {
                Woken::Packet(length) => Event::Packet {
                    bytes: &packet[..length],
                },
                Woken::Arp(length) => match arp::claim(&frame[..length]) {
                    Some((address, mac)) => Event::ProbeResult {
                        address,
                        used_by: Some(mac),
                    },
                    None => continue,
                },
                Woken::Stored(Some(Done::Written(token))) => Event::Persisted { token },
                Woken::Stored(Some(Done::Failed(token))) => Event::PersistFailed { token },
                Woken::Timer => Event::Timer,
                Woken::Stop => break,
                Woken::Stored(None) => {
                    error!(link = self.link, "the thread that writes leases has ended");
                    break;
                }
                Woken::Trouble(source) => {
                    errors += 1;
                    if errors > MAX_ERRORS {
                        return Err(Error::Listen {
                            what: self.link,
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
            self.act(actions).await;
        }
        let store = self.store;
        tokio::task::spawn_blocking(move || store.close())
            .await
            .expect("closing the file does not panic");
        Ok(())
    }

    async fn wait(
        &mut self,
        stop: &mut watch::Receiver<bool>,
        packet: &mut [u8],
        frame: &mut [u8],
    ) -> Woken {
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
            received = self.arp.receive(frame) => match received {
                Ok(received) if received.outgoing => Woken::Arp(0),
                Ok(received) => Woken::Arp(received.len),
                Err(error) => Woken::Trouble(io::Error::other(error)),
            },
            done = self.store.done() => Woken::Stored(done),
            () = sleep_until(wake) => Woken::Timer,
        }
    }

    async fn act(&mut self, actions: Vec<Action>) {
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
                Action::Send { bytes, dest } => self.send(&bytes, dest).await,
                Action::Report(report) => self.report(report),
            }
        }
    }

    async fn send(&mut self, bytes: &[u8], dest: Dest) {
        let (ip, mac) = match dest {
            Dest::Broadcast => (Ipv4Addr::BROADCAST, Mac::BROADCAST),
            Dest::Unicast { ip, mac } => (ip, mac),
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

    fn report(&self, report: Report) {
        let link = &self.link;
        match report {
            Report::Leased(lease) => {
                info!(link, mac = %lease.mac, address = %lease.address, name = lease.hostname, "leased");
                self.book.leased(&lease);
            }
            Report::Released(lease) => {
                info!(link, mac = %lease.mac, address = %lease.address, "released");
                self.book.ended(&lease);
            }
            Report::Expired(lease) => {
                info!(link, mac = %lease.mac, address = %lease.address, "lease ran out");
                self.book.ended(&lease);
            }
            Report::Declined { address, mac } => {
                warn!(link, %mac, %address, "a client found its address in use");
                self.book.forget(address);
            }
            Report::Conflict { address, used_by } => {
                warn!(link, %address, mac = %used_by, "an address of the pool is in use");
            }
            Report::Refused { mac, address, why } => info!(link, %mac, %address, why, "refused"),
            Report::PoolExhausted { mac } => warn!(link, %mac, "no address is left"),
            Report::OtherServer { id } => {
                warn!(link, server = %id, "another DHCP server is on this link");
            }
            Report::Malformed(error) => debug!(link, %error, "not a DHCP packet"),
        }
    }
}

fn listen(link: &str) -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::DGRAM.nonblocking(),
        Some(socket2::Protocol::UDP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_broadcast(true)?;
    socket.bind_device(Some(link.as_bytes()))?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, SERVER_PORT).into())?;
    UdpSocket::from_std(socket.into())
}
