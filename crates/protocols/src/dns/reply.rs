//! Answers written straight into the buffer they are sent from.

use super::wire::{
    AUTHORITATIVE, CHECKING_DISABLED, Question, RECURSION_AVAILABLE, RECURSION_DESIRED, RESPONSE,
    Rcode, TRUNCATED, u16_at,
};

/// The datagram size we promise and use: no fragments on any real path.
pub(super) const MAX_DATAGRAM: u16 = 1232;
/// A client without EDNS takes this much (RFC 1035, 4.2.1).
const PLAIN_DATAGRAM: u16 = 512;
const OPT_LEN: usize = 11;

/// How an answer travels, and so how long it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

impl Transport {
    fn room(self, question: &Question) -> usize {
        match (self, question.edns) {
            (Self::Tcp, _) => usize::from(u16::MAX),
            (Self::Udp, None) => usize::from(PLAIN_DATAGRAM),
            (Self::Udp, Some(edns)) => {
                usize::from(edns.payload.clamp(PLAIN_DATAGRAM, MAX_DATAGRAM))
            }
        }
    }
}

/// Says no to something that is not a question; the first twelve bytes are there.
pub fn refuse_unreadable(query: &[u8], rcode: Rcode, out: &mut Vec<u8>) {
    let id = u16_at(query, 0).unwrap_or_default();
    let asked = u16_at(query, 2).unwrap_or_default();
    out.clear();
    for word in [
        id,
        RESPONSE | (asked & 0x7900) | RECURSION_AVAILABLE | rcode.code(),
        0,
        0,
        0,
        0,
    ] {
        out.extend(word.to_be_bytes());
    }
}

/// A whole answer without records.
pub fn refuse(
    query: &[u8],
    question: &Question,
    rcode: Rcode,
    transport: Transport,
    out: &mut Vec<u8>,
) {
    begin(query, question, rcode.code(), 0, out);
    finish(question, rcode.code(), transport, [0, 0, 0], out);
}

/// Header and question. `more` are flags of ours beside those that follow from the question.
pub(super) fn begin(query: &[u8], question: &Question, rcode: u16, more: u16, out: &mut Vec<u8>) {
    let echoed = question.flags & (RECURSION_DESIRED | CHECKING_DISABLED);
    let flags = RESPONSE | echoed | RECURSION_AVAILABLE | more | (rcode & 0xf);
    out.clear();
    out.extend(question.id.to_be_bytes());
    out.extend(flags.to_be_bytes());
    out.extend([0, 1, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(question.section(query));
}

/// Cuts what is too long, adds EDNS if the client has it, and the counts of the three record sections.
pub(super) fn finish(
    question: &Question,
    rcode: u16,
    transport: Transport,
    mut counts: [u16; 3],
    out: &mut Vec<u8>,
) {
    let opt = if question.edns.is_some() { OPT_LEN } else { 0 };
    if out.len() + opt > transport.room(question) {
        out.truncate(question.end);
        out[2] |= (TRUNCATED >> 8) as u8;
        counts = [0; 3];
    }
    if let Some(edns) = question.edns {
        let dnssec_ok = if edns.dnssec_ok { 0x80 } else { 0 };
        out.extend([0, 0, 41]);
        out.extend(MAX_DATAGRAM.to_be_bytes());
        out.extend([(rcode >> 4) as u8, 0, dnssec_ok, 0, 0, 0]);
        counts[2] += 1;
    }
    for (at, count) in [6, 8, 10].into_iter().zip(counts) {
        out[at..at + 2].copy_from_slice(&count.to_be_bytes());
    }
}

pub(super) const OWN: u16 = AUTHORITATIVE;
