//! DNS on the node's own address: the cluster's names, and everything else from elsewhere.
//!
//! ```text
//!   udp ── threads, 32 datagrams at a time ─┐            ┌─> Names (swapped when members change)
//!   tcp ── a task per connection ───────────┴─> Desk ────┼─> Cache
//!                                                │       └─> refusals
//!                                                ▼ what neither knows
//!                                             forward ── one task around a `protocols::dns::Forwarder`
//!   resolv ── points resolv.conf at us once we listen, and learns the upstreams from it
//! ```

mod desk;
mod forward;
mod tcp;
mod udp;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use protocols::dns::{BadDomain, Cluster, Names, Node};
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::config::dns::{Dns, PORT};
use crate::members::Members;
use crate::resolv;
use desk::Desk;

/// Questions on their way to the forwarder.
const QUEUE: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not listen for DNS on {address} ({how})")]
    Listen {
        address: SocketAddr,
        how: &'static str,
        source: io::Error,
    },
    #[error("could not start a thread of the DNS server")]
    Thread { source: io::Error },
    #[error("could not see this node's addresses")]
    Addresses { source: nix::Error },
    #[error("this node has no address in {networks:?} yet")]
    NoAddress { networks: Vec<String> },
    #[error("the cluster's domain is wrong")]
    Domain { source: BadDomain },
    #[error("could not keep resolv.conf")]
    Resolv { source: resolv::Error },
}

/// Where the cluster's services are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vips {
    pub api: Vec<IpAddr>,
    pub ingress: Vec<IpAddr>,
}

/// What changes while the server runs.
#[derive(Debug, Clone)]
pub struct Feed {
    pub vips: watch::Receiver<Vips>,
    pub members: watch::Receiver<Members>,
}

/// A running DNS server. Dropping it ends it; [`Handle::stop`] waits for that and restores resolv.conf.
#[derive(Debug)]
pub struct Handle {
    desk: Arc<Desk>,
    tasks: JoinSet<()>,
    threads: Vec<udp::Worker>,
    keeper: Option<resolv::Keeper>,
    status: watch::Receiver<forward::Seen>,
}

/// Answers, by how they were found, and what is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    pub listen: Vec<SocketAddr>,
    pub domain: String,
    pub upstreams: Vec<UpstreamStatus>,
    /// Where the upstreams come from.
    pub upstreams_from: String,
    pub cache_entries: usize,
    pub cache_bytes: usize,
    /// Questions under way to upstreams.
    pub pending: usize,
    /// By name.
    pub counts: BTreeMap<&'static str, u64>,
    pub resolv_conf: Option<resolv::Status>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UpstreamStatus {
    pub address: SocketAddr,
    /// `up`, `down`, or `loop`: it sends our questions back to us.
    pub state: &'static str,
    pub answers: u64,
    pub failures: u64,
}

/// Starts serving, in the network namespace of the calling thread. Needs a tokio runtime.
pub fn start(config: &Dns, feed: Feed) -> Result<Handle, Error> {
    let config = &Dns {
        listen: own_addresses(config)?,
        ..config.clone()
    };
    let names = names(config, &feed).map_err(|source| Error::Domain { source })?;
    let (ask, questions) = mpsc::channel(QUEUE);
    let desk = Arc::new(Desk::new(config, names, ask));
    let mut sockets = Vec::new();
    let mut listeners = Vec::new();
    for address in &config.listen {
        for _ in 0..config.workers {
            sockets.push(udp::bind(*address)?);
        }
        listeners.push(tcp::bind(*address)?);
    }
    let mut tasks = JoinSet::new();
    let keeper = match &config.resolv {
        Some(resolv) => {
            let own = config.listen.iter().map(SocketAddr::ip).collect();
            let keeper = resolv::start(resolv, own, &config.domain);
            Some(keeper.map_err(|source| Error::Resolv { source })?)
        }
        None => None,
    };
    let upstreams = match &keeper {
        Some(keeper) if config.upstreams.is_empty() => keeper.upstreams(),
        _ => watch::channel(config.upstreams.clone()).1,
    };
    let threads = udp::start(&desk, &sockets)?;
    let (seen, status) = watch::channel(forward::Seen::default());
    tasks.spawn(forward::run(
        Arc::clone(&desk),
        forward::config(config),
        sockets,
        questions,
        upstreams,
        seen,
    ));
    for listener in listeners {
        tasks.spawn(tcp::run(Arc::clone(&desk), listener, config.clone()));
    }
    tasks.spawn(follow(Arc::clone(&desk), config.clone(), feed));
    tracing::info!(listen = ?config.listen, domain = config.domain, "DNS listens");
    Ok(Handle {
        desk,
        tasks,
        threads,
        keeper,
        status,
    })
}

/// Where to listen: the written addresses, and what this node has at the moment in the networks.
pub fn own_addresses(config: &Dns) -> Result<Vec<SocketAddr>, Error> {
    let mut listen = config.listen.clone();
    if config.networks.is_empty() {
        return Ok(listen);
    }
    let all = nix::ifaddrs::getifaddrs().map_err(|source| Error::Addresses { source })?;
    let mut found = BTreeSet::new();
    for interface in all {
        let (Some(address), Some(mask)) = (ip(interface.address), ip(interface.netmask)) else {
            continue;
        };
        // A virtual address has the network to itself, and moves.
        let whole = match mask {
            IpAddr::V4(mask) => mask.to_bits() == u32::MAX,
            IpAddr::V6(mask) => mask.to_bits() == u128::MAX,
        };
        let wanted = config.networks.iter().any(|net| net.contains(&address));
        if wanted && !whole && !config.api.contains(&address) && !config.ingress.contains(&address)
        {
            found.insert(SocketAddr::new(address, PORT));
        }
    }
    if found.is_empty() {
        let networks = config.networks.iter().map(ToString::to_string).collect();
        return Err(Error::NoAddress { networks });
    }
    found.retain(|address| !listen.contains(address));
    listen.extend(found);
    Ok(listen)
}

fn ip(address: Option<nix::sys::socket::SockaddrStorage>) -> Option<IpAddr> {
    let address = address?;
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
}

impl Handle {
    pub fn listen(&self) -> &[SocketAddr] {
        &self.desk.listen
    }

    pub fn status(&self) -> Status {
        let seen = self.status.borrow().clone();
        let (cache_entries, cache_bytes) = self.desk.remembered();
        let mut counts = self.desk.counts();
        counts.extend(seen.counts);
        Status {
            listen: self.desk.listen.clone(),
            domain: self.desk.domain.clone(),
            upstreams: seen.upstreams,
            upstreams_from: self.desk.upstreams_from.clone(),
            cache_entries,
            cache_bytes,
            pending: seen.pending,
            counts,
            resolv_conf: self.keeper.as_ref().map(resolv::Keeper::status),
        }
    }

    /// Restores resolv.conf first, so that nobody is left asking us.
    pub async fn stop(mut self) -> Result<(), Error> {
        let restored = match self.keeper.take() {
            Some(keeper) => keeper.stop().await,
            None => Ok(()),
        };
        self.tasks.shutdown().await;
        drop(std::mem::take(&mut self.threads));
        restored.map_err(|source| Error::Resolv { source })
    }
}

/// Swaps the names in when addresses or members change.
async fn follow(desk: Arc<Desk>, config: Dns, mut feed: Feed) {
    loop {
        // One that tells us nothing more is not waited for; what it told stays.
        tokio::select! {
            Ok(()) = feed.vips.changed() => {}
            Ok(()) = feed.members.changed() => {}
            else => return std::future::pending().await,
        }
        match names(&config, &feed) {
            Ok(names) => desk.set_names(names),
            Err(error) => tracing::error!(%error, "the names stay as they were"),
        }
    }
}

fn names(config: &Dns, feed: &Feed) -> Result<Names, BadDomain> {
    let vips = feed.vips.borrow();
    let or = |live: &Vec<IpAddr>, written: &Vec<IpAddr>| {
        if live.is_empty() {
            written.clone()
        } else {
            live.clone()
        }
    };
    let nodes = feed.members.borrow();
    Names::new(&Cluster {
        domain: config.domain.clone(),
        api: or(&vips.api, &config.api),
        ingress: or(&vips.ingress, &config.ingress),
        nodes: nodes
            .values()
            .map(|member| Node {
                name: member.name.clone(),
                addresses: member.addresses.clone(),
                etcd: member.control_plane,
            })
            .collect(),
        etcd_minimum: config.etcd_minimum,
        authoritative: config.authoritative,
    })
}
