//! A server's serial console: a task with a UDP socket around the pure session of `protocols::ipmi::console::sol`.
//!
//! ```text
//!   Sol ◀── what the server prints ── task: Session + socket ◀──UDP──▶ BMC
//!   Keys ── what is typed ──────────▶
//! ```
//!
//! A reader who does not keep up loses characters, and is told where; the session lives on.

use protocols::ipmi::console::sol::{Action, Ended, Event, Notice, Owner, Session};
use tokio::net::UdpSocket;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tracing::trace;

use super::link::{DATAGRAM, at, connect, console};
use super::{Config, Error};

/// An open console. Dropped, it is given back to the BMC; [`Sol::close`] waits until the BMC has been told.
#[derive(Debug)]
pub struct Sol {
    received: mpsc::Receiver<Received>,
    keys: Keys,
    /// Dropped, it ends the task.
    stop: oneshot::Sender<()>,
    task: JoinHandle<Ended>,
    /// What the task said at its end.
    ended: Option<Ended>,
    bmc: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// In order, and each character once.
    Bytes(Vec<u8>),
    Notice(Notice),
}

/// Types on a console.
#[derive(Debug, Clone)]
pub struct Keys(mpsc::Sender<Vec<u8>>);

/// Pieces that a reader may be behind: 256 KiB at most.
const BACKLOG: usize = 1024;
const TYPED: usize = 64;

impl Sol {
    /// Logs in and takes the console.
    pub async fn open(config: Config, owner: Owner) -> Result<Self, Error> {
        let bmc = config.address.clone();
        let limit = config.limits.command;
        let socket = connect(&bmc).await?;
        let session = Session::new(console(config), owner);
        let (sender, received) = mpsc::channel(BACKLOG);
        let (typed, keys) = mpsc::channel(TYPED);
        let (stop, stopped) = oneshot::channel();
        let (open, opened) = oneshot::channel();
        let shell = Shell {
            socket,
            session,
            sender,
            missed: false,
            open: Some(open),
        };
        let mut sol = Self {
            received,
            keys: Keys(typed),
            stop,
            task: tokio::spawn(shell.run(keys, stopped)),
            ended: None,
            bmc,
        };
        match timeout(limit, opened).await {
            Ok(Ok(())) => Ok(sol),
            Ok(Err(_)) => Err(sol.ended().await),
            // Dropped, it stops by itself.
            Err(_) => Err(Error::Slow {
                operation: "open the serial console",
                bmc: sol.bmc,
                limit,
            }),
        }
    }

    /// What comes next; an error is the end. May be dropped and called again.
    pub async fn next(&mut self) -> Result<Received, Error> {
        match self.received.recv().await {
            Some(received) => Ok(received),
            None => Err(self.ended().await),
        }
    }

    async fn ended(&mut self) -> Error {
        let source = match &self.ended {
            Some(ended) => ended.clone(),
            // A task that was aborted has nothing to say.
            None => (&mut self.task).await.unwrap_or(Ended::Closed),
        };
        self.ended = Some(source.clone());
        Error::Console {
            bmc: self.bmc.clone(),
            source,
        }
    }

    pub fn keys(&self) -> Keys {
        self.keys.clone()
    }

    /// Gives the console back and ends the task.
    pub async fn close(self) {
        drop(self.stop);
        if self.ended.is_none() {
            _ = self.task.await;
        }
    }
}

impl Keys {
    /// False if too many are under way: then these are lost.
    pub fn send(&self, keys: Vec<u8>) -> bool {
        self.0.try_send(keys).is_ok()
    }
}

struct Shell {
    socket: UdpSocket,
    session: Session,
    sender: mpsc::Sender<Received>,
    /// The reader was too slow; it is told when there is room again.
    missed: bool,
    /// Told once, when the console is ours.
    open: Option<oneshot::Sender<()>>,
}

impl Shell {
    async fn run(
        mut self,
        mut keys: mpsc::Receiver<Vec<u8>>,
        mut stopped: oneshot::Receiver<()>,
    ) -> Ended {
        let mut buffer = vec![0; DATAGRAM];
        let mut event = Event::Open;
        loop {
            if let Some(ended) = self.feed(event).await {
                return ended;
            }
            let wake_at = self.session.wake_at().map(Instant::from_std);
            event = tokio::select! {
                // Whoever asks for the end, or is gone, wants the same.
                _ = &mut stopped => Event::Close,
                Some(keys) = keys.recv(), if self.session.takes_keys() => Event::Keys(keys),
                read = self.socket.recv(&mut buffer) => match read {
                    Ok(length) => Event::Datagram(buffer[..length].to_vec()),
                    // Of datagrams sent before (port unreachable): the session sends again when it is time.
                    Err(error) => {
                        trace!(%error, "SOL socket");
                        Event::Timer
                    }
                },
                () = at(wake_at) => Event::Timer,
            };
        }
    }

    /// Why it is over, if it is.
    async fn feed(&mut self, event: Event) -> Option<Ended> {
        let mut ended = None;
        for action in self.session.handle(Instant::now().into_std(), event) {
            match action {
                Action::Send(bytes) => {
                    if let Err(error) = self.socket.send(&bytes).await {
                        trace!(%error, "SOL datagram not sent");
                    }
                }
                Action::Opened => {
                    if let Some(open) = self.open.take() {
                        // Whoever gave up waiting has gone.
                        _ = open.send(());
                    }
                }
                Action::Output(bytes) => self.pass(Received::Bytes(bytes)),
                Action::Notice(notice) => self.pass(Received::Notice(notice)),
                Action::Ended(why) => ended = Some(why),
            }
        }
        ended
    }

    fn pass(&mut self, received: Received) {
        if self.missed {
            let told = self.sender.try_send(Received::Notice(Notice::Missed));
            self.missed = told.is_err();
        }
        if let Err(TrySendError::Full(_)) = self.sender.try_send(received) {
            self.missed = true;
        }
    }
}
