use super::*;
use crate::install::{Joined, Trouble};
use crate::install_config::{Facts, parse};

const PXE: &str = include_str!("../../../../examples/pxe.yaml");
const SINGLE: &str = include_str!("../../../../examples/single-node.yaml");
/// The member that was lost, and the one that takes its place.
const OLD: u64 = 0xb1;
const NEW: u64 = 0xc2;

fn plan(text: &str) -> Plan {
    let resolved = parse(text, &Facts::default()).unwrap();
    Plan::new(&resolved.config, None)
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn silent<T>() -> Reach<T> {
    Reach::Silent("no answer".into())
}

fn member(node: &str, id: u64) -> Member {
    Member {
        id,
        node: node.into(),
        voter: true,
        started: true,
        well: Ok(()),
    }
}

fn dead() -> Result<(), String> {
    Err("no answer".into())
}

fn node(ready: Result<(), String>) -> Node {
    Node {
        joined: Joined {
            api: ready.clone(),
            etcd: ready.clone(),
        },
        ready,
    }
}

fn host(mark: Option<u64>) -> Host {
    Host {
        mark: mark.map(super::mark),
        deleting: false,
        provisioned: true,
        doing: "it is provisioned".into(),
        far: None,
    }
}

/// A cluster whose master-1 has died.
fn lost() -> Seen {
    let mut own = member("master-1", OLD);
    own.well = dead();
    Seen {
        api: Reach::Answers(Api {
            node: Some(node(dead())),
            host: Some(host(None)),
            machine: Some(Machine { deleting: false }),
            user_data: false,
            requests: Vec::new(),
            metal3: Metal3::Active {
                on: "master-0".into(),
                images: Ok(()),
            },
        }),
        etcd: Reach::Answers(vec![member("master-0", 1), own, member("master-2", 2)]),
        assets: Reach::Answers(()),
        power: Power::Off,
        trouble: None,
    }
}

/// The same in which something else is seen.
fn seen(change: impl FnOnce(&mut Seen, &mut Api, &mut Vec<Member>)) -> Seen {
    let mut seen = lost();
    let (Reach::Answers(mut api), Reach::Answers(mut etcd)) = (seen.api.clone(), seen.etcd.clone())
    else {
        panic!("both answer")
    };
    change(&mut seen, &mut api, &mut etcd);
    seen.api = Reach::Answers(api);
    seen.etcd = Reach::Answers(etcd);
    seen
}

/// After the member was removed: nothing of the old master is left.
fn cleared(change: impl FnOnce(&mut Api, &mut Vec<Member>)) -> Seen {
    seen(|_, api, etcd| {
        etcd.remove(1);
        (api.node, api.host, api.machine) = (None, None, None);
        change(api, etcd);
    })
}

/// The new one is on its way.
fn learning(change: impl FnOnce(&mut Api, &mut Member)) -> Seen {
    cleared(|api, etcd| {
        let mut learner = member("master-1", NEW);
        (learner.voter, learner.started, learner.well) = (false, false, dead());
        api.host = Some(host(Some(NEW)));
        api.user_data = true;
        change(api, &mut learner);
        etcd.push(learner);
    })
}

/// And votes again.
fn promoted(change: impl FnOnce(&mut Api)) -> Seen {
    learning(|api, member| {
        *member = self::member("master-1", NEW);
        api.machine = Some(Machine { deleting: false });
        api.node = Some(node(Ok(())));
        change(api);
    })
}

fn ask(seen: &Seen, force: bool) -> Next {
    asked_at(seen, force, &BTreeMap::new(), now())
}

fn asked_at(seen: &Seen, force: bool, began: &BTreeMap<Step, Timestamp>, now: Timestamp) -> Next {
    let plan = plan(PXE);
    let host = find(&plan, "master-1").unwrap();
    let asked = Asked {
        plan: &plan,
        host,
        force,
    };
    next(&asked, seen, began, now)
}

#[test]
fn a_host_is_found_by_its_name_and_by_its_nodes() {
    let renamed = plan(&PXE.replace("name: master-1", "name: rack-7"));
    assert_eq!(
        find(&renamed, "rack-7").unwrap().node.as_deref(),
        Some("master-1")
    );
    assert_eq!(find(&renamed, "master-1").unwrap().name, "rack-7");
    let refused = find(&renamed, "worker-0").unwrap_err().to_string();
    assert!(
        refused.contains("not a master") && refused.contains("rack-7"),
        "{refused}"
    );
    let unknown = find(&renamed, "nobody").unwrap_err().to_string();
    assert!(unknown.contains("no host nobody"), "{unknown}");
}

#[test]
fn each_step_follows_from_what_is_seen() {
    let table: Vec<(&str, Seen, Step, Vec<Action>)> = vec![
        (
            "dead, and its power unknown",
            seen(|seen, _, _| seen.power = Power::Unknown),
            Step::PowerOff,
            vec![Action::SwitchOff],
        ),
        ("off", lost(), Step::Leave, vec![Action::RemoveMember(OLD)]),
        (
            "replaced before",
            seen(|_, api, _| api.host = Some(host(Some(OLD)))),
            Step::Leave,
            vec![Action::RemoveMember(OLD)],
        ),
        (
            "the member is gone, and the power of its host unknown to this run",
            seen(|seen, _, etcd| {
                etcd.remove(1);
                seen.power = Power::Unknown;
            }),
            Step::Clear,
            vec![Action::SwitchOff],
        ),
        (
            "the member is gone",
            seen(|_, _, etcd| _ = etcd.remove(1)),
            Step::Clear,
            vec![
                Action::DeleteNode,
                Action::DeleteHost,
                Action::DeleteMachine,
            ],
        ),
        (
            "the old host goes, its power is of no concern any more",
            seen(|seen, api, etcd| {
                etcd.remove(1);
                seen.power = Power::Unknown;
                (api.node, api.machine) = (None, Some(Machine { deleting: true }));
                api.host.as_mut().unwrap().deleting = true;
            }),
            Step::Clear,
            vec![],
        ),
        (
            "only the old Machine is left",
            cleared(|api, _| api.machine = Some(Machine { deleting: false })),
            Step::Clear,
            vec![Action::DeleteMachine],
        ),
        (
            "nothing is left",
            cleared(|_, _| ()),
            Step::Learn,
            vec![Action::AddLearner],
        ),
        (
            "it learns, and has no host",
            learning(|api, _| (api.host, api.user_data) = (None, false)),
            Step::Provision,
            vec![Action::CreateHost { member: NEW }],
        ),
        (
            "killed between the Secret and the host",
            learning(|api, _| api.host = None),
            Step::Provision,
            vec![Action::CreateHost { member: NEW }],
        ),
        (
            "somebody added a learner while the old host was still there",
            learning(|api, _| (api.host, api.user_data) = (Some(host(None)), false)),
            Step::Clear,
            vec![Action::DeleteHost],
        ),
        (
            "the host of an earlier member",
            learning(|api, _| api.host = Some(host(Some(OLD)))),
            Step::Clear,
            vec![Action::DeleteHost],
        ),
        (
            "the Secret was lost",
            learning(|api, _| api.user_data = false),
            Step::Provision,
            vec![Action::CreateHost { member: NEW }],
        ),
        (
            "it is being written",
            learning(|api, _| api.host.as_mut().unwrap().provisioned = false),
            Step::Provision,
            vec![],
        ),
        (
            "written, and its Machine is not there",
            learning(|_, _| ()),
            Step::Join,
            vec![Action::CreateMachine],
        ),
        (
            "it asks for a certificate",
            learning(|api, _| {
                api.machine = Some(Machine { deleting: false });
                api.requests = vec!["csr-1".into()];
            }),
            Step::Join,
            vec![Action::Approve(vec!["csr-1".into()])],
        ),
        (
            "its member runs",
            learning(|api, member| {
                api.machine = Some(Machine { deleting: false });
                member.started = true;
            }),
            Step::Join,
            vec![Action::Promote(NEW)],
        ),
        (
            "it votes, and killed before its Machine was made",
            promoted(|api| (api.machine, api.node) = (None, None)),
            Step::Ready,
            vec![Action::CreateMachine],
        ),
        (
            "it votes, and its API server is not up",
            promoted(|api| api.node.as_mut().unwrap().joined.api = dead()),
            Step::Ready,
            vec![],
        ),
        (
            "all is well again",
            promoted(|_| ()),
            Step::Tidy,
            vec![Action::Forget],
        ),
    ];
    for (name, seen, step, actions) in table {
        let next = ask(&seen, false);
        assert_eq!((next.step, next.actions), (step, actions), "{name}");
        assert_eq!(next.stuck, None, "{name}");
        assert_eq!(ask(&seen, false), ask(&seen, false), "{name}");
    }
}

#[test]
fn what_would_do_harm_is_refused() {
    type Row = (&'static str, Seen, &'static str, &'static str);
    let table: Vec<Row> = vec![
        (
            "its member answers",
            seen(|_, _, etcd| etcd[1].well = Ok(())),
            "master-1: it is well",
            "--force",
        ),
        (
            "finished before",
            promoted(|api| api.user_data = false),
            "master-1: it is well",
            "--force",
        ),
        (
            "another master learns",
            seen(|_, _, etcd| etcd[2].voter = false),
            "master-2: its member of etcd only learns",
            "its own replacement",
        ),
        (
            "another master is no member",
            seen(|_, _, etcd| _ = etcd.remove(2)),
            "master-2: it is a master, and no member",
            "replace it first",
        ),
        (
            "a stranger is a member",
            seen(|_, _, etcd| etcd.push(member("elsewhere", 9))),
            "elsewhere: it is a member",
            "remove it",
        ),
        (
            "its BMC is silent",
            seen(|seen, _, _| seen.power = Power::Silent("no route".into())),
            "could not be switched off: no route",
            "--force",
        ),
    ];
    for (name, seen, what, remedy) in table {
        let next = ask(&seen, false);
        let stuck = next
            .stuck
            .unwrap_or_else(|| panic!("{name}: {:?}", next.actions));
        assert!(next.actions.is_empty(), "{name}");
        assert!(stuck.step.is_before_changes(), "{name}");
        let told = stuck.to_string();
        assert!(
            told.contains(what) && stuck.remedy.contains(remedy),
            "{name}: {told}"
        );
    }
}

#[test]
fn what_may_be_a_moments_weakness_is_waited_for_and_then_refused() {
    let table: Vec<(&str, Seen, &str)> = vec![
        (
            "the API is silent",
            Seen {
                api: silent(),
                ..lost()
            },
            "api: ",
        ),
        (
            "etcd is silent",
            Seen {
                etcd: silent(),
                ..lost()
            },
            "etcd: ",
        ),
        (
            "the program is not served",
            Seen {
                assets: silent(),
                ..lost()
            },
            "assets: ",
        ),
        (
            "the others are no quorum",
            seen(|_, _, etcd| etcd[2].well = dead()),
            "1 of the 2 others are, 2 are needed",
        ),
        (
            "its Node has not been missed yet",
            seen(|_, api, _| api.node = Some(node(Ok(())))),
            "not ready",
        ),
    ];
    let began = BTreeMap::from([(Step::Check, now())]);
    for (name, seen, what) in table {
        let next = asked_at(&seen, false, &began, now());
        assert_eq!((next.step, next.actions.len()), (Step::Check, 0), "{name}");
        assert!(next.stuck.is_none() && !next.waits.is_empty(), "{name}");
        let later = next.waits[0].until;
        let stuck = asked_at(&seen, false, &began, later).stuck.unwrap();
        assert!(stuck.step.is_before_changes(), "{name}");
        assert!(stuck.to_string().contains(what), "{name}: {stuck}");
    }
}

#[test]
fn force_is_for_hosts_that_are_well_and_bmcs_that_are_silent_and_for_no_quorum() {
    let removes = [
        seen(|_, _, etcd| etcd[1].well = Ok(())),
        seen(|_, api, _| api.node = Some(node(Ok(())))),
        seen(|seen, _, _| seen.power = Power::Silent("no route".into())),
        promoted(|api| api.user_data = false),
    ];
    for seen in removes {
        let next = ask(&seen, true);
        assert!(
            matches!(next.actions[..], [Action::RemoveMember(_)]),
            "{next:?}"
        );
    }
    let quorum = seen(|_, _, etcd| etcd[2].well = dead());
    assert_eq!(ask(&quorum, true).actions, []);
    // A replacement that is nearly over is not begun anew.
    assert_eq!(ask(&promoted(|_| ()), true).actions, [Action::Forget]);
}

#[test]
fn the_only_master_is_not_replaced() {
    let plan = plan(SINGLE);
    let host = plan.with_role(Role::Master).next().unwrap();
    let asked = Asked {
        plan: &plan,
        host,
        force: true,
    };
    let mut own = member(host.node.as_deref().unwrap(), OLD);
    own.well = dead();
    let seen = Seen {
        etcd: Reach::Answers(vec![own]),
        ..lost()
    };
    let stuck = next(&asked, &seen, &BTreeMap::new(), now()).stuck.unwrap();
    assert!(stuck.what.contains("only master"), "{stuck}");
}

#[test]
fn every_wait_says_what_for_and_has_an_end() {
    let moving = |api: &mut Api| {
        api.metal3 = Metal3::Active {
            on: "master-1".into(),
            images: Ok(()),
        };
    };
    let table: Vec<(&str, Seen, &str, &str)> = vec![
        (
            "the old host goes, and metal3 was on it",
            seen(|_, api, etcd| {
                etcd.remove(1);
                (api.node, api.machine) = (None, None);
                api.host.as_mut().unwrap().deleting = true;
                moving(api);
            }),
            "another master to take it over from master-1",
            "metal3",
        ),
        (
            "it is being written",
            learning(|api, _| {
                let host = api.host.as_mut().unwrap();
                (host.provisioned, host.doing) = (false, "provisioning: the agent".into());
            }),
            "provisioning: the agent",
            "master-1",
        ),
        (
            "it boots",
            learning(|api, _| api.machine = Some(Machine { deleting: false })),
            "its etcd member to start",
            "master-1",
        ),
        (
            "it is behind",
            Seen {
                trouble: Some(Trouble {
                    subject: "etcd".into(),
                    what: "the learner is behind".into(),
                }),
                ..learning(|api, member| {
                    api.machine = Some(Machine { deleting: false });
                    member.started = true;
                })
            },
            "the learner is behind",
            "etcd",
        ),
        (
            "its Node is not there",
            promoted(|api| api.node = None),
            "it to join",
            "replacement-user-data",
        ),
    ];
    for (name, seen, reason, in_the_end) in table {
        let next = ask(&seen, false);
        let told = next.waits.iter().any(|wait| wait.reason.contains(reason));
        assert!(told, "{name}: {:?}", next.waits);
        let began = BTreeMap::from([(next.step, now())]);
        let until = next.waits[0].until;
        assert!(until > now(), "{name}");
        let late = asked_at(&seen, false, &began, until);
        assert_eq!(late.actions, [], "{name}");
        let stuck = late.stuck.unwrap();
        assert!(!stuck.step.is_before_changes(), "{name}");
        assert!(stuck.to_string().contains(in_the_end), "{name}: {stuck}");
    }
}

/// A small model of the world: what each action does to it.
fn act(seen: &mut Seen, action: &Action) {
    let (Reach::Answers(api), Reach::Answers(etcd)) = (&mut seen.api, &mut seen.etcd) else {
        panic!("both answer")
    };
    match action {
        Action::SwitchOff => seen.power = Power::Off,
        Action::RemoveMember(id) => etcd.retain(|member| member.id != *id),
        Action::DeleteNode => api.node = None,
        Action::DeleteHost => api.host = None,
        Action::DeleteMachine => api.machine = None,
        Action::AddLearner => etcd.push(Member {
            voter: false,
            well: dead(),
            ..member("master-1", NEW)
        }),
        Action::CreateHost { member } => {
            api.user_data = true;
            api.host = Some(host(Some(*member)));
        }
        Action::CreateMachine => api.machine = Some(Machine { deleting: false }),
        Action::Approve(_) => api.requests.clear(),
        Action::Promote(id) => {
            let learner = etcd.iter_mut().find(|member| member.id == *id).unwrap();
            (learner.voter, learner.well) = (true, Ok(()));
            api.node = Some(node(Ok(())));
        }
        Action::Forget => api.user_data = false,
    }
}

#[test]
fn killed_between_any_two_actions_it_ends_the_same() {
    // Ten actions make a replacement; the last ends it.
    for killed_after in 0..10 {
        let mut seen = seen(|seen, _, _| seen.power = Power::Unknown);
        let mut done = Vec::new();
        'run: for _ in 0..30 {
            let next = ask(&seen, false);
            assert_eq!(next.stuck, None, "killed after {killed_after}: {done:?}");
            for action in next.actions {
                act(&mut seen, &action);
                done.push(action);
                if done.len() == killed_after {
                    // The next run does not know what this one knew.
                    seen.power = Power::Unknown;
                    continue 'run;
                }
            }
            if done.last() == Some(&Action::Forget) {
                break;
            }
        }
        assert_eq!(
            done.last(),
            Some(&Action::Forget),
            "killed after {killed_after}"
        );
        let removed = done
            .iter()
            .filter(|action| matches!(action, Action::RemoveMember(_)));
        assert_eq!(removed.count(), 1, "killed after {killed_after}: {done:?}");
        let Reach::Answers(members) = &seen.etcd else {
            panic!("etcd answers")
        };
        assert!(members.len() == 3 && members.iter().all(|member| member.voter));
        let stuck = ask(&seen, false).stuck.unwrap();
        assert!(stuck.what.contains("it is well"), "{stuck}");
    }
}

#[test]
fn steps_have_their_order_and_their_own_words() {
    assert!(Step::ALL.is_sorted());
    for step in Step::ALL {
        assert!(!step.about().is_empty() && !step.remedy().is_empty());
        assert!(step.limit(&plan(PXE)).as_secs() >= 60, "{step}");
    }
}
