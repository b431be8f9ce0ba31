//! What an image is, by its first bytes: never by its name, and not by what someone says alone.

use std::fmt;

use super::decompress::Compression;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The bytes of the disk as they are.
    Raw,
    Qcow2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the image is empty")]
    Empty,
    #[error("the image is a web page: the server answered with text instead of the image")]
    WebPage,
    #[error("the image is {0}, which cannot be written; convert it to raw or qcow2")]
    Unsupported(&'static str),
    #[error("the image is still {0} data after unpacking: it was packed twice")]
    PackedTwice(Compression),
    #[error("the image was declared {declared} but is {found}")]
    Declared { declared: Format, found: Format },
}

/// As many first bytes as there are, up to this many, tell all formats apart.
pub const HEAD: usize = 1024;

/// Foreign formats that would pass as raw and leave a disk that does not boot.
const FOREIGN: [(usize, &[u8], &str); 8] = [
    (0, b"KDMV", "a VMware disk (vmdk)"),
    (0, b"# Disk DescriptorFile", "a VMware disk (vmdk)"),
    (0, b"vhdxfile", "a Hyper-V disk (vhdx)"),
    (0, b"conectix", "a Hyper-V disk (vhd)"),
    (0, b"QED\0", "a QEMU disk (qed)"),
    (64, &[0x7f, 0x10, 0xda, 0xbe], "a VirtualBox disk (vdi)"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (257, b"ustar", "a tar archive"),
];

/// The format of an image that begins with `head`.
pub fn detect(head: &[u8], declared: Option<Format>) -> Result<Format, Error> {
    if head.is_empty() {
        return Err(Error::Empty);
    }
    if is_web_page(head) {
        return Err(Error::WebPage);
    }
    for (at, magic, name) in FOREIGN {
        if head.get(at..).is_some_and(|rest| rest.starts_with(magic)) {
            return Err(Error::Unsupported(name));
        }
    }
    match Compression::detect(head) {
        Compression::None => {}
        again @ (Compression::Gzip | Compression::Xz | Compression::Zstd) => {
            return Err(Error::PackedTwice(again));
        }
    }
    let found = if head.starts_with(b"QFI\xfb") {
        Format::Qcow2
    } else {
        Format::Raw
    };
    match declared {
        Some(declared) if declared != found => Err(Error::Declared { declared, found }),
        Some(_) | None => Ok(found),
    }
}

fn is_web_page(head: &[u8]) -> bool {
    let text = head
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(head)
        .trim_ascii_start();
    [&b"<!doctype"[..], b"<html", b"<head", b"<body", b"<?xml"]
        .iter()
        .any(|tag| {
            text.get(..tag.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(tag))
        })
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_decide() {
        let tar = [vec![b'a'; 257], b"ustar\0".to_vec()].concat();
        let declared = |declared, found| Err(Error::Declared { declared, found });
        for (head, said, answer) in [
            (&b"\xebc\x90 boot code"[..], None, Ok(Format::Raw)),
            (&[0; 64], Some(Format::Raw), Ok(Format::Raw)),
            (b"QFI\xfb\0\0\0\x03", None, Ok(Format::Qcow2)),
            (b"QFI\xfb\0\0\0\x03", Some(Format::Qcow2), Ok(Format::Qcow2)),
            (
                b"QFI\xfb\0\0\0\x03",
                Some(Format::Raw),
                declared(Format::Raw, Format::Qcow2),
            ),
            (
                b"\xebc\x90",
                Some(Format::Qcow2),
                declared(Format::Qcow2, Format::Raw),
            ),
            (b"", None, Err(Error::Empty)),
            (b"<html>", None, Err(Error::WebPage)),
            (
                b"\xef\xbb\xbf \r\n<!DOCTYPE html>",
                Some(Format::Raw),
                Err(Error::WebPage),
            ),
            (
                b"KDMV\x01",
                None,
                Err(Error::Unsupported("a VMware disk (vmdk)")),
            ),
            (&tar, None, Err(Error::Unsupported("a tar archive"))),
            (
                b"\x1f\x8b\x08\0",
                None,
                Err(Error::PackedTwice(Compression::Gzip)),
            ),
        ] {
            assert_eq!(detect(head, said), answer, "{head:?}");
        }
    }
}
