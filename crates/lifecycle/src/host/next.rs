//! The next step for a host. Asking twice gives the same answer.

use jiff::Timestamp;

use super::State;
use super::annotations::RETRY_NOW;
use super::conditions;
use super::pass::{Flow, Halt, Pass, tried_again_at_once};
use super::status::{CredentialsStatus, ErrorType, Operational};
use super::step::{Action, Event, Step, Trouble};
use super::told::Waiting;
use super::view::{Config, Host, Observed};

pub fn next(host: &Host, seen: &Observed, config: &Config, now: Timestamp) -> Step {
    let pass = Pass {
        host,
        seen,
        config,
        now,
    };
    match pass.decide() {
        Halt::Step(step) => pass.with_conditions(*step),
        // Every failure was given a kind on its way here; this is the kind of those that could not be.
        Halt::Failed(message) => into_step(pass.fail(ErrorType::Registration, &message)),
    }
}

/// What to do when an action of a step did not go well.
pub fn troubled(
    host: &Host,
    seen: &Observed,
    config: &Config,
    now: Timestamp,
    action: &Action,
    trouble: &Trouble,
) -> Step {
    let pass = Pass {
        host,
        seen,
        config,
        now,
    };
    if let Some(halt) = pass.disc_troubled(action, trouble) {
        return into_step(halt);
    }
    let pace = config.pace;
    let halt = match trouble {
        Trouble::Busy => pass.wait("the node or the object to be free", pace.short),
        Trouble::Overtaken { state } => pass.wait(
            format!("another look at the node, which became {state} meanwhile"),
            pace.short,
        ),
        Trouble::Unreachable { message } => pass.wait(
            format!("Ironic or Kubernetes, which did not answer: {message}"),
            pace.long,
        ),
        // Nothing is left of a host that is going but its node; its errors are of no use to anyone.
        Trouble::Refused { message } if host.status.state() == State::Deleting => {
            pass.wait(format!("Ironic, which refused: {message}"), pace.not_ready)
        }
        Trouble::Refused { message } if action.is_ironic() => {
            pass.fail(kind_of(host, action), message)
        }
        Trouble::Refused { message } => pass.wait(
            format!("Kubernetes, which refused: {message}"),
            pace.not_ready,
        ),
    };
    into_step(halt)
}

fn kind_of(host: &Host, action: &Action) -> ErrorType {
    if pass_detaches(host) {
        return ErrorType::Detach;
    }
    if matches!(action, Action::Power { .. }) {
        return ErrorType::PowerManagement;
    }
    let registers = matches!(
        action,
        Action::CreateNode(_) | Action::CreatePort { .. } | Action::PatchDriverInfo { .. }
    );
    match host.status.state() {
        _ if registers => ErrorType::Registration,
        State::None | State::Unmanaged | State::Registering => ErrorType::Registration,
        State::Inspecting => ErrorType::Inspection,
        State::MatchProfile | State::Preparing | State::Available => ErrorType::Preparation,
        State::Provisioning | State::Deprovisioning => ErrorType::Provisioning,
        State::Provisioned | State::ExternallyProvisioned => ErrorType::ProvisionedRegistration,
        State::PoweringOff => ErrorType::PowerManagement,
        State::Deleting => ErrorType::Detach,
    }
}

/// The node of a host at rest is being taken out of Ironic: nothing else is asked of it.
fn pass_detaches(host: &Host) -> bool {
    let at_rest = matches!(
        host.status.state(),
        State::Available | State::Provisioned | State::ExternallyProvisioned
    );
    let detached = host.status.operational_status == Operational::Detached;
    host.detach().is_some_and(|detach| at_rest || detach.force) && !detached
}

fn into_step(halt: Halt) -> Step {
    match halt {
        Halt::Step(step) => *step,
        Halt::Failed(message) => unreachable!("a failure that was given a kind: {message}"),
    }
}

impl Pass<'_> {
    fn decide(&self) -> Halt {
        match self.before_the_state() {
            Err(halt) => halt,
            Ok(()) => self.handle(),
        }
    }

    /// What holds in every state.
    fn before_the_state(&self) -> Flow {
        if self.host.is_paused() {
            return Err(Step::Done.into());
        }
        self.groundwork()?;
        self.check_delete()?;
        self.check_detached()?;
        let state = self.status().state();
        let needs_node = match state {
            State::None | State::Unmanaged | State::MatchProfile | State::Deleting => false,
            State::Registering
            | State::Inspecting
            | State::Preparing
            | State::Available
            | State::Provisioning
            | State::Provisioned
            | State::ExternallyProvisioned
            | State::Deprovisioning
            | State::PoweringOff => true,
        };
        if !needs_node {
            return Ok(());
        }
        let secret = self.secret()?;
        self.wait_out_error(secret.as_ref())?;
        self.check_delayed()?;
        if self.seen.ironic.is_none() {
            return Err(self.ironic_away());
        }
        match &secret {
            Some(secret) => self.ensure_registered(secret),
            None => Ok(()),
        }
    }

    /// After an error a host is left alone for a while, unless something was changed to mend it.
    fn wait_out_error(&self, secret: Option<&CredentialsStatus>) -> Flow {
        let status = self.status();
        let asked = self.host.annotations.contains_key(RETRY_NOW);
        if asked {
            let mut actions = Vec::new();
            let mut events = Vec::new();
            if status.error_type.is_some() || status.provisioning_fail_count > 0 {
                let mut draft = self.draft();
                draft.status.error_count = 0;
                draft.status.provisioning_fail_count = 0;
                let note = "The error is not waited out: a retry was asked for";
                draft.events.push(Event::normal("RetryNow", note));
                let (save, more) = self.saving(draft);
                actions.push(tried_again_at_once(save));
                events.extend(more);
            }
            actions.push(Action::RemoveAnnotations(vec![RETRY_NOW.to_owned()]));
            return Err(Self::act(actions, events));
        }
        if status.error_type.is_none() || self.retry_due(secret) {
            return Ok(());
        }
        Err(Self::wait_until(
            format!("another try after the error: {}", status.error_message),
            self.retry_at(),
        ))
    }

    pub fn retry_due(&self, secret: Option<&CredentialsStatus>) -> bool {
        let status = self.status();
        let ready = status.conditions.iter().find(|seen| seen.kind == "Ready");
        let edited = ready.is_none_or(|seen| seen.observed_generation != self.host.generation);
        let fresh = self.retrying(ErrorType::Registration)
            && secret.is_some_and(|secret| *secret != status.tried_credentials);
        edited || fresh || self.retry_at() <= self.now
    }

    /// Conditions follow the node and the host even while there is nothing else to do.
    fn with_conditions(&self, step: Step) -> Step {
        let Step::Wait { reason, .. } = &step else {
            return step;
        };
        let status = self.status();
        // Whether an error is to be tried again is read off a condition.
        if status.last_updated.is_none() || status.error_type.is_some() {
            return step;
        }
        let mut fresh = status.clone();
        let node = self.known_node();
        conditions::refresh(&mut fresh, self.host, node, self.retry_at(), self.now);
        conditions::tell(&mut fresh, &Waiting::new(reason, node));
        if fresh.conditions == status.conditions {
            return step;
        }
        Step::Do {
            actions: vec![Action::Save(Box::new(fresh))],
            events: vec![],
        }
    }
}
