//! One function per state.

use super::State;
use super::firmware;
use super::hardware;
use super::pass::{Flow, Halt, Pass};
use super::status::{ErrorType, Operational};
use super::step::{Action, Event};

impl Pass<'_> {
    pub fn handle(&self) -> Halt {
        match self.status().state() {
            State::None => self.begin(),
            State::Unmanaged => self.unmanaged(),
            State::Registering => self.registering(),
            State::MatchProfile => self.transition(State::Preparing),
            State::Inspecting => self.inspecting(),
            State::Preparing => self.preparing(),
            State::Available => self.available(),
            State::Provisioning => self.provisioning(),
            State::Provisioned => self.provisioned(),
            State::ExternallyProvisioned => self.externally_provisioned(),
            State::Deprovisioning => self.deprovisioning(),
            State::PoweringOff => self.powering_off(),
            State::Deleting => self.deleting(),
        }
    }

    /// A finished state, followed by the next; those that boot the ramdisk may have to stand in line.
    fn transition(&self, to: State) -> Halt {
        if to.needs_capacity()
            && let Err(halt) = self.capacity()
        {
            return halt;
        }
        let mut draft = self.draft();
        draft.finish(to, self.now);
        if to == State::Provisioning {
            draft
                .status
                .last_attempted_image
                .clone_from(&self.host.spec.image);
        }
        self.save(draft)
    }

    fn begin(&self) -> Halt {
        if self.host.spec.has_bmc() {
            return self.transition(State::Registering);
        }
        let mut draft = self.draft();
        draft.go(State::Unmanaged, self.now);
        draft.status.operational_status = Operational::Discovered;
        draft.event("Discovered", "Discovered host with no BMC details");
        self.save(draft)
    }

    fn unmanaged(&self) -> Halt {
        if self.host.spec.has_bmc() {
            return self.transition(State::Registering);
        }
        self.wait("BMC details in the host's spec", self.config.pace.unmanaged)
    }

    fn registering(&self) -> Halt {
        if self.host.spec.externally_provisioned {
            return self.transition(State::ExternallyProvisioned);
        }
        if self.host.inspection_disabled() {
            return self.transition(State::Preparing);
        }
        self.transition(State::Inspecting)
    }

    fn inspecting(&self) -> Halt {
        if self.host.inspection_disabled() {
            let mut draft = self.draft();
            draft.finish(State::Preparing, self.now);
            draft.event("InspectionSkipped", "Inspection is disabled for this host");
            return self.save(draft);
        }
        let inventory = match self.of_kind(ErrorType::Inspection, self.inspected()) {
            Ok(inventory) => inventory,
            Err(halt) => return halt,
        };
        let details = hardware::details(inventory);
        let mut actions = Vec::new();
        if self.seen.hardware_data.as_ref() != Some(&details) {
            actions.push(Action::SaveHardwareData(details.clone()));
        }
        let mut draft = self.draft();
        draft.status.hardware = Some(details);
        draft.finish(State::Preparing, self.now);
        draft.event("InspectionComplete", "Hardware inspection completed");
        let (save, events) = self.saving(draft);
        actions.push(save);
        Self::act(actions, events)
    }

    fn preparing(&self) -> Halt {
        let wanted = match self.of_kind(ErrorType::Preparation, self.wanted_settings()) {
            Ok(wanted) => wanted,
            Err(halt) => return halt,
        };
        match self.prepared(&wanted) {
            Ok(()) => {
                let mut draft = self.draft();
                draft.status.provisioning.raid = wanted.raid;
                draft.status.provisioning.root_device_hints = wanted.hints;
                draft.finish(State::Available, self.now);
                self.save(draft)
            }
            Err(Halt::Failed(message)) => {
                let mut draft = self.draft();
                draft.set_error(ErrorType::Preparation, &message);
                draft.clear_settings();
                let (save, events) = self.saving(draft);
                let mut actions = Vec::new();
                if let Some(components) = &self.seen.firmware_components
                    && !components.applied.is_empty()
                {
                    actions.push(Action::SaveFirmwareUpdates(vec![]));
                }
                actions.push(save);
                Self::act(actions, events)
            }
            Err(halt) => halt,
        }
    }

    fn available(&self) -> Halt {
        match self.leave_available() {
            Ok(Some(State::ExternallyProvisioned)) => {
                let mut draft = self.draft();
                draft.clear_settings();
                draft.finish(State::ExternallyProvisioned, self.now);
                self.save(draft)
            }
            Ok(Some(to)) => self.transition(to),
            Ok(None) => self.idle(),
            Err(halt) => halt,
        }
    }

    fn leave_available(&self) -> Flow<Option<State>> {
        let host = self.host;
        if host.spec.externally_provisioned {
            return Ok(Some(State::ExternallyProvisioned));
        }
        if host.wants_inspection() {
            return Ok(Some(State::Inspecting));
        }
        let wanted = self.of_kind(ErrorType::Preparation, self.wanted_settings())?;
        if self.settings_differ(&wanted) || firmware::changed(self, self.node()?)? {
            return Ok(Some(State::Preparing));
        }
        if !host.needs_provisioning() {
            return Ok(None);
        }
        self.check_retries()?;
        Ok(Some(State::Provisioning))
    }

    /// The same image is not tried for ever.
    fn check_retries(&self) -> Flow {
        let status = self.status();
        let limit = self.config.max_provisioning_retries;
        if status.last_attempted_image != self.host.spec.image && status.provisioning_fail_count > 0
        {
            let mut draft = self.draft();
            draft.status.provisioning_fail_count = 0;
            draft.status.last_attempted_image = None;
            return Err(self.save(draft));
        }
        if limit > 0 && status.provisioning_fail_count >= limit {
            let count = status.provisioning_fail_count;
            let message = format!(
                "provisioning failed {count} times; change the image, or the limit of {limit}, to try again"
            );
            return Err(self.fail(ErrorType::Provisioning, &message));
        }
        Ok(())
    }

    fn idle(&self) -> Halt {
        let status = self.status();
        let wants = self.host.spec.image.is_some() || self.host.spec.custom_deploy.is_some();
        if !wants && (status.provisioning_fail_count > 0 || status.last_attempted_image.is_some()) {
            let mut draft = self.draft();
            draft.status.provisioning_fail_count = 0;
            draft.status.last_attempted_image = None;
            return self.save(draft);
        }
        self.manage_power()
    }

    fn provisioning(&self) -> Halt {
        let status = self.status();
        if status.error_type.is_some() {
            let mut draft = self.draft();
            draft.status.provisioning_fail_count = status.provisioning_fail_count.saturating_add(1);
            // Failures in a row are counted on.
            let errors = status.error_count;
            draft.finish(State::Deprovisioning, self.now);
            draft.status.error_count = errors;
            return self.save(draft);
        }
        // DEVIATION: metal3 lets the old image finish and takes it for the new one.
        let attempted = status
            .last_attempted_image
            .as_ref()
            .map_or("", |image| &image.url);
        if self.host.is_cancelled() || attempted != self.host.spec.image_url() {
            return self.transition(State::Deprovisioning);
        }
        if status.last_attempted_image != self.host.spec.image {
            let mut draft = self.draft();
            draft
                .status
                .last_attempted_image
                .clone_from(&self.host.spec.image);
            return self.save(draft);
        }
        if let Err(halt) = self.of_kind(ErrorType::Provisioning, self.deployed()) {
            return halt;
        }
        let mut draft = self.draft();
        draft
            .status
            .provisioning
            .image
            .clone_from(&self.host.spec.image);
        draft
            .status
            .provisioning
            .custom_deploy
            .clone_from(&self.host.spec.custom_deploy);
        draft.status.provisioning_fail_count = 0;
        draft.finish(State::Provisioned, self.now);
        draft.event("ProvisioningComplete", "Image provisioning completed");
        self.save(draft)
    }

    fn provisioned(&self) -> Halt {
        if self.host.is_cancelled() {
            return self.transition(State::Deprovisioning);
        }
        self.in_use()
    }

    fn externally_provisioned(&self) -> Halt {
        let spec = &self.host.spec;
        if spec.externally_provisioned {
            return self.in_use();
        }
        let mut draft = self.draft();
        // What is asked for is taken to be what is there.
        let image = spec.image.clone().filter(|image| !image.url.is_empty());
        draft.status.provisioning.image = image;
        draft
            .status
            .provisioning
            .custom_deploy
            .clone_from(&spec.custom_deploy);
        draft.finish(State::Provisioned, self.now);
        self.save(draft)
    }

    fn in_use(&self) -> Halt {
        let adopted = self.of_kind(ErrorType::ProvisionedRegistration, self.adopted());
        if let Err(halt) = adopted {
            return halt;
        }
        if self.retrying(ErrorType::ProvisionedRegistration) {
            return self.save(self.cleared());
        }
        self.manage_power()
    }

    fn deprovisioning(&self) -> Halt {
        match self.find_node() {
            Err(halt) => return halt,
            // Only where there are no credentials to make one with.
            Ok(None) if self.host.deleting => {
                let mut draft = self.draft();
                draft.finish(State::Deleting, self.now);
                let note = "Deleted without deprovisioning it: it has no node and no credentials";
                draft.events.push(Event::warning("ProvisioningError", note));
                return self.save(draft);
            }
            Ok(_) => {}
        }
        match self.deprovisioned() {
            Err(Halt::Failed(message)) => self.deprovisioning_failed(&message),
            Err(halt) => halt,
            Ok(()) => {
                let to = if self.host.deleting {
                    State::PoweringOff
                } else {
                    State::Available
                };
                let mut draft = self.draft();
                draft.status.provisioning.image = None;
                draft.status.provisioning.custom_deploy = None;
                draft.clear_settings();
                draft.finish(to, self.now);
                draft.event("DeprovisioningComplete", "Image deprovisioning completed");
                self.save(draft)
            }
        }
    }
}
