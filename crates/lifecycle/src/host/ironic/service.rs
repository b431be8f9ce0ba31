//! Changing the firmware of a host that is in use, while it is off anyway.

use crate::host::firmware;
use crate::host::pass::{Flow, Halt, Pass};
use crate::host::status::{ErrorType, Operational};
use crate::host::step::{Action, Verb};
use crate::node::State;

impl Pass<'_> {
    /// Ends well once there is nothing to service.
    pub fn serviced(&self) -> Flow {
        let node = self.node()?;
        let pace = self.config.pace;
        let again = self.retrying(ErrorType::Servicing);
        match node.provision_state {
            State::Active => {
                let steps = firmware::service_steps(self, node)?;
                if steps.is_empty() {
                    return self.leave_servicing();
                }
                // Said first, so that a ramdisk is there when it is booted.
                if self.status().operational_status != Operational::Servicing {
                    let mut draft = self.draft();
                    draft.clear_error();
                    draft.status.operational_status = Operational::Servicing;
                    return Err(self.save(draft));
                }
                let mut after = Vec::new();
                if let Some(components) = &self.seen.firmware_components
                    && components.applied != components.wanted
                {
                    after.push(Action::SaveFirmwareUpdates(components.wanted.clone()));
                }
                Err(self.verb_and(vec![], node, Verb::Service(steps), after, vec![]))
            }
            State::Servicing => Err(self.working("the firmware to be changed", pace.long)),
            State::ServiceWait if !firmware::service_wanted(self) => {
                Err(self.verb(node, Verb::Abort, vec![]))
            }
            State::ServiceWait => {
                Err(self.working("the host to boot the ramdisk for servicing", pace.long))
            }
            State::ServiceFailed if again || !firmware::service_wanted(self) => {
                if node.maintenance {
                    return Err(Self::act(vec![Self::clear_maintenance(node)], vec![]));
                }
                // To active, from where it begins again, or not.
                Err(self.verb(node, Verb::Abort, vec![]))
            }
            State::ServiceFailed => Err(Halt::Failed(
                node.trouble().unwrap_or("Ironic gave no reason").to_owned(),
            )),
            State::Enroll
            | State::Verifying
            | State::Manageable
            | State::Available
            | State::Inspecting
            | State::InspectWait
            | State::InspectFailed
            | State::Cleaning
            | State::CleanWait
            | State::CleanHold
            | State::CleanFailed
            | State::Deploying
            | State::WaitCallBack
            | State::DeployHold
            | State::DeployFailed
            | State::Deleting
            | State::Error
            | State::Adopting
            | State::AdoptFailed
            | State::Rescuing
            | State::RescueWait
            | State::RescueFailed
            | State::Rescue
            | State::Unrescuing
            | State::UnrescueFailed
            | State::ServiceHold => Ok(()),
        }
    }

    fn leave_servicing(&self) -> Flow {
        if self.status().operational_status != Operational::Servicing {
            return Ok(());
        }
        let mut draft = self.draft();
        draft.clear_error();
        draft.status.operational_status = Operational::Ok;
        draft.status.error_count = 0;
        Err(self.save(draft))
    }
}
