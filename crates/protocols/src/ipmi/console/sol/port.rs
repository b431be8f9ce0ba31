//! The characters of one SOL session, seen from the console (15.9 to 15.11).
//!
//! Each side sends one packet of characters at a time and repeats it, under the same number, until it is acknowledged.
//! The packet around it has a number of its own, which grows with every datagram: what was sent before something that
//! has come already is late, and is not looked at. If it mattered it comes again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Notice;
use crate::ipmi::wire::sol::{Sol, status};

#[derive(Debug)]
pub(super) struct Port {
    /// Number of the latest packet that was looked at.
    latest: u32,
    /// The last packet with characters, and how many of them were taken.
    heard: Option<(u8, usize)>,
    /// An acknowledgement not yet sent.
    owed: Option<(u8, u8)>,
    /// The BMC passes no characters on.
    held: bool,
    keys: VecDeque<u8>,
    sequence: u8,
    in_flight: Option<InFlight>,
    /// Keys that fit into one packet.
    most: usize,
}

#[derive(Debug)]
struct InFlight {
    sequence: u8,
    keys: Vec<u8>,
    tries_left: u8,
    send_at: Instant,
}

/// Before keys are sent again.
const PAUSE: Duration = Duration::from_millis(500);
/// The same, while the BMC says that it can do nothing with them.
const LONG_PAUSE: Duration = Duration::from_secs(2);
const TRIES: u8 = 8;
/// Keys that may wait. A person types less; what pastes more is made to wait.
const WAITING: usize = 4096;
/// Header of a SOL payload.
const HEADER: usize = 4;
/// What fits where the BMC does not say: a serial port's buffer.
const USUAL: usize = 16;
/// The count of accepted characters is one byte.
const MOST: usize = 255;

impl Port {
    pub(super) fn new() -> Self {
        Self {
            latest: 0,
            heard: None,
            owed: None,
            held: false,
            keys: VecDeque::new(),
            sequence: 0,
            in_flight: None,
            most: USUAL,
        }
    }

    /// How large a payload the BMC takes, as it says; zero and nonsense leave it as it is.
    pub(super) fn set_payload_size(&mut self, size: u16) {
        let characters = usize::from(size).saturating_sub(HEADER);
        if characters > 0 {
            self.most = characters.min(MOST);
        }
    }

    pub(super) fn takes_keys(&self) -> bool {
        self.keys.len() < WAITING
    }

    pub(super) fn keys(&mut self, keys: &[u8]) {
        self.keys.extend(keys);
    }

    /// What a payload from the BMC brings: characters not seen before, and what else there is to know.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        number: u32,
        sol: Sol,
        notices: &mut Vec<Notice>,
    ) -> Vec<u8> {
        if number <= self.latest {
            return Vec::new();
        }
        self.latest = number;
        self.status(sol.flags, notices);
        self.acknowledged(now, sol.acked, sol.accepted);
        if sol.sequence == 0 {
            return Vec::new();
        }
        let known = match self.heard {
            // A repeated packet may have grown: only its end is new.
            Some((sequence, known)) if sequence == sol.sequence => known,
            Some((sequence, _)) => {
                if sequence % 15 + 1 != sol.sequence {
                    // The BMC gave up on a packet in between.
                    notices.push(Notice::Missed);
                }
                0
            }
            None => 0,
        };
        let mut characters = sol.characters;
        characters.truncate(MOST);
        let taken = characters.len().max(known);
        self.heard = Some((sol.sequence, taken));
        self.owed = Some((sol.sequence, taken as u8));
        characters.split_off(known.min(characters.len()))
    }

    fn status(&mut self, flags: u8, notices: &mut Vec<Notice>) {
        if flags & status::OVERRUN != 0 {
            notices.push(Notice::Missed);
        }
        if flags & status::BREAK_DETECTED != 0 {
            notices.push(Notice::Break);
        }
        let held = flags & status::UNAVAILABLE != 0;
        if held != self.held {
            self.held = held;
            notices.push(if held {
                Notice::Unavailable
            } else {
                Notice::Available
            });
        }
    }

    fn acknowledged(&mut self, now: Instant, acked: u8, accepted: u8) {
        let Some(mut sent) = self.in_flight.take_if(|sent| sent.sequence == acked) else {
            return;
        };
        let refused = sent
            .keys
            .split_off(usize::from(accepted).min(sent.keys.len()));
        if !refused.is_empty() {
            // The rest goes in a packet of its own, after a pause: the BMC has no room now.
            let sequence = self.next_sequence();
            self.in_flight = Some(InFlight {
                sequence,
                keys: refused,
                tries_left: TRIES,
                send_at: now + self.pause(),
            });
        }
    }

    /// Puts the next keys on their way, when those before them have come or are given up.
    pub(super) fn take_keys(&mut self, now: Instant, notices: &mut Vec<Notice>) {
        if let Some(lost) = self
            .in_flight
            .take_if(|sent| sent.tries_left == 0 && sent.send_at <= now)
        {
            notices.push(Notice::KeysLost(lost.keys.len()));
        }
        if self.in_flight.is_none() && !self.keys.is_empty() {
            let count = self.keys.len().min(self.most);
            let keys = self.keys.drain(..count).collect();
            self.in_flight = Some(InFlight {
                sequence: self.next_sequence(),
                keys,
                tries_left: TRIES,
                send_at: now,
            });
        }
    }

    /// The next payload for the BMC, if one is due.
    pub(super) fn next(&mut self, now: Instant) -> Option<Sol> {
        let pause = self.pause();
        let held = self.held;
        let due = self.in_flight.as_mut().filter(|sent| sent.send_at <= now);
        let (sequence, characters) = match due {
            Some(sent) => {
                sent.send_at = now + pause;
                // A BMC that says that it cannot is asked until it can.
                sent.tries_left -= u8::from(!held && sent.tries_left > 0);
                (sent.sequence, sent.keys.clone())
            }
            None if self.owed.is_some() => (0, Vec::new()),
            None => return None,
        };
        let (acked, accepted) = self.owed.take().unwrap_or((0, 0));
        Some(Sol {
            sequence,
            acked,
            accepted,
            flags: 0,
            characters,
        })
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.in_flight.as_ref().map(|sent| sent.send_at)
    }

    fn pause(&self) -> Duration {
        if self.held { LONG_PAUSE } else { PAUSE }
    }

    fn next_sequence(&mut self) -> u8 {
        self.sequence = self.sequence % 15 + 1;
        self.sequence
    }
}
