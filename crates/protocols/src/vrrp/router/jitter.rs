//! How long the active router can be silent and alive: on a machine that has no time for it, or behind a link that loses
//! much. A silence that turned out to be none makes the next one longer before it counts; a calm link forgets.
//!
//! DEVIATION: the RFCs' patience is the same whatever was seen. Ours is at least theirs.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::Leader;

/// In advertisements: who is silent for longer was away, and says nothing about the link.
const AWAY: u32 = 25;
const MEMORY: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub struct Jitter {
    heard: Option<(IpAddr, Instant)>,
    longest: Option<(Duration, Instant)>,
}

impl Jitter {
    pub fn heard(&mut self, now: Instant, leader: &Leader) {
        let before = self.heard.replace((leader.from, now));
        let silence = match before {
            Some((from, at)) if from == leader.from => now.saturating_duration_since(at),
            Some(_) | None => return,
        };
        let known = self.longest(now);
        if silence > known && silence <= leader.interval * AWAY {
            self.longest = Some((silence, now));
        }
    }

    /// It has said that it goes: its next word says nothing about the silence before.
    pub fn left(&mut self) {
        self.heard = None;
    }

    /// Silence that need not be death.
    pub fn patience(&self, now: Instant, interval: Duration) -> Duration {
        (self.longest(now) * 3 / 2).min(interval * AWAY)
    }

    fn longest(&self, now: Instant) -> Duration {
        match self.longest {
            Some((silence, at)) if now < at + MEMORY => silence,
            Some(_) | None => Duration::ZERO,
        }
    }
}
