//! External programs: named with the package that brings them, given a deadline, their words kept.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Error;

pub struct Tool {
    pub program: &'static str,
    pub package: &'static str,
    pub limit: Duration,
}

const fn tool(program: &'static str, package: &'static str, seconds: u64) -> Tool {
    Tool {
        program,
        package,
        limit: Duration::from_secs(seconds),
    }
}

pub const CARGO: Tool = tool("cargo", "cargo", 1200);
pub const APT_GET: Tool = tool("apt-get", "apt", 30);
pub const MMDEBSTRAP: Tool = tool("mmdebstrap", "mmdebstrap", 1800);
pub const DEPMOD: Tool = tool("depmod", "kmod", 120);
pub const XZ: Tool = tool("xz", "xz-utils", 300);
pub const ZSTD: Tool = tool("zstd", "zstd", 600);
pub const GRUB_MKIMAGE: Tool = tool("grub-mkimage", "grub-common", 60);
pub const MKFS_EXT4: Tool = tool("mkfs.ext4", "e2fsprogs", 600);
pub const SFDISK: Tool = tool("sfdisk", "fdisk", 60);
pub const QEMU_IMG: Tool = tool("qemu-img", "qemu-utils", 900);

impl Tool {
    /// Where the program is; root's own folders count even if `PATH` leaves them out.
    pub fn find(&self) -> Result<PathBuf, Error> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
        let mut places = dirs.map(|dir| dir.join(self.program));
        places
            .find(|place| place.is_file())
            .ok_or_else(|| Error::MissingTool {
                program: self.program.to_owned(),
                package: self.package,
            })
    }

    /// Runs to the end with both outputs going to `log`.
    pub fn run(
        &self,
        step: &str,
        log: &Path,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<(), Error> {
        let mut out = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .map_err(Error::file("opening", log))?;
        let start = out
            .seek(SeekFrom::End(0))
            .map_err(Error::file("reading", log))?;
        let clone = || out.try_clone().map_err(Error::file("opening", log));
        let mut command = Command::new(self.find()?);
        command
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(clone()?)
            .stderr(clone()?);
        prepare(&mut command);
        let _ = writeln!(out, "--- {step}: {command:?}");
        linux::process::die_with_parent(&mut command);
        let run_error = |source| Error::Run {
            program: self.program.to_owned(),
            source,
        };
        let mut child = command.spawn().map_err(run_error)?;
        let Some(status) = self.wait(&mut child).map_err(run_error)? else {
            return Err(Error::Deadline {
                program: self.program.to_owned(),
                step: step.to_owned(),
                limit: self.limit,
                log: log.to_owned(),
            });
        };
        if status.success() {
            return Ok(());
        }
        Err(Error::Tool {
            program: self.program.to_owned(),
            step: step.to_owned(),
            status,
            tail: tail(log, start),
            log: log.to_owned(),
        })
    }

    /// The status, or nothing if the program had to be stopped.
    fn wait(&self, child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
        let started = Instant::now();
        let mut asked_to_stop = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((!asked_to_stop).then_some(status));
            }
            if started.elapsed() > self.limit && !asked_to_stop {
                // A polite signal first: mmdebstrap then takes down its own mounts and children.
                let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
                asked_to_stop = true;
            }
            if started.elapsed() > self.limit + Duration::from_secs(15) {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The last lines written since `start`.
fn tail(log: &Path, start: u64) -> String {
    let mut text = Vec::new();
    if let Ok(mut file) = File::open(log) {
        let _ = file.seek(SeekFrom::Start(start));
        let _ = file.read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(limit: u64) -> Tool {
        tool("sh", "dash", limit)
    }

    fn run(tool: &Tool, script: &str) -> Result<(), Error> {
        let dir = tempfile::tempdir().unwrap();
        tool.run("testing", &dir.path().join("log"), |command| {
            command.args(["-c", script]);
        })
    }

    #[test]
    fn missing_program_names_the_package() {
        let error = run(&tool("no-such-program", "some-package", 1), "").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no-such-program is not installed; install the Debian package some-package"
        );
    }

    #[test]
    fn failure_shows_the_last_words() {
        let error = run(&shell(10), "echo first; echo the reason >&2; exit 3")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("the reason"),
            "{error}"
        );
    }

    #[test]
    fn program_that_does_not_end_is_stopped() {
        let error = run(&shell(0), "sleep 60").unwrap_err();
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
    }
}
