//! Hosts under users who change their minds, BMCs that break, an Ironic that forgets, an operator that dies.

use std::time::Duration;

use lifecycle::host::{HardwareVolume, Raid, RootDeviceHints, State, annotations};

use crate::operator::Ended;
use crate::rack::{Rack, image};

const SEEDS: u64 = 1200;

#[test]
fn hosts_converge_after_every_storm_and_none_in_use_is_wiped() {
    for seed in 0..SEEDS {
        let mut rack = Rack::new(seed, 3);
        rack.storm(160);
        rack.calm();
        rack.converge();
    }
}

#[test]
fn an_operator_that_dies_between_any_two_calls_goes_on() {
    for seed in 0..SEEDS / 3 {
        let mut rack = Rack::new(seed, 1);
        rack.deadly = 40;
        rack.edit(0, |spec| spec.image = Some(image("a")));
        rack.settle(6000);
        assert_eq!(rack.state(0), Some(State::Provisioned), "{}", rack.story());
        rack.edit(0, |spec| spec.image = None);
        rack.settle(6000);
        assert_eq!(rack.state(0), Some(State::Available), "{}", rack.story());
        rack.delete(0);
        rack.settle(6000);
        assert_eq!(rack.state(0), None, "{}", rack.story());
        assert!(rack.ironic.nodes.is_empty());
    }
}

#[test]
fn an_ironic_that_forgets_everything_at_any_time_costs_no_system() {
    for seed in 0..SEEDS / 3 {
        let mut rack = Rack::new(seed, 2);
        rack.edit(0, |spec| spec.image = Some(image("a")));
        for _ in 0..12 {
            let turns = rack.dice.below(60);
            for _ in 0..turns {
                rack.turn();
            }
            rack.ironic.forget_everything();
            rack.note("Ironic forgets everything");
        }
        rack.wake_all();
        rack.settle(3000);
        assert_eq!(rack.state(0), Some(State::Provisioned), "{}", rack.story());
        assert_eq!(rack.state(1), Some(State::Available), "{}", rack.story());
        assert_eq!(rack.metals[0].system.as_deref(), Some("http://images/a"));
        assert_eq!(
            rack.ironic
                .find("metal~host-0")
                .unwrap()
                .provision_state
                .as_str(),
            "active"
        );
    }
}

#[test]
fn a_host_in_use_is_never_turned_off_by_a_forgetful_ironic() {
    let mut rack = Rack::new(7, 1);
    rack.edit(0, |spec| spec.image = Some(image("a")));
    rack.settle(2000);
    let offs = rack.metals[0].offs;
    for _ in 0..20 {
        rack.ironic.forget_everything();
        rack.wake_all();
        rack.settle(500);
        assert_eq!(rack.state(0), Some(State::Provisioned));
        assert_eq!(rack.ironic.nodes.len(), 1, "{}", rack.story());
    }
    assert_eq!(rack.metals[0].offs, offs);
    assert!(rack.metals[0].on);
}

#[test]
fn a_host_provisioned_by_others_is_adopted_and_left_alone() {
    for seed in 0..200 {
        let mut rack = Rack::new(seed, 1);
        rack.metals[0].system = Some("theirs".into());
        rack.metals[0].on = true;
        rack.edit(0, |spec| spec.externally_provisioned = true);
        rack.deadly = 20;
        rack.settle(2000);
        rack.ironic.forget_everything();
        rack.wake_all();
        rack.settle(2000);
        assert_eq!(
            rack.state(0),
            Some(State::ExternallyProvisioned),
            "{}",
            rack.story()
        );
        assert_eq!(
            rack.metals[0].system.as_deref(),
            Some("theirs"),
            "{}",
            rack.story()
        );
        assert_eq!(rack.metals[0].offs, 0, "{}", rack.story());
    }
}

#[test]
fn a_host_that_keeps_failing_is_left_alone_for_longer_and_longer() {
    for seed in 0..100 {
        let mut rack = Rack::new(seed, 1);
        rack.ironic.instant = true;
        while rack.state(0) != Some(State::Inspecting) {
            rack.reconcile(0);
        }
        rack.ironic.failing = 100;
        let begin = rack.trace.len();
        let end = rack.now + Duration::from_hours(24);
        while rack.now < end {
            let mut passes = 0;
            while rack.reconcile(0) != Ended::Waits {
                passes += 1;
                assert!(passes < 20, "no rest between failures\n{}", rack.story());
            }
            rack.now = rack.objects[0].as_ref().unwrap().wake_at;
        }
        let tries = rack.trace[begin..]
            .iter()
            .filter(|line| line.contains("inspect node"));
        let tries = tries.count();
        assert!(
            (8..=14).contains(&tries),
            "{tries} tries in a day\n{}",
            rack.story()
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = || {
        let mut rack = Rack::new(42, 3);
        rack.storm(200);
        rack.trace
    };
    let first = trace();
    assert!(first.len() > 50, "{}", first.join("\n"));
    assert_eq!(first, trace());
}

impl Rack {
    pub fn state(&self, place: usize) -> Option<State> {
        Some(self.objects[place].as_ref()?.host.status.state())
    }

    fn wake_all(&mut self) {
        for object in self.objects.iter_mut().flatten() {
            object.wake_at = self.now;
        }
    }

    fn storm(&mut self, turns: usize) {
        self.deadly = self.dice.below(15);
        self.flaky = self.dice.below(10);
        self.ironic.failing = self.dice.below(12);
        self.ironic.instant = self.dice.percent(30);
        for _ in 0..turns {
            if self.dice.percent(20) {
                self.mischief();
                self.check();
            }
            self.turn();
        }
    }

    /// Somebody has a turn: the operator with a host, or Ironic with a node.
    fn turn(&mut self) {
        let pause = self.dice.below(20) as u64;
        self.pass_time(Duration::from_secs(pause));
        let place = self.dice.below(self.objects.len());
        if self.dice.percent(60) {
            // Not only when it asked to be woken: objects change for many reasons.
            self.reconcile(place);
        } else {
            self.ironic_turn();
        }
        self.check();
    }

    fn ironic_turn(&mut self) {
        let nodes: Vec<String> = self.ironic.nodes.keys().cloned().collect();
        if nodes.is_empty() || self.ironic.away {
            return;
        }
        let node = nodes[self.dice.below(nodes.len())].clone();
        let before = self.ironic.nodes[&node].provision_state;
        self.ironic.work(&node, &mut self.metals, &mut self.dice);
        let after = self.ironic.nodes[&node].provision_state;
        if before != after {
            self.note(&format!("{node}: {before} -> {after}"));
        }
    }

    fn mischief(&mut self) {
        let place = self.dice.below(self.objects.len());
        let what = self.dice.below(26);
        self.note(&format!("mischief {what} at host-{place}"));
        match what {
            0..=2 => self.edit(place, |spec| spec.image = Some(image("a"))),
            3 => self.edit(place, |spec| spec.image = Some(image("b"))),
            4 => self.edit(place, |spec| spec.image = None),
            5 => self.edit(place, |spec| spec.online = !spec.online),
            6 => self.annotate(place, annotations::REBOOT, Some("")),
            7 => self.annotate(place, "reboot.metal3.io/user", Some(r#"{"mode":"hard"}"#)),
            8 => self.annotate(place, "reboot.metal3.io/user", None),
            9 => self.annotate(place, annotations::INSPECT, Some("")),
            10 => self.annotate(place, annotations::DETACHED, Some("")),
            11 => self.annotate(place, annotations::DETACHED, Some(r#"{"force":true}"#)),
            12 | 13 => self.annotate(place, annotations::DETACHED, None),
            14 => self.annotate(place, annotations::PAUSED, Some("")),
            15 => self.annotate(place, annotations::PAUSED, None),
            16 => self.annotate(place, annotations::RETRY_NOW, Some("")),
            17 => {
                if self.objects[place].is_some() {
                    self.delete(place);
                } else {
                    self.describe(place);
                }
            }
            18 => self.metals[place].bmc_dead ^= true,
            19 => self.metals[place].deaf ^= true,
            20 => {
                self.ironic.forget_everything();
            }
            21 => self.ironic.away ^= true,
            22 => self.change_password(place),
            23 | 24 => self.edit(place, |spec| {
                let volume = HardwareVolume {
                    level: "1".into(),
                    ..HardwareVolume::default()
                };
                spec.raid = match spec.raid {
                    Some(_) => None,
                    None => Some(Raid {
                        hardware: Some(vec![volume]),
                        software: None,
                    }),
                };
            }),
            _ => self.edit(place, |spec| {
                let hints = RootDeviceHints {
                    serial_number: "S1".into(),
                    ..RootDeviceHints::default()
                };
                spec.root_device_hints = match spec.root_device_hints {
                    Some(_) => None,
                    None => Some(hints),
                };
            }),
        }
    }

    /// First at the BMC, and in the Secret at once or never.
    fn change_password(&mut self, place: usize) {
        self.metals[place].password += 1;
        let password = self.metals[place].password;
        let told = self.dice.percent(60);
        if let Some(object) = &mut self.objects[place] {
            if told {
                object.secret = Some(password);
                object.wake_at = self.now;
            } else if self.dice.percent(30) {
                object.secret = None;
            }
        }
    }

    /// Everything works again, and everybody knows what they want.
    fn calm(&mut self) {
        self.note("calm");
        self.deadly = 0;
        self.flaky = 0;
        self.ironic.failing = 0;
        self.ironic.away = false;
        for place in 0..self.objects.len() {
            let metal = &mut self.metals[place];
            metal.bmc_dead = false;
            metal.deaf = false;
            let password = metal.password;
            let keys = [
                annotations::PAUSED,
                annotations::DETACHED,
                annotations::REBOOT,
                "reboot.metal3.io/user",
            ];
            for key in keys {
                self.annotate(place, key, None);
            }
            self.annotate(place, annotations::RETRY_NOW, Some(""));
            if let Some(object) = &mut self.objects[place] {
                object.secret = Some(password);
            }
        }
    }

    /// Time passes until nobody has anything to do but to look at the power from time to time.
    pub fn settle(&mut self, limit: usize) {
        for _ in 0..limit {
            for node in self.ironic.nodes.keys().cloned().collect::<Vec<_>>() {
                self.ironic.work(&node, &mut self.metals, &mut self.dice);
            }
            self.check();
            let mut quiet = true;
            for place in 0..self.objects.len() {
                let due = self.objects[place]
                    .as_ref()
                    .is_some_and(|object| object.wake_at <= self.now);
                if due {
                    quiet &= self.reconcile(place) == Ended::Waits;
                    self.check();
                }
            }
            if !quiet {
                continue;
            }
            if self.at_rest() {
                return;
            }
            let wake = self
                .objects
                .iter()
                .flatten()
                .map(|object| object.wake_at)
                .min();
            if let Some(wake) = wake {
                self.now = self.now.max(wake);
            }
        }
        panic!("does not settle: {}\n{}", self.reasons(), self.story());
    }

    fn at_rest(&self) -> bool {
        self.objects.iter().flatten().all(|object| {
            let status = &object.host.status;
            let stable = matches!(
                status.state(),
                State::Available | State::Provisioned | State::ExternallyProvisioned
            );
            stable
                && status.error_type.is_none()
                && object.reason.starts_with("a change of the host")
        })
    }

    fn reasons(&self) -> String {
        let reasons = self.objects.iter().flatten().map(|object| {
            format!(
                "{} {:?}: {}",
                object.host.name,
                object.host.status.state(),
                object.reason
            )
        });
        reasons.collect::<Vec<_>>().join("; ")
    }

    fn converge(&mut self) {
        self.settle(4000);
        for place in 0..self.objects.len() {
            let Some(object) = &self.objects[place] else {
                let name = format!("metal~host-{place}");
                assert!(self.ironic.find(&name).is_none(), "{}", self.story());
                continue;
            };
            let host = &object.host;
            assert!(!host.deleting, "{}", self.story());
            let metal = &self.metals[place];
            let wanted = host.spec.image_url();
            let story = self.story();
            assert_eq!(metal.on, host.spec.online, "host-{place} {story}");
            if wanted.is_empty() || (!host.spec.online && host.status.image_url().is_empty()) {
                assert_eq!(
                    host.status.state(),
                    State::Available,
                    "host-{place} {story}"
                );
            } else {
                assert_eq!(
                    host.status.state(),
                    State::Provisioned,
                    "host-{place} {story}"
                );
                assert_eq!(
                    metal.system.as_deref(),
                    Some(wanted),
                    "host-{place} {story}"
                );
            }
        }
    }
}
