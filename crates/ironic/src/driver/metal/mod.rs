//! Real servers behind BMCs: hardware types `redfish`, `idrac` and `ipmi`.
//!
//! ```text
//!   Work ─▶ perform ─▶ power, boot, media, facts, steps ─▶ lines ─▶ clients::redfish | clients::ipmi
//! ```
//!
//! A node's `hardware` is what was last seen of it: every answer of a BMC that tells something is written there.

mod boot;
mod facts;
mod media;
mod power;
mod steps;
mod vendor;

use std::sync::Arc;

use lifecycle::node::{Outcome, StepSpec, Work};
use serde_json::Value;

use super::backoff::Asker;
use super::error::Error;
use super::info::{self, Access};
use super::lines::{Bmc, Lines};
use super::{Found, Report};
use crate::record::{Hardware, Node};
use crate::store::Store;

pub use boot::HTTP_BOOT_URL;
pub use facts::{Component, Facts, Setting, key as facts_key};
pub use media::Drive;
pub use vendor::Method;

pub struct Metal {
    pub lines: Arc<Lines>,
    store: Arc<Store>,
}

impl Metal {
    pub fn new(lines: Arc<Lines>, store: Arc<Store>) -> Self {
        Self { lines, store }
    }

    pub async fn perform(&self, node: &Node, work: &Work) -> Report {
        match self.work(node, work).await {
            Ok(report) => report,
            Err(error) => Report::failed(model::chain(&error), error.may_pass()),
        }
    }

    /// What is wrong with the settings an interface needs.
    pub fn problems(node: &Node, interface: &str) -> Vec<String> {
        let access = || {
            info::access(&node.driver, &node.driver_info)
                .err()
                .unwrap_or_default()
        };
        match interface {
            "power" | "management" => access(),
            "boot" => info::boot_problems(&node.driver_info),
            // Those that need the BMC only where it does them.
            "bios" | "firmware" | "vendor" if node.driver != "ipmi" => access(),
            "inspect"
                if matches!(
                    node.interfaces.inspect.as_str(),
                    "redfish" | "idrac-redfish"
                ) =>
            {
                access()
            }
            "raid" if node.interfaces.raid != "no-raid" => {
                vec!["RAID through the BMC has no steps in this service".to_owned()]
            }
            _ => Vec::new(),
        }
    }

    pub fn steps(node: &Node) -> Vec<StepSpec> {
        steps::offered(node)
    }

    pub fn methods(node: &Node) -> &'static [Method] {
        vendor::methods(node)
    }

    async fn work(&self, node: &Node, work: &Work) -> Result<Report, Error> {
        match work {
            Work::Validate(_) => {
                access(node)?;
                let problems = info::boot_problems(&node.driver_info);
                if problems.is_empty() {
                    Ok(Report::done())
                } else {
                    Err(Error::Settings(problems))
                }
            }
            Work::ReadPower => {
                let power = self.read_power(node, Asker::Work).await?;
                Ok(Report::of(Outcome::Power(power)))
            }
            Work::PowerOff => self.power_off(node).await.map(seen),
            Work::PowerOn => self.power_on(node).await.map(seen),
            Work::PowerCycle | Work::BootAgain { .. } => self.power_cycle(node).await.map(seen),
            Work::SetBootDevice { device, persistent } => self
                .boot_from(node, device.as_str(), *persistent)
                .await
                .map(seen),
            Work::RunVerifySteps => self.verify(node).await.map(|()| Report::done()),
            Work::ReadFacts => self.read_facts(node).await.map(seen),
            Work::RunStep(step) => self.run_step(node, step).await,
            Work::CheckStep(step) => self.check_step(node, step).await,
            Work::FetchSteps(_) => Ok(Report::of(Outcome::Steps(steps::offered(node)))),
            Work::StartInspection => self.inspect(node).await,
            Work::Simulate(task) => Err(Error::Cannot(format!(
                "there is nothing that could do this: the node's inspect interface is {}, its deploy interface is {} ({})",
                node.interfaces.inspect,
                node.interfaces.deploy,
                task.as_str()
            ))),
            Work::ForgetAgent
            | Work::Unbind
            | Work::RecordInventory
            | Work::PrepareBoot { .. }
            | Work::TearDownBoot { .. }
            | Work::CacheImage
            | Work::WriteImage(_)
            | Work::StartStep(_)
            | Work::InstallBootloader
            | Work::StartInstalled
            | Work::StopAgent
            | Work::FinalizeRescue
            | Work::CollectLogs
            | Work::Advance
            | Work::Move(_) => Err(Error::Cannot(format!(
                "{} is not the BMC's work",
                work.describe()
            ))),
        }
    }

    /// Reads the inventory through the BMC.
    async fn inspect(&self, node: &Node) -> Result<Report, Error> {
        let inventory = self
            .talk(node, async |bmc| match bmc {
                Bmc::Redfish(client) => Ok(client.inventory().await?),
                Bmc::Ipmi(_) => Err(lacks("inspection")),
            })
            .await?;
        let inventory = serde_json::to_value(&inventory)
            .map_err(|error| Error::Cannot(format!("the inventory cannot be written: {error}")))?;
        Ok(Report {
            found: Some(Found {
                inventory,
                plugin_data: Value::Object(serde_json::Map::new()),
            }),
            ..Report::done()
        })
    }

    /// Part of an operation.
    async fn talk<T>(
        &self,
        node: &Node,
        act: impl AsyncFnOnce(&Bmc) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let access = access(node)?;
        self.lines.talk(&access, Asker::Work, act).await
    }

    /// Somebody waits for the answer: a BMC that is known to be silent is not waited for.
    async fn ask<T>(
        &self,
        node: &Node,
        act: impl AsyncFnOnce(&Bmc) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let access = access(node)?;
        self.lines.talk(&access, Asker::Look, act).await
    }
}

fn access(node: &Node) -> Result<Access, Error> {
    info::access(&node.driver, &node.driver_info).map_err(Error::Settings)
}

/// What was last seen of the node's hardware.
fn mirror(node: &Node) -> Hardware {
    let mut hardware = node.hardware.clone();
    if let Some(power) = node.life.power {
        hardware.power = power;
    }
    hardware
}

fn seen(hardware: Hardware) -> Report {
    Report {
        hardware: Some(hardware),
        ..Report::done()
    }
}

/// IPMI has no such thing.
fn lacks(what: &str) -> Error {
    Error::Cannot(format!("IPMI knows no {what}"))
}
