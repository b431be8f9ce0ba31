//! Taking a system off a host.

use serde_json::Value;

use super::patch::Patches;
use crate::host::pass::{Flow, Halt, Pass};
use crate::host::spec::CleaningMode;
use crate::host::status::ErrorType;
use crate::host::step::{Event, Verb};
use crate::host::view::Node;
use crate::node::State;

impl Pass<'_> {
    pub fn deprovisioned(&self) -> Flow {
        let node = self.node()?;
        let pace = self.config.pace;
        let again = self.retrying(ErrorType::Provisioning);
        let trouble = || node.trouble().unwrap_or("Ironic gave no reason");
        match node.provision_state {
            State::Available => Ok(()),
            State::Active
            | State::DeployFailed
            | State::WaitCallBack
            | State::DeployHold
            | State::RescueWait
            | State::RescueFailed
            | State::Rescue
            | State::UnrescueFailed
            | State::ServiceWait
            | State::ServiceFailed => Err(self.undeploy(node)),
            State::Error if again => Err(self.undeploy(node)),
            State::Error => Err(Halt::Failed(format!(
                "deprovisioning failed: {}",
                trouble()
            ))),
            State::CleanFailed if again => Err(self.recover_cleaning(node)),
            State::CleanFailed => Err(Halt::Failed(format!("cleaning failed: {}", trouble()))),
            State::Manageable => Err(self.verb(node, Verb::Provide, vec![])),
            State::InspectFailed | State::AdoptFailed => Err(self.verb(node, Verb::Manage, vec![])),
            State::InspectWait | State::CleanHold | State::ServiceHold => {
                Err(self.verb(node, Verb::Abort, vec![]))
            }
            State::Deleting | State::Cleaning | State::CleanWait | State::Deploying => Err(self
                .working(
                    "Ironic to take the system off and clean the disks",
                    pace.long,
                )),
            State::Enroll
            | State::Verifying
            | State::Inspecting
            | State::Adopting
            | State::Rescuing
            | State::Unrescuing
            | State::Servicing => Err(self.unfit(node, "be deprovisioned")),
        }
    }

    fn undeploy(&self, node: &Node) -> Halt {
        if let Some(patch) = self.cleaning_patch(node) {
            return Self::act(vec![patch], vec![]);
        }
        let note = "Image deprovisioning started";
        self.verb(
            node,
            Verb::Deleted,
            vec![Event::normal("DeprovisioningStarted", note)],
        )
    }

    fn cleaning_patch(&self, node: &Node) -> Option<crate::host::Action> {
        let mut patch = Patches::default();
        let wanted = self.host.spec.automated_cleaning_mode != CleaningMode::Disabled;
        patch.set(
            "automated_clean",
            node.automated_clean.map(Value::Bool).as_ref(),
            wanted,
        );
        patch.action(node)
    }
}
