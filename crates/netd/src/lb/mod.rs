//! Load balancing: TCP connections to whichever backend is well.
//!
//! ```text
//!   members, config ──> keeper ── which backends? looks at each, all the time (on the caller's runtime)
//!                          │ commands
//!                          ▼
//!   clients <──────────> engine ── one thread, one epoll; owns a `protocols::balance::Pool` per listener
//!                          │        (service: a listener, flow: bytes one way, slab: connections by number)
//!                          ▼ what is served
//!   redirect ── nft rules that lead the public port to a listener, while it listens
//! ```

mod engine;
mod flow;
mod keeper;
mod look;
mod redirect;
mod service;
mod slab;

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use linux::epoll::Bell;
use protocols::balance::Health;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use engine::Serving;
use engine::{Command, Engine};
pub use redirect::clean_up;
pub use service::State;

use crate::config::Listener;
use crate::members::Members;
use crate::status;

/// Of the engine's thread: three times the share of a usual one.
const NICENESS: i8 = -5;
/// Far more than the engine needs.
const PATIENCE: Duration = Duration::from_secs(2);

/// A running balancer. Dropping it closes its connections.
#[derive(Debug)]
pub struct Balancer {
    control: Control,
    members: watch::Receiver<Members>,
    held: watch::Receiver<Vec<String>>,
    serving: watch::Receiver<Serving>,
    wanted: watch::Sender<Vec<Listener>>,
    keepers: JoinSet<()>,
    redirect: redirect::Redirect,
    thread: Option<JoinHandle<()>>,
}

/// Tells the engine something, from any thread.
#[derive(Debug, Clone)]
struct Control {
    commands: mpsc::Sender<Command>,
    bell: Arc<Bell>,
}

impl Control {
    fn send(&self, command: Command) {
        // An engine that has ended needs no commands.
        if self.commands.send(command).is_ok() {
            self.bell.ring();
        }
    }
}

impl Balancer {
    /// In the network namespace of the calling thread. `held`: the virtual addresses that are here.
    pub fn spawn(
        members: watch::Receiver<Members>,
        held: watch::Receiver<Vec<String>>,
    ) -> io::Result<Self> {
        let bell = Arc::new(Bell::new()?);
        let (commands, queue) = mpsc::channel();
        let (publish, serving) = watch::channel(Serving::new());
        let engine = Engine::new(Arc::clone(&bell), queue, publish)?;
        let thread = std::thread::Builder::new()
            .name("lb".into())
            .spawn(move || {
                be_prompt();
                engine.run();
            })?;
        let control = Control { commands, bell };
        let mut keepers = JoinSet::new();
        keepers.spawn(tell_held(held.clone(), control.clone()));
        let (wanted, listeners) = watch::channel(Vec::new());
        let redirect = redirect::Redirect::spawn(listeners, serving.clone());
        Ok(Self {
            control,
            members,
            held,
            serving,
            wanted,
            keepers,
            redirect,
            thread: Some(thread),
        })
    }

    /// These listeners from now on. What stays keeps its connections and what is known of its backends.
    pub fn configure(&mut self, listeners: Vec<Listener>) {
        self.control.send(Command::Configure(listeners.clone()));
        // Keepers of what has not changed go on; the rest end and begin again.
        let before = self.wanted.borrow().clone();
        if before != listeners {
            self.wanted.send_replace(listeners.clone());
            for listener in listeners {
                if !before.contains(&listener) {
                    let sources = keeper::Sources {
                        members: self.members.clone(),
                        held: self.held.clone(),
                        wanted: self.wanted.subscribe(),
                    };
                    let control = self.control.clone();
                    self.keepers.spawn(keeper::keep(listener, sources, control));
                }
            }
        }
    }

    pub fn serving(&self) -> watch::Receiver<Serving> {
        self.serving.clone()
    }

    /// Asks the engine, which answers between two packets.
    pub fn status(&self) -> Vec<status::Listener> {
        let (answer, status) = mpsc::sync_channel(1);
        self.control.send(Command::Status(answer));
        let mut status = status.recv_timeout(PATIENCE).unwrap_or_default();
        if let Some(problem) = self.redirect.problem() {
            for listener in &mut status {
                listener.problem.get_or_insert_with(|| problem.clone());
            }
        }
        status
    }

    /// Takes the redirect away and closes everything.
    pub async fn stop(mut self) {
        self.keepers.shutdown().await;
        self.redirect.stop().await;
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.control.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whoever waits for the balancer waits for the API: on a busy node it goes before what can wait.
fn be_prompt() {
    if let Err(error) = linux::sched::nice(NICENESS) {
        tracing::warn!(%error, "the balancer has no more of a busy processor than others");
    }
}

async fn tell_held(mut held: watch::Receiver<Vec<String>>, control: Control) {
    loop {
        let now = held.borrow_and_update().clone();
        control.send(Command::Held(now));
        if held.changed().await.is_err() {
            return;
        }
    }
}

fn word(health: Health) -> &'static str {
    match health {
        Health::Unknown => "unknown",
        Health::Up => "up",
        Health::Unready => "unready",
        Health::Down => "down",
        Health::Draining => "draining",
    }
}
