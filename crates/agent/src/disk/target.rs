//! The disk being written: a block device, or a file that stands for one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, OFlag, fallocate};

use super::aligned::{ALIGNMENT, Block, is_aligned};

/// What a writer needs of a disk. Offsets and lengths need not be aligned.
pub trait Store {
    /// In bytes.
    fn size(&self) -> u64;
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Makes a range read as zeros.
    fn zero(&mut self, offset: u64, len: u64) -> io::Result<()>;
    /// Returns when everything written before will survive a power cut.
    fn sync(&mut self) -> io::Result<()>;
}

#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    file: File,
    /// The same disk past the page cache, while the kernel allows it.
    direct: Option<File>,
    size: u64,
    sector: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Device,
    File,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is in use: it or one of its partitions is mounted or part of another device", path.display())]
    Busy { path: PathBuf },
    #[error("open disk {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{} is neither a block device nor a file", path.display())]
    Kind { path: PathBuf },
    #[error("ask disk {} for its size", path.display())]
    Size { path: PathBuf, source: io::Error },
    #[error("have the kernel read the partitions of {} again", path.display())]
    Reread { path: PathBuf, source: io::Error },
}

impl Target {
    /// Opens a block device for nobody else, or an existing file whose length is the disk's size.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source: io::Error| match source.raw_os_error() {
            Some(code) if code == nix::errno::Errno::EBUSY as i32 => Error::Busy {
                path: path.to_owned(),
            },
            _ => Error::Open {
                path: path.to_owned(),
                source,
            },
        };
        let meta = std::fs::metadata(path).map_err(failed)?;
        let (kind, flags) = if meta.file_type().is_block_device() {
            // The kernel then refuses a disk that is mounted or held, whole or in part.
            (Kind::Device, OFlag::O_EXCL)
        } else if meta.is_file() {
            (Kind::File, OFlag::empty())
        } else {
            return Err(Error::Kind {
                path: path.to_owned(),
            });
        };
        let open = |flags: OFlag| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(flags.bits())
                .open(path)
        };
        let file = open(flags).map_err(failed)?;
        let measure = || match kind {
            Kind::Device => Ok((
                linux::block::size(&file)?,
                linux::block::logical_sector(&file)?,
            )),
            Kind::File => Ok((meta.len(), 512)),
        };
        let (size, sector) = measure().map_err(|source| Error::Size {
            path: path.to_owned(),
            source,
        })?;
        // A second exclusive opening would be refused; not every file system has direct I/O.
        let direct = open(OFlag::O_DIRECT).ok();
        Ok(Self {
            path: path.to_owned(),
            file,
            direct,
            size,
            sector,
            kind,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The disk through the page cache, for partition tables and the like.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The logical sector size in bytes.
    pub fn sector(&self) -> u64 {
        self.sector
    }

    /// Has the kernel look at the partition table again; a file has no partitions to show.
    pub fn reread_partitions(&self) -> Result<(), Error> {
        match self.kind {
            Kind::File => Ok(()),
            Kind::Device => {
                linux::block::reread_partitions(&self.file).map_err(|source| Error::Reread {
                    path: self.path.clone(),
                    source,
                })
            }
        }
    }

    fn zero_by_kernel(&self, offset: u64, len: u64) -> io::Result<()> {
        match self.kind {
            Kind::Device => linux::block::zero_out(&self.file, offset, len),
            Kind::File => {
                let hole =
                    FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
                Ok(fallocate(&self.file, hole, offset as i64, len as i64)?)
            }
        }
    }
}

impl Store for Target {
    fn size(&self) -> u64 {
        self.size
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(direct) = &self.direct
            && is_aligned(data)
            && offset.is_multiple_of(ALIGNMENT as u64)
        {
            match direct.write_all_at(data, offset) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.direct = None,
                result => return result,
            }
        }
        self.file.write_all_at(data, offset)
    }

    fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        if self.zero_by_kernel(offset, len).is_ok() {
            return Ok(());
        }
        let zeros = Block::new();
        let mut done = 0;
        while done < len {
            let part = (len - done).min(zeros.bytes().len() as u64);
            self.write(offset + done, &zeros.bytes()[..part as usize])?;
            done += part;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(len: u64) -> (tempfile::NamedTempFile, Target) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(len).unwrap();
        let target = Target::open(file.path()).unwrap();
        (file, target)
    }

    #[test]
    fn aligned_or_not_bytes_arrive_where_they_belong() {
        let (file, mut target) = disk(3 << 20);
        let mut block = Block::new();
        block.bytes_mut().fill(7);
        target.write(1 << 20, block.bytes()).unwrap();
        target.write(100, b"odd").unwrap();
        target.zero((1 << 20) + 5, 10).unwrap();
        target.sync().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(bytes.len(), 3 << 20);
        assert_eq!(&bytes[99..104], b"\0odd\0");
        let second = &bytes[1 << 20..];
        assert_eq!(
            &second[..16],
            [7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]
        );
        assert_eq!(
            bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
            7 * ((1 << 20) - 10) + 111 + 100 + 100
        );
    }

    #[test]
    fn what_cannot_hold_a_disk_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let error = Target::open(dir.path()).unwrap_err().to_string();
        assert!(
            error.contains("neither a block device nor a file"),
            "{error}"
        );
        let error = Target::open(&dir.path().join("none"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("none"), "{error}");
    }
}
