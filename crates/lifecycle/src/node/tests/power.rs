use super::world::{World, direct};
use crate::node::{
    Fault, Power, PowerPolicy, PowerSeen, PowerStep, PowerTries, Settings, State, Timers, Verb,
    View, power_step, power_watch,
};

fn manageable() -> View {
    let mut world = World::new(direct(), Settings::default());
    assert_eq!(world.ask(Verb::Manage).settle(), State::Manageable);
    world.view
}

fn seen(view: &View, seen: PowerSeen<'_>, failures: u32) -> PowerStep {
    let tries = PowerTries {
        failures,
        drives: 0,
    };
    power_step(view, seen, tries, PowerPolicy::default())
}

#[test]
fn nodes_are_watched_while_nothing_else_goes_on_with_them() {
    let timers = Timers::default();
    let mut view = manageable();
    assert_eq!(power_watch(&view, false, &timers), Some(timers.power_sync));
    assert_eq!(power_watch(&view, true, &timers), None);
    for state in [
        State::Enroll,
        State::Cleaning,
        State::CleanWait,
        State::WaitCallBack,
        State::AdoptFailed,
        State::DeployHold,
    ] {
        view.state = state;
        assert_eq!(power_watch(&view, false, &timers), None, "{state}");
    }
    view.state = State::Active;
    view.maintenance = true;
    assert_eq!(power_watch(&view, false, &timers), None, "by hand");
    view.fault = Some(Fault::Power);
    assert_eq!(
        power_watch(&view, false, &timers),
        Some(timers.power_recovery)
    );
}

#[test]
fn a_difference_is_put_right_or_recorded() {
    let mut view = manageable();
    assert_eq!(view.power, Some(Power::Off));
    assert_eq!(
        seen(&view, PowerSeen::Power(Some(Power::Off)), 0),
        PowerStep::Agrees
    );
    assert_eq!(seen(&view, PowerSeen::Power(None), 0), PowerStep::Agrees);
    assert_eq!(
        seen(&view, PowerSeen::Power(Some(Power::On)), 0),
        PowerStep::Drive(Power::Off)
    );
    let follow = PowerPolicy {
        force: false,
        ..PowerPolicy::default()
    };
    assert_eq!(
        power_step(
            &view,
            PowerSeen::Power(Some(Power::On)),
            PowerTries::default(),
            follow
        ),
        PowerStep::Record(Power::On)
    );
    view.state = State::CleanFailed;
    assert_eq!(
        seen(&view, PowerSeen::Power(Some(Power::On)), 0),
        PowerStep::Record(Power::On)
    );
    view.power = None;
    assert_eq!(
        seen(&view, PowerSeen::Power(Some(Power::On)), 0),
        PowerStep::Record(Power::On)
    );
}

#[test]
fn a_bmc_that_fails_three_times_puts_its_node_aside_until_it_is_back() {
    let mut view = manageable();
    assert_eq!(
        seen(&view, PowerSeen::Trouble("no route"), 0),
        PowerStep::Count
    );
    assert_eq!(
        seen(&view, PowerSeen::Trouble("no route"), 1),
        PowerStep::Count
    );
    let PowerStep::GiveUp { reason, .. } = seen(&view, PowerSeen::Trouble("no route"), 2) else {
        panic!()
    };
    assert!(
        reason.contains("3 times") && reason.ends_with("no route"),
        "{reason}"
    );
    view.maintenance = true;
    view.fault = Some(Fault::Power);
    assert_eq!(
        seen(&view, PowerSeen::Trouble("no route"), 9),
        PowerStep::Count
    );
    assert_eq!(
        seen(&view, PowerSeen::Power(Some(Power::On)), 9),
        PowerStep::Recovered(Some(Power::On))
    );
}

#[test]
fn a_server_that_does_not_obey_is_told_three_times_and_then_put_aside_with_the_reason() {
    let mut view = manageable();
    let policy = PowerPolicy::default();
    let on = PowerSeen::Power(Some(Power::On));
    let mut tries = PowerTries::default();
    for told in 1..=3 {
        let step = power_step(&view, on, tries, policy);
        assert_eq!(step, PowerStep::Drive(Power::Off), "{told}");
        tries = tries.after(&step);
        assert_eq!(tries.drives, told);
    }
    let step = power_step(&view, on, tries, policy);
    let PowerStep::GiveUp { power, reason } = &step else {
        panic!("{step:?}")
    };
    assert_eq!(*power, Some(Power::On), "the record follows the BMC");
    assert!(reason.contains("told so 3 times"), "{reason}");
    assert_eq!(tries.after(&step), PowerTries::default());
    // Once its maintenance is over there is nothing left to put right.
    view.power = *power;
    assert_eq!(
        power_step(&view, on, PowerTries::default(), policy),
        PowerStep::Agrees
    );
}

#[test]
fn a_server_that_obeys_in_the_end_is_told_anew_the_next_time() {
    let view = manageable();
    let tries = PowerTries {
        failures: 1,
        drives: 2,
    };
    let agrees = seen(&view, PowerSeen::Power(Some(Power::Off)), 0);
    assert_eq!(tries.after(&agrees), PowerTries::default());
    // A look that fails is no answer to what was told.
    let after = tries.after(&PowerStep::Count);
    assert_eq!((after.failures, after.drives), (2, 2));
}
