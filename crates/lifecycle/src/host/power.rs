//! The power of a host at rest: as `online` says, unless annotations say otherwise.

use super::annotations::REBOOT;
use super::ironic::PowerOff;
use super::pass::{Flow, Halt, Pass};
use super::status::{ErrorType, Operational};
use super::step::{Action, Event};

impl Pass<'_> {
    /// Never ends but in a step: at the least it is to look again in a while.
    pub fn manage_power(&self) -> Halt {
        match self.power_step() {
            Err(halt) => halt,
            Ok(()) => self.steady(),
        }
    }

    fn power_step(&self) -> Flow {
        let node = self.node()?;
        let status = self.status();
        let on = node.powered_on().unwrap_or(status.powered_on);
        if on != status.powered_on {
            let mut draft = self.draft();
            draft.status.powered_on = on;
            if self.retrying(ErrorType::PowerManagement) {
                draft.clear_error();
            }
            return Err(self.save(draft));
        }
        let in_use = status.state().is_provisioned();
        let online = self.host.spec.online;
        if !on && self.host.annotations.contains_key(REBOOT) {
            let done = Action::RemoveAnnotations(vec![REBOOT.to_owned()]);
            return Err(Self::act(vec![done], vec![]));
        }
        let reboot = self.host.reboot(!in_use);
        let wanted = if self.host.spec.disable_power_off {
            // A host that may not be off cannot be held off, only rebooted.
            !reboot.once
        } else {
            online && !reboot.wanted()
        };
        let servicing = status.operational_status == Operational::Servicing
            || status.error_type == Some(ErrorType::Servicing);
        // A disc is changed on the way up; one that is to go is not waited with.
        if !on && (wanted || self.disc_goes(in_use)) {
            self.data_image()?;
        }
        if in_use && ((wanted && !on) || servicing) {
            self.of_kind(ErrorType::Servicing, self.serviced())?;
        }
        if wanted == on {
            return Ok(());
        }
        let force = self.retrying(ErrorType::PowerManagement);
        let outcome = if wanted {
            self.powered_on(force)
        } else {
            self.powered_off(PowerOff {
                hard: reboot.hard || status.error_count > 0,
                force,
            })
        };
        let outcome = outcome.map_err(|halt| warn(halt, &reboot.unreadable));
        self.of_kind(ErrorType::PowerManagement, outcome)
    }

    fn disc_goes(&self, in_use: bool) -> bool {
        let image = self.seen.data_image.as_ref();
        image.is_some_and(|image| !image.attached.is_empty() && (image.deleting || !in_use))
    }

    fn steady(&self) -> Halt {
        let status = self.status();
        if status.error_count > 0 || status.error_type.is_some() {
            let mut draft = self.cleared();
            draft.status.error_count = 0;
            return self.save(draft);
        }
        self.wait(
            "a change of the host, or of its power",
            self.config.pace.power,
        )
    }

    /// A failure becomes an error of this kind.
    pub fn of_kind<T>(&self, kind: ErrorType, outcome: Flow<T>) -> Flow<T> {
        outcome.map_err(|halt| match halt {
            Halt::Failed(message) => self.fail(kind, &message),
            Halt::Step(step) => Halt::Step(step),
        })
    }
}

fn warn(halt: Halt, unreadable: &[String]) -> Halt {
    let Halt::Step(mut step) = halt else {
        return halt;
    };
    if let super::Step::Do { events, .. } = &mut *step {
        for key in unreadable {
            let note = format!("The value of {key} is not understood; a soft reboot is done");
            events.push(Event::warning("InvalidAnnotationValue", note));
        }
    }
    Halt::Step(step)
}
