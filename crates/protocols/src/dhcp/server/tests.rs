//! The server seen from its clients.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use dhcproto::v4::{DhcpOption as O, Flags, Message, MessageType, Opcode, OptionCode};
use model::Mac;
use proptest::prelude::*;

use super::boot::{Boot, Table};
use super::*;
use crate::dhcp::packet;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
}

fn config(pool: u8) -> Config {
    let range = Ipv4Addr::new(10, 0, 0, 10)..=Ipv4Addr::new(10, 0, 0, 9 + pool);
    Config::new(SERVER, "10.0.0.0/24".parse().unwrap(), vec![range])
}

fn server(config: Config) -> Server {
    Server::restore(start(), config, []).unwrap()
}

fn mac(n: u8) -> Mac {
    Mac([0x52, 0x54, 0, 0, 0, n])
}

fn ask(kind: MessageType, mac: Mac, more: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut message = packet::blank(Opcode::BootRequest, 0x1234_0000 | u32::from(mac.0[5]), mac);
    message.opts_mut().insert(O::MessageType(kind));
    more(&mut message);
    packet::encode(&message)
}

fn discover(mac: Mac) -> Vec<u8> {
    ask(MessageType::Discover, mac, |_| {})
}

fn select(mac: Mac, address: Ipv4Addr) -> Vec<u8> {
    ask(MessageType::Request, mac, |m| {
        m.opts_mut().insert(O::ServerIdentifier(SERVER));
        m.opts_mut().insert(O::RequestedIpAddress(address));
    })
}

fn renew(mac: Mac, address: Ipv4Addr) -> Vec<u8> {
    ask(MessageType::Request, mac, |m| {
        m.set_ciaddr(address);
    })
}

fn release(mac: Mac, address: Ipv4Addr) -> Vec<u8> {
    ask(MessageType::Release, mac, |m| {
        m.set_ciaddr(address);
        m.opts_mut().insert(O::ServerIdentifier(SERVER));
    })
}

fn sent(actions: &[Action]) -> Vec<(Message, Dest)> {
    let sends = actions.iter().filter_map(|action| match action {
        Action::Send { bytes, dest } => Some((packet::decode(bytes).unwrap(), *dest)),
        Action::Probe { .. } | Action::Persist { .. } | Action::Report(_) => None,
    });
    sends.collect()
}

/// The one packet sent.
fn only(actions: &[Action]) -> (MessageType, Message, Dest) {
    let mut sends = sent(actions);
    assert_eq!(sends.len(), 1, "{actions:?}");
    let (message, dest) = sends.remove(0);
    (message.opts().msg_type().unwrap(), message, dest)
}

/// A server together with a world that says every address is free and every write succeeds.
struct World {
    server: Server,
    now: SystemTime,
}

impl World {
    fn new(config: Config) -> Self {
        Self {
            server: server(config),
            now: start(),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Vec<Action> {
        let mut seen = Vec::new();
        let mut todo = self.server.handle(self.now, Event::Packet { bytes });
        while !todo.is_empty() {
            let mut next = Vec::new();
            for action in &todo {
                next.extend(match action {
                    Action::Probe { address } => self.server.handle(
                        self.now,
                        Event::ProbeResult {
                            address: *address,
                            used_by: None,
                        },
                    ),
                    Action::Persist { token, .. } => self
                        .server
                        .handle(self.now, Event::Persisted { token: *token }),
                    Action::Send { .. } | Action::Report(_) => Vec::new(),
                });
            }
            seen.extend(todo);
            todo = next;
        }
        seen
    }

    fn lease(&mut self, mac: Mac) -> Ipv4Addr {
        let (kind, offer, _) = only(&self.send(&discover(mac)));
        assert_eq!(kind, MessageType::Offer);
        let (kind, ack, _) = only(&self.send(&select(mac, offer.yiaddr())));
        assert_eq!((kind, ack.yiaddr()), (MessageType::Ack, offer.yiaddr()));
        ack.yiaddr()
    }
}

#[test]
fn a_client_gets_an_address_and_everything_the_site_tells() {
    let mut config = config(20);
    config.options = Options {
        router: Some(Ipv4Addr::new(10, 0, 0, 254)),
        dns: vec![Ipv4Addr::new(10, 0, 0, 53)],
        domain: Some("example.com".into()),
        ntp: vec![Ipv4Addr::new(10, 0, 0, 123)],
        mtu: Some(1400),
        raw: BTreeMap::from([(252, b"pac".to_vec())]),
    };
    let mut world = World::new(config);
    let address = world.lease(mac(1));
    let (_, ack, dest) = only(&world.send(&select(mac(1), address)));
    assert_eq!(
        dest,
        Dest::Unicast {
            ip: address,
            mac: mac(1)
        }
    );
    let expected = [
        O::SubnetMask(Ipv4Addr::new(255, 255, 255, 0)),
        O::Router(vec![Ipv4Addr::new(10, 0, 0, 254)]),
        O::DomainNameServer(vec![Ipv4Addr::new(10, 0, 0, 53)]),
        O::DomainName("example.com".into()),
        O::NtpServers(vec![Ipv4Addr::new(10, 0, 0, 123)]),
        O::InterfaceMtu(1400),
        O::AddressLeaseTime(3600),
        O::Renewal(1800),
        O::Rebinding(3150),
        O::ServerIdentifier(SERVER),
    ];
    for option in expected {
        assert_eq!(ack.opts().get(OptionCode::from(&option)), Some(&option));
    }
    assert_eq!(packet::raw_data(&ack, 252), Some(&b"pac"[..]));
    assert_eq!(
        world
            .server
            .leases(world.now)
            .map(|lease| lease.address)
            .collect::<Vec<_>>(),
        [address]
    );
}

#[test]
fn nothing_is_acknowledged_before_it_is_on_disk() {
    let mut world = World::new(config(5));
    let (_, offer, _) = only(&world.send(&discover(mac(1))));
    let request = select(mac(1), offer.yiaddr());
    let actions = world
        .server
        .handle(world.now, Event::Packet { bytes: &request });
    let [Action::Persist { lease, token }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!((lease.address, lease.mac), (offer.yiaddr(), mac(1)));
    assert_eq!(
        world
            .server
            .handle(world.now, Event::Packet { bytes: &request }),
        [],
        "a retransmission writes nothing twice"
    );
    assert_eq!(world.server.leases(world.now).count(), 0);
    let actions = world
        .server
        .handle(world.now, Event::Persisted { token: *token });
    assert_eq!(only(&actions).0, MessageType::Ack);
    assert_eq!(
        world
            .server
            .handle(world.now, Event::Persisted { token: *token }),
        [],
        "an answer is sent once"
    );
}

#[test]
fn a_failed_write_is_no_lease_and_the_client_may_ask_again() {
    let mut world = World::new(config(5));
    let (_, offer, _) = only(&world.send(&discover(mac(1))));
    let request = select(mac(1), offer.yiaddr());
    let actions = world
        .server
        .handle(world.now, Event::Packet { bytes: &request });
    let [Action::Persist { token, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        world
            .server
            .handle(world.now, Event::PersistFailed { token: *token }),
        []
    );
    assert_eq!(world.server.leases(world.now).count(), 0);
    assert_eq!(only(&world.send(&request)).0, MessageType::Ack);
}

#[test]
fn fifty_clients_at_once_get_fifty_addresses_and_none_waits_for_another() {
    let mut server = server(config(50));
    let now = start();
    let mut probes = 0;
    for n in 0..50 {
        for action in server.handle(
            now,
            Event::Packet {
                bytes: &discover(mac(n)),
            },
        ) {
            assert!(matches!(action, Action::Probe { .. }), "{action:?}");
            probes += 1;
        }
    }
    assert_eq!(probes, 50);
    let offers = sent(&server.handle(now + Duration::from_millis(50), Event::Timer));
    let mut addresses: Vec<_> = offers.iter().map(|(offer, _)| offer.yiaddr()).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 50);
}

/// Lets the server ask about its addresses until it is content.
fn swept(server: &mut Server, mut now: SystemTime) -> (Vec<Ipv4Addr>, SystemTime) {
    let mut asked = Vec::new();
    while let Some(at) = server.wake_at()
        && at <= now + Duration::from_secs(1)
    {
        now = now.max(at);
        for action in server.handle(now, Event::Timer) {
            if let Action::Probe { address } = action {
                asked.push(address);
            }
        }
    }
    (asked, now)
}

#[test]
fn after_the_wire_was_asked_nobody_waits_for_an_offer() {
    let mut server = server(config(200));
    let (asked, now) = swept(&mut server, start());
    assert_eq!(asked.len(), 200);
    assert!(now - Duration::from_millis(200) <= start(), "four rounds");
    let mut offered = std::collections::BTreeSet::new();
    for n in 0..200 {
        let (kind, offer, _) = only(&server.handle(
            now,
            Event::Packet {
                bytes: &discover(mac(n)),
            },
        ));
        assert_eq!(kind, MessageType::Offer);
        offered.insert(offer.yiaddr());
    }
    assert_eq!(offered.len(), 200);
}

#[test]
fn the_faster_addresses_are_taken_the_more_are_asked_about_beforehand() {
    let range = Ipv4Addr::new(10, 1, 0, 0)..=Ipv4Addr::new(10, 1, 255, 254);
    let mut server = server(Config::new(
        Ipv4Addr::new(10, 0, 0, 1),
        "10.0.0.0/15".parse().unwrap(),
        vec![range],
    ));
    let (asked, mut now) = swept(&mut server, start());
    assert_eq!(asked.len(), 256);
    let mut clients = 0_u16..;
    let mut at_once = 0;
    // 12,000 a second.
    for _ in 0..40 {
        let crowd = clients.by_ref().take(600).map(u16::to_be_bytes);
        let offers = crowd.filter(|[high, low]| {
            let bytes = discover(Mac([2, 0, 0, 0, *high, *low]));
            !sent(&server.handle(now, Event::Packet { bytes: &bytes })).is_empty()
        });
        at_once = offers.count();
        now += Duration::from_millis(50);
        server.handle(now, Event::Timer);
    }
    assert_eq!(at_once, 600, "everyone in the end");
    // When it is calm again, so is the wire.
    let mut asked = Vec::new();
    for _ in 0..10 {
        (asked, now) = swept(&mut server, now + Duration::from_mins(2));
    }
    assert_eq!(asked.len(), 256);
}

#[test]
fn silence_is_confirmed_while_nobody_asks_and_forgotten_with_time() {
    let mut server = server(config(3));
    let (_, now) = swept(&mut server, start());
    let (again, later) = swept(&mut server, now + Duration::from_mins(2));
    assert_eq!(again.len(), 3);
    // Nobody woke us for an hour: old silence means nothing.
    let actions = server.handle(
        later + Duration::from_hours(1),
        Event::Packet {
            bytes: &discover(mac(1)),
        },
    );
    assert!(matches!(actions[..], [Action::Probe { .. }]), "{actions:?}");
}

#[test]
fn whoever_is_heard_using_a_free_address_keeps_it_and_others_get_another() {
    let mut server = server(config(2));
    let (_, now) = swept(&mut server, start());
    let taken = Ipv4Addr::new(10, 0, 0, 10);
    let heard = Event::ProbeResult {
        address: taken,
        used_by: Some(mac(99)),
    };
    assert_eq!(
        server.handle(now, heard),
        [Action::Report(Report::Conflict {
            address: taken,
            used_by: mac(99)
        })]
    );
    assert_eq!(server.handle(now, heard), [], "told once");
    let stranger = Event::ProbeResult {
        address: Ipv4Addr::new(10, 0, 0, 200),
        used_by: Some(mac(99)),
    };
    assert_eq!(server.handle(now, stranger), [], "not ours to give");
    for n in 1..=2 {
        let actions = server.handle(
            now,
            Event::Packet {
                bytes: &discover(mac(n)),
            },
        );
        for (message, _) in sent(&actions) {
            assert_ne!(message.yiaddr(), taken);
        }
    }
    // It has used the address all along: it may go on with a lease for it.
    let wish = ask(MessageType::Discover, mac(99), |m| {
        m.opts_mut().insert(O::RequestedIpAddress(taken));
    });
    assert_eq!(
        server.handle(now, Event::Packet { bytes: &wish }),
        [Action::Probe { address: taken }]
    );
}

#[test]
fn changing_the_configuration_keeps_leases_offers_and_answers_under_way() {
    let mut world = World::new(config(20));
    let leased = world.lease(mac(1));
    let (_, offer, _) = only(&world.send(&discover(mac(2))));
    let request = select(mac(3), Ipv4Addr::new(10, 0, 0, 12));
    let actions = world
        .server
        .handle(world.now, Event::Packet { bytes: &request });
    let [Action::Persist { token, .. }] = actions[..] else {
        panic!("{actions:?}")
    };
    let mut wider = config(30);
    wider.known.insert(mac(1), Known::default());
    world.server.reconfigure(world.now, wider).unwrap();
    let actions = world.server.handle(world.now, Event::Persisted { token });
    assert_eq!(only(&actions).0, MessageType::Ack);
    let (kind, ack, _) = only(&world.send(&select(mac(2), offer.yiaddr())));
    assert_eq!((kind, ack.yiaddr()), (MessageType::Ack, offer.yiaddr()));
    assert_eq!(
        only(&world.send(&renew(mac(1), leased))).0,
        MessageType::Ack
    );
    // A range that is taken away takes its leases along.
    let moved = Ipv4Addr::new(10, 0, 0, 100)..=Ipv4Addr::new(10, 0, 0, 110);
    let moved = Config::new(SERVER, "10.0.0.0/24".parse().unwrap(), vec![moved]);
    world.server.reconfigure(world.now, moved).unwrap();
    assert_eq!(world.server.leases(world.now).count(), 0);
    assert_eq!(
        only(&world.send(&renew(mac(1), leased))).0,
        MessageType::Nak
    );
}

fn pxe(mac: Mac, class: &str, arch: u16, kind: MessageType) -> Vec<u8> {
    ask(kind, mac, |m| {
        m.opts_mut()
            .insert(O::ClassIdentifier(class.as_bytes().to_vec()));
        m.opts_mut()
            .insert(O::ClientSystemArchitecture(arch.into()));
        m.opts_mut()
            .insert(O::ClientMachineIdentifier([&[0][..], &[7; 16]].concat()));
    })
}

#[test]
fn beside_another_server_firmware_is_told_what_to_boot_and_given_no_address() {
    let mut config = config(0);
    config.pools.clear();
    config.role = Role::BootFiles;
    config.boot = Boot::Table(Table {
        next_server: SERVER,
        tftp: BTreeMap::from([(7, "snponly.efi".into())]),
        tftp_default: None,
        http: BTreeMap::from([(16, "http://10.0.0.1/snponly.efi".into())]),
        ipxe: None,
    });
    let mut server = server(config);
    assert_eq!(server.wake_at(), None, "there is nothing to ask about");
    let mut ask_at = |boot_port: bool, bytes: &[u8]| {
        let event = if boot_port {
            Event::BootPacket { bytes }
        } else {
            Event::Packet { bytes }
        };
        let actions = server.handle(start(), event);
        sent(&actions)
    };
    let ours = ask_at(
        false,
        &pxe(mac(1), "PXEClient:Arch:00007", 7, MessageType::Discover),
    );
    let [(offer, Dest::Broadcast)] = &ours[..] else {
        panic!("{ours:?}")
    };
    assert!(offer.yiaddr().is_unspecified());
    assert_eq!(packet::file(offer), Some(&b"snponly.efi"[..]));
    assert_eq!(
        offer.opts().get(OptionCode::ClassIdentifier),
        Some(&O::ClassIdentifier(b"PXEClient".to_vec()))
    );
    assert_eq!(
        offer.opts().get(OptionCode::ClientMachineIdentifier),
        Some(&O::ClientMachineIdentifier([&[0][..], &[7; 16]].concat()))
    );
    assert!(offer.opts().get(OptionCode::AddressLeaseTime).is_none());
    let again = ask_at(
        true,
        &pxe(mac(1), "PXEClient:Arch:00007", 7, MessageType::Request),
    );
    let [(ack, Dest::Back)] = &again[..] else {
        panic!("{again:?}")
    };
    assert_eq!(ack.opts().msg_type(), Some(MessageType::Ack));
    let http = ask_at(
        false,
        &pxe(mac(1), "HTTPClient:Arch:00016", 16, MessageType::Discover),
    );
    assert_eq!(
        http[0].0.opts().get(OptionCode::ClassIdentifier),
        Some(&O::ClassIdentifier(b"HTTPClient".to_vec()))
    );
    assert!(ask_at(false, &discover(mac(2))).is_empty(), "boots nothing");
    let request = pxe(mac(1), "PXEClient:Arch:00007", 7, MessageType::Request);
    assert!(
        ask_at(false, &request).is_empty(),
        "the other server's business"
    );
}

#[test]
fn a_machine_that_boots_is_reported_whether_it_is_answered_or_not() {
    let mut config = config(5);
    config.known_only = true;
    config.known.insert(mac(1), Known::default());
    let mut server = server(config);
    for (n, expected) in [(1, false), (2, true)] {
        let bytes = pxe(mac(n), "PXEClient:Arch:00007", 7, MessageType::Discover);
        let actions = server.handle(start(), Event::Packet { bytes: &bytes });
        let Action::Report(Report::Booting {
            mac: who,
            firmware,
            ignored,
        }) = &actions[0]
        else {
            panic!("{actions:?}")
        };
        assert_eq!((*who, *ignored), (mac(n), expected));
        assert_eq!(firmware.uuid, Some([7; 16]));
    }
}

#[test]
fn an_address_a_stranger_uses_is_set_aside_and_another_is_offered() {
    let mut server = server(config(5));
    let now = start();
    let actions = server.handle(
        now,
        Event::Packet {
            bytes: &discover(mac(1)),
        },
    );
    let [Action::Probe { address }] = actions[..] else {
        panic!("{actions:?}")
    };
    let actions = server.handle(
        now,
        Event::ProbeResult {
            address,
            used_by: Some(mac(99)),
        },
    );
    let [
        Action::Report(Report::Conflict { .. }),
        Action::Probe { address: second },
    ] = actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_ne!(second, address);
    let (kind, offer, _) = only(&server.handle(
        now,
        Event::ProbeResult {
            address: second,
            used_by: None,
        },
    ));
    assert_eq!((kind, offer.yiaddr()), (MessageType::Offer, second));
}

#[test]
fn a_client_that_still_answers_for_its_own_address_is_no_conflict() {
    let mut world = World::new(config(5));
    let address = world.lease(mac(1));
    world.send(&release(mac(1), address));
    let actions = world.server.handle(
        world.now,
        Event::Packet {
            bytes: &discover(mac(1)),
        },
    );
    assert_eq!(actions, [Action::Probe { address }]);
    let (kind, offer, _) = only(&world.server.handle(
        world.now,
        Event::ProbeResult {
            address,
            used_by: Some(mac(1)),
        },
    ));
    assert_eq!((kind, offer.yiaddr()), (MessageType::Offer, address));
}

#[test]
fn the_wish_for_a_free_address_is_granted() {
    let mut world = World::new(config(20));
    let wish = Ipv4Addr::new(10, 0, 0, 17);
    let wishing = |n| {
        ask(MessageType::Discover, mac(n), |m| {
            m.opts_mut().insert(O::RequestedIpAddress(wish));
        })
    };
    assert_eq!(only(&world.send(&wishing(1))).1.yiaddr(), wish);
    assert_ne!(only(&world.send(&wishing(2))).1.yiaddr(), wish);
}

#[test]
fn a_returning_client_gets_its_address_back_and_others_get_the_oldest_last() {
    let mut world = World::new(config(3));
    let addresses: Vec<_> = (1..=3).map(|n| world.lease(mac(n))).collect();
    assert!(matches!(
        world.send(&discover(mac(4)))[..],
        [Action::Report(Report::PoolExhausted { .. })]
    ));
    assert_eq!(
        world.send(&discover(mac(5))),
        [],
        "the same trouble is told once"
    );
    for n in [2, 1, 3] {
        world.now += Duration::from_secs(5);
        world.send(&release(mac(n), addresses[usize::from(n) - 1]));
    }
    assert_eq!(world.lease(mac(1)), addresses[0]);
    assert_eq!(
        world.lease(mac(4)),
        addresses[1],
        "the lease that ended first goes first"
    );
}

#[test]
fn known_clients_have_their_address_and_name_and_unknown_ones_may_be_ignored() {
    let mut config = config(5);
    let fixed = Ipv4Addr::new(10, 0, 0, 200);
    config.known.insert(
        mac(1),
        Known {
            hostname: Some("master-0".into()),
            address: Some(fixed),
            ..Known::default()
        },
    );
    config.known_only = true;
    let mut world = World::new(config);
    assert_eq!(world.send(&discover(mac(2))), []);
    assert_eq!(world.lease(mac(1)), fixed);
    assert_eq!(
        world
            .server
            .leases(world.now)
            .next()
            .unwrap()
            .hostname
            .as_deref(),
        Some("master-0")
    );
    // The operating system has another identifier than the ROM, and is still the same server.
    let with_id = ask(MessageType::Discover, mac(1), |m| {
        m.opts_mut()
            .insert(O::ClientIdentifier(vec![255, 1, 2, 3, 4]));
    });
    let (_, offer, _) = only(&world.send(&with_id));
    assert_eq!(offer.yiaddr(), fixed);
    assert_eq!(
        offer.opts().get(OptionCode::Hostname),
        Some(&O::Hostname("master-0".into()))
    );
}

#[test]
fn a_client_is_its_identifier_or_its_mac_as_the_site_says() {
    let with_id = |id: u8| {
        ask(MessageType::Discover, mac(1), |m| {
            m.opts_mut().insert(O::ClientIdentifier(vec![0, id]));
        })
    };
    let mut world = World::new(config(20));
    assert_ne!(
        only(&world.send(&with_id(1))).1.yiaddr(),
        only(&world.send(&with_id(2))).1.yiaddr()
    );
    let mut world = World::new(Config {
        identity: Identity::Mac,
        ..config(20)
    });
    assert_eq!(
        only(&world.send(&with_id(1))).1.yiaddr(),
        only(&world.send(&with_id(2))).1.yiaddr()
    );
}

#[test]
fn an_offer_for_another_server_is_taken_back_and_that_server_is_reported() {
    let mut world = World::new(config(1));
    let (_, offer, _) = only(&world.send(&discover(mac(1))));
    let other = Ipv4Addr::new(10, 0, 0, 66);
    let elsewhere = ask(MessageType::Request, mac(1), |m| {
        m.opts_mut().insert(O::ServerIdentifier(other));
        m.opts_mut().insert(O::RequestedIpAddress(offer.yiaddr()));
    });
    assert_eq!(
        world.send(&elsewhere),
        [Action::Report(Report::OtherServer { id: other })]
    );
    assert_eq!(only(&world.send(&discover(mac(2)))).0, MessageType::Offer);
}

#[test]
fn a_foreign_servers_answer_on_our_wire_is_reported_once_a_minute() {
    let mut world = World::new(config(1));
    let mut rogue = packet::blank(Opcode::BootReply, 1, mac(1));
    rogue.opts_mut().insert(O::MessageType(MessageType::Offer));
    rogue
        .opts_mut()
        .insert(O::ServerIdentifier(Ipv4Addr::new(10, 0, 0, 66)));
    let rogue = packet::encode(&rogue);
    assert_eq!(
        world.send(&rogue),
        [Action::Report(Report::OtherServer {
            id: Ipv4Addr::new(10, 0, 0, 66)
        })]
    );
    assert_eq!(world.send(&rogue), []);
    world.now += Duration::from_mins(1);
    assert_eq!(world.send(&rogue).len(), 1);
}

#[test]
fn what_cannot_be_had_is_refused_aloud() {
    let mut world = World::new(config(5));
    let address = world.lease(mac(1));
    let reboot = |n, address| {
        ask(MessageType::Request, mac(n), |m| {
            m.opts_mut().insert(O::RequestedIpAddress(address));
        })
    };
    let rows = [
        ("selecting someone else's address", select(mac(2), address)),
        (
            "rebooting into another network",
            reboot(2, Ipv4Addr::new(192, 168, 1, 7)),
        ),
        (
            "rebooting with an address of someone else",
            reboot(2, address),
        ),
        (
            "renewing a lease nobody knows",
            renew(mac(2), Ipv4Addr::new(10, 0, 0, 12)),
        ),
    ];
    for (name, bytes) in rows {
        let (kind, nak, dest) = only(&world.send(&bytes));
        assert_eq!(
            (kind, dest, nak.yiaddr()),
            (MessageType::Nak, Dest::Broadcast, Ipv4Addr::UNSPECIFIED),
            "{name}"
        );
    }
    let (kind, _, _) = only(&world.send(&reboot(1, address)));
    assert_eq!(kind, MessageType::Ack);
}

#[test]
fn a_server_that_is_not_alone_is_silent_about_leases_it_does_not_know() {
    let mut world = World::new(Config {
        authoritative: false,
        ..config(5)
    });
    assert_eq!(world.send(&renew(mac(2), Ipv4Addr::new(10, 0, 0, 12))), []);
}

#[test]
fn renewing_prolongs_the_lease_and_the_answer_goes_to_the_clients_address() {
    let mut world = World::new(config(5));
    let address = world.lease(mac(1));
    world.now += Duration::from_mins(30);
    let (kind, ack, dest) = only(&world.send(&renew(mac(1), address)));
    assert_eq!(
        (kind, ack.yiaddr(), dest),
        (
            MessageType::Ack,
            address,
            Dest::Unicast {
                ip: address,
                mac: mac(1)
            }
        )
    );
    assert_eq!(
        world.server.leases(world.now).next().unwrap().expires,
        world.now + Duration::from_hours(1)
    );
}

#[test]
fn a_lease_ends_in_time_and_is_renewed_as_long_as_nobody_else_has_the_address() {
    let mut world = World::new(config(5));
    let address = world.lease(mac(1));
    let lease = world.server.leases(world.now).next().unwrap().clone();
    world.now = lease.expires + GRACE;
    let actions = world.server.handle(world.now, Event::Timer);
    assert_eq!(actions[0], Action::Report(Report::Expired(lease)));
    assert_eq!(
        only(&world.send(&renew(mac(1), address))).0,
        MessageType::Ack
    );
}

#[test]
fn a_declined_address_is_left_alone_for_a_while() {
    let mut world = World::new(config(1));
    let address = world.lease(mac(1));
    let decline = ask(MessageType::Decline, mac(1), |m| {
        m.opts_mut().insert(O::RequestedIpAddress(address));
        m.opts_mut().insert(O::ServerIdentifier(SERVER));
    });
    let actions = world.send(&decline);
    assert!(
        actions.contains(&Action::Report(Report::Declined {
            address,
            mac: mac(1)
        })),
        "{actions:?}"
    );
    assert_eq!(sent(&world.send(&discover(mac(1)))), []);
    world.now += Duration::from_mins(10);
    assert_eq!(world.lease(mac(2)), address);
}

#[test]
fn a_strangers_release_or_decline_changes_nothing() {
    let mut world = World::new(config(1));
    let address = world.lease(mac(1));
    assert_eq!(world.send(&release(mac(2), address)), []);
    assert_eq!(world.server.leases(world.now).count(), 1);
}

#[test]
fn a_restarted_server_keeps_leases_and_honours_offers_it_made_before() {
    let mut world = World::new(config(5));
    let address = world.lease(mac(1));
    let (_, offer, _) = only(&world.send(&discover(mac(2))));
    let leases: Vec<_> = world.server.leases(world.now).cloned().collect();
    world.server = Server::restore(world.now, config(5), leases).unwrap();
    assert_eq!(
        only(&world.send(&renew(mac(1), address))).0,
        MessageType::Ack
    );
    assert_eq!(
        only(&world.send(&select(mac(2), offer.yiaddr()))).0,
        MessageType::Ack
    );
    assert_eq!(world.server.leases(world.now).count(), 2);
}

#[test]
fn a_client_that_becomes_known_keeps_the_address_it_has() {
    let mut world = World::new(config(5));
    let with_id = |kind, address: Option<Ipv4Addr>| {
        ask(kind, mac(1), |m| {
            m.opts_mut().insert(O::ClientIdentifier(vec![255, 1, 2]));
            if let Some(address) = address {
                m.opts_mut().insert(O::ServerIdentifier(SERVER));
                m.opts_mut().insert(O::RequestedIpAddress(address));
            }
        })
    };
    let address = only(&world.send(&with_id(MessageType::Discover, None)))
        .1
        .yiaddr();
    only(&world.send(&with_id(MessageType::Request, Some(address))));
    let mut pinned = config(5);
    pinned.known.insert(
        mac(1),
        Known {
            address: Some(address),
            ..Known::default()
        },
    );
    world.server.reconfigure(world.now, pinned).unwrap();
    let (kind, offer, _) = only(&world.send(&with_id(MessageType::Discover, None)));
    assert_eq!((kind, offer.yiaddr()), (MessageType::Offer, address));
    assert_eq!(
        only(&world.send(&renew(mac(1), address))).0,
        MessageType::Ack
    );
}

#[test]
fn through_a_relay_the_answer_goes_back_to_it_with_its_information() {
    let mut world = World::new(config(5));
    let relay = Ipv4Addr::new(10, 0, 0, 250);
    let relayed = |giaddr| {
        ask(MessageType::Discover, mac(1), |m| {
            m.set_giaddr(giaddr);
            m.opts_mut()
                .insert(packet::raw_option(82, vec![1, 2, 7, 7]));
        })
    };
    let (_, offer, dest) = only(&world.send(&relayed(relay)));
    assert_eq!(
        (dest, offer.giaddr()),
        (Dest::Relay { giaddr: relay }, relay)
    );
    assert_eq!(packet::raw_data(&offer, 82), Some(&[1, 2, 7, 7][..]));
    assert_eq!(
        world.send(&relayed(Ipv4Addr::new(172, 16, 0, 1))),
        [],
        "another subnet's relay"
    );
}

#[test]
fn the_broadcast_flag_is_honoured() {
    let mut world = World::new(config(5));
    let bytes = ask(MessageType::Discover, mac(1), |m| {
        m.set_flags(Flags::default().set_broadcast());
    });
    assert_eq!(only(&world.send(&bytes)).2, Dest::Broadcast);
}

#[test]
fn an_inform_is_answered_without_a_lease() {
    let mut world = World::new(config(5));
    let own = Ipv4Addr::new(10, 0, 0, 77);
    let bytes = ask(MessageType::Inform, mac(1), |m| {
        m.set_ciaddr(own);
    });
    let (kind, ack, dest) = only(&world.send(&bytes));
    assert_eq!(
        (kind, dest),
        (
            MessageType::Ack,
            Dest::Unicast {
                ip: own,
                mac: mac(1)
            }
        )
    );
    assert_eq!(ack.yiaddr(), Ipv4Addr::UNSPECIFIED);
    assert!(!ack.opts().contains(OptionCode::AddressLeaseTime));
}

#[test]
fn lease_times_asked_for_are_kept_within_the_sites_bounds() {
    let mut world = World::new(config(5));
    for (asked, given) in [(1, 60), (7200, 7200), (u32::MAX, 86400)] {
        let bytes = ask(MessageType::Discover, mac(1), |m| {
            m.opts_mut().insert(O::AddressLeaseTime(asked));
        });
        let (_, offer, _) = only(&world.send(&bytes));
        assert_eq!(
            offer.opts().get(OptionCode::AddressLeaseTime),
            Some(&O::AddressLeaseTime(given)),
            "{asked}"
        );
    }
}

#[test]
fn boot_files_are_told_in_header_and_options_and_a_clients_own_wins() {
    let next_server = Ipv4Addr::new(10, 0, 0, 2);
    let table = |file: &str| {
        Boot::Table(Table {
            next_server,
            tftp: BTreeMap::new(),
            tftp_default: Some(file.into()),
            http: BTreeMap::new(),
            ipxe: None,
        })
    };
    let mut config = Config {
        boot: table("undionly.kpxe"),
        ..config(5)
    };
    config.known.insert(
        mac(2),
        Known {
            boot: Some(table("special")),
            ..Known::default()
        },
    );
    let mut world = World::new(config);
    let pxe = |n| {
        ask(MessageType::Discover, mac(n), |m| {
            m.opts_mut().insert(O::ClassIdentifier(
                b"PXEClient:Arch:00000:UNDI:002001".to_vec(),
            ));
        })
    };
    let (_, offer, _) = only(&world.send(&pxe(1)));
    assert_eq!(
        (offer.siaddr(), packet::file(&offer)),
        (next_server, Some(&b"undionly.kpxe"[..]))
    );
    assert_eq!(
        offer.opts().get(OptionCode::BootfileName),
        Some(&O::BootfileName(b"undionly.kpxe".to_vec()))
    );
    assert_eq!(
        offer.opts().get(OptionCode::ClassIdentifier),
        None,
        "a ROM would wait for boot menus"
    );
    assert_eq!(
        packet::file(&only(&world.send(&pxe(2))).1),
        Some(&b"special"[..])
    );
    assert_eq!(packet::file(&only(&world.send(&discover(mac(3)))).1), None);
}

#[test]
fn a_configuration_that_cannot_work_is_refused_with_every_reason() {
    let mut config = config(5);
    config
        .pools
        .push(Ipv4Addr::new(10, 0, 0, 9)..=Ipv4Addr::new(10, 0, 0, 2));
    config
        .pools
        .push(Ipv4Addr::new(10, 1, 0, 0)..=Ipv4Addr::new(10, 9, 0, 0));
    config.known.insert(
        mac(1),
        Known {
            address: Some(SERVER),
            ..Known::default()
        },
    );
    config.known.insert(
        mac(2),
        Known {
            hostname: Some("Not a name".into()),
            raw: BTreeMap::from([(53, vec![1])]),
            ..Known::default()
        },
    );
    let error = Server::restore(start(), config, []).unwrap_err();
    assert_eq!(error.problems.len(), 6, "{error}");
}

#[test]
fn a_flood_of_unknown_clients_cannot_grow_the_tables() {
    let mut server = server(config(20));
    let mut now = start();
    for n in 0..20_000u32 {
        now += Duration::from_millis(7);
        let [a, b, c, d] = n.to_be_bytes();
        server.handle(
            now,
            Event::Packet {
                bytes: &discover(Mac([2, 0, a, b, c, d])),
            },
        );
        assert!(server.bound() <= 20);
    }
}

/// One step of a random story.
#[derive(Debug, Clone)]
enum Step {
    Discover(u8),
    Select(u8),
    Renew(u8),
    Release(u8),
    Decline(u8),
    Probed { by: Option<u8> },
    Persisted,
    PersistFailed,
    Wait(u16),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..8u8;
    prop_oneof![
        4 => client.clone().prop_map(Step::Discover),
        4 => client.clone().prop_map(Step::Select),
        2 => client.clone().prop_map(Step::Renew),
        1 => client.clone().prop_map(Step::Release),
        1 => client.clone().prop_map(Step::Decline),
        3 => proptest::option::weighted(0.2, client).prop_map(|by| Step::Probed { by }),
        6 => Just(Step::Persisted),
        1 => Just(Step::PersistFailed),
        3 => (1..2000u16).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ]
}

/// What clients and the disk know.
#[derive(Default)]
struct Seen {
    offers: BTreeMap<u8, Ipv4Addr>,
    /// Address, and when the client stops using it.
    leases: BTreeMap<u8, (Ipv4Addr, SystemTime)>,
    disk: BTreeMap<Ipv4Addr, Lease>,
    writing: Vec<(Token, Lease)>,
    probing: Vec<Ipv4Addr>,
}

impl Seen {
    fn watch(&mut self, now: SystemTime, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Probe { address } => self.probing.push(*address),
                Action::Persist { lease, token } => self.writing.push((*token, lease.clone())),
                Action::Send { bytes, .. } => self.packet(now, &packet::decode(bytes).unwrap()),
                Action::Report(_) => {}
            }
        }
    }

    fn packet(&mut self, now: SystemTime, message: &Message) {
        let client = message.chaddr()[5];
        let address = message.yiaddr();
        match message.opts().msg_type().unwrap() {
            MessageType::Offer => {
                self.offers.insert(client, address);
                self.alone(now, client, address);
            }
            MessageType::Ack => {
                let Some(O::AddressLeaseTime(seconds)) =
                    message.opts().get(OptionCode::AddressLeaseTime)
                else {
                    panic!()
                };
                let until = now + Duration::from_secs((*seconds).into());
                let written = self
                    .disk
                    .get(&address)
                    .unwrap_or_else(|| panic!("{address} is acknowledged and not on disk"));
                assert_eq!(
                    written.mac,
                    mac(client),
                    "the disk knows another holder of {address}"
                );
                assert!(
                    written.expires + Duration::from_secs(1) > until,
                    "the disk knows a shorter lease of {address}"
                );
                self.alone(now, client, address);
                self.leases.insert(client, (address, until));
            }
            MessageType::Nak => {
                self.leases.remove(&client);
            }
            other => panic!("{other:?}"),
        }
    }

    fn alone(&self, now: SystemTime, client: u8, address: Ipv4Addr) {
        for (other, (theirs, until)) in &self.leases {
            assert!(
                *other == client || *theirs != address || *until <= now,
                "{address} is given to {client} while {other} has it"
            );
        }
    }
}

proptest! {
    #[test]
    fn no_address_has_two_holders_and_no_promise_is_made_before_it_is_on_disk(steps in proptest::collection::vec(step(), 1..150)) {
        let config = || Config { times: Times { default: Duration::from_mins(10), ..Times::default() }, ..config(5) };
        let mut server = server(config());
        let mut now = start();
        let mut seen = Seen::default();
        for step in steps {
            let actions = match step {
                Step::Discover(n) => server.handle(now, Event::Packet { bytes: &discover(mac(n)) }),
                Step::Select(n) => match seen.offers.get(&n) {
                    Some(address) => server.handle(now, Event::Packet { bytes: &select(mac(n), *address) }),
                    None => continue,
                },
                Step::Renew(n) => match seen.leases.get(&n) {
                    Some((address, until)) if *until > now => server.handle(now, Event::Packet { bytes: &renew(mac(n), *address) }),
                    _ => continue,
                },
                Step::Release(n) => match seen.leases.remove(&n) {
                    Some((address, _)) => server.handle(now, Event::Packet { bytes: &release(mac(n), address) }),
                    None => continue,
                },
                Step::Decline(n) => match seen.leases.remove(&n) {
                    Some((address, _)) => server.handle(now, Event::Packet { bytes: &ask(MessageType::Decline, mac(n), |m| {
                        m.opts_mut().insert(O::RequestedIpAddress(address));
                    }) }),
                    None => continue,
                },
                Step::Probed { by } => match seen.probing.pop() {
                    Some(address) => server.handle(now, Event::ProbeResult { address, used_by: by.map(mac) }),
                    None => continue,
                },
                Step::Persisted => {
                    if seen.writing.is_empty() { continue }
                    let (token, lease) = seen.writing.remove(0);
                    seen.disk.insert(lease.address, lease);
                    server.handle(now, Event::Persisted { token })
                }
                Step::PersistFailed => {
                    if seen.writing.is_empty() { continue }
                    let (token, _) = seen.writing.remove(0);
                    server.handle(now, Event::PersistFailed { token })
                }
                Step::Wait(seconds) => {
                    now += Duration::from_secs(seconds.into());
                    server.handle(now, Event::Timer)
                }
                Step::Restart => {
                    seen.writing.clear();
                    seen.probing.clear();
                    server = Server::restore(now, config(), seen.disk.values().cloned()).unwrap();
                    continue;
                }
            };
            seen.watch(now, &actions);
            prop_assert!(server.bound() <= 5);
            if server.wake_at().is_some_and(|at| at <= now) {
                seen.watch(now, &server.handle(now, Event::Timer));
            }
            prop_assert!(server.wake_at().is_none_or(|at| at > now));
        }
    }

    #[test]
    fn no_packet_stops_the_server(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 1..8)) {
        let mut server = server(config(5));
        for mut bytes in packets {
            server.handle(start(), Event::Packet { bytes: &bytes });
            // The same bytes as options of a packet that gets further.
            let mut packet = discover(mac(1));
            packet.truncate(240);
            packet.append(&mut bytes);
            server.handle(start(), Event::Packet { bytes: &packet });
        }
    }
}
