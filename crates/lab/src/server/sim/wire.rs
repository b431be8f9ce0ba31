//! The cables of simulated servers: one per network, shared by all, each server with its own MAC.
//!
//! ```text
//!   bridge ── sim-…-p ══ sim-… ── packet socket ── DHCP frames, by MAC
//!                          └───── kernel addresses ── TFTP, HTTP
//! ```
//!
//! Each address is a network of its own (`/32`), and the subnet is a route. Addresses that share a subnet are one
//! primary and its secondaries to the kernel: when the primary goes, all of them are gone for a moment, and connections
//! of a thousand servers with them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ipnet::{IpNet, Ipv4Net};
use linux::addr::Want;
use linux::frame::Datagram;
use linux::netlink::{self, Netlink};
use linux::packet::{self, ETHERTYPE_IPV4, Listen};
use linux::route::Route;
use linux::sysctl;
use model::Mac;
use protocols::dhcp::client::{Action, Client, Config, Dest, Event, Lease, Pxe, Retry};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use crate::clock::at;
use crate::hardware::{Network, Nic};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    #[error(transparent)]
    Packet(#[from] packet::Error),
    #[error(transparent)]
    Sysctl(#[from] sysctl::Error),
}

/// Both cables.
pub struct Wire {
    netlink: Netlink,
    /// The kernel changes one address at a time: who waits for it does so here, where no time runs out.
    changes: Semaphore,
    /// Firmware that loads a file.
    pub fetchers: Semaphore,
    /// Agents that write an image.
    pub writers: Arc<Semaphore>,
    baremetal: Cable,
    provisioning: Cable,
}

struct Cable {
    link: &'static str,
    socket: Arc<packet::Socket>,
    nics: Listeners,
    /// Subnets there is a route to.
    subnets: Mutex<BTreeSet<Ipv4Net>>,
    receiver: JoinHandle<()>,
}

type Listeners = Arc<Mutex<BTreeMap<Mac, mpsc::Sender<Vec<u8>>>>>;

/// Changes of addresses under way at once.
const CHANGES: usize = 4;
/// Each has buffers of up to a megabyte, and a thousand servers are no faster side by side than in turn.
const FETCHERS: usize = 64;
/// Each holds several megabytes of its image.
const WRITERS: usize = 8;

/// What the cable does to frames, decided for each.
pub trait Loss: Fn() -> bool + Send + Sync {}
impl<F: Fn() -> bool + Send + Sync> Loss for F {}

impl Wire {
    pub async fn plug(netlink: &Netlink) -> Result<Self, Error> {
        Ok(Self {
            baremetal: Cable::plug(netlink, Network::Baremetal).await?,
            provisioning: Cable::plug(netlink, Network::Provisioning).await?,
            netlink: netlink.clone(),
            changes: Semaphore::new(CHANGES),
            fetchers: Semaphore::new(FETCHERS),
            writers: Arc::new(Semaphore::new(WRITERS)),
        })
    }

    fn cable(&self, network: Network) -> &Cable {
        match network {
            Network::Baremetal => &self.baremetal,
            Network::Provisioning => &self.provisioning,
        }
    }

    /// Asks for an address, as boot firmware does where `pxe` says so. `lost` is asked for every frame.
    pub async fn dhcp(
        &self,
        nic: &Nic,
        pxe: Option<Pxe>,
        within: Duration,
        lost: impl Loss,
    ) -> Option<Lease> {
        let cable = self.cable(nic.network);
        let (tell, mut heard) = mpsc::channel(16);
        cable.nics().insert(nic.mac, tell);
        let asked = ask(cable, nic.mac, pxe, &mut heard, &lost);
        let lease = tokio::time::timeout(within, asked).await.ok();
        cable.nics().remove(&nic.mac);
        lease
    }

    /// Makes a leased address usable for sockets.
    pub async fn take(&self, network: Network, lease: &Lease) -> Result<(), Error> {
        let _turn = self.changes.acquire().await;
        let cable = self.cable(network);
        self.netlink
            .ensure_address(cable.link, Want::new(host(lease)))
            .await?;
        let Ok(subnet) = Ipv4Net::new(lease.address, lease.prefix) else {
            return Ok(());
        };
        if lock(&cable.subnets).contains(&subnet.trunc()) {
            return Ok(());
        }
        let route = Route {
            metric: Some(LAST_RESORT),
            ..Route::on_link(IpNet::V4(subnet.trunc()), cable.link)
        };
        self.netlink.ensure_route(&route).await?;
        lock(&cable.subnets).insert(subnet.trunc());
        Ok(())
    }

    pub async fn give_back(&self, network: Network, lease: &Lease) {
        let _turn = self.changes.acquire().await;
        if let Err(error) = self
            .netlink
            .remove_address(self.cable(network).link, host(lease))
            .await
        {
            warn!(address = %lease.address, %error, "address of a simulated server not removed");
        }
    }
}

/// Behind the route of whoever else has an address in the subnet: a service in this namespace is nearer by it.
const LAST_RESORT: u32 = 1000;

fn host(lease: &Lease) -> IpNet {
    IpNet::from(IpAddr::V4(lease.address))
}

async fn ask(
    cable: &Cable,
    mac: Mac,
    pxe: Option<Pxe>,
    heard: &mut mpsc::Receiver<Vec<u8>>,
    lost: &impl Loss,
) -> Lease {
    let config = Config {
        mac,
        client_id: None,
        hostname: None,
        broadcast: false,
        pxe,
        retry: Retry::default(),
        seed: rand::random(),
    };
    let mut client = Client::new(config);
    let mut actions = client.handle(Instant::now(), Event::Start);
    loop {
        for action in actions.drain(..) {
            match action {
                Action::Send { bytes, dest } if !lost() => cable.send(mac, &bytes, dest).await,
                Action::Send { .. } => {}
                Action::Bound(lease) => return lease,
                Action::Lost(why) => debug!(%mac, ?why, "lease lost"),
            }
        }
        let wake = client.wake_at();
        actions = tokio::select! {
            bytes = heard.recv() => match bytes {
                Some(bytes) if !lost() => client.handle(Instant::now(), Event::Packet { bytes: &bytes }),
                Some(_) => vec![],
                // The cable is gone; so is this server, in a moment.
                None => std::future::pending().await,
            },
            () = at(wake) => client.handle(Instant::now(), Event::Timer),
        };
    }
}

impl Cable {
    async fn plug(netlink: &Netlink, network: Network) -> Result<Self, Error> {
        let (link, port) = match network {
            Network::Baremetal => ("sim-bm", "sim-bm-p"),
            Network::Provisioning => ("sim-pr", "sim-pr-p"),
        };
        netlink.ensure_veth(link, port).await?;
        netlink.set_master(port, Some(network.bridge())).await?;
        netlink.set_up(port).await?;
        netlink.set_up(link).await?;
        // The router and the servers are in one namespace: packets between them come from addresses of our own.
        sysctl::set(&format!("net.ipv4.conf.{link}.accept_local"), "1")?;
        sysctl::set(&format!("net.ipv4.conf.{link}.rp_filter"), "0")?;
        let index = netlink.link(link).await?.index;
        let options = packet::Options {
            listen: Listen::EtherType(ETHERTYPE_IPV4),
            promiscuous: true,
        };
        let socket = Arc::new(packet::Socket::open(index, options)?);
        let nics = Listeners::default();
        let receiver = tokio::spawn(receive(socket.clone(), nics.clone()));
        Ok(Self {
            link,
            socket,
            nics,
            subnets: Mutex::default(),
            receiver,
        })
    }

    fn nics(&self) -> MutexGuard<'_, BTreeMap<Mac, mpsc::Sender<Vec<u8>>>> {
        lock(&self.nics)
    }

    async fn send(&self, mac: Mac, payload: &[u8], dest: Dest) {
        let server = match dest {
            Dest::Broadcast => Ipv4Addr::BROADCAST,
            // Renewals go to the server by broadcast frame too: firmware keeps no ARP table.
            Dest::Unicast { server } => server,
        };
        let datagram = Datagram {
            from_mac: mac,
            to_mac: Mac::BROADCAST,
            from: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68),
            to: SocketAddrV4::new(server, 67),
            payload,
        };
        let Ok(frame) = datagram.encode() else { return };
        if let Err(error) = self.socket.send(&frame).await {
            debug!(%mac, %error, "frame of a simulated server not sent");
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.receiver.abort();
    }
}

/// Hands DHCP answers to the server they are for: by the frame's MAC, or by the client's inside when broadcast.
async fn receive(socket: Arc<packet::Socket>, nics: Listeners) {
    let mut buffer = vec![0; 2048];
    loop {
        let received = match socket.receive(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                debug!(%error, "simulated servers' cable");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(datagram) = Datagram::parse(&buffer[..received.len], received.checksum) else {
            continue;
        };
        if received.outgoing || datagram.to.port() != 68 {
            continue;
        }
        // chaddr (RFC 2131, 2): who the answer is for, whatever the frame says.
        let Some(chaddr) = datagram
            .payload
            .get(28..34)
            .and_then(|bytes| bytes.try_into().ok())
        else {
            continue;
        };
        let listener = lock(&nics).get(&Mac(chaddr)).cloned();
        if let Some(listener) = listener {
            _ = listener.try_send(datagram.payload.to_vec());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
