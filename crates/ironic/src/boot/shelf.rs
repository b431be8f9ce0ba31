//! The files that boot clients may fetch, and nothing else.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use super::media::Disc;

/// A directory of loaders, and files made on the fly that take precedence over it.
#[derive(Debug, Clone)]
pub struct Shelf {
    root: PathBuf,
    made: Arc<RwLock<BTreeMap<String, Arc<[u8]>>>>,
}

/// An open file: its size does not change while it is read.
#[derive(Debug)]
pub enum Item {
    Made(Arc<[u8]>),
    File { file: File, size: u64 },
    Disc(Arc<Disc>),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not a file here")]
    NotFound(String),
    #[error("{0:?} leads out of the boot directory")]
    Outside(String),
    #[error("read {0:?}")]
    Read(String, #[source] io::Error),
}

impl Shelf {
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            made: Arc::default(),
        }
    }

    /// Offers bytes under a name.
    pub fn put(&self, name: &str, bytes: impl Into<Arc<[u8]>>) {
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        made.insert(name.to_string(), bytes.into());
    }

    pub fn remove(&self, name: &str) {
        self.made
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    /// Opens what a client asked for. Names may begin with a slash; they may not leave the directory.
    pub fn open(&self, asked: &str) -> Result<Item, Error> {
        let name = clean(asked)?;
        let made = self
            .made
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&name)
            .cloned();
        if let Some(bytes) = made {
            return Ok(Item::Made(bytes));
        }
        let outside = || Error::Outside(asked.to_string());
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound(asked.to_string()),
            _ => Error::Read(asked.to_string(), source),
        };
        // A link may point elsewhere: what counts is where it ends.
        let root = self.root.canonicalize().map_err(failed)?;
        let path = root.join(&name).canonicalize().map_err(failed)?;
        if !path.starts_with(&root) {
            return Err(outside());
        }
        let file = File::open(&path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() {
            return Err(Error::NotFound(asked.to_string()));
        }
        Ok(Item::File {
            file,
            size: about.len(),
        })
    }
}

impl Item {
    /// A file by its path, which no client chose.
    pub fn file(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self::File { file, size })
    }

    pub fn size(&self) -> u64 {
        match self {
            Self::Made(bytes) => bytes.len() as u64,
            Self::File { size, .. } => *size,
            Self::Disc(disc) => disc.size(),
        }
    }

    /// Fills the buffer from this place of the file.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Made(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let end = start.saturating_add(buffer.len());
                let part = bytes.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
                buffer.copy_from_slice(part);
                Ok(())
            }
            Self::File { file, .. } => file.read_exact_at(buffer, offset),
            Self::Disc(disc) => disc.read(offset, buffer),
        }
    }
}

/// A name as it is on the shelf. Firmware writes slashes either way.
fn clean(asked: &str) -> Result<String, Error> {
    let name = asked.replace('\\', "/");
    let mut parts = vec![];
    for part in Path::new(&name).components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(Error::Outside(asked.to_string()));
            }
        }
    }
    if parts.is_empty() || name.contains('\0') {
        return Err(Error::NotFound(asked.to_string()));
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_directory_is_served() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("tftp");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(home.path().join("secret"), "x").unwrap();
        std::fs::write(root.join("sub/file"), "inside").unwrap();
        std::os::unix::fs::symlink(home.path().join("secret"), root.join("link")).unwrap();
        let shelf = Shelf::new(root);
        for name in ["sub/file", "/sub/file", "sub\\file", "./sub//file"] {
            assert_eq!(shelf.open(name).unwrap().size(), 6, "{name}");
        }
        for name in [
            "../secret",
            "/../secret",
            "sub/../../secret",
            "link",
            "..\\secret",
        ] {
            assert!(matches!(shelf.open(name), Err(Error::Outside(_))), "{name}");
        }
        for name in ["", "/", "sub", "nothing"] {
            assert!(
                matches!(shelf.open(name), Err(Error::NotFound(_))),
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_made_comes_before_what_is_on_disk() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a"), "disk").unwrap();
        let shelf = Shelf::new(root.path().to_path_buf());
        shelf.put("a", *b"made!");
        let mut buffer = [0; 3];
        shelf.open("/a").unwrap().read(1, &mut buffer).unwrap();
        assert_eq!(&buffer, b"ade");
        shelf.remove("a");
        assert_eq!(shelf.open("a").unwrap().size(), 4);
    }
}
