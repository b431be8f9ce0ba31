//! The console's side: opens a session when there is something to ask, asks one thing at a time, and asks again when
//! datagrams are lost.
//!
//! ```text
//!   Closed ── Run ─▶ Opening ─▶ Greeting ─▶ Proving ─▶ Busy(raise privilege) ─▶ Ready ⇄ Busy(command)
//!     ▲               │ no such suite: the next one                                      │
//!     └── no answer after all attempts, refused, Close ◀──────────────────────────────────┘
//! ```

mod link;
mod login;
mod request;
pub mod sol;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use model::Secret;

pub use super::bmc::Privilege;
pub use request::{Answer, AnswerError, Request};

use super::crypto::{Randoms, Suite};
use super::wire::Packet;
use super::wire::message::Message;
use super::wire::session::{PayloadKind, V20};
use super::wire::setup::Status;
use link::Link;
use login::{Sending, Step};

/// A console for one BMC. The shell owns the UDP socket, connected to the BMC.
#[derive(Debug)]
pub struct Console {
    config: Config,
    randoms: Randoms,
    waiting: VecDeque<(u64, Request)>,
    state: State,
    tag: u8,
}

#[derive(Debug, Clone)]
pub struct Config {
    pub username: String,
    pub password: Secret<String>,
    pub privilege: Privilege,
    /// In the order to try them.
    pub suites: Vec<Suite>,
    /// How often a datagram is sent before the BMC counts as silent.
    pub attempts: u8,
    /// The pause before the second attempt; each further one is twice as long.
    pub patience: Duration,
    /// A session unused for longer is not trusted to exist: BMCs close theirs after about a minute.
    pub session_lifetime: Duration,
}

impl Config {
    pub fn new(username: String, password: Secret<String>) -> Self {
        Self {
            username,
            password,
            privilege: Privilege::Administrator,
            suites: Suite::ALL.to_vec(),
            attempts: 5,
            patience: Duration::from_millis(500),
            session_lifetime: Duration::from_secs(45),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Ask this; the answer or failure comes back under the same id.
    Run {
        id: u64,
        request: Request,
    },
    Datagram(Vec<u8>),
    Timer,
    /// Close the session; what is still waiting fails.
    Close,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Send(Vec<u8>),
    Answered { id: u64, answer: Answer },
    Failed { id: u64, error: Error },
}

/// Why a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{step}: the BMC does not answer")]
    Silent { step: &'static str },
    #[error("{step}: the BMC refuses: {}", status.text())]
    Refused { step: &'static str, status: Status },
    #[error("log in: the BMC has another password for this user")]
    Password,
    #[error("log in: the BMC could not prove that it knows the password")]
    Impostor,
    #[error("raise privilege: completion code {completion:#04x}")]
    Raise { completion: u8 },
    #[error("too many requests wait for this BMC")]
    Crowded,
    #[error("the console was closed")]
    Closed,
}

/// Requests that may wait at once.
const QUEUE: usize = 64;

#[derive(Debug)]
enum State {
    Closed,
    SettingUp {
        step: Step,
        sending: Sending,
    },
    Ready(Link),
    Busy {
        link: Link,
        job: Job,
        request: Message,
        tries: Tries,
    },
}

#[derive(Debug, Clone, Copy)]
struct Tries {
    left: u8,
    pause: Duration,
    again_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Raise,
    Command(u64),
}

impl Console {
    pub fn new(config: Config, seed: Secret<[u8; 32]>) -> Self {
        Self {
            config,
            randoms: Randoms::new(seed),
            waiting: VecDeque::new(),
            state: State::Closed,
            tag: 0,
        }
    }

    pub fn handle(&mut self, now: Instant, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Run { id, .. } if self.waiting.len() >= QUEUE => {
                actions.push(Action::Failed {
                    id,
                    error: Error::Crowded,
                });
            }
            Event::Run { id, request } => self.waiting.push_back((id, request)),
            Event::Datagram(bytes) => self.datagram(now, &bytes, &mut actions),
            Event::Timer => self.timer(now, &mut actions),
            Event::Close => self.close(&mut actions),
        }
        self.proceed(now, &mut actions);
        actions
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        match &self.state {
            State::Closed | State::Ready(_) => None,
            State::SettingUp { sending, .. } => Some(sending.tries.again_at),
            State::Busy { tries, .. } => Some(tries.again_at),
        }
    }

    /// The BMC's id of the session that is open.
    fn session(&self) -> Option<u32> {
        match &self.state {
            State::Ready(link) | State::Busy { link, .. } => Some(link.bmc_session),
            State::Closed | State::SettingUp { .. } => None,
        }
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        match &mut self.state {
            State::Ready(link) | State::Busy { link, .. } => Some(link),
            State::Closed | State::SettingUp { .. } => None,
        }
    }

    /// A datagram with a payload that is no command, in the session that is open.
    fn seal_payload(&mut self, kind: PayloadKind, payload: &[u8]) -> Option<Vec<u8>> {
        let iv = self.randoms.nonce();
        let link = self.link_mut()?;
        Some(link.seal_payload(kind, payload, iv))
    }

    /// The number of the packet and its payload, if it is of this kind and belongs to the session that is open.
    fn open_payload(
        &mut self,
        now: Instant,
        kind: PayloadKind,
        datagram: &[u8],
    ) -> Option<(u32, Vec<u8>)> {
        let Ok(Packet::V20(packet)) = Packet::decode(datagram) else {
            return None;
        };
        let payload = self.link_mut()?.open_payload(now, kind, &packet)?;
        Some((packet.sequence, payload))
    }

    /// Sends a command in the session that is open; nobody waits for its answer.
    fn seal_command(&mut self, request: Request) -> Option<Vec<u8>> {
        let iv = self.randoms.nonce();
        let link = self.link_mut()?;
        let message = link.number(request);
        Some(link.seal(&message, iv))
    }

    /// Starts on the next request, if there is one and nothing else is going on.
    fn proceed(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.waiting.is_empty() {
            return;
        }
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Ready(link) if now < link.heard_at + self.config.session_lifetime => {
                if let Some((id, request)) = self.waiting.pop_front() {
                    self.start(now, link, Job::Command(id), request, actions);
                }
            }
            State::Closed | State::Ready(_) => self.open(now, 0, actions),
            busy @ (State::SettingUp { .. } | State::Busy { .. }) => self.state = busy,
        }
    }

    fn datagram(&mut self, now: Instant, bytes: &[u8], actions: &mut Vec<Action>) {
        let Ok(Packet::V20(packet)) = Packet::decode(bytes) else {
            return;
        };
        match std::mem::replace(&mut self.state, State::Closed) {
            State::SettingUp { step, sending }
                if packet.session == 0 && packet.trailer.is_none() =>
            {
                self.set_up_answered(now, step, sending, &packet, actions);
            }
            State::Busy {
                link,
                job,
                request,
                tries,
            } => {
                self.command_answered(now, link, job, request, tries, &packet, actions);
            }
            other @ (State::Closed | State::SettingUp { .. } | State::Ready(_)) => {
                self.state = other;
            }
        }
    }

    fn start(
        &mut self,
        now: Instant,
        mut link: Link,
        job: Job,
        request: Request,
        actions: &mut Vec<Action>,
    ) {
        let request = link.number(request);
        actions.push(Action::Send(link.seal(&request, self.randoms.nonce())));
        self.state = State::Busy {
            link,
            job,
            request,
            tries: self.tries(now),
        };
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one state, taken apart by its only caller"
    )]
    fn command_answered(
        &mut self,
        now: Instant,
        mut link: Link,
        job: Job,
        request: Message,
        tries: Tries,
        packet: &V20,
        actions: &mut Vec<Action>,
    ) {
        let Some((completion, data)) = link.answer_to(now, &request, packet) else {
            self.state = State::Busy {
                link,
                job,
                request,
                tries,
            };
            return;
        };
        match job {
            Job::Raise if completion != 0 => {
                return self.give_up(&Error::Raise { completion }, actions);
            }
            Job::Raise => {}
            Job::Command(id) => actions.push(Action::Answered {
                id,
                answer: Answer { completion, data },
            }),
        }
        self.state = State::Ready(link);
    }

    fn timer(&mut self, now: Instant, actions: &mut Vec<Action>) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::SettingUp { step, mut sending } => {
                if sending.tries.again_at <= now {
                    if !sending.tries.again(now) {
                        return self.give_up(&Error::Silent { step: step.name() }, actions);
                    }
                    actions.push(Action::Send(sending.bytes.clone()));
                }
                self.state = State::SettingUp { step, sending };
            }
            State::Busy {
                mut link,
                job,
                request,
                mut tries,
            } => {
                if tries.again_at <= now {
                    if !tries.again(now) {
                        return self.lost(job, actions);
                    }
                    // The same message under a new packet number: the BMC drops numbers it has seen.
                    actions.push(Action::Send(link.seal(&request, self.randoms.nonce())));
                }
                self.state = State::Busy {
                    link,
                    job,
                    request,
                    tries,
                };
            }
            other @ (State::Closed | State::Ready(_)) => self.state = other,
        }
    }

    /// A command got no answer: it fails, and the next starts in a new session.
    fn lost(&mut self, job: Job, actions: &mut Vec<Action>) {
        match job {
            Job::Raise => self.give_up(
                &Error::Silent {
                    step: "raise privilege",
                },
                actions,
            ),
            Job::Command(id) => actions.push(Action::Failed {
                id,
                error: Error::Silent { step: "command" },
            }),
        }
    }

    /// No session to be had: everything that waits fails.
    fn give_up(&mut self, error: &Error, actions: &mut Vec<Action>) {
        self.state = State::Closed;
        let failed = self.waiting.drain(..);
        actions.extend(failed.map(|(id, _)| Action::Failed {
            id,
            error: error.clone(),
        }));
    }

    fn close(&mut self, actions: &mut Vec<Action>) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Ready(mut link) => {
                actions.push(Action::Send(link.seal_close(self.randoms.nonce())));
            }
            State::Busy { mut link, job, .. } => {
                actions.push(Action::Send(link.seal_close(self.randoms.nonce())));
                if let Job::Command(id) = job {
                    actions.push(Action::Failed {
                        id,
                        error: Error::Closed,
                    });
                }
            }
            State::Closed | State::SettingUp { .. } => {}
        }
        self.give_up(&Error::Closed, actions);
    }

    fn tries(&self, now: Instant) -> Tries {
        let pause = self.config.patience;
        Tries {
            left: self.config.attempts.saturating_sub(1),
            pause,
            again_at: now + pause,
        }
    }
}

impl Tries {
    /// Counts another attempt; false when there are none left.
    fn again(&mut self, now: Instant) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.pause *= 2;
        self.again_at = now + self.pause;
        true
    }
}
