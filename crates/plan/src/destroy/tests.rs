use std::time::Duration;

use super::*;
use crate::install_config::{Facts, parse};

const PXE: &str = include_str!("../../../../examples/pxe.yaml");

fn plan() -> Plan {
    let resolved = parse(PXE, &Facts::default()).unwrap();
    Plan::new(&resolved.config, None)
}

fn names() -> Vec<String> {
    plan().hosts.iter().map(|host| host.name.clone()).collect()
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn node(state: &str, off: bool) -> Node {
    let life = IronicNode {
        state: state.into(),
        ..IronicNode::default()
    };
    Node { life, off }
}

fn failed(state: &str, why: &str) -> Node {
    let mut node = node(state, false);
    node.life.last_error = Some(why.into());
    node
}

/// Images are there, and no VM.
fn begun(vm: Vm) -> Seen {
    Seen {
        images: true,
        vm,
        ironic: Reach::Silent("no answer".into()),
        trouble: None,
    }
}

/// The VM that cleans runs; all hosts are as this one, but those that are given.
fn cleaning(most: &Node, others: &[(usize, Node)]) -> Seen {
    let mut nodes: BTreeMap<_, _> = names()
        .into_iter()
        .map(|name| (name, most.clone()))
        .collect();
    for (index, other) in others {
        nodes.insert(names()[*index].clone(), other.clone());
    }
    Seen {
        ironic: Reach::Answers(nodes),
        ..begun(Vm::Cleaner)
    }
}

fn all_off(vm: &Vm) -> Run {
    let mut run = Run::default();
    run.looked(vm);
    for name in names() {
        run.switched_off(&name, Ok(()));
    }
    run
}

fn ask(seen: &Seen, run: &Run) -> Next {
    next(&plan(), seen, run, now())
}

fn asks(verb: Verb, again: bool) -> Action {
    Action::Ask {
        host: names()[0].clone(),
        verb,
        again,
    }
}

fn wipes(action: &Action) -> bool {
    match action {
        Action::Ask {
            verb: Verb::Provide | Verb::Undeploy,
            ..
        } => true,
        Action::Ask {
            verb: Verb::Manage, ..
        }
        | Action::FetchImages
        | Action::SwitchOff(_)
        | Action::StartVm
        | Action::EndVm
        | Action::Enrol(_) => false,
    }
}

#[test]
fn each_step_begins_where_the_last_is_seen_to_have_ended() {
    let no_images = |vm| Seen {
        images: false,
        ..begun(vm)
    };
    let stopped = || Vm::Stopped {
        why: "killed".into(),
    };
    let table = [
        (
            no_images(Vm::Absent),
            Run::default(),
            Step::Images,
            vec![Action::FetchImages],
        ),
        (
            no_images(Vm::Other),
            Run::default(),
            Step::Images,
            vec![Action::FetchImages],
        ),
        (
            begun(Vm::Other),
            Run::default(),
            Step::PowerOff,
            vec![Action::EndVm],
        ),
        (
            begun(Vm::Absent),
            Run::default(),
            Step::PowerOff,
            vec![Action::SwitchOff(names())],
        ),
        (
            begun(stopped()),
            Run::default(),
            Step::PowerOff,
            vec![Action::SwitchOff(names())],
        ),
        (
            begun(Vm::Absent),
            all_off(&Vm::Absent),
            Step::BootstrapVm,
            vec![Action::StartVm],
        ),
        (
            begun(stopped()),
            all_off(&stopped()),
            Step::BootstrapVm,
            vec![Action::StartVm],
        ),
        (
            no_images(Vm::Cleaner),
            Run::default(),
            Step::BootstrapServices,
            vec![],
        ),
        (
            cleaning(&node("available", true), &[]),
            Run::default(),
            Step::BootstrapDestroy,
            vec![Action::EndVm],
        ),
    ];
    for (seen, run, step, actions) in table {
        let next = ask(&seen, &run);
        assert_eq!((next.step, &next.actions), (step, &actions), "{seen:#?}");
        assert!(next.stuck.is_none(), "{next:#?}");
        assert!(
            !(next.actions.is_empty() && next.waits.is_empty()),
            "silence in {step}"
        );
    }
}

#[test]
fn a_host_is_led_from_nothing_to_cleaned_and_off() {
    let run = all_off(&Vm::Cleaner);
    let enrol = Action::Enrol(names()[0].clone());
    let mut unknown = cleaning(&node("available", true), &[]);
    if let Reach::Answers(nodes) = &mut unknown.ironic {
        nodes.remove(&names()[0]);
    }
    assert_eq!(ask(&unknown, &run).actions, [enrol]);
    for (state, action) in [
        ("enroll", Some(asks(Verb::Manage, false))),
        ("verifying", None),
        ("manageable", Some(asks(Verb::Provide, false))),
        ("inspect failed", Some(asks(Verb::Manage, false))),
        ("cleaning", None),
        ("clean wait", None),
        ("clean failed", Some(asks(Verb::Manage, true))),
        ("active", Some(asks(Verb::Undeploy, false))),
        ("deploy failed", Some(asks(Verb::Undeploy, false))),
        ("wait call-back", Some(asks(Verb::Undeploy, false))),
        ("rescue", Some(asks(Verb::Undeploy, false))),
        ("error", Some(asks(Verb::Undeploy, true))),
        ("deleting", None),
        ("available", None),
    ] {
        let seen = cleaning(&node("available", true), &[(0, node(state, false))]);
        let next = ask(&seen, &run);
        assert_eq!(next.step, Step::Clean, "{state}");
        assert_eq!(next.actions, Vec::from_iter(action), "{state}");
        assert_eq!(
            next.waits.is_empty(),
            !next.actions.is_empty(),
            "{state}: {next:#?}"
        );
    }
}

#[test]
fn nothing_is_cleaned_before_all_others_were_seen_off() {
    let states = [
        "enroll",
        "verifying",
        "manageable",
        "active",
        "deploy failed",
        "error",
    ];
    for state in states {
        let seen = cleaning(&node(state, false), &[(1, node("clean wait", false))]);
        let mut run = Run::default();
        run.looked(&Vm::Cleaner);
        let next = ask(&seen, &run);
        let mut others = names();
        others.remove(1);
        assert_eq!(next.actions, [Action::SwitchOff(others.clone())], "{state}");
        // All but one.
        for name in &others[1..] {
            run.switched_off(name, Ok(()));
        }
        let next = ask(&seen, &run);
        assert_eq!(
            next.actions,
            [Action::SwitchOff(vec![others[0].clone()])],
            "{state}"
        );
    }
}

#[test]
fn a_host_that_stays_on_ends_it_with_the_names_of_all_of_them() {
    for (seen, touched) in [
        (begun(Vm::Absent), false),
        (cleaning(&node("manageable", false), &[]), true),
    ] {
        let mut run = all_off(&seen.vm);
        let (first, second) = (&names()[1], &names()[3]);
        for _ in 0..TRIES {
            run.switched_off(first, Err("no route to the BMC".into()));
        }
        run.switched_off(second, Err("401".into()));
        let next = ask(&seen, &run);
        assert_eq!(next.actions, [Action::SwitchOff(vec![second.clone()])]);
        for _ in 1..TRIES {
            run.switched_off(second, Err("401".into()));
        }
        let next = ask(&seen, &run);
        assert!(next.actions.is_empty(), "{next:#?}");
        let stuck = next.stuck.unwrap();
        let subjects: Vec<_> = stuck
            .failures
            .iter()
            .map(|failure| &failure.subject)
            .collect();
        assert_eq!(subjects, [first, second]);
        let words = stuck.to_string();
        assert!(
            words.contains("no route") && words.contains("401"),
            "{words}"
        );
        assert_eq!(words.contains("no disk was touched"), !touched, "{words}");
        // A person has seen to one of them.
        run.switched_off(first, Ok(()));
        assert_eq!(ask(&seen, &run).stuck.unwrap().failures.len(), 1);
    }
}

#[test]
fn what_was_seen_off_is_looked_at_again_once_the_vm_has_changed() {
    let mut run = all_off(&Vm::Absent);
    run.looked(&Vm::Absent);
    assert_eq!(run.power(&names()[0]), Power::Off);
    run.looked(&Vm::Cleaner);
    assert_eq!(run.power(&names()[0]), Power::Unknown);
}

#[test]
fn a_failed_cleaning_is_tried_again_and_then_named_when_the_others_have_ended() {
    let (done, broken) = (
        node("available", true),
        failed("clean failed", "sda is on fire"),
    );
    let mut run = all_off(&Vm::Cleaner);
    let alone = cleaning(&done, &[(0, broken.clone())]);
    for _ in 1..TRIES {
        assert_eq!(ask(&alone, &run).actions, [asks(Verb::Manage, true)]);
        run.asked_again(&names()[0]);
    }
    let with_others = cleaning(&node("clean wait", false), &[(0, broken.clone())]);
    let next = ask(&with_others, &run);
    assert!(next.stuck.is_none() && next.actions.is_empty(), "{next:#?}");
    assert!(
        next.waits
            .iter()
            .any(|wait| wait.reason.contains("on fire")),
        "{next:#?}"
    );

    let mut locked_out = failed("enroll", "wrong password");
    locked_out.off = true;
    let two = cleaning(&done, &[(0, broken), (4, locked_out)]);
    for _ in 1..TRIES {
        run.asked_again(&names()[4]);
    }
    let stuck = ask(&two, &run).stuck.unwrap();
    assert_eq!(stuck.step, Step::Clean);
    let words = stuck.to_string();
    for part in [
        &*names()[0],
        "on fire",
        &names()[4],
        "wrong password",
        "install-config.yaml",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn a_bmc_that_is_silent_meanwhile_is_waited_for_and_a_failed_cleaning_is_not() {
    for (state, waited) in [("manageable", true), ("clean failed", false)] {
        let mut node = failed(state, "no answer");
        node.life.maintenance = Some("no answer".into());
        let seen = cleaning(&super::tests::node("available", true), &[(0, node)]);
        let next = ask(&seen, &all_off(&Vm::Cleaner));
        assert_eq!(!next.waits.is_empty(), waited, "{next:#?}");
        assert_eq!(next.actions.is_empty(), waited, "{next:#?}");
    }
}

#[test]
fn hosts_that_are_in_no_install_config_are_left_alone() {
    let mut seen = cleaning(&node("available", true), &[(0, node("manageable", true))]);
    if let Reach::Answers(nodes) = &mut seen.ironic {
        nodes.insert("stranger".into(), node("manageable", true));
    }
    let next = ask(&seen, &all_off(&Vm::Cleaner));
    assert_eq!(next.actions, [asks(Verb::Provide, false)]);
}

#[test]
fn a_vm_that_does_not_last_is_not_started_for_ever() {
    let vm = Vm::Stopped {
        why: "no memory".into(),
    };
    let mut run = all_off(&vm);
    for _ in 0..TRIES {
        assert_eq!(ask(&begun(vm.clone()), &run).actions, [Action::StartVm]);
        run.starts_vm();
    }
    let stuck = ask(&begun(vm), &run).stuck.unwrap();
    assert!(stuck.to_string().contains("no memory"), "{stuck}");
}

#[test]
fn every_step_has_its_time_and_all_that_were_waited_for_are_named() {
    let plan = plan();
    let seen = cleaning(&node("clean wait", false), &[]);
    let mut run = all_off(&Vm::Cleaner);
    run.enter(Step::Clean, now());
    let limit = Step::Clean.limit(&plan);
    let before = next(&plan, &seen, &run, now() + limit - Duration::from_secs(1));
    assert!(before.stuck.is_none());
    assert_eq!(before.waits[0].until, now() + limit);
    let stuck = next(&plan, &seen, &run, now() + limit).stuck.unwrap();
    assert_eq!(stuck.failures.len(), names().len(), "{stuck}");
}

#[test]
fn work_that_fails_is_seen_and_tried_again_until_its_step_has_had_its_time() {
    let plan = plan();
    let trouble = Trouble {
        subject: "images".into(),
        what: "no mirror".into(),
    };
    let seen = Seen {
        images: false,
        trouble: Some(trouble),
        ..begun(Vm::Absent)
    };
    let mut run = Run::default();
    run.enter(Step::Images, now());
    let first = next(&plan, &seen, &run, now());
    assert_eq!(first.actions, [Action::FetchImages]);
    assert!(first.waits[0].reason.contains("no mirror"), "{first:#?}");
    let late = now() + Step::Images.limit(&plan);
    let stuck = next(&plan, &seen, &run, late).stuck.unwrap();
    assert!(stuck.to_string().contains("no mirror"), "{stuck}");
}

#[test]
fn a_step_that_is_come_back_to_has_all_its_time_and_cleaning_has_its_time_once() {
    let plan = plan();
    let mut run = Run::default();
    for step in Step::ALL {
        run.enter(step, now());
    }
    assert_eq!(run.began(Step::PowerOff), None);
    run.enter(Step::PowerOff, now() + Duration::from_hours(1));
    assert_eq!(
        run.began(Step::PowerOff),
        Some(now() + Duration::from_hours(1))
    );
    assert_eq!(run.steps().len(), 2);

    run.enter(Step::Clean, now());
    let late = now() + Step::Clean.limit(&plan);
    let next = next(&plan, &begun(Vm::Cleaner), &run, late);
    assert_eq!(next.step, Step::Clean, "its Ironic was there before");
    assert!(next.stuck.is_some());
}

#[test]
fn exit_codes_differ() {
    let codes: std::collections::BTreeSet<_> = Step::ALL.map(Step::exit_code).into();
    assert_eq!(codes.len(), Step::ALL.len());
}

/// A rack, as far as this command sees and changes it.
struct World {
    images: bool,
    vm: Vm,
    nodes: BTreeMap<String, Node>,
    on: BTreeMap<String, bool>,
    wiped: BTreeMap<String, bool>,
}

impl World {
    /// A cluster that runs, and perhaps its bootstrap.
    fn new(vm: Vm) -> Self {
        let all = |value: bool| names().into_iter().map(|name| (name, value)).collect();
        Self {
            images: false,
            vm,
            nodes: BTreeMap::new(),
            on: all(true),
            wiped: all(false),
        }
    }

    fn seen(&self) -> Seen {
        let ironic = match self.vm {
            Vm::Cleaner => Reach::Answers(self.nodes.clone()),
            Vm::Absent | Vm::Other | Vm::Stopped { .. } => Reach::Silent("no VM".into()),
        };
        Seen {
            images: self.images,
            vm: self.vm.clone(),
            ironic,
            trouble: None,
        }
    }

    /// What is never done while a host may be in use.
    fn checks(&self, action: &Action) {
        let in_use =
            |(name, on): (&String, &bool)| *on && !self.nodes.get(name).is_some_and(host::is_begun);
        if wipes(action) {
            assert!(
                !self.on.iter().any(in_use),
                "{action:?} while {:?}",
                self.on
            );
        }
    }

    fn act(&mut self, action: &Action, run: &mut Run) {
        self.checks(action);
        match action {
            Action::FetchImages => self.images = true,
            Action::SwitchOff(hosts) => {
                for host in hosts {
                    self.on.insert(host.clone(), false);
                    run.switched_off(host, Ok(()));
                }
            }
            Action::StartVm => {
                assert!(self.on.values().all(|on| !on));
                run.starts_vm();
                self.nodes.clear();
                self.vm = Vm::Cleaner;
            }
            Action::EndVm => self.vm = Vm::Absent,
            Action::Enrol(host) => _ = self.nodes.insert(host.clone(), node("enroll", true)),
            Action::Ask { host, verb, again } => {
                if *again {
                    run.asked_again(host);
                }
                let state = match verb {
                    Verb::Manage => "manageable",
                    Verb::Provide => "clean wait",
                    Verb::Undeploy => "deleting",
                };
                let off = state == "manageable";
                self.on.insert(host.clone(), !off);
                self.nodes.insert(host.clone(), node(state, off));
            }
        }
    }

    /// Ironic goes on by itself.
    fn time_passes(&mut self) {
        for (name, node) in &mut self.nodes {
            if matches!(&*node.life.state, "clean wait" | "deleting") {
                *node = super::tests::node("available", true);
                self.on.insert(name.clone(), false);
                self.wiped.insert(name.clone(), true);
            }
        }
    }
}

/// Runs until the end, or until it is killed after so many actions; whether it came to the end.
fn live(world: &mut World, killed_after: Option<usize>) -> bool {
    let (plan, mut run) = (plan(), Run::default());
    let mut done = 0;
    for round in 0.. {
        assert!(round < 100, "it does not end");
        let seen = world.seen();
        run.looked(&seen.vm);
        let next = next(&plan, &seen, &run, now());
        run.enter(next.step, now());
        assert!(next.stuck.is_none(), "{next:#?}");
        for action in &next.actions {
            if killed_after == Some(done) {
                return false;
            }
            world.act(action, &mut run);
            done += 1;
            if next.step == Step::BootstrapDestroy {
                return true;
            }
        }
        world.time_passes();
    }
    unreachable!()
}

#[test]
fn killed_between_any_two_actions_it_goes_on_and_every_host_is_cleaned_and_off() {
    for vm in [Vm::Absent, Vm::Other] {
        let mut kills = 0;
        loop {
            let mut world = World::new(vm.clone());
            let whole = live(&mut world, Some(kills));
            // What a person did meanwhile must not harm either.
            let meddled = names()[kills % names().len()].clone();
            if world
                .nodes
                .get(&meddled)
                .is_none_or(|node| !host::is_begun(node))
            {
                world.on.insert(meddled, true);
            }
            // Killed again, and again.
            live(&mut world, Some(2));
            world.time_passes();
            live(&mut world, Some(7));
            assert!(live(&mut world, None));
            assert_eq!(world.vm, Vm::Absent);
            assert!(
                world.wiped.values().all(|wiped| *wiped),
                "killed after {kills}"
            );
            assert!(world.on.values().all(|on| !on), "killed after {kills}");
            if whole {
                break;
            }
            kills += 1;
        }
        assert!(kills > 2 * names().len(), "{kills}");
    }
}
