//! Finds the config drive and reads one file of it.
//!
//! The drive is a partition or a CD whose ISO 9660 volume is called `config-2`. udev names it; where udev has not, or not
//! yet, the volume's own header does. It is not mounted: the kernel may have no driver for it, and nothing is left behind.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use media::iso::{self, FindError};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not open the config drive {}", device.display())]
    Open { device: PathBuf, source: io::Error },
    #[error("could not find {FILE} on the config drive {}", device.display())]
    Find { device: PathBuf, source: FindError },
    #[error("could not read {FILE} of the config drive {}", device.display())]
    Read { device: PathBuf, source: io::Error },
}

const LABEL: &str = "config-2";
const FILE: &str = "openstack/latest/meta_data.json";
/// More than this is not a description of a host.
const LARGEST: u64 = 1 << 20;

/// `meta_data.json`, if there is a config drive.
pub fn meta_data(root: &Path) -> Result<Option<Vec<u8>>, Error> {
    find(root).map(|device| read(&device)).transpose()
}

fn read(device: &Path) -> Result<Vec<u8>, Error> {
    let device = device.to_owned();
    let drive = match File::open(&device) {
        Ok(drive) => drive,
        Err(source) => return Err(Error::Open { device, source }),
    };
    let place = match iso::find(FILE, |offset, buffer| drive.read_exact_at(buffer, offset)) {
        Ok(place) => place,
        Err(source) => return Err(Error::Find { device, source }),
    };
    let mut bytes = vec![0; place.len.min(LARGEST) as usize];
    match drive.read_exact_at(&mut bytes, place.offset) {
        Ok(()) => Ok(bytes),
        Err(source) => Err(Error::Read { device, source }),
    }
}

fn find(root: &Path) -> Option<PathBuf> {
    let named = root.join("dev/disk/by-label").join(LABEL);
    if let Ok(device) = named.canonicalize() {
        return Some(device);
    }
    let mut devices: Vec<PathBuf> = std::fs::read_dir(root.join("sys/class/block"))
        .ok()?
        .filter_map(|entry| Some(root.join("dev").join(entry.ok()?.file_name())))
        .collect();
    devices.sort();
    // What cannot be read is none: an empty drive, a disk that fails.
    devices
        .into_iter()
        .find(|device| is_config_drive(device).unwrap_or(false))
}

/// The primary volume descriptor is the seventeenth sector; the volume's name is 40 bytes into it (ECMA-119, 8.4.7).
fn is_config_drive(device: &Path) -> io::Result<bool> {
    let mut sector = [0; 72];
    File::open(device)?.read_exact_at(&mut sector, 16 * 2048)?;
    let name = sector[40..].trim_ascii_end();
    Ok(&sector[1..6] == b"CD001" && name.eq_ignore_ascii_case(LABEL.as_bytes()))
}
