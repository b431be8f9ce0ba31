//! The installed system, started without the firmware: its boot partition is found and looked into, and the kernel loaded.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use agent::boot_loader::{self, Entry};
use linux::kexec;
use linux::kmod::Modules;
use linux::mount::{self, Mount};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::mount::MsFlags;

const MOUNT: &str = "/run/installed";
/// File system and its options; none replays a journal, because the disk is not ours any more.
const FILE_SYSTEMS: [(&str, &str); 3] = [("ext4", "noload"), ("xfs", "norecovery"), ("vfat", "")];
/// A boot partition of its own, or a directory of the root.
const PLACES: [&str; 2] = ["", "boot"];
const FLAG: &str = "ignition.firstboot";
/// An entry is a few lines.
const LONGEST: u64 = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no partition of {} has boot entries (loader/entries/*.conf)", disk.display())]
    None { disk: PathBuf },
    #[error(transparent)]
    Entry(#[from] boot_loader::Error),
    #[error("read {path} of the installed system")]
    Read { path: String, source: io::Error },
    #[error("the running kernel does not take {path}")]
    Load { path: String, source: io::Error },
    #[error(transparent)]
    Mount(#[from] mount::Error),
}

/// Loads what the disk's boot loader would start; says what that is.
pub fn load(disk: &Path) -> Result<String, Error> {
    if let Ok(modules) = Modules::of_running_kernel() {
        for (name, _) in FILE_SYSTEMS {
            let _ = modules.load(name);
        }
    }
    for partition in partitions(disk) {
        if !mounted(&partition) {
            continue;
        }
        let loaded = look(Path::new(MOUNT));
        // The disk must be free for whatever comes next.
        mount::unmount(Path::new(MOUNT), true)?;
        if let Some(loaded) = loaded? {
            return Ok(loaded);
        }
    }
    Err(Error::None {
        disk: disk.to_owned(),
    })
}

/// As the kernel knows them, in their order on the disk.
fn partitions(disk: &Path) -> Vec<PathBuf> {
    let Some(name) = disk.file_name() else {
        return Vec::new();
    };
    let folder = Path::new("/sys/class/block").join(name);
    let number = |path: &Path| {
        let text = std::fs::read_to_string(path.join("partition")).ok()?;
        text.trim().parse::<u32>().ok()
    };
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            Some((
                number(&entry.path())?,
                Path::new("/dev").join(entry.file_name()),
            ))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn mounted(partition: &Path) -> bool {
    FILE_SYSTEMS.iter().any(|(fstype, options)| {
        let mount = Mount {
            source: &partition.to_string_lossy(),
            path: Path::new(MOUNT),
            fstype,
            flags: MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_NODEV,
            options,
        };
        mount.mount().is_ok()
    })
}

fn look(root: &Path) -> Result<Option<String>, Error> {
    for place in PLACES {
        let boot = root.join(place);
        let entries = entries(&boot.join("loader/entries"))?;
        let Some(entry) = boot_loader::default(&entries) else {
            continue;
        };
        let line = entry.line(boot.join(FLAG).exists())?;
        let kernel = open(root, &boot, &entry.linux)?;
        let initrd = match &entry.initrds()?[..] {
            [] => None,
            [one] => Some(open(root, &boot, one)?),
            several => Some(joined(root, &boot, several)?),
        };
        kexec::load(&kernel, initrd.as_ref(), &line).map_err(|source| Error::Load {
            path: entry.linux.clone(),
            source,
        })?;
        return Ok(Some(format!(
            "{} of boot entry {}",
            entry.linux, entry.name
        )));
    }
    Ok(None)
}

fn entries(folder: &Path) -> Result<Vec<Entry>, Error> {
    let Ok(files) = folder.read_dir() else {
        return Ok(Vec::new());
    };
    let mut entries = Vec::new();
    for file in files.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".conf") else {
            continue;
        };
        let mut text = Vec::new();
        File::open(file.path())
            .and_then(|file| file.take(LONGEST).read_to_end(&mut text))
            .map_err(|source| Error::Read {
                path: format!("loader/entries/{name}.conf"),
                source,
            })?;
        entries.push(Entry::parse(name, &String::from_utf8_lossy(&text))?);
    }
    Ok(entries)
}

/// From the file system's root, or from where the entries are: loaders differ. Links stay inside.
fn open(root: &Path, boot: &Path, path: &str) -> Result<File, Error> {
    let below = |top: &Path| {
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT);
        let top = File::open(top)?;
        Ok::<_, io::Error>(File::from(openat2(top.as_fd(), path, how)?))
    };
    below(root)
        .or_else(|_| below(boot))
        .map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })
}

/// The kernel takes one initrd; one after the other they are one.
fn joined(root: &Path, boot: &Path, paths: &[&str]) -> Result<File, Error> {
    let failed = |path: &str| {
        let path = path.to_owned();
        move |source| Error::Read { path, source }
    };
    let mut all = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open("/run/installed-initrd")
        .map_err(failed("/run/installed-initrd"))?;
    for path in paths {
        let mut one = open(root, boot, path)?;
        let length = io::copy(&mut one, &mut all).map_err(failed(path))?;
        // Each begins at a multiple of four bytes.
        let padding = [0; 4];
        let missing = (4 - length % 4) % 4;
        all.write_all(&padding[..missing as usize])
            .map_err(failed(path))?;
    }
    all.rewind().map_err(failed("/run/installed-initrd"))?;
    Ok(all)
}
