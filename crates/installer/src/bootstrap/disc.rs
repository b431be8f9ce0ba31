//! The disc that the bootstrap VM is given: the program, the images and the loaders, with no network needed.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use media::{Content, iso};
use model::payload::{Entry, INDEX, Index};
use plan::assets::payload::LABEL;
use sha2::{Digest as _, Sha256};

use crate::dir::{hex, measure};

/// Name on the disc to what is put there.
#[derive(Debug, Clone, Default)]
pub struct Payload {
    files: Vec<(String, From)>,
}

#[derive(Debug, Clone)]
enum From {
    File(PathBuf),
    Text(String),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read {path} for the bootstrap's disc")]
    Read { path: PathBuf, source: io::Error },
    #[error("the bootstrap's disc cannot be made")]
    Layout(#[from] iso::Error),
    #[error("could not write {path}")]
    Write {
        path: PathBuf,
        source: media::WriteError,
    },
    #[error("could not write {path}")]
    Create { path: PathBuf, source: io::Error },
}

impl Payload {
    pub fn add(&mut self, name: &str, file: impl Into<PathBuf>) -> &mut Self {
        self.files.push((name.to_owned(), From::File(file.into())));
        self
    }

    pub fn text(&mut self, name: &str, text: String) -> &mut Self {
        self.files.push((name.to_owned(), From::Text(text)));
        self
    }

    /// The list by which servers of the cluster hand these on to one another.
    fn index(&self) -> Result<Index, Error> {
        let mut index = Index::default();
        for (name, from) in &self.files {
            let (sha256, size) = match from {
                From::File(path) => measure(path).map_err(|source| Error::Read {
                    path: path.clone(),
                    source,
                })?,
                From::Text(text) => (hex(&Sha256::digest(text)), text.len() as u64),
            };
            index.files.push(Entry {
                name: name.clone(),
                sha256,
                size,
            });
        }
        Ok(index)
    }
}

/// Writes the disc, whole or not at all.
pub fn write(payload: &Payload, path: &Path) -> Result<(), Error> {
    let index = payload.index()?;
    let list = serde_json::to_vec_pretty(&index).expect("a list is JSON");
    let mut files = vec![iso::File {
        path: INDEX.into(),
        content: Content::Bytes(list),
    }];
    for ((name, from), entry) in payload.files.iter().zip(&index.files) {
        files.push(iso::File {
            path: name.clone(),
            content: match from {
                From::File(path) => Content::File {
                    token: path.clone(),
                    len: entry.size,
                },
                From::Text(text) => Content::Bytes(text.clone().into_bytes()),
            },
        });
    }
    let layout = iso::Image {
        label: LABEL.into(),
        publisher: "PLINTH".into(),
        files,
        joliet: false,
        boot: iso::Boot::default(),
        // The same files give the same disc.
        modified: 0,
    }
    .layout()?;
    let create = |source| Error::Create {
        path: path.to_owned(),
        source,
    };
    let beside = path.with_extension("new");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&beside).map_err(create)?);
    layout
        .write_to(&mut out, |path| File::open(path))
        .map_err(|source| Error::Write {
            path: path.to_owned(),
            source,
        })?;
    out.into_inner()
        .map_err(|error| create(error.into_error()))?;
    fs::rename(&beside, path).map_err(create)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disc_holds_the_files_by_name_and_is_the_same_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let (program, image) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&program, "program").unwrap();
        fs::write(&image, vec![7; 5000]).unwrap();
        let mut payload = Payload::default();
        payload
            .add("plinth", &program)
            .add("ramdisk/vmlinuz", &image)
            .text("images/os.raw.sha256sum", "sum  os.raw".into());
        let (one, two) = (dir.path().join("1.iso"), dir.path().join("2.iso"));
        write(&payload, &one).unwrap();
        write(&payload, &two).unwrap();
        let bytes = fs::read(&one).unwrap();
        assert_eq!(bytes, fs::read(&two).unwrap());
        assert_eq!(&bytes[0x8028..0x8028 + 6], LABEL.as_bytes());
        let holds = |what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
        assert!(holds(b"program") && holds(b"vmlinuz") && holds(b"sum  os.raw"));
        // What is on it can be handed on by checksum.
        let list = serde_json::to_vec(&payload.index().unwrap()).unwrap();
        let listed = Index::parse(&list).unwrap();
        let names: Vec<_> = listed.files.iter().map(|entry| &entry.name).collect();
        assert_eq!(
            names,
            ["plinth", "ramdisk/vmlinuz", "images/os.raw.sha256sum"]
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named_and_no_disc_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let mut payload = Payload::default();
        payload.add("plinth", dir.path().join("nowhere"));
        let disc = dir.path().join("disc.iso");
        let error = write(&payload, &disc).unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{error}");
        assert!(!disc.exists());
    }
}
