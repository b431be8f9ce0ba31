//! Having UEFI firmware start the installed system: a boot entry of its own, first in order, through efivarfs.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::disk::Target;
use crate::disk::mbr;
use crate::disk::table::{self, Table};
use crate::efi::{self, LoadOption, Partition, PartitionId};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("read the partitions of the installed system")]
    Table(#[from] table::Error),
    #[error("the image has no EFI system partition, and the firmware is UEFI")]
    NoEsp,
    #[error("the EFI system partition has no boot loader; looked for {0}")]
    NoLoader(String),
    #[error("read boot entry {name}")]
    Read { name: String, source: io::Error },
    #[error("write boot entry {name}")]
    Write { name: String, source: io::Error },
    #[error("remove boot entry {name}")]
    Remove { name: String, source: io::Error },
    #[error("the firmware has no number left for a boot entry")]
    Full,
}

/// An EFI system partition: C12A7328-F81F-11D2-BA4B-00A0C93EC93B.
const ESP: Uuid = Uuid::from_u128(0xc12a_7328_f81f_11d2_ba4b_00a0_c93e_c93b);
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// Non-volatile, for boot services, for the running system.
const ATTRIBUTES: [u8; 4] = [7, 0, 0, 0];

/// The EFI system partition of the disk.
pub fn esp(target: &Target) -> Result<Partition, Error> {
    let found = match Table::read(target)? {
        Table::Gpt(gpt) => gpt
            .iter()
            .find(|(_, entry)| entry.partition_type_guid == ESP.to_bytes_le())
            .map(|(number, entry)| Partition {
                number,
                start: entry.starting_lba,
                sectors: entry.ending_lba - entry.starting_lba + 1,
                id: PartitionId::Gpt(Uuid::from_bytes_le(entry.unique_partition_guid)),
            }),
        Table::Mbr(table) => table
            .entries()
            .into_iter()
            .find(|entry| entry.kind == mbr::ESP)
            .map(|entry| Partition {
                number: entry.number,
                start: entry.start.into(),
                sectors: entry.sectors.into(),
                id: PartitionId::Mbr(table.signature()),
            }),
    };
    found.ok_or(Error::NoEsp)
}

/// What to start from an EFI system partition, and what to call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loader {
    /// From the partition's root, with `/`.
    pub file: String,
    pub label: String,
}

/// What we call a system that does not say its own name.
const LABEL: &str = "plinth";

/// Looks where distributions put their loaders: what the loader's own list says, then the usual names.
pub fn loader(root: &Path, arch: &str) -> Result<Loader, Error> {
    let (upper, lower) = match arch {
        "aarch64" => ("AA64", "aa64"),
        _ => ("X64", "x64"),
    };
    let tree = Tree::read(root);
    for vendor in tree.vendors() {
        let list = format!("EFI/{vendor}/BOOT{upper}.CSV");
        if let Some(path) = tree.find(&list)
            && let Ok(bytes) = fs::read(&path)
            && let Some((file, label)) = csv(&bytes)
            && let Some(found) = tree.name(&format!("EFI/{vendor}/{file}"))
        {
            return Ok(Loader { file: found, label });
        }
    }
    for program in [format!("shim{lower}.efi"), format!("grub{lower}.efi")] {
        for vendor in tree.vendors() {
            if let Some(file) = tree.name(&format!("EFI/{vendor}/{program}")) {
                return Ok(Loader {
                    file,
                    label: vendor.clone(),
                });
            }
        }
    }
    let fallback = format!("EFI/BOOT/BOOT{upper}.EFI");
    match tree.name(&fallback) {
        Some(file) => Ok(Loader {
            file,
            label: LABEL.into(),
        }),
        None => Err(Error::NoLoader(format!(
            "EFI/*/BOOT{upper}.CSV, EFI/*/shim{lower}.efi, EFI/*/grub{lower}.efi, {fallback}"
        ))),
    }
}

/// Files of the partition by their names in lower case: FAT does not tell cases apart, and may be mounted either way.
struct Tree {
    root: PathBuf,
    files: BTreeMap<String, String>,
}

impl Tree {
    fn read(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        let names = |dir: &Path| -> Vec<String> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect()
        };
        for efi in names(root)
            .into_iter()
            .filter(|name| name.eq_ignore_ascii_case("EFI"))
        {
            for vendor in names(&root.join(&efi)) {
                for file in names(&root.join(&efi).join(&vendor)) {
                    let path = format!("{efi}/{vendor}/{file}");
                    files.insert(path.to_lowercase(), path);
                }
            }
        }
        Self {
            root: root.to_owned(),
            files,
        }
    }

    /// Folders below EFI but the fallback's, in order.
    fn vendors(&self) -> Vec<String> {
        let mut vendors: Vec<String> = self
            .files
            .values()
            .filter_map(|path| path.split('/').nth(1))
            .filter(|vendor| !vendor.eq_ignore_ascii_case("BOOT"))
            .map(str::to_owned)
            .collect();
        vendors.dedup();
        vendors
    }

    fn name(&self, path: &str) -> Option<String> {
        self.files.get(&path.to_lowercase()).cloned()
    }

    fn find(&self, path: &str) -> Option<PathBuf> {
        Some(self.root.join(self.name(path)?))
    }
}

/// The first line of a shim's list: `shimx64.efi,debian,,This is the boot entry for debian`, in UTF-16.
fn csv(bytes: &[u8]) -> Option<(String, String)> {
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    let text = String::from_utf16(&units).ok()?;
    let line = text.trim_start_matches('\u{feff}').lines().next()?;
    let mut fields = line.split(',').map(str::trim);
    let (file, label) = (fields.next()?, fields.next()?);
    let plain = !file.is_empty() && !file.contains(['/', '\\']) && !label.is_empty();
    plain.then(|| (file.to_owned(), label.to_owned()))
}

/// Makes the entry and puts it first; entries of the same name or for the same file are removed. Says which it is.
pub fn make(variables: &Path, partition: &Partition, loader: &Loader) -> Result<String, Error> {
    let path = efi::path(partition, &format!("/{}", loader.file));
    let option = LoadOption {
        attributes: efi::ACTIVE,
        description: loader.label.clone(),
        path,
        data: vec![],
    };
    let mut taken = vec![];
    let mut order = match read(variables, "BootOrder") {
        Ok(bytes) => efi::decode_order(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => vec![],
        Err(source) => {
            let name = "BootOrder".to_owned();
            return Err(Error::Read { name, source });
        }
    };
    for number in numbers(variables) {
        let name = name(number);
        // What cannot be read or understood is somebody else's.
        let old = read(variables, &name)
            .ok()
            .and_then(|bytes| LoadOption::decode(&bytes).ok());
        let ours =
            old.is_some_and(|old| old.description == option.description || old.path == option.path);
        if ours {
            fs::remove_file(file(variables, &name))
                .map_err(|source| Error::Remove { name, source })?;
            order.retain(|other| *other != number);
        } else {
            taken.push(number);
        }
    }
    let number = (0..=u16::MAX)
        .find(|number| !taken.contains(number))
        .ok_or(Error::Full)?;
    write(variables, &name(number), &option.encode())?;
    order.retain(|other| *other != number);
    order.insert(0, number);
    write(variables, "BootOrder", &efi::encode_order(&order))?;
    Ok(format!(
        "{} starts {} from partition {} as {:?}",
        name(number),
        loader.file,
        partition.number,
        loader.label
    ))
}

fn name(number: u16) -> String {
    format!("Boot{number:04X}")
}

fn file(variables: &Path, name: &str) -> PathBuf {
    variables.join(format!("{name}-{GLOBAL}"))
}

fn numbers(variables: &Path) -> Vec<u16> {
    let entries = fs::read_dir(variables).into_iter().flatten().flatten();
    let mut numbers: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let digits = name
                .strip_prefix("Boot")?
                .strip_suffix(&format!("-{GLOBAL}"))?
                .to_owned();
            (digits.len() == 4).then(|| u16::from_str_radix(&digits, 16).ok())?
        })
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Without the attributes in front.
fn read(variables: &Path, name: &str) -> io::Result<Vec<u8>> {
    let bytes = fs::read(file(variables, name))?;
    Ok(bytes.get(4..).unwrap_or_default().to_vec())
}

/// In one go: each write is a call to the firmware.
fn write(variables: &Path, name: &str, data: &[u8]) -> Result<(), Error> {
    let bytes = [&ATTRIBUTES, data].concat();
    let write = || {
        let mut file = fs::File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(file(variables, name))?;
        let written = file.write(&bytes)?;
        if written == bytes.len() {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::WriteZero))
        }
    };
    write().map_err(|source| Error::Write {
        name: name.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition() -> Partition {
        Partition {
            number: 1,
            start: 2048,
            sectors: 4096,
            id: PartitionId::Gpt(Uuid::from_u128(7)),
        }
    }

    fn loader_of(label: &str) -> Loader {
        Loader {
            file: "EFI/debian/shimx64.efi".into(),
            label: label.into(),
        }
    }

    fn order(dir: &Path) -> Vec<u16> {
        efi::decode_order(&read(dir, "BootOrder").unwrap())
    }

    #[test]
    fn the_new_entry_comes_first_and_replaces_its_forerunners() {
        let dir = tempfile::tempdir().unwrap();
        let other = LoadOption {
            attributes: 1,
            description: "PXE".into(),
            path: vec![0x7f, 0xff, 4, 0],
            data: vec![],
        };
        write(dir.path(), "Boot0000", &other.encode()).unwrap();
        let old = LoadOption {
            description: "debian".into(),
            ..other.clone()
        };
        write(dir.path(), "Boot0003", &old.encode()).unwrap();
        write(dir.path(), "BootOrder", &efi::encode_order(&[0, 3])).unwrap();
        fs::write(file(dir.path(), "Boot0007"), b"rubbish").unwrap();

        make(dir.path(), &partition(), &loader_of("debian")).unwrap();
        assert_eq!(order(dir.path()), [1, 0]);
        assert!(!file(dir.path(), "Boot0003").exists());
        assert!(file(dir.path(), "Boot0007").exists());
        // Once more, under another name: the same file is not listed twice.
        make(dir.path(), &partition(), &loader_of("trixie")).unwrap();
        assert_eq!(order(dir.path()), [1, 0]);
        let entry = LoadOption::decode(&read(dir.path(), "Boot0001").unwrap()).unwrap();
        assert_eq!(entry.description, "trixie");
        assert_eq!(
            fs::read(file(dir.path(), "Boot0001")).unwrap()[..4],
            ATTRIBUTES
        );
    }

    #[test]
    fn firmware_without_any_entry_gets_its_first() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), &partition(), &loader_of("x")).unwrap();
        assert_eq!(order(dir.path()), [0]);
        let error = make(&dir.path().join("none"), &partition(), &loader_of("x")).unwrap_err();
        assert!(matches!(error, Error::Write { .. }), "{error}");
    }

    #[test]
    fn loaders_are_found_where_distributions_put_them() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, bytes: &[u8]| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        assert!(matches!(
            loader(dir.path(), "x86_64"),
            Err(Error::NoLoader(_))
        ));
        put("EFI/BOOT/bootx64.efi", b"");
        let found = |arch: &str| loader(dir.path(), arch).unwrap();
        assert_eq!(found("x86_64").file, "EFI/BOOT/bootx64.efi");
        put("EFI/debian/grubx64.efi", b"");
        assert_eq!(found("x86_64").label, "debian");
        put("EFI/fedora/shimx64.efi", b"");
        assert_eq!(found("x86_64").file, "EFI/fedora/shimx64.efi");
        let line = "\u{feff}shimx64.efi,Fedora,,This is the boot entry for Fedora\n";
        let utf16: Vec<u8> = line.encode_utf16().flat_map(u16::to_le_bytes).collect();
        put("EFI/fedora/BOOTX64.CSV", &utf16);
        assert_eq!(found("x86_64").label, "Fedora");
        assert!(loader(dir.path(), "aarch64").is_err());
    }
}
