//! A board that is a QEMU machine. Off means no process; its disks, NVRAM and console log stay.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tracing::debug;
use vm::{Accel, Bus, Cdrom, CdromBus, Disk, Event, Format, Machine, NicEnd, Smbios, Spec};

use super::boot::{Device, Plan};
use super::chassis::{Media, Wires};
use super::console::{BoardEnd, Console, Screen};
use super::{Action, Board, News};
use crate::bmc::media::{Address, Fetcher, Wanted};
use crate::clock::at;
use crate::hardware::{Firmware, Network};
use crate::loss;
use crate::rack::Place;

/// Starts the board's task, powered off. `fetcher` gets what UEFI boots by HTTP.
pub fn spawn(place: Place, home: &Path, accel: Accel, fetcher: Fetcher) -> Board {
    let (console, end) = Console::new(home.join("console.log"));
    let (actions, orders) = mpsc::channel(QUEUE);
    let (tell, news) = mpsc::channel(QUEUE);
    let qemu = Qemu {
        place,
        home: home.to_path_buf(),
        accel,
        fetcher,
        output: end.output.clone(),
        tell,
        media: None,
        wires: Wires::default(),
        secure_boot: false,
        running: None,
    };
    let task = tokio::spawn(qemu.run(orders, end));
    Board {
        actions,
        news,
        console,
        task,
    }
}

const QUEUE: usize = 32;

struct Qemu {
    place: Place,
    home: PathBuf,
    accel: Accel,
    fetcher: Fetcher,
    output: broadcast::Sender<Bytes>,
    tell: mpsc::Sender<News>,
    media: Option<Media>,
    wires: Wires,
    /// How the NVRAM was made.
    secure_boot: bool,
    running: Option<Running>,
}

/// A machine that is on.
struct Running {
    machine: Machine,
    events: broadcast::Receiver<Event>,
    keyboard: OwnedWriteHalf,
    relay: JoinHandle<()>,
    /// When this boot began.
    began: Instant,
    /// An order that waits until the firmware has surely read the present one.
    next_order: Option<Vec<Device>>,
}

/// Firmware may reset itself once or twice before it boots anything: that is still the same boot, and it must find
/// the same boot order again.
const POST: Duration = Duration::from_secs(5);

/// The drive of the virtual media.
const CD: &str = "cd0";
/// Debian's network boot code for BIOS machines (package ipxe-qemu); OVMF has its own.
const PXE_ROM: &str = "/usr/lib/ipxe/qemu/pxe-virtio.rom";

impl Qemu {
    async fn run(mut self, mut orders: mpsc::Receiver<Action>, mut console: BoardEnd) {
        loop {
            let order_due = self.running.as_ref().and_then(Running::order_due);
            tokio::select! {
                action = orders.recv() => match action {
                    Some(action) => self.act(action).await,
                    None => break,
                },
                event = next_event(&mut self.running) => self.happened(event).await,
                keys = console.input.recv() => if let (Some(keys), Some(running)) = (keys, &mut self.running) {
                    // A guest that reads nothing loses what is typed.
                    _ = tokio::time::timeout(Duration::from_millis(100), running.keyboard.write_all(&keys)).await;
                },
                () = at(order_due) => self.apply_order().await,
            }
        }
        self.pull_plug().await;
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Start(plan) => self.start(plan).await,
            Action::Stop => {
                self.pull_plug().await;
                self.say(News::Stopped {
                    why: "power cut".into(),
                })
                .await;
            }
            Action::Reset => {
                self.apply_order().await;
                self.attempt("reset", async |machine| machine.reset().await)
                    .await;
            }
            Action::PressPowerButton => {
                self.attempt("press the power button", async |m| {
                    m.press_power_button().await
                })
                .await;
            }
            Action::Nmi => {
                self.attempt("send an NMI", async |machine| machine.nmi().await)
                    .await;
            }
            Action::NextBoot(order) => {
                if let Some(running) = &mut self.running {
                    running.next_order = Some(order);
                }
            }
            Action::Load(media) => {
                self.media = Some(media.clone());
                self.attempt("insert the medium", async |machine| {
                    machine.insert(CD, &media.file).await
                })
                .await;
            }
            Action::Unload => {
                self.media = None;
                self.attempt("eject the medium", async |machine| machine.eject(CD).await)
                    .await;
            }
            Action::Wire(wires) => self.wire(wires).await,
            // The server's task keeps time itself.
            Action::ResetIn(_) => {}
        }
    }

    async fn say(&self, news: News) {
        // Nobody listens once the lab goes down.
        _ = self.tell.send(news).await;
    }

    /// Does something to the machine if it is on; what fails is told as trouble.
    async fn attempt(
        &mut self,
        what: &str,
        work: impl AsyncFnOnce(&mut Machine) -> Result<(), vm::Error>,
    ) {
        let Some(running) = &mut self.running else {
            return;
        };
        if let Err(error) = work(&mut running.machine).await {
            let trouble = format!("could not {what}: {}", model::chain(&error));
            self.say(News::Trouble(trouble)).await;
        }
    }

    async fn start(&mut self, plan: Plan) {
        self.switch_nvram(plan.secure_boot);
        let http = self.fetch_http_image(&plan).await;
        let result = async {
            let machine = Machine::start(self.spec(&plan)).await?;
            if let Some(image) = http
                .as_deref()
                .or(self.media.as_ref().map(|media| media.file.as_path()))
            {
                machine.insert(CD, image).await?;
            }
            let events = machine.events();
            let (screen, keyboard) = machine.console().await?.into_split();
            let relay = tokio::spawn(relay(
                screen,
                Screen::open(self.output.clone(), &self.home.join("console.log")),
            ));
            machine.resume().await?;
            let began = Instant::now();
            Ok::<_, vm::Error>(Running {
                machine,
                events,
                keyboard,
                relay,
                began,
                next_order: None,
            })
        };
        match result.await {
            Ok(running) => {
                self.running = Some(running);
                self.say(News::Started).await;
                self.wire_machine().await;
            }
            Err(error) => {
                let why = model::chain(&error);
                self.say(News::Trouble(format!("could not start: {why}")))
                    .await;
                self.say(News::Stopped { why }).await;
            }
        }
    }

    /// Secure boot on or off means other enrolled keys: the NVRAM begins anew from the other template.
    fn switch_nvram(&mut self, secure_boot: bool) {
        if std::mem::replace(&mut self.secure_boot, secure_boot) != secure_boot {
            // Not there before the first start.
            _ = std::fs::remove_file(self.home.join("nvram.fd"));
        }
    }

    /// DEVIATION: OVMF cannot be told a URI from outside, so the board fetches it and boots it as a CD.
    async fn fetch_http_image(&self, plan: &Plan) -> Option<PathBuf> {
        if plan.order.first() != Some(&Device::UefiHttp) {
            return None;
        }
        let uri = plan.http_uri.as_deref().unwrap_or_default();
        let fetched = async {
            let address = Address::parse(uri).map_err(|error| model::chain(&error))?;
            let wanted = Wanted {
                address: &address,
                user: None,
                password: None,
                verify_certificate: false,
                corrupt: false,
            };
            self.fetcher
                .fetch(&wanted)
                .await
                .map_err(|error| model::chain(&error))
        };
        match fetched.await {
            Ok(image) => Some(image),
            Err(why) => {
                self.say(News::Trouble(format!("HTTP boot of {uri}: {why}")))
                    .await;
                None
            }
        }
    }

    fn spec(&self, plan: &Plan) -> Spec {
        let hardware = &self.place.hardware;
        let mut spec = Spec::new(&hardware.name, &self.home, self.accel.clone());
        spec.firmware = match (plan.firmware, plan.secure_boot) {
            (Firmware::Bios, _) => vm::Firmware::Bios {
                text_on_serial: true,
            },
            (Firmware::Uefi, false) => vm::Firmware::ovmf(),
            (Firmware::Uefi, true) => vm::Firmware::ovmf_secure(),
        };
        spec.cpus = hardware.cpus;
        spec.memory_mib = hardware.memory_mib as u32;
        spec.disks = hardware
            .disks
            .iter()
            .enumerate()
            .map(|(index, disk)| self.disk(index, disk))
            .collect();
        spec.nics = hardware.nics.iter().map(|port| nic(plan, port)).collect();
        spec.cdroms = vec![Cdrom {
            id: CD.into(),
            bus: CdromBus::Sata,
        }];
        spec.boot_order = self.ids(&plan.order);
        spec.smbios = Smbios {
            uuid: Some(hardware.uuid.to_string()),
            serial: Some(hardware.serial.clone()),
            manufacturer: Some("Plinth".into()),
            product: Some("Lab server".into()),
            ..Smbios::default()
        };
        spec.paused = true;
        spec.log_console = false;
        spec
    }

    fn disk(&self, index: usize, disk: &crate::hardware::Disk) -> Disk {
        Disk {
            id: format!("disk{index}"),
            path: self.home.join(format!("disk{index}.qcow2")),
            format: Format::Qcow2,
            size_mib: Some(disk.size_bytes >> 20),
            bus: Bus::Scsi,
            serial: Some(disk.serial.clone()),
            // A lab may lose its disks with its host.
            flush: false,
            faulty: self.wires.disk_errors,
        }
    }

    /// Devices as QEMU knows them. Network boot is the provisioning network's first.
    fn ids(&self, order: &[Device]) -> Vec<String> {
        let mut ids: Vec<String> = vec![];
        for device in order {
            let more: Vec<String> = match device {
                Device::Hdd => (0..self.place.hardware.disks.len())
                    .map(|index| format!("disk{index}"))
                    .collect(),
                Device::Cd | Device::UefiHttp => vec![CD.into()],
                Device::Pxe => vec![
                    nic_id(Network::Provisioning).into(),
                    nic_id(Network::Baremetal).into(),
                ],
                // Nothing to boot: the firmware ends in its menu.
                Device::BiosSetup => return vec![],
            };
            ids.extend(more);
        }
        let mut seen = std::collections::BTreeSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        ids
    }

    async fn apply_order(&mut self) {
        let Some(order) = self
            .running
            .as_mut()
            .and_then(|running| running.next_order.take())
        else {
            return;
        };
        let ids = self.ids(&order);
        self.attempt("set the boot order", async |machine| {
            machine.set_boot_order(&ids).await
        })
        .await;
    }

    async fn wire(&mut self, wires: Wires) {
        for nic in &self.place.hardware.nics {
            let (before, after) = (
                self.wires.lossy.get(&nic.network),
                wires.lossy.get(&nic.network),
            );
            if before != after
                && let Err(error) = loss::set(&nic.port, after.copied().unwrap_or(0)).await
            {
                self.say(News::Trouble(model::chain(&error))).await;
            }
        }
        self.wires = wires;
        self.wire_machine().await;
    }

    /// Brings cables and disks of a running machine into the state they should be in.
    async fn wire_machine(&mut self) {
        let wires = self.wires.clone();
        for network in Network::ALL {
            let up = !wires.unplugged.contains(&network);
            self.attempt("set a link", async |machine| {
                machine.set_link(nic_id(network), up).await
            })
            .await;
        }
        for index in 0..self.place.hardware.disks.len() {
            let id = format!("disk{index}");
            self.attempt("break a disk", async |machine| {
                machine.fail_io(&id, wires.disk_errors).await
            })
            .await;
        }
    }

    async fn happened(&mut self, event: Event) {
        let name = &self.place.hardware.name;
        match event {
            Event::Reset { guest } => {
                let Some(running) = &mut self.running else {
                    return;
                };
                if guest && running.began.elapsed() < POST {
                    debug!(server = name, "firmware reset itself");
                    return;
                }
                running.began = Instant::now();
                self.say(News::Reset).await;
            }
            Event::Exited(exit) => {
                self.drop_machine();
                let why = match exit.cause {
                    vm::Cause::Guest => "the guest switched off".into(),
                    vm::Cause::Host => "power cut".into(),
                    vm::Cause::Crash => {
                        let why = format!("QEMU ended: {exit}");
                        self.say(News::Trouble(why.clone())).await;
                        why
                    }
                };
                self.say(News::Stopped { why }).await;
            }
            Event::IoError { disk, write } => {
                let what = if write { "write" } else { "read" };
                self.say(News::Trouble(format!("{disk}: a {what} failed")))
                    .await;
            }
            Event::Panicked => {
                self.say(News::Trouble("the guest's kernel panicked".into()))
                    .await;
            }
            Event::Running
            | Event::Paused
            | Event::PowerButton
            | Event::Shutdown { .. }
            | Event::Tray { .. } => {}
        }
    }

    async fn pull_plug(&mut self) {
        if let Some(running) = &self.running
            && let Err(error) = running.machine.kill().await
        {
            self.say(News::Trouble(model::chain(&error))).await;
        }
        self.drop_machine();
    }

    fn drop_machine(&mut self) {
        if let Some(running) = self.running.take() {
            running.relay.abort();
        }
    }
}

impl Running {
    fn order_due(&self) -> Option<Instant> {
        self.next_order.as_ref().map(|_| self.began + POST)
    }
}

fn nic(plan: &Plan, nic: &crate::hardware::Nic) -> vm::Nic {
    vm::Nic {
        id: nic_id(nic.network).into(),
        mac: nic.mac,
        end: NicEnd::Tap {
            name: nic.port.clone(),
            namespace: None,
        },
        rom: (plan.firmware == Firmware::Bios).then(|| PXE_ROM.into()),
    }
}

fn nic_id(network: Network) -> &'static str {
    network.bridge()
}

/// Carries what the guest prints to the log and to whoever watches.
async fn relay(mut serial: tokio::net::unix::OwnedReadHalf, screen: Screen) {
    let mut buffer = vec![0; 4096];
    while let Ok(length @ 1..) = serial.read(&mut buffer).await {
        screen.print(Bytes::copy_from_slice(&buffer[..length]));
    }
}

async fn next_event(running: &mut Option<Running>) -> Event {
    loop {
        let Some(running) = running.as_mut() else {
            return std::future::pending().await;
        };
        match running.events.recv().await {
            Ok(event) => return event,
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
        }
    }
}
