//! Making a disk look new: no partition table and no file system that anything would recognise.
//!
//! Where Ironic's agent zeros 33 sectors and each signature it finds, this zeros the first and the last MiB of every
//! partition and of the disk, which is where all of them lie. The disk's own ends go last: an erasing that was cut
//! short finds the partitions again.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::guard::{Reason, Uses};
use super::signature;
use super::table::{Partition, Table};
use super::target::{self, Store, Target};
use super::writer;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is not erased: {why}", path.display())]
    InUse { path: PathBuf, why: Reason },
    #[error("{} is not erased: it carries {what}, a file system that several machines share", path.display())]
    Shared { path: PathBuf, what: &'static str },
    #[error("read disk {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("erase disk {}", path.display())]
    Erase {
        path: PathBuf,
        source: writer::Error,
    },
    #[error(transparent)]
    Target(#[from] target::Error),
}

/// Erases what tells the disk's contents; returns the partitions that were there.
pub fn erase_metadata(device: &Path, uses: &Uses) -> Result<Vec<Partition>, Error> {
    // A link must not hide the name under which the disk is in use.
    let device = &fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    if let Some(why) = uses.of(&name) {
        let path = device.to_owned();
        return Err(Error::InUse { path, why });
    }
    let mut target = Target::open(device)?;
    let partitions = partitions(&target);
    refuse_shared(&target, &partitions)?;
    let erase = |target: &mut Target| -> Result<(), writer::Error> {
        for partition in &partitions {
            wipe(target, partition)?;
        }
        target.sync().map_err(writer::Error::Sync)?;
        writer::wipe_ends(target)
    };
    erase(&mut target).map_err(|source| Error::Erase {
        path: device.to_owned(),
        source,
    })?;
    target.reread_partitions()?;
    Ok(partitions)
}

/// A table that cannot be read has no partitions to erase; the disk's own ends are erased in any case.
fn partitions(target: &Target) -> Vec<Partition> {
    let all = Table::read(target).map(|table| table.partitions(target.sector()));
    let inside = |partition: &Partition| {
        let end = partition.offset.checked_add(partition.len);
        end.is_some_and(|end| end <= target.size())
    };
    all.unwrap_or_default().into_iter().filter(inside).collect()
}

fn refuse_shared(target: &Target, partitions: &[Partition]) -> Result<(), Error> {
    let shared = |what| Error::Shared {
        path: target.path().to_owned(),
        what,
    };
    if let Ok(Table::Gpt(gpt)) = Table::read(target) {
        let gpfs = signature::GPFS.to_bytes_le();
        if gpt
            .iter()
            .any(|(_, entry)| entry.partition_type_guid == gpfs)
        {
            return Err(shared("GPFS"));
        }
    }
    let places = partitions
        .iter()
        .map(|partition| (partition.offset, partition.len));
    for (offset, len) in places.chain([(0, target.size())]) {
        let mut head = vec![0; len.min(signature::SHARED_HEAD as u64) as usize];
        target
            .file()
            .read_exact_at(&mut head, offset)
            .map_err(|source| Error::Read {
                path: target.path().to_owned(),
                source,
            })?;
        if let Some(what) = signature::shared(&head) {
            return Err(shared(what));
        }
    }
    Ok(())
}

fn wipe(target: &mut Target, partition: &Partition) -> Result<(), writer::Error> {
    let end = partition.offset + partition.len;
    let part = partition.len.min(1 << 20);
    for at in [partition.offset, end - part] {
        target
            .zero(at, part)
            .map_err(|source| writer::Error::Write { at, source })?;
    }
    Ok(())
}
