//! Our console against our BMC over a link that loses, repeats and delays datagrams, in virtual time.

use std::collections::VecDeque;
use std::net::SocketAddr;

use model::Secret;
use proptest::prelude::*;

use super::*;
use crate::ipmi::bmc::{self, Bmc, Privilege, Readings, Start, User, View};
use crate::ipmi::chassis::PowerState;
use crate::ipmi::console::Config;
use crate::ipmi::wire::sol::NACK;

/// What the network does with a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrives,
    Lost,
    Twice,
    /// So many milliseconds late; the next may overtake it.
    Late(u64),
}

#[derive(Debug)]
enum Datagram {
    ToBmc(usize, Vec<u8>),
    ToConsole(usize, Vec<u8>),
}

/// Some consoles, one BMC, and a virtual clock.
struct Site {
    consoles: Vec<Session>,
    bmc: Bmc,
    now: Instant,
    fates: VecDeque<Fate>,
    /// The network carries nothing.
    down: bool,
    /// What is under way, each with the time of its arrival and a number that keeps the order.
    wire: Vec<(Instant, u64, Datagram)>,
    sent: u64,
    output: Vec<Vec<u8>>,
    other: Vec<Vec<Action>>,
    typed: Vec<u8>,
}

/// A console's place in the network.
fn peer(console: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 40_000 + console as u16))
}

#[expect(
    clippy::disallowed_methods,
    reason = "there is no other way to get an Instant to count from"
)]
fn site(owners: &[Owner]) -> Site {
    let now = Instant::now();
    let user = User {
        name: "admin".into(),
        password: Secret::new("s3cret".into()),
        privilege: Privilege::Administrator,
    };
    let start = Start {
        now,
        unix_seconds: 0,
        seed: Secret::new([1; 32]),
    };
    let mut bmc = Bmc::new(bmc::Config::new(vec![user], [7; 16]), start);
    let view = View {
        power: PowerState::On,
        readings: Readings::default(),
    };
    bmc.handle(now, bmc::Event::View(view));
    let console = |(number, owner): (usize, &Owner)| {
        let config = Config::new("admin".into(), Secret::new("s3cret".into()));
        let seed = Secret::new([2 + number as u8; 32]);
        Session::new(Console::new(config, seed), *owner)
    };
    Site {
        consoles: owners.iter().enumerate().map(console).collect(),
        bmc,
        now,
        fates: VecDeque::new(),
        down: false,
        wire: vec![],
        sent: 0,
        output: vec![vec![]; owners.len()],
        other: vec![vec![]; owners.len()],
        typed: vec![],
    }
}

impl Site {
    /// With one console that is open already.
    fn open() -> Self {
        let mut site = site(&[Owner::Stays]);
        site.tell(0, Event::Open);
        site.settle();
        assert_eq!(site.other[0], [Action::Opened]);
        site.other[0].clear();
        site
    }

    fn tell(&mut self, console: usize, event: Event) {
        for action in self.consoles[console].handle(self.now, event) {
            match action {
                Action::Send(bytes) => self.post(|| Datagram::ToBmc(console, bytes.clone())),
                Action::Output(bytes) => self.output[console].extend(bytes),
                other @ (Action::Opened | Action::Notice(_) | Action::Ended(_)) => {
                    self.other[console].push(other);
                }
            }
        }
    }

    fn tell_bmc(&mut self, event: bmc::Event) {
        for action in self.bmc.handle(self.now, event) {
            if let bmc::Action::Send { to, bytes } = action {
                let console = usize::from(to.port() - 40_000);
                self.post(|| Datagram::ToConsole(console, bytes.clone()));
            } else if let bmc::Action::ConsoleInput(keys) = action {
                self.typed.extend(keys);
            }
        }
    }

    fn prints(&mut self, text: &[u8]) {
        self.tell_bmc(bmc::Event::ConsoleOutput(text.to_vec()));
    }

    fn post(&mut self, datagram: impl Fn() -> Datagram) {
        let delays: &[u64] = match self.fates.pop_front() {
            _ if self.down => &[],
            None | Some(Fate::Arrives) => &[0],
            Some(Fate::Lost) => &[],
            Some(Fate::Twice) => &[0, 0],
            Some(Fate::Late(millis)) => &[millis],
        };
        for millis in delays {
            self.sent += 1;
            let at = self.now + Duration::from_millis(*millis);
            self.wire.push((at, self.sent, datagram()));
        }
    }

    /// Moves to the next thing that happens, if it is within the time.
    fn step(&mut self, until: Instant) -> bool {
        let arrival = self.wire.iter().map(|(at, _, _)| *at).min();
        let consoles = self.consoles.iter().filter_map(Session::wake_at).min();
        let times = [arrival, consoles, self.bmc.wake_at()];
        let Some(at) = times.into_iter().flatten().min().filter(|at| *at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(at);
        let next = self.wire.iter().enumerate();
        let next = next.filter(|(_, (at, _, _))| *at <= self.now);
        if let Some((index, _)) = next.min_by_key(|(_, (at, number, _))| (*at, *number)) {
            match self.wire.remove(index).2 {
                Datagram::ToBmc(console, bytes) => self.tell_bmc(bmc::Event::Datagram {
                    from: peer(console),
                    bytes,
                }),
                Datagram::ToConsole(console, bytes) => self.tell(console, Event::Datagram(bytes)),
            }
            return true;
        }
        for console in 0..self.consoles.len() {
            self.tell(console, Event::Timer);
        }
        self.tell_bmc(bmc::Event::Timer);
        true
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        for _ in 0..100_000 {
            if !self.step(until) {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    /// Until what is under way has come.
    fn settle(&mut self) {
        self.pass(Duration::from_millis(1));
    }
}

#[test]
fn what_is_printed_is_shown_and_what_is_typed_arrives() {
    let mut site = Site::open();
    let text: Vec<u8> = (0..5000_u32).map(|at| (at % 251) as u8).collect();
    site.prints(&text);
    site.tell(0, Event::Keys(vec![b'k'; 1000]));
    site.settle();
    assert_eq!(site.output[0], text);
    assert_eq!(site.typed, vec![b'k'; 1000]);
    assert_eq!(site.other[0], []);
}

#[test]
fn an_hour_of_silence_does_not_end_it() {
    let mut site = Site::open();
    site.pass(Duration::from_hours(1));
    site.prints(b"still here");
    site.settle();
    assert_eq!(site.output[0], b"still here");
}

#[test]
fn closing_gives_the_console_back() {
    let mut site = Site::open();
    site.tell(0, Event::Close);
    assert_eq!(site.other[0], [Action::Ended(Ended::Closed)]);
    assert_eq!(site.consoles[0].wake_at(), None);
    site.settle();
    assert_eq!(site.bmc.wake_at(), None, "the BMC has no session left");
}

#[test]
fn a_console_that_is_anothers_is_taken_only_when_asked_to() {
    for (owner, theirs, ours) in [
        (
            Owner::Stays,
            vec![Action::Opened],
            Action::Ended(Ended::InUse),
        ),
        (
            Owner::GivesWay,
            vec![Action::Opened, Action::Ended(Ended::Deactivated)],
            Action::Opened,
        ),
    ] {
        let mut site = site(&[Owner::Stays, owner]);
        site.tell(0, Event::Open);
        site.settle();
        site.tell(1, Event::Open);
        site.settle();
        assert_eq!(site.other[0], theirs, "{owner:?}");
        assert_eq!(site.other[1], [ours], "{owner:?}");
        site.prints(b"hello");
        site.settle();
        let hears = usize::from(owner == Owner::GivesWay);
        assert_eq!(site.output[hears], b"hello", "{owner:?}");
    }
}

#[test]
fn giving_up_before_it_is_ours_leaves_it_to_its_owner() {
    let mut site = site(&[Owner::Stays, Owner::GivesWay]);
    site.tell(0, Event::Open);
    site.settle();
    site.tell(1, Event::Open);
    site.tell(1, Event::Close);
    site.settle();
    site.prints(b"hello");
    site.settle();
    assert_eq!(site.output[0], b"hello");
}

#[test]
fn a_lost_answer_to_the_activation_does_not_make_it_anothers() {
    let mut site = site(&[Owner::Stays]);
    site.tell(0, Event::Open);
    // Open, RAKP 1, RAKP 3 and the privilege, each with its answer; the first is out already.
    site.fates = vec![Fate::Arrives; 8].into();
    site.fates.push_back(Fate::Lost);
    site.pass(Duration::from_secs(1));
    assert_eq!(site.other[0], [Action::Opened]);
}

#[test]
fn a_bmc_that_falls_silent_is_noticed() {
    let mut site = Site::open();
    site.fates = vec![Fate::Lost; 100].into();
    site.pass(Duration::from_mins(1));
    let silent = Error::Silent { step: "command" };
    assert_eq!(site.other[0], [Action::Ended(Ended::Talk(silent))]);
}

#[test]
fn ten_seconds_without_a_network_cost_characters_but_not_the_session() {
    let mut site = Site::open();
    site.prints(b"before");
    site.settle();
    site.down = true;
    for _ in 0..100 {
        site.prints(&[b'x'; 150]);
        site.pass(Duration::from_millis(100));
    }
    site.down = false;
    site.prints(b"back again");
    site.pass(Duration::from_secs(2));
    assert!(site.output[0].ends_with(b"back again"));
    assert_eq!(site.other[0], [Action::Notice(Notice::Missed)]);
}

#[test]
fn sol_that_is_disabled_and_a_wrong_password_are_named() {
    let mut disabled = Site::open();
    disabled.tell(0, Event::Close);
    disabled.settle();
    disabled.other[0].clear();
    let config = Config::new("admin".into(), Secret::new("s3cret".into()));
    let mut console = Console::new(config.clone(), Secret::new([9; 32]));
    let off = Request {
        net_fn: 0x0c,
        command: 0x21,
        data: vec![1, 1, 0],
    };
    let mut events = VecDeque::from([Ask::Run {
        id: 1,
        request: off,
    }]);
    while let Some(event) = events.pop_front() {
        for action in console.handle(disabled.now, event) {
            if let Asked::Send(bytes) = action {
                let from = peer(5);
                let told = disabled
                    .bmc
                    .handle(disabled.now, bmc::Event::Datagram { from, bytes });
                for action in told {
                    if let bmc::Action::Send { bytes, .. } = action {
                        events.push_back(Ask::Datagram(bytes));
                    }
                }
            }
        }
    }
    disabled.consoles[0] = Session::new(
        Console::new(config.clone(), Secret::new([8; 32])),
        Owner::Stays,
    );
    disabled.tell(0, Event::Open);
    disabled.settle();
    assert_eq!(disabled.other[0], [Action::Ended(Ended::Disabled)]);

    let mut wrong = site(&[Owner::Stays]);
    let config = Config {
        password: Secret::new("guess".into()),
        ..config
    };
    wrong.consoles[0] = Session::new(Console::new(config, Secret::new([8; 32])), Owner::Stays);
    wrong.tell(0, Event::Open);
    wrong.settle();
    assert_eq!(
        wrong.other[0],
        [Action::Ended(Ended::Talk(Error::Password))]
    );
}

fn sol(sequence: u8, flags: u8, characters: &[u8]) -> Sol {
    Sol {
        sequence,
        acked: 0,
        accepted: 0,
        flags,
        characters: characters.to_vec(),
    }
}

/// A port that has the BMC's packets put into its hand.
struct Hand {
    port: Port,
    now: Instant,
    number: u32,
}

impl Hand {
    fn new() -> Self {
        let Site { now, .. } = site(&[]);
        Self {
            port: Port::new(),
            now,
            number: 0,
        }
    }

    fn hears(&mut self, sol: Sol) -> (Vec<u8>, Vec<Notice>) {
        self.number += 1;
        let mut notices = vec![];
        let output = self.port.hear(self.now, self.number, sol, &mut notices);
        (output, notices)
    }

    fn sends(&mut self) -> (Option<Sol>, Vec<Notice>) {
        let mut notices = vec![];
        self.port.take_keys(self.now, &mut notices);
        (self.port.next(self.now), notices)
    }
}

#[test]
fn a_repeated_packet_that_has_grown_gives_its_end_only() {
    let mut hand = Hand::new();
    assert_eq!(hand.hears(sol(3, 0, b"abc")), (b"abc".to_vec(), vec![]));
    assert_eq!(hand.hears(sol(3, 0, b"abcde")), (b"de".to_vec(), vec![]));
    assert_eq!(hand.hears(sol(3, 0, b"abc")), (vec![], vec![]));
    let (ack, _) = hand.sends();
    assert_eq!(ack.map(|ack| (ack.acked, ack.accepted)), Some((3, 5)));
}

#[test]
fn a_packet_that_was_given_up_and_an_overrun_are_told() {
    let mut hand = Hand::new();
    hand.hears(sol(15, 0, b"a"));
    assert_eq!(hand.hears(sol(1, 0, b"b")), (b"b".to_vec(), vec![]));
    assert_eq!(
        hand.hears(sol(3, 0, b"d")),
        (b"d".to_vec(), vec![Notice::Missed])
    );
    assert_eq!(
        hand.hears(sol(0, status::OVERRUN, b"")),
        (vec![], vec![Notice::Missed])
    );
    assert_eq!(
        hand.hears(sol(0, status::BREAK_DETECTED, b"")),
        (vec![], vec![Notice::Break])
    );
}

#[test]
fn keys_that_were_refused_go_again_after_a_pause() {
    let mut hand = Hand::new();
    hand.port.keys(b"abcdef");
    let (first, _) = hand.sends();
    assert_eq!(
        first.map(|sol| (sol.sequence, sol.characters)),
        Some((1, b"abcdef".to_vec()))
    );
    hand.hears(Sol {
        acked: 1,
        accepted: 2,
        ..sol(0, NACK, b"")
    });
    assert_eq!(hand.sends(), (None, vec![]), "not at once");
    hand.now = hand.port.wake_at().unwrap();
    let (second, _) = hand.sends();
    assert_eq!(
        second.map(|sol| (sol.sequence, sol.characters)),
        Some((2, b"cdef".to_vec()))
    );
}

#[test]
fn keys_without_an_answer_are_given_up_and_told() {
    let mut hand = Hand::new();
    hand.port.keys(b"abc");
    let mut sent = 0;
    let told = loop {
        let (packet, notices) = hand.sends();
        if !notices.is_empty() {
            break notices;
        }
        sent += usize::from(packet.is_some());
        hand.now = hand.port.wake_at().unwrap();
    };
    assert_eq!((sent, told), (8, vec![Notice::KeysLost(3)]));
    assert_eq!(hand.port.wake_at(), None);
}

#[test]
fn keys_wait_while_the_bmc_passes_none_on() {
    let mut hand = Hand::new();
    hand.port.keys(b"abc");
    hand.sends();
    let (_, notices) = hand.hears(sol(0, status::UNAVAILABLE, b""));
    assert_eq!(notices, [Notice::Unavailable]);
    for _ in 0..100 {
        hand.now = hand.port.wake_at().unwrap();
        let (packet, notices) = hand.sends();
        assert!(packet.is_some() && notices.is_empty());
    }
    let (_, notices) = hand.hears(Sol {
        acked: 1,
        accepted: 3,
        ..sol(0, 0, b"")
    });
    assert_eq!(notices, [Notice::Available]);
    assert_eq!(hand.port.wake_at(), None);
}

/// At most seven that do not arrive in time: with eight tries nobody gives up.
fn any_fates() -> impl Strategy<Value = VecDeque<Fate>> {
    let calm = prop_oneof![3 => Just(Fate::Arrives), 1 => Just(Fate::Twice)];
    let rough = prop_oneof![Just(Fate::Lost), (1u64..3000).prop_map(Fate::Late)];
    (
        prop::collection::vec(calm, 1..40),
        prop::collection::vec((any::<prop::sample::Index>(), rough), 0..8),
    )
        .prop_map(|(mut fates, rough)| {
            for (at, fate) in rough {
                let at = at.index(fates.len());
                fates[at] = fate;
            }
            fates.into()
        })
}

proptest! {
    #[test]
    fn everything_comes_in_order_and_once_whatever_the_network_does(
        fates in any_fates(),
        printed in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..20),
        typed in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..30), 0..20),
    ) {
        let mut site = Site::open();
        site.fates = fates;
        for (at, text) in printed.iter().enumerate() {
            site.prints(text);
            if let Some(keys) = typed.get(at) {
                site.tell(0, Event::Keys(keys.clone()));
            }
            site.pass(Duration::from_millis(200));
        }
        for keys in typed.iter().skip(printed.len()) {
            site.tell(0, Event::Keys(keys.clone()));
        }
        site.pass(Duration::from_mins(2));
        prop_assert_eq!(&site.output[0], &printed.concat());
        prop_assert_eq!(&site.typed, &typed.concat());
        prop_assert_eq!(&site.other[0], &vec![]);
    }

    #[test]
    fn any_datagram_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..100), flags: u8) {
        let mut site = Site::open();
        site.tell(0, Event::Datagram(bytes.clone()));
        let mut hand = Hand::new();
        for sequence in 0..16 {
            hand.hears(sol(sequence, flags, &bytes));
            hand.sends();
        }
    }
}
