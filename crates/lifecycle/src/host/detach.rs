//! Hands off a host: its node leaves Ironic, its machine runs on.

use super::State;
use super::pass::{Flow, Halt, Pass};
use super::status::{ErrorType, Operational};

impl Pass<'_> {
    pub fn check_detached(&self) -> Flow {
        let status = self.status();
        let detached = status.operational_status == Operational::Detached;
        let Some(detach) = self
            .host
            .detach()
            .filter(|_| status.state() != State::Deleting)
        else {
            if detached || self.retrying(ErrorType::Detach) {
                let mut draft = self.draft();
                if self.retrying(ErrorType::Detach) || status.error_type.is_none() {
                    draft.clear_error();
                } else {
                    draft.status.operational_status = Operational::Error;
                }
                return Err(self.save(draft));
            }
            return Ok(());
        };
        if detached {
            return Err(self.wait("the host to be attached again", self.config.pace.unmanaged));
        }
        let still = match status.state() {
            State::Available | State::Provisioned | State::ExternallyProvisioned => true,
            State::None | State::Unmanaged | State::Deleting => false,
            State::Registering
            | State::MatchProfile
            | State::Inspecting
            | State::Preparing
            | State::Provisioning
            | State::Deprovisioning
            | State::PoweringOff => detach.force,
        };
        if !still {
            return Ok(());
        }
        if self.retrying(ErrorType::Detach) && !self.retry_due(None) {
            let message = &status.error_message;
            return Err(Self::wait_until(
                format!("another try to detach the host: {message}"),
                self.retry_at(),
            ));
        }
        if self.seen.ironic.is_none() {
            return Err(self.ironic_away());
        }
        match self.removed(detach.force) {
            Ok(()) => {
                let mut draft = self.cleared();
                draft.status.operational_status = Operational::Detached;
                draft.status.error_count = 0;
                Err(self.save(draft))
            }
            Err(Halt::Failed(message)) => Err(self.fail(ErrorType::Detach, &message)),
            Err(halt) => Err(halt),
        }
    }
}
