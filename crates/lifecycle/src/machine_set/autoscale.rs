//! A set that has as many Machines as there are hosts for them.

use super::MachineSet;
use crate::host::Labels;
use crate::machine::{HostSelector, SelectorError};

/// On a MachineSet, with any value: follow the hosts.
pub const AUTOSCALE: &str = "metal3.io/autoscale-to-hosts";

/// A host of the set's namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct FreeHost {
    pub labels: Labels,
    pub consumer: Consumer,
}

/// Who uses a host.
#[derive(Debug, Clone, PartialEq)]
pub enum Consumer {
    Nobody,
    /// Something that is not a Machine of ours.
    Stranger,
    Machine {
        labels: Labels,
    },
    /// A Machine that cannot be found: it may be about to show, so nothing is decided.
    Unknown,
}

/// `spec.replicas` for a set that follows the hosts; none where it does not, or where it cannot be said now.
pub fn replicas_for_hosts(
    set: &MachineSet,
    selector: &HostSelector,
    hosts: &[FreeHost],
) -> Result<Option<u32>, SelectorError> {
    if !set.annotations.contains_key(AUTOSCALE) || set.selector.is_empty() {
        return Ok(None);
    }
    let mut count = 0;
    for host in hosts {
        let counts = match &host.consumer {
            Consumer::Nobody => selector.matches(&host.labels)?,
            Consumer::Stranger => false,
            Consumer::Machine { labels } => set.selector.matches(labels)?,
            Consumer::Unknown => return Ok(None),
        };
        count += u32::from(counts);
    }
    Ok(Some(count))
}
