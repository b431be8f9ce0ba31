//! ISO 9660 images with Rock Ridge and Joliet names and El Torito boot entries (ECMA-119, IEEE P1282, Joliet
//! specification, El Torito 1.0), computed as a [`Layout`].
//!
//! ```text
//! sector 16  primary volume descriptor
//!        17  boot record            (only if bootable)
//!        18  Joliet descriptor      (only if asked for)
//!        19  terminator
//!        ..  path tables, boot catalog, directories
//!        ..  files, each from a sector of its own
//! ```
//!
//! The same input gives the same bytes: the time is an argument, and directories are sorted.

mod boot;
mod find;
mod names;
mod record;
mod tree;
mod volume;

use crate::layout::{Content, Extent, Layout};
use tree::Tree;

pub use find::{FindError, Found, find};

pub(crate) const SECTOR: u64 = 2048;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image<T> {
    /// Up to 16 characters with Joliet, 32 without. Case is kept: `config-2` stays `config-2`.
    pub label: String,
    /// Ironic puts a UUID here and repeats it on the kernel line.
    pub publisher: String,
    pub files: Vec<File<T>>,
    pub joliet: bool,
    pub boot: Boot,
    /// Seconds since 1970 for every date in the image.
    pub modified: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File<T> {
    /// With `/` between its parts; directories come from these paths.
    pub path: String,
    pub content: Content<T>,
}

/// Which of the image's files the firmware starts, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Boot {
    /// A no-emulation boot image with a place for the boot information table (`isolinux.bin`, GRUB's
    /// `i386-pc-eltorito`). Its content must be given as bytes, for the table holds a checksum of it.
    pub bios: Option<String>,
    /// A FAT image holding `EFI/BOOT/BOOTX64.EFI`.
    pub uefi: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("volume label {label:?} is not 1 to {limit} printable ASCII characters")]
    Label { label: String, limit: usize },
    #[error("publisher {0:?} is not up to 128 printable ASCII characters")]
    Publisher(String),
    #[error(
        "{path}: the name {name:?} is not allowed in an ISO image (empty, a dot name, or a control character)"
    )]
    Name { path: String, name: String },
    #[error("{path}: the name {name:?} is longer than {limit} characters")]
    NameTooLong {
        path: String,
        name: String,
        limit: usize,
    },
    #[error("{path}: more than {} directories deep", tree::DEPTH)]
    TooDeep { path: String },
    #[error("{path}: is in the image twice, or is both a file and a directory")]
    Twice { path: String },
    #[error("{path}: {len} bytes; ISO 9660 holds files of less than 4 GiB")]
    TooLarge { path: String, len: u64 },
    #[error("{0} directories; the path table holds 65535")]
    TooManyDirectories(usize),
    #[error("the image would be larger than 8 TiB")]
    ImageTooLarge,
    #[error("boot image {0} is not among the files")]
    NoBootImage(String),
    #[error("BIOS boot image {0} must be given as bytes of at least 64")]
    BiosImage(String),
    #[error(
        "UEFI boot image {path}: {len} bytes; El Torito counts up to 65535 blocks of 512 bytes"
    )]
    UefiImage { path: String, len: u64 },
}

impl<T> Image<T> {
    pub fn layout(self) -> Result<Layout<T>, Error> {
        volume::check_names(&self.label, &self.publisher, self.joliet)?;
        let mut tree = Tree::build(&self.files, self.joliet)?;
        let plan = Plan::place(&self, &mut tree)?;
        let mut extents = vec![Extent {
            offset: 16 * SECTOR,
            content: Content::Bytes(plan.metadata(&self, &tree)),
        }];
        let Self { files, boot, .. } = self;
        for (index, file) in files.into_iter().enumerate() {
            let start = plan.file_starts[index];
            let content = match file.content {
                Content::Bytes(bytes) if Some(&file.path) == boot.bios.as_ref() => {
                    Content::Bytes(boot::with_info_table(bytes, start))
                }
                content @ (Content::Bytes(_) | Content::File { .. }) => content,
            };
            extents.push(Extent {
                offset: u64::from(start) * SECTOR,
                content,
            });
        }
        Ok(Layout::new(extents, u64::from(plan.sectors) * SECTOR))
    }
}

/// Boot loaders read a CD in large steps through the BIOS and do not know its end; a step beyond it fails as a whole
/// (GRUB then hands the kernel a damaged initrd). Other writers leave the same 300 KiB.
const READ_AHEAD: u64 = 150;

/// Where everything lies, in sectors.
struct Plan {
    path_tables: [PathTable; 2],
    catalog: Option<boot::Catalog>,
    catalog_at: u32,
    files_at: u32,
    file_starts: Vec<u32>,
    sectors: u32,
}

/// One name space's path tables: little-endian at `at`, big-endian `sectors` later.
#[derive(Clone, Copy, Default)]
pub(crate) struct PathTable {
    pub at: u32,
    pub len: u32,
    pub sectors: u32,
}

/// The two name spaces of an image: every directory is written once for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    /// ISO 9660 names with Rock Ridge beside them.
    Primary,
    Joliet,
}

impl Space {
    fn all(joliet: bool) -> &'static [Self] {
        if joliet {
            &[Self::Primary, Self::Joliet]
        } else {
            &[Self::Primary]
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Primary => 0,
            Self::Joliet => 1,
        }
    }
}

impl Plan {
    fn place<T>(image: &Image<T>, tree: &mut Tree) -> Result<Self, Error> {
        let boot_files = boot::find(image)?;
        let descriptors = 2 + u64::from(boot_files.is_some()) + u64::from(image.joliet);
        let mut at = 16 + descriptors;
        let mut path_tables = [PathTable::default(); 2];
        for &space in Space::all(image.joliet) {
            let len = tree.path_table_len(space);
            let sectors = len.div_ceil(SECTOR);
            path_tables[space.index()] = PathTable {
                at: at as u32,
                len: len as u32,
                sectors: sectors as u32,
            };
            at += 2 * sectors;
        }
        let catalog_at = at as u32;
        at += u64::from(boot_files.is_some());
        for &space in Space::all(image.joliet) {
            at = tree.place_directories(space, at);
        }
        let files_at = u32::try_from(at).map_err(|_| Error::ImageTooLarge)?;
        let mut file_starts = Vec::new();
        for file in &image.files {
            file_starts.push(u32::try_from(at).map_err(|_| Error::ImageTooLarge)?);
            at += file.content.len().div_ceil(SECTOR);
        }
        tree.place_files(&file_starts);
        let catalog = boot_files.map(|found| found.catalog(&file_starts));
        if catalog.is_some() {
            at += READ_AHEAD;
        }
        let sectors = u32::try_from(at).map_err(|_| Error::ImageTooLarge)?;
        Ok(Self {
            path_tables,
            catalog,
            catalog_at,
            files_at,
            file_starts,
            sectors,
        })
    }

    /// Everything from sector 16 up to the first file.
    fn metadata<T>(&self, image: &Image<T>, tree: &Tree) -> Vec<u8> {
        let mut out = Vec::new();
        let describe = |space: Space| volume::Descriptor {
            space,
            label: &image.label,
            publisher: &image.publisher,
            sectors: self.sectors,
            path_table: self.path_tables[space.index()],
            root: tree.root_record(space, image.modified),
            modified: image.modified,
        };
        out.extend(describe(Space::Primary).encode());
        if self.catalog.is_some() {
            out.extend(boot::record(self.catalog_at));
        }
        if image.joliet {
            out.extend(describe(Space::Joliet).encode());
        }
        out.extend(volume::terminator());
        for &space in Space::all(image.joliet) {
            out.extend(tree.path_table(space, record::Endian::Little));
            out.extend(tree.path_table(space, record::Endian::Big));
        }
        if let Some(catalog) = &self.catalog {
            out.extend(catalog.encode());
        }
        for &space in Space::all(image.joliet) {
            out.extend(tree.directories(space, image.modified));
        }
        assert_eq!(
            out.len() as u64,
            (u64::from(self.files_at) - 16) * SECTOR,
            "metadata fills the sectors planned for it"
        );
        out
    }
}

pub(crate) fn pad_to_sector(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(SECTOR as usize), 0);
}

#[cfg(test)]
mod tests;
