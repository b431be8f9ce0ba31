//! Taking a node out of Ironic. The machine is not touched.

use super::patch::Patches;
use crate::host::pass::{Flow, Halt, Pass};
use crate::host::step::{Action, Verb};
use crate::host::view::Node;
use crate::node::State;

impl Pass<'_> {
    /// Ends well once there is no node. With `force`, whatever waits for the host is cut short.
    pub fn removed(&self, force: bool) -> Flow {
        let Some(node) = self.find_node()? else {
            return Ok(());
        };
        let pace = self.config.pace;
        match node.provision_state {
            State::Verifying => Err(self.wait("the node to be verified", pace.short)),
            State::Enroll => Err(Self::delete(node)),
            State::Available | State::Manageable => {
                if node.instance_uuid.is_some() {
                    let mut patch = Patches::default();
                    patch.remove("instance_uuid");
                    return Err(Self::act(patch.action(node).into_iter().collect(), vec![]));
                }
                Err(Self::delete(node))
            }
            State::Deploying
            | State::Cleaning
            | State::Inspecting
            | State::Servicing
            | State::Deleting
            | State::Adopting
            | State::Rescuing
            | State::Unrescuing => {
                Err(self.wait("Ironic to finish what it does to the node", pace.long))
            }
            State::InspectWait | State::CleanWait | State::ServiceWait if force => {
                Err(self.verb(node, Verb::Abort, vec![]))
            }
            State::WaitCallBack if force && self.seen.ironic.is_some_and(|minor| minor >= 110) => {
                Err(self.verb(node, Verb::Abort, vec![]))
            }
            State::WaitCallBack if force => Err(self.verb(node, Verb::Deleted, vec![])),
            State::InspectWait
            | State::CleanWait
            | State::ServiceWait
            | State::WaitCallBack
            | State::RescueWait => Err(self.wait(
                "the host to answer Ironic, or Ironic to give up on it",
                pace.long,
            )),
            State::InspectFailed
            | State::CleanHold
            | State::CleanFailed
            | State::DeployHold
            | State::DeployFailed
            | State::Active
            | State::Error
            | State::AdoptFailed
            | State::RescueFailed
            | State::Rescue
            | State::UnrescueFailed
            | State::ServiceHold
            | State::ServiceFailed => {
                if !node.maintenance {
                    // Such a node can be deleted in maintenance only.
                    return Err(Self::act(
                        vec![Action::SetMaintenance {
                            node: node.uuid.clone(),
                            reason: "the host is being removed from Ironic".into(),
                        }],
                        vec![],
                    ));
                }
                Err(Self::delete(node))
            }
        }
    }

    fn delete(node: &Node) -> Halt {
        Self::act(
            vec![Action::DeleteNode {
                node: node.uuid.clone(),
            }],
            vec![],
        )
    }
}
