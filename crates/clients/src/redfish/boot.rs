//! What a server boots from next, and in which mode.

use serde_json::{Map, Value, json};
use tracing::{debug, info};

use super::Error;
use super::json::{Resource, text};
use super::talk::Client;
use crate::{BootMode, Lasting};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootDevice {
    Pxe,
    Disk,
    Cdrom,
    BiosSetup,
    /// Fetched by the firmware from this address.
    UefiHttp(String),
}

/// What is set, in the BMC's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootSetting {
    pub target: Option<String>,
    pub lasting: Option<Lasting>,
    /// What can be set.
    pub targets: Vec<String>,
}

impl BootSetting {
    pub(super) fn read(boot: &Value) -> Self {
        let names = super::json::list(boot, "/BootSourceOverrideTarget@Redfish.AllowableValues");
        Self {
            target: text(boot, "/BootSourceOverrideTarget").map(ToString::to_string),
            lasting: match text(boot, "/BootSourceOverrideEnabled") {
                Some("Once") => Some(Lasting::Once),
                Some("Continuous") => Some(Lasting::Continuous),
                Some(_) | None => None,
            },
            targets: names
                .iter()
                .filter_map(Value::as_str)
                .map(ToString::to_string)
                .collect(),
        }
    }

    /// The device, where it is one we know.
    pub fn device(&self) -> Option<BootDevice> {
        match self.target.as_deref()? {
            "Pxe" => Some(BootDevice::Pxe),
            "Hdd" => Some(BootDevice::Disk),
            "Cd" | "UsbCd" => Some(BootDevice::Cdrom),
            "BiosSetup" => Some(BootDevice::BiosSetup),
            "UefiHttp" => Some(BootDevice::UefiHttp(String::new())),
            _ => None,
        }
    }
}

/// How often a server that is busy with its self test is asked.
const POST_TRIES: u32 = 6;

impl Client {
    /// Sets what to boot from. Returns for how long it holds: some BMCs know no `Continuous`, and then it must be
    /// set again before every boot.
    pub async fn set_boot_device(
        &self,
        device: &BootDevice,
        lasting: Lasting,
    ) -> Result<Lasting, Error> {
        let operation = "set the boot device";
        let quirks = self.quirks().await?;
        let (resource, boot) = self.boot_resource(operation).await?;
        let mode = read_mode(&boot);
        let persistent_disk = *device == BootDevice::Disk && lasting == Lasting::Continuous;
        if quirks.skips_persistent_disk_in_uefi && persistent_disk && mode == Some(BootMode::Uefi) {
            debug!(bmc = %self.config.address, "the firmware keeps the installed system first by itself");
            self.disable_override(operation, &resource, &boot).await?;
            return Ok(Lasting::Continuous);
        }
        let offered = BootSetting::read(&boot);
        let target = target(device, quirks.cd_targets, &offered.targets).ok_or_else(|| {
            Error::Unsupported {
                operation,
                url: resource.url.clone(),
                why: format!("{device:?} is not among {}", offered.targets.join(", ")),
            }
        })?;
        let change = Change {
            target,
            lasting,
            http_uri: if let BootDevice::UefiHttp(uri) = device {
                Some(uri)
            } else {
                None
            },
            enabled: quirks.always_enabled || offered.lasting != Some(lasting),
            mode: mode.filter(|_| quirks.always_mode),
        };
        let full = Change {
            enabled: true,
            mode,
            ..change.clone()
        };
        match self.change_boot(operation, &resource, &change).await {
            Ok(()) => return Ok(lasting),
            // It wants more than it should.
            Err(error) if error.status() == Some(400) && full != change => {
                if self.change_boot(operation, &resource, &full).await.is_ok() {
                    return Ok(lasting);
                }
                if lasting == Lasting::Once {
                    return Err(error);
                }
            }
            Err(error) if error.status() == Some(400) && lasting == Lasting::Continuous => {}
            Err(error) => return Err(error),
        }
        info!(bmc = %self.config.address, "the BMC does not keep a boot device; it is set for one boot");
        self.change_boot(
            operation,
            &resource,
            &Change {
                lasting: Lasting::Once,
                ..full
            },
        )
        .await?;
        Ok(Lasting::Once)
    }

    pub async fn boot_device(&self) -> Result<BootSetting, Error> {
        let (_, boot) = self.boot_resource("read the boot device").await?;
        Ok(BootSetting::read(&boot))
    }

    pub async fn boot_mode(&self) -> Result<Option<BootMode>, Error> {
        let (_, boot) = self.boot_resource("read the boot mode").await?;
        Ok(read_mode(&boot))
    }

    /// Sets the mode. Set it while the server is off: some BMCs take it in no other way.
    pub async fn set_boot_mode(&self, mode: BootMode) -> Result<(), Error> {
        let operation = "set the boot mode";
        let (resource, boot) = self.boot_resource(operation).await?;
        if read_mode(&boot) == Some(mode) {
            return Ok(());
        }
        let alone = json!({"Boot": {"BootSourceOverrideMode": mode_name(mode)}});
        match self.patch(operation, &resource.path, &alone).await {
            Err(error) if error.status() == Some(400) => {
                let now = BootSetting::read(&boot);
                let change = Change {
                    target: now.target.as_deref().unwrap_or("None"),
                    lasting: now.lasting.unwrap_or(Lasting::Once),
                    http_uri: None,
                    enabled: true,
                    mode: Some(mode),
                };
                self.change_boot(operation, &resource, &change).await
            }
            outcome => outcome,
        }
    }

    /// Where `Boot` is changed: the system, or its settings object where that has it.
    async fn boot_resource(&self, operation: &'static str) -> Result<(Resource, Value), Error> {
        let system = self.system_resource(operation).await?;
        let boot = system
            .body
            .get("Boot")
            .cloned()
            .ok_or_else(|| system.missing(operation, "/Boot"))?;
        let Some(path) = system.link("/@Redfish.Settings/SettingsObject") else {
            return Ok((system, boot));
        };
        match self.find(operation, path).await? {
            Some(settings) if settings.body.get("Boot").is_some() => Ok((settings, boot)),
            Some(_) | None => Ok((system, boot)),
        }
    }

    async fn change_boot(
        &self,
        operation: &'static str,
        resource: &Resource,
        change: &Change<'_>,
    ) -> Result<(), Error> {
        self.patch_boot(operation, resource, &json!({"Boot": change.body()}))
            .await
    }

    async fn disable_override(
        &self,
        operation: &'static str,
        resource: &Resource,
        boot: &Value,
    ) -> Result<(), Error> {
        if text(boot, "/BootSourceOverrideEnabled") == Some("Disabled") {
            return Ok(());
        }
        self.patch_boot(
            operation,
            resource,
            &json!({"Boot": {"BootSourceOverrideEnabled": "Disabled"}}),
        )
        .await
    }

    async fn patch_boot(
        &self,
        operation: &'static str,
        resource: &Resource,
        body: &Value,
    ) -> Result<(), Error> {
        let mut tries = 1;
        loop {
            match self.patch(operation, &resource.path, body).await {
                Err(error)
                    if error.says("UnableToModifyDuringSystemPOST") && tries < POST_TRIES =>
                {
                    debug!(bmc = %self.config.address, tries, "the server is in its self test");
                    tokio::time::sleep(self.limits().pause * (1 << (tries - 1)).min(10)).await;
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Change<'a> {
    target: &'a str,
    lasting: Lasting,
    http_uri: Option<&'a String>,
    enabled: bool,
    mode: Option<BootMode>,
}

impl Change<'_> {
    fn body(&self) -> Map<String, Value> {
        let mut boot = Map::new();
        boot.insert("BootSourceOverrideTarget".into(), self.target.into());
        if self.enabled {
            boot.insert(
                "BootSourceOverrideEnabled".into(),
                lasting_name(self.lasting).into(),
            );
        }
        if let Some(mode) = self.mode {
            boot.insert("BootSourceOverrideMode".into(), mode_name(mode).into());
        }
        if let Some(uri) = self.http_uri {
            boot.insert("HttpBootUri".into(), uri.as_str().into());
        }
        boot
    }
}

/// The name of a device on this BMC; a BMC that lists none may know them all.
fn target<'a>(
    device: &BootDevice,
    cd_targets: &'a [&'a str],
    offered: &[String],
) -> Option<&'a str> {
    let names: &[&str] = match device {
        BootDevice::Pxe => &["Pxe"],
        BootDevice::Disk => &["Hdd"],
        BootDevice::Cdrom => cd_targets,
        BootDevice::BiosSetup => &["BiosSetup"],
        BootDevice::UefiHttp(_) => &["UefiHttp"],
    };
    let known = |name: &&&str| offered.is_empty() || offered.iter().any(|offer| offer == **name);
    names.iter().find(known).copied()
}

pub(super) fn read_mode(boot: &Value) -> Option<BootMode> {
    match text(boot, "/BootSourceOverrideMode")? {
        "UEFI" => Some(BootMode::Uefi),
        "Legacy" => Some(BootMode::Bios),
        _ => None,
    }
}

fn mode_name(mode: BootMode) -> &'static str {
    match mode {
        BootMode::Uefi => "UEFI",
        BootMode::Bios => "Legacy",
    }
}

fn lasting_name(lasting: Lasting) -> &'static str {
    match lasting {
        Lasting::Once => "Once",
        Lasting::Continuous => "Continuous",
    }
}
