//! Saying who we are: probe, announce, answer, defend, say goodbye (RFC 6762, 6 to 10).

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::rdata::{A, AAAA, PTR, SRV, TXT};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::BinEncodable;

use super::name::{directory, host_name, instance_label, instance_name};
use super::random::Random;
use super::{Action, Config, PORT, Report};

const PROBES: u8 = 3;
const PROBE_GAP: Duration = Duration::from_millis(250);
const ANNOUNCEMENTS: u8 = 3;
const ANNOUNCE_GAP: Duration = Duration::from_secs(1);
/// The loser of a tie tries again after this long (RFC 6762, 8.2).
const TIE_PAUSE: Duration = Duration::from_secs(1);
/// After so many conflicts we slow down (RFC 6762, 8.1).
const MANY_CONFLICTS: u32 = 15;
const MANY_PAUSE: Duration = Duration::from_secs(5);
/// One record is not multicast more often (RFC 6762, 6).
const RECORD_GAP: Duration = Duration::from_secs(1);
/// Unless someone is about to take our name.
const DEFEND_GAP: Duration = Duration::from_millis(250);
const LEGACY_TTL: u32 = 10;

#[derive(Debug)]
pub struct Publisher {
    config: Config,
    /// The name we go by is the host's with this number, from the second on.
    attempt: u32,
    addresses: Vec<IpAddr>,
    records: Vec<Own>,
    state: State,
    conflicts: u32,
    pending: Vec<Pending>,
}

/// One of our records.
#[derive(Debug)]
struct Own {
    record: Record,
    /// Ours alone: probed for, and sent with the cache-flush bit.
    unique: bool,
    multicast: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No address, nothing to say.
    Idle,
    Probing {
        sent: u8,
        at: Instant,
    },
    Announcing {
        sent: u8,
        at: Instant,
    },
    Ready,
    Gone,
}

/// An answer that waits for others to go with it, or to become needless.
#[derive(Debug)]
struct Pending {
    record: usize,
    due: Instant,
    askers: BTreeSet<IpAddr>,
}

impl Publisher {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            attempt: 1,
            addresses: Vec::new(),
            records: Vec::new(),
            state: State::Idle,
            conflicts: 0,
            pending: Vec::new(),
        }
    }

    /// The name we go by.
    pub fn host(&self) -> String {
        let host = &self.config.host;
        let short = host.split('.').next().unwrap_or(host).to_ascii_lowercase();
        match self.attempt {
            1 => short,
            n => format!("{short}-{n}"),
        }
    }

    /// Our addresses, once the name is ours.
    pub fn published(&self) -> Option<&[IpAddr]> {
        matches!(self.state, State::Announcing { .. } | State::Ready).then_some(&self.addresses)
    }

    pub fn wake_at(&self) -> Option<Instant> {
        let state = match self.state {
            State::Idle | State::Ready | State::Gone => None,
            State::Probing { at, .. } | State::Announcing { at, .. } => Some(at),
        };
        let pending = self.pending.iter().map(|pending| Some(pending.due));
        super::earliest(pending.chain([state]))
    }

    pub fn set_addresses(&mut self, now: Instant, addresses: Vec<IpAddr>, random: &mut Random) {
        if addresses == self.addresses || self.state == State::Gone {
            return;
        }
        self.addresses = addresses;
        self.write_records();
        self.state = match self.state {
            _ if self.addresses.is_empty() || self.config.services.is_empty() => State::Idle,
            State::Idle | State::Probing { .. } | State::Gone => State::Probing {
                sent: 0,
                at: now + random.millis(0, 250),
            },
            // The name is ours already; the new addresses are told.
            State::Announcing { .. } | State::Ready => State::Announcing { sent: 0, at: now },
        };
    }

    pub fn timer(&mut self, now: Instant, actions: &mut Vec<Action>) {
        match self.state {
            State::Probing { sent, at } if at <= now && sent < PROBES => {
                self.probe(actions);
                self.state = State::Probing {
                    sent: sent + 1,
                    at: now + PROBE_GAP,
                };
            }
            State::Probing { at, .. } if at <= now => {
                actions.push(Action::Report(Report::Published { host: self.host() }));
                actions.push(Action::Changed);
                self.announce(now, 0, actions);
            }
            State::Announcing { sent, at } if at <= now => self.announce(now, sent, actions),
            State::Idle
            | State::Probing { .. }
            | State::Announcing { .. }
            | State::Ready
            | State::Gone => {}
        }
        let due: Vec<usize> = self
            .pending
            .iter()
            .filter(|pending| pending.due <= now)
            .map(|pending| pending.record)
            .collect();
        self.pending.retain(|pending| pending.due > now);
        if !due.is_empty() {
            self.multicast(now, &due, actions);
        }
    }

    /// Takes every record back.
    pub fn stop(&mut self, actions: &mut Vec<Action>) {
        if self.published().is_some() {
            let mut message = response();
            message.answers = self.records.iter().map(|own| own.on_wire(0)).collect();
            actions.extend(message.to_vec().ok().map(Action::Multicast));
        }
        self.state = State::Gone;
        self.pending.clear();
    }

    /// Answers what is asked about us.
    pub fn asked(
        &mut self,
        now: Instant,
        from: SocketAddr,
        query: &Message,
        random: &mut Random,
        actions: &mut Vec<Action>,
    ) {
        if let State::Probing { .. } = self.state {
            return self.tie(now, query);
        }
        if self.published().is_none() {
            return;
        }
        self.suppress(from.ip(), query);
        let mut wanted: Vec<(usize, bool)> = Vec::new();
        for question in &query.queries {
            for (at, own) in self.records.iter().enumerate() {
                if own.answers(question) && !wanted.iter().any(|(known, _)| *known == at) {
                    wanted.push((at, question.mdns_unicast_response()));
                }
            }
        }
        wanted.retain(|(at, _)| !self.records[*at].is_known(&query.answers));
        if wanted.is_empty() {
            return;
        }
        if from.port() != PORT {
            let records: Vec<usize> = wanted.iter().map(|(at, _)| *at).collect();
            return self.answer_legacy(from, query, &records, actions);
        }
        let probe = !query.authorities.is_empty();
        let mut direct = Vec::new();
        let mut group = Vec::new();
        for (at, unicast) in wanted {
            let own = &self.records[at];
            let quarter = Duration::from_secs(u64::from(own.record.ttl) / 4);
            let lately = own.multicast.is_some_and(|last| now < last + quarter);
            if unicast && lately {
                direct.push(at);
            } else {
                group.push(at);
            }
        }
        if !direct.is_empty() {
            let bytes = self.compose(&direct);
            actions.extend(bytes.map(|bytes| Action::Unicast { to: from, bytes }));
        }
        let unique = group.iter().all(|at| self.records[*at].unique);
        let delay = if query.metadata.truncation {
            random.millis(400, 500)
        } else if unique {
            Duration::ZERO
        } else {
            random.millis(20, 120)
        };
        let gap = if probe { DEFEND_GAP } else { RECORD_GAP };
        for at in group {
            self.plan(now, at, delay, gap, from.ip());
        }
        // Those due at once go at once.
        self.timer(now, actions);
    }

    fn plan(&mut self, now: Instant, at: usize, delay: Duration, gap: Duration, asker: IpAddr) {
        let last = self.records[at].multicast;
        let due = last.map_or(now + delay, |last| (last + gap).max(now + delay));
        match self.pending.iter_mut().find(|pending| pending.record == at) {
            Some(pending) => {
                pending.due = pending.due.min(due);
                pending.askers.insert(asker);
            }
            None => self.pending.push(Pending {
                record: at,
                due,
                askers: BTreeSet::from([asker]),
            }),
        }
    }

    /// Known answers that follow in another packet (RFC 6762, 7.2).
    fn suppress(&mut self, from: IpAddr, query: &Message) {
        for pending in &mut self.pending {
            if self.records[pending.record].is_known(&query.answers) {
                pending.askers.remove(&from);
            }
        }
        self.pending.retain(|pending| !pending.askers.is_empty());
    }

    /// Somebody speaks: is it with our name?
    pub fn answered(
        &mut self,
        now: Instant,
        from: IpAddr,
        message: &Message,
        random: &mut Random,
        actions: &mut Vec<Action>,
    ) {
        if !message
            .all_sections()
            .any(|record| self.conflicts_with(record))
        {
            return;
        }
        self.conflicts += 1;
        let pause = if self.conflicts > MANY_CONFLICTS {
            MANY_PAUSE
        } else {
            random.millis(0, 250)
        };
        match self.state {
            State::Idle | State::Gone => return,
            State::Probing { .. } => {
                let old = self.host();
                self.attempt += 1;
                actions.push(Action::Report(Report::Renamed {
                    from: old,
                    to: self.host(),
                    by: from,
                }));
            }
            // Ours until now: ask once more, and give in only if the other insists.
            State::Announcing { .. } | State::Ready => {
                actions.push(Action::Report(Report::Contested {
                    host: self.host(),
                    by: from,
                }));
                actions.push(Action::Changed);
            }
        }
        self.pending.clear();
        self.write_records();
        self.state = State::Probing {
            sent: 0,
            at: now + pause,
        };
    }

    /// A record for a name of ours alone that says something else.
    fn conflicts_with(&self, record: &Record) -> bool {
        // A goodbye claims nothing.
        if record.ttl == 0 || self.state == State::Idle || self.state == State::Gone {
            return false;
        }
        let mut same = self
            .records
            .iter()
            .filter(|own| {
                own.unique
                    && own.record.name == record.name
                    && own.record.record_type() == record.record_type()
            })
            .peekable();
        same.peek().is_some() && !same.any(|own| own.record.data == record.data)
    }

    /// Two who probe for one name at one time: the later data wins (RFC 6762, 8.2).
    fn tie(&mut self, now: Instant, query: &Message) {
        let names: BTreeSet<&Name> = query
            .authorities
            .iter()
            .map(|record| &record.name)
            .collect();
        for name in names {
            let ours = sorted(self.records.iter().map(|own| &own.record), name);
            let theirs = sorted(query.authorities.iter(), name);
            if !ours.is_empty() && ours < theirs {
                self.state = State::Probing {
                    sent: 0,
                    at: now + TIE_PAUSE,
                };
            }
        }
    }

    fn probe(&self, actions: &mut Vec<Action>) {
        let mut message = Message::new(0, MessageType::Query, OpCode::Query);
        let mut names: Vec<&Name> = Vec::new();
        for own in self.records.iter().filter(|own| own.unique) {
            if !names.contains(&&own.record.name) {
                names.push(&own.record.name);
            }
            // Proposed, not yet ours: no cache-flush bit.
            message.add_authority(own.record.clone());
        }
        for name in names {
            // Answers to all, please: a second program on this machine would get those to one (RFC 6762, 15.1).
            message.add_query(Query::query(name.clone(), RecordType::ANY));
        }
        actions.extend(message.to_vec().ok().map(Action::Multicast));
    }

    fn announce(&mut self, now: Instant, sent: u8, actions: &mut Vec<Action>) {
        let all: Vec<usize> = (0..self.records.len()).collect();
        self.multicast(now, &all, actions);
        self.state = if sent + 1 >= ANNOUNCEMENTS {
            self.conflicts = 0;
            State::Ready
        } else {
            State::Announcing {
                sent: sent + 1,
                at: now + ANNOUNCE_GAP * 2u32.pow(sent.into()),
            }
        };
    }

    fn multicast(&mut self, now: Instant, records: &[usize], actions: &mut Vec<Action>) {
        actions.extend(self.compose(records).map(Action::Multicast));
        for at in records {
            self.records[*at].multicast = Some(now);
        }
    }

    fn compose(&self, records: &[usize]) -> Option<Vec<u8>> {
        let mut message = response();
        for at in records {
            message.add_answer(self.records[*at].on_wire(self.records[*at].record.ttl));
        }
        for at in self.beside(records) {
            message.add_additional(self.records[at].on_wire(self.records[at].record.ttl));
        }
        message.to_vec().ok()
    }

    /// What who gets these will ask for next (RFC 6763, 12).
    fn beside(&self, records: &[usize]) -> Vec<usize> {
        let mut more: Vec<usize> = Vec::new();
        for _ in 0..2 {
            for (at, own) in self.records.iter().enumerate() {
                let leads = records.iter().chain(&more).any(|from| {
                    match &self.records[*from].record.data {
                        RData::PTR(PTR(target)) => *target == own.record.name,
                        RData::SRV(srv) => srv.target == own.record.name,
                        RData::A(_) | RData::AAAA(_) => {
                            self.records[*from].record.name == own.record.name
                        }
                        _ => false,
                    }
                });
                if leads && own.unique && !records.contains(&at) && !more.contains(&at) {
                    more.push(at);
                }
            }
        }
        more
    }

    /// A resolver that knows nothing of multicast asked from a port of its own (RFC 6762, 6.7).
    fn answer_legacy(
        &self,
        to: SocketAddr,
        query: &Message,
        records: &[usize],
        actions: &mut Vec<Action>,
    ) {
        let mut message = response();
        message.metadata.id = query.metadata.id;
        message.queries.clone_from(&query.queries);
        for question in &mut message.queries {
            question.set_mdns_unicast_response(false);
        }
        for at in records {
            let mut record = self.records[*at].record.clone();
            record.ttl = record.ttl.min(LEGACY_TTL);
            message.add_answer(record);
        }
        let bytes = message.to_vec().ok();
        actions.extend(bytes.map(|bytes| Action::Unicast { to, bytes }));
    }

    fn write_records(&mut self) {
        let (config, host) = (&self.config, self.host());
        let name = host_name(&host);
        let mut records = Vec::new();
        let mut add = |name: &Name, ttl, data, unique| {
            records.push(Own {
                record: Record::from_rdata(name.clone(), ttl, data),
                unique,
                multicast: None,
            });
        };
        for address in &self.addresses {
            let data = match address {
                IpAddr::V4(v4) => RData::A(A(*v4)),
                IpAddr::V6(v6) => RData::AAAA(AAAA(*v6)),
            };
            add(&name, config.host_ttl, data, true);
        }
        let ttl = config.service_ttl;
        for kind in &config.services {
            let label = instance_label(&config.cluster, *kind, &host);
            let instance = instance_name(*kind, &label);
            let srv = SRV::new(0, 0, kind.port(), name.clone());
            add(&instance, ttl, RData::SRV(srv), true);
            add(
                &instance,
                ttl,
                RData::TXT(TXT::new(vec![String::new()])),
                true,
            );
            add(&kind.service(), ttl, RData::PTR(PTR(instance)), false);
            add(&directory(), ttl, RData::PTR(PTR(kind.service())), false);
        }
        self.records = records;
        self.pending.clear();
    }
}

impl Own {
    fn on_wire(&self, ttl: u32) -> Record {
        let mut record = self.record.clone();
        record.ttl = ttl;
        record.mdns_cache_flush = self.unique;
        record
    }

    fn answers(&self, question: &Query) -> bool {
        let kind = question.query_type();
        let class = matches!(question.query_class(), DNSClass::IN | DNSClass::ANY);
        class
            && *question.name() == self.record.name
            && (kind == RecordType::ANY || kind == self.record.record_type())
    }

    /// Who asked has it, with at least half its life left (RFC 6762, 7.1).
    fn is_known(&self, known: &[Record]) -> bool {
        known.iter().any(|known| {
            known.name == self.record.name
                && known.data == self.record.data
                && known.ttl >= self.record.ttl / 2
        })
    }
}

fn response() -> Message {
    let mut message = Message::response(0, OpCode::Query);
    message.metadata.authoritative = true;
    message
}

/// Types and data of the records of one name, in the order of comparison.
fn sorted<'a>(records: impl Iterator<Item = &'a Record>, name: &Name) -> Vec<(u16, Vec<u8>)> {
    let mut found: Vec<(u16, Vec<u8>)> = records
        .filter(|record| record.name == *name)
        .map(|record| {
            let data = record.data.to_bytes().unwrap_or_default();
            (record.record_type().into(), data)
        })
        .collect();
    found.sort();
    found
}
