//! The serial consoles of hosts, by IPMI at their BMCs: how one is reached, and how they are recorded.
//!
//! ```text
//!   Recorders ─┬─ task of master-0: SOL ──▶ consoles/master-0.log
//!              ├─ task of master-1 ...          notes: what could not be had, and why
//!              └─ ...
//! ```
//!
//! An install never waits for any of this. Whoever has a console keeps it.

mod log;
mod patience;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clients::ipmi::{self, Notice, Owner, Privilege, Received, Sol};
use jiff::Timestamp;
use plan::install_config::{Host, Role};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::preflight::bmc::authority;
use log::Log;
use patience::Patience;

/// Where in the install directory the recordings are.
pub fn dir(install: &Path) -> PathBuf {
    install.join("consoles")
}

/// How the host's serial console is reached. A BMC that speaks Redfish has IPMI at the same address, with the same login.
pub fn config(host: &Host) -> ipmi::Config {
    let bmc = &host.bmc;
    let address = if bmc.scheme.is_redfish() {
        bmc.host.clone()
    } else {
        authority(bmc)
    };
    let mut config = ipmi::Config::new(&address, &host.username, host.password.clone());
    config.privilege = match bmc.privilege.as_deref() {
        Some("CALLBACK") => Privilege::Callback,
        Some("USER") => Privilege::User,
        Some("OPERATOR") => Privilege::Operator,
        Some(_) | None => Privilege::Administrator,
    };
    config
}

/// What can be done about a console that cannot be had.
pub fn advice(host: &Host, error: &ipmi::Error) -> &'static str {
    use ipmi::Ended;
    if error.is_silence() {
        return if host.bmc.scheme.is_redfish() {
            "the BMC has no IPMI, or it is switched off: switch on IPMI over LAN in the BMC's settings, or use the \
             console that the BMC itself offers"
        } else {
            "see that the BMC's address is right and can be reached from here"
        };
    }
    match error {
        ipmi::Error::Console { source, .. } => match source {
            Ended::InUse => "end the other session, or take the console with --steal",
            Ended::Disabled => "switch on Serial over LAN in the BMC's settings, and for this user",
            Ended::Limit => "end one of the other sessions",
            Ended::Talk(_) => {
                "see that username and password are right for IPMI too; some BMCs let only some users use it"
            }
            Ended::Refused { .. } => "see that the user may use Serial over LAN as an operator",
            Ended::Unencrypted => "switch on encryption for Serial over LAN in the BMC's settings",
            Ended::Deactivated | Ended::Dropped | Ended::Closed => "try again",
        },
        ipmi::Error::Resolve { .. }
        | ipmi::Error::NoAddress { .. }
        | ipmi::Error::Socket { .. }
        | ipmi::Error::Talk { .. }
        | ipmi::Error::Slow { .. }
        | ipmi::Error::Answer { .. }
        | ipmi::Error::PowerStays { .. }
        | ipmi::Error::Ended { .. } => "see that the BMC can be reached from here",
    }
}

/// Words for a notice.
pub fn words(notice: Notice) -> String {
    match notice {
        Notice::Missed => "characters are missing here".into(),
        Notice::Break => "the server sent a break".into(),
        Notice::Unavailable => "the BMC passes no characters on now; is the server off?".into(),
        Notice::Available => "the BMC passes characters on again".into(),
        Notice::KeysLost(count) => format!("{count} keys were not taken"),
    }
}

/// The tasks that record consoles. They end when this is dropped.
#[derive(Debug)]
pub struct Recorders {
    tasks: JoinSet<()>,
    notes: mpsc::Receiver<String>,
    /// Dropped, it asks the tasks to end.
    stop: watch::Sender<()>,
}

/// Notes that may wait to be read.
const NOTES: usize = 64;
/// Before a console is tried again for the first time.
const FIRST: Duration = Duration::from_secs(5);
/// To give the consoles back at the end.
const LEAVE: Duration = Duration::from_secs(2);

impl Recorders {
    /// Of the control plane's hosts, one task each.
    pub fn spawn(install: &Path, hosts: &[Host]) -> Self {
        let (sender, notes) = mpsc::channel(NOTES);
        let (stop, stopped) = watch::channel(());
        let mut tasks = JoinSet::new();
        for host in hosts.iter().filter(|host| is_control_plane(host)) {
            let recorder = Recorder {
                path: dir(install).join(format!("{}.log", host.name)),
                host: host.clone(),
                notes: sender.clone(),
                patience: Patience::new(FIRST),
            };
            tasks.spawn(recorder.run(stopped.clone()));
        }
        Self { tasks, notes, stop }
    }

    /// What has happened since last asked.
    pub fn notes(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.notes.try_recv().ok()).collect()
    }

    /// Gives the consoles back, as far as that is quick.
    pub async fn stop(mut self) {
        drop(self.stop);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        _ = timeout(LEAVE, ended).await;
    }
}

fn is_control_plane(host: &Host) -> bool {
    match host.role {
        Some(Role::Master | Role::Arbiter) => true,
        Some(Role::Worker) | None => false,
    }
}

/// Of one host.
struct Recorder {
    host: Host,
    path: PathBuf,
    notes: mpsc::Sender<String>,
    patience: Patience,
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Bmc(#[from] ipmi::Error),
    #[error("write {path}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl Recorder {
    /// Until it is stopped, or there is no hope.
    async fn run(mut self, mut stop: watch::Receiver<()>) {
        loop {
            let opened = tokio::select! {
                // A console that is being opened is given back by its own task.
                _ = stop.changed() => return,
                opened = Sol::open(config(&self.host), Owner::Stays) => opened,
            };
            let began = Instant::now();
            let trouble = match opened {
                Ok(sol) => match self.follow(sol, &mut stop).await {
                    Ok(()) => return,
                    Err(trouble) => trouble,
                },
                Err(error) => error.into(),
            };
            let (tell, pause) = self.patience.after(began.elapsed());
            let hope = match &trouble {
                Trouble::Bmc(error) => error.may_pass(),
                Trouble::File { .. } => false,
            };
            if tell || !hope {
                self.note(&trouble);
            }
            if !hope {
                return;
            }
            tokio::select! {
                _ = stop.changed() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// Writes down what comes, until it is stopped or something ends it.
    async fn follow(&self, mut sol: Sol, stop: &mut watch::Receiver<()>) -> Result<(), Trouble> {
        let followed = self.write_down(&mut sol, stop).await;
        sol.close().await;
        followed
    }

    async fn write_down(
        &self,
        sol: &mut Sol,
        stop: &mut watch::Receiver<()>,
    ) -> Result<(), Trouble> {
        let failed = |source| Trouble::File {
            path: self.path.clone(),
            source,
        };
        let mut log = Log::open(&self.path).map_err(failed)?;
        log.write(&remark("recording begins")).map_err(failed)?;
        loop {
            let received = tokio::select! {
                _ = stop.changed() => return Ok(()),
                received = sol.next() => received,
            };
            let bytes = match received {
                Ok(Received::Bytes(bytes)) => bytes,
                Ok(Received::Notice(notice)) => remark(&words(notice)),
                Err(error) => {
                    let end = format!("recording ends: {}", model::chain(&error));
                    log.write(&remark(&end)).map_err(failed)?;
                    return Err(error.into());
                }
            };
            log.write(&bytes).map_err(failed)?;
        }
    }

    /// Nobody who reads them must not stop a recording.
    fn note(&self, trouble: &Trouble) {
        let name = &self.host.name;
        let why = model::chain(trouble);
        let note = match trouble {
            Trouble::Bmc(error) => {
                let passes = error.may_pass() && !error.is_silence();
                let advice = if passes {
                    "it is tried again"
                } else {
                    advice(&self.host, error)
                };
                format!("{name}: its serial console is not recorded: {why}; {advice}")
            }
            Trouble::File { .. } => format!("{name}: its serial console is not recorded: {why}"),
        };
        _ = self.notes.try_send(note);
    }
}

/// A line between those of the server.
fn remark(what: &str) -> Vec<u8> {
    let now = Timestamp::now();
    format!("\r\n[plinth {now:.0}: {what}]\r\n").into_bytes()
}
