//! One server: a chassis that decides, a board that runs, and the one task between them.
//!
//! ```text
//!   BMC, control ──tell(Event)──▶ ┌────────────┐ ──Action──▶ ┌───────────────┐
//!                                 │ task:      │             │ board: QEMU,  │
//!                ◀──view (watch)─ │  Chassis   │ ◀───News─── │ or simulated  │
//!                                 └────────────┘             └───────────────┘
//!   SOL, `lab console` ◀──────────────── console ──────────────────┘
//! ```

pub mod boot;
pub mod chassis;
pub mod console;
pub mod qemu;
pub mod sim;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

pub use chassis::{Action, Chassis, Event, Power, Refusal, View};
pub use console::Console;

use crate::clock::at;
use crate::fault::Faults;
use crate::hardware::{Firmware, Hardware};

/// What runs below a chassis. Its task ends when `actions` is closed.
pub struct Board {
    pub actions: mpsc::Sender<Action>,
    pub news: mpsc::Receiver<News>,
    pub console: Console,
    pub task: JoinHandle<()>,
}

/// What a board has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    Started,
    Stopped {
        why: String,
    },
    Reset,
    /// Something went wrong that a person should see; the board goes on.
    Trouble(String),
}

/// A server, as its BMC and the lab's control see it.
#[derive(Debug, Clone)]
pub struct Server {
    hardware: Arc<Hardware>,
    faults: Faults,
    inbox: mpsc::Sender<Letter>,
    status: watch::Receiver<Status>,
    console: Console,
}

/// The chassis, and what last went wrong below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub view: View,
    pub trouble: Option<String>,
}

/// Why a server did not do as told.
#[derive(Debug, thiserror::Error)]
pub enum TellError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the lab is going down")]
    GoingDown,
}

#[derive(Debug)]
struct Letter {
    event: Event,
    answer: oneshot::Sender<Result<(), Refusal>>,
}

/// How many wishes may wait for a server before the sender has to.
const INBOX: usize = 32;

impl Server {
    /// Starts the server's task, powered off. The task ends, and the board with it, when the last handle is gone.
    pub fn spawn(
        hardware: Hardware,
        firmware: Firmware,
        faults: Faults,
        board: Board,
    ) -> (Self, JoinHandle<()>) {
        let chassis = Chassis::new(firmware, faults.clone());
        let (inbox, letters) = mpsc::channel(INBOX);
        let (publish, status) = watch::channel(Status {
            view: chassis.view(),
            trouble: None,
        });
        let server = Self {
            hardware: Arc::new(hardware),
            faults,
            inbox,
            status,
            console: board.console.clone(),
        };
        let name = server.hardware.name.clone();
        let task = tokio::spawn(
            Task {
                name,
                chassis,
                board,
                letters,
                publish,
                reset_at: None,
            }
            .run(),
        );
        (server, task)
    }

    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    pub fn console(&self) -> &Console {
        &self.console
    }

    pub fn view(&self) -> View {
        self.status.borrow().view.clone()
    }

    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// To wait for a state: `server.watch().wait_for(|status| …)`.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Tells the chassis. Returns when it has decided; the board follows in its own time, as in real life.
    pub async fn tell(&self, event: Event) -> Result<(), TellError> {
        let (answer, decided) = oneshot::channel();
        self.inbox
            .send(Letter { event, answer })
            .await
            .map_err(|_| TellError::GoingDown)?;
        Ok(decided.await.map_err(|_| TellError::GoingDown)??)
    }
}

struct Task {
    name: String,
    chassis: Chassis,
    board: Board,
    letters: mpsc::Receiver<Letter>,
    publish: watch::Sender<Status>,
    reset_at: Option<Instant>,
}

impl Task {
    async fn run(mut self) {
        loop {
            tokio::select! {
                letter = self.letters.recv() => match letter {
                    Some(letter) => {
                        let decided = self.handle(letter.event).await;
                        // The asker may have gone; the decision stands.
                        _ = letter.answer.send(decided);
                    }
                    None => break,
                },
                news = self.board.news.recv() => match news {
                    Some(news) => self.heard(news).await,
                    None => break,
                },
                () = at(self.reset_at) => {
                    self.reset_at = None;
                    self.act(Action::Reset).await;
                }
            }
        }
        let Board {
            actions,
            news,
            task,
            ..
        } = self.board;
        drop((actions, news));
        if tokio::time::timeout(BOARD_STOPS_WITHIN, task)
            .await
            .is_err()
        {
            warn!(server = self.name, "board did not stop in time");
        }
    }

    async fn heard(&mut self, news: News) {
        let event = match news {
            News::Started => Event::BoardStarted,
            News::Reset => Event::BoardReset,
            News::Stopped { why } => {
                info!(server = self.name, why, "board stopped");
                self.reset_at = None;
                Event::BoardStopped
            }
            News::Trouble(trouble) => {
                warn!(server = self.name, error = trouble, "board trouble");
                self.publish
                    .send_modify(|status| status.trouble = Some(trouble));
                return;
            }
        };
        if let Err(refusal) = self.handle(event).await {
            warn!(server = self.name, error = %refusal, "news refused by the chassis");
        }
    }

    async fn handle(&mut self, event: Event) -> Result<(), Refusal> {
        let before = self.chassis.view().power;
        let why = format!("{event:?}");
        let actions = self.chassis.handle(event)?;
        let view = self.chassis.view();
        if view.power != before {
            info!(server = self.name, from = ?before, to = ?view.power, why, "power");
        }
        // Published before the board acts, so that whoever reads its effect sees its cause.
        self.publish.send_modify(|status| {
            if view.power == Power::PoweringOn {
                status.trouble = None;
            }
            status.view = view;
        });
        for action in actions {
            self.act(action).await;
        }
        Ok(())
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::ResetIn(delay) => self.reset_at = Some(Instant::now() + delay),
            Action::Start(_)
            | Action::Stop
            | Action::Reset
            | Action::PressPowerButton
            | Action::Nmi
            | Action::NextBoot(_)
            | Action::Load(_)
            | Action::Unload
            | Action::Wire(_) => {
                if self.board.actions.send(action).await.is_err() {
                    warn!(server = self.name, "board is gone");
                }
            }
        }
    }
}

const BOARD_STOPS_WITHIN: Duration = Duration::from_secs(10);
