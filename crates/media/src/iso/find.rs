//! Finds one file in an ISO 9660 image, by its Rock Ridge name, or its plain one.

use std::io;

use super::SECTOR;

/// Where a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub offset: u64,
    pub len: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("it is not an ISO 9660 image")]
    NotIso,
    #[error("{0:?} is not in the image")]
    Missing(String),
    #[error("directory {0:?} has {1} bytes, more than any boot CD needs")]
    TooLarge(String, u64),
    #[error("reading the image")]
    Read(#[from] io::Error),
}

/// A directory larger than this is not looked through.
const LARGEST: u64 = 1 << 20;
/// Before a record's name (ECMA-119, 9.1).
const HEAD: usize = 33;
const DIRECTORY: u8 = 2;

/// Looks for a path such as `boot/grub/grub.cfg`; `read` fills a buffer from an offset of the image.
pub fn find(
    path: &str,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> Result<Found, FindError> {
    let mut volume = [0; SECTOR as usize];
    read(16 * SECTOR, &mut volume)?;
    if volume[..6] != *b"\x01CD001" {
        return Err(FindError::NotIso);
    }
    let mut at = Record::parse(&volume[156..190]).ok_or(FindError::NotIso)?;
    let missing = || FindError::Missing(path.to_owned());
    for name in path.split('/').filter(|name| !name.is_empty()) {
        if !at.directory {
            return Err(missing());
        }
        if at.place.len > LARGEST {
            return Err(FindError::TooLarge(path.to_owned(), at.place.len));
        }
        let mut directory = vec![0; at.place.len as usize];
        read(at.place.offset, &mut directory)?;
        at = records(&directory)
            .find(|record| record.is_called(name))
            .ok_or_else(missing)?;
    }
    if at.directory {
        return Err(missing());
    }
    Ok(at.place)
}

struct Record {
    name: Vec<u8>,
    long_name: Option<Vec<u8>>,
    directory: bool,
    place: Found,
}

impl Record {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let four = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(u64::from(u32::from_le_bytes(four)))
        };
        let name = usize::from(*bytes.get(32)?);
        let system_use = HEAD + name + usize::from(name.is_multiple_of(2));
        Some(Self {
            name: bytes.get(HEAD..HEAD + name)?.to_vec(),
            long_name: bytes.get(system_use..).and_then(rock_ridge_name),
            directory: bytes.get(25)? & DIRECTORY != 0,
            place: Found {
                offset: number(2)? * SECTOR,
                len: number(10)?,
            },
        })
    }

    fn is_called(&self, name: &str) -> bool {
        if let Some(long) = &self.long_name {
            return long == name.as_bytes();
        }
        let plain = self.name.split(|byte| *byte == b';').next();
        plain
            .unwrap_or_default()
            .eq_ignore_ascii_case(name.as_bytes())
    }
}

/// A directory's records; they do not cross sectors, and the rest of a sector is zeros.
fn records(directory: &[u8]) -> impl Iterator<Item = Record> {
    directory.chunks(SECTOR as usize).flat_map(|sector| {
        let mut rest = sector;
        std::iter::from_fn(move || {
            let length = usize::from(*rest.first()?);
            if length <= HEAD || length > rest.len() {
                return None;
            }
            let (record, after) = rest.split_at(length);
            rest = after;
            Record::parse(record)
        })
    })
}

/// The name in the NM fields (IEEE P1282, 4.1.4), which may come in parts.
fn rock_ridge_name(mut fields: &[u8]) -> Option<Vec<u8>> {
    let mut name: Option<Vec<u8>> = None;
    while let [a, b, length, _, rest @ ..] = fields {
        let length = usize::from(*length);
        if length < 4 || length > fields.len() {
            break;
        }
        if (*a, *b) == (b'N', b'M') && length > 5 {
            let part = &rest[1..length - 4];
            name.get_or_insert_default().extend_from_slice(part);
        }
        fields = &fields[length..];
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Content, iso};

    fn image() -> Vec<u8> {
        let file = |path: &str, text: &str| iso::File {
            path: path.into(),
            content: Content::Bytes(text.as_bytes().to_vec()),
        };
        let layout = iso::Image::<()> {
            label: "config-2".into(),
            publisher: String::new(),
            files: vec![
                file("boot/grub/grub.cfg", "linux /vmlinuz 'a=b'"),
                file("openstack/latest/network_data.json", "{}"),
            ],
            joliet: true,
            boot: iso::Boot::default(),
            modified: 0,
        }
        .layout()
        .unwrap();
        let mut bytes = Vec::new();
        layout
            .write_to(&mut bytes, |()| Ok(std::io::empty()))
            .unwrap();
        bytes
    }

    fn reader(image: &[u8]) -> impl FnMut(u64, &mut [u8]) -> io::Result<()> {
        |offset, buffer| {
            let from = usize::try_from(offset).unwrap_or(usize::MAX);
            let end = from.saturating_add(buffer.len());
            let part = image
                .get(from..end)
                .ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?;
            buffer.copy_from_slice(part);
            Ok(())
        }
    }

    #[test]
    fn files_of_our_own_images_are_found_by_their_long_names() {
        let image = image();
        for (path, text) in [
            ("boot/grub/grub.cfg", "linux /vmlinuz 'a=b'"),
            ("openstack/latest/network_data.json", "{}"),
        ] {
            let found = find(path, reader(&image)).unwrap();
            let at = found.offset as usize;
            assert_eq!(&image[at..at + found.len as usize], text.as_bytes());
        }
        for path in ["boot", "boot/grub/grub.cfg/x", "nothing", ""] {
            assert!(
                matches!(find(path, reader(&image)), Err(FindError::Missing(_))),
                "{path}"
            );
        }
        assert!(matches!(
            find("a", reader(&vec![0; 40000])),
            Err(FindError::NotIso)
        ));
    }

    proptest! {
        #[test]
        fn a_damaged_image_gives_an_error_or_a_place(at in 32768usize..60000, bytes in proptest::collection::vec(any::<u8>(), 1..64)) {
            let mut image = image();
            for (index, byte) in bytes.iter().enumerate() {
                if let Some(place) = image.get_mut(at + index) {
                    *place = *byte;
                }
            }
            _ = find("boot/grub/grub.cfg", reader(&image));
        }
    }
}
