//! The BMC in virtual time, with a console that can misbehave.

mod client;
mod console;
mod login;
mod power;

use super::*;
use crate::ipmi::chassis::BootDevice;
use crate::ipmi::crypto::Suite;
use client::{Client, bmc, config};
use proptest::prelude::*;
use std::time::Duration;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_presence_ping_gets_a_pong_that_says_ipmi() {
    let mut bmc = bmc();
    let ping = Packet::Asf(asf::Message::Ping { tag: 9 }).encode();
    let actions = bmc.handle(
        client::start(),
        Event::Datagram {
            from: client::peer(1),
            bytes: ping,
        },
    );
    let pong = Packet::Asf(asf::Message::Pong {
        tag: 9,
        pong: asf::Pong::IPMI,
    });
    assert_eq!(
        actions,
        [Action::Send {
            to: client::peer(1),
            bytes: pong.encode()
        }]
    );
}

#[test]
fn capabilities_are_told_before_login_in_both_framings_and_power_is_not_touched() {
    let mut bmc = bmc();
    let table = [
        (
            "capabilities",
            Message::request(0x06, 0x38, 0, vec![0x8e, 4]),
            0x00,
        ),
        (
            "cipher suites",
            Message::request(0x06, 0x54, 0, vec![0x0e, 0, 0x80]),
            0x00,
        ),
        (
            "chassis control",
            Message::request(0x00, 0x02, 0, vec![1]),
            0xd4,
        ),
        (
            "session challenge of IPMI 1.5",
            Message::request(0x06, 0x39, 0, vec![0; 17]),
            0xc1,
        ),
    ];
    for (name, request, completion) in table {
        let old = Packet::V15(V15::outside_session(request.encode()));
        let new = Packet::V20(V20::outside_session(PayloadKind::Ipmi, request.encode()));
        for packet in [old, new] {
            let event = Event::Datagram {
                from: client::peer(1),
                bytes: packet.encode(),
            };
            let actions = bmc.handle(client::start(), event);
            let [Action::Send { bytes, .. }] = &actions[..] else {
                panic!("{name}: {actions:?}")
            };
            let payload = match Packet::decode(bytes).unwrap() {
                Packet::V15(reply) => reply.payload,
                Packet::V20(reply) => reply.payload,
                Packet::Asf(_) => panic!("{name}: a ping?"),
            };
            assert_eq!(
                Message::decode(&payload).unwrap().data[0],
                completion,
                "{name}"
            );
        }
    }
}

#[test]
fn the_event_log_fills_counts_and_clears() {
    let mut client = Client::admin();
    // Entry 1 tells of the power that came on when the test began.
    for id in 2..=512u16 {
        let entry = [0, 0, 2, 0, 0, 0, 0, 0x20, 0, 4, 1, 1, 1, 0, 0, 0];
        assert_eq!(
            client.ask(0x0a, 0x44, &entry),
            (0, id.to_le_bytes().to_vec())
        );
    }
    assert_eq!(client.ask(0x0a, 0x44, &[0; 16]).0, 0xc4, "full");
    let (_, first) = client.ask(0x0a, 0x43, &[0, 0, 0, 0, 0, 0xff]);
    assert_eq!(&first[..5], [2, 0, 1, 0, 2], "next id, own id, type");
    assert_eq!(
        client.ask(0x0a, 0x47, b"\0\0CLR\xaa").0,
        0xc5,
        "no reservation was made"
    );
    let (_, reservation) = client.ask(0x0a, 0x42, &[]);
    let stale = [&reservation[..], b"CLR\xaa"].concat();
    assert_eq!(client.ask(0x0a, 0x47, &stale), (0, vec![1]));
    assert_eq!(
        client.ask(0x0a, 0x47, &stale).0,
        0xc5,
        "clearing used the reservation up"
    );
    assert_eq!(
        client.ask(0x0a, 0x43, &[0, 0, 0, 0, 0, 0xff]).0,
        0xcb,
        "empty"
    );
}

#[test]
fn a_cold_reset_answers_and_then_drops_every_session() {
    let mut client = Client::admin();
    assert_eq!(client.ask(0x06, 0x02, &[]).0, 0);
    assert!(client.actions.contains(&Action::Restarted { cold: true }));
    assert_eq!(client.try_ask(0x00, 0x01, &[]), None);
}

proptest! {
    #[test]
    fn any_datagram_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let mut bmc = bmc();
        bmc.handle(client::start(), Event::Datagram { from: client::peer(1), bytes: bytes.clone() });
        let rmcp = [&[6, 0, 0xff, 7][..], &bytes].concat();
        bmc.handle(client::start(), Event::Datagram { from: client::peer(1), bytes: rmcp });
    }

    #[test]
    fn any_set_up_payload_is_survived(
        kind in prop::sample::select(vec![PayloadKind::OpenRequest, PayloadKind::Rakp1, PayloadKind::Rakp3, PayloadKind::Ipmi]),
        payload in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let bytes = Packet::V20(V20::outside_session(kind, payload)).encode();
        bmc().handle(client::start(), Event::Datagram { from: client::peer(1), bytes });
    }

    #[test]
    fn any_command_gets_exactly_one_response(
        requests in prop::collection::vec(
            (prop::sample::select(vec![0u8, 4, 6, 0x0a, 0x0c]), 0u8..0x60, prop::collection::vec(any::<u8>(), 0..8)),
            1..20,
        ),
    ) {
        let mut client = Client::admin();
        for (net_fn, command, data) in requests {
            // Those end the session, as they should.
            if net_fn == 6 && [2, 3, 0x3c].contains(&command) {
                continue;
            }
            prop_assert!(client.try_ask(net_fn, command, &data).is_some(), "{net_fn:#x} {command:#x} {data:02x?}");
        }
    }

    #[test]
    fn any_serial_payload_is_survived(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..20)) {
        let mut client = Client::admin();
        client.activate_sol();
        for payload in payloads {
            client.now += Duration::from_millis(300);
            client.send(PayloadKind::Sol, &payload);
            client.event(Event::ConsoleOutput(b"boot".to_vec()));
            client.event(Event::Timer);
        }
    }
}
