//! The bootstrap VM, from its first disk to its last process.
//!
//! ```text
//! installer ── start ──▶ keeper (a process of its own) ── QMP ──▶ QEMU
//!     │                     ▲   holds the taps, the console, the payload
//!     ├── look  ────────────┤
//!     └── destroy ──────────┘
//! ```
//!
//! The keeper outlives the installer: an install that is interrupted finds its VM as it left it. The VM outlives
//! neither the keeper nor its directory, so nothing of it can be forgotten on a network.

mod disc;
mod keeper;

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linux::process;
use nix::sys::signal::Signal;
use plan::install::Vm;
use serde::{Deserialize, Serialize};

pub use disc::{Payload, write as write_disc};
pub use keeper::{Error as KeepError, Orders, keep};

/// `bootstrap/` in the install directory; `cleaning/` for a VM that is started to clean hosts.
#[derive(Debug, Clone)]
pub struct Home(PathBuf);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not {action} {path}")]
    File {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("could not start the process that keeps the bootstrap VM")]
    Spawn(#[source] io::Error),
    #[error("the bootstrap VM did not start: {0}")]
    Failed(String),
    #[error("the bootstrap VM's keeper (process {pid}) did not end within {} s", STOPS_WITHIN.as_secs())]
    Stubborn { pid: u32 },
}

/// Who keeps the VM, and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    pid: u32,
    start_time: u64,
    /// QEMU runs.
    up: bool,
    /// Why it does not, at the end.
    ended: Option<String>,
}

impl Record {
    fn id(&self) -> process::Id {
        process::Id {
            pid: self.pid,
            start_time: self.start_time,
        }
    }
}

/// A probe guest may have to show first whether KVM works.
const STARTS_WITHIN: Duration = Duration::from_mins(2);
const STOPS_WITHIN: Duration = Duration::from_secs(30);
const LOOKS_EVERY: Duration = Duration::from_millis(50);

impl Home {
    pub fn new(install_dir: &Path) -> Self {
        Self(install_dir.join("bootstrap"))
    }

    pub fn cleaner(install_dir: &Path) -> Self {
        Self(install_dir.join("cleaning"))
    }

    pub fn disk(&self) -> PathBuf {
        self.0.join("disk.qcow2")
    }

    pub fn payload(&self) -> PathBuf {
        self.0.join("payload.iso")
    }

    /// Which hosts a VM was started to clean.
    pub fn roster(&self) -> PathBuf {
        self.0.join("hosts")
    }

    pub fn console(&self) -> PathBuf {
        self.0.join("console.log")
    }

    pub fn log(&self) -> PathBuf {
        self.0.join("keeper.log")
    }

    fn record_file(&self) -> PathBuf {
        self.0.join("keeper.json")
    }

    /// What there is of the VM.
    pub fn look(&self) -> Result<Vm, Error> {
        let record = self.record()?;
        Ok(match record {
            Some(record) if record.id().is_alive() => Vm::Running,
            Some(Record {
                ended: Some(why), ..
            }) => Vm::Stopped { why },
            Some(_) => Vm::Stopped {
                why: "its keeper was killed".into(),
            },
            None if self.disk().exists() => Vm::Stopped {
                why: "it was never started".into(),
            },
            None => Vm::Absent,
        })
    }

    /// For its owner only: the disk will hold keys.
    pub fn make(&self) -> Result<(), Error> {
        let mut private = fs::DirBuilder::new();
        let made = private.recursive(true).mode(0o700).create(&self.0);
        made.map_err(|source| file("make", &self.0, source))
    }

    /// Starts the keeper, `run`, and returns when QEMU runs.
    pub async fn start(&self, mut run: Command) -> Result<(), Error> {
        if self.look()? == Vm::Running {
            return Ok(());
        }
        self.make()?;
        self.forget()?;
        let mut options = fs::OpenOptions::new();
        let log = options
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.log())
            .map_err(|source| file("open", &self.log(), source))?;
        let errors = log.try_clone().map_err(Error::Spawn)?;
        // A process group of its own: an interrupt at the installer's terminal is not meant for it.
        run.stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .process_group(0);
        let mut child = run.spawn().map_err(Error::Spawn)?;
        let began = Instant::now();
        loop {
            if self.record()?.is_some_and(|record| record.up) {
                return Ok(());
            }
            let ended = child.try_wait().map_err(Error::Spawn)?;
            if ended.is_some() || began.elapsed() > STARTS_WITHIN {
                _ = child.kill();
                _ = child.wait();
                return Err(Error::Failed(self.last_words()));
            }
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }

    /// Ends the VM and removes all of it but the logs.
    pub async fn destroy(&self) -> Result<(), Error> {
        if let Some(record) = self.record()? {
            let id = record.id();
            let signalled = id
                .signal(Signal::SIGTERM)
                .map_err(|source| file("signal the keeper of", &self.0, source))?;
            let began = Instant::now();
            while signalled && id.is_alive() {
                if began.elapsed() > STOPS_WITHIN {
                    return Err(Error::Stubborn { pid: id.pid });
                }
                tokio::time::sleep(LOOKS_EVERY).await;
            }
        }
        self.forget()?;
        for path in [self.disk(), self.payload()] {
            remove(&path)?;
        }
        Ok(())
    }

    fn record(&self) -> Result<Option<Record>, Error> {
        let path = self.record_file();
        match fs::read(&path) {
            // One that cannot be read was being written when the power went: nobody is behind it.
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).unwrap_or_default())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(file("read", &path, source)),
        }
    }

    fn write(&self, record: &Record) -> Result<(), Error> {
        let path = self.record_file();
        let beside = path.with_extension("new");
        let bytes = serde_json::to_vec(record).expect("plain data");
        fs::write(&beside, bytes)
            .and_then(|()| fs::rename(&beside, &path))
            .map_err(|source| file("write", &path, source))
    }

    fn forget(&self) -> Result<(), Error> {
        remove(&self.record_file())
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let last = log.lines().rfind(|line| !line.trim().is_empty());
        last.map_or_else(
            || format!("its keeper said nothing in {} s", STARTS_WITHIN.as_secs()),
            str::to_owned,
        )
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file("remove", path, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn file(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        (dir, home)
    }

    #[test]
    fn what_is_left_says_what_became_of_the_vm() {
        let (_dir, home) = home();
        assert_eq!(home.look().unwrap(), Vm::Absent);
        fs::create_dir_all(&home.0).unwrap();
        fs::write(home.disk(), "").unwrap();
        assert!(matches!(home.look().unwrap(), Vm::Stopped { .. }));
        let own = process::Id::of(std::process::id()).unwrap().unwrap();
        let mut record = Record {
            pid: own.pid,
            start_time: own.start_time,
            up: true,
            ended: None,
        };
        home.write(&record).unwrap();
        assert_eq!(home.look().unwrap(), Vm::Running);
        // Somebody else has the pid now.
        record.start_time += 1;
        home.write(&record).unwrap();
        assert!(matches!(home.look().unwrap(), Vm::Stopped { .. }));
        fs::write(home.record_file(), "{\"pid\": 1").unwrap();
        assert!(matches!(home.look().unwrap(), Vm::Stopped { .. }));
    }

    #[tokio::test]
    async fn a_keeper_that_ends_at_once_is_told_with_its_last_words() {
        let (_dir, home) = home();
        let mut run = Command::new("sh");
        run.args(["-c", "echo no bridge called nowhere; exit 1"]);
        let error = home.start(run).await.unwrap_err().to_string();
        assert!(error.ends_with("no bridge called nowhere"), "{error}");
    }

    #[tokio::test]
    async fn destroying_what_is_not_there_is_done() {
        let (_dir, home) = home();
        home.destroy().await.unwrap();
        assert_eq!(home.look().unwrap(), Vm::Absent);
    }
}
