use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::SOA;
use hickory_proto::rr::{RData, Record};
use proptest::prelude::*;

use super::*;
use crate::dns::testing::{answer_to, message, name, query, response, start};

fn upstream(n: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, n], 53))
}

fn client(port: u16) -> Asker {
    Asker::Udp {
        socket: 0,
        from: SocketAddr::from(([10, 0, 0, 9], port)),
    }
}

struct Bench {
    forwarder: Forwarder,
    now: Instant,
    reports: Vec<Report>,
    kept: Vec<Arc<Stored>>,
}

/// What a machine asked of the network.
#[derive(Debug, Clone)]
struct Asked {
    ask: AskId,
    upstream: SocketAddr,
    transport: Transport,
    bytes: Vec<u8>,
}

impl Bench {
    fn new(upstreams: &[u8]) -> Self {
        Self::with(upstreams, false)
    }

    fn with(upstreams: &[u8], mixed_case: bool) -> Self {
        let config = Config {
            own: vec![upstream(99)],
            max_pending: 8,
            max_pending_per_client: 4,
            mixed_case,
        };
        let mut bench = Self {
            forwarder: Forwarder::new(config, [7; 32]),
            now: start(),
            reports: Vec::new(),
            kept: Vec::new(),
        };
        let list = upstreams.iter().map(|n| upstream(*n)).collect();
        let (probes, _) = bench.feed(Event::Upstreams(list));
        for probe in probes {
            let bytes = response(&probe.bytes).to_vec().unwrap();
            bench.answer(&probe, &bytes);
        }
        bench
    }

    fn feed(&mut self, event: Event<'_>) -> (Vec<Asked>, Vec<(Asker, Message)>) {
        let (mut asked, mut answers) = (Vec::new(), Vec::new());
        for action in self.forwarder.handle(self.now, event) {
            match action {
                Action::Ask {
                    ask,
                    upstream,
                    transport,
                    bytes,
                } => asked.push(Asked {
                    ask,
                    upstream,
                    transport,
                    bytes,
                }),
                Action::Answer { to, bytes } => {
                    answers.push((to, Message::from_vec(&bytes).unwrap()));
                }
                Action::Stale { to, query } => {
                    // Shown as an answer with an empty question.
                    let id = u16::from_be_bytes([query[0], query[1]]);
                    let stale = Message::response(id, hickory_proto::op::OpCode::Query);
                    answers.push((to, stale));
                }
                Action::Forget { .. } => {}
                Action::Keep { stored, .. } => self.kept.push(stored),
                Action::Report(report) => self.reports.push(report),
            }
        }
        (asked, answers)
    }

    fn query(
        &mut self,
        from: Asker,
        bytes: &[u8],
        stale: bool,
    ) -> (Vec<Asked>, Vec<(Asker, Message)>) {
        self.feed(Event::Query { from, bytes, stale })
    }

    fn answer(&mut self, to: &Asked, bytes: &[u8]) -> (Vec<Asked>, Vec<(Asker, Message)>) {
        self.feed(Event::Answer {
            ask: to.ask,
            from: to.upstream,
            bytes,
        })
    }

    /// Lets the time pass up to the next timer.
    fn wait(&mut self) -> (Vec<Asked>, Vec<(Asker, Message)>) {
        self.now = self.forwarder.wake_at().unwrap();
        self.feed(Event::Timer)
    }

    fn dropped(&self, why: &str) -> u64 {
        self.forwarder.counts.dropped.get(why).copied().unwrap_or(0)
    }
}

#[test]
fn a_question_is_asked_answered_and_kept() {
    let mut bench = Bench::new(&[1]);
    let bytes = query("a.test", 1);
    let (asked, _) = bench.query(client(1), &bytes, false);
    assert_eq!((asked.len(), asked[0].upstream), (1, upstream(1)));
    assert_ne!(asked[0].bytes[..2], bytes[..2]);
    let (_, answers) = bench.answer(&asked[0], &answer_to(&asked[0].bytes, 60));
    assert_eq!(answers[0].1.metadata.id, 0x1234);
    assert_eq!(answers[0].1.answers.len(), 1);
    assert_eq!(bench.kept[0].life(), Some(Duration::from_mins(1)));
    assert_eq!(bench.forwarder.pending(), 0);
    assert!(bench.forwarder.asks.is_empty() && bench.forwarder.timers.is_empty());
}

#[test]
fn equal_questions_wait_for_one_answer() {
    let mut bench = Bench::new(&[1]);
    let (asked, _) = bench.query(client(1), &query("a.test", 1), false);
    for port in 2..4 {
        let (more, _) = bench.query(client(port), &query("A.TEST", 1), false);
        assert!(more.is_empty());
    }
    let (_, answers) = bench.answer(&asked[0], &answer_to(&asked[0].bytes, 60));
    assert_eq!(answers.len(), 3);
    // Each gets its own spelling back.
    assert_eq!(answers[2].1.queries[0].name().to_ascii(), "A.TEST.");
}

#[test]
fn forged_answers_are_dropped_and_counted() {
    let mut bench = Bench::with(&[1], true);
    let (asked, _) = bench.query(client(1), &query("abcdefghijklmnop.test", 1), false);
    let good = answer_to(&asked[0].bytes, 60);
    let mut wrong_id = good.clone();
    wrong_id[0] ^= 1;
    let mut wrong_name = good.clone();
    wrong_name[13] ^= 3;
    let mut wrong_case = good.clone();
    wrong_case[13] ^= 0x20;
    let mut cut = good.clone();
    cut.truncate(good.len() - 3);
    for (bytes, why) in [
        (&wrong_id, "wrong_id"),
        (&wrong_name, "wrong_question"),
        (&wrong_case, "wrong_question"),
        (&cut, "malformed"),
    ] {
        let before = bench.dropped(why);
        let (_, answers) = bench.answer(&asked[0], bytes);
        assert!(answers.is_empty(), "{why}");
        assert_eq!(bench.dropped(why), before + 1);
    }
    let (_, answers) = bench.feed(Event::Answer {
        ask: asked[0].ask,
        from: upstream(2),
        bytes: &good,
    });
    assert!(answers.is_empty() && bench.dropped("wrong_source") == 1);
    let (_, answers) = bench.answer(&asked[0], &good);
    assert_eq!(answers.len(), 1);
    bench.answer(&asked[0], &good);
    assert_eq!(bench.dropped("late"), 1);
}

#[test]
fn silence_moves_on_to_the_next_and_a_late_answer_still_counts() {
    let mut bench = Bench::new(&[1, 2]);
    let (first, _) = bench.query(client(1), &query("a.test", 1), false);
    let (second, _) = bench.wait();
    assert_eq!(second[0].upstream, upstream(2));
    let (_, answers) = bench.answer(&first[0], &answer_to(&first[0].bytes, 60));
    assert_eq!(answers.len(), 1);
}

#[test]
fn a_dead_upstream_is_asked_last_until_it_answers() {
    let mut bench = Bench::new(&[1, 2]);
    for n in 0..2 {
        let (first, _) = bench.query(client(1), &query(&format!("n{n}.test"), 1), false);
        assert_eq!(first[0].upstream, upstream(1));
        let (second, _) = bench.feed(Event::Failed { ask: first[0].ask });
        bench.answer(&second[0], &answer_to(&second[0].bytes, 60));
    }
    assert_eq!(bench.reports, [Report::Down(upstream(1))]);
    let (asked, _) = bench.query(client(1), &query("a.test", 1), false);
    assert_eq!(asked[0].upstream, upstream(2));
    bench.answer(&asked[0], &answer_to(&asked[0].bytes, 60));
    bench.now += Duration::from_secs(3);
    let (asked, _) = bench.query(client(1), &query("b.test", 1), false);
    assert_eq!(asked[0].upstream, upstream(1));
    bench.answer(&asked[0], &answer_to(&asked[0].bytes, 60));
    assert_eq!(bench.reports[1..], [Report::Up(upstream(1))]);
}

#[test]
fn when_nobody_answers_the_client_is_told_in_time() {
    let mut bench = Bench::new(&[1, 2]);
    let begin = bench.now;
    bench.query(client(1), &query("a.test", 1), false);
    let answers = loop {
        let (_, answers) = bench.wait();
        if !answers.is_empty() {
            break answers;
        }
    };
    assert!(bench.now - begin <= GIVE_UP);
    assert_eq!(answers[0].1.metadata.response_code, ResponseCode::ServFail);
}

#[test]
fn an_old_answer_is_given_when_it_takes_too_long_and_at_once_after_a_failure() {
    let mut bench = Bench::new(&[1]);
    let begin = bench.now;
    let bytes = query("a.test", 1);
    bench.query(client(1), &bytes, true);
    let mut answers = Vec::new();
    while answers.is_empty() {
        answers = bench.wait().1;
    }
    assert_eq!(bench.now - begin, STALE_AFTER);
    assert!(answers[0].1.queries.is_empty());
    while bench.forwarder.pending() > 0 {
        assert!(bench.wait().1.is_empty(), "answered twice");
    }
    let (asked, answers) = bench.query(client(2), &bytes, true);
    assert!(asked.is_empty() && answers.len() == 1);
}

#[test]
fn a_refusal_is_taken_to_the_next_and_told_if_all_refuse() {
    let mut bench = Bench::new(&[1, 2]);
    let (mut asked, _) = bench.query(client(1), &query("a.test", 1), false);
    let answers = loop {
        let mut no = response(&asked[0].bytes);
        no.metadata.response_code = ResponseCode::Refused;
        no.set_edns(hickory_proto::op::Edns::new());
        let (more, answers) = bench.answer(&asked[0], &no.to_vec().unwrap());
        if !answers.is_empty() {
            break answers;
        }
        assert_ne!(more[0].upstream, asked[0].upstream);
        asked = more;
    };
    assert_eq!(answers[0].1.metadata.response_code, ResponseCode::Refused);
    assert!(bench.kept.is_empty());
}

#[test]
fn a_cut_answer_is_fetched_by_tcp_and_cut_again_for_a_client_without_room() {
    let mut bench = Bench::new(&[1]);
    let (asked, _) = bench.query(client(1), &query("a.test", 1), false);
    let mut cut = response(&asked[0].bytes);
    cut.metadata.truncation = true;
    let (again, answers) = bench.answer(&asked[0], &cut.to_vec().unwrap());
    assert!(answers.is_empty());
    assert_eq!(again[0].transport, Transport::Tcp);
    let mut long = response(&again[0].bytes);
    for n in 0..60 {
        let data = RData::A(hickory_proto::rr::rdata::A([192, 0, 2, n].into()));
        long.add_answer(Record::from_rdata(name("a.test"), 60, data));
    }
    let (_, answers) = bench.answer(&again[0], &long.to_vec().unwrap());
    assert!(answers[0].1.metadata.truncation);
    assert!(bench.kept[0].life().is_some());
}

#[test]
fn an_upstream_without_edns_is_asked_without() {
    let mut bench = Bench::new(&[1]);
    let (asked, _) = bench.query(client(1), &query("a.test", 1), false);
    assert!(Message::from_vec(&asked[0].bytes).unwrap().edns.is_some());
    let mut bare = vec![asked[0].bytes[0], asked[0].bytes[1], 0x81, 0x81];
    bare.extend([0; 8]);
    let (again, _) = bench.answer(&asked[0], &bare);
    assert!(Message::from_vec(&again[0].bytes).unwrap().edns.is_none());
    bench.answer(&again[0], &answer_to(&again[0].bytes, 60));
    let (asked, _) = bench.query(client(1), &query("b.test", 1), false);
    assert!(Message::from_vec(&asked[0].bytes).unwrap().edns.is_none());
}

#[test]
fn a_no_lives_as_long_as_its_soa_says() {
    for (ttl, minimum, soa, life) in [
        (300, 20, true, Some(20)),
        (10, 20, true, Some(10)),
        (300, 20, false, None),
    ] {
        let mut bench = Bench::new(&[1]);
        let (asked, _) = bench.query(client(1), &query("a.test", 1), false);
        let mut no = response(&asked[0].bytes);
        no.metadata.response_code = ResponseCode::NXDomain;
        if soa {
            let data = SOA::new(name("ns.test"), name("h.test"), 1, 2, 3, 4, minimum);
            no.add_authority(Record::from_rdata(name("test"), ttl, RData::SOA(data)));
        }
        let (_, answers) = bench.answer(&asked[0], &no.to_vec().unwrap());
        assert_eq!(answers[0].1.metadata.response_code, ResponseCode::NXDomain);
        assert_eq!(
            bench.kept.first().and_then(|stored| stored.life()),
            life.map(Duration::from_secs)
        );
    }
}

#[test]
fn we_never_ask_ourselves() {
    let mut bench = Bench::new(&[]);
    let list = vec![
        upstream(99),
        SocketAddr::from(([0, 0, 0, 0], 53)),
        upstream(1),
    ];
    let (probes, _) = bench.feed(Event::Upstreams(list));
    assert_eq!(probes.len(), 1);
    assert_eq!(bench.reports.len(), 2);
    // Our own probe comes back to us: the upstream leads here.
    let (_, answers) = bench.query(client(5), &probes[0].bytes, false);
    assert_eq!(answers[0].1.metadata.response_code, ResponseCode::Refused);
    assert_eq!(bench.reports[2], Report::Loop(upstream(1)));
    let (asked, answers) = bench.query(client(1), &query("a.test", 1), false);
    assert!(asked.is_empty());
    assert_eq!(answers[0].1.metadata.response_code, ResponseCode::ServFail);
}

#[test]
fn a_flood_is_bounded_and_one_client_cannot_take_all_places() {
    let mut bench = Bench::new(&[1]);
    let other = Asker::Udp {
        socket: 0,
        from: SocketAddr::from(([10, 0, 0, 77], 1)),
    };
    for n in 0..20 {
        bench.query(client(n), &query(&format!("n{n}.test"), 1), false);
    }
    assert_eq!(bench.forwarder.pending(), 4);
    let (asked, _) = bench.query(other, &query("other.test", 1), false);
    assert_eq!(asked.len(), 1);
    assert_eq!(bench.forwarder.counts.refused_full, 16);
}

#[test]
fn those_who_wait_are_told_when_the_last_upstream_goes() {
    let mut bench = Bench::new(&[1]);
    bench.query(client(1), &query("a.test", 1), false);
    let (_, answers) = bench.feed(Event::Upstreams(Vec::new()));
    assert_eq!(answers.len(), 1);
    assert_eq!(bench.forwarder.wake_at(), None);
}

proptest! {
    #[test]
    fn no_bytes_stop_the_forwarder(mut bytes in prop::collection::vec(any::<u8>(), 0..300), level in 0..4u8) {
        let mut bench = Bench::new(&[1]);
        let (asked, _) = bench.query(client(1), &query("a.test", 1), false);
        let good = answer_to(&asked[0].bytes, 60);
        let keep = [0, 2, 12, 24][usize::from(level)].min(bytes.len());
        bytes[..keep].copy_from_slice(&good[..keep]);
        for action in bench.forwarder.handle(bench.now, Event::Answer { ask: asked[0].ask, from: upstream(1), bytes: &bytes }) {
            if let Action::Keep { query, stored } = action {
                let question = Question::parse(&query).unwrap();
                let mut out = Vec::new();
                stored.write(&query, &question, Age::Stale, Transport::Udp, &mut out);
                prop_assert!(out.len() <= 512);
            }
        }
        bench.forwarder.handle(bench.now, Event::Query { from: client(2), bytes: &bytes, stale: false });
    }

    #[test]
    fn any_order_of_events_leaves_nothing_behind(steps in prop::collection::vec((0..5u8, 0..4u8), 1..60)) {
        let mut bench = Bench::new(&[1, 2]);
        let mut open: Vec<Asked> = Vec::new();
        let mut sent = 0;
        let mut told = 0;
        for (step, what) in steps {
            let (asked, answers) = match step {
                0 => { sent += 1; bench.query(client(u16::from(what)), &message(&format!("n{what}.test"), 1).to_vec().unwrap(), what == 3) }
                1 if !open.is_empty() => {
                    let one = open.remove(usize::from(what) % open.len());
                    let bytes = answer_to(&one.bytes, 60);
                    bench.answer(&one, &bytes)
                }
                2 if !open.is_empty() => {
                    let one = open.remove(usize::from(what) % open.len());
                    bench.feed(Event::Failed { ask: one.ask })
                }
                3 if bench.forwarder.wake_at().is_some() => bench.wait(),
                _ => bench.feed(Event::Upstreams((0..what).map(upstream).collect())),
            };
            open.extend(asked);
            told += answers.len();
        }
        while bench.forwarder.pending() > 0 {
            told += bench.wait().1.len();
        }
        prop_assert!(bench.forwarder.asks.is_empty() && bench.forwarder.by_key.is_empty() && bench.forwarder.timers.is_empty());
        // Everyone is told once; past its share a client is not even queued.
        prop_assert!(told <= sent);
    }
}
