//! A running machine.

use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::args::{self, Fds};
use crate::event::{Cause, Event, Exit, State, Teller};
use crate::prepare::{self, PrepareError, Prepared};
use crate::qmp::{self, Qmp};
use crate::spec::{Spec, SpecError};

const QEMU: &str = "qemu-system-x86_64";
/// How long a killed or quitting process may take to be gone.
const REAP: Duration = Duration::from_secs(10);

/// What went wrong with a machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("machine {name} cannot be built as written")]
    Spec { name: String, source: SpecError },
    #[error("machine {name} could not be made ready")]
    Prepare { name: String, source: PrepareError },
    #[error("{QEMU} is not installed (Debian package qemu-system-x86)")]
    NoQemu,
    #[error("could not start QEMU for machine {name}")]
    Spawn { name: String, source: io::Error },
    #[error("QEMU gave up on machine {name}: {exit}")]
    Exited { name: String, exit: Exit },
    #[error("machine {name} has no {what} {id:?}")]
    NoSuchDevice {
        name: String,
        what: &'static str,
        id: String,
    },
    #[error("machine {name}: the medium {} is missing", path.display())]
    NoMedium { name: String, path: PathBuf },
    #[error("machine {name} did not do as told")]
    Monitor { name: String, source: qmp::Error },
    #[error("could not connect to the console of machine {name}")]
    Console { name: String, source: io::Error },
    #[error("machine {name} is still there {} s after it was told to go", waited.as_secs())]
    StillThere { name: String, waited: Duration },
}

/// A machine that is switched on. Dropping it pulls the plug.
#[derive(Debug)]
pub struct Machine {
    spec: Spec,
    qmp: Qmp,
    pid: u32,
    events: broadcast::Sender<Event>,
    state: watch::Receiver<State>,
    /// Tells the supervisor to kill; closed when dropped, which means the same.
    plug: mpsc::Sender<()>,
}

impl Machine {
    /// Switches a machine on; returns when QEMU runs it. Needs a tokio runtime with I/O and time.
    pub async fn start(spec: Spec) -> Result<Self, Error> {
        let name = || spec.name.clone();
        spec.check().map_err(|source| Error::Spec {
            name: name(),
            source,
        })?;
        let prepared = prepare::prepare(&spec)
            .await
            .map_err(|source| Error::Prepare {
                name: name(),
                source,
            })?;
        let spawn_failed = |source| Error::Spawn {
            name: name(),
            source,
        };
        let (monitor, theirs) = std::os::unix::net::UnixStream::pair().map_err(spawn_failed)?;
        monitor.set_nonblocking(true).map_err(spawn_failed)?;
        let monitor = UnixStream::from_std(monitor).map_err(spawn_failed)?;
        let child = spawn(&spec, &prepared, theirs.into())?;
        let pid = child.id().unwrap_or_default();
        tracing::info!(machine = %spec.name, pid, accel = %spec.accel, "machine on");

        let (events, _) = broadcast::channel(256);
        let (state_sender, mut state) = watch::channel(State::Paused);
        let (plug, unplugged) = mpsc::channel(1);
        let teller = Teller {
            events: events.clone(),
            state: state_sender,
            cause: Arc::default(),
        };
        let supervisor = Supervisor {
            child,
            log: spec.qemu_log(),
            teller: teller.clone(),
            lock: prepared.lock,
        };
        let (talk, talked) = tokio::sync::oneshot::channel();
        tokio::spawn(supervisor.run(unplugged, talked));

        let connected = Qmp::connect(monitor, move |event| teller.hear(&event)).await;
        let qmp = match connected {
            Ok((qmp, task)) => {
                let _ = talk.send(task);
                qmp
            }
            Err(source) => {
                drop(talk);
                return Err(why_it_failed(&spec, &mut state, source).await);
            }
        };
        let machine = Self {
            spec,
            qmp,
            pid,
            events,
            state,
            plug,
        };
        if !machine.spec.paused {
            machine.resume().await?;
        }
        Ok(machine)
    }

    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The process id of QEMU.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Events from now on. A slow reader loses the oldest of them; [`Machine::state`] is never lost.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// The state as it changes.
    pub fn watch(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// The monitor, for what has no verb here.
    pub fn qmp(&self) -> &Qmp {
        &self.qmp
    }

    /// Waits until the machine is off, however long it takes.
    pub async fn wait_exit(&self) -> Exit {
        let mut state = self.state.clone();
        loop {
            if let State::Exited(exit) = &*state.borrow_and_update() {
                return exit.clone();
            }
            state
                .changed()
                .await
                .expect("the supervisor says Exited before it ends");
        }
    }

    /// The reset button: at once, whatever the guest does.
    pub async fn reset(&self) -> Result<(), Error> {
        self.tell("system_reset", json!({})).await
    }

    /// The power button, pressed shortly: the guest may shut down, or not.
    pub async fn press_power_button(&self) -> Result<(), Error> {
        self.tell("system_powerdown", json!({})).await
    }

    /// A non-maskable interrupt, which makes most kernels dump and panic.
    pub async fn nmi(&self) -> Result<(), Error> {
        self.tell("inject-nmi", json!({})).await
    }

    pub async fn pause(&self) -> Result<(), Error> {
        self.tell("stop", json!({})).await
    }

    pub async fn resume(&self) -> Result<(), Error> {
        self.tell("cont", json!({})).await
    }

    /// Switches off at once, but lets QEMU write out its disk caches; after `limit`, kills it.
    pub async fn quit(&self, limit: Duration) -> Result<Exit, Error> {
        let asked = self.qmp.execute("quit", json!({}));
        // An error here means that it is going already, or that killing is all that is left.
        let politely = async {
            if asked.await.is_ok() {
                Some(self.wait_exit().await)
            } else {
                None
            }
        };
        match timeout(limit, politely).await {
            Ok(Some(exit)) => Ok(exit),
            Ok(None) | Err(_) => self.kill().await,
        }
    }

    /// Pulls the plug.
    pub async fn kill(&self) -> Result<Exit, Error> {
        let _ = self.plug.try_send(());
        let gone = timeout(REAP, self.wait_exit()).await;
        gone.map_err(|_| Error::StillThere {
            name: self.spec.name.clone(),
            waited: REAP,
        })
    }

    /// Puts a medium into a drive, in place of the one that is there, locked or not.
    pub async fn insert(&self, cdrom: &str, medium: &Path) -> Result<(), Error> {
        self.check_cdrom(cdrom)?;
        if !medium.exists() {
            return Err(Error::NoMedium {
                name: self.spec.name.clone(),
                path: medium.to_owned(),
            });
        }
        let arguments = json!({
            "id": cdrom, "filename": medium, "format": "raw", "read-only-mode": "read-only", "force": true,
        });
        self.tell("blockdev-change-medium", arguments).await
    }

    /// Takes out the medium, even if the guest has locked the drive. An empty drive is fine.
    pub async fn eject(&self, cdrom: &str) -> Result<(), Error> {
        self.check_cdrom(cdrom)?;
        self.tell("eject", json!({"id": cdrom, "force": true}))
            .await
    }

    /// The file in a drive, if any.
    pub async fn medium(&self, cdrom: &str) -> Result<Option<PathBuf>, Error> {
        self.check_cdrom(cdrom)?;
        let blocks = self.ask("query-block", json!({})).await?;
        // The drive's qdev is its id, or a path that ends in it.
        let is_it = |block: &&Value| {
            block["qdev"]
                .as_str()
                .is_some_and(|qdev| qdev == cdrom || qdev.split('/').any(|part| part == cdrom))
        };
        let block = blocks.as_array().into_iter().flatten().find(is_it);
        Ok(block
            .and_then(|block| block["inserted"]["file"].as_str())
            .map(PathBuf::from))
    }

    /// The order in which the firmware tries devices from the next reset on; those left out come after, if at all.
    pub async fn set_boot_order(&mut self, order: &[String]) -> Result<(), Error> {
        let name = || self.spec.name.clone();
        self.spec
            .check_boot_order(order)
            .map_err(|source| Error::Spec {
                name: name(),
                source,
            })?;
        // Two devices may never have the same place, not even for a moment: clear first.
        let cleared = self.spec.boot_order.iter().map(|id| (id, json!(-1)));
        let placed = order
            .iter()
            .zip((args::FIRST_BOOT_INDEX..).map(Value::from));
        for (id, place) in cleared.chain(placed) {
            let path = format!("/machine/peripheral/{id}");
            self.tell(
                "qom-set",
                json!({"path": path, "property": "bootindex", "value": place}),
            )
            .await?;
        }
        self.spec.boot_order = order.to_vec();
        Ok(())
    }

    /// Plugs or unplugs the cable of a network card, as the guest sees it.
    pub async fn set_link(&self, nic: &str, up: bool) -> Result<(), Error> {
        if !self.spec.nics.iter().any(|known| known.id == nic) {
            return Err(self.no_such("network card", nic));
        }
        self.tell("set_link", json!({"name": nic, "up": up})).await
    }

    /// Makes every read and write of a disk fail, or work again.
    pub async fn fail_io(&self, disk: &str, fail: bool) -> Result<(), Error> {
        if !self.spec.disks.iter().any(|known| known.id == disk) {
            return Err(self.no_such("disk", disk));
        }
        self.tell(
            "blockdev-reopen",
            json!({"options": [args::switch(disk, fail)]}),
        )
        .await
    }

    /// The serial console, both ways. QEMU serves one at a time: the next connects when this one is dropped.
    pub async fn console(&self) -> Result<UnixStream, Error> {
        let connected = UnixStream::connect(self.spec.console_socket()).await;
        connected.map_err(|source| Error::Console {
            name: self.spec.name.clone(),
            source,
        })
    }

    /// Everything the guest wrote to its serial port, appended from start to start.
    pub fn console_log(&self) -> PathBuf {
        self.spec.console_log()
    }

    fn check_cdrom(&self, id: &str) -> Result<(), Error> {
        let known = self.spec.cdroms.iter().any(|cdrom| cdrom.id == id);
        if known {
            Ok(())
        } else {
            Err(self.no_such("CD drive", id))
        }
    }

    fn no_such(&self, what: &'static str, id: &str) -> Error {
        Error::NoSuchDevice {
            name: self.spec.name.clone(),
            what,
            id: id.to_owned(),
        }
    }

    async fn tell(&self, command: &str, arguments: Value) -> Result<(), Error> {
        self.ask(command, arguments).await.map(drop)
    }

    async fn ask(&self, command: &str, arguments: Value) -> Result<Value, Error> {
        let asked = self.qmp.execute(command, arguments).await;
        asked.map_err(|source| Error::Monitor {
            name: self.spec.name.clone(),
            source,
        })
    }
}

fn spawn(spec: &Spec, prepared: &Prepared, monitor: OwnedFd) -> Result<Child, Error> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => Error::NoQemu,
        _ => Error::Spawn {
            name: spec.name.clone(),
            source,
        },
    };
    let log = std::fs::File::create(spec.qemu_log()).map_err(failed)?;
    let taps = prepared
        .taps
        .iter()
        .map(|(id, fd)| (id.clone(), fd.as_raw_fd()))
        .collect();
    let fds = Fds {
        qmp: monitor.as_raw_fd(),
        taps,
    };
    let mut command = Command::new(QEMU);
    command.args(args::render(spec, &fds)).kill_on_drop(true);
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(failed)?)
        .stderr(log);
    let mut inherited = vec![Arc::new(monitor)];
    inherited.extend(prepared.taps.values().cloned());
    linux::process::inherit(command.as_std_mut(), inherited);
    linux::process::spawn(command).map_err(failed)
}

/// QEMU that ends before it talks has said why on stderr.
async fn why_it_failed(
    spec: &Spec,
    state: &mut watch::Receiver<State>,
    source: qmp::Error,
) -> Error {
    let name = spec.name.clone();
    let exited = state.wait_for(|state| matches!(state, State::Exited(_)));
    match timeout(REAP, exited).await {
        Ok(Ok(state)) => match &*state {
            State::Exited(exit) => Error::Exited {
                name,
                exit: exit.clone(),
            },
            State::Paused | State::Running => Error::Monitor { name, source },
        },
        Ok(Err(_)) | Err(_) => Error::Monitor { name, source },
    }
}

/// Owns the process: waits for its end, or brings it about.
struct Supervisor {
    child: Child,
    log: PathBuf,
    teller: Teller,
    lock: std::fs::File,
}

impl Supervisor {
    async fn run(
        mut self,
        mut unplugged: mpsc::Receiver<()>,
        talked: tokio::sync::oneshot::Receiver<JoinHandle<()>>,
    ) {
        let waited = tokio::select! {
            waited = self.child.wait() => waited,
            // A message or a dropped machine: both mean kill.
            _ = unplugged.recv() => {
                self.teller.set_cause(Cause::Host);
                self.child.kill().await.ok();
                self.child.wait().await
            }
        };
        // Whatever QEMU said last comes before its end. The socket is closed, so this is quick.
        if let Ok(monitor) = talked.await {
            let _ = timeout(REAP, monitor).await;
        }
        let status = waited.unwrap_or_default();
        let exit = Exit {
            cause: self.teller.cause(),
            status,
            stderr: tail(&self.log),
        };
        tracing::info!(cause = ?exit.cause, status = %exit.status, "machine off");
        // Whoever sees Exited may start again at once.
        drop(self.lock);
        let _ = self.teller.events.send(Event::Exited(exit.clone()));
        self.teller.set_state(State::Exited(exit));
    }
}

const TAIL: u64 = 2000;

/// The end of a log; empty if it cannot be read.
fn tail(path: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(TAIL);
        file.seek(SeekFrom::Start(start))?;
        let mut end = Vec::new();
        file.take(TAIL).read_to_end(&mut end)?;
        Ok(end)
    };
    String::from_utf8_lossy(&read().unwrap_or_default())
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles, or a server could not be one spawned task.
    #[test]
    fn a_machine_can_be_owned_by_a_spawned_task() {
        fn is_send<T: Send>(_: impl Fn(Spec) -> T) {}
        is_send(|spec| async move {
            let mut machine = Machine::start(spec).await?;
            machine.set_boot_order(&[]).await?;
            machine.insert("cd0", Path::new("x")).await?;
            machine.quit(REAP).await
        });
    }

    #[test]
    fn only_the_end_of_a_long_log_is_kept() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{}the end\n", "x".repeat(5000))).unwrap();
        let tail = tail(file.path());
        assert!(
            tail.ends_with("xthe end") && tail.len() < 2000,
            "{}",
            tail.len()
        );
    }
}
