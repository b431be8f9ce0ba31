//! A client and a server on a wire that loses, doubles and swaps packets.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::client::{self, Client, Config, Failure};
use super::server::{self, Limits, Outcome, Transfer};
use super::*;

const SERVER_PORT: u16 = 40000;

#[expect(
    clippy::disallowed_methods,
    reason = "a place for virtual time to start"
)]
fn start() -> Instant {
    Instant::now()
}

fn file(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n * 7 + n / 256) as u8).collect()
}

/// What became of a transfer.
struct Story {
    got: Vec<u8>,
    done: Option<Result<u64, Failure>>,
    served: Option<Outcome>,
    packets: usize,
}

/// Runs a transfer to its end in virtual time; `wire` says what happens to each packet.
fn transfer(
    content: &[u8],
    config: Config,
    limits: &Limits,
    mut wire: impl FnMut() -> Fate,
) -> Story {
    let mut now = start();
    let mut client = Client::new(config);
    let mut server: Option<Transfer> = None;
    let mut story = Story {
        got: Vec::new(),
        done: None,
        served: None,
        packets: 0,
    };
    let mut to_server: VecDeque<(u16, Vec<u8>)> = VecDeque::new();
    let mut to_client: VecDeque<Vec<u8>> = VecDeque::new();
    let mut actions = client.handle(now, client::Event::Start);
    let mut replies = Vec::new();
    for _ in 0..200_000 {
        for action in std::mem::take(&mut actions) {
            match action {
                client::Action::Send { port, bytes } => {
                    deliver(&mut to_server, (port, bytes), wire());
                }
                client::Action::Write(data) => story.got.extend(data),
                client::Action::Done { size } => story.done = Some(Ok(size)),
                client::Action::Failed(failure) => story.done = Some(Err(failure)),
            }
        }
        for action in std::mem::take(&mut replies) {
            let bytes = match action {
                server::Action::Send { bytes } => bytes,
                server::Action::SendBlock {
                    block,
                    offset,
                    length,
                } => [
                    &data_header(block)[..],
                    &content[offset as usize..offset as usize + length],
                ]
                .concat(),
                server::Action::Done(outcome) => {
                    story.served = Some(outcome);
                    continue;
                }
            };
            story.packets += 1;
            deliver(&mut to_client, bytes, wire());
        }
        if let Some((port, bytes)) = to_server.pop_front() {
            replies = match (&mut server, Packet::decode(&bytes).unwrap()) {
                (None, Packet::Read { options, .. }) => {
                    let (transfer, actions) =
                        Transfer::start(now, content.len() as u64, &options, limits);
                    server = Some(transfer);
                    actions
                }
                (Some(transfer), _) if port == SERVER_PORT => {
                    transfer.handle(now, server::Event::Packet { bytes: &bytes })
                }
                _ => Vec::new(),
            };
        } else if let Some(bytes) = to_client.pop_front() {
            actions = client.handle(
                now,
                client::Event::Packet {
                    port: SERVER_PORT,
                    bytes: &bytes,
                },
            );
        } else {
            let wakes = [
                client.wake_at(),
                server.as_ref().and_then(Transfer::wake_at),
            ];
            let Some(next) = wakes.into_iter().flatten().min() else {
                return story;
            };
            now = next;
            actions = client.handle(now, client::Event::Timer);
            if let Some(server) = &mut server {
                replies = server.handle(now, server::Event::Timer);
            }
        }
    }
    panic!("the transfer does not end");
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Arrives,
    Lost,
    Doubled,
    Swapped,
}

fn deliver<T: Clone>(queue: &mut VecDeque<T>, packet: T, fate: Fate) {
    match fate {
        Fate::Arrives => queue.push_back(packet),
        Fate::Lost => {}
        Fate::Doubled => queue.extend([packet.clone(), packet]),
        Fate::Swapped => queue.push_front(packet),
    }
}

#[test]
fn files_of_every_awkward_size_arrive_whole() {
    for size in [0, 1, 511, 512, 513, 1468 * 4, 1468 * 4 + 1, 100_000] {
        for (block, window) in [(512, 1), (1468, 1), (1468, 4), (8, 16)] {
            let content = file(size);
            let config = Config {
                block,
                window,
                ..Config::new("f")
            };
            let story = transfer(&content, config, &Limits::default(), || Fate::Arrives);
            assert_eq!(
                (story.got == content, story.done, story.served),
                (true, Some(Ok(size as u64)), Some(Outcome::Complete)),
                "{size} {block} {window}"
            );
        }
    }
}

#[test]
fn block_numbers_wrap_in_large_files() {
    let content = file(8 * 70_000);
    let story = transfer(
        &content,
        Config {
            block: 8,
            window: 64,
            ..Config::new("f")
        },
        &Limits::default(),
        || Fate::Arrives,
    );
    assert!(story.got == content && story.done == Some(Ok(560_000)));
}

#[test]
fn a_doubled_acknowledgement_does_not_double_the_transfer() {
    let content = file(512 * 40);
    let mut n = 0;
    let story = transfer(
        &content,
        Config {
            block: 512,
            window: 1,
            ..Config::new("f")
        },
        &Limits::default(),
        || {
            n += 1;
            if n == 10 {
                Fate::Doubled
            } else {
                Fate::Arrives
            }
        },
    );
    assert!(story.got == content);
    assert!(story.packets <= 44, "{}", story.packets);
}

#[test]
fn a_lost_last_acknowledgement_is_given_again() {
    let mut n = 0;
    let story = transfer(
        &file(100),
        Config {
            block: 512,
            window: 1,
            ..Config::new("f")
        },
        &Limits::default(),
        || {
            n += 1;
            // The request, its OACK, ACK 0, the data; then the ACK that ends it.
            if n == 5 { Fate::Lost } else { Fate::Arrives }
        },
    );
    assert_eq!(
        (story.done, story.served, story.packets),
        (Some(Ok(100)), Some(Outcome::Complete), 3)
    );
}

#[test]
fn too_large_a_file_is_refused_by_its_announced_size() {
    let story = transfer(
        &file(5000),
        Config {
            max_size: 4999,
            ..Config::new("f")
        },
        &Limits::default(),
        || Fate::Arrives,
    );
    assert_eq!(
        (story.done, story.got.len()),
        (Some(Err(Failure::TooLarge(4999))), 0)
    );
    assert!(matches!(
        story.served,
        Some(Outcome::Aborted {
            code: ErrorCode::DISK_FULL,
            ..
        })
    ));
}

#[test]
fn a_cut_wire_ends_both_sides_in_time() {
    let mut n = 0;
    let story = transfer(&file(100_000), Config::new("f"), &Limits::default(), || {
        n += 1;
        if n > 12 { Fate::Lost } else { Fate::Arrives }
    });
    assert_eq!(
        (story.done, story.served),
        (Some(Err(Failure::TimedOut)), Some(Outcome::TimedOut))
    );
}

#[test]
fn a_server_without_options_is_understood() {
    let now = start();
    let mut client = Client::new(Config::new("f"));
    client.handle(now, client::Event::Start);
    let data = Packet::Data {
        block: 1,
        data: &[7; 512],
    }
    .encode();
    let actions = client.handle(
        now,
        client::Event::Packet {
            port: 9,
            bytes: &data,
        },
    );
    assert_eq!(
        actions,
        [
            client::Action::Write(vec![7; 512]),
            client::Action::Send {
                port: 9,
                bytes: Packet::Ack { block: 1 }.encode()
            }
        ]
    );
    let stray = client.handle(
        now,
        client::Event::Packet {
            port: 10,
            bytes: &data,
        },
    );
    assert!(
        matches!(&stray[..], [client::Action::Send { port: 10, bytes }] if bytes[..4] == [0, 5, 0, 5]),
        "{stray:?}"
    );
}

#[test]
fn a_missing_file_is_told_with_the_servers_words() {
    let now = start();
    let mut client = Client::new(Config::new("f"));
    client.handle(now, client::Event::Start);
    let bytes = Transfer::refuse(ErrorCode::NOT_FOUND, "no such file");
    let actions = client.handle(
        now,
        client::Event::Packet {
            port: 9,
            bytes: &bytes,
        },
    );
    assert_eq!(
        actions,
        [client::Action::Failed(Failure::Refused {
            code: ErrorCode::NOT_FOUND,
            message: "no such file".into()
        })]
    );
    assert_eq!(client.wake_at(), None);
}

#[test]
fn a_client_that_only_wanted_the_size_ends_the_transfer() {
    let now = start();
    let options = [
        ("tsize".to_owned(), "0".to_owned()),
        ("timeout".to_owned(), "300".to_owned()),
    ];
    let (mut transfer, actions) = Transfer::start(now, 77, &options, &Limits::default());
    let oack = Packet::OptionAck {
        options: vec![("tsize".into(), "77".into())],
    }
    .encode();
    assert_eq!(actions, [server::Action::Send { bytes: oack }]);
    let abort = Packet::Error {
        code: ErrorCode::UNDEFINED,
        message: "bye".into(),
    }
    .encode();
    let actions = transfer.handle(now, server::Event::Packet { bytes: &abort });
    assert_eq!(
        actions,
        [server::Action::Done(Outcome::Aborted {
            code: ErrorCode::UNDEFINED,
            message: "bye".into()
        })]
    );
    assert_eq!(transfer.wake_at(), None);
}

#[test]
fn silence_is_borne_with_growing_patience() {
    let mut now = start();
    let (mut transfer, _) = Transfer::start(now, 77, &[], &Limits::default());
    let mut waits = Vec::new();
    while let Some(next) = transfer.wake_at() {
        waits.push(next.duration_since(now));
        now = next;
        transfer.handle(now, server::Event::Timer);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 16, 16].map(Duration::from_secs));
}

proptest! {
    #[test]
    fn a_bad_wire_changes_no_byte(
        size in 0..6000usize,
        block in 8..600u16,
        window in 1..20u16,
        fates in proptest::collection::vec(prop_oneof![
            12 => Just(Fate::Arrives), 1 => Just(Fate::Lost), 1 => Just(Fate::Doubled), 1 => Just(Fate::Swapped),
        ], 1..400),
    ) {
        let content = file(size);
        let mut fates = fates.into_iter();
        let story = transfer(&content, Config { block, window, ..Config::new("f") }, &Limits::default(), || fates.next().unwrap_or(Fate::Arrives));
        match story.done {
            Some(Ok(length)) => prop_assert!(story.got == content && length == size as u64),
            Some(Err(Failure::TimedOut)) => {}
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn what_is_written_is_read_back(
        operation in 0..6u8,
        file in "[^\0]{0,20}", mode in "[a-z]{1,8}", number: u16,
        options in proptest::collection::vec(("[a-z]{1,8}", "[^\0]{0,9}"), 0..5),
        data in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let packet = match operation {
            0 => Packet::Read { file, mode, options },
            1 => Packet::Write { file, mode, options },
            2 => Packet::Data { block: number, data: &data },
            3 => Packet::Ack { block: number },
            4 => Packet::Error { code: ErrorCode(number), message: file },
            _ => Packet::OptionAck { options },
        };
        let bytes = packet.encode();
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
    }

    #[test]
    fn any_bytes_are_a_packet_or_an_error_and_stop_nobody(mut bytes in proptest::collection::vec(any::<u8>(), 0..90), operation in 0..8u8) {
        if let Some(first) = bytes.first_chunk_mut() {
            *first = [0, operation];
        }
        let _ = Packet::decode(&bytes);
        let now = start();
        let (mut transfer, _) = Transfer::start(now, 70_000, &[("windowsize".into(), "9".into())], &Limits::default());
        let mut client = Client::new(Config::new("f"));
        client.handle(now, client::Event::Start);
        for _ in 0..3 {
            transfer.handle(now, server::Event::Packet { bytes: &bytes });
            client.handle(now, client::Event::Packet { port: 7, bytes: &bytes });
        }
    }
}
