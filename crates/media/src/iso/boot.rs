//! El Torito: how the firmware finds what to start (El Torito 1.0; platform 0xEF from UEFI 2.10, 13.3.2.1).

use super::volume::header;
use super::{Error, Image, SECTOR, pad_to_sector};
use crate::layout::Content;

/// Indices of the boot images among the files.
pub struct Found {
    bios: Option<usize>,
    uefi: Option<(usize, u16)>,
}

pub struct Catalog {
    bios: Option<u32>,
    /// First sector, and length in blocks of 512 bytes.
    uefi: Option<(u32, u16)>,
}

const X86: u8 = 0;
const EFI: u8 = 0xEF;
/// BIOSes load four blocks of 512 bytes; the boot image fetches the rest of itself.
const BIOS_BLOCKS: u16 = 4;

pub fn find<T>(image: &Image<T>) -> Result<Option<Found>, Error> {
    let index_of = |path: &String| {
        let found = image.files.iter().position(|file| &file.path == path);
        found.ok_or_else(|| Error::NoBootImage(path.clone()))
    };
    let bios = image.boot.bios.as_ref().map(index_of).transpose()?;
    if let Some(index) = bios {
        let file = &image.files[index];
        match &file.content {
            Content::Bytes(bytes) if bytes.len() >= 64 => {}
            Content::Bytes(_) | Content::File { .. } => {
                return Err(Error::BiosImage(file.path.clone()));
            }
        }
    }
    let uefi = match image.boot.uefi.as_ref() {
        None => None,
        Some(path) => {
            let index = index_of(path)?;
            let len = image.files[index].content.len();
            let blocks = u16::try_from(len.div_ceil(512));
            let path = path.clone();
            Some((index, blocks.map_err(|_| Error::UefiImage { path, len })?))
        }
    };
    Ok((bios.is_some() || uefi.is_some()).then_some(Found { bios, uefi }))
}

impl Found {
    pub fn catalog(&self, file_starts: &[u32]) -> Catalog {
        Catalog {
            bios: self.bios.map(|index| file_starts[index]),
            uefi: self
                .uefi
                .map(|(index, blocks)| (file_starts[index], blocks)),
        }
    }
}

impl Catalog {
    /// Validation entry, default entry, and a section for UEFI when BIOS is the default.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match (self.bios, self.uefi) {
            (Some(bios), None) => {
                out.extend(validation(X86));
                out.extend(entry(bios, BIOS_BLOCKS));
            }
            (None, Some((uefi, blocks))) => {
                out.extend(validation(EFI));
                out.extend(entry(uefi, blocks));
            }
            (Some(bios), Some((uefi, blocks))) => {
                out.extend(validation(X86));
                out.extend(entry(bios, BIOS_BLOCKS));
                // 0x91: the last section header; one entry follows.
                out.extend([0x91, EFI, 1, 0]);
                out.extend([0; 28]);
                out.extend(entry(uefi, blocks));
            }
            (None, None) => {}
        }
        pad_to_sector(&mut out);
        out
    }
}

fn validation(platform: u8) -> [u8; 32] {
    let mut out = [0; 32];
    out[0] = 1;
    out[1] = platform;
    out[30] = 0x55;
    out[31] = 0xAA;
    let words = out.as_chunks::<2>().0.iter();
    let sum = words.fold(0u16, |sum, word| {
        sum.wrapping_add(u16::from_le_bytes(*word))
    });
    out[28..30].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
    out
}

/// Bootable, no emulation, default load segment.
fn entry(sector: u32, blocks: u16) -> [u8; 32] {
    let mut out = [0; 32];
    out[0] = 0x88;
    out[6..8].copy_from_slice(&blocks.to_le_bytes());
    out[8..12].copy_from_slice(&sector.to_le_bytes());
    out
}

/// The boot record volume descriptor, which points at the catalog.
pub fn record(catalog: u32) -> Vec<u8> {
    let mut out = header(0);
    out.extend(b"EL TORITO SPECIFICATION");
    out.resize(0x47, 0);
    out.extend(catalog.to_le_bytes());
    out.resize(SECTOR as usize, 0);
    out
}

/// The boot information table at byte 8: where the volume descriptor and this file are, how long it is, and the
/// sum of its words from byte 64 on. GRUB and isolinux load themselves by it.
pub fn with_info_table(mut image: Vec<u8>, start: u32) -> Vec<u8> {
    let len = image.len() as u32;
    let words = image[64..].chunks(4);
    let sum = words.fold(0u32, |sum, word| {
        let mut full = [0; 4];
        full[..word.len()].copy_from_slice(word);
        sum.wrapping_add(u32::from_le_bytes(full))
    });
    for (field, at) in [16, start, len, sum].into_iter().zip([8, 12, 16, 20]) {
        image[at..at + 4].copy_from_slice(&field.to_le_bytes());
    }
    image[24..64].fill(0);
    image
}
