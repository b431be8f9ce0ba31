//! Finding the others: ask, remember, ask again before it expires, forget (RFC 6762, 5 and 10).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::rdata::PTR;
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::Action;
use super::name::{self, Kind, host_name, instance_label, instance_name};
use super::random::Random;

const FIRST_INTERVAL: Duration = Duration::from_secs(1);
/// New nodes announce themselves; this is for those whose announcements were lost.
const LONGEST_INTERVAL: Duration = Duration::from_mins(1);
/// What has been taken back or replaced goes after this long (RFC 6762, 10.1 and 10.2).
const LINGER: Duration = Duration::from_secs(1);
/// Percent of a life after which it is asked for again.
const REFRESH: [u32; 4] = [80, 85, 90, 95];
/// A life longer than a day is not believed.
const LONGEST_LIFE: u32 = 86_400;
/// Far above any cluster on one link.
const MAX_RECORDS: usize = 4096;
/// Known answers that fit a packet with room to spare.
const MAX_PACKET: usize = 1300;
const MAX_MISSING_TRIES: u32 = 4;

/// A node that was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub host: String,
    /// IPv4 first.
    pub addresses: Vec<IpAddr>,
    pub etcd: bool,
    /// When it was last heard of.
    pub seen: Instant,
}

#[derive(Debug)]
pub struct Browser {
    cluster: String,
    /// What is known, by what it says.
    facts: BTreeMap<Fact, Life>,
    browse_at: Option<Instant>,
    interval: Duration,
    /// What leads nowhere yet: when to ask, and how often it was.
    missing: BTreeMap<Missing, (Instant, u32)>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    Instance {
        kind: Kind,
        label: String,
    },
    Service {
        kind: Kind,
        label: String,
        host: String,
    },
    Address {
        host: String,
        address: IpAddr,
    },
}

/// A name to be asked for.
type Missing = (Name, RecordType);

#[derive(Debug, Clone, Copy)]
struct Life {
    since: Instant,
    ttl: Duration,
    until: Instant,
    /// Refreshes asked for.
    asked: usize,
}

impl Life {
    fn refresh_at(&self) -> Option<Instant> {
        // What is taken back is not asked for.
        let percent = REFRESH.get(self.asked)?;
        let at = self.since + self.ttl * *percent / 100;
        (at < self.until).then_some(at)
    }
}

impl Browser {
    pub fn new(cluster: String) -> Self {
        Self {
            cluster,
            facts: BTreeMap::new(),
            browse_at: None,
            interval: FIRST_INTERVAL,
            missing: BTreeMap::new(),
        }
    }

    /// The link is there: begin to ask.
    pub fn start(&mut self, now: Instant, random: &mut Random) {
        self.interval = FIRST_INTERVAL;
        self.browse_at = Some(now + random.millis(20, 120));
    }

    pub fn pause(&mut self) {
        self.browse_at = None;
        self.missing.clear();
    }

    pub fn wake_at(&self) -> Option<Instant> {
        let facts = self.facts.values().flat_map(|life| {
            let refresh = self.browse_at.and_then(|_| life.refresh_at());
            [Some(life.until), refresh]
        });
        let missing = self.missing.values().map(|(at, _)| Some(*at));
        super::earliest(facts.chain(missing).chain([self.browse_at]))
    }

    /// Everyone whose instance, service and address are known and fit together.
    pub fn found(&self) -> Vec<Found> {
        let mut found: BTreeMap<&str, Found> = BTreeMap::new();
        for (fact, life) in &self.facts {
            let Fact::Service { kind, label, host } = fact else {
                continue;
            };
            let instance = Fact::Instance {
                kind: *kind,
                label: label.clone(),
            };
            // Exactly ours: the label says cluster and host, and the service leads to that host.
            if *label != instance_label(&self.cluster, *kind, host)
                || !self.facts.contains_key(&instance)
            {
                continue;
            }
            let addresses: Vec<(IpAddr, Instant)> = self.addresses(host).collect();
            let Some(seen) = addresses.iter().map(|(_, since)| *since).max() else {
                continue;
            };
            let one = found.entry(host).or_insert_with(|| Found {
                host: host.clone(),
                addresses: addresses.iter().map(|(address, _)| *address).collect(),
                etcd: false,
                seen,
            });
            one.etcd |= *kind == Kind::Etcd;
            one.seen = one.seen.max(life.since);
        }
        found.into_values().collect()
    }

    fn addresses(&self, host: &str) -> impl Iterator<Item = (IpAddr, Instant)> {
        self.facts
            .iter()
            .filter_map(move |(fact, life)| match fact {
                Fact::Address { host: of, address } if of == host => Some((*address, life.since)),
                Fact::Address { .. } | Fact::Instance { .. } | Fact::Service { .. } => None,
            })
    }

    pub fn heard(&mut self, now: Instant, message: &Message) {
        // In order of meaning: what leads to a name comes before the name.
        let passes: [fn(RecordType) -> bool; 3] = [
            |kind| kind == RecordType::PTR,
            |kind| kind == RecordType::SRV,
            |kind| matches!(kind, RecordType::A | RecordType::AAAA),
        ];
        for pass in passes {
            for record in message.answers.iter().chain(&message.additionals) {
                if pass(record.record_type())
                    && let Some(fact) = self.read(record)
                {
                    self.learn(now, fact, record);
                }
            }
        }
        self.look_for_missing(now);
    }

    /// What a record says, if it is of interest.
    fn read(&self, record: &Record) -> Option<Fact> {
        match &record.data {
            RData::PTR(PTR(target)) => {
                let kind = Kind::ALL
                    .into_iter()
                    .find(|kind| kind.service() == record.name)?;
                let label = name::label_of(target, kind)?;
                name::may_be_ours(&self.cluster, kind, &label)
                    .then_some(Fact::Instance { kind, label })
            }
            RData::SRV(srv) => Kind::ALL.into_iter().find_map(|kind| {
                let label = name::label_of(&record.name, kind)?;
                let instance = Fact::Instance {
                    kind,
                    label: label.clone(),
                };
                self.facts.contains_key(&instance).then_some(())?;
                let host = name::host_of(&srv.target)?;
                Some(Fact::Service { kind, label, host })
            }),
            RData::A(address) => self.address(&record.name, address.0.into()),
            RData::AAAA(address) => self.address(&record.name, address.0.into()),
            _ => None,
        }
    }

    fn address(&self, name: &Name, address: IpAddr) -> Option<Fact> {
        let host = name::host_of(name)?;
        let wanted = self
            .facts
            .keys()
            .any(|fact| matches!(fact, Fact::Service { host: of, .. } if *of == host));
        let link_local = match address {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        // Nobody off the link could use it.
        let usable = !link_local && !address.is_multicast() && !address.is_unspecified();
        (wanted && usable).then_some(Fact::Address { host, address })
    }

    fn learn(&mut self, now: Instant, fact: Fact, record: &Record) {
        if record.mdns_cache_flush {
            self.flush_beside(now, &fact);
        }
        let ttl = record.ttl.min(LONGEST_LIFE);
        if ttl == 0 {
            if let Some(life) = self.facts.get_mut(&fact) {
                life.until = life.until.min(now + LINGER);
                life.asked = REFRESH.len();
            }
        } else if self.facts.contains_key(&fact) || self.facts.len() < MAX_RECORDS {
            let ttl = Duration::from_secs(ttl.into());
            let life = Life {
                since: now,
                ttl,
                until: now + ttl,
                asked: 0,
            };
            self.facts.insert(fact, life);
        }
    }

    /// Other data of the same name and type is out of date (RFC 6762, 10.2).
    fn flush_beside(&mut self, now: Instant, fact: &Fact) {
        for (other, life) in &mut self.facts {
            let beside = match (fact, other) {
                (
                    Fact::Service { kind, label, .. },
                    Fact::Service {
                        kind: of,
                        label: other,
                        ..
                    },
                ) => kind == of && label == other,
                (
                    Fact::Address { host, address },
                    Fact::Address {
                        host: of,
                        address: other,
                    },
                ) => host == of && address.is_ipv4() == other.is_ipv4(),
                _ => false,
            };
            // Those of the last second belong to the same answer.
            if beside && other != fact && now > life.since + LINGER {
                life.until = life.until.min(now + LINGER);
                life.asked = REFRESH.len();
            }
        }
    }

    /// True if something expired.
    pub fn timer(&mut self, now: Instant, random: &mut Random, actions: &mut Vec<Action>) {
        let before = self.facts.len();
        self.facts.retain(|_, life| now < life.until);
        if self.facts.len() != before {
            self.look_for_missing(now);
        }
        if self.browse_at.is_none() {
            return;
        }
        let mut questions: BTreeSet<(Name, u16)> = BTreeSet::new();
        for (fact, life) in &mut self.facts {
            if life.refresh_at().is_some_and(|at| at <= now) {
                life.asked += 1;
                let (name, kind) = fact.question();
                questions.insert((name, kind.into()));
            }
        }
        for ((name, kind), (at, tries)) in &mut self.missing {
            if *at <= now {
                *at = now + FIRST_INTERVAL * 2u32.pow((*tries).min(6));
                *tries += 1;
                questions.insert((name.clone(), (*kind).into()));
            }
        }
        self.missing
            .retain(|_, (_, tries)| *tries < MAX_MISSING_TRIES);
        let mut browsed = false;
        if self.browse_at.is_some_and(|at| at <= now) {
            browsed = true;
            let jitter = random.millis(0, 200);
            self.browse_at = Some(now + self.interval + jitter);
            self.interval = (self.interval * 2).min(LONGEST_INTERVAL);
            for kind in Kind::ALL {
                questions.insert((kind.service(), RecordType::PTR.into()));
            }
        }
        if !questions.is_empty() {
            self.ask(now, questions, browsed, actions);
        }
    }

    fn ask(
        &self,
        now: Instant,
        questions: BTreeSet<(Name, u16)>,
        browsed: bool,
        actions: &mut Vec<Action>,
    ) {
        let empty = || Message::new(0, MessageType::Query, OpCode::Query);
        let mut message = empty();
        for (name, kind) in questions {
            message.add_query(Query::query(name, RecordType::from(kind)));
        }
        let mut packets = vec![message];
        let mut room = MAX_PACKET;
        for (fact, life) in self.facts.iter().filter(|_| browsed) {
            // Told so that nobody repeats it, while it has half its life (RFC 6762, 7.1).
            let left = life.until.saturating_duration_since(now);
            if let Fact::Instance { kind, label } = fact
                && left * 2 > life.ttl
            {
                let instance = instance_name(*kind, label);
                let size = 20 + label.len();
                if size > room {
                    room = MAX_PACKET;
                    if let Some(last) = packets.last_mut() {
                        last.metadata.truncation = true;
                    }
                    packets.push(empty());
                }
                room -= size.min(room);
                let data = RData::PTR(PTR(instance));
                let record = Record::from_rdata(kind.service(), left.as_secs() as u32, data);
                if let Some(last) = packets.last_mut() {
                    last.add_answer(record);
                }
            }
        }
        for packet in packets {
            actions.extend(packet.to_vec().ok().map(Action::Multicast));
        }
    }

    /// Instances without a service, services without an address.
    fn look_for_missing(&mut self, now: Instant) {
        let mut missing: BTreeSet<Missing> = BTreeSet::new();
        for fact in self.facts.keys() {
            match fact {
                Fact::Instance { kind, label } => {
                    let has = self.facts.keys().any(|other| {
                        matches!(other, Fact::Service { kind: of, label: other, .. } if of == kind && other == label)
                    });
                    if !has {
                        missing.insert((instance_name(*kind, label), RecordType::SRV));
                    }
                }
                Fact::Service { host, .. } => {
                    if self.addresses(host).next().is_none() {
                        missing.insert((host_name(host), RecordType::A));
                        missing.insert((host_name(host), RecordType::AAAA));
                    }
                }
                Fact::Address { .. } => {}
            }
        }
        self.missing.retain(|known, _| missing.contains(known));
        for new in missing {
            self.missing.entry(new).or_insert((now, 0));
        }
    }
}

impl Fact {
    fn question(&self) -> (Name, RecordType) {
        match self {
            Self::Instance { kind, .. } => (kind.service(), RecordType::PTR),
            Self::Service { kind, label, .. } => (instance_name(*kind, label), RecordType::SRV),
            Self::Address { host, address } => {
                let kind = if address.is_ipv4() {
                    RecordType::A
                } else {
                    RecordType::AAAA
                };
                (host_name(host), kind)
            }
        }
    }
}
