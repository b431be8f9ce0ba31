//! Virtual addresses: one task each around a `protocols::vrrp::Router`.
//!
//! ```text
//!   place ── which link, which own address        wire ── sockets and netlink: does what it is told
//!      └────────────> hold ── packets, timers, checks -> Router -> wire
//! ```
//!
//! All tasks share one thread, which runs in real time where that is allowed: a late advertisement costs
//! the address.

mod hold;
mod place;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;

use crate::Error;
use crate::checks::Passing;
use crate::config;
use crate::status::{self, RealTime};

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
    Resign,
}

impl Handle {
    pub fn name(&self) -> String {
        self.status.borrow().name.clone()
    }

    pub fn status(&self) -> status::Vip {
        self.status.borrow().clone()
    }

    pub async fn resign(&self) -> Result<(), Error> {
        let sent = self.commands.send(Command::Resign).await;
        sent.map_err(|_| Error::Ended(self.name()))
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
}

impl Instance {
    pub fn new(
        vip: config::Vip,
        all: &[config::Vip],
        passing: watch::Receiver<Passing>,
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
        };
        (handle, instance)
    }
}

/// Runs all instances to their end. `ready` tells whether it is on time.
pub fn thread(
    instances: Vec<Instance>,
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
    for instance in instances {
        tasks.spawn_local(hold::run(instance));
    }
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
