//! The server this ramdisk runs on, as the protocol sees it.
//!
//! ```text
//!   mod          agent::ipa::Machine, put together from the rest of this program
//!   bootloader   the installed system's boot entry
//!   installed    the installed system's kernel, to be started without the firmware
//!   erase        by the disk itself, or by us
//! ```

mod bootloader;
mod erase;
mod installed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use agent::disk::guard::Uses;
use agent::install::install;
use agent::ipa::{Erase, Failure, Image, Job, Machine, PciDevice};
use model::inventory::{Disk, Inventory};
use tokio::runtime::Handle;

use crate::console::say;
use crate::inventory::{self, bmc};
use crate::{logs, network};

pub struct Metal {
    runtime: Handle,
    /// Asked once: BMCs take their time.
    bmc: OnceLock<bmc::Lan>,
}

impl Metal {
    /// To be called within the runtime.
    pub fn new() -> Self {
        Self {
            runtime: Handle::current(),
            bmc: OnceLock::new(),
        }
    }
}

impl Machine for Metal {
    fn inventory(&self) -> Result<Inventory, Failure> {
        let addresses = self.runtime.block_on(network::addresses());
        let lan = self.bmc.get_or_init(|| bmc::collect(Path::new("/")));
        Ok(Inventory {
            bmc_address: lan.v4.map(|ip| ip.to_string()),
            bmc_v6address: lan.v6.map(|ip| ip.to_string()),
            bmc_mac: lan.mac,
            ..inventory::collect(Path::new("/"), &addresses)
        })
    }

    fn pci_devices(&self) -> Vec<PciDevice> {
        inventory::pci::collect(Path::new("/sys"))
    }

    fn lldp(&self, wait: Duration) -> BTreeMap<String, Vec<(u8, Vec<u8>)>> {
        self.runtime.block_on(network::lldp::listen(wait))
    }

    fn logs(&self) -> Vec<u8> {
        logs::archive(Path::new("/"))
    }

    fn in_use(&self, disk: &Disk) -> Option<String> {
        let uses = Uses::look(Path::new("/"), &BTreeSet::new());
        let name = disk.name.strip_prefix("/dev/").unwrap_or(&disk.name);
        uses.of(name).map(|reason| reason.to_string())
    }

    fn write_image(&self, disk: &Disk, image: &Image, job: &Job<'_>) -> Result<String, Failure> {
        say(&format!("writing {} to {}", image.name, disk.name));
        let done = install(Path::new(&disk.name), image, job)?;
        say(&done);
        Ok(done)
    }

    fn erase(&self, disk: &Disk, how: Erase, job: &Job<'_>) -> Result<String, Failure> {
        say(&format!("erasing {}", disk.name));
        let said = erase::run(disk, how, job)
            .map_err(|error| Failure::of("BlockDeviceEraseError", &error))?;
        say(&format!("{}: erased {said}", disk.name));
        Ok(said)
    }

    fn install_bootloader(&self, disk: &Disk) -> Result<String, Failure> {
        let done = bootloader::install(Path::new(&disk.name))
            .map_err(|error| Failure::of("CommandExecutionError", &error))?;
        say(&done);
        Ok(done)
    }

    fn load_installed(&self, disk: &Disk) -> Result<String, Failure> {
        let loaded = installed::load(Path::new(&disk.name))
            .map_err(|error| Failure::of("CommandExecutionError", &error))?;
        say(&format!("next is {loaded}"));
        Ok(loaded)
    }

    fn sync(&self) {
        nix::unistd::sync();
    }

    fn set_clock(&self, time: SystemTime) {
        if let Err(error) = linux::clock::set(time) {
            say(&format!("the clock cannot be set: {error}"));
        }
    }
}
