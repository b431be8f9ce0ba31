//! `plinth console`: a server's serial console in this terminal, by way of its BMC.

mod escape;

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

use ::plan::install_config::Host;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use clients::ipmi::{Keys, Owner, Received, Sol};
use installer::{Dir, consoles};
use linux::terminal::Raw;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::plan::facts;
use escape::{Escapes, HELP, Typed};

#[derive(Args)]
pub struct Console {
    /// The host's name in install-config.yaml
    host: String,
    /// The install directory, which holds install-config.yaml
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Take the console from whoever has it: a BMC gives it to one at a time
    #[arg(long)]
    steal: bool,
}

pub fn run(command: &Console) -> Result<()> {
    let dir = Dir::new(&command.dir);
    let (config, _) = dir.config(&facts(&dir.text()?))?;
    let host = find(&config.baremetal.hosts, &command.host)?;
    let owner = if command.steal {
        Owner::GivesWay
    } else {
        Owner::Stays
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    let watched = runtime.block_on(watch(host, owner));
    // The keyboard may be waited for without end.
    runtime.shutdown_background();
    watched
}

fn find<'a>(hosts: &'a [Host], name: &str) -> Result<&'a Host> {
    let found = hosts.iter().find(|host| host.name == name);
    let Some(host) = found else {
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        bail!("there is no host {name}; there are {}", names.join(", "));
    };
    Ok(host)
}

async fn watch(host: &Host, owner: Owner) -> Result<()> {
    let opened = Sol::open(consoles::config(host), owner).await;
    let advised = |error| {
        let advice = consoles::advice(host, &error);
        anyhow!("{}: {}; {advice}", host.name, model::chain(&error))
    };
    let mut sol = opened.map_err(advised)?;
    // Without a person at both ends it is only printed.
    let person = io::stdin().is_terminal() && io::stdout().is_terminal();
    let raw = person.then(|| Raw::new(io::stdin()));
    let raw = raw.transpose().context("prepare the terminal")?;
    let mut typed = person.then(keyboard);
    if raw.is_some() {
        say(&format!(
            "the console of {}; ~. ends it, ~? helps",
            host.name
        ));
    }
    let keys = sol.keys();
    let mut escapes = Escapes::default();
    let mut signals = Signals::new().context("wait for signals")?;
    let ended = loop {
        tokio::select! {
            received = sol.next() => match received {
                Ok(Received::Bytes(bytes)) => if !show(&bytes) {
                    break Ok(());
                },
                Ok(Received::Notice(notice)) => say(&consoles::words(notice)),
                Err(error) => break Err(advised(error)),
            },
            read = next(&mut typed) => match read {
                Some(read) => if !heed(&escapes.read(&read), &keys) {
                    break Ok(());
                },
                None => break Ok(()),
            },
            () = signals.any() => break Ok(()),
        }
    };
    sol.close().await;
    drop(raw);
    ended
}

/// False when the end was typed.
fn heed(typed: &[Typed], keys: &Keys) -> bool {
    for typed in typed {
        match typed {
            Typed::Keys(bytes) => {
                if !keys.send(bytes.clone()) {
                    // The terminal's bell: these were lost.
                    show(b"\x07");
                }
            }
            Typed::Help => HELP.lines().for_each(say),
            Typed::End => return false,
        }
    }
    true
}

/// False when nobody reads any more.
fn show(bytes: &[u8]) -> bool {
    let mut output = io::stdout().lock();
    output
        .write_all(bytes)
        .and_then(|()| output.flush())
        .is_ok()
}

/// Beside what the server prints. The terminal may be one that does not return at a line's end.
fn say(what: &str) {
    eprint!("[plinth: {what}]\r\n");
}

/// Keys as they are typed, read by a thread of its own.
fn keyboard() -> mpsc::Receiver<Vec<u8>> {
    let (sender, typed) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = io::stdin().read(&mut buffer) {
            if sender.blocking_send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    typed
}

/// For ever, where nobody types.
async fn next(typed: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match typed {
        Some(typed) => typed.recv().await,
        None => std::future::pending().await,
    }
}

/// Those that end it, so that the console is given back.
struct Signals([tokio::signal::unix::Signal; 3]);

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn any(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
