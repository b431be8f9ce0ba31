//! The managed system's side: a BMC that answers consoles and tells its server what to do.
//!
//! ```text
//!              Event                        Action
//!   UDP  ── Datagram ──▶ ┌─────┐ ── Send ─────────────▶ UDP
//!   server ── View ────▶ │ Bmc │ ── Chassis, BootFlags ▶ server
//!   serial ── output ──▶ └─────┘ ── ConsoleInput ─────▶ serial port
//!   clock ── Timer (at wake_at)
//! ```
//!
//! `sessions` decides who is believed, `table` which command needs which privilege, and a file per subject what the
//! command does: `app`, `channel`, `chassis`, `sel`, `sdr`, `fru`, `sol`.

#![expect(
    clippy::unnecessary_wraps,
    reason = "commands share one signature, so that they fit in one table"
)]

mod app;
mod channel;
mod chassis;
mod config;
mod fru;
mod sdr;
mod sel;
mod sessions;
mod sol;
mod table;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Instant;

use model::Secret;

pub use config::{Asset, Config, Device, Lan, Privilege, User};
pub use sdr::Readings;

use super::chassis::{BootFlags, Control, Identify, PowerState, RestorePolicy};
use super::crypto::Randoms;
use super::wire::message::Message;
use super::wire::session::{Auth, PayloadKind, V15, V20};
use super::wire::{Packet, asf, setup};
use sessions::Sessions;
use table::After;

/// One BMC. The shell owns its UDP socket; all else is in here.
#[derive(Debug)]
pub struct Bmc {
    config: Config,
    randoms: Randoms,
    sessions: Sessions,
    view: View,
    chassis: chassis::State,
    sel: sel::Log,
    sdr: sdr::Repository,
    fru: Vec<u8>,
    sol: sol::Port,
}

/// What a BMC must be told when it is made, besides its configuration.
#[derive(Debug)]
pub struct Start {
    pub now: Instant,
    /// Wall clock at `now`, in seconds since 1970, for the event log.
    pub unix_seconds: u32,
    /// From the operating system's random source. A seed must not serve twice.
    pub seed: Secret<[u8; 32]>,
}

/// The server as its BMC sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    pub power: PowerState,
    pub readings: Readings,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Datagram {
        from: SocketAddr,
        bytes: Vec<u8>,
    },
    /// The server's state, now or changed.
    View(View),
    /// The firmware has read the boot flags: those for one boot are used up.
    Booted,
    /// Boot flags set by other means than IPMI; they do not expire by themselves.
    BootFlags(BootFlags),
    /// Bytes from the server's serial port.
    ConsoleOutput(Vec<u8>),
    /// The server's serial port sent a break.
    ConsoleBreak,
    Timer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Send {
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    Chassis(Control),
    /// What the firmware is to find at its next start.
    SetBootFlags(BootFlags),
    SetRestorePolicy(RestorePolicy),
    Identify(Identify),
    /// Bytes for the server's serial port.
    ConsoleInput(Vec<u8>),
    /// Send a break on the server's serial port.
    ConsoleBreak,
    SolActivated {
        by: SocketAddr,
    },
    SolDeactivated,
    /// The BMC restarted itself: sessions are gone.
    Restarted {
        cold: bool,
    },
}

impl Bmc {
    pub fn new(config: Config, start: Start) -> Self {
        Self {
            randoms: Randoms::new(start.seed),
            sessions: Sessions::new(),
            view: View {
                power: PowerState::Off,
                readings: Readings::default(),
            },
            chassis: chassis::State::new(),
            sel: sel::Log::new(start.now, start.unix_seconds),
            sdr: sdr::Repository::new(),
            fru: fru::render(&config.asset),
            sol: sol::Port::new(),
            config,
        }
    }

    pub fn handle(&mut self, now: Instant, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.expire(now, &mut actions);
        match event {
            Event::Datagram { from, bytes } => self.datagram(now, from, &bytes, &mut actions),
            Event::View(view) => self.see(now, view),
            Event::Booted => self.chassis.booted(&mut actions),
            Event::BootFlags(flags) => self.chassis.set_flags_from_outside(flags),
            Event::ConsoleOutput(bytes) => self.sol.output(&bytes),
            Event::ConsoleBreak => self.sol.broke(),
            Event::Timer => {}
        }
        self.pump(now, &mut actions);
        actions
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        [
            self.sessions.wake_at(),
            self.chassis.wake_at(),
            self.sol.wake_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The flags the firmware would read now.
    pub fn boot_flags(&self) -> BootFlags {
        self.chassis.flags()
    }

    pub fn restore_policy(&self) -> RestorePolicy {
        self.chassis.restore_policy
    }

    fn datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        bytes: &[u8],
        actions: &mut Vec<Action>,
    ) {
        match Packet::decode(bytes) {
            Ok(Packet::Asf(asf::Message::Ping { tag })) => {
                let pong = Packet::Asf(asf::Message::Pong {
                    tag,
                    pong: asf::Pong::IPMI,
                });
                actions.push(Action::Send {
                    to: from,
                    bytes: pong.encode(),
                });
            }
            Ok(Packet::V15(packet)) => self.before_session_15(now, from, &packet, actions),
            Ok(Packet::V20(packet)) if packet.session == 0 => {
                self.before_session(now, from, &packet, actions);
            }
            Ok(Packet::V20(packet)) => self.in_session(now, from, &packet, actions),
            // Noise on an open port: a BMC says nothing to it.
            Ok(Packet::Asf(asf::Message::Pong { .. })) | Err(_) => {}
        }
    }

    /// IPMI 1.5 framing serves for questions before a session; 1.5 sessions themselves are not offered.
    fn before_session_15(
        &mut self,
        now: Instant,
        from: SocketAddr,
        packet: &V15,
        actions: &mut Vec<Action>,
    ) {
        if packet.auth != Auth::None || packet.session != 0 {
            return;
        }
        if let Some(reply) = self.ask_without_session(now, &packet.payload) {
            let reply = Packet::V15(V15::outside_session(reply));
            actions.push(Action::Send {
                to: from,
                bytes: reply.encode(),
            });
        }
    }

    fn before_session(
        &mut self,
        now: Instant,
        from: SocketAddr,
        packet: &V20,
        actions: &mut Vec<Action>,
    ) {
        if packet.encrypted || packet.trailer.is_some() {
            return;
        }
        let payload = &packet.payload;
        let reply = match packet.kind {
            PayloadKind::OpenRequest => setup::OpenRequest::decode(payload).ok().map(|open| {
                (
                    PayloadKind::OpenResponse,
                    self.open_session(now, from, &open).encode(),
                )
            }),
            PayloadKind::Rakp1 => setup::Rakp1::decode(payload)
                .ok()
                .map(|rakp1| (PayloadKind::Rakp2, self.rakp1(&rakp1).encode())),
            PayloadKind::Rakp3 => setup::Rakp3::decode(payload)
                .ok()
                .and_then(|rakp3| self.rakp3(now, from, &rakp3))
                .map(|rakp4| (PayloadKind::Rakp4, rakp4.encode())),
            PayloadKind::Ipmi => self
                .ask_without_session(now, payload)
                .map(|reply| (PayloadKind::Ipmi, reply)),
            PayloadKind::Sol
            | PayloadKind::Oem { .. }
            | PayloadKind::OpenResponse
            | PayloadKind::Rakp2
            | PayloadKind::Rakp4
            | PayloadKind::Other(_) => None,
        };
        if let Some((kind, payload)) = reply {
            let reply = Packet::V20(V20::outside_session(kind, payload));
            actions.push(Action::Send {
                to: from,
                bytes: reply.encode(),
            });
        }
    }

    fn ask_without_session(&mut self, now: Instant, payload: &[u8]) -> Option<Vec<u8>> {
        let request = Message::decode(payload).ok().filter(Message::is_request)?;
        Some(table::run(self, now, None, &request).response.encode())
    }

    fn in_session(
        &mut self,
        now: Instant,
        from: SocketAddr,
        packet: &V20,
        actions: &mut Vec<Action>,
    ) {
        let Some(payload) = self
            .sessions
            .receive(now + self.config.idle_timeout, from, packet)
        else {
            return;
        };
        match packet.kind {
            PayloadKind::Ipmi => {
                if let Some(request) = Message::decode(&payload).ok().filter(Message::is_request) {
                    self.command(now, packet.session, &request, actions);
                }
            }
            PayloadKind::Sol => {
                let number = packet.sequence;
                self.sol
                    .input(now, packet.session, number, &payload, actions);
            }
            PayloadKind::Oem { .. }
            | PayloadKind::OpenRequest
            | PayloadKind::OpenResponse
            | PayloadKind::Rakp1
            | PayloadKind::Rakp2
            | PayloadKind::Rakp3
            | PayloadKind::Rakp4
            | PayloadKind::Other(_) => {}
        }
    }

    fn command(
        &mut self,
        now: Instant,
        session: u32,
        request: &Message,
        actions: &mut Vec<Action>,
    ) {
        if let Some(response) = self.sessions.answered(now, session, request) {
            self.send(session, PayloadKind::Ipmi, &response.encode(), actions);
            return;
        }
        let outcome = table::run(self, now, Some(session), request);
        self.send(
            session,
            PayloadKind::Ipmi,
            &outcome.response.encode(),
            actions,
        );
        actions.extend(outcome.actions);
        match outcome.after {
            After::Nothing => {}
            After::Remember => {
                self.sessions
                    .remember(now, session, request.clone(), outcome.response);
            }
            After::Close(closed) => self.close(closed, actions),
            After::Restart { cold } => self.restart(cold, actions),
        }
    }

    fn close(&mut self, session: u32, actions: &mut Vec<Action>) {
        self.sessions.remove(session);
        if self.sol.release(session) {
            actions.push(Action::SolDeactivated);
        }
    }

    fn restart(&mut self, cold: bool, actions: &mut Vec<Action>) {
        for session in self.sessions.ids() {
            self.close(session, actions);
        }
        actions.push(Action::Restarted { cold });
    }

    fn expire(&mut self, now: Instant, actions: &mut Vec<Action>) {
        for session in self.sessions.expired(now) {
            self.close(session, actions);
        }
        self.chassis.expire(now, actions);
    }

    fn see(&mut self, now: Instant, view: View) {
        if view.power != self.view.power {
            self.chassis.powered(now, view.power);
            self.sel.log_power(now, view.power);
        }
        self.view = view;
    }

    /// Sends what the serial port has for its console.
    fn pump(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if let Some((session, payload)) = self.sol.next(now) {
            self.send(session, PayloadKind::Sol, &payload, actions);
        }
    }

    fn send(&mut self, session: u32, kind: PayloadKind, payload: &[u8], actions: &mut Vec<Action>) {
        let iv = self.randoms.nonce();
        if let Some((to, packet)) = self.sessions.seal(session, kind, payload, iv) {
            actions.push(Action::Send {
                to,
                bytes: Packet::V20(packet).encode(),
            });
        }
    }
}
