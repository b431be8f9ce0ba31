use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn config() -> Config {
    Config {
        apis: 2,
        inspect: false,
        token: None,
        lookup_interval: SECOND,
        lookup_timeout: Duration::from_mins(10),
        seed: 7,
    }
}

fn node(token: Option<&str>) -> Node {
    Node {
        uuid: "n1".into(),
        heartbeat_timeout: Duration::from_mins(5),
        token: token.map(|token| Secret::new(token.to_owned())),
        token_required: true,
    }
}

fn beat() -> Action {
    Action::Beat {
        api: 0,
        node: "n1".into(),
    }
}

fn serving(now: Instant) -> Life {
    let mut life = Life::new(config());
    life.handle(now, Event::Start);
    let actions = life.handle(now, Event::LookedUp(Ok(node(Some("t")))));
    assert!(matches!(&actions[0], Action::Serve(a) if a.token == Some(Secret::new("t".into()))));
    assert_eq!(actions[1], beat());
    life
}

/// Lets time pass until the machine wants something.
fn wake(life: &mut Life, now: &mut Instant) -> Vec<Action> {
    let at = life.wake_at().expect("it waits for a time");
    assert!(at >= *now, "a wake-up in the past");
    *now = at;
    life.handle(at, Event::Timer)
}

#[test]
fn inspection_comes_first_and_names_the_node_to_look_up() {
    let now = Instant::now();
    let mut life = Life::new(Config {
        inspect: true,
        ..config()
    });
    assert_eq!(life.handle(now, Event::Start), [Action::Inspect]);
    let actions = life.handle(now, Event::Inspected(Ok(Some("n1".into()))));
    let node = Some("n1".to_owned());
    assert_eq!(actions, [Action::Lookup { api: 0, node }]);
}

#[test]
fn inspection_data_is_offered_five_times_and_a_refusal_is_final() {
    let mut now = Instant::now();
    let mut life = Life::new(Config {
        inspect: true,
        ..config()
    });
    life.handle(now, Event::Start);
    for _ in 0..4 {
        let down = Event::Inspected(Err(Failed::Unreachable("down".into())));
        assert!(matches!(life.handle(now, down)[..], [Action::Say(_)]));
        assert_eq!(wake(&mut life, &mut now), [Action::Inspect]);
    }
    let down = Event::Inspected(Err(Failed::Unreachable("down".into())));
    let last = life.handle(now, down);
    assert!(matches!(last[..], [Action::Say(_), Action::Lookup { .. }]));

    let mut life = Life::new(Config {
        inspect: true,
        ..config()
    });
    life.handle(now, Event::Start);
    let refused = Event::Inspected(Err(Failed::Refused("400".into())));
    let actions = life.handle(now, refused);
    assert!(matches!(
        actions[..],
        [Action::Say(_), Action::Lookup { .. }]
    ));
}

#[test]
fn an_api_that_does_not_answer_makes_room_for_the_next() {
    let mut now = Instant::now();
    let mut life = Life::new(config());
    life.handle(now, Event::Start);
    life.handle(
        now,
        Event::LookedUp(Err(Failed::Unreachable("down".into()))),
    );
    let again = wake(&mut life, &mut now);
    assert_eq!(again, [Action::Lookup { api: 1, node: None }]);
}

#[test]
fn lookups_go_on_for_ever_at_a_minute_at_most_and_complain_when_late() {
    let mut now = Instant::now();
    let started = now;
    let mut life = Life::new(config());
    life.handle(now, Event::Start);
    let mut said = 0;
    for _ in 0..60 {
        let before = now;
        let not_found = Event::LookedUp(Err(Failed::NotFound("no node".into())));
        said += life.handle(now, not_found).len();
        wake(&mut life, &mut now);
        assert!(now - before <= LOOKUP_LONGEST, "{:?}", now - before);
    }
    assert!(now - started > Duration::from_mins(20));
    assert!(said > 20, "silent after the timeout: {said}");
}

#[test]
fn a_token_handed_out_before_is_said_and_waited_out() {
    let mut now = Instant::now();
    let mut life = Life::new(config());
    life.handle(now, Event::Start);
    let actions = life.handle(now, Event::LookedUp(Ok(node(Some(MASKED)))));
    assert!(matches!(&actions[..], [Action::Say(text)] if text.contains("handed out before")));
    assert!(matches!(
        wake(&mut life, &mut now)[..],
        [Action::Lookup { .. }]
    ));
}

#[test]
fn a_token_from_the_kernel_line_serves_when_ironic_shows_stars() {
    let now = Instant::now();
    let token = Some(Secret::new("mine".to_owned()));
    let mut life = Life::new(Config {
        token: token.clone(),
        ..config()
    });
    life.handle(now, Event::Start);
    let actions = life.handle(now, Event::LookedUp(Ok(node(Some(MASKED)))));
    assert!(matches!(&actions[0], Action::Serve(a) if a.token == token));
}

#[test]
fn a_heartbeat_that_leads_to_nothing_is_repeated_soon() {
    let mut now = Instant::now();
    let mut life = serving(now);
    for pause in UNHEARD {
        let before = now;
        life.handle(now, Event::Beaten(Ok(())));
        assert_eq!(wake(&mut life, &mut now), [beat()]);
        assert_eq!(now - before, pause);
    }
    let before = now;
    life.handle(now, Event::Beaten(Ok(())));
    wake(&mut life, &mut now);
    assert!((90..=180).contains(&(now - before).as_secs()));
}

#[test]
fn once_ironic_spoke_heartbeats_come_at_their_usual_pace() {
    let mut now = Instant::now();
    let mut life = serving(now);
    life.handle(now, Event::Beaten(Ok(())));
    life.handle(now, Event::Heard);
    let before = now;
    assert_eq!(wake(&mut life, &mut now), [beat()]);
    assert!((90..=180).contains(&(now - before).as_secs()));
}

#[test]
fn a_finished_command_is_told_at_once_even_while_a_heartbeat_is_under_way() {
    let now = Instant::now();
    let mut life = serving(now);
    assert_eq!(life.handle(now, Event::Finished), []);
    assert_eq!(life.handle(now, Event::Beaten(Ok(()))), [beat()]);
    life.handle(now, Event::Beaten(Ok(())));
    assert_eq!(life.handle(now, Event::Finished), [beat()]);
}

#[test]
fn a_failed_heartbeat_is_tried_again_within_ten_seconds_and_said_once() {
    let mut now = Instant::now();
    let mut life = serving(now);
    let mut said = 0;
    for _ in 0..4 {
        let before = now;
        said += life
            .handle(now, Event::Beaten(Err(Failed::Refused("400".into()))))
            .len();
        wake(&mut life, &mut now);
        assert!((5..=10).contains(&(now - before).as_secs()));
    }
    assert_eq!(said, 1);
    let back = life.handle(now, Event::Beaten(Ok(())));
    assert_eq!(back, [Action::Say("heartbeats are taken again".into())]);
}

#[test]
fn an_agent_whose_node_is_gone_looks_itself_up_again() {
    let mut now = Instant::now();
    let mut life = serving(now);
    let gone = || Event::Beaten(Err(Failed::NotFound("404".into())));
    life.handle(now, gone());
    wake(&mut life, &mut now);
    life.handle(now, gone());
    wake(&mut life, &mut now);
    let last = life.handle(now, gone());
    assert!(matches!(
        last[..],
        [Action::Say(_), Action::Stop, Action::Lookup { .. }]
    ));
}

fn event() -> impl Strategy<Value = u8> {
    0..12_u8
}

proptest! {
    #[test]
    fn whatever_happens_it_waits_for_an_answer_or_a_time(events in proptest::collection::vec(event(), 1..80)) {
        let mut now = Instant::now();
        let mut life = Life::new(Config { inspect: true, ..config() });
        let mut asked = life.handle(now, Event::Start).len();
        for code in events {
            now += Duration::from_millis(u64::from(code) * 700);
            let failed = || Failed::Unreachable("x".into());
            let event = match code {
                0 => Event::Inspected(Ok(None)),
                1 => Event::Inspected(Err(failed())),
                2 => Event::LookedUp(Ok(node(Some("t")))),
                3 => Event::LookedUp(Err(Failed::Locked("x".into()))),
                4 => Event::LookedUp(Err(failed())),
                5 => Event::Beaten(Ok(())),
                6 => Event::Beaten(Err(Failed::NotFound("x".into()))),
                7 => Event::Finished,
                8 => Event::Heard,
                _ => Event::Timer,
            };
            let actions = life.handle(now, event);
            asked = actions.iter().filter(|a| matches!(a, Action::Inspect | Action::Lookup { .. } | Action::Beat { .. })).count();
            prop_assert!(asked <= 1);
            if let Some(at) = life.wake_at() {
                prop_assert!(at <= now + Duration::from_mins(10));
                prop_assert_eq!(asked, 0);
            }
        }
        let _ = asked;
    }
}
