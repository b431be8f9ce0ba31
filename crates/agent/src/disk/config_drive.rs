//! The config drive: the volume from which Ignition and cloud-init take the host's first configuration.

use std::io;
use std::os::unix::fs::FileExt;

use uuid::Uuid;

use super::signature;
use super::table::{self, Partition, Table};
use super::target::{Store, Target};

/// The name of the partition, and the label that first boot looks for.
pub const NAME: &str = "config-2";

pub const PARTITION: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the config drive has {0} bytes; more than {PARTITION} are not allowed")]
    TooLarge(usize),
    #[error(
        "the config drive is not an ISO 9660 or FAT volume labelled \"config-2\" or \"CONFIG-2\""
    )]
    NotConfigDrive,
    #[error(
        "the config drive is an ISO 9660 volume, which a disk with sectors of {0} bytes cannot carry"
    )]
    Sector(u64),
    #[error("the image has {0} partitions for a config drive; one at most is allowed")]
    Several(usize),
    #[error("the config drive has {iso} bytes, the image's partition for it has {partition}")]
    DoesNotFit { iso: usize, partition: u64 },
    #[error("partition {0} of the image lies outside the disk")]
    Outside(u32),
    #[error("read partition {number}")]
    Read { number: u32, source: io::Error },
    #[error("make a partition for the config drive")]
    Table(#[from] table::Error),
    #[error("write the config drive")]
    Write(#[source] io::Error),
}

/// Puts the volume on a disk that carries an image: into the image's own partition for it, or a new one at the
/// disk's end. Also does what [`table::settle`] does.
///
/// The volume is on the disk before the table names it, so a power cut leaves no partition with something else in it.
pub fn place(target: &Target, volume: &[u8], guid: Uuid) -> Result<Partition, Error> {
    check(volume, target.sector())?;
    let mut table = Table::read(target)?;
    let partitions = table.partitions(target.sector());
    if partitions.is_empty() {
        return Err(table::Error::NoPartition.into());
    }
    table.grow(target)?;
    let found = match existing(target, partitions)?.as_slice() {
        [] => table.add_last(target, NAME, PARTITION, guid)?,
        [one] => one.clone(),
        several => return Err(Error::Several(several.len())),
    };
    if (volume.len() as u64) > found.len {
        return Err(Error::DoesNotFit {
            iso: volume.len(),
            partition: found.len,
        });
    }
    target
        .file()
        .write_all_at(volume, found.offset)
        .and_then(|()| target.file().sync_all())
        .map_err(Error::Write)?;
    table.write(target)?;
    target.reread_partitions().map_err(table::Error::from)?;
    Ok(found)
}

fn check(volume: &[u8], sector: u64) -> Result<(), Error> {
    if volume.len() as u64 > PARTITION {
        return Err(Error::TooLarge(volume.len()));
    }
    match signature::label(volume).as_deref() {
        Some("config-2" | "CONFIG-2") => {}
        Some(_) | None => return Err(Error::NotConfigDrive),
    }
    // ISO 9660 is made of blocks of 2048 bytes, and Linux mounts no file system with blocks below the sector.
    let is_iso = volume.get(0x8001..0x8006) == Some(b"CD001");
    if is_iso && sector > 2048 {
        return Err(Error::Sector(sector));
    }
    Ok(())
}

/// Partitions that are meant for a config drive, by their name or the label of what is in them.
fn existing(target: &Target, partitions: Vec<Partition>) -> Result<Vec<Partition>, Error> {
    let mut found = vec![];
    for partition in partitions {
        let number = partition.number;
        let end = partition.offset.checked_add(partition.len);
        if end.is_none_or(|end| end > target.size()) {
            return Err(Error::Outside(number));
        }
        let mut head = vec![0; partition.len.min(64 << 10) as usize];
        target
            .file()
            .read_exact_at(&mut head, partition.offset)
            .map_err(|source| Error::Read { number, source })?;
        let named = |name: &Option<String>| {
            name.as_deref()
                .is_some_and(|name| name.eq_ignore_ascii_case(NAME))
        };
        if named(&partition.name) || named(&signature::label(&head)) {
            found.push(partition);
        }
    }
    Ok(found)
}
