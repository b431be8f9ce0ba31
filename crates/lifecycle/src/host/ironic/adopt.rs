//! A node that was made anew becomes active without anything being done to its machine.

use crate::host::pass::{Flow, Halt, Pass};
use crate::host::status::ErrorType;
use crate::host::step::Verb;
use crate::node::State;

impl Pass<'_> {
    pub fn adopted(&self) -> Flow {
        let node = self.node()?;
        match node.provision_state {
            State::Manageable => Err(self.verb(node, Verb::Adopt, vec![])),
            State::Adopting => {
                Err(self.working("Ironic to adopt the node", self.config.pace.short))
            }
            State::AdoptFailed if self.retrying(ErrorType::ProvisionedRegistration) => {
                Err(self.verb(node, Verb::Adopt, vec![]))
            }
            State::AdoptFailed => Err(Halt::Failed(format!(
                "the host could not be adopted: {}",
                node.trouble().unwrap_or("Ironic gave no reason")
            ))),
            State::Enroll | State::Verifying => {
                Err(self.wait("the node to be verified", self.config.pace.short))
            }
            State::Active if node.maintenance && !node.has_fault() => {
                Err(Self::act(vec![Self::clear_maintenance(node)], vec![]))
            }
            State::Active
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
            | State::Rescuing
            | State::RescueWait
            | State::RescueFailed
            | State::Rescue
            | State::Unrescuing
            | State::UnrescueFailed
            | State::Servicing
            | State::ServiceWait
            | State::ServiceHold
            | State::ServiceFailed => Ok(()),
        }
    }
}
