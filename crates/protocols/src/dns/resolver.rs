//! Who answers a question, and how often others are asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::DNSClass;

use super::reply::Transport;
use super::zone::{Found, Zone};

/// The datagram size we promise and use: no fragments on any real path.
const MAX_DATAGRAM: u16 = 1232;
/// A client without EDNS takes this much (RFC 1035, 4.2.1).
const PLAIN_DATAGRAM: u16 = 512;
/// Questions that wait for others at one time.
const MAX_PENDING: usize = 1024;
const TRY_FOR: Duration = Duration::from_secs(2);
const TRIES: u32 = 3;

/// Who asked, and so how long an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    Udp(SocketAddr),
    /// A connection, by the shell's number.
    Tcp(u64),
}

#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    Query { from: Asker, bytes: &'a [u8] },
    UpstreamAnswer { from: SocketAddr, bytes: &'a [u8] },
    Timer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Answer {
        to: Asker,
        bytes: Vec<u8>,
    },
    AskUpstream {
        upstream: SocketAddr,
        transport: Transport,
        bytes: Vec<u8>,
    },
}

/// The site's zones in front of those who know the rest.
#[derive(Debug)]
pub struct Resolver {
    zones: Vec<Zone>,
    upstreams: Vec<SocketAddr>,
    /// By the id we asked with.
    pending: BTreeMap<u16, Pending>,
    dice: u64,
}

#[derive(Debug)]
struct Pending {
    asker: Asker,
    /// The client's question as it came.
    bytes: Vec<u8>,
    question: Query,
    tries: u32,
    upstream: SocketAddr,
    until: Instant,
}

impl Resolver {
    /// The seed makes the ids of questions to others hard to guess.
    pub fn new(zones: Vec<Zone>, upstreams: Vec<SocketAddr>, seed: u64) -> Self {
        Self {
            zones,
            upstreams,
            pending: BTreeMap::new(),
            dice: seed,
        }
    }

    /// The zone a name belongs to, to change it.
    pub fn zone_mut(&mut self, origin: &str) -> Option<&mut Zone> {
        let origin = super::zone::name(origin).ok()?;
        self.zones.iter_mut().find(|zone| *zone.origin() == origin)
    }

    pub fn handle(&mut self, now: Instant, event: Event<'_>) -> Vec<Action> {
        match event {
            Event::Query { from, bytes } => self.query(now, from, bytes).into_iter().collect(),
            Event::UpstreamAnswer { from, bytes } => {
                self.answered(now, from, bytes).into_iter().collect()
            }
            Event::Timer => self.timer(now),
        }
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        self.pending.values().map(|pending| pending.until).min()
    }

    fn query(&mut self, now: Instant, asker: Asker, bytes: &[u8]) -> Option<Action> {
        // The id and the flags are needed to say even "no".
        if bytes.len() < 12 || bytes[2] & 0x80 != 0 {
            return None;
        }
        let Ok(request) = Message::from_vec(bytes) else {
            let id = u16::from_be_bytes([bytes[0], bytes[1]]);
            let bytes = Message::error_msg(id, OpCode::Query, ResponseCode::FormErr)
                .to_vec()
                .ok()?;
            return Some(Action::Answer { to: asker, bytes });
        };
        if request.metadata.op_code != OpCode::Query {
            return refuse(asker, &request, ResponseCode::NotImp);
        }
        let [question] = &request.queries[..] else {
            return refuse(asker, &request, ResponseCode::FormErr);
        };
        if request.edns.as_ref().is_some_and(|edns| edns.version() > 0) {
            return refuse(asker, &request, ResponseCode::BADVERS);
        }
        if question.query_class() != DNSClass::IN {
            return refuse(asker, &request, ResponseCode::Refused);
        }
        // The longest origin is the closest zone.
        let zone = self
            .zones
            .iter()
            .filter(|zone| zone.contains(question.name()))
            .max_by_key(|zone| zone.origin().num_labels());
        match zone {
            Some(zone) => reply(asker, &request, &ask_zone(zone, &request, question)),
            None if self.upstreams.is_empty() || self.pending.len() >= MAX_PENDING => {
                refuse(asker, &request, ResponseCode::ServFail)
            }
            None => {
                let question = question.clone();
                Some(self.ask(
                    now,
                    Pending {
                        asker,
                        bytes: bytes.to_vec(),
                        question,
                        tries: 0,
                        upstream: self.upstreams[0],
                        until: now,
                    },
                ))
            }
        }
    }

    /// Asks the next of the upstreams, under an id of our own.
    fn ask(&mut self, now: Instant, mut pending: Pending) -> Action {
        pending.upstream = self.upstreams[pending.tries as usize % self.upstreams.len()];
        pending.tries += 1;
        pending.until = now + TRY_FOR;
        let id = loop {
            let id = self.roll() as u16;
            if !self.pending.contains_key(&id) {
                break id;
            }
        };
        let action = Action::AskUpstream {
            upstream: pending.upstream,
            transport: Transport::Udp,
            bytes: with_id(&pending.bytes, id),
        };
        self.pending.insert(id, pending);
        action
    }

    fn answered(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> Option<Action> {
        let message = Message::from_vec(bytes).ok()?;
        let id = message.metadata.id;
        let pending = self.pending.get_mut(&id)?;
        // Whoever guesses the id must also know whom we asked, and what.
        if message.metadata.message_type != MessageType::Response
            || pending.upstream != from
            || message.queries.first() != Some(&pending.question)
        {
            return None;
        }
        if message.metadata.truncation && matches!(pending.asker, Asker::Tcp(_)) {
            pending.until = now + TRY_FOR;
            return Some(Action::AskUpstream {
                upstream: from,
                transport: Transport::Tcp,
                bytes: with_id(&pending.bytes, id),
            });
        }
        let pending = self.pending.remove(&id)?;
        let own = u16::from_be_bytes([pending.bytes[0], pending.bytes[1]]);
        Some(Action::Answer {
            to: pending.asker,
            bytes: with_id(bytes, own),
        })
    }

    fn timer(&mut self, now: Instant) -> Vec<Action> {
        let due: Vec<u16> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.until <= now)
            .map(|(id, _)| *id)
            .collect();
        let mut actions = Vec::new();
        for id in due {
            let Some(pending) = self.pending.remove(&id) else {
                continue;
            };
            if pending.tries < TRIES {
                actions.push(self.ask(now, pending));
            } else if let Ok(request) = Message::from_vec(&pending.bytes) {
                actions.extend(refuse(pending.asker, &request, ResponseCode::ServFail));
            }
        }
        actions
    }

    /// SplitMix64.
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn ask_zone(zone: &Zone, request: &Message, question: &Query) -> Message {
    let mut response = begin(request, ResponseCode::NoError);
    response.metadata.authoritative = true;
    match zone.find(question.name(), question.query_type()) {
        // An alias out of the zone: the client asks on by itself.
        Found::Records(records) | Found::Elsewhere(records) => response.answers = records,
        Found::NoData(aliases) => {
            response.answers = aliases;
            response.authorities.push(zone.soa());
        }
        Found::NoName(aliases) => {
            response.metadata.response_code = ResponseCode::NXDomain;
            response.answers = aliases;
            response.authorities.push(zone.soa());
        }
    }
    response
}

fn begin(request: &Message, code: ResponseCode) -> Message {
    let mut response = Message::response(request.metadata.id, request.metadata.op_code);
    response.metadata.recursion_desired = request.metadata.recursion_desired;
    response.metadata.recursion_available = true;
    response.metadata.response_code = code;
    response.queries.clone_from(&request.queries);
    if request.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_DATAGRAM)
            .set_version(0)
            .set_rcode_high(code.high());
        response.edns = Some(edns);
    }
    response
}

fn refuse(asker: Asker, request: &Message, code: ResponseCode) -> Option<Action> {
    reply(asker, request, &begin(request, code))
}

/// Writes an answer; one that does not fit is cut, and the client comes back by TCP.
fn reply(asker: Asker, request: &Message, response: &Message) -> Option<Action> {
    let room = match asker {
        Asker::Tcp(_) => usize::from(u16::MAX),
        Asker::Udp(_) => {
            let asked = request
                .edns
                .as_ref()
                .map_or(PLAIN_DATAGRAM, Edns::max_payload);
            usize::from(asked.clamp(PLAIN_DATAGRAM, MAX_DATAGRAM))
        }
    };
    let bytes = response.to_vec().ok()?;
    let bytes = if bytes.len() > room {
        response.truncate().to_vec().ok()?
    } else {
        bytes
    };
    Some(Action::Answer { to: asker, bytes })
}

fn with_id(bytes: &[u8], id: u16) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[..2].copy_from_slice(&id.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::Data;
    use hickory_proto::rr::{Name, RecordType};
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    #[expect(
        clippy::disallowed_methods,
        reason = "a place for virtual time to start"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    fn client() -> Asker {
        Asker::Udp("10.0.0.9:4000".parse().unwrap())
    }

    fn upstream(n: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, n], 53))
    }

    fn resolver(upstreams: &[SocketAddr]) -> Resolver {
        let mut zone = Zone::new("lab.example", "ns.lab.example").unwrap();
        for n in 1..=90 {
            zone.insert("many.lab.example", &Data::A(Ipv4Addr::new(10, 0, 1, n)))
                .unwrap();
        }
        zone.insert("one.lab.example", &Data::A(Ipv4Addr::new(10, 0, 0, 1)))
            .unwrap();
        Resolver::new(vec![zone], upstreams.to_vec(), 42)
    }

    fn question(name: &str, kind: RecordType, payload: Option<u16>) -> Vec<u8> {
        let mut message = Message::new(77, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        if let Some(size) = payload {
            let mut edns = Edns::new();
            edns.set_max_payload(size);
            message.edns = Some(edns);
        }
        message.to_vec().unwrap()
    }

    fn answer(actions: &[Action]) -> Message {
        let [Action::Answer { bytes, .. }] = actions else {
            panic!("{actions:?}")
        };
        Message::from_vec(bytes).unwrap()
    }

    fn asked(actions: &[Action]) -> (SocketAddr, Transport, Vec<u8>) {
        let [
            Action::AskUpstream {
                upstream,
                transport,
                bytes,
            },
        ] = actions
        else {
            panic!("{actions:?}")
        };
        (*upstream, *transport, bytes.clone())
    }

    fn reply_to(bytes: &[u8], truncated: bool) -> Vec<u8> {
        let mut message = Message::from_vec(bytes).unwrap().into_response();
        message.metadata.truncation = truncated;
        message.to_vec().unwrap()
    }

    #[test]
    fn own_names_are_answered_with_authority_and_what_is_not_there_with_the_soa() {
        let mut resolver = resolver(&[upstream(1)]);
        let mut ask = |name, kind| {
            answer(&resolver.handle(
                start(),
                Event::Query {
                    from: client(),
                    bytes: &question(name, kind, None),
                },
            ))
        };
        let found = ask("one.lab.example.", RecordType::A);
        assert!(
            found.metadata.authoritative && found.answers.len() == 1 && found.metadata.id == 77
        );
        for (name, kind, code) in [
            ("one.lab.example.", RecordType::AAAA, ResponseCode::NoError),
            ("two.lab.example.", RecordType::A, ResponseCode::NXDomain),
        ] {
            let message = ask(name, kind);
            assert_eq!(
                (message.metadata.response_code, message.answers.len()),
                (code, 0),
                "{name}"
            );
            assert_eq!(message.authorities[0].record_type(), RecordType::SOA);
        }
    }

    #[test]
    fn an_answer_too_long_for_the_datagram_is_cut_and_whole_over_tcp() {
        let mut resolver = resolver(&[]);
        let mut ask = |from, payload| {
            answer(&resolver.handle(
                start(),
                Event::Query {
                    from,
                    bytes: &question("many.lab.example.", RecordType::A, payload),
                },
            ))
        };
        assert!(ask(client(), None).metadata.truncation);
        let cut = ask(client(), Some(1232));
        assert!(
            cut.metadata.truncation && cut.edns.is_some(),
            "90 records are 1460 bytes"
        );
        let whole = ask(Asker::Tcp(1), None);
        assert_eq!(
            (whole.metadata.truncation, whole.answers.len()),
            (false, 90)
        );
    }

    #[test]
    fn other_names_are_asked_under_another_id_and_answered_under_the_clients() {
        let mut resolver = resolver(&[upstream(1)]);
        let now = start();
        let bytes = question("example.org.", RecordType::A, None);
        let (to, transport, forwarded) = asked(&resolver.handle(
            now,
            Event::Query {
                from: client(),
                bytes: &bytes,
            },
        ));
        assert_eq!(
            (to, transport, &forwarded[2..]),
            (upstream(1), Transport::Udp, &bytes[2..])
        );
        assert_ne!(forwarded[..2], bytes[..2]);
        let reply = reply_to(&forwarded, false);
        assert_eq!(
            resolver.handle(
                now,
                Event::UpstreamAnswer {
                    from: upstream(9),
                    bytes: &reply
                }
            ),
            [],
            "not whom we asked"
        );
        let other = reply_to(
            &with_id(
                &question("evil.org.", RecordType::A, None),
                u16::from_be_bytes([forwarded[0], forwarded[1]]),
            ),
            false,
        );
        assert_eq!(
            resolver.handle(
                now,
                Event::UpstreamAnswer {
                    from: upstream(1),
                    bytes: &other
                }
            ),
            [],
            "not what we asked"
        );
        assert_eq!(
            answer(&resolver.handle(
                now,
                Event::UpstreamAnswer {
                    from: upstream(1),
                    bytes: &reply
                }
            ))
            .metadata
            .id,
            77
        );
        assert_eq!(resolver.wake_at(), None);
    }

    #[test]
    fn a_silent_upstream_is_followed_by_the_next_and_at_last_by_failure() {
        let mut resolver = resolver(&[upstream(1), upstream(2)]);
        let mut now = start();
        let bytes = question("example.org.", RecordType::A, None);
        let mut order = vec![
            asked(&resolver.handle(
                now,
                Event::Query {
                    from: client(),
                    bytes: &bytes,
                },
            ))
            .0,
        ];
        for _ in 0..2 {
            now = resolver.wake_at().unwrap();
            order.push(asked(&resolver.handle(now, Event::Timer)).0);
        }
        assert_eq!(order, [upstream(1), upstream(2), upstream(1)]);
        now = resolver.wake_at().unwrap();
        assert_eq!(
            answer(&resolver.handle(now, Event::Timer))
                .metadata
                .response_code,
            ResponseCode::ServFail
        );
        assert_eq!(resolver.wake_at(), None);
    }

    #[test]
    fn without_an_upstream_other_names_fail() {
        let bytes = question("example.org.", RecordType::A, None);
        let message = answer(&resolver(&[]).handle(
            start(),
            Event::Query {
                from: client(),
                bytes: &bytes,
            },
        ));
        assert_eq!(message.metadata.response_code, ResponseCode::ServFail);
    }

    #[test]
    fn a_cut_answer_for_a_tcp_client_is_asked_again_over_tcp() {
        let mut resolver = resolver(&[upstream(1)]);
        let now = start();
        let bytes = question("example.org.", RecordType::A, None);
        let (_, _, forwarded) = asked(&resolver.handle(
            now,
            Event::Query {
                from: Asker::Tcp(3),
                bytes: &bytes,
            },
        ));
        let again = resolver.handle(
            now,
            Event::UpstreamAnswer {
                from: upstream(1),
                bytes: &reply_to(&forwarded, true),
            },
        );
        assert_eq!(asked(&again).1, Transport::Tcp);
        let done = resolver.handle(
            now,
            Event::UpstreamAnswer {
                from: upstream(1),
                bytes: &reply_to(&forwarded, false),
            },
        );
        assert!(matches!(
            done[..],
            [Action::Answer {
                to: Asker::Tcp(3),
                ..
            }]
        ));
    }

    #[test]
    fn a_flood_of_questions_is_bounded() {
        let mut resolver = resolver(&[upstream(1)]);
        let bytes = question("example.org.", RecordType::A, None);
        let now = start();
        for _ in 0..MAX_PENDING {
            asked(&resolver.handle(
                now,
                Event::Query {
                    from: client(),
                    bytes: &bytes,
                },
            ));
        }
        assert_eq!(
            answer(&resolver.handle(
                now,
                Event::Query {
                    from: client(),
                    bytes: &bytes
                }
            ))
            .metadata
            .response_code,
            ResponseCode::ServFail
        );
    }

    proptest! {
        #[test]
        fn no_bytes_stop_the_resolver(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), plausible: bool) {
            let mut resolver = resolver(&[upstream(1)]);
            if plausible && bytes.len() > 12 {
                bytes[2..12].copy_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
            }
            resolver.handle(start(), Event::Query { from: client(), bytes: &bytes });
            resolver.handle(start(), Event::UpstreamAnswer { from: upstream(1), bytes: &bytes });
        }
    }
}
