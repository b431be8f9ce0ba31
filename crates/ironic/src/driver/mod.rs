//! Hardware types: what each can do for a node.
//!
//! This is the border between the conductor and the metal. A new hardware type is a module beside `fake` and an arm in
//! each function here, and a row in `catalog`; it is listed there, and so offered to clients, only when all of them are
//! real.
//!
//! Two kinds of [`Work`] are not the BMC's: `PrepareBoot` and `TearDownBoot` belong to the boot services where the node's
//! boot interface is not fake, and the work of an agent (`FetchSteps`, `StartStep`, `CheckStep`, `WriteImage`,
//! `InstallBootloader`, `StopAgent`, `FinalizeRescue`, `CollectLogs`) to a client of it. `Conductor::work` is where they
//! are to be told apart; until both are there, `catalog` offers no interface that would need them.

pub mod catalog;
pub mod fake;

use lifecycle::node::{Outcome, Power, Work};
use serde_json::Value;

use crate::record::{BootDevice, BootMode, Hardware, Medium, Node, PowerTarget};

/// A hardware type that nodes can have as their `driver`.
pub enum Driver {
    Fake(fake::Fake),
}

/// What went wrong with the hardware, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Trouble(pub String);

/// What came of a piece of work, and what was learnt by it.
pub struct Report {
    pub outcome: Outcome,
    /// What the hardware is now, where it exists only in our memory.
    pub hardware: Option<Hardware>,
    /// What an inspection found: the inventory, and what was made of it.
    pub found: Option<Found>,
}

pub struct Found {
    pub inventory: Value,
    pub plugin_data: Value,
}

impl Report {
    pub fn done() -> Self {
        Self::of(Outcome::Done)
    }

    pub fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            hardware: None,
            found: None,
        }
    }

    pub fn failed(trouble: impl Into<String>, again: bool) -> Self {
        Self::of(Outcome::Failed {
            trouble: trouble.into(),
            again,
        })
    }
}

impl Driver {
    /// Does one piece of the work of an operation.
    pub async fn perform(&self, node: &Node, work: &Work) -> Report {
        match self {
            Self::Fake(fake) => fake.perform(node, work).await,
        }
    }

    /// Changes the power; returns what it is afterwards.
    pub async fn set_power(
        &self,
        node: &Node,
        target: PowerTarget,
    ) -> Result<(Power, Hardware), Trouble> {
        match self {
            Self::Fake(fake) => Ok(fake.set_power(node, target).await),
        }
    }

    /// What the BMC says of the power; nothing where it does not know.
    pub async fn read_power(&self, node: &Node) -> Result<Option<Power>, Trouble> {
        match self {
            Self::Fake(fake) => Ok(Some(fake.read_power(node).await)),
        }
    }

    pub fn boot_device(&self, node: &Node) -> BootDevice {
        match self {
            Self::Fake(_) => node.hardware.boot.clone(),
        }
    }

    pub fn boot_devices(&self) -> &'static [&'static str] {
        match self {
            Self::Fake(_) => &[
                "pxe",
                "disk",
                "cdrom",
                "bios",
                "safe",
                "wanboot",
                "floppy",
                "iscsiboot",
                "uefihttp",
            ],
        }
    }

    pub async fn set_boot_device(
        &self,
        node: &Node,
        device: BootDevice,
    ) -> Result<Hardware, Trouble> {
        match self {
            Self::Fake(fake) => Ok(fake.set(node, |hardware| hardware.boot = device).await),
        }
    }

    pub async fn set_boot_mode(&self, node: &Node, mode: BootMode) -> Result<Hardware, Trouble> {
        match self {
            Self::Fake(fake) => Ok(fake.set(node, |hardware| hardware.boot_mode = mode).await),
        }
    }

    pub async fn set_secure_boot(&self, node: &Node, on: bool) -> Result<Hardware, Trouble> {
        match self {
            Self::Fake(fake) => Ok(fake.set(node, |hardware| hardware.secure_boot = on).await),
        }
    }

    pub async fn insert(&self, node: &Node, medium: Medium) -> Result<Hardware, Trouble> {
        match self {
            Self::Fake(fake) => Ok(fake
                .set(node, |hardware| {
                    hardware
                        .media
                        .retain(|inside| inside.device_type != medium.device_type);
                    hardware.media.push(medium);
                })
                .await),
        }
    }

    /// Takes media out; all of them when no types are given.
    pub async fn eject(&self, node: &Node, types: &[String]) -> Result<Hardware, Trouble> {
        match self {
            Self::Fake(fake) => Ok(fake
                .set(node, |hardware| {
                    hardware
                        .media
                        .retain(|inside| !types.is_empty() && !types.contains(&inside.device_type));
                })
                .await),
        }
    }

    pub async fn inject_nmi(&self, node: &Node) -> Result<(), Trouble> {
        match self {
            Self::Fake(fake) => {
                fake.set(node, |_| {}).await;
                Ok(())
            }
        }
    }
}
