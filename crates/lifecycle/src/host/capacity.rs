//! How many hosts may boot the ramdisk over the network at once.

use super::State;
use super::bmc;
use super::draft::backoff;
use super::pass::{Flow, Halt, Pass, later};
use super::status::Operational;
use super::step::Verb;
use super::view::{Look, Node};
use crate::node;

/// Whether a node counts against the limit: it boots the ramdisk, and not from a virtual CD.
pub fn busy(state: node::State, boot_interface: &str) -> bool {
    let working = matches!(
        state,
        node::State::Cleaning
            | node::State::CleanWait
            | node::State::Inspecting
            | node::State::InspectWait
            | node::State::Deploying
            | node::State::WaitCallBack
            | node::State::Deleting
    );
    working && !boot_interface.contains("virtual-media")
}

impl Pass<'_> {
    /// Goes on if one more host may be worked on; otherwise the host is delayed.
    pub fn capacity(&self) -> Flow {
        if !bmc::is_limited(&self.host.spec) {
            return Ok(());
        }
        let Some(busy) = &self.seen.busy else {
            return Err(Self::look(Look::Busy));
        };
        let own = self.host.node_name();
        if busy.len() < self.config.provisioning_limit || busy.contains(&own) {
            return Ok(());
        }
        if self.status().operational_status == Operational::Delayed {
            return Err(self.delayed());
        }
        let mut draft = self.draft();
        draft.status.operational_status = Operational::Delayed;
        Err(self.save(draft))
    }

    pub fn capacity_for(&self, node: &Node, verb: &Verb) -> Flow {
        let boots = match verb {
            Verb::Inspect | Verb::Provide | Verb::Deleted | Verb::Active { .. } => true,
            Verb::Manage | Verb::Adopt | Verb::Abort | Verb::Clean(_) | Verb::Service(_) => false,
        };
        let counted = busy(
            node.provision_state,
            node.boot_interface.as_deref().unwrap_or(""),
        );
        if boots && !counted && self.status().state().needs_capacity() {
            return self.capacity();
        }
        Ok(())
    }

    /// A delayed host looks again from time to time.
    pub fn check_delayed(&self) -> Flow {
        let status = self.status();
        if status.operational_status != Operational::Delayed {
            return Ok(());
        }
        let again = later(
            status.last_updated.unwrap_or(self.now),
            backoff(self.config.pace.backoff, 1, &self.host.uid),
        );
        // Deleting what needs no ramdisk does not wait in line.
        if matches!(status.state(), State::PoweringOff | State::Deleting) {
            return Err(self.save(self.cleared()));
        }
        if self.now < again {
            return Err(self.delayed());
        }
        match self.capacity() {
            Ok(()) => Err(self.save(self.cleared())),
            // Looked, and still none: the next look is later.
            Err(halt) if halt == self.delayed() => Err(self.save(self.draft())),
            Err(halt) => Err(halt),
        }
    }

    fn delayed(&self) -> Halt {
        let pause = backoff(self.config.pace.backoff, 1, &self.host.uid);
        let since = self.status().last_updated.unwrap_or(self.now);
        let until = later(since, pause).max(later(self.now, self.config.pace.short));
        Self::wait_until(
            format!(
                "fewer than {} hosts to be booting the ramdisk over the network",
                self.config.provisioning_limit
            ),
            until,
        )
    }
}
