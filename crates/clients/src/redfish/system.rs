//! The computer system behind a BMC.

use super::json::{Resource, number};
use super::talk::Client;
use super::{BootSetting, Error, Quirks, quirks_of};
use crate::{BootMode, Power};

/// What a system says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    pub id: String,
    pub path: String,
    pub name: Option<String>,
    pub uuid: Option<String>,
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    pub sku: Option<String>,
    pub serial: Option<String>,
    pub bios_version: Option<String>,
    pub asset_tag: Option<String>,
    pub health: Option<String>,
    /// `None` where the BMC says something that is neither on nor off.
    pub power: Option<Power>,
    pub boot: BootSetting,
    pub boot_mode: Option<BootMode>,
    /// How far the firmware is, where the BMC looks.
    pub boot_progress: Option<String>,
    pub memory_mib: Option<u64>,
    pub reset_types: Vec<String>,
}

impl Client {
    /// The system: identity, health, power and boot.
    pub async fn system(&self) -> Result<System, Error> {
        let operation = "read the system";
        let system = self.system_resource(operation).await?;
        let text = |pointer: &str| system.text_at(pointer).map(ToString::to_string);
        let boot = system
            .body
            .get("Boot")
            .ok_or_else(|| system.missing(operation, "/Boot"))?;
        if system.action("#ComputerSystem.Reset").is_none() {
            return Err(system.missing(operation, "/Actions/#ComputerSystem.Reset/target"));
        }
        let resets = system.allowable("/Actions/#ComputerSystem.Reset/ResetType");
        Ok(System {
            id: system.text(operation, "/Id")?.to_string(),
            path: system.path.clone(),
            name: text("/Name"),
            uuid: text("/UUID"),
            manufacturer: text("/Manufacturer"),
            model: text("/Model"),
            sku: text("/SKU"),
            serial: text("/SerialNumber"),
            bios_version: text("/BiosVersion"),
            asset_tag: text("/AssetTag"),
            health: text("/Status/HealthRollup").or_else(|| text("/Status/Health")),
            power: text("/PowerState").and_then(|state| super::power::parse(&state)),
            boot: BootSetting::read(boot),
            boot_mode: super::boot::read_mode(boot),
            boot_progress: text("/BootProgress/LastState"),
            memory_mib: system
                .body
                .pointer("/MemorySummary/TotalSystemMemoryGiB")
                .and_then(serde_json::Value::as_f64)
                .map(|gib| (gib * 1024.0).round() as u64),
            reset_types: resets.into_iter().map(ToString::to_string).collect(),
        })
    }

    /// The vendor as the service, or else the system, names it.
    pub async fn vendor(&self) -> Result<Option<String>, Error> {
        let operation = "read the vendor";
        let root = self.get(operation, "/redfish/v1/").await?;
        if let Some(vendor) = root.text_at("/Vendor") {
            return Ok(Some(vendor.to_string()));
        }
        let system = self.system_resource(operation).await?;
        Ok(system.text_at("/Manufacturer").map(ToString::to_string))
    }

    pub async fn quirks(&self) -> Result<&'static Quirks, Error> {
        let found = async { Ok(quirks_of(&self.vendor().await?.unwrap_or_default())) };
        self.quirks.get_or_try_init(|| found).await.copied()
    }

    pub(super) async fn system_resource(&self, operation: &'static str) -> Result<Resource, Error> {
        let path = self.system_path(operation).await?;
        self.get(operation, path).await
    }

    /// The one that was configured, or the only one there is.
    pub(super) async fn system_path(&self, operation: &'static str) -> Result<&str, Error> {
        let found = async {
            if let Some(path) = &self.config.system {
                return Ok(path.clone());
            }
            let root = self.get(operation, "/redfish/v1/").await?;
            let systems = root.must_link(operation, "/Systems")?;
            let mut paths = self.member_paths(operation, systems).await?;
            match (paths.pop(), paths.len()) {
                (Some(only), 0) => Ok(only),
                (None, _) => Err(root.missing(operation, "/Systems/Members/0")),
                (Some(last), others) => Err(Error::Unsupported {
                    operation,
                    url: self.url(systems).to_string(),
                    why: format!(
                        "it has {} systems, such as {last}, and none was chosen",
                        others + 1
                    ),
                }),
            }
        };
        self.system_path
            .get_or_try_init(|| found)
            .await
            .map(String::as_str)
    }

    /// Managers of the system. They are missing while some BMCs start, so that is worth another look.
    pub(super) async fn managers(&self, operation: &'static str) -> Result<Vec<Resource>, Error> {
        let mut tries = 1;
        let paths = loop {
            let system = self.system_resource(operation).await?;
            let paths = system.links("/Links/ManagedBy");
            match paths.is_empty() {
                false => break paths,
                true if tries >= self.limits().tries => {
                    return Err(system.missing(operation, "/Links/ManagedBy"));
                }
                true => tokio::time::sleep(self.limits().pause).await,
            }
            tries += 1;
        };
        let mut managers = Vec::new();
        for path in paths {
            managers.push(self.get(operation, &path).await?);
        }
        Ok(managers)
    }
}

/// Whole numbers where BMCs write them, as 8, 8.0 or "8".
pub(super) fn count(value: &serde_json::Value, pointer: &str) -> Option<u32> {
    number(value, pointer).and_then(|number| number.try_into().ok())
}
