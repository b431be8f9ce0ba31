//! The agent on a simulated server: the real protocol, over hardware that only remembers what was done to it.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use agent::disk::target::Store;
use agent::disk::{self, Source, Spool};
use agent::http::Way;
use agent::ipa::{self, Erase, Failure, Image, Job, Machine};
use agent::parameters::Parameters;
use model::Mac;
use model::inventory::{BootMode, Disk, Inventory};
use tokio::sync::Semaphore;

use super::guest;
use crate::hardware::Hardware;

/// What each disk holds, by serial number; a disk that is not here is empty. It outlives every boot.
#[derive(Debug, Clone, Default)]
pub struct Disks(Arc<Mutex<BTreeMap<String, String>>>);

impl Disks {
    /// What firmware would boot: the first disk with something on it.
    pub fn bootable(&self, hardware: &Hardware) -> Option<String> {
        let disks = self.lock();
        hardware
            .disks
            .iter()
            .find_map(|disk| disks.get(&disk.serial).cloned())
    }

    fn put(&self, serial: &str, what: String) {
        self.lock().insert(serial.to_owned(), what);
    }

    fn clear(&self, serial: &str) {
        self.lock().remove(serial);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server as its agent sees it.
pub struct Simulated {
    pub hardware: Arc<Hardware>,
    pub disks: Disks,
    /// Whether the disks fail just now.
    pub broken: Box<dyn Fn() -> bool + Send + Sync>,
    pub mode: BootMode,
    pub addresses: BTreeMap<Mac, Ipv4Addr>,
    /// The NIC it was booted by.
    pub booted_by: Option<Mac>,
    pub writers: Option<Arc<Semaphore>>,
}

/// Works for whoever the kernel line names, from the address given, until told to end.
pub async fn run(
    machine: Arc<Simulated>,
    mut parameters: Parameters,
    authorities: Option<String>,
    address: Ipv4Addr,
) -> Result<ipa::End, ipa::Error> {
    // All simulated servers are in one namespace: each keeps to its own address.
    parameters.listen_host = Some(address.into());
    parameters.advertise_host = Some(address.to_string());
    let settings = ipa::Settings {
        name: machine.hardware.name.clone(),
        way: Way {
            authorities,
            insecure: parameters.insecure,
            source: Some(address.into()),
            own_resolver: false,
        },
        parameters,
        identity: None,
        set_clock: false,
        seed: rand::random(),
    };
    ipa::run(settings, machine).await
}

impl Simulated {
    fn serial<'a>(&self, disk: &'a Disk) -> Result<&'a str, Failure> {
        if (self.broken)() {
            return Err(Failure::new(
                "BlockDeviceError",
                format!("{}: input/output error", disk.name),
            ));
        }
        disk.serial
            .as_deref()
            .ok_or_else(|| Failure::new("BlockDeviceError", format!("{} has no serial", disk.name)))
    }
}

impl Machine for Simulated {
    fn inventory(&self) -> Result<Inventory, Failure> {
        Ok(guest::inventory(
            &self.hardware,
            self.mode,
            &self.addresses,
            self.booted_by,
        ))
    }

    fn writers(&self) -> Option<Arc<Semaphore>> {
        self.writers.clone()
    }

    fn write_image(&self, disk: &Disk, image: &Image, job: &Job<'_>) -> Result<String, Failure> {
        let serial = self.serial(disk)?;
        // From here on the disk boots nothing, until all of it is there.
        self.disks.clear(serial);
        let mut stream = image
            .download
            .open(job.runtime)
            .map_err(|error| Failure::of("ImageDownloadError", &error))?;
        let options = disk::Options {
            length: stream.length,
            ..image.options.clone()
        };
        let mut target = Platter {
            size: disk.size,
            broken: &*self.broken,
            stopped: job.stopped,
        };
        let mut show = |progress: disk::Progress| (job.show)(progress.into());
        let source = Source::Stream(&mut stream);
        let written = disk::write_image(source, &mut target, &options, spool(), &mut show)
            .map_err(|error| Failure::of("ImageWriteError", &error))?;
        let drive = match &image.config_drive {
            Some(volume) => format!(" with a config drive of {} bytes", volume.len()),
            None => String::new(),
        };
        let what = format!("{}{drive}", image.name);
        self.disks.put(serial, what.clone());
        Ok(format!(
            "{what}: {} bytes written to {}",
            written.bytes, disk.name
        ))
    }

    fn erase(&self, disk: &Disk, _how: Erase, _job: &Job<'_>) -> Result<String, Failure> {
        self.disks.clear(self.serial(disk)?);
        Ok(format!("{} erased", disk.name))
    }

    fn install_bootloader(&self, disk: &Disk) -> Result<String, Failure> {
        self.serial(disk)?;
        Ok(format!("{} boots first", disk.name))
    }
}

/// A disk that takes everything and keeps nothing.
struct Platter<'a> {
    size: u64,
    broken: &'a (dyn Fn() -> bool + Send + Sync),
    stopped: &'a AtomicBool,
}

impl Platter<'_> {
    fn check(&self) -> io::Result<()> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("the power is gone"));
        }
        if (self.broken)() {
            return Err(io::Error::other("input/output error"));
        }
        Ok(())
    }
}

impl Store for Platter<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn write(&mut self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        self.check()
    }

    fn zero(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        self.check()
    }

    fn sync(&mut self) -> io::Result<()> {
        self.check()
    }
}

/// Where a qcow2 image lies while it is read.
fn spool() -> Option<Spool> {
    const LARGEST: u64 = 4 << 30;
    let file = tempfile::tempfile().ok()?;
    Some(Spool {
        file,
        limit: LARGEST,
    })
}
