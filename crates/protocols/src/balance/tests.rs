use super::*;
use proptest::prelude::*;

const A: &str = "10.0.0.1:6443";
const B: &str = "10.0.0.2:6443";
const C: &str = "10.0.0.3:6443";

#[expect(
    clippy::disallowed_methods,
    reason = "a place for virtual time to start"
)]
fn start() -> Instant {
    Instant::now()
}

fn config() -> Config {
    Config {
        policy: Policy::RoundRobin,
        checked: true,
        rise: 2,
        fall: 2,
        connect_fall: 1,
        probation: Duration::from_secs(1),
        limit: None,
        drain: Duration::from_secs(5),
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn members(of: &[&str]) -> Event {
    Event::Members(
        of.iter()
            .map(|text| (address(text), format!("n{text}")))
            .collect(),
    )
}

fn well(text: &str) -> Event {
    looked(text, Outcome::Well)
}

fn looked(text: &str, outcome: Outcome) -> Event {
    Event::Checked {
        address: address(text),
        outcome,
    }
}

/// A pool whose backends are all up.
fn pool(config: Config, of: &[&str]) -> (Pool, Instant) {
    let now = start();
    let mut pool = Pool::new(config);
    pool.handle(now, members(of));
    for _ in 0..2 {
        for backend in of {
            pool.handle(now, well(backend));
        }
    }
    (pool, now)
}

fn picks(pool: &mut Pool, count: usize) -> Vec<String> {
    (0..count)
        .map(|_| {
            pool.pick(&[])
                .map_or("none".into(), |pick| pick.address.to_string())
        })
        .collect()
}

fn health(pool: &Pool, text: &str) -> Health {
    let view = pool.view();
    view.iter()
        .find(|view| view.address == address(text))
        .unwrap()
        .health
}

#[test]
fn a_backend_serves_after_enough_good_looks_and_not_before() {
    let now = start();
    let mut pool = Pool::new(config());
    pool.handle(now, members(&[A]));
    assert!(!pool.is_serving() && pool.pick(&[]).is_none());
    pool.handle(now, well(A));
    assert!(!pool.is_serving());
    let actions = pool.handle(now, well(A));
    assert!(matches!(
        &actions[..],
        [Action::Changed { to: Health::Up, .. }]
    ));
    assert_eq!(picks(&mut pool, 1), [A]);
}

#[test]
fn connections_go_round() {
    let (mut pool, _) = pool(config(), &[A, B, C]);
    let mut seen = picks(&mut pool, 6);
    assert_eq!(seen[..3], seen[3..]);
    seen.truncate(3);
    seen.sort();
    assert_eq!(seen, [A, B, C]);
}

#[test]
fn the_least_loaded_backend_is_next() {
    let mut least = config();
    least.policy = Policy::LeastConnections;
    let (mut pool, now) = pool(least, &[A, B]);
    let first = pool.pick(&[]).unwrap();
    let second = pool.pick(&[]).unwrap();
    assert_ne!(first.id, second.id);
    pool.handle(now, Event::Closed(second.id));
    assert_eq!(pool.pick(&[]).unwrap().id, second.id);
}

#[test]
fn a_failed_connection_ejects_at_once_and_the_next_try_goes_elsewhere() {
    let (mut pool, now) = pool(config(), &[A, B]);
    let first = pool.pick(&[]).unwrap();
    let actions = pool.handle(now, Event::ConnectFailed(first.id));
    assert!(matches!(
        &actions[..],
        [Action::Changed {
            to: Health::Down,
            ..
        }]
    ));
    pool.handle(now, Event::Closed(first.id));
    let second = pool.pick(&[first.id]).unwrap();
    assert_ne!(first.id, second.id);
    assert!(
        picks(&mut pool, 4)
            .iter()
            .all(|pick| *pick == second.address.to_string())
    );
}

#[test]
fn a_backend_that_was_tried_is_not_picked_again() {
    let mut patient = config();
    patient.connect_fall = 3;
    let (mut pool, _) = pool(patient, &[A, B]);
    let first = pool.pick(&[]).unwrap();
    let second = pool.pick(&[first.id]).unwrap();
    assert_eq!(pool.pick(&[first.id, second.id]), None);
}

#[test]
fn a_silent_backend_loses_its_connections_and_an_unready_one_keeps_them() {
    for (outcome, cut, then) in [
        (Outcome::Dead, true, Health::Down),
        (Outcome::Unready, false, Health::Unready),
    ] {
        let (mut pool, now) = pool(config(), &[A]);
        let pick = pool.pick(&[]).unwrap();
        assert!(
            pool.handle(now, looked(A, outcome)).is_empty(),
            "one bad look is no verdict"
        );
        let actions = pool.handle(now, looked(A, outcome));
        assert_eq!(actions.contains(&Action::Cut(pick.id)), cut, "{outcome:?}");
        assert_eq!(health(&pool, A), then);
        assert!(!pool.is_serving());
    }
}

#[test]
fn an_unready_backend_that_falls_silent_loses_its_connections_too() {
    let (mut pool, now) = pool(config(), &[A]);
    let pick = pool.pick(&[]).unwrap();
    for _ in 0..2 {
        pool.handle(now, looked(A, Outcome::Unready));
    }
    pool.handle(now, looked(A, Outcome::Dead));
    let actions = pool.handle(now, looked(A, Outcome::Dead));
    assert!(actions.contains(&Action::Cut(pick.id)), "{actions:?}");
}

#[test]
fn a_removed_backend_finishes_its_connections_and_is_forgotten() {
    let (mut pool, now) = pool(config(), &[A, B]);
    let first = pool.pick(&[]).unwrap();
    let second = pool.pick(&[]).unwrap();
    let (gone, kept) = if first.address == address(A) {
        (first, second)
    } else {
        (second, first)
    };
    let actions = pool.handle(now, members(&[B]));
    assert!(!actions.contains(&Action::Gone(gone.id)));
    assert!(picks(&mut pool, 3).iter().all(|pick| pick == B));
    let actions = pool.handle(now, Event::Closed(gone.id));
    assert_eq!(actions, [Action::Gone(gone.id)]);
    assert_eq!(pool.view().len(), 1);
    pool.handle(now, Event::Closed(kept.id));
}

#[test]
fn a_removed_backend_that_does_not_finish_is_cut() {
    let (mut pool, now) = pool(config(), &[A]);
    let pick = pool.pick(&[]).unwrap();
    pool.handle(now, members(&[]));
    let due = pool.wake_at().unwrap();
    assert_eq!(due, now + Duration::from_secs(5));
    assert_eq!(pool.handle(due, Event::Timer), [Action::Cut(pick.id)]);
    assert_eq!(pool.wake_at(), None);
}

#[test]
fn a_backend_that_comes_back_while_draining_is_a_new_one() {
    let (mut pool, now) = pool(config(), &[A]);
    let old = pool.pick(&[]).unwrap();
    pool.handle(now, members(&[]));
    pool.handle(now, members(&[A]));
    for _ in 0..2 {
        pool.handle(now, well(A));
    }
    let new = pool.pick(&[]).unwrap();
    assert_ne!(old.id, new.id);
    assert_eq!(new.address, address(A));
}

#[test]
fn without_checks_an_ejected_backend_is_tried_again_later() {
    let mut unchecked = config();
    unchecked.checked = false;
    let (mut pool, now) = pool(unchecked, &[A]);
    let pick = pool.pick(&[]).unwrap();
    pool.handle(now, Event::ConnectFailed(pick.id));
    assert!(!pool.is_serving());
    let due = pool.wake_at().unwrap();
    pool.handle(due, Event::Timer);
    assert!(pool.is_serving());
}

#[test]
fn a_full_backend_is_passed_over() {
    let mut limited = config();
    limited.limit = Some(1);
    let (mut pool, now) = pool(limited, &[A, B]);
    let first = pool.pick(&[]).unwrap();
    assert!(pool.pick(&[]).is_some());
    assert_eq!(pool.pick(&[]), None);
    pool.handle(now, Event::Closed(first.id));
    assert_eq!(pool.pick(&[]).unwrap().id, first.id);
}

proptest! {
    /// Whatever happens: only backends that are up are picked, counts add up, and ids stay unique.
    #[test]
    fn any_history_keeps_the_books(steps in proptest::collection::vec((0_u8..9, 0_usize..4), 0..300)) {
        let all = [A, B, C, "[2001:db8::1]:6443"];
        let mut now = start();
        let mut pool = Pool::new(config());
        let mut open: Vec<Id> = Vec::new();
        for (what, which) in steps {
            now += Duration::from_millis(100);
            match what {
                0 => drop(pool.handle(now, members(&all[..which]))),
                1 => drop(pool.handle(now, members(&all[which..]))),
                2 | 3 => drop(pool.handle(now, well(all[which]))),
                4 => drop(pool.handle(now, looked(all[which], Outcome::Dead))),
                5 => drop(pool.handle(now, looked(all[which], Outcome::Unready))),
                6 => {
                    if let Some(pick) = pool.pick(&[]) {
                        let view = pool.view();
                        prop_assert!(view.iter().any(|view| view.address == pick.address && view.health == Health::Up));
                        open.push(pick.id);
                    }
                }
                7 => {
                    if let Some(id) = open.pop() {
                        pool.handle(now, Event::Closed(id));
                    }
                }
                _ => drop(pool.handle(now, Event::Timer)),
            }
            let counted: u32 = pool.view().iter().map(|view| view.connections).sum();
            prop_assert_eq!(counted as usize, open.len());
        }
    }
}

#[test]
fn when_checks_are_given_up_what_they_found_is_forgotten() {
    let (mut pool, now) = pool(config(), &[A, B]);
    for _ in 0..2 {
        pool.handle(now, looked(A, Outcome::Dead));
    }
    assert_eq!(health(&pool, A), Health::Down);
    let unchecked = Config {
        checked: false,
        ..config()
    };
    pool.reconfigure(now, unchecked);
    assert_eq!(health(&pool, A), Health::Up);
    for _ in 0..2 {
        pool.handle(now, looked(A, Outcome::Dead));
    }
    assert_eq!(health(&pool, A), Health::Up, "a late look changes nothing");
}

#[test]
fn a_backend_on_probation_is_out_again_after_one_failure() {
    let patient = Config {
        checked: false,
        connect_fall: 3,
        ..config()
    };
    let (mut pool, now) = pool(patient, &[A]);
    let id = pool.pick(&[]).unwrap().id;
    for _ in 0..3 {
        pool.handle(now, Event::ConnectFailed(id));
    }
    assert_eq!(health(&pool, A), Health::Down);
    let later = now + Duration::from_secs(1);
    pool.handle(later, Event::Timer);
    assert_eq!(health(&pool, A), Health::Up);
    pool.handle(later, Event::ConnectFailed(id));
    assert_eq!(health(&pool, A), Health::Down);
}
