//! The partition table of a disk, of either kind.

use std::io;
use std::os::unix::fs::FileExt;

use gptman::GPT;

use super::gpt;
use super::mbr::{self, Mbr};
use super::target::{self, Store, Target};

pub enum Table {
    Gpt(GPT),
    Mbr(Box<Mbr>),
}

/// One partition, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub number: u32,
    pub name: Option<String>,
    pub offset: u64,
    pub len: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("read the first sector of the disk")]
    Read(#[source] io::Error),
    #[error("write the first sector of the disk")]
    Write(#[source] io::Error),
    #[error("the disk has no partition table")]
    None,
    #[error("the disk has a partition table, but no partition in it")]
    NoPartition,
    #[error(transparent)]
    Gpt(#[from] gpt::Error),
    #[error(transparent)]
    Mbr(#[from] mbr::Error),
    #[error(transparent)]
    Reread(#[from] target::Error),
}

/// After an image was written: the backup GPT goes to the real end of the disk, and the partitions that the disk
/// now has are returned. None at all is an error: nothing would boot.
pub fn settle(target: &Target) -> Result<Vec<Partition>, Error> {
    let mut table = Table::read(target)?;
    let partitions = table.partitions(target.sector());
    if partitions.is_empty() {
        return Err(Error::NoPartition);
    }
    table.grow(target)?;
    table.write(target)?;
    target.reread_partitions()?;
    Ok(partitions)
}

impl Table {
    pub fn read(target: &Target) -> Result<Self, Error> {
        if let Some(gpt) = gpt::read(target.file(), target.size(), target.sector())? {
            return Ok(Self::Gpt(gpt));
        }
        match read_mbr(target)? {
            Some(mbr) if mbr.is_protective() => {
                Err(gpt::Error::Damaged("its header is missing").into())
            }
            Some(mbr) => Ok(Self::Mbr(Box::new(mbr))),
            None => Err(Error::None),
        }
    }

    pub fn partitions(&self, sector: u64) -> Vec<Partition> {
        match self {
            Self::Gpt(gpt) => gpt
                .iter()
                .filter(|(_, entry)| entry.is_used())
                .map(|(number, entry)| Partition {
                    number,
                    name: Some(entry.partition_name.as_str().to_owned()),
                    offset: entry.starting_lba * gpt.sector_size,
                    len: (entry.ending_lba - entry.starting_lba + 1) * gpt.sector_size,
                })
                .collect(),
            Self::Mbr(mbr) => mbr
                .entries()
                .into_iter()
                .map(|entry| Partition {
                    number: entry.number,
                    name: None,
                    offset: u64::from(entry.start) * sector,
                    len: u64::from(entry.sectors) * sector,
                })
                .collect(),
        }
    }

    /// Has the table use the whole disk.
    pub fn grow(&mut self, target: &Target) -> Result<(), Error> {
        match self {
            Self::Gpt(gpt) => Ok(gpt::grow(gpt, target.size())?),
            Self::Mbr(_) => Ok(()),
        }
    }

    /// Adds a partition at the end of the disk.
    pub fn add_last(
        &mut self,
        target: &Target,
        name: &str,
        bytes: u64,
        guid: uuid::Uuid,
    ) -> Result<Partition, Error> {
        let number = match self {
            Self::Gpt(gpt) => gpt::add_last(gpt, name, bytes, guid)?,
            Self::Mbr(mbr) => mbr.add_last(target.size(), target.sector(), bytes)?.number,
        };
        let mut partitions = self.partitions(target.sector()).into_iter();
        Ok(partitions
            .find(|partition| partition.number == number)
            .expect("it was just added"))
    }

    /// Writes it so that it survives a power cut at any moment.
    pub fn write(&self, target: &Target) -> Result<(), Error> {
        let first_sector = match self {
            Self::Gpt(gpt) => {
                gpt::write(gpt, target.file())?;
                read_mbr(target)?.map(|mut mbr| {
                    mbr.cover(target.size() / target.sector());
                    mbr
                })
            }
            Self::Mbr(mbr) => Some(*mbr.clone()),
        };
        if let Some(mbr) = first_sector {
            let file = target.file();
            file.write_all_at(mbr.bytes(), 0).map_err(Error::Write)?;
            file.sync_all().map_err(Error::Write)?;
        }
        Ok(())
    }
}

fn read_mbr(target: &Target) -> Result<Option<Mbr>, Error> {
    if target.size() < 512 {
        return Ok(None);
    }
    let mut sector = [0; 512];
    target
        .file()
        .read_exact_at(&mut sector, 0)
        .map_err(Error::Read)?;
    Ok(Mbr::parse(&sector))
}
