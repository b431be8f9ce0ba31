//! Several nodes on one simulated link, with loss.

use std::collections::BTreeSet;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::rdata::{A, AAAA, PTR, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use proptest::prelude::*;

use super::name::{host_name, instance_name};
use super::random::Random;
use super::*;

#[expect(
    clippy::disallowed_methods,
    reason = "a place for virtual time to start"
)]
fn start() -> Instant {
    Instant::now()
}

fn config(host: &str) -> Config {
    Config {
        cluster: "c1".into(),
        host: host.into(),
        services: vec![Kind::Workstation],
        host_ttl: 120,
        service_ttl: 3200,
    }
}

fn address(n: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, n])
}

/// A link with nodes; a node that is `None` has lost its power.
struct Link {
    now: Instant,
    nodes: Vec<Option<Node>>,
    dice: Random,
    loss_percent: u64,
    packets: usize,
    reports: Vec<(usize, Report)>,
}

impl Link {
    fn new(configs: Vec<Config>, seed: u64, loss_percent: u64) -> Self {
        let mut link = Self {
            now: start(),
            nodes: Vec::new(),
            dice: Random(seed),
            loss_percent,
            packets: 0,
            reports: Vec::new(),
        };
        for config in configs {
            link.add(config);
        }
        link
    }

    fn add(&mut self, config: Config) -> usize {
        let at = self.nodes.len();
        let seed = self.dice.millis(0, u64::MAX - 1).as_millis() as u64;
        self.nodes.push(Some(Node::new(config, seed)));
        let own = vec![address(at as u8 + 1)];
        self.feed(
            at,
            Event::Addresses {
                publish: own.clone(),
                own,
            },
        );
        at
    }

    fn feed(&mut self, at: usize, event: Event<'_>) {
        let mut queue = Vec::new();
        if let Some(node) = &mut self.nodes[at] {
            queue.extend(
                node.handle(self.now, event)
                    .into_iter()
                    .map(|action| (at, action)),
            );
        }
        // A packet travels in no time; what it causes at once comes after it.
        while !queue.is_empty() {
            let (sender, action) = queue.remove(0);
            let (bytes, only) = match action {
                Action::Multicast(bytes) => (bytes, None),
                Action::Unicast { to, bytes } => (bytes, Some(to.ip())),
                Action::Changed => continue,
                Action::Report(report) => {
                    self.reports.push((sender, report));
                    continue;
                }
            };
            self.packets += 1;
            let from = SocketAddr::new(address(sender as u8 + 1), PORT);
            for other in 0..self.nodes.len() {
                let lost = self.dice.millis(0, 99).as_millis() < u128::from(self.loss_percent);
                let wanted = only.is_none_or(|only| only == address(other as u8 + 1));
                // The kernel gives us our own packets too.
                if (lost && other != sender) || !wanted {
                    continue;
                }
                if let Some(node) = &mut self.nodes[other] {
                    let heard = Event::Heard {
                        from,
                        bytes: &bytes,
                    };
                    let more = node.handle(self.now, heard);
                    queue.extend(more.into_iter().map(|action| (other, action)));
                }
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next = self
                .nodes
                .iter()
                .enumerate()
                .filter_map(|(at, node)| Some((node.as_ref()?.wake_at()?, at)))
                .min();
            match next {
                Some((when, at)) if when <= end => {
                    assert!(when >= self.now || self.now - when < Duration::from_secs(1));
                    self.now = self.now.max(when);
                    self.feed(at, Event::Timer);
                    let stuck = self.nodes[at].as_ref().and_then(Node::wake_at);
                    assert!(
                        stuck.is_none_or(|wake| wake > self.now),
                        "a timer that is not done"
                    );
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn seen_by(&self, at: usize) -> BTreeSet<String> {
        let found = self.nodes[at].as_ref().unwrap().found(self.now);
        found.into_iter().map(|found| found.host).collect()
    }
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn three_nodes_find_each_other_and_a_goodbye_is_seen_at_once() {
    let mut link = Link::new(vec![config("a"), config("b"), config("c")], 1, 0);
    link.run(seconds(3));
    for at in 0..3 {
        assert_eq!(link.seen_by(at), names(&["a", "b", "c"]));
    }
    link.feed(1, Event::Stop);
    link.nodes[1] = None;
    link.run(seconds(2));
    assert_eq!(link.seen_by(0), names(&["a", "c"]));
}

#[test]
fn a_node_that_dies_is_forgotten_when_its_address_expires() {
    let mut link = Link::new(vec![config("a"), config("b")], 2, 0);
    link.run(seconds(10));
    link.nodes[1] = None;
    link.run(seconds(100));
    assert_eq!(link.seen_by(0), names(&["a", "b"]));
    link.run(seconds(30));
    assert_eq!(link.seen_by(0), names(&["a"]));
}

#[test]
fn living_nodes_are_never_forgotten_on_a_lossy_link() {
    for seed in 0..40 {
        let hosts = ["a", "b", "c", "d", "e"];
        let mut link = Link::new(hosts.iter().map(|host| config(host)).collect(), seed, 20);
        link.run(seconds(20));
        for step in 0..60 {
            link.run(seconds(20));
            for at in 0..5 {
                assert_eq!(
                    link.seen_by(at),
                    names(&hosts),
                    "seed {seed} step {step} node {at}"
                );
            }
        }
    }
}

#[test]
fn a_quiet_link_stays_quiet() {
    let mut link = Link::new((0..10).map(|n| config(&format!("n{n}"))).collect(), 3, 0);
    link.run(seconds(300));
    let before = link.packets;
    link.run(seconds(600));
    let per_node_minute = (link.packets - before) / 100;
    assert!(
        per_node_minute <= 12,
        "{per_node_minute} packets per node and minute"
    );
}

#[test]
fn of_two_with_one_name_the_second_takes_another_and_says_so() {
    for seed in 0..30 {
        let mut link = Link::new(vec![config("a")], seed, 0);
        link.run(seconds(3));
        let second = link.add(config("A"));
        link.run(seconds(10));
        assert_eq!(link.seen_by(0), names(&["a", "a-2"]), "seed {seed}");
        let renamed = Report::Renamed {
            from: "a".into(),
            to: "a-2".into(),
            by: address(1),
        };
        assert!(
            link.reports.contains(&(second, renamed)),
            "{:?}",
            link.reports
        );
    }
}

#[test]
fn two_who_start_at_one_moment_with_one_name_end_with_two() {
    for seed in 0..60 {
        let mut link = Link::new(vec![config("a"), config("a"), config("a")], seed, 0);
        link.run(seconds(30));
        for at in 0..3 {
            assert_eq!(link.seen_by(at), names(&["a", "a-2", "a-3"]), "seed {seed}");
        }
    }
}

#[test]
fn a_new_address_is_told_and_the_old_one_goes() {
    let mut link = Link::new(vec![config("a"), config("b")], 4, 0);
    link.run(seconds(10));
    let fresh: IpAddr = "192.0.2.77".parse().unwrap();
    link.feed(
        1,
        Event::Addresses {
            publish: vec![fresh],
            own: vec![address(2), fresh],
        },
    );
    link.run(seconds(5));
    let found = link.nodes[0].as_ref().unwrap().found(link.now);
    assert_eq!(found[1].addresses, [fresh]);
    // The link goes and comes back.
    for own in [vec![], vec![fresh]] {
        link.feed(
            1,
            Event::Addresses {
                publish: own.clone(),
                own,
            },
        );
        link.run(seconds(5));
    }
    assert_eq!(link.seen_by(1), names(&["a", "b"]));
}

#[test]
fn other_clusters_and_bootstrap_nodes_are_no_members() {
    let mut other = config("x");
    other.cluster = "c1b".into();
    let mut bootstrap = config("boot");
    bootstrap.services.clear();
    let mut master = config("m");
    master.services.push(Kind::Etcd);
    let mut link = Link::new(vec![config("a"), other, bootstrap, master], 5, 0);
    link.run(seconds(5));
    assert_eq!(link.seen_by(0), names(&["a", "m"]));
    assert_eq!(link.seen_by(1), names(&["x"]));
    assert_eq!(link.seen_by(2), names(&["a", "m"]));
    let found = link.nodes[2].as_ref().unwrap().found(link.now);
    assert_eq!([found[0].etcd, found[1].etcd], [false, true]);
}

/// A node alone that has announced itself.
fn settled() -> (Node, Instant) {
    let mut node = Node::new(config("a"), 9);
    let mut now = start();
    let own = vec![address(1)];
    node.handle(
        now,
        Event::Addresses {
            publish: own.clone(),
            own,
        },
    );
    for _ in 0..12 {
        now = node.wake_at().unwrap();
        node.handle(now, Event::Timer);
    }
    (node, now + seconds(2))
}

fn ask(node: &mut Node, now: Instant, from: &str, message: &Message) -> Vec<Action> {
    let bytes = message.to_vec().unwrap();
    node.handle(
        now,
        Event::Heard {
            from: from.parse().unwrap(),
            bytes: &bytes,
        },
    )
}

fn question(name: Name, kind: RecordType, unicast: bool) -> Message {
    let mut message = Message::new(0, MessageType::Query, OpCode::Query);
    let mut query = Query::query(name, kind);
    query.set_mdns_unicast_response(unicast);
    message.add_query(query);
    message
}

#[test]
fn answers_are_unicast_multicast_or_legacy_as_asked() {
    let (mut node, now) = settled();
    let plain = question(host_name("A"), RecordType::A, false);
    let actions = ask(&mut node, now, "192.0.2.9:5353", &plain);
    let [Action::Multicast(bytes)] = &actions[..] else {
        panic!("{actions:?}")
    };
    let answer = Message::from_vec(bytes).unwrap();
    assert!(answer.answers[0].mdns_cache_flush && answer.answers[0].ttl == 120);
    let actions = ask(
        &mut node,
        now,
        "192.0.2.9:5353",
        &question(host_name("a"), RecordType::A, true),
    );
    assert!(
        matches!(actions[..], [Action::Unicast { .. }]),
        "{actions:?}"
    );
    let mut legacy = plain.clone();
    legacy.metadata.id = 77;
    let actions = ask(&mut node, now, "192.0.2.9:4000", &legacy);
    let [Action::Unicast { bytes, .. }] = &actions[..] else {
        panic!("{actions:?}")
    };
    let answer = Message::from_vec(bytes).unwrap();
    assert_eq!((answer.metadata.id, answer.queries.len()), (77, 1));
    assert!(!answer.answers[0].mdns_cache_flush && answer.answers[0].ttl == 10);
}

#[test]
fn what_is_known_or_was_just_said_is_not_said_again() {
    let (mut node, now) = settled();
    let mut known = question(host_name("a"), RecordType::A, false);
    let data = RData::A(A([192, 0, 2, 1].into()));
    known.add_answer(Record::from_rdata(host_name("a"), 60, data.clone()));
    assert!(ask(&mut node, now, "192.0.2.9:5353", &known).is_empty());
    known.answers[0].ttl = 59;
    assert_eq!(ask(&mut node, now, "192.0.2.9:5353", &known).len(), 1);
    // Within a second: later, once.
    known.answers.clear();
    assert!(ask(&mut node, now, "192.0.2.9:5353", &known).is_empty());
    let pending = node.publisher_wake();
    assert_eq!(pending, Some(now + seconds(1)));
    // Who asked turns out to know it.
    let mut more = Message::new(0, MessageType::Query, OpCode::Query);
    more.add_answer(Record::from_rdata(host_name("a"), 100, data));
    ask(&mut node, now, "192.0.2.9:5353", &more);
    assert_eq!(node.publisher_wake(), None);
}

#[test]
fn shared_answers_wait_a_little_and_bring_all_that_belongs_to_them() {
    let (mut node, now) = settled();
    let browse = question(Kind::Workstation.service(), RecordType::PTR, false);
    assert!(ask(&mut node, now, "192.0.2.9:5353", &browse).is_empty());
    let due = node.publisher_wake().unwrap();
    let delay = due - now;
    assert!((20..=120).contains(&delay.as_millis()), "{delay:?}");
    let actions = node.handle(due, Event::Timer);
    let answer = actions
        .iter()
        .find_map(|action| match action {
            Action::Multicast(bytes) => Message::from_vec(bytes)
                .ok()
                .filter(|message| !message.answers.is_empty() && message.queries.is_empty()),
            _ => None,
        })
        .unwrap();
    let expected = instance_name(Kind::Workstation, "c1 Workstation-a");
    assert_eq!(answer.answers[0].data, RData::PTR(PTR(expected.clone())));
    assert!(!answer.answers[0].mdns_cache_flush);
    let beside: BTreeSet<RecordType> = answer.additionals.iter().map(Record::record_type).collect();
    assert_eq!(
        beside,
        BTreeSet::from([RecordType::SRV, RecordType::TXT, RecordType::A])
    );
    let srv = answer
        .additionals
        .iter()
        .find(|record| record.record_type() == RecordType::SRV);
    assert_eq!(
        srv.unwrap().data,
        RData::SRV(SRV::new(0, 0, 42424, host_name("a")))
    );
    assert_eq!(srv.unwrap().ttl, 3200);
}

#[test]
fn our_own_voice_and_a_second_program_on_this_machine_are_no_conflict() {
    let (mut node, now) = settled();
    let mut other = Message::response(0, OpCode::Query);
    let mut record = Record::from_rdata(
        host_name("a"),
        120,
        RData::AAAA(AAAA("fe80::1".parse().unwrap())),
    );
    record.mdns_cache_flush = true;
    other.add_answer(record.clone());
    record.data = RData::A(A([192, 0, 2, 200].into()));
    other.add_answer(record);
    assert!(ask(&mut node, now, "192.0.2.1:5353", &other).is_empty());
    let actions = ask(&mut node, now, "192.0.2.66:5353", &other);
    assert!(
        matches!(
            &actions[..],
            [Action::Report(Report::Contested { .. }), Action::Changed]
        ),
        "{actions:?}"
    );
    assert!(ask(&mut node, now, "192.0.2.66:99", &other).is_empty());
    assert_eq!(node.dropped()[&Dropped::WrongPort], 1);
}

impl Node {
    /// When the publisher alone wants to be woken.
    fn publisher_wake(&self) -> Option<Instant> {
        self.publisher_ref().wake_at()
    }
}

proptest! {
    #[test]
    fn no_bytes_stop_a_node(mut bytes in prop::collection::vec(any::<u8>(), 0..400), shape in 0..3u8, port in 5353..5355u16) {
        let (mut node, now) = settled();
        if shape > 0 && bytes.len() > 12 {
            let flags = if shape == 1 { 0 } else { 0x84 };
            bytes[..12].copy_from_slice(&[0, 0, flags, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
        }
        node.handle(now, Event::Heard { from: SocketAddr::new(address(9), port), bytes: &bytes });
        node.handle(now + seconds(5), Event::Timer);
    }

    #[test]
    fn any_records_leave_the_cache_bounded_and_the_timers_moving(
        records in prop::collection::vec((0..6u8, 0..4u8, any::<bool>(), prop_oneof![Just(0u32), Just(1), 2..5000u32, Just(u32::MAX)]), 1..40)
    ) {
        let (mut node, mut now) = settled();
        for (kind, n, flush, ttl) in records {
            let host = host_name(&format!("n{n}"));
            let label = format!("c1 Workstation-n{n}");
            let instance = instance_name(Kind::Workstation, &label);
            let (name, data) = match kind {
                0 => (Kind::Workstation.service(), RData::PTR(PTR(instance))),
                1 => (instance, RData::SRV(SRV::new(0, 0, 1, host))),
                2 => (host, RData::A(A([10, 0, 0, n].into()))),
                3 => (host, RData::AAAA(AAAA("2001:db8::1".parse().unwrap()))),
                4 => (instance, RData::TXT(TXT::new(vec!["x".into()]))),
                _ => (host_name("a"), RData::A(A([10, 0, 0, n].into()))),
            };
            let mut message = Message::response(0, OpCode::Query);
            let mut record = Record::from_rdata(name, ttl, data);
            record.mdns_cache_flush = flush;
            message.add_answer(record);
            ask(&mut node, now, "192.0.2.9:5353", &message);
            for _ in 0..3 {
                let wake = node.wake_at().unwrap();
                now = now.max(wake);
                node.handle(now, Event::Timer);
                prop_assert!(node.wake_at().unwrap() > now);
            }
        }
    }
}
