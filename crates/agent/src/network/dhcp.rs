//! One card's DHCP client: the task that carries packets and time to the machine in `protocols`.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use linux::frame::Datagram;
use linux::netlink::Netlink;
use linux::packet::{self, Listen, Socket};
use model::Mac;
use protocols::dhcp::client::{Action, Client, Config, Dest, Event, Retry};
use protocols::dhcp::{CLIENT_PORT, SERVER_PORT};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::News;

pub struct Card {
    pub name: String,
    pub index: u32,
    pub mac: Mac,
}

/// Runs for ever: first for the cable, then for the lease.
pub async fn run(card: Card, netlink: Netlink, news: mpsc::Sender<(String, News)>) {
    let tell = |what| news.send((card.name.clone(), what));
    // An error is the end of the limit, or a card that went away; either way a cable may still come.
    while netlink
        .wait_carrier(&card.name, Duration::from_mins(10))
        .await
        .is_err()
    {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let _ = tell(News::Carrier).await;
    let mut shell = Shell {
        client: Client::new(config(card.mac)),
        socket: None,
        renewal: None,
        held: None,
        card: &card,
    };
    if let Err(error) = shell.run(&news).await {
        let _ = tell(News::Failed(model::chain(&error))).await;
    }
}

fn config(mac: Mac) -> Config {
    Config {
        mac,
        client_id: None,
        hostname: None,
        broadcast: false,
        pxe: None,
        retry: Retry {
            first: Duration::from_secs(1),
            most: Duration::from_secs(16),
            requests: 4,
        },
        seed: seed(mac),
    }
}

/// From the kernel's generator; the MAC alone would do where it is missing.
fn seed(mac: Mac) -> u64 {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    if read.is_err() {
        bytes[..6].copy_from_slice(&mac.octets());
    }
    u64::from_le_bytes(bytes)
}

struct Shell<'a> {
    client: Client,
    /// Only open while an answer is awaited: it sees every IPv4 packet of the card.
    socket: Option<Socket>,
    /// Keeps the port taken while a renewal's answer is on its way.
    renewal: Option<UdpSocket>,
    /// What is on the card now, to be taken off when it is lost.
    held: Option<(Ipv4Addr, u8)>,
    card: &'a Card,
}

impl Shell<'_> {
    async fn run(&mut self, news: &mpsc::Sender<(String, News)>) -> Result<(), packet::Error> {
        let mut buffer = vec![0; 2048];
        let mut actions = self.client.handle(Instant::now(), Event::Start);
        loop {
            for action in actions {
                self.perform(action, news).await?;
            }
            let wake_at = self.client.wake_at();
            actions = tokio::select! {
                () = sleep_until(wake_at) => self.client.handle(Instant::now(), Event::Timer),
                received = receive(self.socket.as_ref(), &mut buffer) => {
                    let received = received?;
                    match Datagram::parse(&buffer[..received.len], received.checksum) {
                        Ok(datagram) if datagram.to.port() == CLIENT_PORT => {
                            let bytes = datagram.payload;
                            self.client.handle(Instant::now(), Event::Packet { bytes })
                        }
                        Ok(_) | Err(_) => Vec::new(),
                    }
                }
            };
        }
    }

    async fn perform(
        &mut self,
        action: Action,
        news: &mpsc::Sender<(String, News)>,
    ) -> Result<(), packet::Error> {
        let tell = |what| news.send((self.card.name.clone(), what));
        match action {
            Action::Bound(lease) => {
                self.socket = None;
                self.renewal = None;
                self.held = Some((lease.address, lease.prefix));
                let _ = tell(News::Bound(lease)).await;
            }
            Action::Lost(_) => {
                if let Some((address, prefix)) = self.held.take() {
                    let _ = tell(News::Lost(address, prefix)).await;
                }
            }
            Action::Send { bytes, dest } => {
                let from = self
                    .client
                    .lease()
                    .map_or(Ipv4Addr::UNSPECIFIED, |lease| lease.address);
                let socket = match self.socket.take() {
                    Some(socket) => socket,
                    None => Socket::open(
                        self.card.index,
                        packet::Options {
                            listen: Listen::EtherType(packet::ETHERTYPE_IPV4),
                            promiscuous: false,
                        },
                    )?,
                };
                match dest {
                    Dest::Broadcast => self.broadcast(&socket, from, &bytes).await?,
                    Dest::Unicast { server } => self.unicast(from, server, &bytes).await,
                }
                self.socket = Some(socket);
            }
        }
        Ok(())
    }

    async fn broadcast(
        &self,
        socket: &Socket,
        from: Ipv4Addr,
        bytes: &[u8],
    ) -> Result<(), packet::Error> {
        let datagram = Datagram {
            from_mac: self.card.mac,
            to_mac: Mac::BROADCAST,
            from: SocketAddrV4::new(from, CLIENT_PORT),
            to: SocketAddrV4::new(Ipv4Addr::BROADCAST, SERVER_PORT),
            payload: bytes,
        };
        let frame = datagram
            .encode()
            .expect("a DHCP packet is far shorter than a datagram");
        socket.send(&frame).await
    }

    /// A renewal goes the ordinary way. If it cannot, the machine asks again, by broadcast in the end.
    async fn unicast(&mut self, from: Ipv4Addr, server: Ipv4Addr, bytes: &[u8]) {
        if self.renewal.is_none() {
            self.renewal = UdpSocket::bind((from, CLIENT_PORT)).await.ok();
        }
        if let Some(socket) = &self.renewal {
            let _ = socket.send_to(bytes, (server, SERVER_PORT)).await;
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

async fn receive(
    socket: Option<&Socket>,
    buffer: &mut [u8],
) -> Result<packet::Received, packet::Error> {
    match socket {
        Some(socket) => socket.receive(buffer).await,
        None => std::future::pending().await,
    }
}
