//! Virtual addresses: one task each around a `protocols::vrrp::Router`.
//!
//! ```text
//!   place ── which link, which own address        wire ── sockets and netlink: does what it is told
//!   ids ── which virtual router id is free        guard ── takes addresses off if we are killed
//!      └────────────> hold ── packets, timers, checks -> Router -> wire
//! ```
//!
//! All tasks share one thread, which runs in real time where that is allowed: a late advertisement costs
//! the address.

pub mod guard;
mod hold;
mod ids;
mod place;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use linux::netlink::Netlink;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;

use crate::Error;
use crate::checks::Passing;
use crate::config;
use crate::status::{self, RealTime};

pub use guard::Guard;
pub use place::{NoPlace, Place, choose};

/// Above ordinary threads, below the kernel's own.
const REAL_TIME_PRIORITY: u8 = 20;

/// The outside of a running instance. Dropping it ends the instance in order.
#[derive(Debug)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<status::Vip>,
}

#[derive(Debug)]
enum Command {
    /// Let another have it, and do not want it back for this long.
    Resign { hold_off: Option<Duration> },
    /// The same address in the same place, with other priorities or peers.
    Update(Box<config::Vip>),
}

impl Handle {
    pub fn name(&self) -> String {
        self.status.borrow().name.clone()
    }

    pub fn status(&self) -> status::Vip {
        self.status.borrow().clone()
    }

    pub async fn resign(&self, hold_off: Option<Duration>) -> Result<(), Error> {
        let sent = self.commands.send(Command::Resign { hold_off }).await;
        sent.map_err(|_| Error::Ended(self.name()))
    }

    pub async fn update(&self, vip: config::Vip) -> Result<(), Error> {
        let sent = self.commands.send(Command::Update(Box::new(vip))).await;
        sent.map_err(|_| Error::Ended(self.name()))
    }

    /// Ends it in order, and waits for that.
    pub async fn stop(self) {
        let Self {
            commands,
            mut status,
        } = self;
        drop(commands);
        while status.changed().await.is_ok() {}
    }
}

/// One virtual address before it runs.
#[derive(Debug)]
pub struct Instance {
    vip: config::Vip,
    /// Of all instances: none of these is a node's own address.
    vips: Vec<IpAddr>,
    passing: watch::Receiver<Passing>,
    commands: mpsc::Receiver<Command>,
    status: watch::Sender<status::Vip>,
    shared: Shared,
}

/// What all instances tell.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The names of the addresses that are here.
    pub held: watch::Sender<Vec<String>>,
    pub guard: Option<Guard>,
}

impl Shared {
    /// Before the address is put on the link, and after it was taken off.
    fn tell(&self, name: &str, link: &str, address: IpAddr, here: bool) {
        if let Some(guard) = &self.guard {
            guard.tell(link, address, here);
        }
        self.held.send_if_modified(|held| {
            let known = held.iter().position(|other| other == name);
            match (known, here) {
                (None, true) => held.push(name.to_owned()),
                (Some(at), false) => drop(held.remove(at)),
                (Some(_), true) | (None, false) => return false,
            }
            true
        });
    }
}

impl Instance {
    pub fn new(
        vip: config::Vip,
        all: &[config::Vip],
        passing: watch::Receiver<Passing>,
        shared: Shared,
    ) -> (Handle, Self) {
        let (send, commands) = mpsc::channel(4);
        let (publish, status) = watch::channel(status::Vip {
            name: vip.name.clone(),
            address: vip.address,
            id: vip.id.get(),
            interface: None,
            role: "starting".into(),
            priority: None,
            leader: None,
            transitions: Vec::new(),
            reports: Vec::new(),
            refused: BTreeMap::new(),
            problem: None,
        });
        let handle = Handle {
            commands: send,
            status,
        };
        let instance = Self {
            vip,
            vips: all.iter().map(|vip| vip.address).collect(),
            passing,
            commands,
            status: publish,
            shared,
        };
        (handle, instance)
    }
}

/// Where each address would go on this node at the moment, by name; those without a place are left out.
pub async fn links(config: &config::Config) -> BTreeMap<String, String> {
    let look = async {
        let netlink = Netlink::connect().ok()?;
        Some((netlink.links().await.ok()?, netlink.addresses().await.ok()?))
    };
    let Some((links, addresses)) = look.await else {
        return BTreeMap::new();
    };
    let vips: Vec<_> = config.vips.iter().map(|vip| vip.address).collect();
    let place = |vip: &config::Vip| {
        let place = choose(vip, &vips, &links, &addresses).ok()?;
        Some((vip.name.clone(), place.link))
    };
    config.vips.iter().filter_map(place).collect()
}

/// Runs all instances to their end; more may come until the sender is dropped. `ready` tells whether it is
/// on time.
pub fn thread(
    mut instances: mpsc::UnboundedReceiver<Instance>,
    real_time: bool,
    ready: oneshot::Sender<io::Result<RealTime>>,
    finished: oneshot::Sender<()>,
) {
    let granted = if real_time {
        ask_for_real_time()
    } else {
        RealTime::NotAsked
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error))),
    };
    let tasks = LocalSet::new();
    tasks.spawn_local(async move {
        while let Some(instance) = instances.recv().await {
            tokio::task::spawn_local(hold::run(instance));
        }
    });
    // If nobody waits for the answer, the handles are gone too, and the tasks end by themselves.
    let _ = ready.send(Ok(granted));
    runtime.block_on(tasks);
    let _ = finished.send(());
}

fn ask_for_real_time() -> RealTime {
    let asked =
        linux::sched::real_time(REAL_TIME_PRIORITY).and_then(|()| linux::sched::lock_memory());
    match asked {
        Ok(()) => RealTime::Granted,
        Err(error) => {
            tracing::warn!(%error, "no real-time scheduling or locked memory: a busy node may lose its addresses");
            RealTime::Refused(error.to_string())
        }
    }
}
