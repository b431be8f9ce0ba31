//! One backend: what is known of its health, and why.

use std::net::SocketAddr;
use std::time::Instant;

use super::{Config, Id, View};

/// What one look at a backend found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Well,
    /// It answers, and says that it is not ready: let it finish what it has.
    Unready,
    /// It does not answer: whoever waits for it waits in vain.
    Dead,
}

/// What a backend is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Not looked at often enough.
    Unknown,
    Up,
    Unready,
    Down,
    /// Removed; finishes its connections.
    Draining,
}

#[derive(Debug)]
pub(super) struct Backend {
    pub id: Id,
    pub name: String,
    pub address: SocketAddr,
    /// Picked and not closed.
    pub connections: u32,
    pub total: u64,
    connect_failures: u64,
    state: State,
    why: &'static str,
    since: Instant,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Unknown {
        good: u32,
    },
    Up {
        bad: u32,
        refused: u32,
    },
    /// Answers, but not well. `dead` looks in a row found that it does not answer either.
    Unready {
        good: u32,
        dead: u32,
    },
    Down {
        good: u32,
        /// Without checks.
        retry_at: Option<Instant>,
    },
    Draining {
        until: Instant,
        cut: bool,
    },
}

/// What an event came to.
pub(super) struct Verdict {
    pub from: Health,
    pub why: &'static str,
    /// Its connections are of no use any more.
    pub cut: bool,
}

impl Backend {
    pub fn new(id: Id, name: String, address: SocketAddr, checked: bool, now: Instant) -> Self {
        let (state, why) = if checked {
            (State::Unknown { good: 0 }, "not looked at yet")
        } else {
            (State::Up { bad: 0, refused: 0 }, "not checked")
        };
        Self {
            id,
            name,
            address,
            connections: 0,
            total: 0,
            connect_failures: 0,
            state,
            why,
            since: now,
        }
    }

    pub fn health(&self) -> Health {
        match self.state {
            State::Unknown { .. } => Health::Unknown,
            State::Up { .. } => Health::Up,
            State::Unready { .. } => Health::Unready,
            State::Down { .. } => Health::Down,
            State::Draining { .. } => Health::Draining,
        }
    }

    pub fn is_draining(&self) -> bool {
        self.health() == Health::Draining
    }

    pub fn view(&self) -> View {
        View {
            name: self.name.clone(),
            address: self.address,
            health: self.health(),
            why: self.why,
            connections: self.connections,
            total: self.total,
            connect_failures: self.connect_failures,
            since: self.since,
        }
    }

    pub fn wake_at(&self) -> Option<Instant> {
        match self.state {
            State::Unknown { .. } | State::Up { .. } | State::Unready { .. } => None,
            State::Down { retry_at, .. } => retry_at,
            State::Draining { until, cut } => (!cut).then_some(until),
        }
    }

    pub fn checked(&mut self, now: Instant, config: &Config, outcome: Outcome) -> Option<Verdict> {
        let up = State::Up { bad: 0, refused: 0 };
        match (&mut self.state, outcome) {
            (State::Draining { .. }, _) => None,
            (State::Up { bad, .. }, Outcome::Well) => {
                // Not `refused`: a full queue passes checks on a connection that is open already.
                *bad = 0;
                None
            }
            (
                State::Unknown { good } | State::Unready { good, .. } | State::Down { good, .. },
                Outcome::Well,
            ) => {
                *good += 1;
                let enough = *good >= config.rise;
                enough.then(|| self.turn(now, up, "its check passes", false))
            }
            (State::Up { bad, .. }, Outcome::Unready | Outcome::Dead) => {
                *bad += 1;
                if *bad < config.fall {
                    return None;
                }
                Some(match outcome {
                    Outcome::Dead => self.turn(now, DOWN, "it does not answer its check", true),
                    Outcome::Unready | Outcome::Well => {
                        self.turn(now, UNREADY, "it says that it is not ready", false)
                    }
                })
            }
            (State::Unready { good, dead }, Outcome::Dead) => {
                *good = 0;
                *dead += 1;
                let enough = *dead >= config.fall;
                enough.then(|| self.turn(now, DOWN, "it does not answer its check", true))
            }
            (State::Unready { good, dead }, Outcome::Unready) => {
                (*good, *dead) = (0, 0);
                None
            }
            (State::Unknown { good }, Outcome::Unready | Outcome::Dead) => {
                *good = 0;
                let to = if outcome == Outcome::Dead {
                    DOWN
                } else {
                    UNREADY
                };
                Some(self.turn(now, to, "its first check fails", false))
            }
            (State::Down { good, .. }, Outcome::Dead) => {
                *good = 0;
                None
            }
            (State::Down { .. }, Outcome::Unready) => {
                Some(self.turn(now, UNREADY, "it says that it is not ready", false))
            }
        }
    }

    pub fn connected(&mut self) {
        if let State::Up { refused, .. } = &mut self.state {
            *refused = 0;
        }
    }

    pub fn connect_failed(&mut self, now: Instant, config: &Config) -> Option<Verdict> {
        self.connect_failures += 1;
        let State::Up { refused, .. } = &mut self.state else {
            return None;
        };
        *refused += 1;
        if *refused < config.connect_fall {
            return None;
        }
        let retry_at = (!config.checked).then(|| now + config.probation);
        let down = State::Down { good: 0, retry_at };
        // Its open connections may live on: that it takes no new ones is all that is known.
        Some(self.turn(now, down, "connections to it fail", false))
    }

    pub fn drain(&mut self, until: Instant, now: Instant) -> Verdict {
        let draining = State::Draining { until, cut: false };
        self.turn(now, draining, "removed", false)
    }

    pub fn timer(&mut self, now: Instant, config: &Config) -> Option<Verdict> {
        match &mut self.state {
            State::Down {
                retry_at: Some(at), ..
            } if now >= *at => {
                // One failure is enough to be out again.
                let refused = config.connect_fall.saturating_sub(1);
                let up = State::Up { bad: 0, refused };
                Some(self.turn(now, up, "tried again", false))
            }
            State::Draining { until, cut } if now >= *until && !*cut => {
                *cut = true;
                Some(self.turn_nothing("its time to finish is over"))
            }
            State::Unknown { .. }
            | State::Up { .. }
            | State::Unready { .. }
            | State::Down { .. }
            | State::Draining { .. } => None,
        }
    }

    /// Nobody looks any more: what the looks found would stay for ever.
    pub fn forget_checks(&mut self, now: Instant) {
        if !self.is_draining() {
            let up = State::Up { bad: 0, refused: 0 };
            self.turn(now, up, "not checked", false);
        }
    }

    fn turn(&mut self, now: Instant, to: State, why: &'static str, cut: bool) -> Verdict {
        let from = self.health();
        (self.state, self.why, self.since) = (to, why, now);
        Verdict { from, why, cut }
    }

    fn turn_nothing(&self, why: &'static str) -> Verdict {
        Verdict {
            from: self.health(),
            why,
            cut: true,
        }
    }
}

const DOWN: State = State::Down {
    good: 0,
    retry_at: None,
};
const UNREADY: State = State::Unready { good: 0, dead: 0 };
