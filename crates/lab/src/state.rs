//! The lab's directory: what is in it, who runs it, and how to leave nothing behind.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linux::netns::Namespace;
use linux::process;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::rack::Rack;

/// The lab's directory.
#[derive(Debug, Clone)]
pub struct Dir(PathBuf);

/// What the directory says of the lab that it holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub rack: Rack,
    /// Of every BMC; the file is readable by its owner only.
    pub bmc_password: String,
    /// Who runs the lab, once somebody does.
    pub runner: Option<Runner>,
}

/// The lab's process, told from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runner {
    pub pid: u32,
    start_time: u64,
}

impl Runner {
    /// This process.
    pub fn ourselves() -> io::Result<Self> {
        let id = process::Id::of(std::process::id())?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self {
            pid: id.pid,
            start_time: id.start_time,
        })
    }

    pub fn is_alive(self) -> bool {
        self.id().is_alive()
    }

    /// Asks it to stop. False if it is gone already.
    pub fn terminate(self) -> io::Result<bool> {
        self.id().signal(Signal::SIGTERM)
    }

    fn id(self) -> process::Id {
        process::Id {
            pid: self.pid,
            start_time: self.start_time,
        }
    }
}

/// What a directory was found to hold.
#[derive(Debug)]
pub enum Found {
    Nothing,
    Living(Box<Record>),
    /// Its runner is gone without having cleaned up.
    Left(Box<Record>),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{action} {path}")]
    File {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{path} is not a lab's record; move it away, or choose another --dir")]
    Record {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(
        "--dir {0:?} is too long: the sockets in it would pass the kernel's limit of 107 characters; choose a shorter path"
    )]
    TooLong(PathBuf),
    #[error("remove network namespace {name}")]
    Namespace {
        name: String,
        source: linux::netns::Error,
    },
    #[error("process {0} of the lab did not end; end it by hand, then run `plinth lab down` again")]
    Undead(u32),
}

const RESOLV_CONF: &str = "resolv.conf";

impl Dir {
    pub fn new(path: &Path) -> Result<Self, Error> {
        let path = std::path::absolute(path).map_err(|source| Error::File {
            action: "find",
            path: path.to_path_buf(),
            source,
        })?;
        let longest = path.join("servers/server-9999/console.sock");
        if longest.as_os_str().len() > 107 {
            return Err(Error::TooLong(path));
        }
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn control_socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    pub fn log(&self) -> PathBuf {
        self.0.join("lab.log")
    }

    pub fn ca(&self) -> PathBuf {
        self.0.join("ca.pem")
    }

    pub fn leases(&self) -> PathBuf {
        self.0.join("leases.redb")
    }

    pub fn server(&self, name: &str) -> PathBuf {
        self.0.join("servers").join(name)
    }

    pub fn console(&self, name: &str) -> PathBuf {
        self.server(name).join("console.log")
    }

    /// The install directory of the cluster on the lab's rack.
    pub fn site(&self) -> PathBuf {
        self.0.join("site")
    }

    /// For programs that run inside the lab.
    pub fn resolv_conf(&self) -> PathBuf {
        self.0.join(RESOLV_CONF)
    }

    fn record_file(&self) -> PathBuf {
        self.0.join("lab.json")
    }

    pub fn look(&self) -> Result<Found, Error> {
        let path = self.record_file();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(source) => {
                return Err(Error::File {
                    action: "read",
                    path,
                    source,
                });
            }
        };
        let record: Record =
            serde_json::from_slice(&text).map_err(|source| Error::Record { path, source })?;
        let alive = record.runner.is_some_and(Runner::is_alive);
        Ok(if alive {
            Found::Living(Box::new(record))
        } else {
            Found::Left(Box::new(record))
        })
    }

    /// Writes the record, whole or not at all.
    pub fn write(&self, record: &Record) -> Result<(), Error> {
        let file = |action, path: &Path| {
            let path = path.to_path_buf();
            move |source| Error::File {
                action,
                path,
                source,
            }
        };
        let servers = self.0.join("servers");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&servers)
            .map_err(file("create", &servers))?;
        let (path, new) = (self.record_file(), self.0.join("lab.json.new"));
        let text = serde_json::to_vec_pretty(record).expect("a record is plain data");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut to = options.open(&new).map_err(file("create", &new))?;
        to.write_all(&text)
            .and_then(|()| to.sync_all())
            .map_err(file("write", &new))?;
        fs::rename(&new, &path).map_err(file("write", &path))
    }

    /// Removes everything a lab leaves: processes, namespace, files. Goes on past errors and returns them all.
    pub fn clean(&self, record: &Record) -> Vec<Error> {
        let mut errors = end_processes(&record.rack.namespace);
        let name = &record.rack.namespace;
        if let Err(source) = Namespace::remove(name) {
            errors.push(Error::Namespace {
                name: name.clone(),
                source,
            });
        }
        let files = [
            "control.sock",
            "lab.log",
            "ca.pem",
            "leases.redb",
            "leases.redb.log",
            RESOLV_CONF,
            "lab.json.new",
            "lab.json",
        ];
        for dir in [self.0.join("servers"), self.site()] {
            errors.extend(gone(fs::remove_dir_all(&dir), &dir));
        }
        for name in files {
            let path = self.0.join(name);
            errors.extend(gone(fs::remove_file(&path), &path));
        }
        // Only if it holds nothing of somebody else's.
        _ = fs::remove_dir(&self.0);
        errors
    }
}

fn gone(result: io::Result<()>, path: &Path) -> Option<Error> {
    match result {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Some(Error::File {
            action: "remove",
            path: path.to_path_buf(),
            source,
        }),
        Ok(()) | Err(_) => None,
    }
}

/// Ends every process that lives in the lab's namespace, ourselves excepted.
fn end_processes(namespace: &str) -> Vec<Error> {
    let Ok(namespace) = Namespace::open(namespace) else {
        return vec![];
    };
    let Ok(id) = namespace.id() else {
        return vec![];
    };
    let inside: Vec<process::Id> = processes()
        .filter(|pid| lives_in(*pid, id))
        .filter_map(|pid| process::Id::of(pid).ok().flatten())
        .collect();
    for process in &inside {
        _ = process.signal(Signal::SIGKILL);
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut errors = vec![];
    for process in inside {
        while process.is_alive() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        if process.is_alive() {
            errors.push(Error::Undead(process.pid));
        }
    }
    errors
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = std::process::id();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(move |pid| *pid != own)
}

fn lives_in(pid: u32, namespace: (u64, u64)) -> bool {
    fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|m| (m.dev(), m.ino()) == namespace)
}
