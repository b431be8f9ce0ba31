//! Whom to ask: in the order given, those who answered lately first.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// So many failures in a row and an upstream is asked last.
const FAILURES: u32 = 2;
const FIRST_REST: Duration = Duration::from_secs(2);
const LONGEST_REST: Duration = Duration::from_secs(30);
/// One that sent our own question back to us is left alone for long.
const LOOP_REST: Duration = Duration::from_mins(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    pub address: SocketAddr,
    failures: u32,
    /// Asked last until then.
    resting: Option<Instant>,
    looped: Option<Instant>,
    /// It does not understand EDNS (RFC 6891, 6.2.2).
    pub plain: bool,
    pub answers: u64,
    pub timeouts: u64,
}

/// What changed, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    None,
    Down,
    Up,
}

impl Upstream {
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            failures: 0,
            resting: None,
            looped: None,
            plain: false,
            answers: 0,
            timeouts: 0,
        }
    }

    pub fn is_up(&self) -> bool {
        self.failures < FAILURES
    }

    pub fn is_looped(&self, now: Instant) -> bool {
        self.looped.is_some_and(|until| now < until)
    }

    pub fn succeeded(&mut self) -> Turn {
        let was_up = self.is_up();
        self.failures = 0;
        self.resting = None;
        self.answers += 1;
        if was_up { Turn::None } else { Turn::Up }
    }

    pub fn failed(&mut self, now: Instant) -> Turn {
        self.failures = self.failures.saturating_add(1);
        self.timeouts += 1;
        if self.is_up() {
            return Turn::None;
        }
        let doublings = (self.failures - FAILURES).min(8);
        self.resting = Some(now + (FIRST_REST * 2u32.pow(doublings)).min(LONGEST_REST));
        if self.failures == FAILURES {
            Turn::Down
        } else {
            Turn::None
        }
    }

    pub fn looped(&mut self, now: Instant) {
        self.looped = Some(now + LOOP_REST);
    }

    fn rests(&self, now: Instant) -> bool {
        self.resting.is_some_and(|until| now < until)
    }
}

/// Indexes in the order in which to ask; those that lead back to us are not among them.
pub fn order(upstreams: &[Upstream], now: Instant) -> Vec<usize> {
    let mut order: Vec<usize> = (0..upstreams.len())
        .filter(|at| !upstreams[*at].is_looped(now))
        .collect();
    order.sort_by_key(|at| upstreams[*at].rests(now));
    order
}
