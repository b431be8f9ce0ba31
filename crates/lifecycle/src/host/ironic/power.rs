//! Power on and off.

use crate::host::pass::{Flow, Halt, Pass};
use crate::host::spec::CleaningMode;
use crate::host::step::{Action, Event, Power, Verb};
use crate::host::view::Node;
use crate::node::State;

/// How a host is to be powered off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerOff {
    pub hard: bool,
    /// Whatever went wrong last time.
    pub force: bool,
}

impl Pass<'_> {
    /// Ends well once the host is on.
    pub fn powered_on(&self, force: bool) -> Flow {
        let node = self.node()?;
        if node.powered_on() == Some(true) {
            return Ok(());
        }
        if node.target_power_state.as_deref() == Some(Power::On.as_str()) {
            return Err(self.working("the host to be powered on", self.config.pace.short));
        }
        if let Some(trouble) = node.trouble()
            && !force
        {
            return Err(Halt::Failed(format!(
                "the host cannot be powered on: {trouble}"
            )));
        }
        Err(self.power(node, Power::On, "PowerOn", "Host powered on"))
    }

    /// Ends well once the host is off; where it may not be off, once it was told to reboot.
    pub fn powered_off(&self, how: PowerOff) -> Flow {
        let node = self.node()?;
        self.interrupt(node)?;
        let reboots = self.host.spec.disable_power_off;
        if node.powered_on() == Some(false) && !reboots {
            return Ok(());
        }
        let pace = self.config.pace;
        let going = ["power off", "soft power off", "rebooting", "soft rebooting"];
        let target = node.target_power_state.as_deref();
        if target.is_some_and(|target| going.contains(&target)) {
            return Err(self.working("the host to be powered off", pace.short));
        }
        if let Some(trouble) = node.trouble()
            && node.target_power_state.is_none()
            && !trouble.contains("aborted")
            && !how.force
        {
            let next = if how.hard {
                ""
            } else {
                "; a hard power off follows"
            };
            return Err(Halt::Failed(format!(
                "the host cannot be powered off: {trouble}{next}"
            )));
        }
        let soft = !how.hard && !how.force && !self.seen.soft_power_refused;
        let power = match (soft, reboots) {
            (true, false) => Power::SoftOff,
            (true, true) => Power::SoftReboot,
            (false, false) => Power::Off,
            (false, true) => Power::Reboot,
        };
        let note = match power {
            Power::SoftOff => "Host soft powered off",
            Power::SoftReboot | Power::Reboot => "Host rebooted",
            Power::Off | Power::On => "Host powered off",
        };
        Err(self.power(node, power, "PowerOff", note))
    }

    fn power(&self, node: &Node, power: Power, reason: &'static str, note: &str) -> Halt {
        if node.has_target() {
            return self.wait(
                "Ironic to finish what it does to the node",
                self.config.pace.short,
            );
        }
        let mut actions = vec![Action::Power {
            node: node.uuid.clone(),
            power,
        }];
        let mut events = vec![Event::normal(reason, note)];
        if self.status().error_type.is_some() {
            let (save, more) = self.saving(self.cleared());
            actions.push(save);
            events.extend(more);
        }
        let reboot = crate::host::annotations::REBOOT;
        let rebooted = matches!(power, Power::Reboot | Power::SoftReboot);
        if rebooted && self.host.annotations.contains_key(reboot) {
            actions.push(Action::RemoveAnnotations(vec![reboot.to_owned()]));
        }
        Self::act(actions, events)
    }

    /// Inspection and cleaning that would be cut short by it are stopped first, or waited for.
    fn interrupt(&self, node: &Node) -> Flow {
        let pace = self.config.pace;
        match node.provision_state {
            State::InspectWait => Err(self.verb(node, Verb::Abort, vec![])),
            State::InspectFailed if node.has_target() => Err(self.verb(node, Verb::Manage, vec![])),
            State::CleanWait => {
                let manual = node.target_provision_state.as_deref() == Some("manageable");
                let disabled = self.host.spec.automated_cleaning_mode == CleaningMode::Disabled;
                if manual || disabled {
                    return Err(self.verb(node, Verb::Abort, vec![]));
                }
                Err(self.wait("the cleaning of the disks to end", pace.long))
            }
            State::CleanFailed if node.has_target() => Err(self.recover_cleaning(node)),
            State::Cleaning | State::Inspecting => {
                Err(self.wait("Ironic to finish what it does to the node", pace.long))
            }
            State::CleanFailed
            | State::InspectFailed
            | State::Enroll
            | State::Verifying
            | State::Manageable
            | State::Available
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
            | State::ServiceFailed => Ok(()),
        }
    }
}
