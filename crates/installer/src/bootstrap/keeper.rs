//! The process that keeps the bootstrap VM.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use linux::netlink::{self, Netlink};
use linux::{process, tap};
use plan::cluster::{Bootstrap, Plan};
use sha2::{Digest as _, Sha256};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use vm::{
    Accel, Bus, Cdrom, CdromBus, Disk, Firmware, Format, FwCfg, FwCfgValue, Machine, Nic, NicEnd,
    Smbios, Spec, accel, disk,
};

use super::{Home, Record};

/// All that the keeper is told.
#[derive(Debug, Clone)]
pub struct Orders {
    /// A raw or qcow2 image; never written.
    pub image: PathBuf,
    pub ignition: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Home(#[from] super::Error),
    #[error("find the own process")]
    Own(#[source] std::io::Error),
    #[error("could not make the bootstrap's disk")]
    Disk(#[from] disk::Error),
    #[error(
        "could not plug the bootstrap into the bridge {bridge}; make it as the site's documentation says, or name another in install-config.yaml"
    )]
    Bridge {
        bridge: String,
        source: netlink::Error,
    },
    #[error("could not plug the bootstrap into the bridge {bridge}")]
    Tap { bridge: String, source: tap::Error },
    #[error(transparent)]
    Vm(#[from] vm::Error),
    #[error("listen for signals")]
    Signals(#[source] std::io::Error),
}

const CD: &str = "cd0";

/// Keeps the VM until it ends or is told to.
pub async fn keep(home: &Home, plan: &Plan, orders: &Orders) -> Result<(), Error> {
    let own = process::Id::of(std::process::id())
        .map_err(Error::Own)?
        .ok_or_else(|| Error::Own(std::io::ErrorKind::NotFound.into()))?;
    let mut record = Record {
        pid: own.pid,
        start_time: own.start_time,
        ..Record::default()
    };
    home.write(&record)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let machine = start(home, plan, orders).await?;
    record.up = true;
    home.write(&record)?;
    info!(
        vm = machine.name(),
        qemu = machine.pid(),
        "the bootstrap VM runs"
    );
    let ended = tokio::select! {
        exit = machine.wait_exit() => format!("it ended: {exit}"),
        _ = terminate.recv() => {
            machine.kill().await?;
            "it was told to end".to_owned()
        }
    };
    warn!(vm = machine.name(), why = ended, "the bootstrap VM is gone");
    record.up = false;
    record.ended = Some(ended);
    home.write(&record)?;
    Ok(())
}

async fn start(home: &Home, plan: &Plan, orders: &Orders) -> Result<Machine, Error> {
    let disk = home.disk();
    if !disk.exists() {
        let size = u64::from(plan.bootstrap.disk_gib) << 10;
        let format = format_of(&orders.image);
        disk::create_over(&disk, &orders.image, format, Some(size)).await?;
    }
    let accel = accel::probe().await.clone();
    let mut spec = spec(home, &plan.bootstrap, orders, accel);
    spec.nics = nics(&plan.bootstrap).await?;
    let machine = Machine::start(spec).await?;
    machine.insert(CD, &home.payload()).await?;
    machine.resume().await?;
    Ok(machine)
}

fn format_of(image: &std::path::Path) -> Format {
    match image.extension() {
        Some(extension) if extension == "qcow2" => Format::Qcow2,
        _ => Format::Raw,
    }
}

/// The machine without its cables.
fn spec(home: &Home, bootstrap: &Bootstrap, orders: &Orders, accel: Accel) -> Spec {
    let mut spec = Spec::new(&bootstrap.vm, &home.0, accel);
    // A BIOS is up in a second; nothing here needs UEFI.
    spec.firmware = Firmware::Bios {
        text_on_serial: false,
    };
    spec.memory_mib = bootstrap.memory_mib;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    spec.cpus = bootstrap.cpus.min(cores);
    spec.disks = vec![Disk {
        id: "disk0".into(),
        path: home.disk(),
        format: Format::Qcow2,
        size_mib: None,
        bus: Bus::Virtio,
        serial: None,
        flush: false,
        faulty: false,
    }];
    spec.cdroms = vec![Cdrom {
        id: CD.into(),
        bus: CdromBus::Sata,
    }];
    spec.boot_order = vec!["disk0".into()];
    spec.fw_cfg = vec![FwCfg {
        name: "opt/com.coreos/config".into(),
        value: FwCfgValue::File(orders.ignition.clone()),
    }];
    spec.smbios = Smbios {
        oem_strings: vec!["ignition.platform.id=qemu".into()],
        ..Smbios::default()
    };
    spec.paused = true;
    spec
}

/// Cables into the bridges. They are gone with whoever holds them: us and QEMU.
async fn nics(bootstrap: &Bootstrap) -> Result<Vec<Nic>, Error> {
    let mut cables = vec![(
        "e",
        bootstrap.external_mac,
        bootstrap.external_bridge.as_str(),
    )];
    if let (Some(bridge), Some(mac)) = (&bootstrap.provisioning_bridge, bootstrap.provisioning_mac)
    {
        cables.push(("p", mac, bridge));
    }
    let mut nics = Vec::new();
    for (number, (letter, mac, bridge)) in cables.into_iter().enumerate() {
        let fd = plug(&tap_name(&bootstrap.vm, letter), bridge).await?;
        nics.push(Nic {
            id: format!("nic{number}"),
            mac,
            end: NicEnd::Fd(Arc::new(fd)),
            rom: None,
        });
    }
    Ok(nics)
}

async fn plug(name: &str, bridge: &str) -> Result<OwnedFd, Error> {
    let fd = tap::open(name, true).map_err(|source| Error::Tap {
        bridge: bridge.to_owned(),
        source,
    })?;
    let plugged = async {
        let netlink = Netlink::connect()?;
        netlink.set_master(name, Some(bridge)).await?;
        netlink.set_up(name).await
    };
    plugged.await.map_err(|source| Error::Bridge {
        bridge: bridge.to_owned(),
        source,
    })?;
    Ok(fd)
}

/// Interfaces have names of up to 15 characters; two clusters on one host do not share them.
fn tap_name(vm: &str, letter: &str) -> String {
    let digest = Sha256::digest(vm);
    let short = digest[..4]
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    format!("plb{short}{letter}")
}
