//! qcow2 images, read only: what an image service publishes, written to a disk cluster by cluster.
//!
//! ```text
//!   header ─▶ L1 table ─▶ L2 table ─▶ cluster: data | zero | compressed (zlib, zstd) | not there
//! ```
//!
//! Versions 2 and 3. What depends on something outside the file (a backing file, an external data file) or on a key
//! is refused: such an image is not whole. So are sub-clusters, which no published image uses.

use std::io::{self, Read, Seek, SeekFrom};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("this is not a qcow2 image")]
    NotQcow2,
    #[error("qcow2 version {0} is not known; 2 and 3 are")]
    Version(u32),
    #[error("the image needs {0}, which is not in it")]
    NotWhole(&'static str),
    #[error("the image uses {0}, which is not supported")]
    Unsupported(&'static str),
    #[error("the image is damaged: {0}")]
    Damaged(&'static str),
    #[error("read the image")]
    Read(#[from] io::Error),
}

/// An open image.
#[derive(Debug)]
pub struct Image<R> {
    source: R,
    size: u64,
    cluster_bits: u32,
    compression: Compression,
    l1: Vec<u64>,
    /// The L2 table read last, by its place in L1.
    l2: Option<(usize, Vec<u64>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    Zlib,
    Zstd,
}

/// What is at one place of the disk.
#[derive(Debug, PartialEq, Eq)]
pub enum Cluster {
    Zero,
    /// `len` bytes were put at the beginning of the buffer.
    Data {
        len: usize,
    },
}

const MAGIC: u32 = 0x5146_49fb;
/// QEMU's own limit on the L1 table.
const MAX_L1_BYTES: u64 = 32 << 20;
const COPIED: u64 = 1 << 63;
const COMPRESSED: u64 = 1 << 62;
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
const ZERO: u64 = 1;

/// Incompatible features (version 3).
const DIRTY: u64 = 1;
const CORRUPT: u64 = 1 << 1;
const EXTERNAL_DATA: u64 = 1 << 2;
const COMPRESSION_TYPE: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;

impl<R: Read + Seek> Image<R> {
    pub fn open(mut source: R) -> Result<Self, Error> {
        let mut header = [0; 112];
        let have = read_up_to(&mut source, 0, &mut header)?;
        let word =
            |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let long =
            |at: usize| u64::from_be_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        if have < 72 || word(0) != MAGIC {
            return Err(Error::NotQcow2);
        }
        let version = word(4);
        if !(2..=3).contains(&version) {
            return Err(Error::Version(version));
        }
        if version == 3 && have < 104 {
            return Err(Error::Damaged("the header is cut short"));
        }
        if long(8) != 0 {
            return Err(Error::NotWhole("a backing file"));
        }
        if word(32) != 0 {
            return Err(Error::Unsupported("encryption"));
        }
        let compression = match version {
            3 => features(long(72), word(100), header[104])?,
            _ => Compression::Zlib,
        };
        let cluster_bits = word(20);
        if !(9..=21).contains(&cluster_bits) {
            return Err(Error::Damaged("the cluster size is out of range"));
        }
        let size = long(24);
        let mut image = Self {
            source,
            size,
            cluster_bits,
            compression,
            l1: vec![],
            l2: None,
        };
        image.read_l1(word(36), long(40))?;
        Ok(image)
    }

    /// Bytes of the disk that the image describes.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn cluster_size(&self) -> usize {
        1 << self.cluster_bits
    }

    pub fn clusters(&self) -> u64 {
        self.size.div_ceil(self.cluster_size() as u64)
    }

    fn read_l1(&mut self, entries: u32, offset: u64) -> Result<(), Error> {
        let needed = self.clusters().div_ceil(self.entries_per_l2());
        if u64::from(entries) < needed {
            return Err(Error::Damaged("the L1 table is too short for the disk"));
        }
        if needed * 8 > MAX_L1_BYTES {
            return Err(Error::Unsupported(
                "a disk of this size with clusters this small",
            ));
        }
        self.l1 = self.read_table(offset, needed as usize)?;
        Ok(())
    }

    fn entries_per_l2(&self) -> u64 {
        1 << (self.cluster_bits - 3)
    }

    /// Grows with what is really there, not with what the header promises.
    fn read_table(&mut self, offset: u64, entries: usize) -> Result<Vec<u64>, Error> {
        self.source.seek(SeekFrom::Start(offset))?;
        let mut bytes = vec![];
        (&mut self.source)
            .take(entries as u64 * 8)
            .read_to_end(&mut bytes)?;
        if bytes.len() < entries * 8 {
            return Err(Error::Damaged("a table lies beyond the end of the file"));
        }
        let entry = |chunk: &[u8; 8]| u64::from_be_bytes(*chunk);
        Ok(bytes.as_chunks::<8>().0.iter().map(entry).collect())
    }

    /// Reads one cluster; the buffer holds at least a cluster.
    pub fn read(&mut self, cluster: u64, buffer: &mut [u8]) -> Result<Cluster, Error> {
        let start = cluster << self.cluster_bits;
        let len = self
            .size
            .saturating_sub(start)
            .min(self.cluster_size() as u64) as usize;
        let entry = self.l2_entry(cluster)?;
        if entry & COMPRESSED != 0 {
            self.read_compressed(entry & !(COPIED | COMPRESSED), buffer)?;
            return Ok(Cluster::Data { len });
        }
        let offset = entry & OFFSET;
        if entry & ZERO != 0 || offset == 0 {
            return Ok(Cluster::Zero);
        }
        if !offset.is_multiple_of(self.cluster_size() as u64) {
            return Err(Error::Damaged("a cluster does not begin where clusters do"));
        }
        // The last cluster of a file may be cut at the end of the disk.
        let have = read_up_to(&mut self.source, offset, &mut buffer[..len])?;
        if have < len {
            return Err(Error::Damaged("a cluster lies beyond the end of the file"));
        }
        Ok(Cluster::Data { len })
    }

    fn l2_entry(&mut self, cluster: u64) -> Result<u64, Error> {
        let per_l2 = self.entries_per_l2();
        let (table, index) = ((cluster / per_l2) as usize, (cluster % per_l2) as usize);
        let Some(&l1_entry) = self.l1.get(table) else {
            return Ok(0);
        };
        let offset = l1_entry & OFFSET;
        if offset == 0 {
            return Ok(0);
        }
        if self.l2.as_ref().is_none_or(|(read, _)| *read != table) {
            self.l2 = Some((table, self.read_table(offset, per_l2 as usize)?));
        }
        let (_, entries) = self.l2.as_ref().expect("just read");
        Ok(entries[index])
    }

    /// A descriptor: where the data begins, to the byte, and how many 512-byte sectors it touches beyond the first.
    fn read_compressed(&mut self, descriptor: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let bits = 62 - (self.cluster_bits - 8);
        let offset = descriptor & ((1 << bits) - 1);
        let sectors = (descriptor >> bits) + 1;
        let most = sectors * 512 - (offset & 511);
        let mut packed = vec![0; most as usize];
        // The end of the file may come before the end of the last sector.
        let have = read_up_to(&mut self.source, offset, &mut packed)?;
        let cluster = &mut buffer[..1 << self.cluster_bits];
        let unpacked = match self.compression {
            Compression::Zlib => unpack(
                &mut flate2::read::DeflateDecoder::new(&packed[..have]),
                cluster,
            ),
            Compression::Zstd => {
                let decoder = zstd::stream::read::Decoder::new(&packed[..have])?;
                unpack(&mut decoder.single_frame(), cluster)
            }
        };
        unpacked.map_err(|_| Error::Damaged("a compressed cluster cannot be unpacked"))
    }
}

fn features(
    incompatible: u64,
    header_len: u32,
    compression_type: u8,
) -> Result<Compression, Error> {
    if incompatible & EXTERNAL_DATA != 0 {
        return Err(Error::NotWhole("an external data file"));
    }
    if incompatible & EXTENDED_L2 != 0 {
        return Err(Error::Unsupported("sub-clusters"));
    }
    if incompatible & CORRUPT != 0 {
        return Err(Error::Damaged("QEMU has marked it so"));
    }
    // An image that was not closed has stale reference counts, which reading does not need.
    if incompatible & !(DIRTY | COMPRESSION_TYPE) != 0 {
        return Err(Error::Unsupported("a feature that is not known here"));
    }
    match (
        incompatible & COMPRESSION_TYPE != 0 && header_len >= 112,
        compression_type,
    ) {
        (false, _) | (true, 0) => Ok(Compression::Zlib),
        (true, 1) => Ok(Compression::Zstd),
        (true, _) => Err(Error::Unsupported("a compression that is not known here")),
    }
}

fn unpack(from: &mut impl Read, to: &mut [u8]) -> io::Result<()> {
    from.read_exact(to)
}

fn read_up_to(
    source: &mut (impl Read + Seek),
    offset: u64,
    buffer: &mut [u8],
) -> io::Result<usize> {
    source.seek(SeekFrom::Start(offset))?;
    let mut have = 0;
    while have < buffer.len() {
        match source.read(&mut buffer[have..]) {
            Ok(0) => break,
            Ok(more) => have += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn header(version: u32) -> Vec<u8> {
        let mut bytes = vec![0; 112];
        bytes[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&version.to_be_bytes());
        bytes[20..24].copy_from_slice(&16_u32.to_be_bytes());
        bytes[24..32].copy_from_slice(&(1_u64 << 20).to_be_bytes());
        bytes[36..40].copy_from_slice(&1_u32.to_be_bytes());
        bytes[40..48].copy_from_slice(&112_u64.to_be_bytes());
        bytes[100..104].copy_from_slice(&112_u32.to_be_bytes());
        bytes.extend([0; 8]);
        bytes
    }

    #[test]
    fn an_image_without_tables_is_all_zero() {
        let mut image = Image::open(Cursor::new(header(3))).unwrap();
        assert_eq!((image.size(), image.clusters()), (1 << 20, 16));
        assert_eq!(image.read(3, &mut vec![0; 1 << 16]).unwrap(), Cluster::Zero);
    }

    #[test]
    fn what_is_not_whole_or_not_understood_is_refused_in_words() {
        let with = |at: usize, byte: u8| {
            let mut bytes = header(3);
            bytes[at] = byte;
            Image::open(Cursor::new(bytes)).unwrap_err().to_string()
        };
        for (at, byte, said) in [
            (15, 1, "a backing file"),
            (35, 1, "encryption"),
            (79, 4, "external data file"),
            (79, 16, "sub-clusters"),
            (79, 2, "marked it so"),
            (79, 32, "not known here"),
            (7, 9, "version 9"),
            (23, 40, "cluster size"),
            (24, 0x7f, "too short"),
            (0, 0, "not a qcow2 image"),
        ] {
            assert!(with(at, byte).contains(said), "{at}: {}", with(at, byte));
        }
        assert!(matches!(
            Image::open(Cursor::new(b"<html>".to_vec())),
            Err(Error::NotQcow2)
        ));
    }

    proptest! {
        #[test]
        fn any_bytes_behind_a_header_are_data_or_an_error(
            tail in proptest::collection::vec(any::<u8>(), 0..4096),
            changes in proptest::collection::vec((8..120_usize, any::<u8>()), 0..12),
            version in 2..4_u32,
        ) {
            let mut bytes = header(version);
            bytes.extend(tail);
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            if let Ok(mut image) = Image::open(Cursor::new(bytes)) {
                let mut buffer = vec![0; image.cluster_size()];
                for cluster in 0..image.clusters().min(20) {
                    _ = image.read(cluster, &mut buffer);
                }
            }
        }
    }
}
