//! A simulated board: no QEMU, but firmware, network boot, media and power that speak the real protocols.
//!
//! ```text
//!   Action ──▶ task ──spawns──▶ one boot: Firmware (pure) ─▶ wire (DHCP), fetch (TFTP, HTTP)
//!   News  ◀──   │                         └▶ Payload ─▶ guest: an OS that is there, or the agent (the real protocol)
//!               └ stop, reset: the boot is ended, its addresses given back
//! ```

pub mod agent;
mod cd;
pub mod fetch;
pub mod firmware;
mod guest;
pub mod ipxe;
pub mod wire;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use model::Mac;
use model::inventory::BootMode;
use protocols::dhcp::client::{Lease, Pxe};
use tokio::sync::{SemaphorePermit, mpsc};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tracing::warn;

use super::boot::{Device, Plan};
use super::chassis::Wires;
use super::console::{BoardEnd, Console, Screen};
use super::{Action, Board, News};
use crate::fault::{Faults, Kind};
use crate::hardware::{Firmware as Mode, Hardware, Network};
use firmware::{Devices, Event, Firmware, Step};
use wire::Wire;

/// Starts a simulated board, powered off; without a wire its NICs are plugged into nothing.
pub fn spawn(hardware: &Hardware, home: &Path, wire: Option<Arc<Wire>>, faults: Faults) -> Board {
    let log = home.join("console.log");
    let (console, BoardEnd { output, .. }) = Console::new(log.clone());
    let (actions, orders) = mpsc::channel(QUEUE);
    let (tell, news) = mpsc::channel(QUEUE);
    let outside = Outside {
        hardware: Arc::new(hardware.clone()),
        wire,
        faults,
        wires: Arc::default(),
        leases: Arc::default(),
        disks: agent::Disks::default(),
        screen: Screen::open(output, &log),
    };
    let sim = Sim {
        outside,
        devices: Devices::default(),
        plan: None,
        running: None,
    };
    let task = tokio::spawn(sim.run(orders, tell));
    Board {
        actions,
        news,
        console,
        task,
    }
}

const QUEUE: usize = 32;
/// An agent waits no longer for an address.
const DHCP_WITHIN: Duration = Duration::from_secs(20);
/// Nor for a second one, when it has one: long enough for a client to ask again.
const OTHERS_WITHIN: Duration = Duration::from_secs(5);

struct Sim {
    outside: Outside,
    devices: Devices,
    /// How the next boot goes; there while the power is on.
    plan: Option<Plan>,
    running: Option<JoinHandle<End>>,
}

/// What a boot touches. Cheap to clone.
#[derive(Clone)]
struct Outside {
    hardware: Arc<Hardware>,
    wire: Option<Arc<Wire>>,
    faults: Faults,
    wires: Arc<Mutex<Wires>>,
    /// Addresses in use, to be given back when the power goes.
    leases: Arc<Mutex<Vec<(Network, Lease)>>>,
    disks: agent::Disks,
    screen: Screen,
}

/// How a boot came to its end by itself.
enum End {
    Reboot,
    PowerOff,
}

impl Sim {
    async fn run(mut self, mut orders: mpsc::Receiver<Action>, tell: mpsc::Sender<News>) {
        loop {
            let news = tokio::select! {
                action = orders.recv() => match action {
                    Some(action) => self.act(action).await,
                    None => break,
                },
                end = ended(&mut self.running) => self.ended(end).await,
            };
            if let Some(news) = news
                && tell.send(news).await.is_err()
            {
                break;
            }
        }
        self.halt().await;
    }

    async fn act(&mut self, action: Action) -> Option<News> {
        match action {
            Action::Start(plan) => {
                self.plan = Some(plan);
                self.boot();
                Some(News::Started)
            }
            Action::Stop => self.off("power cut").await,
            Action::PressPowerButton => self.off("power button").await,
            Action::Reset => self.reset().await,
            Action::NextBoot(order) => {
                self.order_next(order);
                None
            }
            Action::Load(media) => {
                self.devices.cd = Some(media);
                None
            }
            Action::Unload => {
                self.devices.cd = None;
                None
            }
            Action::Wire(wires) => {
                self.devices.disk_errors = wires.disk_errors;
                *lock(&self.outside.wires) = wires;
                None
            }
            Action::Nmi => {
                self.outside.screen.line("NMI");
                None
            }
            // The server's task keeps time itself.
            Action::ResetIn(_) => None,
        }
    }

    fn order_next(&mut self, order: Vec<Device>) {
        if let Some(plan) = &mut self.plan {
            plan.order = order;
        }
    }

    fn boot(&mut self) {
        let Some(plan) = self.plan.clone() else {
            return;
        };
        let mut devices = self.devices.clone();
        devices.disk = self.outside.disks.bootable(&self.outside.hardware);
        let boot = boot(self.outside.clone(), plan, devices);
        self.running = Some(tokio::spawn(boot));
    }

    async fn reset(&mut self) -> Option<News> {
        self.plan.as_ref()?;
        self.halt().await;
        self.boot();
        Some(News::Reset)
    }

    async fn off(&mut self, why: &str) -> Option<News> {
        self.halt().await;
        self.plan = None;
        Some(News::Stopped { why: why.into() })
    }

    async fn ended(&mut self, end: Result<End, JoinError>) -> Option<News> {
        self.running = None;
        match end {
            Ok(End::Reboot) => self.reset().await,
            Ok(End::PowerOff) => self.off("the guest switched off").await,
            Err(error) => Some(News::Trouble(format!("simulated boot failed: {error}"))),
        }
    }

    /// Ends what runs, and gives its addresses back.
    async fn halt(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
            _ = running.await;
        }
        let leases = std::mem::take(&mut *lock(&self.outside.leases));
        for (network, lease) in leases {
            if let Some(wire) = &self.outside.wire {
                wire.give_back(network, &lease).await;
            }
        }
    }
}

async fn ended(running: &mut Option<JoinHandle<End>>) -> Result<End, JoinError> {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}

/// One boot, from the first device to whatever came to run.
async fn boot(outside: Outside, plan: Plan, devices: Devices) -> End {
    let mode = match plan.firmware {
        Mode::Uefi => BootMode::Uefi,
        Mode::Bios => BootMode::Bios,
    };
    let mut firmware = Firmware::new(&outside.hardware, plan, devices);
    let mut event = Event::PowerOn;
    loop {
        let step = firmware.next(event);
        for line in firmware.screen.drain(..) {
            outside.screen.line(&line);
        }
        event = match step {
            Step::Dhcp { nic, pxe, within } => {
                Event::Lease(outside.dhcp(nic, Some(pxe), within).await)
            }
            Step::Fetch { source, keep } => {
                let _turn = outside.fetcher().await;
                match fetch::fetch(&source, outside.address(), keep, &outside.faults).await {
                    Ok(head) => Event::Fetched(head),
                    Err(error) => Event::FetchFailed {
                        why: model::chain(&error),
                    },
                }
            }
            Step::Run(payload) => {
                return guest::run(&outside, mode, payload).await;
            }
            Step::Pause(pause) => {
                tokio::time::sleep(pause).await;
                Event::Paused
            }
            Step::Reboot => return End::Reboot,
            Step::PowerOff => return End::PowerOff,
        };
    }
}

impl Outside {
    /// A place among those who load a file.
    async fn fetcher(&self) -> Option<SemaphorePermit<'_>> {
        self.wire.as_ref()?.fetchers.acquire().await.ok()
    }

    /// Whether the cable to this network swallows a frame.
    fn loses(&self, network: Network) -> bool {
        let wires = lock(&self.wires);
        wires.unplugged.contains(&network)
            || wires
                .lossy
                .get(&network)
                .is_some_and(|percent| rand::random_range(0..100) < *percent)
    }

    /// Gets an address and puts it to use.
    async fn dhcp(&self, nic: usize, pxe: Option<Pxe>, within: Duration) -> Option<Box<Lease>> {
        let wire = self.wire.as_ref()?;
        let nic = &self.hardware.nics[nic];
        let network = nic.network;
        let lease = wire.dhcp(nic, pxe, within, || self.loses(network)).await?;
        if let Err(error) = wire.take(network, &lease).await {
            warn!(
                server = self.hardware.name,
                error = model::chain(&error),
                "address not taken"
            );
            return None;
        }
        let mut leases = lock(&self.leases);
        leases.retain(|(_, other)| other.address != lease.address);
        leases.push((network, lease.clone()));
        Some(Box::new(lease))
    }

    /// An address for every NIC that gets one, as an operating system asks for them: all at once, and once one has
    /// its address the others are not waited for much longer.
    async fn all_addresses(&self) -> BTreeMap<Mac, Ipv4Addr> {
        let nics = (0..self.hardware.nics.len()).map(|nic| async move {
            let lease = self.dhcp(nic, None, DHCP_WITHIN).await?;
            Some((self.hardware.nics[nic].mac, lease.address))
        });
        let mut asked: FuturesUnordered<_> = nics.collect();
        let mut found = BTreeMap::new();
        let mut until = Instant::now() + DHCP_WITHIN;
        while let Ok(Some(answer)) = tokio::time::timeout_at(until, asked.next()).await {
            if let Some((mac, address)) = answer {
                found.insert(mac, address);
                until = until.min(Instant::now() + OTHERS_WITHIN);
            }
        }
        found
    }

    /// The address that fetches come from: the last one leased.
    fn address(&self) -> Option<Ipv4Addr> {
        lock(&self.leases).last().map(|(_, lease)| lease.address)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether data on its way to this server is to be changed.
fn corrupts(faults: &Faults) -> bool {
    faults.hits(Kind::CorruptsTransfer)
}
