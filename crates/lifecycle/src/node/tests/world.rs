//! A host, its BMC and its agent, as small as they can be: enough for every flow to end.

use std::time::Duration;

use jiff::Timestamp;

use crate::node::{
    BootBy, DeployBy, Drivers, InspectBy, Interface, Outcome, Power, Request, Runner, Settings,
    State, Step, StepKind, StepSpec, Timers, Verb, View, Work, next,
};

pub struct World {
    pub view: View,
    pub timers: Timers,
    pub now: Timestamp,
    /// What was done, in order, in words.
    pub log: Vec<String>,
    /// The agent calls when booted; without it the host is dead.
    pub agent_calls: bool,
    /// Work whose description contains this fails, this often.
    pub breaks: Option<(String, u32, bool)>,
    pub states: Vec<State>,
}

pub const AGENT: &str = "https://192.0.2.7:9999";

pub fn drivers(deploy: DeployBy, inspect: InspectBy, boot: BootBy) -> Drivers {
    Drivers {
        boot,
        deploy,
        inspect,
    }
}

pub fn direct() -> Drivers {
    drivers(DeployBy::Direct, InspectBy::Agent, BootBy::VirtualMedia)
}

pub fn fake() -> Drivers {
    drivers(DeployBy::Fake, InspectBy::Fake, BootBy::Fake)
}

impl World {
    pub fn new(drivers: Drivers, settings: Settings) -> Self {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let view = View::enrolled(drivers, settings, now);
        Self {
            view,
            timers: Timers::default(),
            now,
            log: Vec::new(),
            agent_calls: true,
            breaks: None,
            states: vec![State::Enroll],
        }
    }

    pub fn ask(&mut self, verb: Verb) -> &mut Self {
        self.ask_with(verb, Request::default())
    }

    pub fn ask_with(&mut self, verb: Verb, request: Request) -> &mut Self {
        self.view
            .ask(verb, request, &self.timers, self.now)
            .unwrap();
        self.saw();
        self
    }

    /// Runs until the node rests, and says where.
    pub fn settle(&mut self) -> State {
        for _ in 0..400 {
            if !self.once() {
                return self.view.state;
            }
        }
        panic!(
            "{} does not settle; done so far: {:#?}",
            self.view.state, self.log
        );
    }

    /// One step; false when there is nothing left to do.
    pub fn once(&mut self) -> bool {
        let step = next(&self.view, &self.timers, self.now);
        assert_eq!(
            step,
            next(&self.view, &self.timers, self.now),
            "asking twice gives the same answer"
        );
        match step {
            Step::Done => return false,
            Step::Fail { problem } => self.view.fail(&problem, self.now).unwrap(),
            Step::Do(work) => {
                self.view.starting(&work);
                let outcome = self.perform(&work);
                self.view
                    .record(&work, outcome, &self.timers, self.now)
                    .unwrap();
            }
            Step::Wait { until, .. } => {
                assert!(until > self.now, "a wait ends in the future");
                self.live(until);
            }
        }
        self.saw();
        true
    }

    /// What the world does with a piece of work.
    pub fn perform(&mut self, work: &Work) -> Outcome {
        self.now += Duration::from_secs(1);
        if !matches!(work, Work::Move(_) | Work::Advance) {
            self.log.push(work.describe());
        }
        if let Some((what, times, again)) = &mut self.breaks
            && *times > 0
            && work.describe().contains(what.as_str())
        {
            *times -= 1;
            return Outcome::Failed {
                trouble: "no answer".into(),
                again: *again,
            };
        }
        match work {
            Work::ReadPower => Outcome::Power(Some(Power::Off)),
            Work::FetchSteps(StepKind::Deploy) => {
                let none = |step| StepSpec {
                    priority: 0,
                    ..step
                };
                Outcome::Steps(offered().into_iter().map(none).collect())
            }
            Work::FetchSteps(_) => Outcome::Steps(offered()),
            _ => Outcome::Done,
        }
    }

    /// Time passes; an agent that is up calls.
    fn live(&mut self, until: Timestamp) {
        let up = self.agent_calls && self.view.power == Some(Power::On);
        if !up {
            self.now = until;
            return;
        }
        self.now = until.min(self.now + Duration::from_secs(90));
        if self.view.state == State::InspectWait {
            self.view.inventory_at = Some(self.now);
        }
        self.view.heard(AGENT, self.now);
    }

    fn saw(&mut self) {
        if self.states.last() != Some(&self.view.state) {
            self.states.push(self.view.state);
        }
    }

    pub fn trail(&self) -> String {
        self.states
            .iter()
            .map(|state| state.as_str())
            .collect::<Vec<_>>()
            .join(" > ")
    }
}

pub fn offered() -> Vec<StepSpec> {
    let metadata = StepSpec {
        abortable: true,
        ..StepSpec::new(
            Interface::Deploy,
            "erase_devices_metadata",
            10,
            Runner::Agent,
        )
    };
    vec![
        StepSpec::new(Interface::Deploy, "erase_devices", 0, Runner::Agent),
        metadata,
        StepSpec::new(Interface::Bios, "factory_reset", 0, Runner::Service),
        StepSpec {
            reboot_requested: true,
            ..StepSpec::new(Interface::Raid, "create_configuration", 0, Runner::Service)
        },
    ]
}

pub fn asked(interface: Interface, step: &str) -> StepSpec {
    StepSpec::new(interface, step, 0, Runner::Agent)
}
