//! Reading one file, as boot firmware does.

use std::time::{Duration, Instant};

use super::packet::{ErrorCode, Packet, number};
use super::{DEFAULT_BLOCK, MAX_BLOCK, MIN_BLOCK, PORT};

/// What to read, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub file: String,
    /// Asked for; 512 asks for nothing.
    pub block: u16,
    /// Asked for; 1 asks for nothing.
    pub window: u16,
    /// A larger file is refused.
    pub max_size: u64,
    pub wait: Duration,
    /// Silence after which the file is given up, in repetitions.
    pub repeats: u32,
}

impl Config {
    /// As UEFI asks.
    pub fn new(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            block: 1468,
            window: 4,
            max_size: 1 << 30,
            wait: Duration::from_secs(1),
            repeats: 6,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    Start,
    /// From this port of the server.
    Packet {
        port: u16,
        bytes: &'a [u8],
    },
    Timer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// To this port of the server.
    Send {
        port: u16,
        bytes: Vec<u8>,
    },
    /// The next part of the file.
    Write(Vec<u8>),
    Done {
        size: u64,
    },
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the server refused: {message} (code {})", code.0)]
    Refused { code: ErrorCode, message: String },
    #[error("the server fell silent")]
    TimedOut,
    #[error("the file is larger than {0} bytes")]
    TooLarge(u64),
    #[error("the server granted options that were not asked for")]
    Options,
}

/// One file being read.
#[derive(Debug)]
pub struct Client {
    config: Config,
    state: State,
}

#[derive(Debug)]
enum State {
    Idle,
    Asking {
        tries: u32,
        again: Instant,
    },
    Reading(Reading),
    /// The file is whole; the server may not have heard so (RFC 1350, 6).
    Finished {
        port: u16,
        blocks: u64,
    },
    Failed,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    /// The server's port of this transfer.
    port: u16,
    block: usize,
    window: u64,
    /// Blocks received in order.
    received: u64,
    /// Blocks acknowledged.
    acked: u64,
    size: u64,
    tries: u32,
    again: Instant,
    /// A gap was reported; not more than once until it is filled.
    gap: bool,
}

impl Client {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            state: State::Idle,
        }
    }

    pub fn handle(&mut self, now: Instant, event: Event<'_>) -> Vec<Action> {
        match event {
            Event::Start => {
                self.state = State::Asking {
                    tries: 0,
                    again: now + self.config.wait,
                };
                vec![self.request()]
            }
            Event::Packet { port, bytes } => match Packet::decode(bytes) {
                Ok(packet) => self.packet(now, port, packet),
                Err(_) => Vec::new(),
            },
            Event::Timer => self.timer(now),
        }
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        match &self.state {
            State::Idle | State::Finished { .. } | State::Failed => None,
            State::Asking { again, .. } => Some(*again),
            State::Reading(reading) => Some(reading.again),
        }
    }

    fn request(&self) -> Action {
        let mut options = vec![("tsize".to_owned(), "0".to_owned())];
        if self.config.block != DEFAULT_BLOCK {
            options.push((
                "blksize".to_owned(),
                self.config.block.clamp(MIN_BLOCK, MAX_BLOCK).to_string(),
            ));
        }
        if self.config.window > 1 {
            options.push(("windowsize".to_owned(), self.config.window.to_string()));
        }
        let packet = Packet::Read {
            file: self.config.file.clone(),
            mode: "octet".to_owned(),
            options,
        };
        Action::Send {
            port: PORT,
            bytes: packet.encode(),
        }
    }

    fn packet(&mut self, now: Instant, port: u16, packet: Packet<'_>) -> Vec<Action> {
        match &self.state {
            State::Reading(reading) if reading.port != port => {
                return vec![error(port, ErrorCode::UNKNOWN_ID, "another transfer")];
            }
            State::Finished { port: of, blocks }
                if *of == port && matches!(packet, Packet::Data { .. }) =>
            {
                return vec![ack(port, *blocks as u16)];
            }
            State::Reading(_) | State::Asking { .. } => {}
            State::Idle | State::Finished { .. } | State::Failed => return Vec::new(),
        }
        match packet {
            Packet::OptionAck { options } => self.granted(now, port, &options),
            Packet::Data { block, data } => self.data(now, port, block, data),
            Packet::Error { code, message } => self.fail(Failure::Refused { code, message }),
            Packet::Read { .. } | Packet::Write { .. } | Packet::Ack { .. } => Vec::new(),
        }
    }

    fn granted(&mut self, now: Instant, port: u16, options: &[(String, String)]) -> Vec<Action> {
        match &self.state {
            State::Asking { .. } => {}
            // Our ACK 0 was lost.
            State::Reading(reading) if reading.received == 0 => return vec![ack(port, 0)],
            State::Reading(_) | State::Idle | State::Finished { .. } | State::Failed => {
                return Vec::new();
            }
        }
        let block = number(options, "blksize").unwrap_or(DEFAULT_BLOCK.into());
        let window = number(options, "windowsize").unwrap_or(1);
        let most = self.config.block.max(DEFAULT_BLOCK);
        if !(u64::from(MIN_BLOCK)..=most.into()).contains(&block)
            || !(1..=self.config.window.max(1).into()).contains(&window)
        {
            let mut actions = vec![error(port, ErrorCode::OPTIONS, "not what was asked for")];
            actions.extend(self.fail(Failure::Options));
            return actions;
        }
        if number(options, "tsize").is_some_and(|size| size > self.config.max_size) {
            return self.too_large(port);
        }
        self.state = State::Reading(self.begin(now, port, block as usize, window));
        vec![ack(port, 0)]
    }

    fn begin(&self, now: Instant, port: u16, block: usize, window: u64) -> Reading {
        Reading {
            port,
            block,
            window,
            received: 0,
            acked: 0,
            size: 0,
            tries: 0,
            again: now + self.config.wait,
            gap: false,
        }
    }

    fn data(&mut self, now: Instant, port: u16, number: u16, data: &[u8]) -> Vec<Action> {
        let mut reading = match &self.state {
            State::Reading(reading) => *reading,
            // The server knows no options.
            State::Asking { .. } => self.begin(now, port, DEFAULT_BLOCK.into(), 1),
            State::Idle | State::Finished { .. } | State::Failed => return Vec::new(),
        };
        if data.len() > reading.block {
            return Vec::new();
        }
        if number != (reading.received + 1) as u16 {
            // Something is missing, or our ACK was: say once how far we are.
            if reading.gap && reading.window > 1 {
                return Vec::new();
            }
            reading.gap = true;
            reading.acked = reading.received;
            self.state = State::Reading(reading);
            return vec![ack(port, reading.received as u16)];
        }
        if reading.size + data.len() as u64 > self.config.max_size {
            return self.too_large(port);
        }
        reading.received += 1;
        reading.size += data.len() as u64;
        reading.gap = false;
        reading.tries = 0;
        reading.again = now + self.config.wait;
        let last = data.len() < reading.block;
        let mut actions = vec![Action::Write(data.to_vec())];
        if last || reading.received - reading.acked >= reading.window {
            reading.acked = reading.received;
            actions.push(ack(port, reading.received as u16));
        }
        if last {
            self.state = State::Finished {
                port,
                blocks: reading.received,
            };
            actions.push(Action::Done { size: reading.size });
        } else {
            self.state = State::Reading(reading);
        }
        actions
    }

    fn too_large(&mut self, port: u16) -> Vec<Action> {
        let mut actions = vec![error(port, ErrorCode::DISK_FULL, "too large")];
        actions.extend(self.fail(Failure::TooLarge(self.config.max_size)));
        actions
    }

    fn timer(&mut self, now: Instant) -> Vec<Action> {
        let (wait, repeats) = (self.config.wait, self.config.repeats);
        let (tries, again) = match &mut self.state {
            State::Asking { tries, again } => (tries, again),
            State::Reading(reading) => (&mut reading.tries, &mut reading.again),
            State::Idle | State::Finished { .. } | State::Failed => return Vec::new(),
        };
        if *again > now {
            return Vec::new();
        }
        if *tries >= repeats {
            return self.fail(Failure::TimedOut);
        }
        *tries += 1;
        *again = now + wait * 2u32.pow((*tries).min(4));
        match &mut self.state {
            State::Reading(reading) => {
                reading.acked = reading.received;
                reading.gap = false;
                vec![ack(reading.port, reading.received as u16)]
            }
            State::Asking { .. } | State::Idle | State::Finished { .. } | State::Failed => {
                vec![self.request()]
            }
        }
    }

    fn fail(&mut self, failure: Failure) -> Vec<Action> {
        self.state = State::Failed;
        vec![Action::Failed(failure)]
    }
}

fn ack(port: u16, block: u16) -> Action {
    Action::Send {
        port,
        bytes: Packet::Ack { block }.encode(),
    }
}

fn error(port: u16, code: ErrorCode, message: &str) -> Action {
    Action::Send {
        port,
        bytes: Packet::Error {
            code,
            message: message.to_owned(),
        }
        .encode(),
    }
}
