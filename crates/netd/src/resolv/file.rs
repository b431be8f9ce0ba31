//! The file itself: read, saved, replaced as a whole, restored; a link stays a link.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::Error;
use super::content::Content;

/// A resolv.conf is a few lines; what is longer is not read to its end.
const LONGEST: usize = 64 * 1024;
/// systemd-resolved's directory, and the servers it asks, beside the file that names its stub.
const RESOLVED: &str = "/run/systemd/resolve";
const RESOLVED_SERVERS: &str = "resolv.conf";
const USUAL_MODE: u32 = 0o644;

/// What was at the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Original {
    Absent,
    File { mode: u32, text: String },
    Link { target: PathBuf },
}

impl Original {
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Absent),
            Err(error) => Err(failed(error)),
            Ok(about) if about.is_symlink() => Ok(Self::Link {
                target: fs::read_link(path).map_err(failed)?,
            }),
            Ok(about) => Ok(Self::File {
                mode: about.permissions().mode() & 0o7777,
                text: read_text(path).map_err(failed)?,
            }),
        }
    }

    pub fn is_file(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// Empty unless it is a file.
    pub fn text(&self) -> &str {
        match self {
            Self::File { text, .. } => text,
            Self::Absent | Self::Link { .. } => "",
        }
    }

    pub fn into_text(self) -> String {
        match self {
            Self::File { text, .. } => text,
            Self::Link { target } => read_text(&target).unwrap_or_default(),
            Self::Absent => String::new(),
        }
    }

    pub fn mode(&self) -> u32 {
        match self {
            Self::File { mode, .. } => *mode,
            Self::Absent | Self::Link { .. } => USUAL_MODE,
        }
    }

    /// What a program would read at `path` if this were there: a link is followed, and whoever owns its
    /// target may go on writing there.
    pub fn read_through(&self, path: &Path) -> Result<String, Error> {
        match self {
            Self::Absent => Ok(String::new()),
            Self::File { text, .. } => Ok(text.clone()),
            Self::Link { target } => {
                let base = path.parent().unwrap_or(Path::new("/"));
                let target = base.join(target);
                match read_text(&target) {
                    Ok(text) => Ok(text),
                    // A dangling link: its owner has not started yet.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
                    Err(source) => Err(Error::Read {
                        path: target,
                        source,
                    }),
                }
            }
        }
    }

    /// The same, with the servers systemd-resolved asks where only its stub is named.
    pub fn servers_through(&self, path: &Path) -> Result<String, Error> {
        let text = self.read_through(path)?;
        if !Content::parse(&text).is_stub() {
            return Ok(text);
        }
        let servers = match self {
            Self::Link { target } => path
                .parent()
                .unwrap_or(Path::new("/"))
                .join(target)
                .with_file_name(RESOLVED_SERVERS),
            Self::Absent | Self::File { .. } => Path::new(RESOLVED).join(RESOLVED_SERVERS),
        };
        // Where it keeps no such list, the stub is not its own.
        Ok(read_text(&servers).unwrap_or(text))
    }

    /// One line that says what it was, then the text.
    pub fn save(&self, at: &Path) -> Result<(), Error> {
        let record = match self {
            Self::Absent => "absent\n".to_owned(),
            Self::File { mode, text } => format!("file {mode:o}\n{text}"),
            Self::Link { target } => format!("link\n{}", target.display()),
        };
        if let Some(folder) = at.parent() {
            fs::create_dir_all(folder).map_err(|source| Error::Write {
                path: folder.to_owned(),
                source,
            })?;
        }
        replace(at, record.as_bytes(), 0o600)
    }

    pub fn load(at: &Path) -> Result<Option<Self>, Error> {
        let text = match read_text(at) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(Error::Read {
                    path: at.to_owned(),
                    source,
                });
            }
        };
        let bad = || Error::Saved {
            path: at.to_owned(),
        };
        let (head, rest) = text.split_once('\n').ok_or_else(bad)?;
        match head.split_once(' ') {
            None if head == "absent" => Ok(Some(Self::Absent)),
            None if head == "link" => Ok(Some(Self::Link {
                target: rest.into(),
            })),
            Some(("file", mode)) => Ok(Some(Self::File {
                mode: u32::from_str_radix(mode, 8).map_err(|_| bad())?,
                text: rest.to_owned(),
            })),
            None | Some(_) => Err(bad()),
        }
    }

    pub fn restore(&self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Absent => super::remove(path),
            Self::File { mode, text } => replace(path, text.as_bytes(), *mode),
            Self::Link { target } => {
                let failed = |source| Error::Write {
                    path: path.to_owned(),
                    source,
                };
                let beside = beside(path);
                super::remove(&beside)?;
                symlink(target, &beside).map_err(failed)?;
                fs::rename(&beside, path).map_err(failed)
            }
        }
    }
}

/// Puts the bytes there as a whole: a reader sees the old file or the new one. Where the file is a mount of
/// its own, as in containers, nothing can take its place and it is written over.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let failed = |source| Error::Write {
        path: path.to_owned(),
        source,
    };
    let beside = beside(path);
    super::remove(&beside)?;
    let write = || {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&beside)?;
        file.write_all(bytes)?;
        // The umask may have taken bits away.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        match path.parent() {
            Some(folder) => fs::File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    match write() {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            super::remove(&beside)?;
            fs::write(path, bytes).map_err(failed)
        }
        outcome => outcome.map_err(failed),
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".plinth-new");
    path.with_file_name(name)
}

fn read_text(path: &Path) -> io::Result<String> {
    use io::Read as _;
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(LONGEST as u64)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
