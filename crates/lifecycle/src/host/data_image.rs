//! An ISO for a host in use, put into its virtual drive while it is off.

use super::draft::backoff;
use super::pass::{Flow, Halt, Pass, later};
use super::step::{Action, Trouble};
use super::view::{DataImage, Look};

/// Ironic tells since then whether something is in a drive.
const DRIVES_ARE_SHOWN: u16 = 93;

impl Pass<'_> {
    /// Ends well once the drive holds what it should. The host is off.
    pub fn data_image(&self) -> Flow {
        let Some(image) = &self.seen.data_image else {
            return Ok(());
        };
        let wanted = self.disc_for(image);
        if wanted.is_empty() && image.attached.is_empty() {
            return Ok(());
        }
        self.wait_out_trouble(image)?;
        let node = self.node()?.uuid.clone();
        let inserted = if self.seen.ironic.is_some_and(|at| at >= DRIVES_ARE_SHOWN) {
            match self.seen.media_inserted {
                Some(inserted) => inserted,
                None => return Err(Self::look(Look::VirtualMedia { node })),
            }
        } else {
            !image.attached.is_empty()
        };
        // A BMC that began anew has forgotten the disc.
        if image.attached == wanted && inserted != wanted.is_empty() {
            return Ok(());
        }
        let mut actions = Vec::new();
        if inserted {
            actions.push(Action::DetachMedia { node: node.clone() });
        }
        if !image.attached.is_empty() {
            actions.push(saved("", None));
        }
        if !wanted.is_empty() {
            actions.push(Action::AttachMedia {
                node,
                url: wanted.to_owned(),
            });
            actions.push(saved(wanted, None));
        }
        Err(Self::act(actions, vec![]))
    }

    /// A disc is for hosts in use, and for as long as its object is.
    fn disc_for<'a>(&self, image: &'a DataImage) -> &'a str {
        if image.deleting || !self.status().state().is_provisioned() {
            return "";
        }
        &image.url
    }

    fn wait_out_trouble(&self, image: &DataImage) -> Flow {
        let Some(last) = image.last_reconciled.filter(|_| image.error_count > 0) else {
            return Ok(());
        };
        let unit = self.config.pace.not_ready;
        let again = later(last, backoff(unit, image.error_count, &self.host.uid));
        if again <= self.now {
            return Ok(());
        }
        Err(Self::wait_until(
            "another try to change the disc in the virtual drive",
            again,
        ))
    }

    /// A drive that does not do as it is told is the DataImage's trouble, not the host's.
    pub fn disc_troubled(&self, action: &Action, trouble: &Trouble) -> Option<Halt> {
        let image = self.seen.data_image.as_ref()?;
        let attached = if matches!(action, Action::AttachMedia { .. }) {
            // The old one was taken out before.
            ""
        } else if matches!(action, Action::DetachMedia { .. }) {
            image.attached.as_str()
        } else {
            return None;
        };
        let message = match trouble {
            Trouble::Busy | Trouble::Overtaken { .. } => return None,
            Trouble::Refused { message } | Trouble::Unreachable { message } => message,
        };
        let actions = vec![saved(attached, Some(message.clone()))];
        Some(Self::act(actions, vec![]))
    }
}

fn saved(attached: &str, error: Option<String>) -> Action {
    Action::SaveDataImage {
        attached: attached.to_owned(),
        error,
    }
}
