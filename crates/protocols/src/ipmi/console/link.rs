//! An open session, seen from the console.

use std::time::Instant;

use super::Request;
use crate::ipmi::crypto::{Exchange, Keys};
use crate::ipmi::window::Window;
use crate::ipmi::wire::Packet;
use crate::ipmi::wire::message::Message;
use crate::ipmi::wire::session::{PayloadKind, V20};

/// An open session.
#[derive(Debug)]
pub(super) struct Link {
    keys: Keys,
    console_session: u32,
    pub(super) bmc_session: u32,
    next_sequence: u32,
    /// Of the next message: six bits.
    message_sequence: u8,
    window: Window,
    pub(super) heard_at: Instant,
}

impl Link {
    pub(super) fn new(now: Instant, exchange: &Exchange, keys: Keys) -> Self {
        Self {
            keys,
            console_session: exchange.console_session,
            bmc_session: exchange.bmc_session,
            next_sequence: 1,
            message_sequence: 0,
            window: Window::default(),
            heard_at: now,
        }
    }

    /// The request under its own number, which its response will carry.
    pub(super) fn number(&mut self, request: Request) -> Message {
        let sequence = self.message_sequence;
        self.message_sequence = (sequence + 1) & 0x3f;
        Message::request(request.net_fn, request.command, sequence, request.data)
    }

    pub(super) fn seal(&mut self, message: &Message, iv: [u8; 16]) -> Vec<u8> {
        self.seal_payload(PayloadKind::Ipmi, &message.encode(), iv)
    }

    pub(super) fn seal_payload(
        &mut self,
        kind: PayloadKind,
        payload: &[u8],
        iv: [u8; 16],
    ) -> Vec<u8> {
        let sequence = self.next_sequence;
        self.next_sequence = sequence.checked_add(1).unwrap_or(1);
        let packet = self
            .keys
            .seal(kind, self.bmc_session, sequence, payload, iv);
        Packet::V20(packet).encode()
    }

    pub(super) fn seal_close(&mut self, iv: [u8; 16]) -> Vec<u8> {
        let close = self.number(Request::close_session(self.bmc_session));
        self.seal(&close, iv)
    }

    /// Completion code and data, if the packet answers the request.
    pub(super) fn answer_to(
        &mut self,
        now: Instant,
        request: &Message,
        packet: &V20,
    ) -> Option<(u8, Vec<u8>)> {
        let payload = self.open_payload(now, PayloadKind::Ipmi, packet)?;
        let message = Message::decode(&payload).ok()?;
        let pairs = message.net_fn == request.net_fn | 1
            && message.command == request.command
            && message.sequence == request.sequence;
        let (completion, data) = message.data.split_first().filter(|_| pairs)?;
        Some((*completion, data.to_vec()))
    }

    /// The payload of a packet of this session that is of this kind, genuine, and not seen before.
    pub(super) fn open_payload(
        &mut self,
        now: Instant,
        kind: PayloadKind,
        packet: &V20,
    ) -> Option<Vec<u8>> {
        if packet.session != self.console_session || packet.kind != kind {
            return None;
        }
        let payload = self.keys.open(packet).ok()?;
        if !self.window.accept_ahead(packet.sequence) {
            return None;
        }
        self.heard_at = now;
        Some(payload)
    }
}
