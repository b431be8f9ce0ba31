//! The partition table in the first sector of a disk.
//!
//! ```text
//!   0        boot code        446  four entries of 16 bytes        510  55 aa
//!   entry: active(1) CHS(3) type(1) CHS(3) first sector(4) sectors(4), little endian
//! ```

/// The first 512 bytes of a disk, if they hold a partition table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mbr {
    sector: [u8; 512],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// From 1.
    pub number: u32,
    pub kind: u8,
    pub start: u32,
    pub sectors: u32,
}

/// Says that the real table is a GPT.
pub const PROTECTIVE: u8 = 0xee;
/// An EFI system partition.
pub const ESP: u8 = 0xef;
/// FAT32, addressed by sector.
const FAT32_LBA: u8 = 0x0c;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the partition table has four primary partitions already")]
    Full,
    #[error("there are no {0} free bytes behind the last partition")]
    NoRoom(u64),
}

impl Mbr {
    /// Nothing if this is no partition table; the boot sector of a file system ends with the same two bytes.
    pub fn parse(sector: &[u8; 512]) -> Option<Self> {
        let plausible = sector[446..510]
            .chunks_exact(16)
            .all(|entry| matches!(entry[0], 0 | 0x80));
        (sector[510..] == [0x55, 0xaa] && plausible).then_some(Self { sector: *sector })
    }

    pub fn bytes(&self) -> &[u8; 512] {
        &self.sector
    }

    /// By which firmware knows the disk.
    pub fn signature(&self) -> u32 {
        u32::from_le_bytes(self.sector[440..444].try_into().expect("four bytes"))
    }

    /// The entries in use.
    pub fn entries(&self) -> Vec<Entry> {
        let all = (1..=4).map(|number| {
            let entry = &self.sector[Self::at(number)..][..16];
            let word =
                |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().expect("four bytes"));
            Entry {
                number,
                kind: entry[4],
                start: word(8),
                sectors: word(12),
            }
        });
        all.filter(|entry| entry.kind != 0 && entry.sectors != 0)
            .collect()
    }

    pub fn is_protective(&self) -> bool {
        self.entries().iter().any(|entry| entry.kind == PROTECTIVE)
    }

    /// Adds a partition of `bytes` at the end of the disk, or of what 32 bits can address of it.
    pub fn add_last(&mut self, disk_bytes: u64, sector: u64, bytes: u64) -> Result<Entry, Error> {
        let used = self.entries();
        let number = (1..=4)
            .find(|number| used.iter().all(|entry| entry.number != *number))
            .ok_or(Error::Full)?;
        let no_room = Error::NoRoom(bytes);
        let align = ((1 << 20) / sector).max(1);
        let sectors = bytes.div_ceil(sector);
        let end = (disk_bytes / sector).min(u64::from(u32::MAX));
        let start = end.checked_sub(sectors).ok_or(no_room)? / align * align;
        let behind = |entry: &Entry| u64::from(entry.start) + u64::from(entry.sectors);
        if start == 0 || used.iter().any(|entry| behind(entry) > start) {
            return Err(no_room);
        }
        let entry = Entry {
            number,
            kind: FAT32_LBA,
            start: start as u32,
            sectors: sectors as u32,
        };
        let at = Self::at(number);
        let slot = &mut self.sector[at..at + 16];
        // Cylinders, heads and sectors end at 8 GB; this says "look at the sector numbers".
        slot[..8].copy_from_slice(&[0, 0xfe, 0xff, 0xff, FAT32_LBA, 0xfe, 0xff, 0xff]);
        slot[8..12].copy_from_slice(&entry.start.to_le_bytes());
        slot[12..].copy_from_slice(&entry.sectors.to_le_bytes());
        Ok(entry)
    }

    /// Has a lone protective entry cover the whole disk. Boot code, and entries beside it, stay as they are.
    pub fn cover(&mut self, disk_sectors: u64) {
        if let [only] = self.entries().as_slice()
            && only.kind == PROTECTIVE
            && only.start == 1
        {
            let sectors = u32::try_from(disk_sectors - 1).unwrap_or(u32::MAX);
            let at = Self::at(only.number) + 12;
            self.sector[at..at + 4].copy_from_slice(&sectors.to_le_bytes());
        }
    }

    fn at(number: u32) -> usize {
        446 + 16 * (number as usize - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(entries: &[(u8, u32, u32)]) -> Mbr {
        let mut sector = [0; 512];
        sector[..4].copy_from_slice(b"code");
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        for (entry, at) in entries.iter().zip((446..510).step_by(16)) {
            sector[at + 4] = entry.0;
            sector[at + 8..at + 12].copy_from_slice(&entry.1.to_le_bytes());
            sector[at + 12..at + 16].copy_from_slice(&entry.2.to_le_bytes());
        }
        Mbr::parse(&sector).unwrap()
    }

    const MIB64: u64 = 64 << 20;

    #[test]
    fn a_fourth_partition_fits_and_a_fifth_does_not() {
        let disk = 1 << 30;
        let mut mbr = table(&[(0x83, 2048, 2048), (0x83, 4096, 2048), (0x82, 6144, 2048)]);
        let added = mbr.add_last(disk, 512, MIB64).unwrap();
        assert_eq!(
            (added.number, added.start, added.sectors),
            (4, (1 << 21) - (1 << 17), 1 << 17)
        );
        assert_eq!(mbr.entries()[3], added);
        assert_eq!(&mbr.bytes()[..4], b"code");
        assert_eq!(mbr.add_last(disk, 512, MIB64), Err(Error::Full));
    }

    #[test]
    fn beyond_two_tebibytes_the_partition_is_put_where_it_can_be_addressed() {
        let added = table(&[(0x83, 2048, 2048)])
            .add_last(8 << 40, 512, MIB64)
            .unwrap();
        let end = u64::from(added.start) + u64::from(added.sectors);
        assert!(u32::try_from(end).is_ok() && end * 512 > (2 << 40) - MIB64);
    }

    #[test]
    fn a_full_disk_has_no_room() {
        let mut full = table(&[(0x83, 2048, (1 << 21) - 4096)]);
        assert_eq!(
            full.add_last(1 << 30, 512, MIB64),
            Err(Error::NoRoom(MIB64))
        );
        assert_eq!(
            table(&[]).add_last(1 << 20, 512, MIB64),
            Err(Error::NoRoom(MIB64))
        );
    }

    #[test]
    fn only_a_lone_protective_entry_is_stretched() {
        let mut gpt = table(&[(PROTECTIVE, 1, 999)]);
        gpt.cover(5000);
        assert_eq!(gpt.entries()[0].sectors, 4999);
        let hybrid = table(&[(PROTECTIVE, 1, 999), (0x83, 2048, 10)]);
        let mut covered = hybrid.clone();
        covered.cover(5000);
        assert_eq!(covered, hybrid);
    }

    proptest! {
        #[test]
        fn any_sector_is_a_table_or_none(bytes in any::<[u8; 32]>(), sizes in any::<(u64, u32)>()) {
            let mut sector = [0; 512];
            sector[446..478].copy_from_slice(&bytes);
            (sector[446], sector[462]) = (0, 0x80);
            sector[510..].copy_from_slice(&[0x55, 0xaa]);
            let mut mbr = Mbr::parse(&sector).unwrap();
            let before = mbr.entries();
            if let Ok(added) = mbr.add_last(sizes.0, 512, sizes.1.into()) {
                let (start, end) = (u64::from(added.start), u64::from(added.start) + u64::from(added.sectors));
                prop_assert!(end * 512 <= sizes.0.next_multiple_of(512));
                for entry in before {
                    prop_assert!(u64::from(entry.start) + u64::from(entry.sectors) <= start);
                }
            }
        }
    }
}
