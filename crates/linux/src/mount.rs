//! Mounting, and the file systems an init program needs before anything else works.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::MntFlags;
pub use nix::mount::MsFlags;

/// What went wrong with a mount.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not make the mount point {}", path.display())]
    MountPoint { path: PathBuf, source: io::Error },
    #[error("could not mount {source_name} on {} as {fstype}", path.display())]
    Mount {
        source_name: String,
        path: PathBuf,
        fstype: String,
        source: io::Error,
    },
    #[error("could not have mounts of one's own")]
    Own { source: io::Error },
    #[error("could not put {} in the place of {}", with.display(), path.display())]
    Replace {
        path: PathBuf,
        with: PathBuf,
        source: io::Error,
    },
    #[error("could not unmount {}", path.display())]
    Unmount { path: PathBuf, source: io::Error },
    #[error("could not read the mount table")]
    Table { source: io::Error },
}

/// One mount to make.
#[derive(Debug, Clone)]
pub struct Mount<'a> {
    /// A device, or any word for file systems without one.
    pub source: &'a str,
    pub path: &'a Path,
    pub fstype: &'a str,
    pub flags: MsFlags,
    /// File system options, such as `mode=0755`.
    pub options: &'a str,
}

impl Mount<'_> {
    /// Makes the directory and mounts on it.
    pub fn mount(&self) -> Result<(), Error> {
        let path = self.path;
        fs::create_dir_all(path).map_err(|source| Error::MountPoint {
            path: path.to_owned(),
            source,
        })?;
        let options = (!self.options.is_empty()).then_some(self.options);
        nix::mount::mount(
            Some(self.source),
            path,
            Some(self.fstype),
            self.flags,
            options,
        )
        .map_err(|errno| Error::Mount {
            source_name: self.source.to_owned(),
            path: path.to_owned(),
            fstype: self.fstype.to_owned(),
            source: errno.into(),
        })
    }
}

/// Mounts `/proc`, `/sys`, `/dev`, `/dev/pts`, `/run` and `/tmp`; those already mounted are left alone.
pub fn system() -> Result<(), Error> {
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_NODEV;
    let table = [
        ("proc", "/proc", safe, ""),
        ("sysfs", "/sys", safe, ""),
        ("devtmpfs", "/dev", MsFlags::MS_NOSUID, "mode=0755"),
        (
            "devpts",
            "/dev/pts",
            MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC,
            "mode=0620,ptmxmode=0666",
        ),
        (
            "tmpfs",
            "/run",
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
            "mode=0755",
        ),
        (
            "tmpfs",
            "/tmp",
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
            "mode=1777",
        ),
    ];
    for (fstype, path, flags, options) in table {
        let path = Path::new(path);
        // Before /proc is there the table cannot be read, and nothing is mounted.
        if is_mounted(path).unwrap_or(false) {
            continue;
        }
        match (Mount {
            source: fstype,
            path,
            fstype,
            flags,
            options,
        })
        .mount()
        {
            // The kernel may have mounted /dev by itself (CONFIG_DEVTMPFS_MOUNT).
            Err(Error::Mount { source, .. }) if source.raw_os_error() == Some(libc::EBUSY) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Unmounts; a path that is no mount point is fine. With `detach`, at once, and busy files later.
/// For this process and those it starts, `path` is the file `with`; nobody else sees it.
pub fn replace_file(path: &Path, with: &Path) -> Result<(), Error> {
    let own = |errno: Errno| Error::Own {
        source: errno.into(),
    };
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).map_err(own)?;
    let (nothing, all) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
    nix::mount::mount(nothing, "/", nothing, all, nothing).map_err(own)?;
    let replace = |source| Error::Replace {
        path: path.to_owned(),
        with: with.to_owned(),
        source,
    };
    // A link leads to the file that is read.
    let whole = fs::canonicalize(path).map_err(replace)?;
    nix::mount::mount(Some(with), &whole, nothing, MsFlags::MS_BIND, nothing)
        .map_err(|errno| replace(errno.into()))
}

pub fn unmount(path: &Path, detach: bool) -> Result<(), Error> {
    let flags = if detach {
        MntFlags::MNT_DETACH
    } else {
        MntFlags::empty()
    };
    match nix::mount::umount2(path, flags) {
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => Ok(()),
        Err(errno) => Err(Error::Unmount {
            path: path.to_owned(),
            source: errno.into(),
        }),
    }
}

/// Whether something is mounted on exactly this path.
pub fn is_mounted(path: &Path) -> Result<bool, Error> {
    let table = fs::read("/proc/self/mountinfo").map_err(|source| Error::Table { source })?;
    let wanted = path.as_os_str().as_encoded_bytes();
    Ok(mount_points(&table).any(|point| point == wanted))
}

/// The fifth field of each line of mountinfo, unescaped.
fn mount_points(table: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape)
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if byte == b'\\' => {
                Some(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'))
            }
            _ => None,
        };
        out.push(octal.unwrap_or(byte));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_and_unescaped() {
        let table = b"22 1 0:21 / /proc rw - proc proc rw\n23 1 0:5 / /mnt/two\\040words\\134 rw - x y z\nshort\n\n";
        let points: Vec<_> = mount_points(table).collect();
        assert_eq!(points, [b"/proc".to_vec(), b"/mnt/two words\\".to_vec()]);
    }

    #[test]
    fn a_lone_backslash_stays() {
        assert_eq!(unescape(b"a\\9\\04"), b"a\\9\\04");
    }

    #[test]
    fn proc_is_mounted_and_an_invented_path_is_not() {
        assert!(is_mounted(Path::new("/proc")).unwrap());
        assert!(!is_mounted(Path::new("/proc/self")).unwrap());
        assert!(unmount(Path::new("/nowhere/at/all"), false).is_ok());
    }
}
