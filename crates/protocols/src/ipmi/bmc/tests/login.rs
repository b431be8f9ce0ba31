//! Who gets in, who stays in.

use super::client::{bmc_of, challenge, greet, login, open, peer, prove, set_up, start};
use super::*;
use crate::ipmi::wire::setup::{Rakp3, Status};

#[test]
fn set_up_is_refused_with_the_status_the_specification_names() {
    let mut bmc = bmc();
    assert_eq!(
        open(&mut bmc, 0).unwrap_err(),
        Status::INVALID_SESSION,
        "console session zero"
    );
    let session = open(&mut bmc, 5).unwrap().bmc_session;
    let table: [(&str, u32, u8, &[u8], Status); 6] = [
        (
            "unknown session",
            session ^ 1,
            0x14,
            b"admin",
            Status::INVALID_SESSION,
        ),
        (
            "unknown user",
            session,
            0x14,
            b"nobody",
            Status::UNAUTHORIZED_NAME,
        ),
        (
            "no user name",
            session,
            0x14,
            b"",
            Status::UNAUTHORIZED_NAME,
        ),
        (
            "long name",
            session,
            0x14,
            b"seventeen letters",
            Status::INVALID_NAME_LENGTH,
        ),
        ("no role", session, 0x10, b"admin", Status::INVALID_ROLE),
        (
            "above the user's limit",
            session,
            0x14,
            b"viewer",
            Status::UNAUTHORIZED_ROLE,
        ),
    ];
    for (name, session, role, username, status) in table {
        assert_eq!(
            greet(&mut bmc, session, role, username),
            Err(status),
            "{name}"
        );
    }
    assert_eq!(
        prove(&mut bmc, session, vec![0; 32]),
        Err(Status::INACTIVE_SESSION),
        "RAKP 3 before RAKP 1"
    );
}

#[test]
fn a_wrong_proof_ends_the_attempt() {
    let mut bmc = bmc();
    let exchange = challenge(&mut bmc, "admin", Privilege::Administrator).unwrap();
    let wrong = exchange.console_proof(&Secret::new("guess".into()));
    assert_eq!(
        prove(&mut bmc, exchange.bmc_session, wrong),
        Err(Status::INVALID_CHECK_VALUE)
    );
    let right = exchange.console_proof(&Secret::new("admin-pw".into()));
    assert_eq!(
        prove(&mut bmc, exchange.bmc_session, right),
        Err(Status::INVALID_SESSION),
        "no second guess"
    );
}

#[test]
fn a_console_that_gives_up_gets_no_answer_and_leaves_no_session() {
    let mut bmc = bmc();
    let exchange = challenge(&mut bmc, "admin", Privilege::Administrator).unwrap();
    let result = Err(Status::INVALID_CHECK_VALUE);
    let rakp3 = Rakp3 {
        tag: 3,
        bmc_session: exchange.bmc_session,
        result,
    };
    assert_eq!(set_up(&mut bmc, PayloadKind::Rakp3, rakp3.encode()), None);
    assert_eq!(bmc.wake_at(), None);
}

#[test]
fn repeated_datagrams_of_the_set_up_get_the_same_answers() {
    let mut bmc = bmc();
    let first = open(&mut bmc, 5).unwrap();
    assert_eq!(open(&mut bmc, 5).unwrap(), first);
    let exchange = greet(&mut bmc, first.bmc_session, 0x14, b"admin").unwrap();
    assert_eq!(
        greet(&mut bmc, first.bmc_session, 0x14, b"admin").unwrap(),
        exchange
    );
    let proof = exchange.console_proof(&Secret::new("admin-pw".into()));
    let check = prove(&mut bmc, first.bmc_session, proof.clone()).unwrap();
    assert_eq!(prove(&mut bmc, first.bmc_session, proof), Ok(check));
    assert_eq!(bmc.sessions.ids().len(), 1);
}

#[test]
fn sessions_are_bounded_and_unfinished_ones_make_room() {
    let mut bmc = bmc_of(Config {
        max_sessions: 2,
        ..config()
    });
    for console_session in 10..15 {
        open(&mut bmc, console_session).unwrap();
    }
    assert_eq!(bmc.sessions.ids().len(), 2);
    login(&mut bmc, "admin", Privilege::Administrator).unwrap();
    login(&mut bmc, "admin", Privilege::Administrator).unwrap();
    assert_eq!(open(&mut bmc, 20).unwrap_err(), Status::NO_RESOURCES);
}

#[test]
fn a_half_open_session_is_forgotten_after_the_set_up_timeout() {
    let mut bmc = bmc();
    challenge(&mut bmc, "admin", Privilege::Administrator).unwrap();
    assert_eq!(bmc.wake_at(), Some(start() + seconds(10)));
    bmc.handle(start() + seconds(10), Event::Timer);
    assert_eq!(bmc.wake_at(), None);
}

#[test]
fn a_session_lives_sixty_seconds_from_its_last_packet() {
    let mut client = Client::admin();
    for _ in 0..3 {
        client.now += seconds(59);
        assert!(client.try_ask(0x00, 0x01, &[]).is_some());
    }
    assert_eq!(client.bmc.wake_at(), Some(client.now + seconds(60)));
    client.now += seconds(60);
    assert_eq!(client.try_ask(0x00, 0x01, &[]), None);
}

#[test]
fn replayed_forged_and_bare_packets_do_nothing() {
    let mut client = Client::admin();
    let request = Message::request(0x00, 0x02, 9, vec![3]).encode();
    let packet = client
        .keys
        .seal(PayloadKind::Ipmi, client.bmc_session, 2, &request, [5; 16]);
    client.send_packet(packet.clone());
    assert_eq!(client.actions, [Action::Chassis(Control::Reset)]);
    client.actions.clear();
    client.received.clear();

    client.now += seconds(30);
    client.send_packet(packet);
    let mut forged = client
        .keys
        .seal(PayloadKind::Ipmi, client.bmc_session, 3, &request, [5; 16]);
    forged.payload[20] ^= 1;
    client.send_packet(forged);
    let session = client.bmc_session;
    client.send_packet(V20 {
        session,
        sequence: 3,
        ..V20::outside_session(PayloadKind::Ipmi, request.clone())
    });
    let far_ahead = client
        .keys
        .seal(PayloadKind::Ipmi, client.bmc_session, 40, &request, [5; 16]);
    client.send_packet(far_ahead);
    assert_eq!((client.actions.len(), client.received.len()), (0, 0));
}

#[test]
fn privilege_starts_at_user_and_rises_no_higher_than_asked_at_login() {
    let mut bmc = bmc();
    let (keys, bmc_session) = login(&mut bmc, "admin", Privilege::Operator).unwrap();
    let (actions, received) = (vec![], vec![]);
    let mut client = Client {
        bmc,
        now: start(),
        keys,
        bmc_session,
        sequence: 0,
        message: 0,
        actions,
        received,
    };
    assert_eq!(client.ask(0x00, 0x02, &[1]).0, 0xd4, "still a user");
    assert_eq!(client.ask(0x06, 0x3b, &[4]).0, 0x81);
    assert_eq!(client.ask(0x06, 0x3b, &[3]), (0, vec![3]));
    assert_eq!(client.ask(0x00, 0x02, &[1]).0, 0);
    assert_eq!(
        client.ask(0x06, 0x02, &[]).0,
        0xd4,
        "a reset is for administrators"
    );
}

#[test]
fn a_closed_session_is_gone_and_only_administrators_close_those_of_others() {
    let mut client = Client::login(bmc(), "operator", Privilege::Operator);
    let (_, other) = login(&mut client.bmc, "admin", Privilege::Administrator).unwrap();
    assert_eq!(client.ask(0x06, 0x3c, &other.to_le_bytes()).0, 0xd4);
    assert_eq!(client.ask(0x06, 0x3c, &[1, 2, 3, 4]).0, 0x87);
    let own = client.bmc_session.to_le_bytes();
    assert_eq!(client.ask(0x06, 0x3c, &own).0, 0);
    assert_eq!(client.try_ask(0x00, 0x01, &[]), None);
    assert_eq!(client.bmc.sessions.peer(other), Some(peer(1)));
}
