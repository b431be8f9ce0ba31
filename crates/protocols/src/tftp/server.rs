//! One transfer, seen from the server: which blocks to send when.
//!
//! The machine never holds the file: it says which part goes into which block, and the shell reads it.

use std::time::{Duration, Instant};

use super::packet::{ErrorCode, Packet, number};
use super::{DEFAULT_BLOCK, MAX_BLOCK, MIN_BLOCK};

/// What a server grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Larger blocks would be fragmented on the way.
    pub block: u16,
    pub window: u16,
    /// First wait for an answer, unless the client asks for another.
    pub wait: Duration,
    /// Silence after which a transfer is given up, in repetitions.
    pub repeats: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            block: 1468,
            window: 64,
            wait: Duration::from_secs(1),
            repeats: 6,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// From the client's port of this transfer.
    Packet {
        bytes: &'a [u8],
    },
    Timer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Send {
        bytes: Vec<u8>,
    },
    /// Send block `block` with this part of the file.
    SendBlock {
        block: u16,
        offset: u64,
        length: usize,
    },
    Done(Outcome),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Complete,
    /// The client said so: often after it learned the size.
    Aborted {
        code: ErrorCode,
        message: String,
    },
    TimedOut,
}

/// A transfer in progress.
#[derive(Debug)]
pub struct Transfer {
    size: u64,
    block: u64,
    window: u64,
    wait: Duration,
    repeats: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The options are said; the client confirms them with ACK 0.
    Options {
        bytes: Vec<u8>,
        tries: u32,
        again: Instant,
    },
    Sending {
        /// Blocks the client has.
        acked: u64,
        /// Blocks sent.
        sent: u64,
        tries: u32,
        again: Instant,
        /// The window was sent again because the client asked; not more than once until it moves.
        repeated: bool,
    },
    Done,
}

impl Transfer {
    /// Begins to send a file of `size` bytes to a client that asked with these options.
    pub fn start(
        now: Instant,
        size: u64,
        options: &[(String, String)],
        limits: &Limits,
    ) -> (Self, Vec<Action>) {
        let mut granted = Vec::new();
        let mut transfer = Self {
            size,
            block: DEFAULT_BLOCK.into(),
            window: 1,
            wait: limits.wait,
            repeats: limits.repeats,
            state: State::Done,
        };
        if let Some(asked) = number(options, "blksize").filter(|asked| *asked >= MIN_BLOCK.into()) {
            transfer.block = asked.min(limits.block.clamp(MIN_BLOCK, MAX_BLOCK).into());
            granted.push(("blksize".to_owned(), transfer.block.to_string()));
        }
        if let Some(seconds) =
            number(options, "timeout").filter(|seconds| (1..=255).contains(seconds))
        {
            transfer.wait = Duration::from_secs(seconds);
            granted.push(("timeout".to_owned(), seconds.to_string()));
        }
        if number(options, "tsize").is_some() {
            granted.push(("tsize".to_owned(), size.to_string()));
        }
        if let Some(asked) = number(options, "windowsize").filter(|asked| *asked >= 1) {
            transfer.window = asked.min(limits.window.max(1).into());
            granted.push(("windowsize".to_owned(), transfer.window.to_string()));
        }
        if granted.is_empty() {
            let actions = transfer.window_from(now, 0, 0, false);
            return (transfer, actions);
        }
        let bytes = Packet::OptionAck { options: granted }.encode();
        transfer.state = State::Options {
            bytes: bytes.clone(),
            tries: 0,
            again: now + transfer.wait,
        };
        (transfer, vec![Action::Send { bytes }])
    }

    /// The answer to a request that cannot be served.
    pub fn refuse(code: ErrorCode, message: &str) -> Vec<u8> {
        Packet::Error {
            code,
            message: message.to_owned(),
        }
        .encode()
    }

    pub fn handle(&mut self, now: Instant, event: Event<'_>) -> Vec<Action> {
        match event {
            Event::Packet { bytes } => match Packet::decode(bytes) {
                Ok(Packet::Ack { block }) => self.acked(now, block),
                Ok(Packet::Error { code, message }) => self.end(Outcome::Aborted { code, message }),
                // A repeated request, or noise: the timer repeats what is due.
                Ok(
                    Packet::Read { .. }
                    | Packet::Write { .. }
                    | Packet::Data { .. }
                    | Packet::OptionAck { .. },
                )
                | Err(_) => Vec::new(),
            },
            Event::Timer => self.timer(now),
        }
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        match &self.state {
            State::Options { again, .. } | State::Sending { again, .. } => Some(*again),
            State::Done => None,
        }
    }

    fn acked(&mut self, now: Instant, number: u16) -> Vec<Action> {
        match &mut self.state {
            State::Options { .. } if number == 0 => self.window_from(now, 0, 0, false),
            State::Sending {
                acked,
                sent,
                repeated,
                ..
            } => {
                // Numbers wrap; what is in flight is always less than that.
                let progress = u64::from(number.wrapping_sub(*acked as u16));
                if progress == 0 {
                    // With windows this asks for the whole window again; without, it is a late copy that must not be
                    // answered, or every block would be sent twice from here on (RFC 1123, 4.2.3.1).
                    if self.window == 1 || *repeated || *sent == *acked {
                        return Vec::new();
                    }
                    let from = *acked;
                    return self.window_from(now, from, 0, true);
                }
                if progress > *sent - *acked {
                    return Vec::new();
                }
                let from = *acked + progress;
                if from == self.last() {
                    return self.end(Outcome::Complete);
                }
                self.window_from(now, from, 0, false)
            }
            State::Options { .. } | State::Done => Vec::new(),
        }
    }

    /// Sends the window after the first `acked` blocks.
    fn window_from(&mut self, now: Instant, acked: u64, tries: u32, repeated: bool) -> Vec<Action> {
        let sent = (acked + self.window).min(self.last());
        self.state = State::Sending {
            acked,
            sent,
            tries,
            again: now + self.wait * 2u32.pow(tries.min(4)),
            repeated,
        };
        let blocks = (acked + 1..=sent).map(|number| {
            let offset = (number - 1) * self.block;
            let length = self.size.saturating_sub(offset).min(self.block) as usize;
            Action::SendBlock {
                block: number as u16,
                offset,
                length,
            }
        });
        blocks.collect()
    }

    /// The number of blocks: the last is not full, and may be empty.
    fn last(&self) -> u64 {
        self.size / self.block + 1
    }

    fn timer(&mut self, now: Instant) -> Vec<Action> {
        match &mut self.state {
            State::Options { tries, again, .. } | State::Sending { tries, again, .. }
                if *again <= now && *tries >= self.repeats =>
            {
                self.end(Outcome::TimedOut)
            }
            State::Options {
                bytes,
                tries,
                again,
            } if *again <= now => {
                *tries += 1;
                *again = now + self.wait * 2u32.pow((*tries).min(4));
                vec![Action::Send {
                    bytes: bytes.clone(),
                }]
            }
            State::Sending {
                acked,
                tries,
                again,
                ..
            } if *again <= now => {
                let (acked, tries) = (*acked, *tries + 1);
                self.window_from(now, acked, tries, false)
            }
            State::Options { .. } | State::Sending { .. } | State::Done => Vec::new(),
        }
    }

    fn end(&mut self, outcome: Outcome) -> Vec<Action> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Options { .. } | State::Sending { .. } => vec![Action::Done(outcome)],
            State::Done => Vec::new(),
        }
    }
}
