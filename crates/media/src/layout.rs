//! Which bytes of an image lie where.

use std::io::{self, Read, Write};

/// What a file in an image holds: bytes known now, or something the caller can open later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content<T> {
    Bytes(Vec<u8>),
    /// `token` means something to the caller only: a path, an URL, an index.
    File {
        token: T,
        len: u64,
    },
}

impl<T> Content<T> {
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A run of an image that has one source. What no extent covers is zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent<T> {
    pub offset: u64,
    pub content: Content<T>,
}

/// A whole image: extents in order of offset, never overlapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout<T> {
    extents: Vec<Extent<T>>,
    len: u64,
}

/// A part of a range of the image, in order, with no gap between one piece and the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a, T> {
    Bytes(&'a [u8]),
    Zeros(u64),
    File { token: &'a T, offset: u64, len: u64 },
}

impl<T> Piece<'_, T> {
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(len) | Self::File { len, .. } => *len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("opening the file for bytes {offset}.. of the image")]
    Open { offset: u64, source: io::Error },
    #[error("reading the file for bytes {offset}.. of the image")]
    Read { offset: u64, source: io::Error },
    #[error(
        "the file for bytes {offset}.. of the image has {found} bytes, the layout says {expected}"
    )]
    Length {
        offset: u64,
        expected: u64,
        found: u64,
    },
    #[error("writing the image")]
    Write(#[source] io::Error),
}

impl<T> Layout<T> {
    /// Callers in this crate place extents in order; a wrong order is a bug here, not bad input.
    pub(crate) fn new(mut extents: Vec<Extent<T>>, len: u64) -> Self {
        extents.retain(|extent| !extent.content.is_empty());
        let mut end = 0;
        for extent in &extents {
            assert!(extent.offset >= end, "extents overlap at {}", extent.offset);
            end = extent.offset + extent.content.len();
        }
        assert!(end <= len, "extents end at {end}, after the image's {len}");
        Self { extents, len }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn extents(&self) -> &[Extent<T>] {
        &self.extents
    }

    /// What lies in `offset..offset + len`, cut off at the image's end.
    pub fn pieces(&self, offset: u64, len: u64) -> Vec<Piece<'_, T>> {
        let end = offset.saturating_add(len).min(self.len);
        let mut at = offset;
        let mut pieces = Vec::new();
        let first = self
            .extents
            .partition_point(|extent| extent.offset + extent.content.len() <= offset);
        for extent in &self.extents[first..] {
            if at >= end || extent.offset >= end {
                break;
            }
            if extent.offset > at {
                pieces.push(Piece::Zeros(extent.offset - at));
                at = extent.offset;
            }
            let skip = at - extent.offset;
            let take = (extent.content.len() - skip).min(end - at);
            pieces.push(match &extent.content {
                Content::Bytes(bytes) => {
                    Piece::Bytes(&bytes[skip as usize..(skip + take) as usize])
                }
                Content::File { token, .. } => Piece::File {
                    token,
                    offset: skip,
                    len: take,
                },
            });
            at += take;
        }
        if at < end {
            pieces.push(Piece::Zeros(end - at));
        }
        pieces
    }

    /// Writes the whole image; `open` is asked once for each file.
    pub fn write_to<W: Write, R: Read>(
        &self,
        writer: &mut W,
        mut open: impl FnMut(&T) -> io::Result<R>,
    ) -> Result<(), WriteError> {
        let mut at = 0;
        for extent in &self.extents {
            let offset = extent.offset;
            write_zeros(writer, offset - at)?;
            match &extent.content {
                Content::Bytes(bytes) => writer.write_all(bytes).map_err(WriteError::Write)?,
                Content::File { token, len } => {
                    let mut file =
                        open(token).map_err(|source| WriteError::Open { offset, source })?;
                    copy_exactly(&mut file, writer, offset, *len)?;
                }
            }
            at = offset + extent.content.len();
        }
        write_zeros(writer, self.len - at)
    }
}

fn write_zeros<W: Write>(writer: &mut W, len: u64) -> Result<(), WriteError> {
    io::copy(&mut io::repeat(0).take(len), writer)
        .map(|_| ())
        .map_err(WriteError::Write)
}

fn copy_exactly<R: Read, W: Write>(
    file: &mut R,
    writer: &mut W,
    offset: u64,
    expected: u64,
) -> Result<(), WriteError> {
    let mut buffer = vec![0; 1 << 20];
    let mut found = 0;
    loop {
        let n = match file.read(&mut buffer) {
            Ok(0) if found == expected => return Ok(()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(WriteError::Read { offset, source }),
        };
        found += n as u64;
        if n == 0 || found > expected {
            return Err(WriteError::Length {
                offset,
                expected,
                found,
            });
        }
        writer.write_all(&buffer[..n]).map_err(WriteError::Write)?;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout() -> Layout<&'static str> {
        let file = |token, len| Content::File { token, len };
        Layout::new(
            vec![
                Extent {
                    offset: 3,
                    content: Content::Bytes(b"abc".to_vec()),
                },
                Extent {
                    offset: 6,
                    content: file("defgh", 5),
                },
                Extent {
                    offset: 20,
                    content: file("", 0),
                },
                Extent {
                    offset: 20,
                    content: Content::Bytes(b"z".to_vec()),
                },
            ],
            24,
        )
    }

    fn whole() -> Vec<u8> {
        let mut out = Vec::new();
        layout()
            .write_to(&mut out, |token| Ok(token.as_bytes()))
            .unwrap();
        out
    }

    #[test]
    fn written_image_has_the_extents_in_place_and_zeros_between() {
        assert_eq!(whole(), b"\0\0\0abcdefgh\0\0\0\0\0\0\0\0\0z\0\0\0");
    }

    #[test]
    fn file_that_shrank_or_grew_is_an_error() {
        for wrong in ["defg", "defghi"] {
            let result = layout().write_to(&mut Vec::new(), |_| Ok(wrong.as_bytes()));
            assert!(
                matches!(result, Err(WriteError::Length { expected: 5, .. })),
                "{wrong}"
            );
        }
    }

    proptest! {
        #[test]
        fn pieces_of_any_range_equal_the_written_bytes(offset in 0u64..30, len in 0u64..30) {
            let layout = layout();
            let mut bytes = Vec::new();
            for piece in layout.pieces(offset, len) {
                prop_assert!(!piece.is_empty());
                match piece {
                    Piece::Bytes(b) => bytes.extend_from_slice(b),
                    Piece::Zeros(n) => bytes.resize(bytes.len() + n as usize, 0),
                    Piece::File { token, offset, len } =>
                        bytes.extend_from_slice(&token.as_bytes()[offset as usize..(offset + len) as usize]),
                }
            }
            let whole = whole();
            let start = (offset as usize).min(whole.len());
            let end = ((offset + len) as usize).min(whole.len());
            prop_assert_eq!(&bytes[..], &whole[start..end]);
        }
    }
}
