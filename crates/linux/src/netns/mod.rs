//! Network namespaces, named as `ip netns` names them.
//!
//! A named namespace is a file under `/run/netns` with the namespace mounted on it, so that
//! `ip netns exec NAME` and ours work on the same thing. A namespace belongs to a *thread*: `enter`
//! moves the calling thread only, and sockets stay where they were made.

#![expect(unsafe_code, reason = "pre_exec: setns between fork and exec")]

mod host;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, statfs};

pub use host::Host;

const RUN_DIR: &str = "/run/netns";

/// What went wrong with a namespace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{name:?} is not a namespace name; write a file name without slashes")]
    Name { name: String },
    #[error("network namespace {name:?} exists already")]
    Exists { name: String },
    #[error("there is no network namespace {name:?}")]
    Missing { name: String },
    #[error("could not create network namespace {name:?} (this needs root)")]
    Create { name: String, source: io::Error },
    #[error("could not open network namespace {name:?}")]
    Open { name: String, source: io::Error },
    #[error("could not enter network namespace {name:?} (this needs root)")]
    Enter { name: String, source: io::Error },
    #[error("could not remove network namespace {name:?}")]
    Remove { name: String, source: io::Error },
    #[error("could not list network namespaces")]
    List { source: io::Error },
    #[error("could not start a thread for network namespace {name:?}")]
    Thread { name: String, source: io::Error },
}

/// A network namespace, kept alive by an open descriptor; clones share it.
#[derive(Debug, Clone)]
pub struct Namespace {
    name: String,
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// Creates a named namespace; `lo` in it is down, as the kernel makes it.
    pub fn create(name: &str) -> Result<Self, Error> {
        let path = path_of(name)?;
        let failed = |source: io::Error| Error::Create {
            name: name.to_owned(),
            source,
        };
        let _lock = prepare_run_dir().map_err(failed)?;
        if is_namespace(&path) {
            return Err(Error::Exists {
                name: name.to_owned(),
            });
        }
        // A plain file left by a crash between creating and mounting is used again.
        File::create(&path).map_err(failed)?;
        let made = on_fresh_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            mount(
                Some("/proc/thread-self/ns/net"),
                &path,
                None::<&str>,
                MsFlags::MS_BIND,
                None::<&str>,
            )?;
            Ok(())
        });
        if let Err(source) = made {
            let _ = fs::remove_file(&path);
            return Err(failed(source));
        }
        Self::open(name)
    }

    /// Opens a named namespace, creating it if it is not there.
    pub fn ensure(name: &str) -> Result<Self, Error> {
        match Self::create(name) {
            Err(Error::Exists { .. }) => Self::open(name),
            other => other,
        }
    }

    /// Opens a namespace made by us or by `ip netns add`.
    pub fn open(name: &str) -> Result<Self, Error> {
        let path = path_of(name)?;
        if !is_namespace(&path) {
            return Err(Error::Missing {
                name: name.to_owned(),
            });
        }
        let file = File::open(&path).map_err(|source| Error::Open {
            name: name.to_owned(),
            source,
        })?;
        Ok(Self {
            name: name.to_owned(),
            fd: Arc::new(file.into()),
        })
    }

    /// The namespace of the calling thread; it has no name.
    pub fn current() -> Result<Self, Error> {
        let name = "(current)".to_owned();
        match File::open("/proc/thread-self/ns/net") {
            Ok(file) => Ok(Self {
                name,
                fd: Arc::new(file.into()),
            }),
            Err(source) => Err(Error::Open { name, source }),
        }
    }

    pub fn exists(name: &str) -> bool {
        path_of(name).is_ok_and(|path| is_namespace(&path))
    }

    /// Removes the name; the namespace itself goes when its last process, socket and descriptor do.
    /// A name that is not there is fine.
    pub fn remove(name: &str) -> Result<(), Error> {
        let path = path_of(name)?;
        let failed = |source: io::Error| Error::Remove {
            name: name.to_owned(),
            source,
        };
        let _lock = prepare_run_dir().map_err(failed)?;
        while is_namespace(&path) {
            umount2(&path, MntFlags::MNT_DETACH).map_err(|errno| failed(errno.into()))?;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// The names of all namespaces, sorted.
    pub fn list() -> Result<Vec<String>, Error> {
        let entries = match fs::read_dir(RUN_DIR) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::List { source }),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| Error::List { source })?;
            if is_namespace(&entry.path()) {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        names.sort();
        Ok(names)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Moves the calling thread into this namespace. Threads it starts from now on begin here too.
    ///
    /// Do not call it on a thread of a multi-thread runtime: tasks move between threads.
    pub fn enter(&self) -> Result<(), Error> {
        setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET).map_err(|errno| Error::Enter {
            name: self.name.clone(),
            source: errno.into(),
        })
    }

    /// Calls `work` on a fresh thread in this namespace and waits for it.
    ///
    /// A tokio runtime context of the caller is carried over, so `work` may make tokio sockets.
    pub fn run_in<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let runtime = tokio::runtime::Handle::try_current().ok();
        on_fresh_thread(|| {
            let _context = runtime.as_ref().map(tokio::runtime::Handle::enter);
            Ok(self.enter().map(|()| work()))
        })
        .map_err(|source| Error::Thread {
            name: self.name.clone(),
            source,
        })?
    }

    /// Makes the child start in this namespace (for tokio's command, pass `as_std_mut()`).
    pub fn place(&self, command: &mut Command) {
        let fd = Arc::clone(&self.fd);
        // SAFETY: setns is a bare system call, allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                setns(fd.as_fd(), CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
            });
        }
    }

    /// Two handles mean the same namespace exactly if these are equal.
    pub fn id(&self) -> io::Result<(u64, u64)> {
        let meta = File::from(self.fd.try_clone()?).metadata()?;
        Ok((meta.dev(), meta.ino()))
    }

    fn of_this_thread(name: &str) -> Result<Self, Error> {
        Ok(Self {
            name: name.to_owned(),
            ..Self::current()?
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn path_of(name: &str) -> Result<PathBuf, Error> {
    let bad = name.is_empty()
        || name.len() > 255
        || name == "."
        || name == ".."
        || name.contains(['/', '\0']);
    if bad {
        return Err(Error::Name {
            name: name.chars().take(64).collect(),
        });
    }
    Ok(Path::new(RUN_DIR).join(name))
}

fn is_namespace(path: &Path) -> bool {
    statfs(path).is_ok_and(|fs| fs.filesystem_type() == NSFS_MAGIC)
}

/// Makes `/run/netns` a shared mount of its own, as `ip netns` does, and locks it against others doing the same.
fn prepare_run_dir() -> io::Result<Flock<File>> {
    fs::create_dir_all(RUN_DIR)?;
    let lock =
        Flock::lock(File::open(RUN_DIR)?, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
    let share = || {
        mount(
            None::<&str>,
            RUN_DIR,
            None::<&str>,
            MsFlags::MS_SHARED | MsFlags::MS_REC,
            None::<&str>,
        )
    };
    if share() == Err(nix::errno::Errno::EINVAL) {
        mount(
            Some(RUN_DIR),
            RUN_DIR,
            None::<&str>,
            MsFlags::MS_BIND | MsFlags::MS_REC,
            None::<&str>,
        )?;
        share()?;
    }
    Ok(lock)
}

/// A thread that is thrown away afterwards, because it cannot always be moved back.
fn on_fresh_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, work)?;
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_the_directory_are_refused() {
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "/etc/passwd",
            "a\0b",
            &"x".repeat(256),
        ] {
            assert!(
                matches!(Namespace::open(name), Err(Error::Name { .. })),
                "{name:?}"
            );
        }
    }

    #[test]
    fn a_namespace_that_is_not_there_is_missing() {
        assert!(matches!(
            Namespace::open("plinth-unit-none"),
            Err(Error::Missing { .. })
        ));
        assert!(!Namespace::exists("plinth-unit-none"));
    }
}
