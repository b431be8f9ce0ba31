//! Three and five routers on a switch that loses, delays, reorders and splits.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use model::Mac;
use protocols::vrrp::router::{Announce, Preempt};
use protocols::vrrp::{
    Action, Advertisement, Authentication, Config, Event, Header, Priority, Role, Router, Version,
    VirtualRouterId, group,
};

const SEEDS: u64 = 1500;
const INTERVAL: Duration = Duration::from_millis(40);
const HEALTHY: u8 = 60;
const SICK: u8 = 40;
/// Stands for a host that only uses the address.
const CLIENT: usize = usize::MAX;

#[test]
fn three_routers_agree_again_after_every_storm() {
    for seed in 0..SEEDS {
        Sim::new(3, seed, Preempt::AtOnce, Sickness::Weight).storms();
    }
}

#[test]
fn five_routers_agree_again_after_every_storm() {
    for seed in 0..SEEDS {
        Sim::new(5, seed, Preempt::AtOnce, Sickness::Weight).storms();
    }
}

#[test]
fn routers_that_do_not_preempt_agree_and_the_unfit_hold_nothing() {
    for seed in 0..SEEDS {
        Sim::new(3, seed, Preempt::Never, Sickness::Required).storms();
    }
}

#[test]
fn routers_of_one_priority_agree_by_address() {
    for seed in 0..SEEDS / 3 {
        let mut sim = Sim::new(3, seed, Preempt::AtOnce, Sickness::Weight);
        sim.ranked = false;
        sim.storms();
    }
}

#[test]
fn a_planned_move_leaves_nobody_without_an_answer() {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(3, seed, Preempt::AtOnce, Sickness::Weight);
        sim.max_delay_us = 900;
        for node in 0..3 {
            sim.run_node(node);
        }
        sim.advance(INTERVAL * 20);
        let holder = sim.holders()[0];
        let asked = [Event::Stop, Event::Resign][(seed % 2) as usize].clone();
        sim.give(holder, asked);
        for _ in 0..200 {
            sim.advance(Duration::from_micros(500));
            let seen = sim.client_sees;
            let answers = sim
                .holders()
                .into_iter()
                .any(|at| seen == Some(address(at)));
            assert!(answers, "{sim}: the client asks {seen:?}");
        }
        let after = sim.holders();
        assert!(after.len() == 1 && after[0] != holder, "{sim}: {after:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = || {
        let mut sim = Sim::new(5, 42, Preempt::AtOnce, Sickness::Weight);
        sim.storms();
        sim.trace
    };
    let first = trace();
    assert!(first.len() > 10, "{first:?}");
    assert_eq!(first, trace());
}

/// What a failed check does.
#[derive(Clone, Copy, PartialEq)]
enum Sickness {
    /// Lowers the priority.
    Weight,
    /// Makes the router unfit.
    Required,
}

struct Sim {
    seed: u64,
    dice: u64,
    start: Instant,
    now: Instant,
    queue: BTreeMap<(Instant, u64), Arrival>,
    sequence: u64,
    nodes: Vec<Node>,
    sickness: Sickness,
    /// Every node has a priority of its own, the higher its number.
    ranked: bool,
    loss_percent: u64,
    max_delay_us: u64,
    /// Whom the client's ARP cache points to. It is in part 0.
    client_sees: Option<IpAddr>,
    /// Since when two connected, waking nodes hold the address.
    overlap: Option<Instant>,
    trace: Vec<String>,
}

struct Node {
    router: Router,
    config: Config,
    running: bool,
    healthy: bool,
    holds: bool,
    /// Was asked to give the address up: may leave it with a lesser node.
    resigned: bool,
    asleep_until: Option<Instant>,
    /// Nodes of one part hear each other.
    part: u64,
    inbox: VecDeque<Arrival>,
}

#[derive(Clone)]
struct Arrival {
    to: usize,
    header: Header,
    bytes: Vec<u8>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a place for virtual time to start"
)]
fn start() -> Instant {
    Instant::now()
}

impl Sim {
    fn new(count: usize, seed: u64, preempt: Preempt, sickness: Sickness) -> Self {
        let now = start();
        let node = |rank: usize| {
            let config = Config {
                version: Version::V3,
                id: VirtualRouterId::new(7).unwrap(),
                addresses: vec![Ipv4Addr::new(192, 0, 2, 100).into()],
                source: address(rank),
                priority: Some(Priority(HEALTHY + rank as u8)),
                interval: INTERVAL,
                authentication: Authentication::None,
                preempt,
                listen: INTERVAL * (seed % 3) as u32 * 4,
                swift: seed.is_multiple_of(2),
                announce: Announce::default(),
            };
            Node {
                router: Router::new(config.clone()),
                config,
                running: false,
                healthy: true,
                holds: false,
                resigned: false,
                asleep_until: None,
                part: 0,
                inbox: VecDeque::new(),
            }
        };
        Self {
            seed,
            dice: seed,
            start: now,
            now,
            queue: BTreeMap::new(),
            sequence: 0,
            nodes: (0..count).map(node).collect(),
            sickness,
            ranked: true,
            loss_percent: 0,
            max_delay_us: 500,
            client_sees: None,
            overlap: None,
            trace: Vec::new(),
        }
    }

    fn storms(&mut self) {
        for node in 0..self.nodes.len() {
            self.run_node(node);
        }
        self.calm();
        for _ in 0..3 {
            self.storm();
            self.calm();
        }
    }

    /// Faults of every kind, at random.
    fn storm(&mut self) {
        self.loss_percent = self.roll(21);
        self.max_delay_us = 1 + self.roll(15_000);
        for _ in 0..self.roll(12) {
            let node = self.roll(self.nodes.len() as u64) as usize;
            match self.roll(8) {
                0 => self.nodes[node].part = self.roll(2),
                1 => self.nodes.iter_mut().for_each(|node| node.part = 0),
                2 => self.sleep_node(node),
                3 => self.kill(node),
                4 => self.give(node, Event::Stop),
                5 => self.run_node(node),
                6 => self.set_health(node, !self.nodes[node].healthy),
                _ => self.give(node, Event::Resign),
            }
            let pause = Duration::from_millis(self.roll(300));
            self.advance(pause);
        }
    }

    /// Everything connected and running, some checks still failing: one election later there is one
    /// holder, the right one, and it stays.
    fn calm(&mut self) {
        self.loss_percent = 0;
        self.max_delay_us = 2000;
        for node in 0..self.nodes.len() {
            self.nodes[node].part = 0;
            self.wake(node);
            self.run_node(node);
        }
        let rescued = self.roll(self.nodes.len() as u64) as usize;
        self.set_health(rescued, true);
        // Listening, the longest silence that a storm can have taught, and a down interval for the loser of a tie.
        self.advance(INTERVAL * 8 + INTERVAL * 26 + INTERVAL * 4 + Duration::from_millis(50));
        let settled = self.holders();
        assert_eq!(settled.len(), 1, "{self}: holders {settled:?}");
        let holder = settled[0];
        let willing = |node: &usize| self.nodes[*node].healthy && !self.nodes[*node].resigned;
        let best = (0..self.nodes.len()).filter(willing).max();
        assert!(
            self.nodes[holder].healthy || best.is_none(),
            "{self}: sick holder {holder}"
        );
        let preempts = self.ranked && self.nodes[holder].config.preempt == Preempt::AtOnce;
        assert!(
            !preempts || Some(holder) >= best,
            "{self}: {holder}, not {best:?}"
        );
        let changes = self.trace.len();
        self.advance(Duration::from_secs(1));
        assert_eq!(self.trace.len(), changes, "{self}: flapped in steady state");
        let seen = self.client_sees;
        assert_eq!(
            seen,
            Some(address(holder)),
            "{self}: black hole, {holder} holds"
        );
    }

    fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        while let Some((at, step)) = self.next().filter(|(at, _)| *at <= end) {
            self.now = self.now.max(at);
            match step {
                Step::Wake(node) => self.wake(node),
                Step::Timer(node) => self.give(node, Event::Timer),
                Step::Deliver(key) => {
                    let arrival = self.queue.remove(&key).unwrap();
                    self.deliver(arrival);
                }
            }
            self.check_overlap();
        }
        self.now = end;
    }

    fn next(&self) -> Option<(Instant, Step)> {
        let packet = self
            .queue
            .keys()
            .next()
            .map(|key| (key.0, Step::Deliver(*key)));
        let nodes =
            self.nodes
                .iter()
                .enumerate()
                .filter_map(|(at, node)| match node.asleep_until {
                    Some(until) => Some((until, Step::Wake(at))),
                    None if node.running => {
                        node.router.wake_at().map(|time| (time, Step::Timer(at)))
                    }
                    None => None,
                });
        nodes.chain(packet).min_by_key(|(at, _)| *at)
    }

    fn deliver(&mut self, arrival: Arrival) {
        if arrival.to == CLIENT {
            self.client_sees = Some(arrival.header.from);
            return;
        }
        let node = &mut self.nodes[arrival.to];
        if !node.running {
            return;
        }
        if node.asleep_until.is_some() {
            // A socket's queue is not endless either.
            if node.inbox.len() < 32 {
                node.inbox.push_back(arrival);
            }
            return;
        }
        let from = arrival.header.from;
        if arrival.bytes.is_empty() {
            let by = mac(from);
            return self.give(arrival.to, Event::Claimed { by });
        }
        let advertisement = Advertisement::parse(arrival.header, &arrival.bytes).unwrap();
        self.give(
            arrival.to,
            Event::Heard {
                from,
                advertisement,
            },
        );
    }

    fn give(&mut self, at: usize, event: Event) {
        if !self.nodes[at].running || self.nodes[at].asleep_until.is_some() {
            return;
        }
        if let Event::Resign = event
            && self.nodes[at].holds
        {
            self.nodes[at].resigned = true;
        }
        for action in self.nodes[at].router.handle(self.now, event) {
            match action {
                Action::Send(advertisement) => self.send(at, &advertisement),
                Action::TakeVip => {
                    assert!(!self.nodes[at].holds, "{self}: {at} takes what it has");
                    self.nodes[at].holds = true;
                }
                Action::DropVip => self.nodes[at].holds = false,
                Action::Announce => {
                    assert!(self.nodes[at].holds, "{self}: {at} announces");
                    self.announce(at);
                }
                Action::Probe | Action::Report(_) => {}
                Action::Changed { from, to, why } => {
                    let millis = (self.now - self.start).as_millis();
                    self.trace
                        .push(format!("{millis} {at}: {from:?} -> {to:?} {why:?}"));
                }
            }
        }
        let role = self.nodes[at].router.role();
        let holds = role.holds();
        assert_eq!(self.nodes[at].holds, holds, "{self}: node {at}");
        if role == Role::Stopped {
            self.nodes[at].running = false;
        }
    }

    fn send(&mut self, from: usize, advertisement: &Advertisement) {
        let source = address(from);
        let header = Header {
            from: source,
            to: group(source),
            ttl: 255,
        };
        let bytes = advertisement.encode(header.from, header.to);
        for to in 0..self.nodes.len() {
            let apart = self.nodes[to].part != self.nodes[from].part;
            if to == from || apart || self.roll(100) < self.loss_percent {
                continue;
            }
            let delay = Duration::from_micros(20 + self.roll(self.max_delay_us));
            self.sequence += 1;
            let bytes = bytes.clone();
            self.queue.insert(
                (self.now + delay, self.sequence),
                Arrival { to, header, bytes },
            );
        }
    }

    /// Announcements are delayed and lost as everything else.
    fn announce(&mut self, from: usize) {
        let source = address(from);
        let header = Header {
            from: source,
            to: group(source),
            ttl: 255,
        };
        for to in (0..self.nodes.len()).chain([CLIENT]) {
            let part = self.nodes.get(to).map_or(0, |node| node.part);
            let apart = part != self.nodes[from].part;
            if to == from || apart || self.roll(100) < self.loss_percent {
                continue;
            }
            let delay = Duration::from_micros(20 + self.roll(self.max_delay_us));
            self.sequence += 1;
            let arrival = Arrival {
                to,
                header,
                bytes: Vec::new(),
            };
            self.queue
                .insert((self.now + delay, self.sequence), arrival);
        }
    }

    fn run_node(&mut self, at: usize) {
        // One that was asked to stop is not started before it has.
        while self.nodes[at].running && self.nodes[at].router.role() == Role::Leaving {
            self.advance(INTERVAL);
        }
        if self.nodes[at].running {
            return;
        }
        let mut config = self.nodes[at].config.clone();
        config.priority = self.priority(at);
        self.nodes[at].router = Router::new(config);
        self.nodes[at].running = true;
        self.nodes[at].asleep_until = None;
        self.nodes[at].resigned = false;
        self.give(at, Event::Start);
    }

    fn kill(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        (node.running, node.holds, node.asleep_until) = (false, false, None);
        node.inbox.clear();
    }

    fn sleep_node(&mut self, at: usize) {
        let pause = Duration::from_millis(self.roll(600));
        self.nodes[at].asleep_until = Some(self.now + pause);
    }

    fn wake(&mut self, at: usize) {
        self.nodes[at].asleep_until = None;
        if !self.nodes[at].running {
            return;
        }
        let timer_first = self.roll(2) == 0;
        if timer_first {
            self.give(at, Event::Timer);
        }
        let priority = self.priority(at);
        self.give(at, Event::PriorityChanged(priority));
        for arrival in std::mem::take(&mut self.nodes[at].inbox) {
            self.deliver(arrival);
        }
    }

    fn set_health(&mut self, at: usize, healthy: bool) {
        self.nodes[at].healthy = healthy;
        if self.nodes[at].running {
            let priority = self.priority(at);
            self.give(at, Event::PriorityChanged(priority));
        }
    }

    fn priority(&self, at: usize) -> Option<Priority> {
        let rank = if self.ranked { at as u8 } else { 0 };
        match (self.nodes[at].healthy, self.sickness) {
            (true, _) => Some(Priority(HEALTHY + rank)),
            (false, Sickness::Weight) => Some(Priority(SICK + rank)),
            (false, Sickness::Required) => None,
        }
    }

    fn holders(&self) -> Vec<usize> {
        (0..self.nodes.len())
            .filter(|at| self.nodes[*at].holds)
            .collect()
    }

    /// Two nodes that hear each other may both hold the address only for an election, even when packets
    /// are lost: every advertisement is another chance.
    fn check_overlap(&mut self) {
        let awake: Vec<_> = self
            .holders()
            .into_iter()
            .filter(|at| self.nodes[*at].asleep_until.is_none())
            .map(|at| self.nodes[at].part)
            .collect();
        let both = (0..2).any(|part| awake.iter().filter(|of| **of == part).count() > 1);
        if !both {
            self.overlap = None;
            return;
        }
        let since = *self.overlap.get_or_insert(self.now);
        assert!(self.now - since <= INTERVAL * 10, "{self}: two holders");
    }

    /// SplitMix64.
    fn roll(&mut self, below: u64) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.dice;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}

#[derive(Clone, Copy)]
enum Step {
    Wake(usize),
    Timer(usize),
    Deliver((Instant, u64)),
}

fn mac(of: IpAddr) -> Mac {
    let last = match of {
        IpAddr::V4(v4) => v4.octets()[3],
        IpAddr::V6(v6) => v6.octets()[15],
    };
    Mac([2, 0, 0, 0, 0, last])
}

fn address(rank: usize) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, 10 + rank as u8).into()
}

impl std::fmt::Display for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let last = self.trace.len().saturating_sub(30);
        write!(
            f,
            "seed {} with {} routers, at {:?}\n  {}\n",
            self.seed,
            self.nodes.len(),
            self.now - self.start,
            self.trace[last..].join("\n  ")
        )
    }
}
