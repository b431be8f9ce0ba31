//! FAT12 and FAT16 images with long names, for EFI system partitions and config drives (Microsoft's FAT
//! specification 1.03; long names as in its section 7).
//!
//! ```text
//! | boot sector | FAT | FAT | root directory (512 entries) | clusters 2, 3, 4 ... |
//! ```
//!
//! Files lie in one run of clusters each, in sorted order; the same input gives the same bytes.

mod name;

use std::collections::{BTreeMap, BTreeSet};

use crate::date::date;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Up to 11 characters; FAT knows upper case only.
    pub label: String,
    pub volume_id: u32,
    pub files: Vec<File>,
    /// Bytes of the whole image; without it, just large enough.
    pub size: Option<u64>,
    /// Seconds since 1970 for every date.
    pub modified: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub data: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("volume label {0:?} is not 1 to 11 letters, digits, blanks, `-` or `_`")]
    Label(String),
    #[error("{path}: the name {name:?} is not allowed on FAT")]
    Name { path: String, name: String },
    #[error(
        "{path}: is in the image twice (FAT does not tell upper from lower case), or is both a file and a directory"
    )]
    Twice { path: String },
    #[error("the root directory holds at most {} entries", ROOT_ENTRIES)]
    RootFull,
    #[error("the files need {needed} bytes, the image may have {size}")]
    TooSmall { needed: u64, size: u64 },
    #[error("{0} bytes are more than FAT16 can hold (2 GiB)")]
    TooLarge(u64),
}

const SECTOR: usize = 512;
const ROOT_ENTRIES: usize = 512;
const ROOT_SECTORS: usize = ROOT_ENTRIES * 32 / SECTOR;
/// Fewer clusters make it FAT12, by definition.
const FAT16_FROM: usize = 4085;
const FAT16_BELOW: usize = 65525;

const ARCHIVE: u8 = 0x20;
const DIRECTORY: u8 = 0x10;
const VOLUME_LABEL: u8 = 0x08;

enum Node {
    Dir(BTreeMap<String, Node>),
    File(usize),
}

impl Image {
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let label = name::label(&self.label).ok_or_else(|| Error::Label(self.label.clone()))?;
        let tree = self.tree()?;
        let geometry = Geometry::choose(self.size, |cluster_bytes| {
            self.clusters(&tree, cluster_bytes)
        })?;
        let mut writer = Writer {
            image: self,
            cluster_bytes: geometry.sectors_per_cluster * SECTOR,
            fat: vec![0xFFF8, 0xFFFF],
            clusters: Vec::new(),
        };
        let label_entry = writer.entry(&label, VOLUME_LABEL, 0, 0);
        let mut root = label_entry.to_vec();
        root.extend(writer.directory(&tree, None));
        if root.len() > ROOT_ENTRIES * 32 {
            return Err(Error::RootFull);
        }
        root.resize(ROOT_SECTORS * SECTOR, 0);
        let mut out = geometry.boot_sector(self.volume_id, &label);
        let table = geometry.encode_fat(&writer.fat);
        out.extend(&table);
        out.extend(&table);
        out.extend(root);
        out.extend(&writer.clusters);
        out.resize(geometry.sectors * SECTOR, 0);
        Ok(out)
    }

    fn tree(&self) -> Result<BTreeMap<String, Node>, Error> {
        let mut root: BTreeMap<String, Node> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (index, file) in self.files.iter().enumerate() {
            let path = &file.path;
            let twice = || Error::Twice { path: path.clone() };
            if !seen.insert(path.to_uppercase()) {
                return Err(twice());
            }
            let parts: Vec<&str> = path.split('/').collect();
            if let Some(bad) = parts.iter().find(|part| !name::allowed(part)) {
                let name = (*bad).to_owned();
                return Err(Error::Name {
                    path: path.clone(),
                    name,
                });
            }
            let (last, dirs) = parts.split_last().expect("split gives at least one part");
            let mut here = &mut root;
            for dir in dirs {
                let same = here
                    .keys()
                    .find(|key| key.eq_ignore_ascii_case(dir))
                    .cloned();
                let key = same.unwrap_or_else(|| (*dir).to_owned());
                here = match here
                    .entry(key)
                    .or_insert_with(|| Node::Dir(BTreeMap::new()))
                {
                    Node::Dir(below) => below,
                    Node::File(_) => return Err(twice()),
                };
            }
            if here.keys().any(|key| key.eq_ignore_ascii_case(last)) {
                return Err(twice());
            }
            here.insert((*last).to_owned(), Node::File(index));
        }
        Ok(root)
    }

    /// How many clusters everything below the root takes.
    fn clusters(&self, dir: &BTreeMap<String, Node>, cluster_bytes: usize) -> usize {
        let each = dir.values().map(|node| match node {
            Node::File(index) => self.files[*index].data.len().div_ceil(cluster_bytes),
            Node::Dir(below) => {
                let entries: usize = 2 + below
                    .keys()
                    .map(|name| name::entries_at_most(name))
                    .sum::<usize>();
                (entries * 32).div_ceil(cluster_bytes) + self.clusters(below, cluster_bytes)
            }
        });
        each.sum()
    }
}

struct Geometry {
    sectors: usize,
    sectors_per_cluster: usize,
    sectors_per_fat: usize,
    clusters: usize,
}

impl Geometry {
    fn choose(size: Option<u64>, clusters_needed: impl Fn(usize) -> usize) -> Result<Self, Error> {
        let mut bytes = 0;
        for sectors_per_cluster in [4, 8, 16, 32, 64] {
            let needed = clusters_needed(sectors_per_cluster * SECTOR);
            let smallest =
                1 + ROOT_SECTORS + 2 * fat_sectors(needed) + needed.max(1) * sectors_per_cluster;
            // A whole number of 2 KiB blocks lies well on a CD.
            let smallest = smallest.next_multiple_of(4) + 4;
            bytes = size.unwrap_or(0).max((smallest * SECTOR) as u64);
            if let Some(size) = size
                && bytes > size
            {
                let needed = bytes;
                return Err(Error::TooSmall { needed, size });
            }
            let sectors = (bytes / SECTOR as u64) as usize;
            let at_most = (sectors - 1 - ROOT_SECTORS) / sectors_per_cluster;
            let sectors_per_fat = fat_sectors(at_most);
            let clusters = (sectors - 1 - ROOT_SECTORS - 2 * sectors_per_fat) / sectors_per_cluster;
            if clusters < FAT16_BELOW && clusters >= needed {
                return Ok(Self {
                    sectors,
                    sectors_per_cluster,
                    sectors_per_fat,
                    clusters,
                });
            }
        }
        Err(Error::TooLarge(bytes))
    }

    fn is_fat16(&self) -> bool {
        self.clusters >= FAT16_FROM
    }

    fn boot_sector(&self, volume_id: u32, label: &[u8; 11]) -> Vec<u8> {
        let mut out = vec![0xEB, 0x3C, 0x90];
        out.extend(b"PLINTH  ");
        out.extend((SECTOR as u16).to_le_bytes());
        out.push(self.sectors_per_cluster as u8);
        out.extend(1u16.to_le_bytes());
        out.push(2);
        out.extend((ROOT_ENTRIES as u16).to_le_bytes());
        let small = u16::try_from(self.sectors).unwrap_or(0);
        out.extend(small.to_le_bytes());
        out.push(0xF8);
        out.extend((self.sectors_per_fat as u16).to_le_bytes());
        // Sectors per track and heads: what BIOSes assume of small disks. Hidden sectors: none.
        out.extend(32u16.to_le_bytes());
        out.extend(64u16.to_le_bytes());
        out.extend(0u32.to_le_bytes());
        let large = if small == 0 { self.sectors as u32 } else { 0 };
        out.extend(large.to_le_bytes());
        out.extend([0x80, 0, 0x29]);
        out.extend(volume_id.to_le_bytes());
        out.extend(label);
        out.extend(if self.is_fat16() {
            b"FAT16   "
        } else {
            b"FAT12   "
        });
        out.resize(510, 0);
        out.extend([0x55, 0xAA]);
        out
    }

    fn encode_fat(&self, entries: &[u16]) -> Vec<u8> {
        let mut out = Vec::new();
        if self.is_fat16() {
            out.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
        } else {
            // Two entries of 12 bits in three bytes, the low one first.
            for pair in entries.chunks(2) {
                let low = u32::from(pair[0]) & 0xFFF;
                let high = u32::from(pair.get(1).copied().unwrap_or(0)) & 0xFFF;
                out.extend(&(low | high << 12).to_le_bytes()[..3]);
            }
        }
        out.resize(self.sectors_per_fat * SECTOR, 0);
        out
    }
}

/// Enough for FAT12 and FAT16 alike.
fn fat_sectors(clusters: usize) -> usize {
    ((clusters + 2) * 2).div_ceil(SECTOR)
}

struct Writer<'a> {
    image: &'a Image,
    cluster_bytes: usize,
    fat: Vec<u16>,
    clusters: Vec<u8>,
}

impl Writer<'_> {
    /// Entries of a directory, its files and sub-directories written on the way. `parent` is this directory's
    /// own first cluster and its parent's (0 for the root); the root itself has no dot entries.
    fn directory(&mut self, dir: &BTreeMap<String, Node>, own: Option<(u16, u16)>) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some((own, parent)) = own {
            out.extend(self.entry(b".          ", DIRECTORY, own, 0));
            out.extend(self.entry(b"..         ", DIRECTORY, parent, 0));
        }
        let mut taken = BTreeSet::new();
        for (long, node) in dir {
            let short = name::short(long, &mut taken);
            out.extend(name::long_entries(long, &short));
            match node {
                Node::File(index) => {
                    let data = &self.image.files[*index].data;
                    let first = self.allocate(data.len());
                    self.fill(first, data);
                    out.extend(self.entry(&short, ARCHIVE, first, data.len() as u32));
                }
                Node::Dir(below) => {
                    let entries: usize = 2 + below
                        .keys()
                        .map(|name| name::entries_at_most(name))
                        .sum::<usize>();
                    let first = self.allocate(entries * 32);
                    let content =
                        self.directory(below, Some((first, own.map_or(0, |(own, _)| own))));
                    self.fill(first, &content);
                    out.extend(self.entry(&short, DIRECTORY, first, 0));
                }
            }
        }
        out
    }

    /// The first of a run of clusters for so many bytes; 0 for none.
    fn allocate(&mut self, len: usize) -> u16 {
        let count = len.div_ceil(self.cluster_bytes);
        if count == 0 {
            return 0;
        }
        let first = self.fat.len() as u16;
        for next in 1..count {
            self.fat.push(first + next as u16);
        }
        self.fat.push(0xFFFF);
        self.clusters
            .resize((self.fat.len() - 2) * self.cluster_bytes, 0);
        first
    }

    fn fill(&mut self, first: u16, data: &[u8]) {
        if first >= 2 {
            let at = (usize::from(first) - 2) * self.cluster_bytes;
            self.clusters[at..at + data.len()].copy_from_slice(data);
        }
    }

    fn entry(&self, short: &[u8; 11], attributes: u8, cluster: u16, len: u32) -> [u8; 32] {
        let d = date(self.image.modified);
        // The year counts from 1980 in seven bits.
        let year = d.year.clamp(1980, 2107) - 1980;
        let day = ((year << 9) | (d.month << 5) | d.day) as u16;
        let time = ((d.hour << 11) | (d.minute << 5) | (d.second / 2)) as u16;
        let mut out = [0; 32];
        out[..11].copy_from_slice(short);
        out[11] = attributes;
        out[14..16].copy_from_slice(&time.to_le_bytes());
        out[16..18].copy_from_slice(&day.to_le_bytes());
        out[18..20].copy_from_slice(&day.to_le_bytes());
        out[22..24].copy_from_slice(&time.to_le_bytes());
        out[24..26].copy_from_slice(&day.to_le_bytes());
        out[26..28].copy_from_slice(&cluster.to_le_bytes());
        out[28..].copy_from_slice(&len.to_le_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(paths: &[&str]) -> Image {
        let file = |path: &&str| File {
            path: (*path).into(),
            data: b"data".to_vec(),
        };
        Image {
            label: "CONFIG-2".into(),
            volume_id: 1,
            files: paths.iter().map(file).collect(),
            size: None,
            modified: 1_794_735_533,
        }
    }

    #[test]
    fn names_that_differ_only_in_case_are_refused() {
        for paths in [["a", "A"], ["a/b", "A/B"], ["a", "A/b"]] {
            assert!(
                matches!(image(&paths).encode(), Err(Error::Twice { .. })),
                "{paths:?}"
            );
        }
    }

    #[test]
    fn image_grows_to_the_size_asked_for_and_no_further() {
        let mut config = image(&["openstack/latest/user_data"]);
        config.size = Some(64 << 20);
        assert_eq!(config.encode().unwrap().len(), 64 << 20);
        config.files[0].data = vec![0; 64 << 20];
        assert!(matches!(config.encode(), Err(Error::TooSmall { .. })));
    }

    #[test]
    fn more_than_fat16_holds_is_refused() {
        let mut config = image(&["a"]);
        config.size = Some(3 << 30);
        assert!(matches!(config.encode(), Err(Error::TooLarge(_))));
    }

    #[test]
    fn same_input_gives_the_same_bytes() {
        let one = image(&["EFI/BOOT/BOOTX64.EFI", "a long name.txt"]);
        assert_eq!(one.encode(), one.encode());
    }
}
