//! A server's serial console, seen from afar: Serial over LAN as its user (15, 24 and 26).
//!
//! ```text
//!   Idle ── Open ─▶ Activating ─────────────────▶ Active ⇄ keep-alive
//!                    │ taken   ▲                     │
//!                    ▼         │ free now            │ Close, deactivated, silence
//!                  Whose? ─▶ Taking (if told to)     ▼
//!                    └─ another's ──────────────▶ Ended, with the reason
//! ```
//!
//! [`Session`] owns a [`Console`] for the login and the commands; `port` holds the characters both ways.

mod port;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use super::{Action as Asked, Answer, AnswerError, Console, Error, Event as Ask, Request};
use crate::ipmi::wire::session::PayloadKind;
use crate::ipmi::wire::sol::{Sol, status};
use port::Port;

/// The serial console of one server. The shell owns the UDP socket, connected to the BMC.
#[derive(Debug)]
pub struct Session {
    console: Console,
    owner: Owner,
    stage: Stage,
    port: Port,
}

/// What to do when another session has the console: a BMC gives it to one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Leave it to them.
    Stays,
    /// Take it from them.
    GivesWay,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Log in and take the console.
    Open,
    Datagram(Vec<u8>),
    /// Typed by the user. Those given before the console is open wait for it.
    Keys(Vec<u8>),
    Timer,
    /// Give the console back and close the session.
    Close,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Send(Vec<u8>),
    /// The console is ours.
    Opened,
    /// What the server printed: in order, and each character once.
    Output(Vec<u8>),
    Notice(Notice),
    /// It is over; nothing comes after this.
    Ended(Ended),
}

/// What there is to know beside the characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// Characters of the server are missing here.
    Missed,
    /// The server's serial port sent a break.
    Break,
    /// The BMC passes no characters on, as when the server is off; keys wait.
    Unavailable,
    Available,
    /// So many keys never got an answer.
    KeysLost(usize),
}

/// Why a console was not had, or is had no longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    #[error(transparent)]
    Talk(#[from] Error),
    #[error("somebody else has the console")]
    InUse,
    #[error("SOL is disabled, on the BMC or for this user")]
    Disabled,
    #[error("the BMC has as many SOL sessions as it can")]
    Limit,
    #[error("the BMC offers SOL without encryption only")]
    Unencrypted,
    #[error("{step}: the BMC refuses")]
    Refused {
        step: &'static str,
        source: AnswerError,
    },
    #[error("somebody else took the console, or SOL was switched off")]
    Deactivated,
    #[error("the BMC dropped the session")]
    Dropped,
    #[error("the console was closed")]
    Closed,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Activating {
        /// It was taken from its owner already: a second time would be a quarrel.
        took: bool,
    },
    Whose {
        took: bool,
    },
    Taking,
    Active {
        session: u32,
        keep_alive_at: Instant,
        /// A keep-alive is on its way.
        asked: bool,
    },
    Ended,
}

/// BMCs close a session that is silent for about a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// There is never more than one request at a time.
const ID: u64 = 1;

impl Session {
    pub fn new(console: Console, owner: Owner) -> Self {
        Self {
            console,
            owner,
            stage: Stage::Idle,
            port: Port::new(),
        }
    }

    pub fn handle(&mut self, now: Instant, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if matches!(self.stage, Stage::Ended) {
            return actions;
        }
        match event {
            Event::Open => self.activate(now, false, &mut actions),
            Event::Datagram(bytes) => self.datagram(now, bytes, &mut actions),
            Event::Keys(keys) => self.port.keys(&keys),
            Event::Timer => self.timer(now, &mut actions),
            Event::Close => self.end(now, Ended::Closed, &mut actions),
        }
        self.pump(now, &mut actions);
        actions
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        let (port, keep_alive) = match &self.stage {
            Stage::Active { keep_alive_at, .. } => (self.port.wake_at(), Some(*keep_alive_at)),
            Stage::Idle
            | Stage::Activating { .. }
            | Stage::Whose { .. }
            | Stage::Taking
            | Stage::Ended => (None, None),
        };
        let times = [self.console.wake_at(), port, keep_alive];
        times.into_iter().flatten().min()
    }

    /// Is there room for more keys?
    pub fn takes_keys(&self) -> bool {
        self.port.takes_keys()
    }

    fn datagram(&mut self, now: Instant, bytes: Vec<u8>, actions: &mut Vec<Action>) {
        let opened = self.console.open_payload(now, PayloadKind::Sol, &bytes);
        let Some((number, payload)) = opened else {
            return self.ask(now, Ask::Datagram(bytes), actions);
        };
        let Ok(sol) = Sol::decode(&payload) else {
            return;
        };
        let deactivated = sol.flags & status::DEACTIVATED != 0;
        let mut notices = Vec::new();
        let output = self.port.hear(now, number, sol, &mut notices);
        actions.extend(notices.into_iter().map(Action::Notice));
        if !output.is_empty() {
            actions.push(Action::Output(output));
        }
        if deactivated {
            self.end(now, Ended::Deactivated, actions);
        }
    }

    fn timer(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.ask(now, Ask::Timer, actions);
        if let Stage::Active {
            keep_alive_at,
            asked,
            ..
        } = &mut self.stage
            && *keep_alive_at <= now
        {
            *keep_alive_at = now + KEEP_ALIVE;
            if !std::mem::replace(asked, true) {
                self.run(now, Request::get_device_id(), actions);
            }
        }
    }

    fn pump(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let may_type = match self.stage {
            Stage::Active { .. } => true,
            // What the server prints may overtake the answer that says that it may.
            Stage::Activating { .. } | Stage::Whose { .. } => false,
            Stage::Idle | Stage::Taking | Stage::Ended => return,
        };
        let mut notices = Vec::new();
        if may_type {
            self.port.take_keys(now, &mut notices);
        }
        if let Some(sol) = self.port.next(now)
            && let Some(bytes) = self.console.seal_payload(PayloadKind::Sol, &sol.encode())
        {
            actions.push(Action::Send(bytes));
        }
        actions.extend(notices.into_iter().map(Action::Notice));
    }

    fn activate(&mut self, now: Instant, took: bool, actions: &mut Vec<Action>) {
        self.stage = Stage::Activating { took };
        self.run(now, Request::activate_sol(), actions);
    }

    fn run(&mut self, now: Instant, request: Request, actions: &mut Vec<Action>) {
        self.ask(now, Ask::Run { id: ID, request }, actions);
    }

    fn ask(&mut self, now: Instant, event: Ask, actions: &mut Vec<Action>) {
        for action in self.console.handle(now, event) {
            match action {
                Asked::Send(bytes) => actions.push(Action::Send(bytes)),
                Asked::Answered { answer, .. } => self.answered(now, &answer, actions),
                Asked::Failed { error, .. } => self.end(now, error.into(), actions),
            }
        }
    }

    fn answered(&mut self, now: Instant, answer: &Answer, actions: &mut Vec<Action>) {
        match self.stage {
            Stage::Activating { took } => match refusal("take the console", answer) {
                None => self.activated(now, &answer.data, actions),
                Some(Ended::InUse) => {
                    self.stage = Stage::Whose { took };
                    self.run(now, Request::get_sol_owner(), actions);
                }
                Some(why) => self.end(now, why, actions),
            },
            Stage::Whose { took } => self.owner_known(now, took, answer, actions),
            Stage::Taking => match refusal("take the console from its owner", answer) {
                // In use is here: it was given back meanwhile.
                None | Some(Ended::InUse) => self.activate(now, true, actions),
                Some(why) => self.end(now, why, actions),
            },
            Stage::Active { session, .. } if self.console.session() != Some(session) => {
                self.end(now, Ended::Dropped, actions);
            }
            Stage::Active { ref mut asked, .. } => *asked = false,
            Stage::Idle | Stage::Ended => {}
        }
    }

    /// A BMC whose answer to the first request was lost says to the second that the console is taken: by us.
    fn owner_known(
        &mut self,
        now: Instant,
        took: bool,
        answer: &Answer,
        actions: &mut Vec<Action>,
    ) {
        let owner = answer.ok().ok().and_then(|data| data.first_chunk());
        let owner = owner.map(|bytes| u32::from_le_bytes(*bytes));
        if owner.is_some() && owner == self.console.session() {
            return self.activated(now, &[], actions);
        }
        match self.owner {
            Owner::GivesWay if !took => {
                self.stage = Stage::Taking;
                self.run(now, Request::deactivate_sol(), actions);
            }
            Owner::GivesWay | Owner::Stays => self.end(now, Ended::InUse, actions),
        }
    }

    fn activated(&mut self, now: Instant, data: &[u8], actions: &mut Vec<Action>) {
        let Some(session) = self.console.session() else {
            return self.end(now, Ended::Dropped, actions);
        };
        // Auxiliary data, then the largest payload it takes. The port it names is the one we are on, or nonsense.
        if let [_, _, _, _, low, high, ..] = data {
            self.port
                .set_payload_size(u16::from_le_bytes([*low, *high]));
        }
        self.stage = Stage::Active {
            session,
            keep_alive_at: now + KEEP_ALIVE,
            asked: false,
        };
        actions.push(Action::Opened);
    }

    /// Leaves nothing behind on the BMC that it could be told to drop.
    fn end(&mut self, now: Instant, why: Ended, actions: &mut Vec<Action>) {
        let before = std::mem::replace(&mut self.stage, Stage::Ended);
        match before {
            Stage::Active { .. } if why == Ended::Closed => {
                let deactivate = self.console.seal_command(Request::deactivate_sol());
                actions.extend(deactivate.map(Action::Send));
            }
            // Before that it may be another's; closing the session gives back whatever we have.
            Stage::Active { .. }
            | Stage::Idle
            | Stage::Activating { .. }
            | Stage::Whose { .. }
            | Stage::Taking => {}
            Stage::Ended => return,
        }
        self.ask(now, Ask::Close, actions);
        actions.push(Action::Ended(why));
    }
}

/// Why the BMC says no (24.1, 24.2).
fn refusal(step: &'static str, answer: &Answer) -> Option<Ended> {
    let source = answer.ok().err()?;
    Some(match answer.completion {
        0x80 => Ended::InUse,
        0x81 => Ended::Disabled,
        0x82 => Ended::Limit,
        0x83 => Ended::Unencrypted,
        _ => Ended::Refused { step, source },
    })
}
