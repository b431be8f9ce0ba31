//! Random lives: verbs, failures and restarts in any order. Whatever happens, the node settles somewhere it can be
//! led out of.

use std::time::Duration;

use proptest::prelude::*;

use super::world::{World, asked, direct, drivers, fake};
use crate::node::{
    BootBy, DeployBy, Drivers, InspectBy, Interface, Kind, Request, Settings, State, Step, Verb,
    Work, allowed, next,
};

#[derive(Debug, Clone)]
enum Happens {
    Ask(usize),
    /// Go on for so many steps.
    Run(u8),
    /// Work was done, but the service died before it was written down.
    Die,
    /// The service was away, for so long.
    Away(u16),
    Break(&'static str, u32, bool),
    Maintenance(bool),
    AgentCalls(bool),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (0usize..16).prop_map(Happens::Ask),
        4 => (1u8..12).prop_map(Happens::Run),
        2 => Just(Happens::Die),
        1 => (0u16..4000).prop_map(Happens::Away),
        1 => (prop_oneof![Just("power"), Just("step"), Just("boot"), Just("settings")], 1u32..4, any::<bool>())
            .prop_map(|(what, times, again)| Happens::Break(what, times, again)),
        1 => any::<bool>().prop_map(Happens::Maintenance),
        1 => any::<bool>().prop_map(Happens::AgentCalls),
    ]
}

fn any_drivers() -> impl Strategy<Value = Drivers> {
    prop_oneof![
        Just(direct()),
        Just(fake()),
        Just(drivers(
            DeployBy::CustomAgent,
            InspectBy::OutOfBand,
            BootBy::Pxe
        )),
        Just(drivers(
            DeployBy::Ramdisk,
            InspectBy::Agent,
            BootBy::UefiHttp
        )),
        Just(drivers(DeployBy::Direct, InspectBy::Agent, BootBy::Fake)),
    ]
}

fn any_settings() -> impl Strategy<Value = Settings> {
    any::<[bool; 4]>().prop_map(|[automated_clean, disable_power_off, fast_track, kexec]| {
        Settings {
            automated_clean,
            retired: false,
            disable_power_off,
            fast_track,
            kexec,
        }
    })
}

fn apply(world: &mut World, event: &Happens) {
    match event {
        Happens::Ask(index) => {
            let verbs = allowed(world.view.state);
            let Some(verb) = verbs.get(index % verbs.len().max(1)) else {
                return;
            };
            let steps = vec![
                asked(Interface::Deploy, "erase_devices"),
                asked(Interface::Raid, "create_configuration"),
            ];
            let request = Request {
                steps: if *verb == Verb::Active {
                    Vec::new()
                } else {
                    steps
                },
                disable_ramdisk: false,
            };
            world.ask_with(*verb, request);
        }
        Happens::Run(steps) => {
            for _ in 0..*steps {
                world.once();
            }
        }
        Happens::Die => {
            if let Step::Do(work) = next(&world.view, &world.timers, world.now) {
                world.view.starting(&work);
                world.perform(&work);
            }
            restart(world, Duration::from_secs(3));
        }
        Happens::Away(seconds) => restart(world, Duration::from_secs(u64::from(*seconds))),
        Happens::Break(what, times, again) => {
            world.breaks = Some(((*what).to_string(), *times, *again));
        }
        Happens::Maintenance(on) => world.view.maintenance = *on,
        Happens::AgentCalls(on) => world.agent_calls = *on,
    }
}

/// What is kept is read back, and the rest is forgotten.
fn restart(world: &mut World, away: Duration) {
    world.now += away;
    let kept = serde_json::to_string(&world.view).unwrap();
    world.view = serde_json::from_str(&kept).unwrap();
    world.view.restarted(&world.timers, world.now);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_happens_the_node_settles_and_can_be_led_to_available(
        drivers in any_drivers(),
        settings in any_settings(),
        life in prop::collection::vec(happens(), 0..40),
    ) {
        let mut world = World::new(drivers, settings);
        for event in &life {
            apply(&mut world, event);
        }
        world.breaks = None;
        let rest = world.settle();
        prop_assert!(matches!(rest.kind(), Kind::Stable | Kind::Failed | Kind::Held), "{rest}");
        prop_assert_eq!(world.view.target.is_none(), rest.kind() == Kind::Stable, "{}", rest);
        prop_assert!(rest.kind() != Kind::Failed || world.view.last_error.is_some(), "{} without a reason", rest);

        world.agent_calls = true;
        world.view.maintenance = false;
        for _ in 0..8 {
            let verb = match world.view.state {
                State::Available => break,
                State::Enroll | State::CleanFailed | State::InspectFailed | State::AdoptFailed => Verb::Manage,
                State::Manageable => Verb::Provide,
                State::CleanHold | State::DeployHold | State::ServiceHold => Verb::Abort,
                _ => Verb::Deleted,
            };
            world.ask(verb).settle();
        }
        prop_assert_eq!(world.view.state, State::Available, "{:?} {}", world.view.last_error, world.trail());
    }

    /// A restart between any two steps of a life without other trouble changes nothing about where it ends.
    #[test]
    fn a_restart_at_any_point_converges(drivers in any_drivers(), dies in prop::collection::btree_set(0usize..120, 0..30)) {
        let mut world = World::new(drivers, Settings::default());
        let mut count = 0;
        for (verb, end) in [
            (Verb::Manage, State::Manageable),
            (Verb::Inspect, State::Manageable),
            (Verb::Provide, State::Available),
            (Verb::Active, State::Active),
            (Verb::Deleted, State::Available),
        ] {
            world.ask(verb);
            for _ in 0..400 {
                count += 1;
                let own = matches!(next(&world.view, &world.timers, world.now), Step::Do(Work::RunStep(_)));
                if dies.contains(&count) && !own {
                    apply(&mut world, &Happens::Die);
                } else if !world.once() {
                    break;
                }
            }
            prop_assert_eq!(world.view.state, end, "{:?}", world.view.last_error);
        }
    }
}

#[test]
fn a_restart_during_a_step_on_hardware_is_a_reasoned_failure() {
    let mut world = World::new(direct(), Settings::default());
    world.ask(Verb::Manage).settle();
    let mut update = asked(Interface::Firmware, "update");
    update.requires_ramdisk = false;
    update.by = crate::node::Runner::Service;
    world.ask_with(
        Verb::Clean,
        Request {
            steps: vec![update],
            disable_ramdisk: false,
        },
    );
    apply(&mut world, &Happens::Die);
    assert_eq!(world.settle(), State::CleanFailed);
    assert_eq!(
        world.view.last_error.as_deref(),
        Some("the service restarted during step firmware.update, which may not be done twice")
    );
}

#[test]
fn a_waiting_node_is_left_time_to_call_after_a_long_outage() {
    let mut world = World::new(direct(), Settings::default());
    world.ask(Verb::Manage).settle();
    world.ask(Verb::Inspect);
    while world.view.state != State::InspectWait {
        world.once();
    }
    apply(&mut world, &Happens::Away(u16::MAX));
    let Step::Wait { until, .. } = next(&world.view, &world.timers, world.now) else {
        panic!()
    };
    assert_eq!(until, world.now + Duration::from_mins(10));
    assert_eq!(world.settle(), State::Manageable);
}
