//! One look at a host: what is known, and the ways a look can end.

use std::time::Duration;

use jiff::Timestamp;

use super::conditions;
use super::draft::{Draft, backoff};
use super::status::{ErrorType, Operational, Status};
use super::step::{Action, Event, Step, Verb};
use super::view::{Config, Host, Look, Node, Observed};

#[derive(Debug, Clone, Copy)]
pub(super) struct Pass<'a> {
    pub host: &'a Host,
    pub seen: &'a Observed,
    pub config: &'a Config,
    pub now: Timestamp,
}

/// What a part of the decision comes to: it goes on, or the pass ends here.
pub(super) type Flow<T = ()> = Result<T, Halt>;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Halt {
    Step(Box<Step>),
    /// It failed; who called knows what kind of error that is.
    Failed(String),
}

impl From<Step> for Halt {
    fn from(step: Step) -> Self {
        Self::Step(Box::new(step))
    }
}

impl<'a> Pass<'a> {
    pub fn status(&self) -> &'a Status {
        &self.host.status
    }

    pub fn draft(&self) -> Draft<'a> {
        Draft::new(self.host)
    }

    pub fn look(look: Look) -> Halt {
        Step::Look(look).into()
    }

    pub fn act(actions: Vec<Action>, events: Vec<Event>) -> Halt {
        Step::Do { actions, events }.into()
    }

    pub fn wait(&self, reason: impl Into<String>, after: Duration) -> Halt {
        Self::wait_until(reason, later(self.now, after))
    }

    pub fn wait_until(reason: impl Into<String>, until: Timestamp) -> Halt {
        Step::Wait {
            reason: reason.into(),
            until,
        }
        .into()
    }

    /// Work goes on, so whatever went wrong before is over.
    pub fn working(&self, reason: impl Into<String>, after: Duration) -> Halt {
        if self.status().error_type.is_some() {
            return self.save(self.cleared());
        }
        self.wait(reason, after)
    }

    pub fn cleared(&self) -> Draft<'a> {
        let mut draft = self.draft();
        draft.clear_error();
        draft
    }

    pub fn save(&self, draft: Draft<'_>) -> Halt {
        let (action, events) = self.saving(draft);
        Self::act(vec![action], events)
    }

    /// The write of a changed status, with the conditions that belong to it.
    pub fn saving(&self, draft: Draft<'_>) -> (Action, Vec<Event>) {
        let Draft {
            mut status, events, ..
        } = draft;
        status.last_updated = Some(self.now);
        let retry_at = retry_at(&status, self.host, self.config, self.now);
        conditions::refresh(
            &mut status,
            self.host,
            self.known_node(),
            retry_at,
            self.now,
        );
        (Action::Save(Box::new(status)), events)
    }

    pub fn fail(&self, kind: ErrorType, message: &str) -> Halt {
        let mut draft = self.draft();
        draft.set_error(kind, message);
        self.save(draft)
    }

    /// As [`Self::fail`], for what only a change of an object can mend: written down once.
    pub fn fail_once(
        &self,
        kind: ErrorType,
        message: &str,
        event: &'static str,
        again: Duration,
    ) -> Halt {
        let status = self.status();
        if status.error_type == Some(kind)
            && status.error_message == message
            && status.operational_status == Operational::Error
        {
            return self.wait(message, again);
        }
        let mut draft = self.draft();
        draft.set_error(kind, message);
        draft.events.push(Event::warning(event, message));
        let (save, events) = self.saving(draft);
        Self::act(vec![tried_again_at_once(save)], events)
    }

    /// The node, where it was looked at.
    pub fn known_node(&self) -> Option<&'a Node> {
        self.seen.node.as_ref()?.as_ref()
    }

    /// Asks for a provision state. Nodes with a fault are Ironic's own to mend; maintenance by hand is ended first.
    pub fn verb(&self, node: &Node, verb: Verb, events: Vec<Event>) -> Halt {
        self.verb_and(vec![], node, verb, vec![], events)
    }

    pub fn verb_and(
        &self,
        before: Vec<Action>,
        node: &Node,
        verb: Verb,
        after: Vec<Action>,
        mut events: Vec<Event>,
    ) -> Halt {
        if node.has_fault() {
            let fault = node.fault.as_deref().unwrap_or_default();
            return self.wait(
                format!("Ironic to recover the node from {fault:?}"),
                self.config.pace.long,
            );
        }
        if node.maintenance {
            return Self::act(vec![Self::clear_maintenance(node)], vec![]);
        }
        if let Err(halt) = self.capacity_for(node, &verb) {
            return halt;
        }
        let mut actions = before;
        actions.push(Action::Provision {
            node: node.uuid.clone(),
            verb,
        });
        let saves = after.iter().any(|action| matches!(action, Action::Save(_)));
        if !saves && self.status().error_type.is_some() {
            let (save, more) = self.saving(self.cleared());
            actions.push(save);
            events.extend(more);
        }
        actions.extend(after);
        Self::act(actions, events)
    }

    pub fn clear_maintenance(node: &Node) -> Action {
        Action::ClearMaintenance {
            node: node.uuid.clone(),
        }
    }

    /// This kind of error was recorded, and it is time to try again.
    pub fn retrying(&self, kind: ErrorType) -> bool {
        self.status().error_type == Some(kind)
    }

    /// When a failed host is tried again by itself.
    pub fn retry_at(&self) -> Timestamp {
        retry_at(self.status(), self.host, self.config, self.now)
    }
}

/// Marks a status that is about to be written: its error was seen at no generation of the host, so it is not waited
/// out.
pub(super) fn tried_again_at_once(action: Action) -> Action {
    let Action::Save(mut status) = action else {
        return action;
    };
    let ready = status
        .conditions
        .iter_mut()
        .find(|seen| seen.kind == "Ready");
    if let Some(ready) = ready {
        ready.observed_generation = 0;
    }
    Action::Save(status)
}

pub(super) fn retry_at(status: &Status, host: &Host, config: &Config, now: Timestamp) -> Timestamp {
    let pause = backoff(config.pace.backoff, status.error_count, &host.uid);
    later(status.last_updated.unwrap_or(now), pause)
}

pub(super) fn later(now: Timestamp, after: Duration) -> Timestamp {
    now.checked_add(after).unwrap_or(Timestamp::MAX)
}
