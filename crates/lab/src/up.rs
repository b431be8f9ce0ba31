//! Bringing a lab up and taking it down, seen from the operator's side.
//!
//! The lab itself runs in a process of its own ([`crate::daemon`]); this starts it, waits until it says it is
//! ready, and sees to it that nothing half-made stays behind.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linux::netns::Namespace;
use rand::RngExt;

use crate::control::{self, Answer, Request};
use crate::needs;
use crate::rack::{Options, Problem, Rack};
use crate::state::{self, Dir, Found, Record};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("this rack cannot be:\n  {}", list(.0))]
    Options(Vec<Problem>),
    #[error("lab {name} is up already (process {pid}); `plinth lab down` takes it down")]
    Living { name: String, pid: u32 },
    #[error("this machine cannot run the lab:\n  {}", list(.0))]
    Needs(Vec<needs::Missing>),
    #[error(
        "network namespace {0} exists and is not this lab's; choose another --name, or remove it: ip netns del {0}"
    )]
    NamespaceTaken(String),
    #[error(transparent)]
    State(#[from] state::Error),
    #[error("start the lab's process")]
    Spawn(#[source] io::Error),
    #[error("the lab did not come up: {reason}\n{log}")]
    Failed { reason: String, log: String },
    #[error("no lab in {0}; `plinth lab up` makes one")]
    NoLab(PathBuf),
    #[error("the lab in {0} died and left things behind; `plinth lab down` cleans up")]
    Dead(PathBuf),
    #[error("ask the lab")]
    Ask(#[from] control::AskError),
    #[error("{0}")]
    Refused(String),
    #[error("the lab is down, but this could not be removed:\n  {}", list(.0))]
    Unclean(Vec<state::Error>),
}

fn list<E: std::error::Error>(errors: &[E]) -> String {
    errors
        .iter()
        .map(|error| model::chain(error))
        .collect::<Vec<_>>()
        .join("\n  ")
}

/// Emulated firmware probes and a hundred servers included.
const READY_WITHIN: Duration = Duration::from_mins(2);
const STOPS_WITHIN: Duration = Duration::from_mins(1);

/// Brings a lab up and returns when every BMC answers. `run` is the command that runs a lab's process.
pub async fn up(
    dir: &Dir,
    options: &Options,
    mut run: Command,
    say: impl Fn(&str),
) -> Result<Rack, Error> {
    let rack = Rack::plan(options).map_err(Error::Options)?;
    match dir.look()? {
        Found::Nothing => {}
        Found::Living(record) => {
            let pid = record.runner.map_or(0, |runner| runner.pid);
            return Err(Error::Living {
                name: record.rack.name,
                pid,
            });
        }
        Found::Left(record) => {
            say(&format!(
                "cleaning up after lab {}, which died",
                record.rack.name
            ));
            unclean(dir.clean(&record))?;
        }
    }
    let missing = needs::missing(&rack, dir.path());
    if !missing.is_empty() {
        return Err(Error::Needs(missing));
    }
    if Namespace::exists(&rack.namespace) {
        return Err(Error::NamespaceTaken(rack.namespace));
    }
    let record = Record {
        rack: rack.clone(),
        bmc_password: password(),
        runner: None,
    };
    dir.write(&record)?;
    let log = File::create(dir.log()).map_err(Error::Spawn)?;
    let errors = log.try_clone().map_err(Error::Spawn)?;
    // A session of its own: the lab outlives the terminal that asked for it.
    run.stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .process_group(0)
        .current_dir("/");
    let mut child = run.spawn().map_err(Error::Spawn)?;
    match ready(dir, &mut child).await {
        Ok(()) => Ok(rack),
        Err(reason) => {
            _ = child.kill();
            _ = child.wait();
            let log = tail(dir);
            unclean(dir.clean(&record))?;
            Err(Error::Failed { reason, log })
        }
    }
}

async fn ready(dir: &Dir, child: &mut Child) -> Result<(), String> {
    let deadline = Instant::now() + READY_WITHIN;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("its process ended ({status})"));
        }
        if control::ask(&dir.control_socket(), &Request::Status)
            .await
            .is_ok()
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(format!(
        "it was not ready within {} s",
        READY_WITHIN.as_secs()
    ))
}

/// The end of the lab's log, which says why it failed.
fn tail(dir: &Dir) -> String {
    let log = std::fs::read(dir.log()).unwrap_or_default();
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// Takes a lab down, living or left behind, and removes all of it.
pub async fn down(dir: &Dir) -> Result<String, Error> {
    let record = match dir.look()? {
        Found::Nothing => return Err(Error::NoLab(dir.path().to_path_buf())),
        Found::Left(record) => record,
        Found::Living(record) => {
            stop(dir, &record).await;
            record
        }
    };
    unclean(dir.clean(&record))?;
    Ok(record.rack.name)
}

/// Asks the lab to stop its servers and end. What it cannot be asked to do, `clean` does by force.
async fn stop(dir: &Dir, record: &Record) {
    if control::ask(&dir.control_socket(), &Request::Down)
        .await
        .is_err()
    {
        _ = record.runner.map(state::Runner::terminate);
    }
    let deadline = Instant::now() + STOPS_WITHIN;
    while record.runner.is_some_and(state::Runner::is_alive) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asks the lab in this directory.
pub async fn ask(dir: &Dir, request: &Request) -> Result<Answer, Error> {
    match dir.look()? {
        Found::Nothing => Err(Error::NoLab(dir.path().to_path_buf())),
        Found::Left(_) => Err(Error::Dead(dir.path().to_path_buf())),
        Found::Living(_) => match control::ask(&dir.control_socket(), request).await? {
            Answer::Refused(why) => Err(Error::Refused(why)),
            answer @ (Answer::Status(_) | Answer::Faults(_) | Answer::Done) => Ok(answer),
        },
    }
}

fn unclean(errors: Vec<state::Error>) -> Result<(), Error> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Error::Unclean(errors))
    }
}

/// One for the whole rack: 20 characters that need no quoting anywhere, and fit IPMI's limit.
fn password() -> String {
    const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
    let mut rng = rand::rng();
    (0..20)
        .map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())]))
        .collect()
}
