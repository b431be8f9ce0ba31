//! How a host goes away: deprovisioned, off, out of Ironic.

use super::State;
use super::ironic::PowerOff;
use super::pass::{Flow, Halt, Pass};
use super::status::{CredentialsStatus, ErrorType, Operational};
use super::step::{Action, Event};

/// So many failures, and the host goes without what could not be done.
const PATIENCE: u32 = 3;

impl Pass<'_> {
    /// Turns a host that is to be deleted onto the way out.
    pub fn check_delete(&self) -> Flow {
        if !self.host.deleting {
            return Ok(());
        }
        let status = self.status();
        let state = status.state();
        if state == State::Deleting {
            return Ok(());
        }
        let detached = status.operational_status == Operational::Detached;
        match self.host.detach() {
            Some(detach) if detach.delay_delete => {
                if detached {
                    return Err(self.wait(
                        "the host to be attached again: it is detached, and its deletion delayed",
                        self.config.pace.unmanaged,
                    ));
                }
                return Ok(());
            }
            Some(_) => return Err(self.go(State::Deleting)),
            // Attached again first, then deleted.
            None if detached => return Ok(()),
            None => {}
        }
        let gave_up =
            status.error_type == Some(ErrorType::Registration) && status.error_count > PATIENCE;
        let to = match state {
            State::None | State::Unmanaged | State::Registering => State::Deleting,
            State::Provisioning | State::Provisioned => State::Deprovisioning,
            State::Deprovisioning | State::PoweringOff if gave_up => State::Deleting,
            State::Deprovisioning | State::PoweringOff | State::Deleting => return Ok(()),
            State::MatchProfile
            | State::Inspecting
            | State::Preparing
            | State::Available
            | State::ExternallyProvisioned => State::PoweringOff,
        };
        Err(self.go(to))
    }

    fn go(&self, to: State) -> Halt {
        let mut draft = self.draft();
        draft.finish(to, self.now);
        self.save(draft)
    }

    /// Off, as a host that is given back should be.
    pub fn powering_off(&self) -> Halt {
        if self.host.spec.disable_power_off {
            return self.off();
        }
        match self.find_node() {
            Err(halt) => return halt,
            // Nobody to ask: there is no node, and no credentials to make one.
            Ok(None) => return self.go(State::Deleting),
            Ok(Some(_)) => {}
        }
        let force = self.retrying(ErrorType::PowerManagement);
        match self.powered_off(PowerOff { hard: true, force }) {
            Ok(()) => self.off(),
            Err(Halt::Failed(message)) if self.status().error_count > PATIENCE => {
                let mut draft = self.draft();
                draft.finish(State::Deleting, self.now);
                let note = format!("Deleted without powering it off: {message}");
                draft
                    .events
                    .push(Event::warning("PowerManagementError", note));
                self.save(draft)
            }
            Err(Halt::Failed(message)) => self.fail(ErrorType::PowerManagement, &message),
            Err(halt) => halt,
        }
    }

    fn off(&self) -> Halt {
        let mut draft = self.draft();
        draft.status.powered_on = false;
        draft.finish(State::Deleting, self.now);
        self.save(draft)
    }

    /// A deprovisioning for good that fails too often is left at that.
    pub fn deprovisioning_failed(&self, message: &str) -> Halt {
        if self.host.deleting && self.status().error_count > PATIENCE {
            let mut draft = self.draft();
            draft.finish(State::PoweringOff, self.now);
            let note = format!("Deleted without deprovisioning it: {message}");
            draft.events.push(Event::warning("ProvisioningError", note));
            return self.save(draft);
        }
        self.fail(ErrorType::Provisioning, message)
    }

    /// Out of Ironic, and free.
    pub fn deleting(&self) -> Halt {
        let status = self.status();
        let never_tried = status.provisioning.id.is_empty()
            && status.tried_credentials == CredentialsStatus::default();
        if !never_tried {
            if self.seen.ironic.is_none() {
                return self.ironic_away();
            }
            if let Err(halt) = self.removed(true) {
                return match halt {
                    Halt::Failed(why) => self.wait(why, self.config.pace.long),
                    Halt::Step(step) => Halt::Step(step),
                };
            }
        }
        Self::act(vec![Action::Release], vec![])
    }
}
