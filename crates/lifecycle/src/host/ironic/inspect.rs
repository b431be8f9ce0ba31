//! Finding out what hardware a host has.

use serde_json::Value;

use super::patch::{Patches, text};
use crate::host::annotations::{INSPECT, REBOOT};
use crate::host::bmc;
use crate::host::pass::{Flow, Halt, Pass};
use crate::host::spec::InspectionMode;
use crate::host::status::ErrorType;
use crate::host::step::{Action, Event, Verb};
use crate::host::view::{Look, Node};
use crate::node::State;

const NO_INVENTORY: &str = "Ironic has inspected the host and keeps no inventory of it; \
    look at the node's inspect_interface, and at [inventory]data_backend in Ironic's configuration";

impl<'a> Pass<'a> {
    /// The inventory, once there is one that counts.
    pub fn inspected(&self) -> Flow<&'a Value> {
        let node = self.node()?;
        let pace = self.config.pace;
        match node.provision_state {
            State::Available => Err(self.verb(node, Verb::Manage, vec![])),
            State::Manageable if self.host.wants_inspection() => Err(self.start_inspection(node)),
            State::Manageable => match &self.seen.inventory {
                None => Err(Self::look(Look::Inventory {
                    node: node.uuid.clone(),
                })),
                // Another inspection at once would find as little, and there would be no end of it.
                Some(None)
                    if node.inspection_finished_at.is_some()
                        && !self.retrying(ErrorType::Inspection) =>
                {
                    Err(Halt::Failed(NO_INVENTORY.to_owned()))
                }
                Some(None) => Err(self.start_inspection(node)),
                Some(Some(inventory)) => Ok(inventory),
            },
            State::InspectWait if self.host.reboot(true).force => {
                Err(self.verb(node, Verb::Abort, vec![]))
            }
            State::InspectWait => {
                let fast = self.host.inspection_mode() == InspectionMode::Fast;
                let pause = if fast { pace.short } else { pace.long };
                Err(self.working(
                    "the host to boot the ramdisk and report its hardware",
                    pause,
                ))
            }
            State::Inspecting => Err(self.working("Ironic to inspect the host", pace.long)),
            State::InspectFailed => {
                let trouble = node.trouble().unwrap_or("Ironic gave no reason");
                if trouble.contains("aborted") || self.retrying(ErrorType::Inspection) {
                    return Err(self.start_inspection(node));
                }
                Err(Halt::Failed(trouble.to_owned()))
            }
            State::CleanFailed => Err(self.recover_cleaning(node)),
            State::Enroll
            | State::Verifying
            | State::Cleaning
            | State::CleanWait
            | State::CleanHold
            | State::Deploying
            | State::WaitCallBack
            | State::DeployHold
            | State::DeployFailed
            | State::Active
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
            | State::Servicing
            | State::ServiceWait
            | State::ServiceHold
            | State::ServiceFailed => Err(self.unfit(node, "be inspected")),
        }
    }

    fn start_inspection(&self, node: &Node) -> Halt {
        let mut patch = Patches::default();
        self.patch_properties(&mut patch, node);
        let interface = bmc::inspect_interface(self.host.inspection_mode());
        patch.set(
            "inspect_interface",
            text(node.inspect_interface.as_ref()).as_ref(),
            interface,
        );
        let asked: Vec<String> = [INSPECT, REBOOT]
            .into_iter()
            .filter(|key| {
                let value = self.host.annotations.get(*key);
                value.is_some_and(|value| value != "disabled")
            })
            .map(str::to_owned)
            .collect();
        let mut after = Vec::new();
        let mut events = vec![Event::normal(
            "InspectionStarted",
            "Hardware inspection started",
        )];
        if !asked.is_empty() {
            if self.status().error_type.is_some() {
                let (save, more) = self.saving(self.cleared());
                after.push(save);
                events.extend(more);
            }
            after.push(Action::RemoveAnnotations(asked));
        }
        let before = patch.action(node).into_iter().collect();
        self.verb_and(before, node, Verb::Inspect, after, events)
    }

    /// A failed cleaning is put away before anything else can be asked of the node.
    pub fn recover_cleaning(&self, node: &Node) -> Halt {
        if node.maintenance {
            return Self::act(vec![Self::clear_maintenance(node)], vec![]);
        }
        self.verb(node, Verb::Manage, vec![])
    }

    /// A node in a state it should not be in; it may leave it by itself.
    pub fn unfit(&self, node: &Node, wanted: &str) -> Halt {
        self.wait(
            format!(
                "the node to leave the state {:?}, in which it cannot {wanted}",
                node.provision_state.as_str()
            ),
            self.config.pace.long,
        )
    }
}
