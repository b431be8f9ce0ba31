//! What can go wrong while building.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("building images needs root (owners and device files in the image); run it with sudo")]
    NotRoot,
    #[error("{program} is not installed; install the Debian package {package}")]
    MissingTool {
        program: String,
        package: &'static str,
    },
    #[error("{} is missing; install the Debian package {package}", path.display())]
    MissingFile {
        path: PathBuf,
        package: &'static str,
    },
    #[error("{}: {free_mib} MiB free, {needed_mib} MiB needed to build", path.display())]
    NoSpace {
        path: PathBuf,
        free_mib: u64,
        needed_mib: u64,
    },
    #[error("no cache folder: neither XDG_CACHE_HOME nor HOME is set")]
    NoCacheDir,
    #[error("apt has no Debian archive configured for {suite}; give one with --mirror")]
    NoMirror { suite: String },
    #[error("{program} failed ({status}) while {step}; its last words:\n{tail}\n(all of it: {})", log.display())]
    Tool {
        program: String,
        step: String,
        status: ExitStatus,
        tail: String,
        log: PathBuf,
    },
    #[error("{program} was still running after {} s while {step} (log: {})", limit.as_secs(), log.display())]
    Deadline {
        program: String,
        step: String,
        limit: Duration,
        log: PathBuf,
    },
    #[error("running {program}")]
    Run { program: String, source: io::Error },
    #[error("{doing} {}", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{} holds no kernel", .0.display())]
    NoKernel(PathBuf),
    #[error("kernel {version} has no module {module}, which the ramdisk needs")]
    NoModule { version: String, module: String },
    #[error("reading the module index")]
    Modules(#[from] linux::kmod::Error),
    #[error("reading the manifest {}", path.display())]
    Manifest {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("making the boot CD")]
    BootIso(#[from] media::BootIsoError),
    #[error("making the EFI system partition")]
    Esp(#[from] media::fat::Error),
    #[error("writing the boot CD")]
    WriteIso(#[from] media::WriteError),
    #[error("{} does not look like GRUB's: {why}", path.display())]
    Grub { path: PathBuf, why: &'static str },
}

impl Error {
    /// The log has moved here.
    pub(crate) fn with_log(mut self, moved: PathBuf) -> Self {
        if let Self::Tool { log, .. } | Self::Deadline { log, .. } = &mut self {
            *log = moved;
        }
        self
    }

    /// For `map_err`: what was being done to which file.
    pub(crate) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            doing,
            path,
            source,
        }
    }
}
