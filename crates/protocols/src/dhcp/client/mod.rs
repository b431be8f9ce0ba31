//! A DHCP client: for the agent in its ramdisk, and for the firmware of simulated servers.
//!
//! ```text
//!             offer              ack              T1              T2
//!  selecting --------> requesting -----> bound --------> renewing ----> rebinding
//!      ^                  | nak, no answer ^                | ack          | ack  | lease over, nak
//!      +------------------+                +----------------+--------------+      v
//!      +-----------------------------------------------------------------------  lost
//! ```

mod lease;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use dhcproto::v4::{
    Architecture, DhcpOption as O, Flags, Message, MessageType, Opcode, OptionCode,
};
use model::Mac;

pub use self::lease::Lease;
use super::packet;

/// Who asks, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub mac: Mac,
    /// Sent as option 61 where it differs from the MAC.
    pub client_id: Option<Vec<u8>>,
    pub hostname: Option<String>,
    /// Ask for answers by broadcast: for those that cannot receive unicast before they have an address.
    pub broadcast: bool,
    /// The firmware that boots, if it is one.
    pub pxe: Option<Pxe>,
    pub retry: Retry,
    /// Where transaction ids and jitter come from: two clients need two seeds.
    pub seed: u64,
}

/// What boot firmware adds to its packets (RFC 4578).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pxe {
    /// `PXEClient` or `HTTPClient`; the architecture is added to it.
    pub class: String,
    pub arch: u16,
    /// Network interface: type, major, minor.
    pub interface: (u8, u8, u8),
    pub uuid: Option<[u8; 16]>,
    /// Such as `iPXE`.
    pub user_class: Option<String>,
    /// iPXE's own options (175).
    pub ipxe: Option<Vec<u8>>,
    /// How long to hope for an offer with a boot file when the first has none.
    pub patience: Duration,
}

/// How often to ask (RFC 2131, 4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    pub first: Duration,
    pub most: Duration,
    /// Requests without answer until the search begins anew.
    pub requests: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(4),
            most: Duration::from_secs(64),
            requests: 4,
        }
    }
}

/// What happens to the client.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    Start,
    /// A packet for port 68 at our MAC.
    Packet {
        bytes: &'a [u8],
    },
    /// The address given to us is used by someone else.
    Conflict,
    /// Give the address back and be quiet.
    Stop,
    Timer,
}

/// What the client wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Send {
        bytes: Vec<u8>,
        dest: Dest,
    },
    /// Use this address, or go on using it with new times.
    Bound(Lease),
    /// Stop using the address.
    Lost(Lost),
}

/// Where a packet goes, port 67.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dest {
    /// From 0.0.0.0, or from our address when rebinding.
    Broadcast,
    Unicast {
        server: Ipv4Addr,
    },
}

/// Why an address is no longer ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Expired,
    Refused,
    Conflict,
    Stopped,
}

/// One interface's client.
#[derive(Debug)]
pub struct Client {
    config: Config,
    state: State,
    dice: u64,
}

#[derive(Debug, Clone)]
enum State {
    Stopped,
    /// Quiet for a while, then from the beginning.
    Waiting {
        until: Instant,
    },
    Selecting {
        ask: Ask,
        spare: Option<Box<Lease>>,
    },
    Requesting {
        ask: Ask,
        offer: Box<Lease>,
    },
    Bound {
        lease: Box<Lease>,
        since: Instant,
    },
    Renewing {
        lease: Box<Lease>,
        since: Instant,
        ask: Ask,
    },
    Rebinding {
        lease: Box<Lease>,
        since: Instant,
        ask: Ask,
    },
}

/// A question that is repeated until it is answered.
#[derive(Debug, Clone, Copy)]
struct Ask {
    xid: u32,
    started: Instant,
    tries: u32,
    again: Instant,
}

/// Pause after a refusal or a conflict (RFC 2131, 3.1.5): servers that refuse at once would be asked without end.
const PAUSE: Duration = Duration::from_secs(10);
/// Renewals are not repeated more often (RFC 2131, 4.4.5).
const RENEW_AT_LEAST: Duration = Duration::from_mins(1);

impl Client {
    pub fn new(config: Config) -> Self {
        Self {
            dice: config.seed,
            config,
            state: State::Stopped,
        }
    }

    pub fn handle(&mut self, now: Instant, event: Event<'_>) -> Vec<Action> {
        match event {
            Event::Start => self.discover(now),
            Event::Packet { bytes } => match packet::decode(bytes) {
                Ok(message)
                    if message.opcode() == Opcode::BootReply
                        && message.chaddr() == self.config.mac.octets() =>
                {
                    self.answer(now, &message)
                }
                Ok(_) | Err(_) => Vec::new(),
            },
            Event::Conflict => self.decline(now),
            Event::Stop => self.stop(),
            Event::Timer => self.timer(now),
        }
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        match &self.state {
            State::Stopped => None,
            State::Waiting { until } => Some(*until),
            State::Selecting { ask, .. } | State::Requesting { ask, .. } => Some(ask.again),
            State::Bound { lease, since } => Some(*since + lease.renew),
            State::Renewing { lease, since, ask } => Some(ask.again.min(*since + lease.rebind)),
            State::Rebinding { lease, since, ask } => Some(ask.again.min(*since + lease.lease)),
        }
    }

    /// The lease in use.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Stopped
            | State::Waiting { .. }
            | State::Selecting { .. }
            | State::Requesting { .. } => None,
            State::Bound { lease, .. }
            | State::Renewing { lease, .. }
            | State::Rebinding { lease, .. } => Some(lease),
        }
    }

    fn discover(&mut self, now: Instant) -> Vec<Action> {
        let ask = self.ask(now);
        self.state = State::Selecting { ask, spare: None };
        vec![self.send_discover(ask, now)]
    }

    fn send_discover(&self, ask: Ask, now: Instant) -> Action {
        let message = self.message(MessageType::Discover, ask.xid, now - ask.started);
        Action::Send {
            bytes: packet::encode(&message),
            dest: Dest::Broadcast,
        }
    }

    fn answer(&mut self, now: Instant, message: &Message) -> Vec<Action> {
        let Some(kind) = message.opts().msg_type() else {
            return Vec::new();
        };
        match self.state.clone() {
            State::Stopped | State::Waiting { .. } | State::Bound { .. } => Vec::new(),
            State::Selecting { ask, .. }
            | State::Requesting { ask, .. }
            | State::Renewing { ask, .. }
            | State::Rebinding { ask, .. }
                if ask.xid != message.xid() =>
            {
                Vec::new()
            }
            State::Selecting { ask, spare } => match kind {
                MessageType::Offer => self.offered(now, ask, spare.as_deref(), message),
                _ => Vec::new(),
            },
            State::Requesting { ask, offer } => match (kind, lease::read(message)) {
                (MessageType::Ack, Some(lease)) if lease.server == offer.server => {
                    self.bound(ask.started, lease)
                }
                (MessageType::Nak, _) => self.pause(now),
                _ => Vec::new(),
            },
            State::Renewing { ask, .. } | State::Rebinding { ask, .. } => {
                match (kind, lease::read(message)) {
                    (MessageType::Ack, Some(lease)) => self.bound(ask.started, lease),
                    (MessageType::Nak, _) => {
                        self.pause(now);
                        vec![Action::Lost(Lost::Refused)]
                    }
                    _ => Vec::new(),
                }
            }
        }
    }

    /// The first offer wins, unless firmware may hope for one that it can boot from.
    fn offered(
        &mut self,
        now: Instant,
        mut ask: Ask,
        spare: Option<&Lease>,
        message: &Message,
    ) -> Vec<Action> {
        let Some(offer) = lease::read(message) else {
            return Vec::new();
        };
        match &self.config.pxe {
            Some(pxe) if offer.boot_file.is_none() => {
                if spare.is_none() {
                    ask.again = now + pxe.patience;
                    self.state = State::Selecting {
                        ask,
                        spare: Some(Box::new(offer)),
                    };
                }
                Vec::new()
            }
            Some(_) | None => self.request(now, offer),
        }
    }

    fn request(&mut self, now: Instant, offer: Lease) -> Vec<Action> {
        let ask = self.ask(now);
        let action = self.send_request(ask, &offer, now);
        self.state = State::Requesting {
            ask,
            offer: Box::new(offer),
        };
        vec![action]
    }

    fn send_request(&self, ask: Ask, offer: &Lease, now: Instant) -> Action {
        let mut message = self.message(MessageType::Request, ask.xid, now - ask.started);
        message
            .opts_mut()
            .insert(O::RequestedIpAddress(offer.address));
        message.opts_mut().insert(O::ServerIdentifier(offer.server));
        Action::Send {
            bytes: packet::encode(&message),
            dest: Dest::Broadcast,
        }
    }

    /// The lease runs from the moment it was asked for.
    fn bound(&mut self, since: Instant, lease: Lease) -> Vec<Action> {
        self.state = State::Bound {
            lease: Box::new(lease.clone()),
            since,
        };
        vec![Action::Bound(lease)]
    }

    fn pause(&mut self, now: Instant) -> Vec<Action> {
        self.state = State::Waiting {
            until: now + PAUSE.min(self.config.retry.most),
        };
        Vec::new()
    }

    fn decline(&mut self, now: Instant) -> Vec<Action> {
        let Some(lease) = self.lease().cloned() else {
            return Vec::new();
        };
        let xid = self.roll() as u32;
        let mut message = self.bare(MessageType::Decline, xid);
        message
            .opts_mut()
            .insert(O::RequestedIpAddress(lease.address));
        message.opts_mut().insert(O::ServerIdentifier(lease.server));
        self.pause(now);
        vec![
            Action::Send {
                bytes: packet::encode(&message),
                dest: Dest::Broadcast,
            },
            Action::Lost(Lost::Conflict),
        ]
    }

    fn stop(&mut self) -> Vec<Action> {
        let lease = self.lease().cloned();
        self.state = State::Stopped;
        let Some(lease) = lease else {
            return Vec::new();
        };
        let xid = self.roll() as u32;
        let mut message = self.bare(MessageType::Release, xid);
        message.set_ciaddr(lease.address);
        message.opts_mut().insert(O::ServerIdentifier(lease.server));
        vec![
            Action::Send {
                bytes: packet::encode(&message),
                dest: Dest::Unicast {
                    server: lease.server,
                },
            },
            Action::Lost(Lost::Stopped),
        ]
    }

    fn timer(&mut self, now: Instant) -> Vec<Action> {
        if self.wake_at().is_none_or(|at| at > now) {
            return Vec::new();
        }
        match self.state.clone() {
            State::Stopped => Vec::new(),
            State::Waiting { .. } => self.discover(now),
            State::Selecting {
                spare: Some(offer), ..
            } => self.request(now, *offer),
            State::Selecting { ask, spare: None } => {
                let ask = self.repeat(ask, now);
                self.state = State::Selecting { ask, spare: None };
                vec![self.send_discover(ask, now)]
            }
            State::Requesting { ask, .. } if ask.tries >= self.config.retry.requests => {
                self.discover(now)
            }
            State::Requesting { ask, offer } => {
                let ask = self.repeat(ask, now);
                let action = self.send_request(ask, &offer, now);
                self.state = State::Requesting { ask, offer };
                vec![action]
            }
            State::Bound { lease, since } => {
                let ask = self.ask(now);
                self.renew(now, lease, since, ask)
            }
            State::Renewing { lease, since, ask } | State::Rebinding { lease, since, ask } => {
                self.renew(now, lease, since, ask)
            }
        }
    }

    /// Asks for more time: our server from T1, any server from T2 (RFC 2131, 4.4.5).
    fn renew(&mut self, now: Instant, lease: Box<Lease>, since: Instant, ask: Ask) -> Vec<Action> {
        if now >= since + lease.lease {
            let mut actions = vec![Action::Lost(Lost::Expired)];
            actions.extend(self.discover(now));
            return actions;
        }
        let rebind_at = since + lease.rebind;
        let (end, dest) = if now < rebind_at {
            (
                rebind_at,
                Dest::Unicast {
                    server: lease.server,
                },
            )
        } else {
            (since + lease.lease, Dest::Broadcast)
        };
        // Each try is a question of its own: the new lease counts from the one that is answered.
        let again = (now
            + ((end - now) / 2).max(
                RENEW_AT_LEAST
                    .min(lease.lease / 8)
                    .max(Duration::from_secs(1)),
            ))
        .min(end);
        let ask = Ask {
            xid: self.roll() as u32,
            started: now,
            tries: ask.tries + 1,
            again,
        };
        let mut message = self.message(MessageType::Request, ask.xid, Duration::ZERO);
        message
            .set_ciaddr(lease.address)
            .set_flags(Flags::default());
        self.state = match dest {
            Dest::Unicast { .. } => State::Renewing { lease, since, ask },
            Dest::Broadcast => State::Rebinding { lease, since, ask },
        };
        vec![Action::Send {
            bytes: packet::encode(&message),
            dest,
        }]
    }

    fn ask(&mut self, now: Instant) -> Ask {
        Ask {
            xid: self.roll() as u32,
            started: now,
            tries: 1,
            again: now + self.jitter(self.config.retry.first),
        }
    }

    fn repeat(&mut self, ask: Ask, now: Instant) -> Ask {
        let retry = &self.config.retry;
        let wait = retry
            .first
            .saturating_mul(1 << ask.tries.min(16))
            .min(retry.most);
        Ask {
            tries: ask.tries.saturating_add(1),
            again: now + self.jitter(wait),
            ..ask
        }
    }

    /// A quarter of the first wait, less or more.
    fn jitter(&mut self, wait: Duration) -> Duration {
        let quarter = self.config.retry.first / 4;
        let share = (self.roll() >> 40) as f64 / (1u64 << 24) as f64;
        wait.saturating_sub(quarter) + (quarter * 2).mul_f64(share)
    }

    /// SplitMix64.
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A packet that says who we are and nothing of what we want.
    fn bare(&self, kind: MessageType, xid: u32) -> Message {
        let mut message = packet::blank(Opcode::BootRequest, xid, self.config.mac);
        message.opts_mut().insert(O::MessageType(kind));
        if let Some(id) = &self.config.client_id {
            message.opts_mut().insert(O::ClientIdentifier(id.clone()));
        }
        message
    }

    fn message(&self, kind: MessageType, xid: u32, elapsed: Duration) -> Message {
        let mut message = self.bare(kind, xid);
        message.set_secs(elapsed.as_secs().min(u64::from(u16::MAX)) as u16);
        if self.config.broadcast {
            message.set_flags(Flags::default().set_broadcast());
        }
        let options = message.opts_mut();
        options.insert(O::MaxMessageSize(1500));
        options.insert(O::ParameterRequestList(
            [
                1, 3, 6, 12, 15, 26, 28, 42, 43, 51, 54, 58, 59, 60, 66, 67, 150,
            ]
            .map(OptionCode::from)
            .to_vec(),
        ));
        if let Some(name) = &self.config.hostname {
            options.insert(O::Hostname(name.clone()));
        }
        if let Some(pxe) = &self.config.pxe {
            let (kind, major, minor) = pxe.interface;
            let class = format!(
                "{}:Arch:{:05}:UNDI:{major:03}{minor:03}",
                pxe.class, pxe.arch
            );
            options.insert(O::ClassIdentifier(class.into_bytes()));
            options.insert(O::ClientSystemArchitecture(Architecture(pxe.arch)));
            options.insert(O::ClientNetworkInterface(kind, major, minor));
            if let Some(uuid) = pxe.uuid {
                options.insert(O::ClientMachineIdentifier([&[0][..], &uuid].concat()));
            }
            if let Some(class) = &pxe.user_class {
                options.insert(O::UserClass(class.clone().into_bytes()));
            }
            if let Some(data) = &pxe.ipxe {
                options.insert(packet::raw_option(175, data.clone()));
            }
        }
        message
    }
}
