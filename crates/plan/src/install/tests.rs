use super::*;
use crate::install_config::{Facts, parse};

const PXE: &str = include_str!("../../../../examples/pxe.yaml");

fn plan() -> Plan {
    let resolved = parse(PXE, &Facts::default()).unwrap();
    Plan::new(&resolved.config, None)
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn silent<T>() -> Reach<T> {
    Reach::Silent("no answer".into())
}

/// Files and images are there, and nothing else.
fn begun() -> Seen {
    Seen {
        site: Site::Sound,
        assets: true,
        images: Images::default(),
        vm: Vm::Absent,
        ironic: silent(),
        mcs: silent(),
        api: silent(),
        trouble: None,
    }
}

fn serving(states: [&str; 3]) -> Seen {
    let names = masters(&plan())
        .map(|host| host.name.clone())
        .collect::<Vec<_>>();
    let node = |state: &str| IronicNode {
        state: state.into(),
        ..IronicNode::default()
    };
    Seen {
        vm: Vm::Running,
        ironic: Reach::Answers(names.into_iter().zip(states.map(node)).collect()),
        mcs: Reach::Answers(()),
        ..begun()
    }
}

fn api() -> Api {
    let joined = Joined {
        api: Ok(()),
        etcd: Ok(()),
    };
    Api {
        complete: false,
        nodes: (0..3)
            .map(|n| (format!("master-{n}"), joined.clone()))
            .collect(),
        requests: Vec::new(),
        missing_manifests: Vec::new(),
        metal3: Metal3::Active {
            on: "master-1".into(),
            images: Ok(()),
        },
        workers: Vec::new(),
    }
}

fn formed(change: impl FnOnce(&mut Api)) -> Seen {
    let mut api = api();
    change(&mut api);
    Seen {
        api: Reach::Answers(api),
        ..serving(["active"; 3])
    }
}

fn ask(seen: &Seen) -> Next {
    next(&plan(), seen, &Kept::default(), now())
}

#[test]
fn each_phase_begins_where_the_last_is_seen_to_have_ended() {
    let table: Vec<(Seen, Phase, Vec<Action>)> = vec![
        (
            Seen {
                site: Site::Unchecked,
                assets: false,
                ..begun()
            },
            Phase::Preflight,
            vec![Action::CheckSite],
        ),
        (
            Seen {
                assets: false,
                ..begun()
            },
            Phase::Assets,
            vec![Action::WriteAssets],
        ),
        (
            Seen {
                images: Images {
                    missing: vec!["the OS image".into()],
                    unfit: Vec::new(),
                },
                ..begun()
            },
            Phase::Images,
            vec![Action::FetchImages],
        ),
        (begun(), Phase::BootstrapVm, vec![Action::StartVm]),
        (
            Seen {
                vm: Vm::Stopped {
                    why: "killed".into(),
                },
                ..begun()
            },
            Phase::BootstrapVm,
            vec![Action::StartVm],
        ),
        (
            Seen {
                vm: Vm::Running,
                ..begun()
            },
            Phase::BootstrapServices,
            vec![],
        ),
        (
            serving(["active", "active", "deploying"]),
            Phase::ControlPlaneDeploy,
            vec![],
        ),
        (serving(["active"; 3]), Phase::ControlPlaneReady, vec![]),
        (
            formed(|api| api.missing_manifests = vec!["a.yaml".into()]),
            Phase::Manifests,
            vec![Action::Apply(vec!["a.yaml".into()])],
        ),
        (
            formed(|api| api.metal3 = Metal3::Absent("no lease".into())),
            Phase::HandOver,
            vec![],
        ),
        (formed(|_| ()), Phase::HandOver, vec![Action::MarkComplete]),
        (
            formed(|api| api.complete = true),
            Phase::BootstrapDestroy,
            vec![],
        ),
        (
            Seen {
                vm: Vm::Stopped {
                    why: "it switched itself off".into(),
                },
                ..formed(|api| api.complete = true)
            },
            Phase::BootstrapDestroy,
            vec![Action::DestroyVm],
        ),
        (
            Seen {
                vm: Vm::Absent,
                ..formed(|api| api.complete = true)
            },
            Phase::Workers,
            vec![],
        ),
    ];
    for (seen, phase, actions) in table {
        let next = ask(&seen);
        assert_eq!(next.phase, Some(phase), "{seen:#?}");
        assert_eq!(next.actions, actions, "{seen:#?}");
        assert!(next.stuck.is_none(), "{next:#?}");
        assert!(
            !next.actions.is_empty() || !next.waits.is_empty(),
            "silence in {phase}"
        );
    }
}

#[test]
fn a_site_with_something_against_it_is_told_all_of_it_and_a_begun_install_is_not_looked_at_again() {
    let problem = |subject: &str| Problem {
        subject: subject.into(),
        what: "somebody has it".into(),
        remedy: "choose another".into(),
    };
    let problems = ["server-1", "192.0.2.5"].map(problem);
    let seen = Seen {
        site: Site::Unsound(problems.clone().into()),
        ..begun()
    };
    let stuck = ask(&seen).stuck.unwrap();
    assert_eq!(stuck.phase, Phase::Preflight);
    assert_eq!(stuck.problems, problems);
    // Its own bootstrap has the address by then.
    let kept = Kept {
        began: [(Phase::BootstrapVm, now())].into(),
        ..Kept::default()
    };
    let next = next(&plan(), &seen, &kept, now());
    assert_eq!(next.actions, [Action::StartVm]);
}

#[test]
fn an_image_that_is_not_what_was_promised_is_not_fetched_again() {
    let problem = Problem {
        subject: "http://192.0.2.1/os.raw".into(),
        what: "its checksum is another".into(),
        remedy: "give the right one".into(),
    };
    let seen = Seen {
        images: Images {
            missing: vec!["the OS image".into()],
            unfit: vec![problem.clone()],
        },
        ..begun()
    };
    let next = ask(&seen);
    assert!(next.actions.is_empty());
    let stuck = next.stuck.unwrap();
    assert_eq!(
        (stuck.phase, stuck.problems),
        (Phase::Images, vec![problem])
    );
}

#[test]
fn it_is_done_when_the_bootstrap_is_gone_and_every_worker_has_joined() {
    let worker = |joined| Worker {
        name: "worker".into(),
        joined,
        doing: "provisioning".into(),
        far: Some(Far {
            percent: 40,
            mb_per_s: Some(12),
        }),
    };
    let seen = |joined: [bool; 2]| Seen {
        vm: Vm::Absent,
        ..formed(|api| {
            api.complete = true;
            api.workers = joined.map(worker).into();
        })
    };
    let waiting = ask(&seen([true, false]));
    assert_eq!(waiting.phase, Some(Phase::Workers));
    assert_eq!(waiting.waits[0].far.map(|far| far.percent), Some(40));
    assert_eq!(ask(&seen([true, true])).phase, None);
}

#[test]
fn the_bootstrap_is_never_given_up_before_the_masters_can_do_without_it() {
    let unready: Vec<fn(&mut Api)> = vec![
        |api| _ = api.nodes.remove("master-2"),
        |api| api.nodes.get_mut("master-0").unwrap().etcd = Err("a learner".into()),
        |api| api.nodes.get_mut("master-1").unwrap().api = Err("not ready".into()),
        |api| api.missing_manifests = vec!["x".into()],
        |api| api.metal3 = Metal3::Absent("nobody".into()),
        |api| {
            api.metal3 = Metal3::Active {
                on: "bootstrap".into(),
                images: Ok(()),
            }
        },
        |api| {
            api.metal3 = Metal3::Active {
                on: "master-0".into(),
                images: Err("copying".into()),
            }
        },
    ];
    for change in unready {
        let seen = formed(change);
        for action in ask(&seen).actions {
            assert!(
                !matches!(action, Action::MarkComplete | Action::DestroyVm),
                "{action:?} with {seen:#?}"
            );
        }
    }
}

#[test]
fn a_host_is_led_from_enrolment_to_active() {
    let node = |state: &str, inspected| IronicNode {
        state: state.into(),
        inspected,
        ..IronicNode::default()
    };
    for (node, verb) in [
        (node("enroll", false), Verb::Manage),
        (node("manageable", false), Verb::Inspect),
        (node("manageable", true), Verb::Provide),
        (node("available", true), Verb::Deploy),
    ] {
        let host::Next::Do(Action::Ask {
            verb: asked, again, ..
        }) = host::next("h", Some(&node), 0)
        else {
            panic!("{node:?} is left alone")
        };
        assert_eq!((asked, again), (verb, false), "{node:?}");
    }
    assert!(matches!(
        host::next("h", None, 0),
        host::Next::Do(Action::Enrol(_))
    ));
}

#[test]
fn what_fails_is_tried_again_and_then_named_with_its_reason() {
    let seen = serving(["deploy failed", "active", "active"]);
    let Reach::Answers(mut nodes) = seen.ironic.clone() else {
        unreachable!()
    };
    let plan = plan();
    let name = masters(&plan).next().unwrap().name.clone();
    nodes.get_mut(&name).unwrap().last_error = Some("the disk is on fire".into());
    let seen = Seen {
        ironic: Reach::Answers(nodes),
        ..seen
    };
    let first = ask(&seen);
    assert!(
        matches!(
            &first.actions[..],
            [Action::Ask {
                verb: Verb::Deploy,
                again: true,
                ..
            }]
        ),
        "{first:#?}"
    );
    let kept = Kept {
        tries: [(name.clone(), TRIES - 1)].into(),
        ..Kept::default()
    };
    let stuck = next(&plan, &seen, &kept, now()).stuck.unwrap();
    let [problem] = &stuck.problems[..] else {
        panic!("{stuck}")
    };
    assert_eq!(problem.subject, name);
    assert!(problem.what.contains("on fire"), "{stuck}");
}

#[test]
fn a_failed_cleaning_is_tried_again_out_of_maintenance_and_a_silent_bmc_is_waited_for() {
    let plan = plan();
    let name = masters(&plan).next().unwrap().name.clone();
    for (state, tried_again) in [("clean failed", true), ("manageable", false)] {
        let seen = serving([state, "active", "active"]);
        let Reach::Answers(mut nodes) = seen.ironic.clone() else {
            unreachable!()
        };
        let node = nodes.get_mut(&name).unwrap();
        node.maintenance = Some("the disk does not answer".into());
        node.last_error.clone_from(&node.maintenance);
        let seen = Seen {
            ironic: Reach::Answers(nodes),
            ..seen
        };
        let next = ask(&seen);
        let asked = matches!(&next.actions[..], [Action::Ask { again: true, .. }]);
        assert_eq!(asked, tried_again, "{state}: {next:#?}");
        assert_eq!(!next.waits.is_empty(), !tried_again, "{state}: {next:#?}");
    }
}

#[test]
fn whoever_runs_it_again_gives_it_new_tries_and_its_whole_time() {
    let mut kept = Kept {
        began: [(Phase::Images, now())].into(),
        tries: [("master-0".to_owned(), TRIES)].into(),
        ..Kept::default()
    };
    let later = now() + std::time::Duration::from_hours(5);
    kept.begin_anew();
    assert!(kept.tries.is_empty());
    assert_eq!(kept.since(later).began[&Phase::Images], later);
    assert_eq!(kept.began[&Phase::Images], now(), "the table counts it all");
}

#[test]
fn a_phase_that_has_had_its_time_says_what_it_waited_for() {
    let seen = Seen {
        vm: Vm::Running,
        ..begun()
    };
    let kept = Kept {
        began: [(Phase::BootstrapServices, now())].into(),
        ..Kept::default()
    };
    let plan = plan();
    let limit = Phase::BootstrapServices.limit(&plan);
    let just_before = now() + limit - std::time::Duration::from_secs(1);
    assert!(next(&plan, &seen, &kept, just_before).stuck.is_none());
    let stuck = next(&plan, &seen, &kept, now() + limit).stuck.unwrap();
    assert_eq!(stuck.phase, Phase::BootstrapServices);
    let subjects: Vec<_> = stuck.problems.iter().map(|p| &*p.subject).collect();
    assert_eq!(subjects, ["ironic", "mcs"]);
    assert!(stuck.problems[0].what.contains("no answer"), "{stuck}");
}

#[test]
fn a_bootstrap_made_anew_does_not_write_masters_that_have_joined() {
    let anew = |seen: Seen| Seen {
        ironic: Reach::Answers(BTreeMap::new()),
        ..seen
    };
    let touched = |seen: &Seen, kept: &Kept| -> Vec<String> {
        let next = next(&plan(), seen, kept, now());
        let hosts = next.actions.into_iter().filter_map(|action| match action {
            Action::Enrol(host) | Action::Ask { host, .. } => Some(host),
            _ => None,
        });
        hosts.collect()
    };
    let mut kept = Kept::default();
    let (all, two) = (
        anew(formed(|_| ())),
        anew(formed(|api| _ = api.nodes.remove("master-1"))),
    );
    assert!(touched(&all, &kept).is_empty());
    assert_eq!(touched(&two, &kept), ["master-1"]);
    // Also when the API says nothing any more.
    assert!(kept.heed(&plan(), &two) && !kept.heed(&plan(), &two));
    let silent = anew(serving(["active"; 3]));
    assert_eq!(touched(&silent, &kept), ["master-1"]);
    assert_eq!(touched(&silent, &Kept::default()).len(), 3);
    // Nobody asks its Ironic once there is nothing left to write.
    assert!(masters_are_missing(&plan(), &kept));
    kept.heed(&plan(), &all);
    assert!(!masters_are_missing(&plan(), &kept));
}

#[test]
fn ironic_on_the_bootstrap_is_done_when_every_master_is_written() {
    for (states, done) in [
        (["active", "active", "active"], true),
        (["active", "wait call-back", "active"], false),
        (["active", "active", "deploy failed"], false),
    ] {
        let Reach::Answers(nodes) = serving(states).ironic else {
            unreachable!()
        };
        assert_eq!(ironic_is_done(&plan(), &nodes), done, "{states:?}");
    }
    assert!(!ironic_is_done(&plan(), &BTreeMap::new()));
}

#[test]
fn an_api_that_is_slow_to_answer_is_asked_less_often() {
    let (ms, answers) = (Duration::from_millis, formed(|_| ()));
    for (took, pauses) in [(0, 1000), (300, 1000), (900, 1800), (4000, 5000)] {
        assert_eq!(pause(&answers, ms(took)), ms(pauses), "{took} ms");
    }
    assert_eq!(pause(&serving(["active"; 3]), ms(5000)), ms(1000));
}

#[test]
fn phases_are_the_plans_steps_and_their_exit_codes_differ() {
    let plan = plan();
    let names: Vec<_> = plan.steps.iter().map(|step| step.name).collect();
    assert_eq!(names, Phase::ALL.map(Phase::name));
    let codes: std::collections::BTreeSet<_> = Phase::ALL.map(Phase::exit_code).into();
    assert_eq!(codes.len(), Phase::ALL.len());
}

#[test]
fn a_bootstrap_that_does_not_leave_by_itself_is_ended() {
    let seen = formed(|api| api.complete = true);
    let kept = Kept {
        began: [(Phase::BootstrapDestroy, now())].into(),
        ..Kept::default()
    };
    assert!(next(&plan(), &seen, &kept, now()).actions.is_empty());
    let later = now() + LEAVES_WITHIN;
    assert_eq!(
        next(&plan(), &seen, &kept, later).actions,
        [Action::DestroyVm]
    );
}

#[test]
fn work_that_fails_is_seen_while_it_is_tried_again() {
    let trouble = Trouble {
        subject: "bootstrap".into(),
        what: "no bridge".into(),
    };
    let seen = Seen {
        trouble: Some(trouble),
        ..begun()
    };
    let next = ask(&seen);
    assert_eq!(next.actions, [Action::StartVm]);
    assert!(next.waits[0].reason.contains("no bridge"), "{next:#?}");
}

#[test]
fn phases_take_their_time_however_often_the_installer_begins_anew() {
    let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
    let mut kept = Kept {
        began: [(Phase::Assets, at(0)), (Phase::Images, at(2))].into(),
        ..Kept::default()
    };
    let seconds = |kept: &Kept, now| -> Vec<u64> {
        let took = kept.took(at(now));
        took.iter().map(|(_, took)| took.as_secs()).collect()
    };
    assert_eq!(seconds(&kept, 5), [2, 3], "the last one goes on");
    // Only this far was wanted, and the rest an hour later.
    kept.end(at(6));
    kept.began.insert(Phase::BootstrapVm, at(3600));
    kept.end(at(3607));
    kept.end(at(9000));
    assert_eq!(seconds(&kept, 9001), [2, 4, 7]);
}

#[test]
fn what_others_need_is_applied_before_them() {
    let files = BTreeMap::from([
        ("10-hosts".to_owned(), vec!["Secret", "BareMetalHost"]),
        (
            "50-late".to_owned(),
            vec!["Namespace", "CustomResourceDefinition"],
        ),
    ]);
    let waves = waves(files, |kind| (*kind).to_owned());
    let kinds = |at: usize| waves[at].iter().map(|(_, kind)| *kind).collect::<Vec<_>>();
    assert_eq!(kinds(0), ["Namespace", "CustomResourceDefinition"]);
    assert_eq!(kinds(1), ["Secret", "BareMetalHost"]);
    assert_eq!(waves[0][0].0, "50-late");
}
