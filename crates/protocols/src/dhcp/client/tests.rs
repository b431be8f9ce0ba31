//! The client against the real server, in virtual time.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::*;
use crate::dhcp::server::boot::{Boot, Table};
use crate::dhcp::server::{self, Server};
use proptest::prelude::*;

fn config(seed: u64) -> Config {
    Config {
        mac: Mac([2, 0, 0, 0, 0, seed as u8]),
        client_id: None,
        hostname: Some("node".into()),
        broadcast: false,
        pxe: None,
        retry: Retry::default(),
        seed,
    }
}

fn pxe() -> Pxe {
    Pxe {
        class: "PXEClient".into(),
        arch: 7,
        interface: (1, 3, 16),
        uuid: Some([7; 16]),
        user_class: None,
        ipxe: None,
        patience: Duration::from_secs(2),
    }
}

/// A client and a server on one wire, in virtual time.
struct Pair {
    client: Client,
    server: Server,
    start: Instant,
    now: Instant,
    cut: bool,
    sent: Vec<(MessageType, Dest)>,
    seen: Vec<Action>,
}

impl Pair {
    #[expect(
        clippy::disallowed_methods,
        reason = "a place for virtual time to start"
    )]
    fn new(client: Config, change: impl FnOnce(&mut server::Config)) -> Self {
        let mut config = server::Config::new(
            Ipv4Addr::new(10, 0, 0, 1),
            "10.0.0.0/24".parse().unwrap(),
            vec![Ipv4Addr::new(10, 0, 0, 10)..=Ipv4Addr::new(10, 0, 0, 20)],
        );
        config.options.router = Some(Ipv4Addr::new(10, 0, 0, 1));
        config.options.domain = Some("lab".into());
        change(&mut config);
        let start = Instant::now();
        Self {
            client: Client::new(client),
            server: Server::restore(SystemTime::UNIX_EPOCH, config, []).unwrap(),
            start,
            now: start,
            cut: false,
            sent: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + (self.now - self.start)
    }

    fn event(&mut self, event: Event<'_>) {
        let actions = self.client.handle(self.now, event);
        for action in actions {
            match action {
                Action::Send { bytes, dest } => {
                    self.sent.push((
                        packet::decode(&bytes).unwrap().opts().msg_type().unwrap(),
                        dest,
                    ));
                    if !self.cut {
                        let answers = self
                            .server
                            .handle(self.wall(), server::Event::Packet { bytes: &bytes });
                        self.serve(answers);
                    }
                }
                Action::Bound(_) | Action::Lost(_) => self.seen.push(action),
            }
        }
    }

    fn serve(&mut self, actions: Vec<server::Action>) {
        for action in actions {
            match action {
                server::Action::Send { bytes, .. } => self.event(Event::Packet { bytes: &bytes }),
                server::Action::Persist { token, .. } => {
                    let next = self
                        .server
                        .handle(self.wall(), server::Event::Persisted { token });
                    self.serve(next);
                }
                server::Action::Probe { .. } | server::Action::Report(_) => {}
            }
        }
    }

    /// Jumps to whatever comes next, until `time` has passed.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let server = self
                .server
                .wake_at()
                .map(|at| self.start + at.duration_since(SystemTime::UNIX_EPOCH).unwrap());
            let Some(next) = [self.client.wake_at(), server]
                .into_iter()
                .flatten()
                .min()
                .filter(|at| *at <= end)
            else {
                break;
            };
            self.now = self.now.max(next);
            let actions = self.server.handle(self.wall(), server::Event::Timer);
            self.serve(actions);
            self.event(Event::Timer);
        }
        self.now = end;
    }
}

#[test]
fn a_client_finds_a_server_and_keeps_its_address_by_renewing() {
    let mut pair = Pair::new(config(1), |_| {});
    pair.event(Event::Start);
    pair.run(Duration::from_secs(1));
    let lease = pair.client.lease().expect("bound").clone();
    assert_eq!(
        (lease.prefix, lease.router, lease.domain.as_deref()),
        (24, Some(Ipv4Addr::new(10, 0, 0, 1)), Some("lab"))
    );
    assert_eq!(
        (lease.lease, lease.renew),
        (Duration::from_hours(1), Duration::from_mins(30))
    );
    pair.sent.clear();
    pair.run(Duration::from_hours(5));
    assert_eq!(
        pair.client.lease().map(|lease| lease.address),
        Some(lease.address)
    );
    assert!(
        pair.sent.iter().all(|sent| *sent
            == (
                MessageType::Request,
                Dest::Unicast {
                    server: lease.server
                }
            )),
        "{:?}",
        pair.sent
    );
    assert_eq!(pair.sent.len(), 10, "one request each half hour");
    pair.event(Event::Stop);
    assert_eq!(pair.seen.last(), Some(&Action::Lost(Lost::Stopped)));
    assert_eq!(pair.server.leases(pair.wall()).count(), 0);
}

#[test]
fn a_silent_server_is_asked_again_ever_more_slowly() {
    let mut pair = Pair::new(config(2), |_| {});
    pair.cut = true;
    pair.event(Event::Start);
    pair.run(Duration::from_mins(5));
    // 4 + 8 + 16 + 32 + 64 + 64 + 64 seconds, give or take.
    assert!((7..=9).contains(&pair.sent.len()), "{:?}", pair.sent);
    pair.cut = false;
    pair.run(Duration::from_mins(2));
    assert!(pair.client.lease().is_some());
}

#[test]
fn a_vanished_server_is_asked_then_everyone_then_the_address_is_lost() {
    let mut pair = Pair::new(config(3), |_| {});
    pair.event(Event::Start);
    pair.run(Duration::from_secs(1));
    pair.cut = true;
    pair.sent.clear();
    pair.run(Duration::from_mins(59) + Duration::from_secs(50));
    let unicast = pair
        .sent
        .iter()
        .filter(|(_, dest)| *dest != Dest::Broadcast)
        .count();
    assert!(unicast >= 2 && unicast < pair.sent.len(), "{:?}", pair.sent);
    assert!(pair.client.lease().is_some());
    pair.run(Duration::from_secs(15));
    assert_eq!(pair.seen.last(), Some(&Action::Lost(Lost::Expired)));
    pair.cut = false;
    pair.run(Duration::from_mins(2));
    assert!(pair.client.lease().is_some());
}

#[test]
fn firmware_learns_what_to_boot() {
    let next_server = Ipv4Addr::new(10, 0, 0, 2);
    let boot = |config: &mut server::Config| {
        config.boot = Boot::Table(Table {
            next_server,
            tftp: BTreeMap::from([(7, "snponly.efi".into())]),
            tftp_default: None,
            http: BTreeMap::from([(16, "http://10.0.0.2/snponly.efi".into())]),
            ipxe: Some("http://10.0.0.2/boot.ipxe".into()),
        });
    };
    let rows = [
        ("ROM", pxe(), "snponly.efi"),
        (
            "iPXE",
            Pxe {
                user_class: Some("iPXE".into()),
                ipxe: Some(vec![0x21, 1, 1]),
                ..pxe()
            },
            "http://10.0.0.2/boot.ipxe",
        ),
        (
            "HTTP",
            Pxe {
                class: "HTTPClient".into(),
                arch: 16,
                ..pxe()
            },
            "http://10.0.0.2/snponly.efi",
        ),
    ];
    for (name, pxe, file) in rows {
        let mut pair = Pair::new(
            Config {
                pxe: Some(pxe),
                ..config(4)
            },
            boot,
        );
        pair.event(Event::Start);
        pair.run(Duration::from_secs(1));
        let lease = pair.client.lease().unwrap_or_else(|| panic!("{name}"));
        assert_eq!(
            (lease.boot_file.as_deref(), lease.next_server),
            (Some(file), Some(next_server)),
            "{name}"
        );
        assert_eq!(
            lease.boot_url().is_some(),
            file.starts_with("http"),
            "{name}"
        );
    }
}

#[test]
fn firmware_takes_an_offer_without_a_file_when_no_better_one_comes() {
    let mut pair = Pair::new(
        Config {
            pxe: Some(pxe()),
            ..config(5)
        },
        |_| {},
    );
    pair.event(Event::Start);
    pair.run(Duration::from_secs(1));
    assert!(pair.client.lease().is_none());
    pair.run(Duration::from_secs(2));
    assert!(pair.client.lease().is_some());
}

#[test]
fn an_address_in_use_is_declined_and_another_is_found() {
    let mut pair = Pair::new(config(6), |_| {});
    pair.event(Event::Start);
    pair.run(Duration::from_secs(1));
    let first = pair.client.lease().unwrap().address;
    pair.event(Event::Conflict);
    assert!(pair.client.lease().is_none());
    pair.run(Duration::from_secs(12));
    assert_ne!(pair.client.lease().expect("bound again").address, first);
}

proptest! {
    #[test]
    fn no_packet_stops_the_client(bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 1..9u8) {
        let mut pair = Pair::new(config(7), |_| {});
        pair.cut = true;
        pair.event(Event::Start);
        let State::Selecting { ask, .. } = pair.client.state else { panic!() };
        let mut message = packet::encode(&packet::blank(Opcode::BootReply, ask.xid, config(7).mac));
        message.truncate(240);
        message.extend([53, 1, kind]);
        message.extend(bytes);
        for _ in 0..3 {
            pair.event(Event::Packet { bytes: &message });
            pair.run(Duration::from_secs(5));
        }
    }
}
