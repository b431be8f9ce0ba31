//! The BMC's other tongue: IPMI 2.0 over UDP. The machine is `protocols::ipmi`; this carries packets and wishes.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use model::Secret;
use protocols::ipmi::bmc::{
    Action, Asset, Bmc as Machine, Config, Event as Told, Lan, Privilege, Start, User, View,
};
use protocols::ipmi::chassis::{BootDevice, BootFlags, Control, PowerState};
use rand::RngExt;
use tokio::net::UdpSocket;
use tokio::sync::broadcast;
use tracing::{debug, info, warn};

use super::Bmc;
use crate::clock::at;
use crate::fault::Kind;
use crate::hardware::Firmware;
use crate::server::boot::{Device, Lasting, Override};
use crate::server::chassis::{Power, Reset};
use crate::server::{self, Event, Server};

/// Answers on the socket until dropped.
pub async fn serve(socket: UdpSocket, bmc: Arc<Bmc>) {
    let server = bmc.server().clone();
    let mut machine = machine(&bmc, &socket);
    let mut console = server.console().subscribe();
    let mut status = server.watch();
    let mut seen = Seen::of(&status.borrow_and_update());
    let mut actions = machine.handle(Instant::now(), Told::View(ipmi_view(seen.power)));
    let mut datagram = vec![0; MAX_DATAGRAM];
    loop {
        for action in actions.drain(..) {
            act(&socket, &server, &mut seen, action).await;
        }
        let wake = machine.wake_at();
        actions = tokio::select! {
            received = socket.recv_from(&mut datagram) => match received {
                Ok((length, from)) => {
                    if let Some(millis) = server.faults().strikes(|kind| if let Kind::BmcSlow { millis } = kind { Some(millis) } else { None }) {
                        tokio::time::sleep(Duration::from_millis(millis)).await;
                    }
                    machine.handle(Instant::now(), Told::Datagram { from, bytes: datagram[..length].to_vec() })
                }
                Err(error) => {
                    debug!(server = server.hardware().name, %error, "IPMI socket");
                    vec![]
                }
            },
            changed = status.changed() => {
                if changed.is_err() {
                    return;
                }
                let now = Seen::of(&status.borrow_and_update());
                seen.news(now).into_iter().flat_map(|told| machine.handle(Instant::now(), told)).collect()
            },
            output = console.recv() => match output {
                Ok(bytes) => machine.handle(Instant::now(), Told::ConsoleOutput(bytes.to_vec())),
                Err(broadcast::error::RecvError::Lagged(_)) => vec![],
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = at(wake) => machine.handle(Instant::now(), Told::Timer),
        };
    }
}

/// No IPMI packet is larger.
const MAX_DATAGRAM: usize = 2048;

/// What the machine was last told of the server.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    power: Power,
    boots: u64,
    boot: Option<Override>,
    firmware: Firmware,
}

impl Seen {
    fn of(status: &server::Status) -> Self {
        let view = &status.view;
        Self {
            power: view.reported_power,
            boots: view.boots,
            boot: view.boot,
            firmware: view.firmware,
        }
    }

    /// What to tell the machine, now that the server is like this.
    fn news(&mut self, now: Self) -> Vec<Told> {
        let mut news = vec![];
        if now.power != self.power {
            news.push(Told::View(ipmi_view(now.power)));
        }
        if now.boots != self.boots {
            news.push(Told::Booted);
        } else if now.boot != self.boot {
            // Redfish, or a person, changed the override.
            news.push(Told::BootFlags(flags(now.boot, now.firmware)));
        }
        *self = now;
        news
    }
}

fn machine(bmc: &Bmc, socket: &UdpSocket) -> Machine {
    let hardware = bmc.server().hardware();
    let personality = bmc.personality();
    let credentials = &bmc.credentials;
    let user = User {
        name: credentials.user.clone(),
        password: credentials.password.clone(),
        privilege: Privilege::Administrator,
    };
    // On the wire a GUID goes last byte first (20.8).
    let mut guid = hardware.uuid.into_bytes();
    guid.reverse();
    let mut config = Config::new(vec![user], guid);
    config.asset = Asset {
        manufacturer: personality.manufacturer.into(),
        product: personality.model.into(),
        serial: hardware.serial.clone(),
        ..Asset::default()
    };
    if let Ok(std::net::SocketAddr::V4(address)) = socket.local_addr() {
        config.lan = Lan {
            address: *address.ip(),
            port: address.port(),
            mac: bmc.mac,
            ..Lan::default()
        };
    }
    let unix = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let seed = Secret::new(rand::rng().random::<[u8; 32]>());
    Machine::new(
        config,
        Start {
            now: Instant::now(),
            unix_seconds: unix.as_secs() as u32,
            seed,
        },
    )
}

async fn act(socket: &UdpSocket, server: &Server, seen: &mut Seen, action: Action) {
    let name = &server.hardware().name;
    match action {
        Action::Send { to, bytes } => {
            if let Err(error) = socket.send_to(&bytes, to).await {
                debug!(server = name, peer = %to, %error, "IPMI answer not sent");
            }
        }
        Action::Chassis(control) => tell(server, Event::Reset(reset(control))).await,
        Action::SetBootFlags(flags) => {
            let boot = boot_override(&flags);
            seen.boot = boot;
            if boot.is_some() {
                let firmware = if flags.uefi {
                    Firmware::Uefi
                } else {
                    seen.firmware
                };
                tell(server, Event::SetFirmware(firmware)).await;
            }
            tell(server, Event::SetBoot(boot)).await;
        }
        Action::ConsoleInput(keys) => server.console().type_keys(Bytes::from(keys)),
        Action::SolActivated { by } => info!(server = name, peer = %by, "SOL activated"),
        Action::SolDeactivated => info!(server = name, "SOL deactivated"),
        // An emulated server has no lamp, no mains to lose, no break on its line; its BMC restarts at once.
        Action::Identify(_)
        | Action::SetRestorePolicy(_)
        | Action::ConsoleBreak
        | Action::Restarted { .. } => {
            debug!(server = name, ?action, "IPMI");
        }
    }
}

async fn tell(server: &Server, event: Event) {
    if let Err(error) = server.tell(event).await {
        warn!(server = server.hardware().name, %error, "IPMI command refused by the chassis");
    }
}

fn ipmi_view(power: Power) -> View {
    let power = match power {
        Power::On | Power::PoweringOn | Power::PoweringOff => PowerState::On,
        Power::Off => PowerState::Off,
    };
    View {
        power,
        readings: protocols::ipmi::bmc::Readings::default(),
    }
}

fn reset(control: Control) -> Reset {
    match control {
        Control::PowerOff => Reset::ForceOff,
        Control::PowerOn => Reset::On,
        Control::Cycle => Reset::PowerCycle,
        Control::Reset => Reset::ForceRestart,
        Control::DiagnosticInterrupt => Reset::Nmi,
        Control::SoftShutdown => Reset::GracefulShutdown,
    }
}

fn boot_override(flags: &BootFlags) -> Option<Override> {
    let device = match flags.device_override()? {
        BootDevice::Pxe => Device::Pxe,
        BootDevice::Disk | BootDevice::DiskSafeMode | BootDevice::RemoteDisk => Device::Hdd,
        BootDevice::Cdrom | BootDevice::RemoteCdrom | BootDevice::RemoteMedia => Device::Cd,
        BootDevice::BiosSetup => Device::BiosSetup,
        BootDevice::NoOverride
        | BootDevice::DiagnosticPartition
        | BootDevice::RemoteFloppy
        | BootDevice::Floppy
        | BootDevice::Other(_) => return None,
    };
    let lasting = if flags.persistent {
        Lasting::Continuous
    } else {
        Lasting::Once
    };
    Some(Override { device, lasting })
}

fn flags(boot: Option<Override>, firmware: Firmware) -> BootFlags {
    let Some(boot) = boot else {
        return BootFlags::NONE;
    };
    let device = match boot.device {
        Device::Pxe => BootDevice::Pxe,
        Device::Hdd => BootDevice::Disk,
        Device::Cd => BootDevice::Cdrom,
        Device::BiosSetup => BootDevice::BiosSetup,
        // IPMI has no word for it.
        Device::UefiHttp => BootDevice::NoOverride,
    };
    let flags = match boot.lasting {
        Lasting::Once => BootFlags::once(device),
        Lasting::Continuous => BootFlags::persistent(device),
    };
    BootFlags {
        uefi: firmware == Firmware::Uefi,
        ..flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_means_the_same_in_both_tongues() {
        for device in [Device::Pxe, Device::Hdd, Device::Cd, Device::BiosSetup] {
            for lasting in [Lasting::Once, Lasting::Continuous] {
                let boot = Some(Override { device, lasting });
                assert_eq!(boot_override(&flags(boot, Firmware::Uefi)), boot);
            }
        }
        assert_eq!(boot_override(&BootFlags::NONE), None);
    }
}
