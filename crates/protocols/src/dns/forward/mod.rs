//! Questions asked of others: who, how often, by which transport, and whom to believe.
//!
//! ```text
//!   Query ──> the same question under way? ── yes ──> wait with it
//!      │ no
//!      ▼
//!   Ask (UDP) ── silence, refusal ──> the next upstream ── none left ──> Stale, or "server failure"
//!      │ cut          │ no EDNS
//!      ▼              ▼
//!   Ask (TCP)      Ask without it
//!      │
//!      ▼
//!   Answer to all who wait, Keep
//! ```
//!
//! Nobody can make us ask ourselves for ever: our own addresses are never upstreams, every upstream is sent
//! a secret name first and shunned if that name comes back as a question, and equal questions wait for one
//! another.

mod dice;
mod upstream;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::reply::{self, MAX_DATAGRAM, Transport};
use super::stored::{Age, Bad, Stored};
use super::wire::{CHECKING_DISABLED, HEADER, IN, Question, RECURSION_DESIRED, Rcode, kind};
use dice::Dice;
use upstream::Turn;
pub use upstream::Upstream;

/// The first try is short, so that a dead first server costs little.
const FIRST_TRY: Duration = Duration::from_millis(600);
const LATER_TRY: Duration = Duration::from_millis(1200);
const TCP_TRY: Duration = Duration::from_secs(3);
/// Stub resolvers give up after five seconds.
const GIVE_UP: Duration = Duration::from_millis(4500);
/// A client with an old answer to get does not wait longer (RFC 8767, 5).
const STALE_AFTER: Duration = Duration::from_millis(1800);
/// After a failure an old answer is given at once for so long (RFC 8767, 5).
const STALE_AT_ONCE: Duration = Duration::from_secs(5);
const MAX_TRIES: usize = 6;
/// Tries of one question that still listen: each has a socket.
const MAX_OPEN: usize = 2;
const PROBE_FOR: Duration = Duration::from_secs(5);
const PROBE_AGAIN: Duration = Duration::from_mins(1);
/// Secret names are under this one; nobody has it (RFC 6761).
const PROBE_DOMAIN: &[u8] = b"\x0aplinthloop\x07invalid\0";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where we listen.
    pub own: Vec<SocketAddr>,
    /// Questions under way at one time, and of one client.
    pub max_pending: usize,
    pub max_pending_per_client: usize,
    /// Ask with the name's letters in random case, and want them back so.
    pub mixed_case: bool,
}

/// Who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// By datagram, to the socket of this number.
    Udp { socket: usize, from: SocketAddr },
    /// A connection, by the shell's number.
    Tcp { connection: u64, from: SocketAddr },
}

impl Asker {
    fn address(&self) -> IpAddr {
        match self {
            Self::Udp { from, .. } | Self::Tcp { from, .. } => from.ip(),
        }
    }

    pub fn transport(&self) -> Transport {
        match self {
            Self::Udp { .. } => Transport::Udp,
            Self::Tcp { .. } => Transport::Tcp,
        }
    }
}

/// One question sent to one upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskId(pub u64);

#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// `stale`: there is an old answer to fall back on.
    Query {
        from: Asker,
        bytes: &'a [u8],
        stale: bool,
    },
    Answer {
        ask: AskId,
        from: SocketAddr,
        bytes: &'a [u8],
    },
    /// The network says that nothing will come.
    Failed {
        ask: AskId,
    },
    Upstreams(Vec<SocketAddr>),
    Timer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Answer {
        to: Asker,
        bytes: Vec<u8>,
    },
    /// Nobody answers: give the old answer.
    Stale {
        to: Asker,
        query: Vec<u8>,
    },
    /// From a port of its own that nobody can guess.
    Ask {
        ask: AskId,
        upstream: SocketAddr,
        transport: Transport,
        bytes: Vec<u8>,
    },
    /// Close its socket.
    Forget {
        ask: AskId,
    },
    Keep {
        query: Vec<u8>,
        stored: Arc<Stored>,
    },
    Report(Report),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Down(SocketAddr),
    Up(SocketAddr),
    /// It is ourselves.
    Own(SocketAddr),
    /// It sent our question back to us.
    Loop(SocketAddr),
}

/// Counts of what happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    pub asked: u64,
    pub answered: u64,
    pub joined: u64,
    pub failed: u64,
    pub refused_full: u64,
    pub tcp: u64,
    /// Answers that were none, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
pub struct Forwarder {
    config: Config,
    upstreams: Vec<Upstream>,
    flights: BTreeMap<u64, Flight>,
    by_key: BTreeMap<Key, u64>,
    asks: BTreeMap<AskId, Ask>,
    timers: BTreeSet<(Instant, u64)>,
    probes: Vec<Probe>,
    probe_at: Option<Instant>,
    /// All upstreams failed lately.
    stale_until: Option<Instant>,
    next: u64,
    dice: Dice,
    counts: Counts,
}

type Key = (Box<[u8]>, u16, u16, bool);

/// One question under way, for all who wait for it.
#[derive(Debug)]
struct Flight {
    key: Key,
    askers: Vec<(Asker, Vec<u8>)>,
    /// Those who take an old answer if this takes too long.
    stale_at: Option<Instant>,
    order: Vec<usize>,
    tries: usize,
    asks: Vec<AskId>,
    try_until: Instant,
    deadline: Instant,
    due: Instant,
    /// The best "no" so far: what to say if all say it.
    refusal: Option<Stored>,
}

#[derive(Debug)]
struct Ask {
    flight: u64,
    upstream: SocketAddr,
    transport: Transport,
    bytes: Vec<u8>,
}

/// A secret name sent to an upstream; if we are asked for it, the upstream leads back to us.
#[derive(Debug)]
struct Probe {
    ask: AskId,
    upstream: SocketAddr,
    name: Vec<u8>,
    until: Instant,
}

impl Forwarder {
    /// The secret makes ids and spellings impossible to guess.
    pub fn new(config: Config, secret: [u8; 32]) -> Self {
        Self {
            config,
            upstreams: Vec::new(),
            flights: BTreeMap::new(),
            by_key: BTreeMap::new(),
            asks: BTreeMap::new(),
            timers: BTreeSet::new(),
            probes: Vec::new(),
            probe_at: None,
            stale_until: None,
            next: 0,
            dice: Dice::new(secret),
            counts: Counts::default(),
        }
    }

    pub fn upstreams(&self) -> &[Upstream] {
        &self.upstreams
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub fn pending(&self) -> usize {
        self.flights.len()
    }

    pub fn handle(&mut self, now: Instant, event: Event<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Query { from, bytes, stale } => {
                self.query(now, from, bytes, stale, &mut actions);
            }
            Event::Answer { ask, from, bytes } => {
                self.answered(now, ask, from, bytes, &mut actions);
            }
            Event::Failed { ask } => self.failed(now, ask, &mut actions),
            Event::Upstreams(list) => self.set_upstreams(now, &list, &mut actions),
            Event::Timer => self.timer(now, &mut actions),
        }
        actions
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        let flight = self.timers.first().map(|(at, _)| *at);
        [flight, self.probe_at].into_iter().flatten().min()
    }

    fn query(
        &mut self,
        now: Instant,
        from: Asker,
        bytes: &[u8],
        stale: bool,
        actions: &mut Vec<Action>,
    ) {
        let Ok(question) = Question::parse(bytes) else {
            return;
        };
        let say = |rcode| Action::Answer {
            to: from,
            bytes: refusal(bytes, &question, rcode, from.transport()),
        };
        if self.is_own_probe(now, &question, actions) {
            return actions.push(say(Rcode::Refused));
        }
        let key = key(&question);
        if let Some(flight) = self
            .by_key
            .get(&key)
            .and_then(|id| self.flights.get_mut(id))
        {
            // The same client again, with another id: a retry, to be answered once each.
            if flight.askers.len() < self.config.max_pending_per_client {
                flight.askers.push((from, bytes.to_vec()));
                self.counts.joined += 1;
            }
            return;
        }
        if stale && self.stale_until.is_some_and(|until| now < until) {
            return actions.push(Action::Stale {
                to: from,
                query: bytes.to_vec(),
            });
        }
        let order = upstream::order(&self.upstreams, now);
        let of_client = |flight: &&Flight| {
            flight
                .askers
                .iter()
                .any(|(asker, _)| asker.address() == from.address())
        };
        let full = self.flights.len() >= self.config.max_pending
            // Counting is only worth it when there is something to protect.
            || (self.flights.len() >= self.config.max_pending / 2
                && self.flights.values().filter(of_client).count()
                    >= self.config.max_pending_per_client);
        if order.is_empty() || full {
            self.counts.refused_full += u64::from(full);
            return actions.push(if stale {
                Action::Stale {
                    to: from,
                    query: bytes.to_vec(),
                }
            } else {
                say(Rcode::ServFail)
            });
        }
        let id = self.number();
        let flight = Flight {
            key: key.clone(),
            askers: vec![(from, bytes.to_vec())],
            stale_at: stale.then_some(now + STALE_AFTER),
            order,
            tries: 0,
            asks: Vec::new(),
            try_until: now,
            deadline: now + GIVE_UP,
            due: now,
            refusal: None,
        };
        self.by_key.insert(key, id);
        self.timers.insert((flight.due, id));
        self.flights.insert(id, flight);
        self.counts.asked += 1;
        self.try_next(now, id, actions);
    }

    /// Asks the next upstream, or gives up.
    fn try_next(&mut self, now: Instant, id: u64, actions: &mut Vec<Action>) {
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let tries = flight.tries;
        // Twice around, and no longer than clients wait.
        if tries >= MAX_TRIES.min(2 * flight.order.len()) || now >= flight.deadline {
            return self.give_up(now, id, actions);
        }
        let at = flight.order[tries % flight.order.len()];
        flight.tries += 1;
        let patience = if tries == 0 { FIRST_TRY } else { LATER_TRY };
        let Some(upstream) = self.upstreams.get(at) else {
            return self.give_up(now, id, actions);
        };
        let (address, plain) = (upstream.address, upstream.plain);
        self.ask(now, id, address, Transport::Udp, plain, patience, actions);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "all of it differs from try to try"
    )]
    fn ask(
        &mut self,
        now: Instant,
        id: u64,
        upstream: SocketAddr,
        transport: Transport,
        plain: bool,
        patience: Duration,
        actions: &mut Vec<Action>,
    ) {
        let ask = AskId(self.number());
        let random = self.dice.roll();
        let mixed = self.config.mixed_case;
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let bytes = compose(&flight.key, random, mixed, plain);
        let oldest = flight.asks.first().copied();
        let oldest = oldest.filter(|_| flight.asks.len() >= MAX_OPEN);
        flight.asks.push(ask);
        flight.try_until = now + patience;
        self.asks.insert(
            ask,
            Ask {
                flight: id,
                upstream,
                transport,
                bytes: bytes.clone(),
            },
        );
        self.counts.tcp += u64::from(transport == Transport::Tcp);
        actions.push(Action::Ask {
            ask,
            upstream,
            transport,
            bytes,
        });
        if let Some(oldest) = oldest {
            self.forget(oldest, actions);
        }
        self.reschedule(id);
    }

    fn answered(
        &mut self,
        now: Instant,
        ask: AskId,
        from: SocketAddr,
        bytes: &[u8],
        actions: &mut Vec<Action>,
    ) {
        if let Some(at) = self.probes.iter().position(|probe| probe.ask == ask) {
            let probe = self.probes.swap_remove(at);
            actions.push(Action::Forget { ask });
            self.judge(now, probe.upstream, true, actions);
            return;
        }
        let Some(asked) = self.asks.get(&ask) else {
            return self.drop_answer("late");
        };
        if asked.upstream != from {
            return self.drop_answer("wrong_source");
        }
        let mixed = self.config.mixed_case;
        let parsed = match Stored::parse(&asked.bytes, bytes, mixed) {
            Ok(parsed) => parsed,
            // An upstream that cannot read our EDNS may answer with the bare header.
            Err(Bad::WrongQuestion) if is_bare_formerr(&asked.bytes, bytes) => {
                return self.ask_plainly(now, ask, actions);
            }
            Err(bad) => return self.drop_answer(bad.name()),
        };
        let (id, upstream) = (asked.flight, asked.upstream);
        let had_edns = asked.bytes[11] == 1;
        if parsed.truncated && asked.transport == Transport::Udp {
            let plain = !had_edns;
            self.ask(now, id, upstream, Transport::Tcp, plain, TCP_TRY, actions);
            return self.forget(ask, actions);
        }
        if !parsed.stored.is_answer() {
            if had_edns && !parsed.has_edns && matches!(parsed.stored.rcode(), 1 | 4) {
                return self.ask_plainly(now, ask, actions);
            }
            self.forget(ask, actions);
            if let Some(flight) = self.flights.get_mut(&id) {
                flight.refusal = Some(parsed.stored);
            }
            return self.try_next(now, id, actions);
        }
        self.judge(now, upstream, true, actions);
        self.stale_until = None;
        let stored = Arc::new(parsed.stored);
        let Some(flight) = self.end(id, actions) else {
            return;
        };
        self.counts.answered += 1;
        if stored.life().is_some()
            && let Some((_, query)) = flight.askers.first()
        {
            actions.push(Action::Keep {
                query: query.clone(),
                stored: Arc::clone(&stored),
            });
        }
        deliver(&flight, &stored, actions);
    }

    /// Asks the same upstream again without EDNS, and from now on.
    fn ask_plainly(&mut self, now: Instant, ask: AskId, actions: &mut Vec<Action>) {
        let Some(Ask {
            flight, upstream, ..
        }) = self.asks.get(&ask)
        else {
            return;
        };
        let (flight, upstream) = (*flight, *upstream);
        self.forget(ask, actions);
        let known = self
            .upstreams
            .iter_mut()
            .find(|known| known.address == upstream);
        let first = known.is_some_and(|known| !std::mem::replace(&mut known.plain, true));
        if first {
            self.ask(
                now,
                flight,
                upstream,
                Transport::Udp,
                true,
                LATER_TRY,
                actions,
            );
        } else {
            self.try_next(now, flight, actions);
        }
    }

    fn failed(&mut self, now: Instant, ask: AskId, actions: &mut Vec<Action>) {
        if let Some(at) = self.probes.iter().position(|probe| probe.ask == ask) {
            self.probes.swap_remove(at);
            return actions.push(Action::Forget { ask });
        }
        let Some(asked) = self.asks.get(&ask) else {
            return;
        };
        let (id, upstream) = (asked.flight, asked.upstream);
        self.forget(ask, actions);
        self.judge(now, upstream, false, actions);
        // Another try may still be under way; its time will come.
        if self
            .flights
            .get(&id)
            .is_some_and(|flight| flight.asks.is_empty())
        {
            self.try_next(now, id, actions);
        }
    }

    fn timer(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while let Some((at, id)) = self.timers.first().copied()
            && at <= now
        {
            let Some(flight) = self.flights.get_mut(&id) else {
                self.timers.pop_first();
                continue;
            };
            if flight.stale_at.is_some_and(|at| at <= now) {
                flight.stale_at = None;
                // They are served; the question goes on, to have a fresh answer for the next.
                for (to, query) in flight.askers.split_off(1) {
                    actions.push(Action::Stale { to, query });
                }
                if let Some((to, query)) = flight.askers.first() {
                    actions.push(Action::Stale {
                        to: *to,
                        query: query.clone(),
                    });
                    flight.askers[0].0 = Asker::Tcp {
                        connection: NOBODY,
                        from: SocketAddr::from(([0, 0, 0, 0], 0)),
                    };
                }
                self.reschedule(id);
                continue;
            }
            if now >= flight.deadline {
                self.give_up(now, id, actions);
            } else if now >= flight.try_until {
                let silent = flight.asks.last().copied();
                if let Some(upstream) = silent.and_then(|ask| self.asks.get(&ask)) {
                    let upstream = upstream.upstream;
                    self.judge(now, upstream, false, actions);
                }
                self.try_next(now, id, actions);
            } else {
                self.reschedule(id);
            }
        }
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_all(now, actions);
        }
    }

    fn give_up(&mut self, now: Instant, id: u64, actions: &mut Vec<Action>) {
        let Some(flight) = self.end(id, actions) else {
            return;
        };
        self.counts.failed += 1;
        self.stale_until = Some(now + STALE_AT_ONCE);
        if flight.stale_at.is_some() {
            let waiting = flight.askers.into_iter();
            return actions.extend(waiting.map(|(to, query)| Action::Stale { to, query }));
        }
        if let Some(refusal) = &flight.refusal {
            return deliver(&flight, refusal, actions);
        }
        for (to, query) in &flight.askers {
            if let Ok(question) = Question::parse(query) {
                let bytes = refusal(query, &question, Rcode::ServFail, to.transport());
                actions.push(Action::Answer { to: *to, bytes });
            }
        }
    }

    fn end(&mut self, id: u64, actions: &mut Vec<Action>) -> Option<Flight> {
        let mut flight = self.flights.remove(&id)?;
        self.by_key.remove(&flight.key);
        self.timers.remove(&(flight.due, id));
        for ask in std::mem::take(&mut flight.asks) {
            self.asks.remove(&ask);
            actions.push(Action::Forget { ask });
        }
        // The place of one who was served from the old answer.
        flight.askers.retain(
            |(asker, _)| !matches!(asker, Asker::Tcp { connection, .. } if *connection == NOBODY),
        );
        Some(flight)
    }

    fn forget(&mut self, ask: AskId, actions: &mut Vec<Action>) {
        if let Some(asked) = self.asks.remove(&ask) {
            if let Some(flight) = self.flights.get_mut(&asked.flight) {
                flight.asks.retain(|other| *other != ask);
            }
            actions.push(Action::Forget { ask });
        }
    }

    fn reschedule(&mut self, id: u64) {
        if let Some(flight) = self.flights.get_mut(&id) {
            self.timers.remove(&(flight.due, id));
            flight.due = [
                Some(flight.try_until),
                Some(flight.deadline),
                flight.stale_at,
            ]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(flight.deadline);
            self.timers.insert((flight.due, id));
        }
    }

    fn judge(&mut self, now: Instant, address: SocketAddr, well: bool, actions: &mut Vec<Action>) {
        let found = self
            .upstreams
            .iter_mut()
            .find(|upstream| upstream.address == address);
        let Some(upstream) = found else { return };
        let turn = if well {
            upstream.succeeded()
        } else {
            upstream.failed(now)
        };
        match turn {
            Turn::None => {}
            Turn::Down => actions.push(Action::Report(Report::Down(address))),
            Turn::Up => actions.push(Action::Report(Report::Up(address))),
        }
    }

    fn set_upstreams(&mut self, now: Instant, list: &[SocketAddr], actions: &mut Vec<Action>) {
        let mut fresh: Vec<Upstream> = Vec::new();
        for address in list {
            let own = address.ip().is_unspecified()
                || address.port() == 0
                || self.config.own.contains(address);
            if own {
                actions.push(Action::Report(Report::Own(*address)));
            } else if !fresh.iter().any(|known| known.address == *address) {
                let known = self
                    .upstreams
                    .iter()
                    .find(|known| known.address == *address);
                fresh.push(known.cloned().unwrap_or_else(|| Upstream::new(*address)));
            }
        }
        self.upstreams = fresh;
        self.stale_until = None;
        // Places in the list have moved: those who wait go on with the new list from its start.
        let order = upstream::order(&self.upstreams, now);
        let flights: Vec<u64> = self.flights.keys().copied().collect();
        for id in flights {
            if let Some(flight) = self.flights.get_mut(&id) {
                flight.order.clone_from(&order);
                flight.tries = 0;
                if order.is_empty() {
                    self.give_up(now, id, actions);
                }
            }
        }
        self.probe_all(now, actions);
    }

    fn probe_all(&mut self, now: Instant, actions: &mut Vec<Action>) {
        for probe in std::mem::take(&mut self.probes) {
            actions.push(Action::Forget { ask: probe.ask });
        }
        let list: Vec<SocketAddr> = self.upstreams.iter().map(|known| known.address).collect();
        self.probe_at = (!list.is_empty()).then_some(now + PROBE_AGAIN);
        for upstream in list {
            let ask = AskId(self.number());
            let token = self.dice.roll();
            let mut name = vec![32];
            for byte in &token[..16] {
                name.extend(b"0123456789abcdef".get(usize::from(byte >> 4)));
                name.extend(b"0123456789abcdef".get(usize::from(byte & 15)));
            }
            name.extend_from_slice(PROBE_DOMAIN);
            let key = (name.clone().into_boxed_slice(), kind::HINFO, 0, false);
            let bytes = compose(&key, self.dice.roll(), false, true);
            self.probes.push(Probe {
                ask,
                upstream,
                name,
                until: now + PROBE_FOR,
            });
            actions.push(Action::Ask {
                ask,
                upstream,
                transport: Transport::Udp,
                bytes,
            });
        }
    }

    fn is_own_probe(
        &mut self,
        now: Instant,
        question: &Question,
        actions: &mut Vec<Action>,
    ) -> bool {
        let name = question.name.as_slice();
        if !name.ends_with(PROBE_DOMAIN) {
            return false;
        }
        let found = self
            .probes
            .iter()
            .find(|probe| probe.name == name && now < probe.until);
        let Some(address) = found.map(|probe| probe.upstream) else {
            return false;
        };
        if let Some(upstream) = self
            .upstreams
            .iter_mut()
            .find(|upstream| upstream.address == address)
        {
            upstream.looped(now);
        }
        actions.push(Action::Report(Report::Loop(address)));
        true
    }

    fn drop_answer(&mut self, why: &'static str) {
        *self.counts.dropped.entry(why).or_default() += 1;
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// No connection has this number.
const NOBODY: u64 = u64::MAX;

fn key(question: &Question) -> Key {
    let switches = question.flags & CHECKING_DISABLED;
    (
        question.name.as_slice().into(),
        question.kind,
        switches,
        question.dnssec_ok(),
    )
}

fn deliver(flight: &Flight, stored: &Stored, actions: &mut Vec<Action>) {
    for (to, query) in &flight.askers {
        if let Ok(question) = Question::parse(query) {
            let mut bytes = Vec::new();
            let age = Age::Fresh(Duration::ZERO);
            stored.write(query, &question, age, to.transport(), &mut bytes);
            actions.push(Action::Answer { to: *to, bytes });
        }
    }
}

fn refusal(query: &[u8], question: &Question, rcode: Rcode, transport: Transport) -> Vec<u8> {
    let mut bytes = Vec::new();
    reply::refuse(query, question, rcode, transport, &mut bytes);
    bytes
}

/// Our own query: nothing of the client's but the question and what changes the answer.
fn compose(key: &Key, random: [u8; 32], mixed: bool, plain: bool) -> Vec<u8> {
    let (name, kind, switches, dnssec_ok) = key;
    let mut bytes = Vec::with_capacity(HEADER + name.len() + 15);
    bytes.extend_from_slice(&random[..2]);
    bytes.extend((RECURSION_DESIRED | switches).to_be_bytes());
    bytes.extend([0, 1, 0, 0, 0, 0, 0, u8::from(!plain)]);
    for (at, byte) in name.iter().enumerate() {
        let upper = mixed && random[2 + at / 8 % 30] >> (at % 8) & 1 == 1;
        // Lengths are no letters.
        bytes.push(if upper {
            byte.to_ascii_uppercase()
        } else {
            *byte
        });
    }
    bytes.extend(kind.to_be_bytes());
    bytes.extend(IN.to_be_bytes());
    if !plain {
        bytes.extend([0, 0, 41]);
        bytes.extend(MAX_DATAGRAM.to_be_bytes());
        bytes.extend([0, 0, if *dnssec_ok { 0x80 } else { 0 }, 0, 0, 0]);
    }
    bytes
}

/// "Format error" with our id and without a question, as old servers say to EDNS.
fn is_bare_formerr(asked: &[u8], bytes: &[u8]) -> bool {
    bytes.len() == HEADER
        && bytes[..2] == asked[..2]
        && bytes[2] & 0x80 != 0
        && bytes[3] & 0xf == 1
        && asked[11] == 1
}

#[cfg(test)]
mod tests;
