//! Whatever goes wrong on the way, an install that is run again, once what it names is mended, ends in a cluster.

use jiff::{SignedDuration, Timestamp};
use plan::install::{Action, Kept, Phase, Problem, Site, Stuck, next};
use proptest::prelude::*;

use super::world::{Fault, INTERRUPTED, TICK, Trait, World};

/// Nobody runs it more often.
const RUNS: usize = 40;
/// Time that all faults fall into; an install without any takes about as long.
const SECONDS: i64 = 900;

#[derive(Debug)]
enum End {
    Done,
    Stuck(Stuck),
    Killed,
}

struct Operator {
    world: World,
    /// On disk.
    kept: Kept,
    faults: Vec<(Timestamp, Fault)>,
    /// Of all runs, in order.
    phases: Vec<Phase>,
}

impl Operator {
    fn new(faults: &[(i64, Fault)]) -> Self {
        let world = World::new();
        let at = |seconds: i64| world.now + SignedDuration::from_secs(seconds);
        let mut faults: Vec<_> = faults
            .iter()
            .map(|(when, what)| (at(*when), *what))
            .collect();
        faults.sort_by_key(|(when, _)| *when);
        Self {
            world,
            kept: Kept::default(),
            faults,
            phases: Vec::new(),
        }
    }

    /// One run of the installer, to its end or until it is killed.
    fn run(&mut self) -> End {
        let start = self.world.now;
        let (mut site, mut trouble) = (Site::Unchecked, None);
        // What a process has found out it does not leave to the next.
        self.world.images = false;
        self.kept.begin_anew();
        loop {
            let seen = self.world.look(site.clone(), trouble.take());
            let plan = &self.world.plan;
            self.kept.heed(plan, &seen);
            let now = self.world.now;
            let step = next(plan, &seen, &self.kept.since(start), now);
            let Some(phase) = step.phase else {
                return End::Done;
            };
            self.kept.began.entry(phase).or_insert(now);
            self.phases.push(phase);
            if let Some(stuck) = step.stuck {
                return End::Stuck(stuck);
            }
            assert!(
                !step.actions.is_empty() || !step.waits.is_empty(),
                "silence in {phase}"
            );
            for action in &step.actions {
                match action {
                    Action::CheckSite => site = Site::Sound,
                    Action::Ask {
                        host, again: true, ..
                    } => {
                        *self.kept.tries.entry(host.clone()).or_default() += 1;
                    }
                    Action::MarkComplete => self.kept.complete = true,
                    _ => {}
                }
                trouble = self.world.act(action).err().or(trouble);
                if self.time_kills() {
                    return End::Killed;
                }
            }
            self.world.time_passes();
            if self.time_kills() {
                return End::Killed;
            }
        }
    }

    /// Faults whose time has come strike; whether the installer is among what they hit.
    fn time_kills(&mut self) -> bool {
        let mut killed = false;
        while let Some((when, fault)) = self.faults.first().copied()
            && when <= self.world.now
        {
            self.faults.remove(0);
            self.world.strike(fault);
            killed |= matches!(fault, Fault::InstallerKilled | Fault::HostRebooted);
        }
        killed
    }

    /// Runs it again and again, mending what it names.
    fn insist(&mut self) -> Vec<Stuck> {
        let mut told = Vec::new();
        for _ in 0..RUNS {
            match self.run() {
                End::Done => return told,
                End::Killed => {}
                End::Stuck(stuck) => {
                    self.names_what_is_broken(&stuck);
                    told.push(stuck);
                    self.world.mend();
                }
            }
        }
        panic!("it does not end: {:?}", told.last());
    }

    /// Of hosts it is said which, what, and what to do.
    fn names_what_is_broken(&self, stuck: &Stuck) {
        for problem in &stuck.problems {
            assert!(
                !problem.what.is_empty() && !problem.remedy.is_empty(),
                "{stuck}"
            );
        }
        if stuck.phase == Phase::ControlPlaneDeploy {
            let servers = &self.world.servers;
            let broken = |name: &String| servers.get(name).is_some_and(|it| it.broken.is_some());
            // Or it was interrupted too often, which is no fault of the host.
            let named =
                |problem: &Problem| broken(&problem.subject) || problem.what.contains(INTERRUPTED);
            assert!(stuck.problems.iter().all(named), "{stuck} of {servers:#?}");
        }
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    let broken = prop_oneof![
        Just(Trait::LogsNobodyIn),
        Just(Trait::NeverBoots),
        Just(Trait::TakesNoData)
    ];
    prop_oneof![
        3 => Just(Fault::InstallerKilled),
        2 => Just(Fault::VmKilled),
        2 => Just(Fault::VmTaken),
        1 => Just(Fault::HostRebooted),
        2 => (0_usize..3).prop_map(Fault::PowerLost),
        3 => (0_usize..3, broken).prop_map(|(n, what)| Fault::Broken(n, what)),
    ]
}

#[test]
fn without_faults_one_run_goes_through_every_phase_once() {
    let mut operator = Operator::new(&[]);
    assert!(operator.insist().is_empty());
    operator.phases.dedup();
    assert_eq!(operator.phases, Phase::ALL);
    let took = operator
        .world
        .now
        .duration_since(operator.kept.began[&Phase::Preflight]);
    assert!(took < SignedDuration::from_secs(SECONDS), "{took:?}");
}

#[test]
fn killed_with_its_vm_at_any_moment_it_goes_on_where_it_was() {
    for fault in [
        Fault::InstallerKilled,
        Fault::VmKilled,
        Fault::VmTaken,
        Fault::HostRebooted,
    ] {
        let mut when = 0;
        while when < SECONDS {
            let mut operator = Operator::new(&[(when, fault)]);
            let told = operator.insist();
            assert!(told.is_empty(), "{fault:?} after {when} s: {told:?}");
            when += TICK.as_secs();
        }
    }
}

#[test]
fn a_server_that_does_not_do_its_part_is_named_and_the_next_run_ends_well() {
    for (what, why) in [
        (Trait::LogsNobodyIn, "login"),
        (Trait::NeverBoots, "agent"),
        (Trait::TakesNoData, "input/output"),
    ] {
        let mut operator = Operator::new(&[(0, Fault::Broken(1, what))]);
        let told = operator.insist();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].problems[0].subject, "master-1");
        assert!(told[0].to_string().contains(why), "{}", told[0]);
    }
}

#[test]
fn a_master_without_power_while_etcd_forms_is_named_and_what_has_joined_is_left_alone() {
    let mut quiet = Operator::new(&[]);
    quiet.insist();
    let began = quiet.kept.began[&Phase::ControlPlaneReady];
    let since = began.duration_since(quiet.kept.began[&Phase::Preflight]);
    for later in [0, 30, 60, 65, 70] {
        let mut operator = Operator::new(&[
            (since.as_secs() + later, Fault::PowerLost(2)),
            (since.as_secs() + later + 200, Fault::VmTaken),
        ]);
        for stuck in operator.insist() {
            assert_eq!(stuck.phase, Phase::ControlPlaneReady);
            assert!(stuck.to_string().contains("master-2"), "{stuck}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn whatever_goes_wrong_an_install_ends_in_a_cluster(
        faults in prop::collection::vec((0..SECONDS, fault()), 0..8)
    ) {
        let mut operator = Operator::new(&faults);
        operator.insist();
        prop_assert!(operator.world.servers.values().all(|server| server.joined));
    }
}
