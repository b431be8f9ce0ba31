//! The GUID partition table of a disk that an image was just written to.
//!
//! An image carries the table of the disk it was made for, which ended earlier. gptman does the reading and writing;
//! it trusts the numbers it reads, so they are looked at here before.

use std::fs::File;
use std::io::{self, Cursor};
use std::os::unix::fs::FileExt;

use gptman::{GPT, GPTHeader, GPTPartitionEntry};
use uuid::Uuid;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("read the partition table")]
    Read(#[source] io::Error),
    #[error("the partition table is damaged: {0}")]
    Damaged(&'static str),
    #[error("the partition table cannot be read")]
    Parse(#[source] gptman::Error),
    #[error(
        "the image was made for disks with sectors of {image} bytes; this disk has sectors of {disk} bytes"
    )]
    SectorSize { image: u64, disk: u64 },
    #[error("the partition table has no free entry")]
    Full,
    #[error("there are no {0} free bytes between the partitions or behind them")]
    NoRoom(u64),
    #[error("write the partition table")]
    Write(#[source] gptman::Error),
    #[error("flush the partition table")]
    Sync(#[source] io::Error),
}

/// Linux filesystem data, as `sgdisk` marks what it is not told about.
const LINUX_DATA: Uuid = Uuid::from_u128(0x0fc6_3daf_8483_4772_8e79_3d69_d847_7de4);

const ENTRY: u32 = 128;
/// 128 is usual.
const MOST_ENTRIES: u32 = 1024;
/// Both tables and something between them.
const SMALLEST_DISK: u64 = 1 << 20;

/// The table whose first copy is at the beginning of the disk; nothing if there is none.
pub fn read(disk: &File, size: u64, sector: u64) -> Result<Option<GPT>, Error> {
    if size < SMALLEST_DISK {
        return Ok(None);
    }
    let head_len = (2 * 4096 + u64::from(ENTRY * MOST_ENTRIES)).min(size);
    let mut head = vec![0; head_len as usize];
    disk.read_exact_at(&mut head, 0).map_err(Error::Read)?;
    let here = |sector: u64| head[sector as usize..].starts_with(b"EFI PART");
    if !here(sector) {
        let other = if sector == 512 { 4096 } else { 512 };
        if here(other) {
            return Err(Error::SectorSize {
                image: other,
                disk: sector,
            });
        }
        return Ok(None);
    }
    let mut head = Cursor::new(head);
    head.set_position(sector);
    let header = GPTHeader::read_from(&mut head).map_err(Error::Parse)?;
    check_header(&header, sector)?;
    let entries = header
        .read_partitions(&mut head, sector)
        .map_err(Error::Parse)?;
    check_entries(&header, &entries, size / sector)?;
    GPT::read_from(&mut head, sector)
        .map(Some)
        .map_err(Error::Parse)
}

fn check_header(header: &GPTHeader, sector: u64) -> Result<(), Error> {
    let damaged = |what| Err(Error::Damaged(what));
    if header.primary_lba != 1 || header.partition_entry_lba != 2 {
        return damaged("it is not where it says");
    }
    if header.size_of_partition_entry != ENTRY {
        return damaged("its entries do not have 128 bytes");
    }
    if !(1..=MOST_ENTRIES).contains(&header.number_of_partition_entries) {
        return damaged("its number of entries is out of range");
    }
    if header.first_usable_lba < 2 + array_sectors(header, sector) {
        return damaged("partitions may lie over the table");
    }
    Ok(())
}

fn check_entries(
    header: &GPTHeader,
    entries: &[GPTPartitionEntry],
    sectors: u64,
) -> Result<(), Error> {
    let damaged = |what| Err(Error::Damaged(what));
    if entries
        .iter()
        .any(|entry| entry.ending_lba < entry.starting_lba)
    {
        return damaged("a partition ends before it begins");
    }
    let mut used: Vec<_> = entries.iter().filter(|entry| entry.is_used()).collect();
    used.sort_by_key(|entry| entry.starting_lba);
    let inside = |entry: &&GPTPartitionEntry| {
        entry.starting_lba >= header.first_usable_lba && entry.ending_lba < sectors
    };
    if !used.iter().all(inside) {
        return damaged("a partition lies outside the disk");
    }
    let overlap = |pair: &[&GPTPartitionEntry]| pair[1].starting_lba <= pair[0].ending_lba;
    if used.windows(2).any(overlap) {
        return damaged("partitions overlap");
    }
    Ok(())
}

fn array_sectors(header: &GPTHeader, sector: u64) -> u64 {
    (u64::from(header.number_of_partition_entries) * u64::from(ENTRY)).div_ceil(sector)
}

/// Has the table end where the disk ends. Nothing is written yet.
pub fn grow(gpt: &mut GPT, size: u64) -> Result<(), Error> {
    let sectors = size / gpt.sector_size;
    let array = array_sectors(&gpt.header, gpt.sector_size);
    let last_usable = sectors
        .checked_sub(array + 2)
        .filter(|last| *last > gpt.header.first_usable_lba)
        .ok_or(Error::Damaged("the disk is too small for it"))?;
    if gpt
        .iter()
        .any(|(_, p)| p.is_used() && p.ending_lba > last_usable)
    {
        return Err(Error::Damaged("a partition lies where its backup belongs"));
    }
    gpt.header.backup_lba = sectors - 1;
    gpt.header.last_usable_lba = last_usable;
    Ok(())
}

/// Adds a partition as near to the end as there is room. Nothing is written yet.
pub fn add_last(gpt: &mut GPT, name: &str, bytes: u64, guid: Uuid) -> Result<u32, Error> {
    let sectors = bytes.div_ceil(gpt.sector_size);
    let number = gpt
        .iter()
        .find(|(_, entry)| entry.is_unused())
        .map(|(number, _)| number)
        .ok_or(Error::Full)?;
    // An image's own alignment may be a single sector.
    gpt.align = gpt.align.max((1 << 20) / gpt.sector_size);
    let start = gpt
        .find_last_place(sectors)
        .filter(|start| is_free(gpt, *start, sectors))
        .ok_or(Error::NoRoom(bytes))?;
    gpt[number] = GPTPartitionEntry {
        partition_type_guid: LINUX_DATA.to_bytes_le(),
        unique_partition_guid: guid.to_bytes_le(),
        starting_lba: start,
        ending_lba: start + sectors - 1,
        attribute_bits: 0,
        partition_name: name.into(),
    };
    Ok(number)
}

/// Rounding down to the alignment may have left the free place.
fn is_free(gpt: &GPT, start: u64, sectors: u64) -> bool {
    let end = start + sectors - 1;
    let apart = |entry: &GPTPartitionEntry| entry.ending_lba < start || end < entry.starting_lba;
    start >= gpt.header.first_usable_lba
        && gpt
            .iter()
            .all(|(_, entry)| entry.is_unused() || apart(entry))
}

/// The backup first: at any moment one of the two is whole.
pub fn write(gpt: &GPT, mut disk: &File) -> Result<(), Error> {
    let entries: Vec<_> = gpt.iter().map(|(_, entry)| entry.clone()).collect();
    let mut backup = gpt.header.clone();
    backup.primary_lba = gpt.header.backup_lba;
    backup.backup_lba = gpt.header.primary_lba;
    backup.partition_entry_lba = gpt.header.last_usable_lba + 1;
    for mut header in [backup, gpt.header.clone()] {
        header
            .write_into(&mut disk, gpt.sector_size, &entries)
            .map_err(Error::Write)?;
        disk.sync_all().map_err(Error::Sync)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 128 << 20;
    const NAME: &str = "config-2";

    /// A disk with a table of these entries, and a header changed at will; checksums are right.
    fn disk(entries: &[(u64, u64)], change: impl FnOnce(&mut GPTHeader)) -> File {
        let mut disk = tempfile::tempfile().unwrap();
        disk.set_len(SIZE).unwrap();
        let mut gpt = GPT::new_from(&mut disk, 512, [7; 16]).unwrap();
        for (number, (start, end)) in (1..).zip(entries) {
            gpt[number] = GPTPartitionEntry {
                partition_type_guid: LINUX_DATA.to_bytes_le(),
                unique_partition_guid: [number as u8; 16],
                starting_lba: *start,
                ending_lba: *end,
                attribute_bits: 0,
                partition_name: "part".into(),
            };
        }
        let entries: Vec<_> = gpt.iter().map(|(_, entry)| entry.clone()).collect();
        let mut header = gpt.header.clone();
        // The checksum of the entries is over as many as there really are.
        header.write_into(&mut disk, 512, &entries).unwrap();
        change(&mut header);
        let mut bytes = Cursor::new(vec![0; 1 << 20]);
        let (place, count) = (header.primary_lba, header.number_of_partition_entries);
        header.primary_lba = 1;
        header.number_of_partition_entries = 0;
        header.write_into(&mut bytes, 512, &[]).unwrap();
        let mut raw = bytes.into_inner()[512..604].to_vec();
        raw[24..32].copy_from_slice(&place.to_le_bytes());
        raw[80..84].copy_from_slice(&count.to_le_bytes());
        disk.write_all_at(&sealed(raw, &disk, count), 512).unwrap();
        disk
    }

    /// The header with both checksums put right, if its array is small enough to have one.
    fn sealed(mut raw: Vec<u8>, disk: &File, count: u32) -> Vec<u8> {
        let mut array = vec![0; count.min(MOST_ENTRIES) as usize * ENTRY as usize];
        disk.read_exact_at(&mut array, 1024).unwrap();
        raw[88..92].copy_from_slice(&crc32(&array).to_le_bytes());
        raw[16..20].fill(0);
        let sum = crc32(&raw);
        raw[16..20].copy_from_slice(&sum.to_le_bytes());
        raw
    }

    fn crc32(bytes: &[u8]) -> u32 {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum()
    }

    fn add(disk: &File) -> Result<(GPT, u32), Error> {
        let mut gpt = read(disk, SIZE, 512)?.ok_or(Error::Full)?;
        grow(&mut gpt, SIZE)?;
        let number = add_last(&mut gpt, NAME, 64 << 20, Uuid::from_u128(5))?;
        Ok((gpt, number))
    }

    #[test]
    fn a_sound_table_gets_a_partition_at_the_end() {
        let disk = disk(&[(2048, 4095), (4096, 8191)], |header| {
            header.last_usable_lba = 10_000;
            header.backup_lba = 10_033;
        });
        let (gpt, number) = add(&disk).unwrap();
        let sectors = SIZE / 512;
        assert_eq!(number, 3);
        assert_eq!(
            gpt[3].ending_lba - gpt[3].starting_lba + 1,
            (64 << 20) / 512
        );
        assert!(gpt[3].ending_lba > sectors - 2 * 2048 - 34);
        write(&gpt, &disk).unwrap();
        let again = read(&disk, SIZE, 512).unwrap().unwrap();
        assert_eq!(again.header.backup_lba, sectors - 1);
        assert_eq!(again[3], gpt[3]);
    }

    #[test]
    fn damaged_tables_are_refused_in_words() {
        type Change = fn(&mut GPTHeader);
        let none: Change = |_| ();
        for (entries, change, words) in [
            (&[(2048, 4096), (4096, 8191)][..], none, "overlap"),
            (&[(2048, u64::MAX)], none, "outside the disk"),
            (&[(5, 4096)], none, "outside the disk"),
            (&[(5000, 4096)], none, "ends before it begins"),
            (&[], |header| header.primary_lba = 9, "not where it says"),
            (
                &[],
                |header| header.partition_entry_lba = 9,
                "not where it says",
            ),
            (
                &[],
                |header| header.size_of_partition_entry = 256,
                "128 bytes",
            ),
            (
                &[],
                |header| header.number_of_partition_entries = u32::MAX,
                "number of entries",
            ),
            (&[], |header| header.first_usable_lba = 3, "over the table"),
        ] {
            let error = read(&disk(entries, change), SIZE, 512)
                .unwrap_err()
                .to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_table_with_right_checksums_is_used_soundly_or_refused(
            entries in proptest::collection::vec(
                prop_oneof![(0..300_000_u64, 0..300_000_u64), any::<(u64, u64)>()], 0..4),
            usable in prop_oneof![Just((34, 10_000)), (0..300_000_u64, any::<u64>())],
            count in prop_oneof![Just(128), 0..2000_u32, any::<u32>()],
        ) {
            let disk = disk(&entries, |header| {
                (header.first_usable_lba, header.last_usable_lba) = usable;
                header.number_of_partition_entries = count;
            });
            if let Ok((gpt, number)) = add(&disk) {
                let added = &gpt[number];
                prop_assert!(added.ending_lba <= gpt.header.last_usable_lba);
                for (other, entry) in gpt.iter().filter(|(_, entry)| entry.is_used()) {
                    let apart = entry.ending_lba < added.starting_lba || added.ending_lba < entry.starting_lba;
                    prop_assert!(other == number || apart);
                }
            }
        }
    }
}
