//! Keeping a host registered: credentials, ramdisk, node, profile. Checked in every state that needs a node.

use std::time::Duration;

use super::pass::{Flow, Halt, Pass};
use super::status::{CredentialsStatus, ErrorType};
use super::step::{Action, Event};
use super::view::{Credentials, Look};

impl Pass<'_> {
    /// The version of the Secret, if it can be used. A host that is deleted does without.
    pub fn secret(&self) -> Flow<Option<CredentialsStatus>> {
        let spec = &self.host.spec;
        let pace = self.config.pace;
        let (message, again) = match &self.seen.credentials {
            _ if spec.bmc.address.is_empty() => {
                ("bmc.address is missing".to_owned(), pace.unmanaged)
            }
            _ if spec.bmc.credentials_name.is_empty() => {
                ("bmc.credentialsName is missing".to_owned(), pace.unmanaged)
            }
            Credentials::Present { secret, version } => {
                return Ok(Some(CredentialsStatus {
                    credentials: Some(secret.clone()),
                    credentials_version: version.clone(),
                }));
            }
            Credentials::Missing => {
                let name = &spec.bmc.credentials_name;
                (
                    format!("the Secret {name:?} with the BMC's credentials does not exist"),
                    pace.missing_secret,
                )
            }
            Credentials::Invalid { reason } => (reason.clone(), pace.unmanaged),
        };
        if self.host.deleting {
            return Ok(None);
        }
        Err(self.fail_once(
            ErrorType::Registration,
            &message,
            "BMCCredentialError",
            again,
        ))
    }

    pub fn ensure_registered(&self, secret: &CredentialsStatus) -> Flow {
        let ready = self.ramdisk().and_then(|ramdisk| {
            self.register(secret, &ramdisk)?;
            self.wanted_settings()
        });
        self.of_kind(ErrorType::Registration, ready)?;
        self.registered(secret)
    }

    /// The node can be managed: that is written down.
    fn registered(&self, secret: &CredentialsStatus) -> Flow {
        let status = self.status();
        let proven = status.good_credentials == *secret;
        let profile = self.profile();
        let matched = status.hardware_profile == profile;
        let failed = self.retrying(ErrorType::Registration);
        if proven && matched && !failed {
            return Ok(());
        }
        let mut actions = Vec::new();
        let mut draft = self.draft();
        if failed {
            draft.clear_error();
        }
        if !matched {
            draft.event("ProfileSet", format!("Hardware profile set: {profile}"));
            draft.status.hardware_profile = profile;
        }
        if !proven {
            if !self.host.deleting {
                let components = self.components()?;
                actions.push(Action::EnsureFirmwareObjects { components });
            }
            draft.status.good_credentials = secret.clone();
            draft.status.operation_history.register.finish(self.now);
            draft.event("BMCAccessValidated", "Verified access to BMC");
        }
        let (save, events) = self.saving(draft);
        actions.push(save);
        Err(Self::act(actions, events))
    }

    fn components(&self) -> Flow<bool> {
        let node = self.node()?;
        self.seen.has_components.ok_or_else(|| {
            Self::look(Look::Components {
                node: node.uuid.clone(),
            })
        })
    }

    pub fn ironic_away(&self) -> Halt {
        const SOONEST: Duration = Duration::from_secs(1);
        let pause = (self.seen.ironic_away / 2).max(SOONEST);
        self.wait("Ironic to be ready", pause.min(self.config.pace.not_ready))
    }

    /// What came before the host could be looked at: its finalizer, a status to restore, details somebody else knows.
    pub fn groundwork(&self) -> Flow {
        self.restore()?;
        if self.host.deleting && !self.host.finalizer {
            return Err(super::Step::Done.into());
        }
        if !self.host.finalizer {
            return Err(Self::act(vec![Action::AddFinalizer], vec![]));
        }
        if self.host.deleting {
            return Ok(());
        }
        let arch = self
            .seen
            .hardware_data
            .as_ref()
            .and_then(super::hardware::architecture);
        if let Some(arch) = arch
            && self.host.spec.architecture.is_empty()
        {
            return Err(Self::act(
                vec![Action::SetArchitecture(arch.to_owned())],
                vec![],
            ));
        }
        self.known_hardware()
    }

    fn restore(&self) -> Flow {
        let key = super::annotations::STATUS;
        let Some(text) = self.host.annotations.get(key) else {
            return Ok(());
        };
        let done = Action::RemoveAnnotations(vec![key.to_owned()]);
        if self.status().last_updated.is_some() {
            return Err(Self::act(vec![done], vec![]));
        }
        match serde_json::from_str::<super::Status>(text) {
            Ok(mut status) => {
                if self.seen.hardware_data.is_some() {
                    status.hardware.clone_from(&self.seen.hardware_data);
                }
                status.last_updated = Some(status.last_updated.unwrap_or(self.now));
                Err(Self::act(
                    vec![Action::Save(Box::new(status)), done],
                    vec![],
                ))
            }
            Err(error) => {
                let note = format!("The value of {key} is not a status, and is ignored: {error}");
                let event = Event::warning("InvalidAnnotationValue", note);
                Err(Self::act(vec![done], vec![event]))
            }
        }
    }

    /// HardwareData, or the details somebody wrote into an annotation.
    fn known_hardware(&self) -> Flow {
        let key = super::annotations::HARDWARE_DETAILS;
        let annotation = self.host.annotations.get(key);
        let wanted = self.status().hardware.is_none() || self.host.inspection_disabled();
        let mut known = self.seen.hardware_data.clone().filter(|_| wanted);
        let mut events = Vec::new();
        let mut actions = Vec::new();
        if let Some(text) = annotation {
            match serde_json::from_str(text) {
                Ok(details) if wanted && known.is_none() => known = Some(details),
                Ok(_) => {
                    let note = format!("{key} is ignored: the hardware is known already");
                    events.push(Event::normal("RemoveAnnotation", note));
                }
                Err(error) => {
                    let note = format!("The value of {key} is ignored: {error}");
                    events.push(Event::warning("RemoveAnnotation", note));
                }
            }
        }
        if known.is_some() && known != self.status().hardware {
            let mut draft = self.draft();
            draft.status.hardware = known;
            draft.event("UpdateHardwareDetails", "Set hardware details");
            let (save, more) = self.saving(draft);
            actions.push(save);
            events.extend(more);
        }
        if annotation.is_some() {
            actions.push(Action::RemoveAnnotations(vec![key.to_owned()]));
        }
        if actions.is_empty() {
            return Ok(());
        }
        Err(Self::act(actions, events))
    }
}
