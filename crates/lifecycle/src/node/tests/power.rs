use super::world::{World, direct};
use crate::node::{
    Fault, Power, PowerPolicy, PowerSeen, PowerStep, Settings, State, Timers, Verb, View,
    power_step, power_watch,
};

fn manageable() -> View {
    let mut world = World::new(direct(), Settings::default());
    assert_eq!(world.ask(Verb::Manage).settle(), State::Manageable);
    world.view
}

fn seen(view: &View, seen: PowerSeen<'_>, failures: u32) -> PowerStep {
    power_step(view, seen, failures, PowerPolicy::default())
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
        power_step(&view, PowerSeen::Power(Some(Power::On)), 0, follow),
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
    let PowerStep::GiveUp { reason } = seen(&view, PowerSeen::Trouble("no route"), 2) else {
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
