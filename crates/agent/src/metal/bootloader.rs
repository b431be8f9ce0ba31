//! The installed system's boot entry: its EFI system partition is mounted, its loader found, the entry made.

use std::path::{Path, PathBuf};

use agent::boot_entry;
use agent::disk::{Target, target};
use linux::kmod::Modules;
use linux::mount::{self, Mount};
use nix::mount::MsFlags;

const FIRMWARE: &str = "/sys/firmware/efi";
const VARIABLES: &str = "/sys/firmware/efi/efivars";
const MOUNT: &str = "/run/esp";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Disk(#[from] target::Error),
    #[error("look into the EFI system partition")]
    Mount(#[source] mount::Error),
    #[error("reach the firmware's variables")]
    Variables(#[source] mount::Error),
    #[error(transparent)]
    Entry(#[from] boot_entry::Error),
}

/// Says what the firmware will start.
pub fn install(disk: &Path) -> Result<String, Error> {
    if !Path::new(FIRMWARE).exists() {
        return Ok("the firmware is BIOS and starts the disk by itself".into());
    }
    let partition = {
        let target = Target::open(disk)?;
        boot_entry::esp(&target)?
    };
    if let Ok(modules) = Modules::of_running_kernel() {
        for wanted in [
            "vfat",
            "nls_cp437",
            "nls_ascii",
            "nls_iso8859-1",
            "efivarfs",
        ] {
            let _ = modules.load(wanted);
        }
    }
    let device = partition_name(disk, partition.number);
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_NODEV;
    let esp = Mount {
        source: &device.to_string_lossy(),
        path: Path::new(MOUNT),
        fstype: "vfat",
        flags: safe | MsFlags::MS_RDONLY,
        options: "",
    };
    esp.mount().map_err(Error::Mount)?;
    let loader = boot_entry::loader(Path::new(MOUNT), std::env::consts::ARCH);
    // The disk must be free for whatever comes next.
    mount::unmount(Path::new(MOUNT), true).map_err(Error::Mount)?;
    let loader = loader?;
    let variables = Path::new(VARIABLES);
    if !mount::is_mounted(variables).map_err(Error::Variables)? {
        let efivarfs = Mount {
            source: "efivarfs",
            path: variables,
            fstype: "efivarfs",
            flags: safe,
            options: "",
        };
        efivarfs.mount().map_err(Error::Variables)?;
    }
    Ok(boot_entry::make(variables, &partition, &loader)?)
}

/// `/dev/sda1`, `/dev/nvme0n1p1`.
fn partition_name(disk: &Path, number: u32) -> PathBuf {
    let disk = disk.to_string_lossy();
    let between = if disk.ends_with(|c: char| c.is_ascii_digit()) {
        "p"
    } else {
        ""
    };
    PathBuf::from(format!("{disk}{between}{number}"))
}
