//! The pipeline as a whole, on disks in memory that fail on demand.

use std::io::{self, Read, Write};
use std::sync::LazyLock;

use proptest::prelude::*;

use super::aligned::BLOCK;
use super::checksum::{Algorithm, Hasher};
use super::{
    Checksum, Compression, Error, Format, Options, Phase, Progress, Source, Spool, Store, Written,
    write_image,
};

/// A disk that held something else before.
struct Memory {
    bytes: Vec<u8>,
    steps: usize,
    fail: Option<Fault>,
}

#[derive(Debug, Clone, Copy)]
struct Fault {
    at: usize,
    /// Otherwise only this once.
    forever: bool,
}

const OLD: u8 = 0xaa;

fn disk(len: usize) -> Memory {
    Memory {
        bytes: vec![OLD; len],
        steps: 0,
        fail: None,
    }
}

impl Memory {
    fn step(&mut self) -> io::Result<()> {
        let now = self.steps;
        self.steps += 1;
        match self.fail {
            Some(fault) if now == fault.at || (fault.forever && now > fault.at) => {
                Err(io::Error::other("no spare sectors left"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The half of a failing write arrives.
    fn put(&mut self, offset: u64, len: usize, fill: impl Fn(&mut [u8], usize)) -> io::Result<()> {
        let result = self.step();
        let arrives = if result.is_ok() { len } else { len / 2 };
        let start = offset as usize;
        fill(&mut self.bytes[start..start + arrives], arrives);
        result
    }

    fn ends_are_zero(&self) -> bool {
        let end = self.bytes.len() - BLOCK;
        self.first_is_zero() && self.bytes[end..].iter().all(|byte| *byte == 0)
    }

    fn first_is_zero(&self) -> bool {
        self.bytes[..BLOCK].iter().all(|byte| *byte == 0)
    }
}

impl Store for Memory {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.put(offset, data.len(), |to, len| {
            to.copy_from_slice(&data[..len]);
        })
    }

    fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.put(offset, len as usize, |to, _| to.fill(0))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.step()
    }
}

/// Gives its bytes in uneven pieces, then fails.
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(70_001);
        match self.0.read(&mut buffer[..most])? {
            0 => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
            some => Ok(some),
        }
    }
}

fn sum(bytes: &[u8]) -> Checksum {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(bytes);
    hasher.finish()
}

/// Data, holes, and a block that is zero only in part.
fn image(len: usize) -> Vec<u8> {
    static LONGEST: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let byte = |at: usize| match at / 700_000 % 3 {
            1 => 0,
            _ => (at % 251) as u8 | 1,
        };
        (0..7 * BLOCK).map(byte).collect()
    });
    LONGEST[..len].to_vec()
}

fn write(bytes: &[u8], to: &mut Memory, options: &Options) -> Result<Written, Error> {
    write_image(
        Source::Stream(&mut &bytes[..]),
        to,
        options,
        None,
        &mut |_| (),
    )
}

fn said(result: Result<Written, Error>) -> String {
    model::chain(&result.unwrap_err())
}

#[test]
fn the_disk_begins_with_the_image_whatever_its_length() {
    for len in [
        1,
        511,
        512,
        BLOCK - 1,
        BLOCK,
        BLOCK + 1,
        3 * BLOCK + 77,
        6 * BLOCK,
        6 * BLOCK + 5000,
    ] {
        let bytes = image(len);
        let mut disk = disk(6 * BLOCK + 5000);
        let options = Options {
            length: Some(len as u64),
            checksum: Some(sum(&bytes)),
            ..Options::default()
        };
        let written = write(&bytes, &mut disk, &options).unwrap();
        assert_eq!(
            (written.bytes, written.transferred),
            (len as u64, len as u64)
        );
        assert_eq!(
            (written.format, written.compression),
            (Format::Raw, Compression::None)
        );
        assert!(disk.bytes[..len] == bytes, "{len}");
    }
}

#[test]
fn an_image_of_zeros_leaves_a_disk_of_zeros() {
    let mut disk = disk(8 * BLOCK);
    write(&vec![0; 8 * BLOCK], &mut disk, &Options::default()).unwrap();
    assert!(disk.bytes.iter().all(|byte| *byte == 0));
}

#[test]
fn every_fault_of_an_image_is_named_and_leaves_a_disk_that_does_not_boot() {
    let bytes = image(3 * BLOCK + 10);
    let packed = zstd::stream::encode_all(&bytes[..], 1).unwrap();
    let length = |length| Options {
        length: Some(length),
        ..Options::default()
    };
    let declared = |format| Options {
        format: Some(format),
        ..Options::default()
    };
    let other = Options {
        checksum: Some(sum(b"something else")),
        ..Options::default()
    };
    let len = bytes.len() as u64;
    let garbled = {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        encoder.write_all(&bytes).unwrap();
        let mut garbled = encoder.finish().unwrap();
        let middle = garbled.len() / 2;
        garbled[middle..middle + 20].fill(0x55);
        garbled
    };
    for (bytes, options, words) in [
        (
            &bytes[..],
            length(len + 1),
            "ended after 3145738 of 3145739 bytes",
        ),
        (
            &bytes,
            length(len - 1),
            "goes on after the expected 3145737 bytes",
        ),
        (&bytes, other.clone(), "but sha256:"),
        (&packed, other, "was expected"),
        (
            &packed[..packed.len() - 9],
            Options::default(),
            "zstd data cannot be unpacked",
        ),
        (&garbled, Options::default(), "gzip data cannot be unpacked"),
        (b"", Options::default(), "is empty"),
        (b"<html>404</html>", Options::default(), "web page"),
        (&bytes, declared(Format::Qcow2), "declared qcow2 but is raw"),
        (
            b"QFI\xfb",
            declared(Format::Raw),
            "declared raw but is qcow2",
        ),
        (b"QFI\xfb", Options::default(), "no spool file"),
        (
            &image(4 * BLOCK + 1),
            Options::default(),
            "the disk has 4194304",
        ),
        (
            &image(4 * BLOCK + 1),
            length(4 * BLOCK as u64 + 1),
            "needs at least 4194305 bytes",
        ),
    ] {
        let mut disk = disk(4 * BLOCK);
        let error = said(write(bytes, &mut disk, &options));
        assert!(error.contains(words), "{error}");
        assert!(disk.ends_are_zero(), "{error}");
    }
}

#[test]
fn an_image_known_to_be_too_large_is_refused_before_it_is_read() {
    let mut read = 0;
    let mut disk = disk(4 * BLOCK);
    let options = Options {
        length: Some(1 << 40),
        ..Options::default()
    };
    let mut source = io::repeat(7).take(1 << 40);
    let result = write_image(
        Source::Stream(&mut source),
        &mut disk,
        &options,
        None,
        &mut |seen| {
            read = seen.bytes;
        },
    );
    assert!(said(result).contains("the disk has 4194304"));
    assert_eq!(read, 0);
}

#[test]
fn a_bomb_stops_where_the_disk_ends() {
    let bomb = zstd::stream::encode_all(io::repeat(0).take(300 << 20), 1).unwrap();
    let error = said(write(&bomb, &mut disk(4 * BLOCK), &Options::default()));
    assert!(error.contains("needs at least 5242880 bytes"), "{error}");
}

#[test]
fn a_spool_that_is_too_small_says_so() {
    let qcow2 = [b"QFI\xfb".to_vec(), vec![0; 5000]].concat();
    let spool = Spool {
        file: tempfile::tempfile().unwrap(),
        limit: 5000,
    };
    let mut disk = disk(4 * BLOCK);
    let mut source = &qcow2[..];
    let result = write_image(
        Source::Stream(&mut source),
        &mut disk,
        &Options::default(),
        Some(spool),
        &mut |_| (),
    );
    assert!(said(result).contains("larger than the 5000 bytes"));
}

#[test]
fn progress_rises_to_the_total() {
    let bytes = image(5 * BLOCK);
    let options = Options {
        length: Some(bytes.len() as u64),
        ..Options::default()
    };
    let mut seen: Vec<Progress> = vec![];
    write_image(
        Source::Stream(&mut &bytes[..]),
        &mut disk(8 * BLOCK),
        &options,
        None,
        &mut |p| seen.push(p),
    )
    .unwrap();
    assert!(seen.is_sorted_by_key(|progress| progress.bytes));
    let last = seen.last().unwrap();
    assert_eq!((last.phase, last.percent()), (Phase::Write, Some(100)));
    assert!(last.mb_per_s() > 0.0);
}

/// How many things are done to the disk when nothing fails.
fn steps(bytes: &[u8], len: usize) -> usize {
    let mut disk = disk(len);
    write(bytes, &mut disk, &Options::default()).unwrap();
    disk.steps
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_failing_source_leaves_zeros_at_both_ends(len in 0..6 * BLOCK, packed in any::<bool>()) {
        let mut bytes = image(6 * BLOCK);
        if packed {
            bytes = zstd::stream::encode_all(&bytes[..], 1).unwrap();
        }
        let mut disk = disk(6 * BLOCK);
        let len = len % bytes.len();
        let result = write_image(
            Source::Stream(&mut Failing(&bytes[..len])), &mut disk, &Options::default(), None, &mut |_| (),
        );
        let error = said(result);
        prop_assert!(error.contains(&format!("failed after {len} bytes")), "{error}");
        prop_assert!(disk.ends_are_zero());
    }

    #[test]
    fn a_failing_disk_is_left_with_zeros_at_its_beginning(
        len in 1..6 * BLOCK, at in 0..1000_usize, forever in any::<bool>(),
    ) {
        let bytes = image(len);
        let steps = steps(&bytes, 6 * BLOCK);
        let fault = Fault { at: at % steps, forever };
        let mut disk = disk(6 * BLOCK);
        disk.fail = Some(fault);
        let error = write(&bytes, &mut disk, &Options::default()).unwrap_err();
        let unwiped = matches!(error, Error::Wipe { .. });
        if !forever {
            prop_assert!(!unwiped);
            prop_assert!(disk.ends_are_zero());
            return Ok(());
        }
        // A disk that takes nothing any more cannot be wiped, and the error says so. Only its first operation and
        // its last two (the first MiB, and the flush after it) can then leave anything else than zeros.
        prop_assert!(unwiped);
        if fault.at > 0 && fault.at < steps - 2 {
            prop_assert!(disk.first_is_zero());
        }
    }
}
