//! Serial over LAN.

use super::*;
use crate::ipmi::wire::sol::{NACK, Sol, operation, status};

fn packet(sequence: u8, acked: u8, accepted: u8, flags: u8, characters: &[u8]) -> Vec<u8> {
    Sol {
        sequence,
        acked,
        accepted,
        flags,
        characters: characters.to_vec(),
    }
    .encode()
}

impl Client {
    fn with_sol() -> Self {
        let mut client = Self::admin();
        client.activate_sol();
        client.actions.clear();
        client
    }

    /// The SOL packets received since last asked.
    fn serial(&mut self) -> Vec<Sol> {
        let packets = self
            .received
            .drain(..)
            .filter(|(kind, _)| *kind == PayloadKind::Sol);
        packets
            .map(|(_, payload)| Sol::decode(&payload).unwrap())
            .collect()
    }

    fn prints(&mut self, text: &[u8]) {
        self.event(Event::ConsoleOutput(text.to_vec()));
    }
}

#[test]
fn output_goes_out_packet_by_packet_as_the_console_acknowledges() {
    let mut client = Client::with_sol();
    client.prints(&[b'a'; 450]);
    client.prints(b"end");
    let mut lengths = Vec::new();
    while let [sol] = &client.serial()[..] {
        lengths.push((sol.sequence, sol.characters.len()));
        client.send(
            PayloadKind::Sol,
            &packet(0, sol.sequence, sol.characters.len() as u8, 0, b""),
        );
    }
    assert_eq!(lengths, [(1, 200), (2, 200), (3, 53)]);
    assert_eq!(client.bmc.sol.wake_at(), None);
}

#[test]
fn unacknowledged_output_is_resent_then_dropped() {
    let mut client = Client::with_sol();
    client.prints(b"lost");
    let mut sent = 0;
    while let Some(at) = client.bmc.sol.wake_at() {
        sent += client
            .serial()
            .iter()
            .filter(|sol| sol.characters == b"lost" && sol.sequence == 1)
            .count();
        client.now = at;
        client.event(Event::Timer);
    }
    assert_eq!(sent, 8, "once, and seven retries");
    client.prints(b"later");
    assert_eq!(client.serial()[0].characters, b"later");
}

#[test]
fn refused_characters_are_sent_again_after_a_pause() {
    let mut client = Client::with_sol();
    client.prints(b"abcdef");
    client.serial();
    client.send(PayloadKind::Sol, &packet(0, 1, 2, NACK, b""));
    assert!(client.serial().is_empty(), "not at once");
    client.now = client.bmc.sol.wake_at().unwrap();
    client.event(Event::Timer);
    let sent = client.serial();
    assert_eq!(
        (sent[0].sequence, &sent[0].characters[..]),
        (2, &b"cdef"[..])
    );
}

#[test]
fn input_is_acknowledged_and_a_repeated_packet_is_typed_once() {
    let mut client = Client::with_sol();
    for _ in 0..2 {
        client.send(PayloadKind::Sol, &packet(1, 0, 0, 0, b"ls\r"));
        let answer = client.serial();
        assert_eq!(
            (answer[0].acked, answer[0].accepted, answer[0].sequence),
            (1, 3, 0)
        );
    }
    assert_eq!(client.actions, [Action::ConsoleInput(b"ls\r".to_vec())]);
}

#[test]
fn breaks_pass_both_ways() {
    let mut client = Client::with_sol();
    client.send(PayloadKind::Sol, &packet(1, 0, 0, operation::BREAK, b""));
    assert_eq!(client.actions, [Action::ConsoleBreak]);
    client.serial();
    client.event(Event::ConsoleBreak);
    assert_eq!(client.serial()[0].flags, status::BREAK_DETECTED);
}

#[test]
fn a_console_that_falls_far_behind_is_told_that_characters_are_gone() {
    let mut client = Client::with_sol();
    client.prints(b"first");
    client.prints(&vec![b'x'; 70_000]);
    let [first, told] = &client.serial()[..] else {
        panic!("one packet of characters, one of status")
    };
    assert_eq!((&first.characters[..], first.flags), (&b"first"[..], 0));
    assert_eq!((told.sequence, told.flags), (0, status::OVERRUN));
}

#[test]
fn the_port_has_one_owner_and_is_free_when_the_session_ends() {
    let mut client = Client::with_sol();
    assert_eq!(client.ask(0x06, 0x48, &[1, 1, 0xc0, 0, 0, 0]).0, 0x80);
    assert_eq!(client.ask(0x06, 0x4a, &[1]), (0, vec![1, 1, 0]));
    client.now += seconds(61);
    client.event(Event::Timer);
    assert_eq!(client.actions, [Action::SolDeactivated]);
    client.prints(b"nobody hears");
    assert!(client.serial().is_empty());
}

#[test]
fn the_port_needs_encryption_privilege_and_to_be_enabled() {
    let mut viewer = Client::login(bmc(), "viewer", Privilege::User);
    assert_eq!(viewer.ask(0x06, 0x48, &[1, 1, 0xc0, 0, 0, 0]).0, 0xd4);
    let mut client = Client::admin();
    assert_eq!(
        client.ask(0x06, 0x48, &[1, 1, 0x40, 0, 0, 0]).0,
        0x84,
        "unencrypted"
    );
    assert_eq!(client.ask(0x0c, 0x21, &[1, 1, 0]).0, 0);
    assert_eq!(
        client.ask(0x06, 0x48, &[1, 1, 0xc0, 0, 0, 0]).0,
        0x81,
        "disabled"
    );
    assert_eq!(client.ask(0x0c, 0x22, &[1, 1, 0, 0]), (0, vec![0x11, 0]));
}
