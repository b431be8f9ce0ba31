//! Hardware types: what each can do for a node.
//!
//! ```text
//!   conductor, api ─▶ Driver ─┬─ fake    hardware in our memory
//!                             └─ metal ─▶ lines ─▶ BMCs      redfish, idrac, ipmi
//! ```
//!
//! This is the border between the conductor and the metal. A new hardware type is a module beside `metal` and an arm in
//! each function here, and a row in `catalog`; it is listed there, and so offered to clients, only when all of them are
//! real. `info` reads a node's `driver_info`; `backoff` decides how long a silent BMC is left alone.
//!
//! Two kinds of [`Work`] are not the BMC's: boot files and media (`PrepareBoot`, `TearDownBoot`), and the work of an
//! agent. The conductor keeps those to itself.

mod backoff;
pub mod catalog;
mod error;
pub mod fake;
mod info;
mod lines;
mod metal;
mod patience;

use std::sync::Arc;

use lifecycle::node::{Outcome, Power, StepSpec, Timers, Work};
use serde_json::{Map, Value};

use crate::record::{BootDevice, BootMode, Hardware, Medium, Node, PowerTarget};
use crate::store::Store;
use fake::Fake;
use lines::Lines;
use metal::Metal;
pub use metal::{Component, Drive, Facts, HTTP_BOOT_URL, Method, Setting, facts_key};
pub use patience::Patience;

/// A hardware type that nodes can have as their `driver`.
pub enum Driver {
    Fake(Fake),
    Metal(Metal),
}

/// All of them.
pub struct Drivers {
    fake: Driver,
    metal: Driver,
    lines: Arc<Lines>,
}

/// What went wrong with the hardware, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Trouble(pub String);

/// What came of a piece of work, and what was learnt by it.
pub struct Report {
    pub outcome: Outcome,
    /// What the hardware is now.
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

impl Drivers {
    /// What BMCs say of BIOS and firmware is kept in `store`.
    pub fn new(fake: fake::Delays, patience: Patience, timers: &Timers, store: Arc<Store>) -> Self {
        let lines = Lines::new(patience::Options {
            patience,
            power_change: timers.power_change,
            soft_power_off: timers.soft_power_off,
        });
        Self {
            fake: Driver::Fake(Fake::new(fake)),
            metal: Driver::Metal(Metal::new(Arc::clone(&lines), store)),
            lines,
        }
    }

    pub fn find(&self, name: &str) -> Option<&Driver> {
        match name {
            "fake-hardware" => Some(&self.fake),
            "redfish" | "idrac" | "ipmi" => Some(&self.metal),
            _ => None,
        }
    }

    /// Gives back every session at a BMC.
    pub async fn close(&self) {
        self.lines.close().await;
    }
}

impl Driver {
    /// Does one piece of the work of an operation.
    pub async fn perform(&self, node: &Node, work: &Work) -> Report {
        match self {
            Self::Fake(fake) => fake.perform(node, work).await,
            Self::Metal(metal) => metal.perform(node, work).await,
        }
    }

    /// Everything wrong with the settings this interface needs, empty where all is well.
    pub fn problems(&self, node: &Node, interface: &str) -> Vec<String> {
        match self {
            Self::Fake(_) => Vec::new(),
            Self::Metal(_) => Metal::problems(node, interface),
        }
    }

    /// The steps that go through the hardware itself, for a client to ask for.
    pub fn steps(&self, node: &Node) -> Vec<StepSpec> {
        match self {
            Self::Fake(_) => fake::steps(node),
            Self::Metal(_) => Metal::steps(node),
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
            Self::Metal(metal) => Ok(metal.set_power(node, target).await?),
        }
    }

    /// What the BMC says of the power; nothing where it does not know.
    pub async fn read_power(&self, node: &Node) -> Result<Option<Power>, Trouble> {
        match self {
            Self::Fake(fake) => Ok(Some(fake.read_power(node).await)),
            Self::Metal(metal) => Ok(metal.look_at_power(node).await?),
        }
    }

    pub async fn boot_device(&self, node: &Node) -> Result<BootDevice, Trouble> {
        match self {
            Self::Fake(_) => Ok(node.hardware.boot.clone()),
            Self::Metal(metal) => Ok(metal.boot_device(node).await?),
        }
    }

    pub fn boot_devices(&self, node: &Node) -> &'static [&'static str] {
        match self {
            Self::Fake(_) => fake::BOOT_DEVICES,
            Self::Metal(_) => Metal::boot_devices(node),
        }
    }

    pub async fn set_boot_device(
        &self,
        node: &Node,
        device: BootDevice,
    ) -> Result<Hardware, Trouble> {
        match self {
            Self::Fake(fake) => Ok(fake.set(node, |hardware| hardware.boot = device).await),
            Self::Metal(metal) => Ok(metal.set_boot_device(node, device).await?),
        }
    }

    pub async fn set_boot_mode(&self, node: &Node, mode: BootMode) -> Result<Hardware, Trouble> {
        match self {
            Self::Fake(fake) => Ok(fake.set(node, |hardware| hardware.boot_mode = mode).await),
            Self::Metal(metal) => Ok(metal.set_boot_mode(node, mode).await?),
        }
    }

    pub async fn set_secure_boot(&self, node: &Node, on: bool) -> Result<Hardware, Trouble> {
        match self {
            Self::Fake(fake) => Ok(fake.set(node, |hardware| hardware.secure_boot = on).await),
            Self::Metal(metal) => Ok(metal.set_secure_boot(node, on).await?),
        }
    }

    /// Whether there are virtual drives, and a light: IPMI knows neither.
    pub fn has_extras(&self, node: &Node) -> bool {
        match self {
            Self::Fake(_) => true,
            Self::Metal(_) => node.driver != "ipmi",
        }
    }

    /// The virtual drives, as they are now.
    pub async fn drives(&self, node: &Node) -> Result<Vec<Drive>, Trouble> {
        match self {
            Self::Fake(_) => Ok(fake::drives(node)),
            Self::Metal(metal) => Ok(metal.drives(node).await?),
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
            Self::Metal(metal) => Ok(metal.insert(node, medium).await?),
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
            Self::Metal(metal) => Ok(metal.eject(node, types).await?),
        }
    }

    pub async fn inject_nmi(&self, node: &Node) -> Result<(), Trouble> {
        match self {
            Self::Fake(fake) => {
                fake.set(node, |_| {}).await;
                Ok(())
            }
            Self::Metal(metal) => Ok(metal.inject_nmi(node).await?),
        }
    }

    /// The state of the system's light: `ON`, `OFF`, `BLINKING` or `UNKNOWN`.
    pub async fn light(&self, node: &Node) -> Result<String, Trouble> {
        match self {
            Self::Fake(_) => Ok(fake::light(node)),
            Self::Metal(metal) => Ok(metal.light(node).await?.to_owned()),
        }
    }

    pub async fn set_light(&self, node: &Node, state: &str) -> Result<Hardware, Trouble> {
        match self {
            Self::Fake(fake) => Ok(fake
                .set(node, |hardware| fake::set_light(hardware, state))
                .await),
            Self::Metal(metal) => Ok(metal.set_light(node, state).await?),
        }
    }

    /// Methods of the node's vendor interface.
    pub fn methods(&self, node: &Node) -> &'static [Method] {
        match self {
            Self::Fake(_) => &[],
            Self::Metal(_) => Metal::methods(node),
        }
    }

    /// Calls one of them. `Err` holds whether it is the caller's fault.
    pub async fn call(
        &self,
        node: &Node,
        method: &str,
        args: &Map<String, Value>,
    ) -> Result<Option<Value>, Refusal> {
        match self {
            Self::Fake(_) => Err(Refusal::Call(format!("there is no method {method:?}"))),
            Self::Metal(metal) => metal.call(node, method, args).await.map_err(Refusal::from),
        }
    }
}

/// Why a vendor's method was not carried out.
pub enum Refusal {
    /// What was asked for is wrong, or cannot be had here.
    Call(String),
    Hardware(Trouble),
}

impl From<error::Error> for Refusal {
    fn from(error: error::Error) -> Self {
        if error.is_unsupported() || matches!(error, error::Error::Settings(_)) {
            Self::Call(model::chain(&error))
        } else {
            Self::Hardware(error.into())
        }
    }
}
