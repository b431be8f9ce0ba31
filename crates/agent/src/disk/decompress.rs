//! Unpacking while reading: gzip, xz and zstd, named by the caller or known by their first bytes.

use std::fmt;
use std::io::{self, Read};

use super::peek::{Peeked, peek};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
}

/// Packed bytes in, unpacked bytes out.
pub enum Decoder<R: Read> {
    Plain(Peeked<R>),
    Gzip(Box<flate2::bufread::MultiGzDecoder<Peeked<R>>>),
    Xz(Box<liblzma::bufread::XzDecoder<Peeked<R>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, Peeked<R>>>),
}

/// `xz -9` needs 65 MiB; an archive that asks for more would take the ramdisk's memory.
const XZ_MEMORY: u64 = 256 << 20;

impl<R: Read> Decoder<R> {
    /// Without a named compression the first bytes decide.
    pub fn open(source: R, named: Option<Compression>) -> io::Result<Self> {
        let (head, source) = peek(source, 8)?;
        Ok(match named.unwrap_or_else(|| Compression::detect(&head)) {
            Compression::None => Self::Plain(source),
            Compression::Gzip => Self::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(source))),
            Compression::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(
                    XZ_MEMORY,
                    liblzma::stream::CONCATENATED,
                )?;
                Self::Xz(Box::new(liblzma::bufread::XzDecoder::new_stream(
                    source, stream,
                )))
            }
            Compression::Zstd => {
                Self::Zstd(Box::new(zstd::stream::read::Decoder::with_buffer(source)?))
            }
        })
    }

    pub fn compression(&self) -> Compression {
        match self {
            Self::Plain(_) => Compression::None,
            Self::Gzip(_) => Compression::Gzip,
            Self::Xz(_) => Compression::Xz,
            Self::Zstd(_) => Compression::Zstd,
        }
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(source) => source.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Xz(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

impl Compression {
    pub fn detect(head: &[u8]) -> Self {
        if head.starts_with(&[0x1f, 0x8b, 8]) {
            Self::Gzip
        } else if head.starts_with(b"\xfd7zXZ\0") {
            Self::Xz
        } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Self::Zstd
        } else {
            Self::None
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::limit;
    use proptest::prelude::*;
    use std::io::Write;

    fn packed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        match compression {
            Compression::None => bytes.to_vec(),
            Compression::Gzip => {
                let mut encoder =
                    flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Xz => {
                let mut encoder = liblzma::write::XzEncoder::new(vec![], 1);
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zstd => zstd::stream::encode_all(bytes, 1).unwrap(),
        }
    }

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = vec![];
        Decoder::open(bytes, None)?.read_to_end(&mut all)?;
        Ok(all)
    }

    const PACKED: [Compression; 3] = [Compression::Gzip, Compression::Xz, Compression::Zstd];

    #[test]
    fn each_compression_is_known_by_its_first_bytes() {
        for compression in [
            Compression::None,
            Compression::Gzip,
            Compression::Xz,
            Compression::Zstd,
        ] {
            let bytes = packed(compression, b"an image");
            assert_eq!(
                Decoder::open(&bytes[..], None).unwrap().compression(),
                compression
            );
            assert_eq!(unpacked(&bytes).unwrap(), b"an image");
        }
    }

    #[test]
    fn parts_packed_one_after_the_other_are_one_image() {
        for compression in PACKED {
            let mut bytes = packed(compression, b"first, ");
            bytes.extend(packed(compression, b"second"));
            assert_eq!(unpacked(&bytes).unwrap(), b"first, second", "{compression}");
        }
    }

    #[test]
    fn packed_data_that_ends_early_is_an_error_at_every_length() {
        for compression in PACKED {
            let bytes = packed(compression, b"an image of some length, some length");
            for end in 8..bytes.len() {
                assert!(
                    unpacked(&bytes[..end]).is_err(),
                    "{compression} cut at {end}"
                );
            }
        }
    }

    #[test]
    fn named_compression_that_is_not_there_is_an_error() {
        for compression in PACKED {
            let decoder = Decoder::open(&b"just text, long enough"[..], Some(compression));
            assert!(
                decoder
                    .and_then(|mut d| d.read_to_end(&mut vec![]))
                    .is_err(),
                "{compression}"
            );
        }
    }

    #[test]
    fn a_failing_source_is_told_apart_from_bad_data() {
        for compression in PACKED {
            let bytes = packed(compression, &vec![7; 100_000]);
            let expected = bytes.len() as u64;
            for have in 0..bytes.len() {
                let source = limit::Limited::new(&bytes[..have], Some(expected));
                let error = Decoder::open(source, None)
                    .and_then(|mut decoder| decoder.read_to_end(&mut vec![]))
                    .unwrap_err();
                let error = limit::Error::of(error)
                    .unwrap_or_else(|e| panic!("{compression} at {have}: {e}"));
                assert!(matches!(error, limit::Error::Short { .. }), "{compression}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_unpack_or_fail(
            magic in prop_oneof![Just(&b""[..]), Just(&b"\x1f\x8b\x08"[..]), Just(&b"\xfd7zXZ\0"[..]), Just(&b"\x28\xb5\x2f\xfd"[..])],
            tail in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let bytes = [magic, &tail].concat();
            if let Ok(decoder) = Decoder::open(&bytes[..], None) {
                let _ = decoder.take(1 << 20).read_to_end(&mut vec![]);
            }
        }
    }
}
