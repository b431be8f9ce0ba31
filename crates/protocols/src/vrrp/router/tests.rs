//! The state table of RFC 9568, 6.4, and what we add to it.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use model::Mac;

use super::*;
use crate::vrrp::{Authentication, VirtualRouterId};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

#[expect(
    clippy::disallowed_methods,
    reason = "a place for virtual time to start"
)]
fn start() -> Instant {
    Instant::now()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn node(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

fn config(priority: u8) -> Config {
    Config {
        version: Version::V3,
        id: VirtualRouterId::new(7).unwrap(),
        addresses: vec![node(100)],
        source: node(10),
        priority: Some(Priority(priority)),
        interval: ms(100),
        authentication: Authentication::None,
        preempt: Preempt::AtOnce,
        listen: Duration::ZERO,
        swift: true,
        announce: Announce {
            burst: 5,
            refresh: Duration::from_secs(10),
            ..Announce::default()
        },
    }
}

struct Bench {
    router: Router,
    now: Instant,
}

impl Bench {
    fn new(config: Config) -> Self {
        let (router, now) = (Router::new(config), start());
        Self { router, now }
    }

    fn backup(config: Config) -> Self {
        let mut bench = Self::new(config);
        bench.give(Event::Start);
        assert_eq!(bench.role(), Role::Backup);
        bench
    }

    fn active(config: Config) -> Self {
        let mut bench = Self::backup(config);
        bench.until(Role::Active);
        bench
    }

    fn role(&self) -> Role {
        self.router.role()
    }

    fn give(&mut self, event: Event) -> Vec<Action> {
        self.router.handle(self.now, event)
    }

    fn hear(&mut self, from: IpAddr, priority: u8) -> Vec<Action> {
        let advertisement = self.router.config().advertisement(Priority(priority));
        self.give(Event::Heard {
            from,
            advertisement,
        })
    }

    /// Lets time pass to the next timer.
    fn tick(&mut self) -> Vec<Action> {
        self.now = self.router.wake_at().expect("a timer runs");
        self.give(Event::Timer)
    }

    fn until(&mut self, role: Role) -> Vec<Action> {
        let mut all = Vec::new();
        for _ in 0..100 {
            if self.role() == role {
                return all;
            }
            all.extend(self.tick());
        }
        panic!("never {role:?}: {:?}", self.router);
    }
}

fn sent(actions: &[Action]) -> Vec<u8> {
    let priority = |action: &Action| match action {
        Action::Send(advertisement) => Some(advertisement.priority.0),
        _ => None,
    };
    actions.iter().filter_map(priority).collect()
}

#[test]
fn a_backup_takes_over_when_the_active_router_falls_silent() {
    let mut bench = Bench::backup(config(100));
    let began = bench.now;
    bench.hear(node(11), 200);
    let actions = bench.until(Role::Active);
    assert_eq!(sent(&actions), [100, 100]);
    let take = actions.iter().position(|action| *action == Action::TakeVip);
    let announce = actions
        .iter()
        .position(|action| *action == Action::Announce);
    assert!(take < announce, "{actions:?}");
    // Three intervals, the skew of priority 100, and the contest of an eighth.
    assert_eq!((bench.now - began).as_micros(), 300_000 + 60_937 + 12_500);
}

#[test]
fn a_candidate_steps_back_before_it_touches_the_address() {
    let mut bench = Bench::backup(config(100));
    bench.until(Role::Candidate);
    let actions = bench.hear(node(11), 101);
    assert_eq!(bench.role(), Role::Backup);
    assert!(!actions.contains(&Action::TakeVip) && !actions.contains(&Action::DropVip));
    assert_eq!(bench.router.leader().unwrap().from, node(11));
}

#[test]
fn a_candidate_speaks_up_to_a_lesser_one_and_wins() {
    let mut bench = Bench::backup(config(100));
    bench.until(Role::Candidate);
    assert_eq!(sent(&bench.hear(node(11), 99)), [100]);
    bench.tick();
    assert_eq!(bench.role(), Role::Active);
}

#[test]
fn of_equals_the_higher_address_wins_and_it_is_reported() {
    let mut lower = Bench::active(config(100));
    let actions = lower.hear(node(11), 100);
    assert_eq!(lower.role(), Role::Backup);
    assert!(actions.contains(&Action::DropVip));
    assert!(actions.contains(&Action::Report(Report::EqualPriority { from: node(11) })));
    let mut higher = Bench::active(config(100));
    higher.hear(node(9), 100);
    assert_eq!(higher.role(), Role::Active);
}

#[test]
fn the_active_router_asserts_itself_and_announces_again_after_a_conflict() {
    let mut bench = Bench::active(config(100));
    while !matches!(bench.router.state, State::Active { burst_left: 0, .. }) {
        bench.tick();
    }
    assert_eq!(sent(&bench.hear(node(11), 50)), [100]);
    let mut announced = 0;
    let deadline = bench.now + ms(600);
    while bench.router.wake_at().unwrap() < deadline {
        let actions = bench.tick();
        announced += actions
            .iter()
            .filter(|action| **action == Action::Announce)
            .count();
    }
    assert_eq!(announced, 5);
}

#[test]
fn a_claim_by_another_mac_is_answered_and_reported_once() {
    let mut bench = Bench::active(config(100));
    let contested = Action::Report(Report::Contested { by: MAC });
    assert_eq!(bench.give(Event::Claimed { by: MAC }), [contested]);
    assert_eq!(bench.give(Event::Claimed { by: MAC }), []);
}

#[test]
fn the_address_is_announced_in_a_burst_and_then_refreshed() {
    let mut bench = Bench::backup(config(100));
    let mut actions = bench.until(Role::Active);
    let began = bench.now;
    let mut seconds = Vec::new();
    while bench.now < began + Duration::from_secs(25) {
        if actions.contains(&Action::Announce) {
            seconds.push((bench.now - began).as_millis() / 100);
        }
        actions = bench.tick();
    }
    assert_eq!(seconds, [0, 1, 2, 3, 4, 104, 204]);
}

#[test]
fn priority_zero_hands_over_within_a_quarter_of_the_skew() {
    for (row, swift, micros) in [("swift", true, 15_234), ("by the RFC", false, 60_937)] {
        let mut bench = Bench::backup(Config {
            swift,
            ..config(100)
        });
        bench.hear(node(11), 200);
        let began = bench.now;
        bench.hear(node(11), 0);
        bench.until(Role::Candidate);
        assert_eq!((bench.now - began).as_micros(), micros, "{row}");
    }
}

#[test]
fn stopping_tells_the_others_and_keeps_the_address_until_one_has_it() {
    let mut bench = Bench::active(config(100));
    let actions = bench.give(Event::Stop);
    assert_eq!(sent(&actions), [0]);
    assert!(!actions.contains(&Action::DropVip));
    bench.now += ms(10);
    bench.hear(node(11), 50);
    assert_eq!(bench.role(), Role::Leaving);
    bench.give(Event::Claimed { by: MAC });
    let actions = bench.tick();
    assert!(actions.contains(&Action::DropVip));
    assert!(sent(&actions).is_empty());
    assert_eq!(
        (bench.role(), bench.router.wake_at()),
        (Role::Stopped, None)
    );
    assert!(sent(&Bench::backup(config(100)).give(Event::Stop)).is_empty());
}

#[test]
fn one_who_leaves_alone_or_in_trouble_does_not_wait_long() {
    let mut alone = Bench::active(config(100));
    alone.give(Event::Stop);
    let began = alone.now;
    assert!(alone.tick().contains(&Action::DropVip));
    assert!(alone.now - began < config(100).interval * 2);
    assert_eq!(alone.role(), Role::Stopped);
    for (trouble, asked, left) in [
        (Event::Link { up: false }, Event::Stop, Role::Stopped),
        (Event::Link { up: false }, Event::Resign, Role::Unfit),
        (Event::PriorityChanged(None), Event::Resign, Role::Unfit),
        (Event::PriorityChanged(None), Event::Stop, Role::Stopped),
    ] {
        let mut bench = Bench::active(config(100));
        bench.give(asked);
        assert!(bench.give(trouble).contains(&Action::DropVip));
        assert_eq!(bench.role(), left);
    }
}

#[test]
fn a_lesser_active_router_is_preempted_or_not_as_configured() {
    for (row, preempt, swift, waits_ms) in [
        ("at once", Preempt::AtOnce, true, Some(0..150)),
        ("by the RFC", Preempt::AtOnce, false, Some(300..450)),
        (
            "after two seconds",
            Preempt::After(ms(2000)),
            true,
            Some(2000..2200),
        ),
        ("never", Preempt::Never, true, None),
    ] {
        let mut bench = Bench::backup(Config {
            preempt,
            swift,
            ..config(100)
        });
        let began = bench.now;
        let mut beat = bench.now;
        while bench.role() == Role::Backup && bench.now < began + ms(4000) {
            if bench.router.wake_at().unwrap() < beat {
                bench.tick();
            } else {
                bench.now = beat;
                bench.hear(node(11), 50);
                beat += ms(100);
            }
        }
        let waited = (bench.now - began).as_millis() as u64;
        match waits_ms {
            Some(range) => assert!(range.contains(&waited), "{row}: {waited}"),
            None => assert_eq!(bench.role(), Role::Backup, "{row}"),
        }
    }
}

#[test]
fn a_resigned_router_does_not_take_the_address_back_from_a_lesser_one() {
    let mut bench = Bench::active(config(100));
    assert_eq!(sent(&bench.give(Event::Resign)), [0]);
    bench.until(Role::Backup);
    for _ in 0..50 {
        bench.now += ms(100);
        bench.hear(node(11), 50);
        assert_eq!(bench.role(), Role::Backup);
        assert!(bench.router.wake_at().unwrap() > bench.now + ms(100));
    }
    bench.until(Role::Active);
}

#[test]
fn a_resigned_router_may_reclaim_the_address_from_a_lesser_one() {
    let mut bench = Bench::active(config(100));
    bench.give(Event::Resign);
    bench.hear(node(11), 50);
    bench.until(Role::Backup);
    bench.give(Event::Reclaim);
    for _ in 0..50 {
        bench.now += ms(100);
        bench.hear(node(11), 50);
        bench.give(Event::Timer);
        if bench.role() == Role::Candidate {
            return;
        }
    }
    panic!("it never stood again");
}

#[test]
fn a_failed_required_check_gives_the_address_up_and_a_recovery_waits_its_turn() {
    let mut bench = Bench::active(config(100));
    let actions = bench.give(Event::PriorityChanged(None));
    assert_eq!(
        (actions[0].clone(), sent(&actions)),
        (Action::DropVip, vec![0])
    );
    assert_eq!((bench.role(), bench.router.wake_at()), (Role::Unfit, None));
    bench.hear(node(11), 50);
    assert_eq!(bench.role(), Role::Unfit);
    bench.give(Event::PriorityChanged(Some(Priority(100))));
    assert_eq!(bench.role(), Role::Backup);
}

#[test]
fn a_changed_priority_is_told_at_once() {
    let mut bench = Bench::active(config(100));
    let lowered = bench.give(Event::PriorityChanged(Some(Priority(80))));
    assert_eq!(sent(&lowered), [80]);
    assert_eq!(bench.give(Event::PriorityChanged(Some(Priority(80)))), []);
}

#[test]
fn a_cut_link_drops_the_address_without_a_word() {
    let mut bench = Bench::active(config(100));
    let actions = bench.give(Event::Link { up: false });
    assert_eq!(
        (actions[0].clone(), sent(&actions)),
        (Action::DropVip, vec![])
    );
    bench.give(Event::Link { up: true });
    assert_eq!(bench.role(), Role::Backup);
}

#[test]
fn one_who_slept_through_its_turn_asks_before_it_goes_on() {
    let mut bench = Bench::active(config(100));
    bench.now += ms(1000);
    let actions = bench.give(Event::Timer);
    assert_eq!(actions[0], Action::DropVip);
    assert_eq!(bench.role(), Role::Candidate);
    bench.hear(node(11), 150);
    assert_eq!(bench.role(), Role::Backup);
}

#[test]
fn a_little_late_is_not_lost() {
    let mut bench = Bench::active(config(100));
    bench.now += ms(250);
    assert_eq!(sent(&bench.give(Event::Timer)), [100]);
    assert_eq!(bench.role(), Role::Active);
}

#[test]
fn strangers_under_our_id_are_reported_once_a_minute_and_not_followed() {
    let mut bench = Bench::active(config(100));
    let mut advertisement = config(200).advertisement(Priority(200));
    advertisement.addresses = vec![node(200)];
    let hear = |bench: &mut Bench| {
        bench.give(Event::Heard {
            from: node(66),
            advertisement: advertisement.clone(),
        })
    };
    let foreign = Report::ForeignId {
        from: node(66),
        address: node(200),
    };
    assert_eq!(hear(&mut bench), [Action::Report(foreign)]);
    assert_eq!(hear(&mut bench), []);
    assert_eq!(bench.role(), Role::Active);
    bench.now += Duration::from_secs(61);
    assert_eq!(hear(&mut bench), [Action::Report(foreign)]);
}

#[test]
fn other_versions_passwords_and_intervals_are_reported_and_not_followed() {
    let ours = Config {
        version: Version::V2,
        interval: Duration::from_secs(1),
        ..config(100)
    };
    let from = node(11);
    let right = ours.advertisement(Priority(200));
    for (heard, report) in [
        (
            Advertisement {
                version: Version::V3,
                ..right.clone()
            },
            Report::OtherVersion {
                from,
                theirs: Version::V3,
            },
        ),
        (
            Advertisement {
                authentication: Authentication::password("x"),
                ..right.clone()
            },
            Report::Password { from },
        ),
        (
            Advertisement {
                interval: Duration::from_secs(2),
                ..right.clone()
            },
            Report::Interval {
                from,
                theirs: Duration::from_secs(2),
                ours: Duration::from_secs(1),
            },
        ),
    ] {
        let mut bench = Bench::active(ours.clone());
        let advertisement = heard;
        assert_eq!(
            bench.give(Event::Heard {
                from,
                advertisement
            }),
            [Action::Report(report)]
        );
        assert_eq!(bench.role(), Role::Active);
    }
}

#[test]
fn version_3_learns_the_interval_of_the_active_router() {
    let mut bench = Bench::backup(config(100));
    let mut advertisement = config(200).advertisement(Priority(200));
    advertisement.interval = Duration::from_secs(1);
    let from = node(11);
    bench.give(Event::Heard {
        from,
        advertisement,
    });
    assert!(bench.router.wake_at().unwrap() > bench.now + Duration::from_secs(3));
}

#[test]
fn a_first_start_listens_and_tells_who_already_answers_for_the_address() {
    let listening = Config {
        listen: Duration::from_secs(4),
        ..config(100)
    };
    let mut bench = Bench::new(listening);
    assert!(bench.give(Event::Start).contains(&Action::Probe));
    bench.give(Event::Claimed { by: MAC });
    let actions = bench.tick();
    assert!(actions.contains(&Action::Report(Report::ForeignAddress { by: MAC })));
    bench.until(Role::Active);
}

#[test]
fn the_owner_of_the_address_is_active_from_the_start() {
    let mut bench = Bench::new(config(255));
    assert!(bench.give(Event::Start).contains(&Action::TakeVip));
    assert_eq!(bench.role(), Role::Active);
}

#[test]
fn packets_of_another_id_are_not_ours_to_judge() {
    let mut bench = Bench::active(config(100));
    let mut advertisement = config(200).advertisement(Priority(200));
    advertisement.id = VirtualRouterId::new(8).unwrap();
    let from = node(11);
    assert_eq!(
        bench.give(Event::Heard {
            from,
            advertisement
        }),
        []
    );
}

#[test]
fn the_log_tells_why_a_router_stands() {
    let why = |heard: &[u8]| {
        let mut bench = Bench::backup(config(100));
        for priority in heard {
            bench.hear(node(11), *priority);
        }
        let actions = bench.until(Role::Candidate);
        let Some(Action::Changed { why, .. }) = actions.last() else {
            panic!("{actions:?}")
        };
        why.to_string()
    };
    for (heard, expected) in [
        (&[][..], "no router speaks for the address"),
        (&[200], "the active router fell silent"),
        (&[200, 0], "no router speaks for the address"),
        (&[50], "192.0.2.11 has only priority 50"),
    ] {
        assert_eq!(why(heard), expected, "{heard:?}");
    }
}

#[test]
fn the_loser_of_a_conflict_has_the_last_word_so_that_the_winner_announces_again() {
    let mut loser = Bench::active(config(100));
    let actions = loser.hear(node(11), 150);
    assert_eq!(actions[0], Action::DropVip);
    assert_eq!(sent(&actions), [100]);
}

#[test]
fn a_lesser_voice_beside_a_living_better_one_changes_nothing() {
    for lesser in [50, 0] {
        let mut bench = Bench::backup(config(100));
        bench.hear(node(11), 200);
        let patience = bench.router.wake_at();
        bench.hear(node(12), lesser);
        assert_eq!(bench.router.wake_at(), patience, "{lesser}");
        assert_eq!(bench.router.leader().unwrap().from, node(11), "{lesser}");
    }
}

#[test]
fn a_silence_that_was_none_makes_the_next_one_longer_and_is_forgotten() {
    let mut bench = Bench::backup(config(100));
    let patience = |bench: &mut Bench| {
        let heard = bench.now;
        bench.hear(node(20), 200);
        bench.router.wake_at().unwrap() - heard
    };
    let usual = patience(&mut bench);
    assert_eq!(usual, ms(300) + ms(100) * 156 / 256);
    // It was only late.
    bench.until(Role::Active);
    bench.now += ms(30);
    let late = usual + ms(100) / 8 + ms(30);
    assert_eq!(patience(&mut bench), late * 3 / 2 + ms(100) * 156 / 256);
    assert_eq!(bench.role(), Role::Backup);
    // Nobody is waited for longer than 25 advertisements, and who was away for longer teaches nothing.
    bench.now += ms(2490);
    assert_eq!(patience(&mut bench), ms(2500) + ms(100) * 156 / 256);
    for _ in 0..700 {
        bench.now += ms(100);
        bench.hear(node(20), 200);
    }
    bench.now += ms(2501);
    assert_eq!(patience(&mut bench), usual);
    // One that left is not late when it comes back.
    bench.hear(node(20), 0);
    bench.now += ms(400);
    assert_eq!(patience(&mut bench), usual);
}
