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
    match ready(dir, &mut child, &say).await {
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

async fn ready(dir: &Dir, child: &mut Child, say: &impl Fn(&str)) -> Result<(), String> {
    let what = format!("the lab to answer; its log is {}", dir.log().display());
    let mut wait = Wait::new(&what, READY_WITHIN);
    while wait.goes_on(say).await {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("its process ended ({status})"));
        }
        let answer = control::ask(&dir.control_socket(), &Request::Status).await;
        if answer.is_ok() {
            return Ok(());
        }
    }
    Err(format!(
        "it was not ready within {} s",
        READY_WITHIN.as_secs()
    ))
}

/// A wait that says what it waits for when it takes long, and when it gives up.
struct Wait<'a> {
    what: &'a str,
    deadline: Instant,
    speak_at: Instant,
}

impl<'a> Wait<'a> {
    const SPEAKS_EVERY: Duration = Duration::from_secs(5);

    fn new(what: &'a str, within: Duration) -> Self {
        let now = Instant::now();
        Self {
            what,
            deadline: now + within,
            speak_at: now + Self::SPEAKS_EVERY,
        }
    }

    /// Pauses; false when time is up.
    async fn goes_on(&mut self, say: &impl Fn(&str)) -> bool {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = Instant::now();
        if now >= self.speak_at {
            let left = self.deadline.saturating_duration_since(now).as_secs();
            say(&format!("waiting for {}; giving up in {left} s", self.what));
            self.speak_at = now + Self::SPEAKS_EVERY;
        }
        now < self.deadline
    }
}

/// The end of the lab's log, which says why it failed.
fn tail(dir: &Dir) -> String {
    let log = std::fs::read(dir.log()).unwrap_or_default();
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// Takes a lab down, living or left behind, and removes all of it.
pub async fn down(dir: &Dir, say: impl Fn(&str)) -> Result<String, Error> {
    let record = match dir.look()? {
        Found::Nothing => return Err(Error::NoLab(dir.path().to_path_buf())),
        Found::Left(record) => record,
        Found::Living(record) => {
            stop(dir, &record, &say).await;
            record
        }
    };
    unclean(dir.clean(&record))?;
    Ok(record.rack.name)
}

/// Asks the lab to stop its servers and end. What it cannot be asked to do, `clean` does by force.
async fn stop(dir: &Dir, record: &Record, say: &impl Fn(&str)) {
    let socket = dir.control_socket();
    let asked = control::ask(&socket, &Request::Down);
    tokio::pin!(asked);
    let mut wait = Wait::new("the lab to take the order to stop", STOPS_WITHIN);
    let asked = loop {
        tokio::select! {
            asked = &mut asked => break asked,
            _ = wait.goes_on(say) => {}
        }
    };
    if let Err(error) = asked {
        say(&format!(
            "the lab cannot be asked ({}); ending its process",
            model::chain(&error)
        ));
        _ = record.runner.map(state::Runner::terminate);
    }
    let mut wait = Wait::new("the lab's servers to stop", STOPS_WITHIN);
    while record.runner.is_some_and(state::Runner::is_alive) && wait.goes_on(say).await {}
}

/// Asks the lab in this directory.
pub async fn ask(dir: &Dir, request: &Request) -> Result<Answer, Error> {
    let record = match dir.look()? {
        Found::Nothing => return Err(Error::NoLab(dir.path().to_path_buf())),
        Found::Left(_) => return Err(Error::Dead(dir.path().to_path_buf())),
        Found::Living(record) => record,
    };
    match control::ask(&dir.control_socket(), request).await {
        Ok(Answer::Refused(why)) => Err(Error::Refused(why)),
        Ok(answer @ (Answer::Status(_) | Answer::Faults(_) | Answer::Done)) => Ok(answer),
        Err(control::AskError::Connect { .. }) if dies(&record).await => {
            Err(Error::Dead(dir.path().to_path_buf()))
        }
        Err(error) => Err(error.into()),
    }
}

/// A process that is being killed closes its sockets a moment before it is gone.
async fn dies(record: &Record) -> bool {
    let mut wait = Wait::new("the lab's process to end", Duration::from_secs(1));
    while record.runner.is_some_and(state::Runner::is_alive) {
        if !wait.goes_on(&|_| {}).await {
            return false;
        }
    }
    true
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[tokio::test]
    async fn a_long_wait_speaks_and_ends() {
        let said = RefCell::new(vec![]);
        let say = |line: &str| said.borrow_mut().push(line.to_string());
        let now = Instant::now();
        let mut wait = Wait {
            what: "rain",
            deadline: now + Duration::from_millis(60),
            speak_at: now,
        };
        while wait.goes_on(&say).await {}
        assert_eq!(*said.borrow(), ["waiting for rain; giving up in 0 s"]);
    }
}
