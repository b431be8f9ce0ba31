//! Putting an image on a disk: the whole pipeline, composed.
//!
//! ```text
//!   source ─▶ limit ─▶ hash ─▶ decompress ─▶ format? ─▶ raw ──────────────────▶ blocks ─▶ writer
//!                                                └────▶ qcow2 ─▶ spool file ──────┘
//! ```
//!
//! A qcow2 image is read at many places, so it must lie in a file: the source itself, or the caller's spool.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::time::{Duration, Instant};

use media::qcow2::{self, Image};

use super::aligned::Block;
use super::checksum::Checksum;
use super::content::{self, Content, Piece, Unpacked};
use super::decompress::{Compression, Decoder};
use super::format::{self, Format};
use super::hashed::Hashed;
use super::limit::{self, Limited};
use super::peek::peek;
use super::spool::{self, Spool};
use super::target::Store;
use super::writer::{self, Writer};

/// Where the image comes from.
pub enum Source<'a> {
    /// Read once, from its beginning.
    Stream(&'a mut dyn Read),
    /// A qcow2 image in a file is verified first, then read in place.
    File(File),
}

/// What is known of the image beforehand.
#[derive(Debug, Default, Clone)]
pub struct Options {
    /// Bytes to be transferred.
    pub length: Option<u64>,
    /// Of the bytes as transferred.
    pub checksum: Option<Checksum>,
    /// Told by the contents if not named.
    pub compression: Option<Compression>,
    /// What the contents must turn out to be.
    pub format: Option<Format>,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub phase: Phase,
    pub bytes: u64,
    pub total: Option<u64>,
    /// Since this phase began.
    pub elapsed: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Bytes of the source, on their way to a spool file or only to be verified.
    Fetch,
    /// Bytes of the source if it is written while it is read, of the disk otherwise.
    Write,
}

/// What is on the disk now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The size of the disk that the image describes.
    pub bytes: u64,
    pub transferred: u64,
    pub compression: Compression,
    pub format: Format,
    pub elapsed: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the image did not arrive whole")]
    Transfer(#[source] limit::Error),
    #[error("the image's {compression} data cannot be unpacked")]
    Decompress {
        compression: Compression,
        source: io::Error,
    },
    #[error("the image cannot be used")]
    Format(#[from] format::Error),
    #[error("the image's checksum is {got}, but {expected} was expected")]
    Checksum { expected: Checksum, got: Checksum },
    #[error("keep the image in a file before writing it")]
    Spool(#[from] spool::Error),
    #[error("a qcow2 image cannot be written while it streams, and there is no spool file")]
    NoSpool,
    #[error("read the qcow2 image")]
    Qcow2(#[source] qcow2::Error),
    #[error("read the image file")]
    ReadFile(#[source] io::Error),
    #[error(transparent)]
    Write(#[from] writer::Error),
    #[error(
        "the disk may still boot what is on it, for it could not be wiped ({wipe}) after this failed"
    )]
    Wipe { wipe: String, source: Box<Error> },
}

/// Writes the image; the disk boots only if this succeeds, for otherwise its ends are zeros.
pub fn write_image<S: Store>(
    source: Source<'_>,
    target: &mut S,
    options: &Options,
    spool: Option<Spool>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Written, Error> {
    let started = Instant::now();
    let result = match source {
        Source::Stream(stream) => from_stream(stream, target, options, spool, progress),
        Source::File(file) => from_file(file, target, options, spool, progress),
    };
    match result {
        Ok(written) => Ok(Written {
            elapsed: started.elapsed(),
            ..written
        }),
        Err(why) => match writer::wipe_ends(target) {
            Ok(()) => Err(why),
            Err(wipe) => Err(Error::Wipe {
                wipe: model::chain(&wipe),
                source: Box::new(why),
            }),
        },
    }
}

fn from_file<S: Store>(
    mut file: File,
    target: &mut S,
    options: &Options,
    spool: Option<Spool>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Written, Error> {
    let (head, _) = peek(&mut file, format::HEAD).map_err(Error::ReadFile)?;
    file.rewind().map_err(Error::ReadFile)?;
    let plain = Compression::None;
    let is_qcow2 = matches!(format::detect(&head, options.format), Ok(Format::Qcow2))
        && options.compression.is_none_or(|named| named == plain);
    if !is_qcow2 {
        return from_stream(&mut file, target, options, spool, progress);
    }
    let count = Cell::new(0);
    let algorithm = options.checksum.as_ref().map(Checksum::algorithm);
    let mut hashed = Hashed::new(Limited::new(&mut file, options.length), algorithm, &count);
    let mut meter = Meter::new(Phase::Fetch, options.length, progress);
    let mut block = vec![0; 1 << 20];
    while hashed
        .read(&mut block)
        .map_err(|error| read_error(error, plain))?
        > 0
    {
        meter.show(count.get());
    }
    verify(hashed, options)?;
    let bytes = write_qcow2(file, target, progress)?;
    Ok(Written {
        bytes,
        transferred: count.get(),
        compression: plain,
        format: Format::Qcow2,
        elapsed: Duration::ZERO,
    })
}

fn from_stream<S: Store>(
    stream: &mut dyn Read,
    target: &mut S,
    options: &Options,
    spool: Option<Spool>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Written, Error> {
    // First of all: whatever goes wrong from here on, the old contents do not boot half overwritten.
    let mut writer = Writer::begin(target)?;
    let count = Cell::new(0);
    let algorithm = options.checksum.as_ref().map(Checksum::algorithm);
    let mut hashed = Hashed::new(Limited::new(stream, options.length), algorithm, &count);
    let named = options.compression.unwrap_or(Compression::None);
    let decoder = Decoder::open(&mut hashed, options.compression)
        .map_err(|error| read_error(error, named))?;
    let compression = decoder.compression();
    let unreadable = |error| read_error(error, compression);
    let (head, mut image) = peek(decoder, format::HEAD).map_err(unreadable)?;
    let format = format::detect(&head, options.format)?;
    let bytes = match format {
        Format::Raw => {
            if let (Compression::None, Some(length)) = (compression, options.length) {
                writer.make_room(length)?;
            }
            let mut meter = Meter::new(Phase::Write, options.length, progress);
            let mut content = Content::Stream(image);
            copy(&mut content, &mut writer, compression, |_| {
                meter.show(count.get());
            })?;
            drop(content);
            verify(hashed, options)?;
            writer.finish()?
        }
        Format::Qcow2 => {
            let spool = spool.ok_or(Error::NoSpool)?;
            let mut meter = Meter::new(Phase::Fetch, options.length, progress);
            let file = spool
                .fill(&mut image, |_| meter.show(count.get()))
                .map_err(|error| match error {
                    spool::Error::Read(source) => unreadable(source),
                    spool::Error::TooLarge { .. } | spool::Error::Write(_) => Error::Spool(error),
                })?;
            drop(image);
            verify(hashed, options)?;
            drop(writer);
            write_qcow2(file, target, progress)?
        }
    };
    Ok(Written {
        bytes,
        transferred: count.get(),
        compression,
        format,
        elapsed: Duration::ZERO,
    })
}

/// The file has been verified already.
fn write_qcow2<S: Store>(
    file: File,
    target: &mut S,
    progress: &mut dyn FnMut(Progress),
) -> Result<u64, Error> {
    let mut writer = Writer::begin(target)?;
    let image = Image::open(file).map_err(Error::Qcow2)?;
    writer.make_room(image.size())?;
    let mut meter = Meter::new(Phase::Write, Some(image.size()), progress);
    let mut content = Content::<io::Empty>::Qcow2(Unpacked::new(image));
    copy(&mut content, &mut writer, Compression::None, |bytes| {
        meter.show(bytes);
    })?;
    Ok(writer.finish()?)
}

fn copy<R: Read, S: Store>(
    content: &mut Content<R>,
    writer: &mut Writer<'_, S>,
    compression: Compression,
    mut show: impl FnMut(u64),
) -> Result<(), Error> {
    let mut block = Block::new();
    let mut done = 0;
    loop {
        let piece = content
            .next(block.bytes_mut())
            .map_err(|error| match error {
                content::Error::Stream(error) => read_error(error, compression),
                content::Error::Qcow2(error) => Error::Qcow2(error),
            })?;
        let len = match piece {
            Piece::Data { len } => {
                writer.data(&mut block, len)?;
                len
            }
            Piece::Zeros { len } => {
                writer.zeros(len)?;
                len
            }
            Piece::End => return Ok(()),
        };
        done += len as u64;
        show(done);
    }
}

fn verify<R: Read>(hashed: Hashed<'_, R>, options: &Options) -> Result<(), Error> {
    let got = hashed
        .finish()
        .map_err(|error| read_error(error, Compression::None))?;
    match (got, &options.checksum) {
        (Some(got), Some(expected)) if got != *expected => Err(Error::Checksum {
            expected: expected.clone(),
            got,
        }),
        _ => Ok(()),
    }
}

/// What is not the source's own error is the unpacker's.
fn read_error(error: io::Error, compression: Compression) -> Error {
    match limit::Error::of(error) {
        Ok(error) => Error::Transfer(error),
        Err(source) => Error::Decompress {
            compression,
            source,
        },
    }
}

struct Meter<'a> {
    phase: Phase,
    total: Option<u64>,
    started: Instant,
    progress: &'a mut dyn FnMut(Progress),
}

impl<'a> Meter<'a> {
    fn new(phase: Phase, total: Option<u64>, progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self {
            phase,
            total,
            started: Instant::now(),
            progress,
        }
    }

    fn show(&mut self, bytes: u64) {
        (self.progress)(Progress {
            phase: self.phase,
            bytes,
            total: self.total,
            elapsed: self.started.elapsed(),
        });
    }
}

impl Progress {
    pub fn percent(&self) -> Option<u8> {
        let total = self.total.filter(|total| *total > 0)?;
        Some((u128::from(self.bytes) * 100 / u128::from(total)).min(100) as u8)
    }

    /// Millions of bytes a second.
    pub fn mb_per_s(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 {
            self.bytes as f64 / 1e6 / seconds
        } else {
            0.0
        }
    }
}
