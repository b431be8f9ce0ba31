//! An ISO for a host in use, put into its virtual drive while it is off.

use super::draft::backoff;
use super::pass::{Flow, Pass, later};
use super::step::Action;
use super::view::Look;

impl Pass<'_> {
    /// Ends well once the drive holds what it should.
    pub fn data_image(&self) -> Flow {
        let Some(image) = &self.seen.data_image else {
            return Ok(());
        };
        let wanted = if image.deleting {
            ""
        } else {
            image.url.as_str()
        };
        if image.attached == wanted {
            return Ok(());
        }
        if image.error_count > 0
            && let Some(last) = image.last_reconciled
        {
            let unit = self.config.pace.not_ready;
            let again = later(last, backoff(unit, image.error_count, &self.host.uid));
            if self.now < again {
                return Err(Self::wait_until(
                    "another try to insert the data image",
                    again,
                ));
            }
        }
        let node = self.node()?;
        let Some(inserted) = self.seen.media_inserted else {
            return Err(Self::look(Look::VirtualMedia {
                node: node.uuid.clone(),
            }));
        };
        let node = node.uuid.clone();
        let saved = |attached: &str| Action::SaveDataImage {
            attached: attached.to_owned(),
            error: None,
        };
        let mut actions = Vec::new();
        if inserted {
            actions.push(Action::DetachMedia { node: node.clone() });
        }
        if !image.attached.is_empty() {
            actions.push(saved(""));
        }
        if !wanted.is_empty() {
            actions.push(Action::AttachMedia {
                node,
                url: wanted.to_owned(),
            });
            actions.push(saved(wanted));
        }
        Err(Self::act(actions, vec![]))
    }
}
