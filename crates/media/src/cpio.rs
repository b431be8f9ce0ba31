//! cpio archives in the `newc` format, as the kernel unpacks them into its first root
//! (kernel: Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeMap;
use std::io::{self, Write};

/// What will be in the archive. Order of adding does not matter: entries are written sorted by path, so a
/// directory always comes before what it holds, and the same content gives the same bytes.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    mode: u32,
    device: (u32, u32),
    data: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    Char { major: u32, minor: u32 },
    Block { major: u32, minor: u32 },
}

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const CHAR: u32 = 0o020_000;
const BLOCK: u32 = 0o060_000;

impl Archive {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn dir(&mut self, path: &str, permissions: u32) {
        self.add(path, DIRECTORY | permissions, (0, 0), Vec::new());
    }

    pub fn file(&mut self, path: &str, permissions: u32, data: Vec<u8>) {
        self.add(path, FILE | permissions, (0, 0), data);
    }

    pub fn symlink(&mut self, path: &str, target: &str) {
        self.add(path, SYMLINK | 0o777, (0, 0), target.as_bytes().to_vec());
    }

    pub fn device(&mut self, path: &str, permissions: u32, device: Device) {
        let (kind, numbers) = match device {
            Device::Char { major, minor } => (CHAR, (major, minor)),
            Device::Block { major, minor } => (BLOCK, (major, minor)),
        };
        self.add(path, kind | permissions, numbers, Vec::new());
    }

    pub fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path.trim_matches('/'))
    }

    /// Adds missing parents as plain directories; a later entry of the same path replaces the earlier.
    fn add(&mut self, path: &str, mode: u32, device: (u32, u32), data: Vec<u8>) {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/') {
            self.entries.entry(path[..at].to_owned()).or_insert(Entry {
                mode: DIRECTORY | 0o755,
                device: (0, 0),
                data: Vec::new(),
            });
        }
        self.entries
            .insert(path.to_owned(), Entry { mode, device, data });
    }

    pub fn write_to<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        for (index, (path, entry)) in self.entries.iter().enumerate() {
            // The kernel makes hard links of entries that share an inode, so each has its own.
            write_entry(writer, index as u32 + 1, path, entry)?;
        }
        let end = Entry {
            mode: 0,
            device: (0, 0),
            data: Vec::new(),
        };
        write_entry(writer, 0, "TRAILER!!!", &end)
    }
}

fn write_entry<W: Write>(writer: &mut W, inode: u32, path: &str, entry: &Entry) -> io::Result<()> {
    let len = u32::try_from(entry.data.len())
        .map_err(|_| io::Error::other(format!("{path} is too large for a cpio archive (4 GiB)")))?;
    let links = if entry.mode & 0o170_000 == DIRECTORY {
        2
    } else {
        1
    };
    let (major, minor) = entry.device;
    write!(writer, "070701")?;
    // inode mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
    let name_len = path.len() as u32 + 1;
    let fields = [
        inode, entry.mode, 0, 0, links, 0, len, 0, 0, major, minor, name_len, 0,
    ];
    for field in fields {
        write!(writer, "{field:08x}")?;
    }
    writer.write_all(path.as_bytes())?;
    writer.write_all(&[0])?;
    pad(writer, 110 + path.len() + 1)?;
    writer.write_all(&entry.data)?;
    pad(writer, entry.data.len())
}

fn pad<W: Write>(writer: &mut W, len: usize) -> io::Result<()> {
    writer.write_all(&[0; 3][..len.wrapping_neg() % 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(archive: &Archive) -> Vec<u8> {
        let mut out = Vec::new();
        archive.write_to(&mut out).unwrap();
        out
    }

    #[test]
    fn order_of_adding_does_not_change_the_bytes() {
        let mut one = Archive::new();
        one.file("etc/a", 0o644, b"1".to_vec());
        one.symlink("bin/sh", "busybox");
        let mut two = Archive::new();
        two.symlink("/bin/sh", "busybox");
        two.file("/etc/a", 0o644, b"1".to_vec());
        assert_eq!(bytes(&one), bytes(&two));
    }

    #[test]
    fn parents_come_before_what_they_hold() {
        let mut archive = Archive::new();
        archive.file("a/b/c", 0o600, Vec::new());
        let names: Vec<_> = archive.entries.keys().cloned().collect();
        assert_eq!(names, ["a", "a/b", "a/b/c"]);
    }

    #[test]
    fn every_header_and_body_is_aligned_to_four() {
        let mut archive = Archive::new();
        for n in 0..9 {
            archive.file(&"x".repeat(n + 1), 0o644, vec![b'y'; n]);
        }
        let out = bytes(&archive);
        assert_eq!(out.len() % 4, 0);
        let headers = (0..out.len() - 5).filter(|&i| &out[i..i + 6] == b"070701");
        assert!(headers.clone().all(|i| i % 4 == 0));
        assert_eq!(headers.count(), 10);
    }
}
