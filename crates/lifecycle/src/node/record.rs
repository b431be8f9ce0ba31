//! How what happens to a node is written down: verbs, calls of the agent, outcomes of work, failures, restarts.

use jiff::Timestamp;

use super::next::past;
use super::script::{Stage, script};
use super::steps::{StepSpec, core_deploy_steps, plan_steps};
use super::view::{
    Agent, AgentSource, Begun, DeployBy, Fault, Impossible, InspectBy, Operation, Power, Request,
    Task, View,
};
use super::work::{Outcome, StepKind, Work};
use super::{Event, Heartbeat, Kind, Problem, Refused, State, Timers, Verb, on_event, on_verb};

impl View {
    /// A client's verb. Refused, it changes nothing.
    pub fn ask(
        &mut self,
        verb: Verb,
        request: Request,
        timers: &Timers,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let to = on_verb(self.state, verb)?;
        let verb = verb.canonical();
        if verb == Verb::Abort && to.kind() == Kind::Failed {
            match self.running_step() {
                Some(step) if !step.abortable && self.state.kind() == Kind::Waiting => {
                    self.operation.abort = true;
                }
                step => {
                    let step = step.map(|step| step.to_string());
                    let problem = Problem::Aborted {
                        state: self.state,
                        step,
                    };
                    self.enter_failed(to, &problem, true, now);
                }
            }
            return Ok(());
        }
        match to.kind() {
            Kind::Stable => self.rest(to, now),
            Kind::Waiting | Kind::Held | Kind::Failed => self.enter(to, now),
            Kind::Working => {
                let task = task_of(to, verb);
                self.begin(task, request, timers, now);
                self.target = verb.target().or(self.target);
                self.enter(to, now);
            }
        }
        self.last_error = None;
        Ok(())
    }

    /// The agent called. What it did to the node.
    pub fn heard(&mut self, url: &str, now: Timestamp) -> Heartbeat {
        let effect = self.state.heartbeat();
        if effect == Heartbeat::Refused {
            return effect;
        }
        if self.maintenance {
            return Heartbeat::Recorded;
        }
        self.agent = Some(Agent {
            url: url.to_string(),
            last_heartbeat: now,
        });
        // How it booted matters no more.
        self.boot_trace = None;
        if self.state.kind() == Kind::Waiting {
            self.since = now;
        }
        effect
    }

    /// The agent was asked after its step and answered: as good as a call, but for what the answer says.
    pub fn answered(&mut self, over: bool, now: Timestamp) {
        if self.state.kind() != Kind::Waiting {
            return;
        }
        if let Some(begun) = &mut self.operation.begun {
            begun.over |= over;
            self.since = now;
            self.boot_trace = None;
        }
    }

    /// The host was found without power while the agent was at work.
    pub fn lost_power(&mut self) {
        let step = self.running_step().map(|step| step.to_string());
        let waits = self.state.kind() == Kind::Waiting && !self.maintenance;
        if waits && step.is_some() && self.operation.failed.is_none() {
            let trace = self.boot_trace.clone();
            self.power = Some(Power::Off);
            self.operation.failed = Some(Problem::PowerLost { step, trace });
        }
    }

    /// Work that may not be done twice is about to be done; keep this before doing it.
    pub fn starting(&mut self, work: &Work) {
        if !work.repeatable() {
            self.operation.doing = Some(work.describe());
        }
    }

    /// The service starts and finds the node as it was kept.
    pub fn restarted(&mut self, timers: &Timers, now: Timestamp) {
        let op = &mut self.operation;
        if let Some(work) = op.doing.take()
            && op.failed.is_none()
        {
            op.failed = Some(Problem::Interrupted { work });
        }
        if self.state.kind() == Kind::Waiting {
            // Nobody could call while the service was away: leave time for two calls.
            op.grace_until = Some(past(now, timers.heartbeat.saturating_mul(2)));
        }
    }

    /// What came of a piece of work that [`super::next`] gave.
    pub fn record(
        &mut self,
        work: &Work,
        outcome: Outcome,
        timers: &Timers,
        now: Timestamp,
    ) -> Result<(), Impossible> {
        self.operation.doing = None;
        if let Work::Move(event) = work {
            return self.moved(*event, timers, now);
        }
        match outcome {
            Outcome::Failed { trouble, again } => {
                self.failed_once(work, trouble, again, timers, now);
            }
            Outcome::Pending => self.pending(timers, now),
            Outcome::Outdated => self.refetch(now),
            Outcome::Steps(steps) => {
                self.plan(&steps);
                self.advance(now);
            }
            Outcome::Power(power) => {
                self.power = power;
                self.advance(now);
            }
            Outcome::Done => self.done(work, now),
        }
        Ok(())
    }

    /// The operation cannot be finished: [`super::next`] said `Fail`.
    pub fn fail(&mut self, problem: &Problem, now: Timestamp) -> Result<(), Impossible> {
        let to = on_event(self.state, Event::Fail).ok_or(Impossible {
            state: self.state,
            event: Event::Fail,
        })?;
        let aborted = matches!(problem, Problem::Aborted { .. });
        self.enter_failed(to, problem, aborted, now);
        Ok(())
    }

    /// The step that is running, if one is.
    pub fn running_step(&self) -> Option<StepSpec> {
        self.operation.begun?;
        self.step_at()
    }

    fn step_at(&self) -> Option<StepSpec> {
        let stage = script(&self.operation).into_iter().nth(self.operation.at);
        if let Some(Stage::AgentStep(step) | Stage::OwnStep(step)) = stage {
            Some(step)
        } else {
            None
        }
    }

    fn moved(&mut self, event: Event, timers: &Timers, now: Timestamp) -> Result<(), Impossible> {
        let to = on_event(self.state, event).ok_or(Impossible {
            state: self.state,
            event,
        })?;
        match event {
            Event::Wait => {}
            Event::Resume => {
                self.operation.grace_until = None;
                let stage = script(&self.operation).into_iter().nth(self.operation.at);
                let awaited = matches!(stage, Some(Stage::AwaitAgent | Stage::AwaitInventory));
                if awaited && self.operation.agent == AgentSource::Due && self.agent.is_none() {
                    // The script with a boot has its first stage where this one waits.
                    self.operation.agent = AgentSource::Fresh;
                } else if awaited {
                    self.advance(now);
                }
            }
            Event::Hold => self.advance(now),
            Event::Clean => self.begin(Task::Clean, Request::default(), timers, now),
            Event::Done | Event::Manage => {
                self.rest(to, now);
                return Ok(());
            }
            Event::Fail => {
                let problem = self
                    .operation
                    .failed
                    .clone()
                    .unwrap_or(Problem::Interrupted {
                        work: "the operation".into(),
                    });
                self.enter_failed(to, &problem, false, now);
                return Ok(());
            }
        }
        self.enter(to, now);
        Ok(())
    }

    fn enter(&mut self, to: State, now: Timestamp) {
        self.state = to;
        self.since = now;
    }

    fn rest(&mut self, to: State, now: Timestamp) {
        self.enter(to, now);
        self.target = None;
        self.operation = Operation::new(Task::Rest, self.drivers, self.settings, now);
    }

    fn enter_failed(&mut self, to: State, problem: &Problem, aborted: bool, now: Timestamp) {
        self.last_error = Some(problem.to_string());
        if !aborted && self.operation.begun.is_some() {
            let fault = match self.operation.task {
                Task::Clean | Task::CleanManual => Some(Fault::Clean),
                Task::Service => Some(Fault::Service),
                Task::Rest
                | Task::Verify
                | Task::Inspect
                | Task::Deploy
                | Task::Delete
                | Task::Adopt
                | Task::Rescue
                | Task::Unrescue
                | Task::Recover => None,
            };
            if fault.is_some() {
                self.fault = fault;
                self.maintenance = true;
            }
        }
        if to.kind() == Kind::Stable {
            return self.rest(to, now);
        }
        let op = &self.operation;
        let recover = Operation {
            failed_task: Some(op.task),
            aborted,
            agent: op.agent,
            ..Operation::new(Task::Recover, op.drivers, op.settings, now)
        };
        self.operation = recover;
        self.enter(to, now);
    }

    fn begin(&mut self, task: Task, request: Request, timers: &Timers, now: Timestamp) {
        let agent = self.agent_for(task, &request, timers, now);
        let mut op = Operation::new(task, self.drivers, self.settings, now);
        op.agent = agent;
        if agent == AgentSource::NotNeeded {
            op.steps.clone_from(&request.steps);
        }
        op.asked = request.steps;
        self.operation = op;
        self.boot_trace = None;
    }

    fn agent_for(
        &self,
        task: Task,
        request: &Request,
        timers: &Timers,
        now: Timestamp,
    ) -> AgentSource {
        let in_band =
            || !request.disable_ramdisk && request.steps.iter().any(|step| step.requires_ramdisk);
        let real = self.drivers.deploy != DeployBy::Fake;
        let needed = match task {
            Task::Clean => real && self.settings.automated_clean,
            Task::CleanManual | Task::Service => real && in_band(),
            Task::Deploy => matches!(
                self.drivers.deploy,
                DeployBy::Direct | DeployBy::CustomAgent
            ),
            Task::Rescue => real,
            Task::Inspect => self.drivers.inspect == InspectBy::Agent,
            Task::Rest
            | Task::Verify
            | Task::Delete
            | Task::Adopt
            | Task::Unrescue
            | Task::Recover => false,
        };
        // An agent that is up has inspected already and does not do it again; an active host runs its own system.
        let may_run = matches!(task, Task::Clean | Task::CleanManual | Task::Deploy);
        match needed {
            false => AgentSource::NotNeeded,
            true if may_run && self.fast_track(timers, now) => AgentSource::Running,
            true if may_run && self.agent_is_due(timers, now) => AgentSource::Due,
            true => AgentSource::Fresh,
        }
    }

    /// Is there an agent up that the next operation can use as it is?
    pub fn fast_track(&self, timers: &Timers, now: Timestamp) -> bool {
        let recent = |agent: &Agent| now <= past(agent.last_heartbeat, timers.heartbeat);
        self.settings.fast_track
            && self.power == Some(Power::On)
            && self.last_error.is_none()
            && self.agent.as_ref().is_some_and(recent)
    }

    /// Between its report and its first call an agent needs a moment; whoever is quicker must not boot it again.
    fn agent_is_due(&self, timers: &Timers, now: Timestamp) -> bool {
        let reported = self.inventory_at;
        self.settings.fast_track
            && self.drivers.inspect == InspectBy::Agent
            && self.power == Some(Power::On)
            && self.last_error.is_none()
            && self.agent.is_none()
            && reported.is_some_and(|at| now <= past(at, timers.heartbeat))
    }

    fn plan(&mut self, offered: &[StepSpec]) {
        let op = &mut self.operation;
        let kind = match op.task {
            Task::Deploy => StepKind::Deploy,
            Task::CleanManual => StepKind::CleanManual,
            Task::Service => StepKind::Service,
            Task::Clean | Task::Rest | Task::Verify | Task::Inspect | Task::Delete => {
                StepKind::Clean
            }
            Task::Adopt | Task::Rescue | Task::Unrescue | Task::Recover => StepKind::Clean,
        };
        let mut all = offered.to_vec();
        if kind == StepKind::Deploy {
            let core = core_deploy_steps(op.drivers.deploy == DeployBy::Direct);
            all.retain(|offer| {
                !core
                    .iter()
                    .any(|step| step.interface == offer.interface && step.step == offer.step)
            });
            all.extend(core);
        }
        match plan_steps(kind, &all, &op.asked) {
            Ok(steps) => op.steps = steps,
            Err(problem) => op.failed = Some(problem),
        }
    }

    fn done(&mut self, work: &Work, now: Timestamp) {
        match work {
            Work::PowerOff | Work::StopAgent => {
                self.power = Some(Power::Off);
                self.agent = None;
            }
            Work::ForgetAgent => self.agent = None,
            Work::PowerOn => self.booted(now),
            Work::PowerCycle | Work::StartInstalled => {
                self.agent = None;
                self.booted(now);
            }
            Work::BootAgain { .. } => {
                self.agent = None;
                return self.booted(now);
            }
            Work::StartStep(_) | Work::WriteImage(_) => {
                self.operation.begun = Some(Begun {
                    at: now,
                    heard: self.agent.as_ref().map(|agent| agent.last_heartbeat),
                    over: false,
                });
                self.operation.calm();
                return;
            }
            Work::Validate(_)
            | Work::ReadPower
            | Work::RunVerifySteps
            | Work::ReadFacts
            | Work::PrepareBoot { .. }
            | Work::SetBootDevice { .. }
            | Work::TearDownBoot { .. }
            | Work::FetchSteps(_)
            | Work::CacheImage
            | Work::CheckStep(_)
            | Work::RunStep(_)
            | Work::InstallBootloader
            | Work::StartInspection
            | Work::RecordInventory
            | Work::Unbind
            | Work::FinalizeRescue
            | Work::CollectLogs
            | Work::Simulate(_)
            | Work::Move(_)
            | Work::Advance => {}
        }
        self.advance(now);
    }

    fn booted(&mut self, now: Timestamp) {
        self.power = Some(Power::On);
        self.operation.booted_at = Some(now);
        self.operation.boots += 1;
    }

    fn advance(&mut self, now: Timestamp) {
        let step = self.running_step();
        let state = self.state;
        let op = &mut self.operation;
        op.at += 1;
        op.stage_since = now;
        op.begun = None;
        op.calm();
        if op.abort && op.failed.is_none() {
            op.failed = Some(Problem::Aborted {
                state,
                step: step.map(|step| step.to_string()),
            });
        }
    }

    fn pending(&mut self, timers: &Timers, now: Timestamp) {
        let heard = self.agent.as_ref().map(|agent| agent.last_heartbeat);
        let polled = self.state.kind() == Kind::Working;
        let step = self.step_at();
        let op = &mut self.operation;
        let at = op.begun.map_or(now, |begun| begun.at);
        op.calm();
        op.begun = Some(Begun {
            at,
            heard,
            over: false,
        });
        if polled {
            op.retry_at = Some(past(now, timers.step_poll));
            op.trouble = step.map(|step| format!("step {step}, which goes on in the background"));
        }
    }

    /// The agent's steps changed under us: from the fetching of steps on, all is done again. What a client asked for by
    /// hand is not: the step at hand is run once more.
    fn refetch(&mut self, now: Timestamp) {
        if matches!(self.operation.task, Task::CleanManual | Task::Service) {
            self.operation.begun = None;
            self.operation.calm();
            return;
        }
        let fetch = |stage: &Stage| matches!(stage, Stage::Do(Work::FetchSteps(_)));
        let at = script(&self.operation).iter().position(fetch).unwrap_or(0);
        let op = &mut self.operation;
        op.at = at;
        op.stage_since = now;
        op.begun = None;
        op.steps.clear();
        op.calm();
    }

    fn failed_once(
        &mut self,
        work: &Work,
        trouble: String,
        again: bool,
        timers: &Timers,
        now: Timestamp,
    ) {
        if self.state.kind() == Kind::Failed {
            // Putting away goes on with the rest; what failed is told beside the reason.
            let told = format!("; then {} failed: {trouble}", work.describe());
            self.last_error.get_or_insert_default().push_str(&told);
            return self.advance(now);
        }
        if matches!(work, Work::BootAgain { .. }) {
            // The deadline of the wait decides, not this.
            return self.booted(now);
        }
        let step = if let Work::RunStep(step) | Work::CheckStep(step) = work {
            Some(step.to_string())
        } else {
            None
        };
        let op = &mut self.operation;
        op.tries += 1;
        if again && op.tries < timers.tries {
            op.retry_at = Some(past(now, timers.pause(op.tries)));
            op.trouble = Some(format!("{} failed: {trouble}", work.describe()));
            return;
        }
        op.failed = Some(match step {
            Some(step) if !again => {
                // The step itself failed, so it was running.
                op.begun.get_or_insert(Begun {
                    at: now,
                    heard: None,
                    over: false,
                });
                Problem::Step { step, trouble }
            }
            Some(_) | None => Problem::Work {
                work: work.describe(),
                tries: op.tries,
                trouble,
            },
        });
    }
}

/// The task a verb begins on entering a working state.
fn task_of(to: State, verb: Verb) -> Task {
    match to {
        State::Verifying => Task::Verify,
        State::Inspecting => Task::Inspect,
        State::Cleaning if verb == Verb::Clean => Task::CleanManual,
        State::Cleaning => Task::Clean,
        State::Deploying => Task::Deploy,
        State::Deleting => Task::Delete,
        State::Adopting => Task::Adopt,
        State::Rescuing => Task::Rescue,
        State::Unrescuing => Task::Unrescue,
        State::Servicing => Task::Service,
        State::Enroll
        | State::Manageable
        | State::Available
        | State::Active
        | State::Rescue
        | State::Error
        | State::InspectWait
        | State::CleanWait
        | State::WaitCallBack
        | State::RescueWait
        | State::ServiceWait
        | State::CleanHold
        | State::DeployHold
        | State::ServiceHold
        | State::InspectFailed
        | State::CleanFailed
        | State::DeployFailed
        | State::AdoptFailed
        | State::RescueFailed
        | State::UnrescueFailed
        | State::ServiceFailed => Task::Rest,
    }
}
