use std::collections::BTreeSet;

use crate::node::{
    EVENTS, Event, Heartbeat, Kind, State, Timers, VERBS, Verb, allowed, diagram, on_event, on_verb,
};

#[test]
fn every_state_and_verb_reads_back_as_it_is_written() {
    for state in State::ALL {
        assert_eq!(state.to_string().parse(), Ok(state));
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(json, format!("\"{state}\""));
        assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
    }
    for verb in Verb::ALL {
        assert_eq!(verb.to_string().parse(), Ok(verb));
    }
    assert_eq!(
        "Active".parse::<State>().unwrap_err().to_string(),
        "\"Active\" is not a provision state"
    );
    assert!("explode".parse::<Verb>().is_err());
}

#[test]
fn a_pair_stands_once_in_the_table_and_verbs_in_their_older_spelling() {
    let verbs: BTreeSet<_> = VERBS.iter().map(|(from, verb, _)| (from, verb)).collect();
    assert_eq!(verbs.len(), VERBS.len());
    let events: BTreeSet<_> = EVENTS
        .iter()
        .map(|(from, event, _)| (from, event))
        .collect();
    assert_eq!(events.len(), EVENTS.len());
    assert!(VERBS.iter().all(|(_, verb, _)| verb.canonical() == *verb));
}

#[test]
fn every_pair_outside_the_table_is_refused_with_the_verbs_that_are_possible() {
    for state in State::ALL {
        for verb in Verb::ALL {
            let row = VERBS
                .iter()
                .find(|(from, on, _)| *from == state && *on == verb.canonical());
            match (on_verb(state, verb), row) {
                (Ok(to), Some((_, _, expected))) => assert_eq!(to, *expected),
                (Err(refused), None) => {
                    assert_eq!(refused.allowed, allowed(state));
                    let text = refused.to_string();
                    assert!(text.contains(&format!("{:?}", state.as_str())), "{text}");
                    assert!(
                        refused
                            .allowed
                            .iter()
                            .all(|verb| text.contains(verb.as_str())),
                        "{text}"
                    );
                }
                (got, row) => panic!("{state} {verb}: {got:?} but the table says {row:?}"),
            }
        }
        for event in Event::ALL {
            let row = EVENTS
                .iter()
                .find(|(from, on, _)| *from == state && *on == event)
                .map(|(_, _, to)| *to);
            assert_eq!(on_event(state, event), row);
        }
    }
}

#[test]
fn the_later_spellings_do_the_same() {
    for state in State::ALL {
        assert_eq!(
            on_verb(state, Verb::Deploy).ok(),
            on_verb(state, Verb::Active).ok()
        );
        assert_eq!(
            on_verb(state, Verb::Undeploy).ok(),
            on_verb(state, Verb::Deleted).ok()
        );
    }
}

#[test]
fn a_client_cannot_end_a_cleaning_or_a_tear_down() {
    assert!(on_verb(State::Cleaning, Verb::Manage).is_err());
    assert!(on_verb(State::Deleting, Verb::Clean).is_err());
    let refused = on_verb(State::Cleaning, Verb::Manage)
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "the verb \"manage\" is not possible in state \"cleaning\"; possible there: none until it leaves this state by itself"
    );
}

fn reachable(from: State) -> BTreeSet<State> {
    let mut seen = BTreeSet::from([from]);
    loop {
        let steps = VERBS
            .iter()
            .map(|(a, _, b)| (a, b))
            .chain(EVENTS.iter().map(|(a, _, b)| (a, b)));
        let more: BTreeSet<State> = steps
            .filter(|(a, _)| seen.contains(a))
            .map(|(_, b)| *b)
            .collect();
        let before = seen.len();
        seen.extend(more);
        if seen.len() == before {
            return seen;
        }
    }
}

#[test]
fn every_state_is_reached_from_enroll_and_none_is_a_dead_end() {
    assert_eq!(reachable(State::Enroll), State::ALL.into_iter().collect());
    for state in State::ALL {
        let onward = reachable(state);
        for goal in [State::Manageable, State::Available, State::Active] {
            assert!(onward.contains(&goal), "{state} cannot come to {goal}");
        }
        match state.kind() {
            Kind::Stable | Kind::Failed | Kind::Held => {
                assert!(!allowed(state).is_empty(), "{state} has no verb");
            }
            Kind::Waiting => assert!(
                allowed(state).contains(&Verb::Abort),
                "{state} cannot be aborted"
            ),
            Kind::Working => {}
        }
        if matches!(state.kind(), Kind::Working | Kind::Waiting) {
            assert!(
                on_event(state, Event::Fail).is_some(),
                "{state} cannot fail"
            );
        }
    }
}

#[test]
fn versions_of_verbs_depend_on_the_state_where_they_were_widened() {
    assert_eq!(Verb::Abort.since(State::CleanWait), 13);
    assert_eq!(Verb::Abort.since(State::InspectWait), 41);
    assert_eq!(Verb::Abort.since(State::WaitCallBack), 110);
    assert_eq!(Verb::Active.since(State::Available), 1);
    assert_eq!(Verb::Undeploy.since(State::Active), 73);
}

#[test]
fn agents_are_let_in_where_one_is_expected() {
    let strict: Vec<State> = State::ALL
        .into_iter()
        .filter(|state| state.lookup(false))
        .collect();
    assert!(strict.iter().all(|state| state.lookup(true)));
    assert!(
        !State::Active.lookup(true)
            && !State::Manageable.lookup(false)
            && State::Manageable.lookup(true)
    );
    for state in State::ALL {
        if state.lookup(true) {
            assert_ne!(state.heartbeat(), Heartbeat::Refused, "{state}");
        }
    }
}

#[test]
fn limits_read_as_seconds_and_unknown_ones_are_refused() {
    let timers: Timers =
        serde_json::from_str(r#"{"deploy_callback": 4800, "step_poll": 0.5}"#).unwrap();
    assert_eq!(timers.callback(State::WaitCallBack).as_secs(), 4800);
    assert_eq!(timers.step_poll.as_millis(), 500);
    assert_eq!(timers.callback(State::CleanWait).as_secs(), 1800);
    assert!(serde_json::from_str::<Timers>(r#"{"deploy_timeout": 1}"#).is_err());
    assert!(serde_json::from_str::<Timers>(r#"{"step": -1}"#).is_err());
}

#[test]
fn pauses_double_up_to_a_minute() {
    let timers = Timers::default();
    let pauses: Vec<u64> = (1..7).map(|tried| timers.pause(tried).as_secs()).collect();
    assert_eq!(pauses, [5, 10, 20, 40, 60, 60]);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the page in the repository is compared with the table, or blessed"
)]
fn the_page_in_the_repository_is_the_table() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/states/node.md");
    if std::env::var("BLESS").is_ok() {
        std::fs::write(&path, diagram::page()).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == diagram::page(),
        "docs/states/node.md is not what the table says: run with BLESS=1"
    );
    assert!(diagram::dot().contains("\"wait call-back\" -> \"deploying\" [label=\"resume\"];"));
}
