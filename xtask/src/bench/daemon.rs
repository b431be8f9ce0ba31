//! Programs under measurement: started, watched, and ended with us.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A running program; dropping it ends it.
pub struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts it with its output in `NAME.log` in this directory.
    pub fn start(name: &str, dir: &Path, command: &mut Command) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("open {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {name}: {command:?}"))?;
        Ok(Self {
            name: name.to_string(),
            child,
            log,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until this holds; fails when the program ends first or the time is up.
    pub fn wait(&mut self, what: &str, so: impl FnMut() -> bool) -> Result<()> {
        self.wait_for(what, Duration::from_mins(1), so)
    }

    pub fn wait_for(
        &mut self,
        what: &str,
        limit: Duration,
        mut so: impl FnMut() -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !so() {
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "{} ended ({status}) before {what}: {}",
                    self.name,
                    self.last_words()
                );
            }
            if Instant::now() > deadline {
                bail!(
                    "{}: not within {} s: {what}: {}",
                    self.name,
                    limit.as_secs(),
                    self.last_words()
                );
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub fn wait_port(&mut self, address: SocketAddr) -> Result<()> {
        self.wait(&format!("it answers on {address}"), || {
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
        })
    }

    /// Resident memory of it and its children.
    pub fn memory_mib(&self) -> Result<f64> {
        let mut total = memory_mib(self.pid())?;
        for child in children(self.pid()) {
            total += memory_mib(child).unwrap_or(0.0);
        }
        Ok(total)
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        for child in children(self.pid()) {
            signal("KILL", child);
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&mut self) {
        signal("TERM", self.pid());
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }

    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

pub fn signal(name: &str, pid: u32) {
    _ = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status();
}

/// Resident now.
pub fn memory_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmRSS")
}

/// The most that ever was resident.
pub fn peak_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmHWM")
}

fn status_mib(pid: u32, what: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(what)?.strip_prefix(':'))
        .with_context(|| format!("{what} is there"))?;
    let kib: f64 = line
        .trim()
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .with_context(|| format!("{what} is a number"))?;
    Ok(kib / 1024.0)
}

/// All that descend from it.
pub fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let path = format!("/proc/{pid}/task/{pid}/children");
    for child in fs::read_to_string(path)
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
    {
        found.push(child);
        found.extend(children(child));
    }
    found
}

/// Processor time it has used so far, with its threads.
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}
