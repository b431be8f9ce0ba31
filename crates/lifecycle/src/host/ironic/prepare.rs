//! Getting a host ready: RAID, firmware settings and firmware, by manual cleaning.

use serde_json::Value;

use super::patch::{Patches, text};
use crate::host::firmware;
use crate::host::hints::RootDeviceHints;
use crate::host::pass::{Flow, Halt, Pass};
use crate::host::raid::{self, Raid};
use crate::host::status::ErrorType;
use crate::host::step::{Action, StepCall, Verb};
use crate::host::view::Node;
use crate::host::{bmc, hints};
use crate::node::State;

/// What is to be set up on a host before a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    pub raid: Option<Raid>,
    pub hints: Option<RootDeviceHints>,
}

impl Pass<'_> {
    pub fn wanted_settings(&self) -> Flow<Settings> {
        let spec = &self.host.spec;
        let raid = raid::wanted(spec.raid.as_ref(), self.status().provisioning.raid.as_ref());
        let root_volume = raid.as_ref().is_some_and(raid::has_root_volume);
        let hints = match &spec.root_device_hints {
            _ if root_volume => None,
            Some(hints) => Some(hints.clone()),
            None => hints::profile_hints(&self.profile())
                .map_err(|error| Halt::Failed(error.to_string()))?,
        };
        Ok(Settings { raid, hints })
    }

    pub fn profile(&self) -> String {
        let status = &self.status().hardware_profile;
        let spec = &self.host.spec;
        match (status.as_str(), spec.hardware_profile.as_str()) {
            ("", "") if spec.bmc.address.starts_with("libvirt") => "libvirt".into(),
            ("", "") => "unknown".into(),
            ("", profile) | (profile, _) => profile.into(),
        }
    }

    /// Whether what was set up differs from what is wanted.
    pub fn settings_differ(&self, wanted: &Settings) -> bool {
        let now = &self.status().provisioning;
        now.raid != wanted.raid || now.root_device_hints != wanted.hints
    }

    /// Ends well once everything is set up.
    pub fn prepared(&self, wanted: &Settings) -> Flow {
        let node = self.node()?;
        let pace = self.config.pace;
        let again = self.retrying(ErrorType::Preparation);
        match node.provision_state {
            State::Available | State::Manageable => {
                let steps = self.clean_steps(node, wanted, again)?;
                if steps.is_empty() {
                    return Ok(());
                }
                if node.provision_state == State::Available {
                    return Err(self.verb(node, Verb::Manage, vec![]));
                }
                Err(self.start_cleaning(node, wanted, steps)?)
            }
            State::Cleaning | State::CleanWait => {
                Err(self.working("RAID and firmware to be set up", pace.long))
            }
            State::CleanFailed if again => Err(self.recover_cleaning(node)),
            State::CleanFailed => Err(Halt::Failed(
                node.trouble().unwrap_or("Ironic gave no reason").to_owned(),
            )),
            State::InspectFailed | State::AdoptFailed => Err(self.verb(node, Verb::Manage, vec![])),
            State::InspectWait => Err(self.verb(node, Verb::Abort, vec![])),
            State::Enroll
            | State::Verifying
            | State::Inspecting
            | State::CleanHold
            | State::Deploying
            | State::WaitCallBack
            | State::DeployHold
            | State::DeployFailed
            | State::Active
            | State::Deleting
            | State::Error
            | State::Adopting
            | State::Rescuing
            | State::RescueWait
            | State::RescueFailed
            | State::Rescue
            | State::Unrescuing
            | State::UnrescueFailed
            | State::Servicing
            | State::ServiceWait
            | State::ServiceHold
            | State::ServiceFailed => Err(self.unfit(node, "be prepared")),
        }
    }

    fn clean_steps(&self, node: &Node, wanted: &Settings, again: bool) -> Flow<Vec<StepCall>> {
        // After a failure nobody knows what is there.
        let now = self.status().provisioning.raid.as_ref().filter(|_| !again);
        let mut steps = raid::clean_steps(wanted.raid.as_ref(), now);
        steps.extend(firmware::steps(self, node)?);
        Ok(steps)
    }

    fn start_cleaning(&self, node: &Node, wanted: &Settings, steps: Vec<StepCall>) -> Flow<Halt> {
        let mut before = Vec::new();
        if steps.iter().any(|step| step.interface == "raid") {
            let disks = raid::logical_disks(wanted.raid.as_ref(), wanted.hints.is_some())
                .map_err(Halt::Failed)?;
            let scheme = bmc::parse(&self.host.spec).map_err(Halt::Failed)?.scheme;
            let software = raid::is_software(
                wanted.raid.as_ref(),
                self.status().provisioning.raid.as_ref(),
            );
            let interface = if software {
                "agent"
            } else {
                bmc::raid_interface(scheme)
            };
            let mut patch = Patches::default();
            patch.set(
                "raid_interface",
                text(node.raid_interface.as_ref()).as_ref(),
                interface,
            );
            before.extend(patch.action(node));
            before.push(Action::SetRaid {
                node: node.uuid.clone(),
                logical_disks: disks.into_iter().map(Value::Object).collect(),
            });
        }
        let mut draft = self.cleared();
        draft.status.provisioning.raid.clone_from(&wanted.raid);
        draft
            .status
            .provisioning
            .root_device_hints
            .clone_from(&wanted.hints);
        let (save, events) = self.saving(draft);
        let mut after = vec![save];
        if let Some(components) = &self.seen.firmware_components
            && components.applied != components.wanted
        {
            after.push(Action::SaveFirmwareUpdates(components.wanted.clone()));
        }
        Ok(self.verb_and(before, node, Verb::Clean(steps), after, events))
    }
}
