//! The server under the protocol: a real one in the ramdisk, a simulated one in the lab.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use model::inventory::{Disk, Inventory};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::image::Image;
use crate::disk;

/// What the protocol can have done to a server. All of it may block and is called where that is allowed.
pub trait Machine: Send + Sync + 'static {
    fn inventory(&self) -> Result<Inventory, Failure>;

    /// What inspection tells besides the inventory.
    fn pci_devices(&self) -> Vec<PciDevice> {
        Vec::new()
    }

    /// What the switches say of themselves within the time given: type and value of each part, by interface.
    fn lldp(&self, wait: Duration) -> BTreeMap<String, Vec<(u8, Vec<u8>)>> {
        let _ = wait;
        BTreeMap::new()
    }

    /// A gzipped tar archive for a person to read.
    fn logs(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Why the disk must not be written, such as that the ramdisk runs from it.
    fn in_use(&self, disk: &Disk) -> Option<String> {
        let _ = disk;
        None
    }

    /// Where many machines share this process: those who write at once have a place here, the others wait for one.
    fn writers(&self) -> Option<Arc<Semaphore>> {
        None
    }

    /// Puts the image and its config drive on the disk; says what is there now.
    fn write_image(&self, disk: &Disk, image: &Image, job: &Job<'_>) -> Result<String, Failure>;

    fn erase(&self, disk: &Disk, how: Erase, job: &Job<'_>) -> Result<String, Failure>;

    /// Has the firmware start what is on the disk.
    fn install_bootloader(&self, disk: &Disk) -> Result<String, Failure>;

    /// Has the kernel ready to start what is on the disk in its own place. Says what that is.
    fn load_installed(&self, disk: &Disk) -> Result<String, Failure> {
        Err(Failure::new(
            "CommandExecutionError",
            format!("this machine starts {} through its firmware", disk.name),
        ))
    }

    /// Returns when everything written will survive a power cut.
    fn sync(&self) {}

    /// Called with Ironic's time when ours is far from it.
    fn set_clock(&self, time: SystemTime) {
        let _ = time;
    }
}

/// What a long piece of work gets from its surroundings.
pub struct Job<'a> {
    /// To fetch things with.
    pub runtime: &'a Handle,
    pub show: &'a (dyn Fn(Progress) + Sync),
    /// Set when the agent is gone, as when a simulated server loses its power: nobody waits for the result.
    pub stopped: &'a AtomicBool,
}

/// How far a long piece of work is; part of a running command's result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    pub phase: &'static str,
    pub percent: Option<u8>,
    pub bytes: u64,
    pub total: Option<u64>,
    pub mb_per_s: f64,
}

impl From<disk::Progress> for Progress {
    fn from(progress: disk::Progress) -> Self {
        Self {
            phase: match progress.phase {
                disk::Phase::Fetch => "fetching",
                disk::Phase::Write => "writing",
            },
            percent: progress.percent(),
            bytes: progress.bytes,
            total: progress.total,
            mb_per_s: (progress.mb_per_s() * 10.0).round() / 10.0,
        }
    }
}

/// How thoroughly a disk is erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erase {
    /// Nothing recognises its contents any more.
    Metadata,
    /// Every byte: by the disk itself where it can, else by writing over it.
    Whole(Thorough),
    /// Every byte where the disk can do it by itself in a moment, metadata elsewhere.
    Express,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thorough {
    /// Let the disk do it, if it knows how.
    pub ata: bool,
    pub nvme: bool,
    /// Write over it after the disk failed to do it by itself.
    pub overwrite_after_failure: bool,
    /// Random passes before the zeros.
    pub passes: u32,
    pub zeros: bool,
}

impl Default for Thorough {
    fn default() -> Self {
        Self {
            ata: true,
            nvme: true,
            overwrite_after_failure: false,
            passes: 1,
            zeros: true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PciDevice {
    pub vendor_id: String,
    pub product_id: String,
    pub class: String,
    pub revision: String,
    pub bus: String,
    pub numa_node_id: Option<i32>,
}

/// Why something failed, as Ironic shows it to its users: a kind for programs and words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: &'static str,
    pub code: u16,
    pub details: String,
}

impl Failure {
    pub fn new(kind: &'static str, details: impl Into<String>) -> Self {
        Self {
            kind,
            code: 500,
            details: details.into(),
        }
    }

    /// The caller asked for something that cannot be.
    pub fn invalid(details: impl Into<String>) -> Self {
        Self {
            kind: "InvalidCommandParamsError",
            code: 400,
            details: details.into(),
        }
    }

    pub fn of(kind: &'static str, error: &dyn std::error::Error) -> Self {
        Self::new(kind, model::chain(error))
    }
}
