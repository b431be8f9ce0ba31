//! Finds the config drive and reads one file of it.
//!
//! The drive is a partition or a CD whose ISO 9660 volume is called `config-2`. udev names it; where udev has not, or not
//! yet, the volume's own header does.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use linux::mount::{Mount, MsFlags, unmount};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Mount(#[from] linux::mount::Error),
    #[error("could not make a directory to mount the config drive on")]
    MakeDirectory(#[source] std::io::Error),
    #[error("could not read {file} of the config drive {}", device.display())]
    Read {
        file: &'static str,
        device: PathBuf,
        source: std::io::Error,
    },
}

const LABEL: &str = "config-2";
const FILE: &str = "openstack/latest/meta_data.json";
/// More than this is not a description of a host.
const LARGEST: u64 = 1 << 20;

/// `meta_data.json`, if there is a config drive.
pub fn meta_data(root: &Path) -> Result<Option<Vec<u8>>, Error> {
    let Some(device) = find(root) else {
        return Ok(None);
    };
    let at = std::env::temp_dir().join(format!("plinth-config-drive-{}", std::process::id()));
    std::fs::create_dir_all(&at).map_err(Error::MakeDirectory)?;
    let read = mount(&device, &at).and_then(|()| {
        let read = read(&at.join(FILE)).map_err(|source| Error::Read {
            file: FILE,
            device: device.clone(),
            source,
        });
        // Read-only and ours alone: if it cannot be left now, it can when nobody looks.
        if unmount(&at, false).is_err() {
            _ = unmount(&at, true);
        }
        read
    });
    _ = std::fs::remove_dir(&at);
    read.map(Some)
}

/// Images of the drive may be ISO 9660 or, from other makers, FAT.
fn mount(device: &Path, at: &Path) -> Result<(), Error> {
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let with = |fstype| {
        let mount = Mount {
            source: &device.to_string_lossy(),
            path: at,
            fstype,
            flags,
            options: "",
        };
        mount.mount()
    };
    match with("iso9660") {
        Ok(()) => Ok(()),
        Err(first) => with("vfat").map_err(|_| first.into()),
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(LARGEST)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
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
    devices
        .into_iter()
        .find(|device| is_config_drive(device).unwrap_or(false))
}

/// The primary volume descriptor is the seventeenth sector; the volume's name is 40 bytes into it (ECMA-119, 8.4.7).
fn is_config_drive(device: &Path) -> std::io::Result<bool> {
    let mut file = std::fs::File::open(device)?;
    file.seek(SeekFrom::Start(16 * 2048))?;
    let mut sector = [0; 72];
    file.read_exact(&mut sector)?;
    let name = sector[40..].trim_ascii_end();
    Ok(&sector[1..6] == b"CD001" && name.eq_ignore_ascii_case(LABEL.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_known_by_the_name_of_its_volume() {
        let dir = tempfile::tempdir().expect("a directory");
        let drive = dir.path().join("sr0");
        let layout = media::config_drive::ConfigDrive::default()
            .layout(0)
            .expect("a drive");
        let mut image = Vec::new();
        let nothing = |_: &_| Ok(std::io::empty());
        layout.write_to(&mut image, nothing).expect("bytes");
        std::fs::write(&drive, &image).expect("a file");
        assert!(is_config_drive(&drive).expect("it is read"));
        let other = dir.path().join("sda");
        std::fs::write(&other, vec![0; 80_000]).expect("a file");
        assert!(!is_config_drive(&other).expect("it is read"));
        std::fs::write(&other, b"short").expect("a file");
        assert!(is_config_drive(&other).is_err());
    }
}
