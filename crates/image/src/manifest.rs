//! What a build holds: `manifest.json` beside it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Error;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// `ramdisk-lab`, `ramdisk-metal` or `os`.
    pub kind: String,
    pub kernel_version: String,
    pub files: Vec<Item>,
    /// Installed packages with their versions, where the build has them.
    pub packages: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub name: String,
    pub size: u64,
    pub sha256: String,
}

const NAME: &str = "manifest.json";

impl Manifest {
    pub(crate) fn write(
        dir: &Path,
        kind: &str,
        kernel_version: &str,
        files: &[&str],
        packages: Vec<String>,
    ) -> Result<(), Error> {
        let files = files
            .iter()
            .map(|name| Item::of(dir, name))
            .collect::<Result<_, _>>()?;
        let manifest = Self {
            kind: kind.to_owned(),
            kernel_version: kernel_version.to_owned(),
            files,
            packages,
        };
        let text =
            serde_json::to_string_pretty(&manifest).expect("a manifest has only string keys");
        let path = dir.join(NAME);
        fs::write(&path, text).map_err(Error::file("writing", &path))
    }

    pub(crate) fn read(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(NAME);
        let text = fs::read(&path).map_err(Error::file("reading", &path))?;
        serde_json::from_slice(&text).map_err(|source| Error::Manifest { path, source })
    }

    pub fn file(&self, name: &str) -> Option<&Item> {
        self.files.iter().find(|item| item.name == name)
    }
}

impl Item {
    fn of(dir: &Path, name: &str) -> Result<Self, Error> {
        let path = dir.join(name);
        let (size, sha256) = hash(&path)?;
        let name = name.to_owned();
        Ok(Self { name, size, sha256 })
    }
}

/// Size and SHA-256 of a file.
pub fn hash(path: &Path) -> Result<(u64, String), Error> {
    struct Sink(Sha256);
    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut file = File::open(path).map_err(Error::file("opening", path))?;
    let mut reader = io::BufReader::with_capacity(1 << 20, &mut file);
    let mut sink = Sink(Sha256::new());
    let size = io::copy(&mut reader, &mut sink).map_err(Error::file("reading", path))?;
    Ok((size, hex(&sink.0.finalize())))
}

pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}
