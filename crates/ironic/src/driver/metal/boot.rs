//! What a server boots from, in which mode, and whether it checks what it boots.

use clients::Lasting;
use clients::{ipmi, redfish};
use lifecycle::node::Power;
use serde_json::Value;
use tracing::info;

use super::super::error::Error;
use super::super::info;
use super::super::lines::Bmc;
use super::{Metal, lacks, mirror};
use crate::record::{BootDevice, BootMode, Hardware, Node, Object};

/// Where a node keeps the address that UEFI HTTP boot fetches from.
pub const HTTP_BOOT_URL: &str = "http_boot_url";

const REDFISH_DEVICES: &[&str] = &["pxe", "disk", "cdrom", "bios", "uefihttp"];
const IPMI_DEVICES: &[&str] = &["pxe", "disk", "cdrom", "bios", "safe"];

impl Metal {
    pub fn boot_devices(node: &Node) -> &'static [&'static str] {
        if node.driver == "ipmi" {
            IPMI_DEVICES
        } else {
            REDFISH_DEVICES
        }
    }

    /// As an operation wants it: the node may say for how long, and which mode it wants.
    pub(super) async fn boot_from(
        &self,
        node: &Node,
        device: &str,
        persistent: bool,
    ) -> Result<Hardware, Error> {
        let persistent = info::persistent(&node.driver_info, persistent);
        let mut node = node.clone();
        node.hardware = mirror(&node);
        if let Some(mode) = wanted_mode(&node) {
            self.sync_boot_mode(&mut node, mode).await?;
        }
        let installed = device == "disk";
        if installed && wants_secure_boot(&node) && node.driver != "ipmi" {
            node.hardware = self.set_secure_boot(&node, true).await?;
        }
        let device = BootDevice {
            boot_device: device.to_owned(),
            persistent,
        };
        self.set_boot_device(&node, device).await
    }

    pub async fn boot_device(&self, node: &Node) -> Result<BootDevice, Error> {
        self.ask(node, async |bmc| match bmc {
            Bmc::Redfish(client) => {
                let setting = client.boot_device().await?;
                let name = match setting.device() {
                    Some(redfish::BootDevice::Pxe) => "pxe",
                    Some(redfish::BootDevice::Disk) => "disk",
                    Some(redfish::BootDevice::Cdrom) => "cdrom",
                    Some(redfish::BootDevice::BiosSetup) => "bios",
                    Some(redfish::BootDevice::UefiHttp(_)) => "uefihttp",
                    None => return Ok(node.hardware.boot.clone()),
                };
                Ok(BootDevice {
                    boot_device: name.into(),
                    persistent: setting.lasting == Some(Lasting::Continuous),
                })
            }
            Bmc::Ipmi(client) => {
                let Some((device, lasting)) = client.boot_device().await? else {
                    return Ok(node.hardware.boot.clone());
                };
                let name = match device {
                    ipmi::BootDevice::Pxe => "pxe",
                    ipmi::BootDevice::Disk => "disk",
                    ipmi::BootDevice::Cdrom => "cdrom",
                    ipmi::BootDevice::BiosSetup => "bios",
                    ipmi::BootDevice::Safe => "safe",
                };
                Ok(BootDevice {
                    boot_device: name.into(),
                    persistent: lasting == Lasting::Continuous,
                })
            }
        })
        .await
    }

    pub async fn set_boot_device(
        &self,
        node: &Node,
        device: BootDevice,
    ) -> Result<Hardware, Error> {
        let lasting = if device.persistent {
            Lasting::Continuous
        } else {
            Lasting::Once
        };
        let name = device.boot_device.as_str();
        let mode = match wanted_mode(node).or(node.boot_mode) {
            Some(BootMode::Bios) => clients::BootMode::Bios,
            Some(BootMode::Uefi) | None => clients::BootMode::Uefi,
        };
        let kept = self
            .talk(node, async |bmc| match bmc {
                Bmc::Redfish(client) => {
                    let device = redfish_device(node, name)?;
                    Ok(client.set_boot_device(&device, lasting).await?)
                }
                Bmc::Ipmi(client) => {
                    client
                        .set_boot_device(ipmi_device(name)?, lasting, mode)
                        .await?;
                    Ok(lasting)
                }
            })
            .await?;
        Ok(Hardware {
            boot: device,
            resend_boot: lasting == Lasting::Continuous && kept == Lasting::Once,
            ..mirror(node)
        })
    }

    /// Before every power on, where the BMC keeps a boot device for one boot only.
    pub(super) async fn resend_boot_device(&self, node: &Node) -> Result<(), Error> {
        if !node.hardware.resend_boot {
            return Ok(());
        }
        let device = node.hardware.boot.clone();
        self.set_boot_device(node, device).await.map(drop)
    }

    pub async fn set_boot_mode(&self, node: &Node, mode: BootMode) -> Result<Hardware, Error> {
        let wanted = match mode {
            BootMode::Uefi => clients::BootMode::Uefi,
            BootMode::Bios => clients::BootMode::Bios,
        };
        self.talk(node, async |bmc| match bmc {
            Bmc::Redfish(client) => {
                if client.boot_mode().await? == Some(wanted) {
                    return Ok(());
                }
                // Some BMCs take it in no other state, and others take it and do nothing.
                if client.power().await? != Some(clients::Power::Off) {
                    return Err(Error::Cannot(
                        "the boot mode is changed only while the server is off: power it off first"
                            .into(),
                    ));
                }
                Ok(client.set_boot_mode(wanted).await?)
            }
            Bmc::Ipmi(_) => Err(lacks("change of the boot mode")),
        })
        .await?;
        Ok(Hardware {
            boot_mode: mode,
            ..mirror(node)
        })
    }

    pub async fn set_secure_boot(&self, node: &Node, on: bool) -> Result<Hardware, Error> {
        self.talk(node, async |bmc| match bmc {
            Bmc::Redfish(client) => Ok(client.set_secure_boot(on).await?),
            Bmc::Ipmi(_) => Err(lacks("secure boot")),
        })
        .await?;
        Ok(Hardware {
            secure_boot: on,
            ..mirror(node)
        })
    }

    pub async fn inject_nmi(&self, node: &Node) -> Result<(), Error> {
        self.ask(node, async |bmc| {
            match bmc {
                Bmc::Redfish(client) => client.reset(redfish::Reset::Nmi).await?,
                Bmc::Ipmi(client) => client.inject_nmi().await?,
            }
            Ok(())
        })
        .await
    }

    /// Has the mode as the node's capabilities want it. IPMI says the mode with the device instead.
    async fn sync_boot_mode(&self, node: &mut Node, mode: BootMode) -> Result<(), Error> {
        if node.driver == "ipmi" || node.hardware.power != Power::Off {
            return Ok(());
        }
        match self.set_boot_mode(node, mode).await {
            Ok(hardware) => node.hardware = hardware,
            Err(error) if error.is_silence() || error.may_pass() => return Err(error),
            Err(error) => {
                info!(node = %node.uuid, mode = mode.as_str(), error = model::chain(&error), "the boot mode stays as it is");
            }
        }
        Ok(())
    }
}

fn redfish_device(node: &Node, name: &str) -> Result<redfish::BootDevice, Error> {
    match name {
        "pxe" => Ok(redfish::BootDevice::Pxe),
        "disk" => Ok(redfish::BootDevice::Disk),
        "cdrom" => Ok(redfish::BootDevice::Cdrom),
        "bios" => Ok(redfish::BootDevice::BiosSetup),
        "uefihttp" => {
            let url = node.driver_internal_info.get(HTTP_BOOT_URL);
            let url = url.and_then(Value::as_str).ok_or_else(|| {
                Error::Cannot("there is no address to boot from over HTTP".into())
            })?;
            Ok(redfish::BootDevice::UefiHttp(url.to_owned()))
        }
        _ => Err(Error::Cannot(format!(
            "Redfish knows no boot device {name}"
        ))),
    }
}

fn ipmi_device(name: &str) -> Result<ipmi::BootDevice, Error> {
    match name {
        "pxe" => Ok(ipmi::BootDevice::Pxe),
        "disk" => Ok(ipmi::BootDevice::Disk),
        "cdrom" => Ok(ipmi::BootDevice::Cdrom),
        "bios" => Ok(ipmi::BootDevice::BiosSetup),
        "safe" => Ok(ipmi::BootDevice::Safe),
        _ => Err(lacks(&format!("boot device {name}"))),
    }
}

/// The mode a node was told to boot in, if it was: for the instance, for the node, or by an earlier deployment.
pub fn wanted_mode(node: &Node) -> Option<BootMode> {
    if wants_secure_boot(node) {
        return Some(BootMode::Uefi);
    }
    let parse = |text: String| match text.as_str() {
        "uefi" => Some(BootMode::Uefi),
        "bios" => Some(BootMode::Bios),
        _ => None,
    };
    let deployed = node
        .driver_internal_info
        .get("deploy_boot_mode")
        .and_then(Value::as_str)
        .map(ToOwned::to_owned);
    capability(&node.instance_info, "boot_mode")
        .and_then(parse)
        .or_else(|| capability(&node.properties, "boot_mode").and_then(parse))
        .or_else(|| deployed.and_then(parse))
}

fn wants_secure_boot(node: &Node) -> bool {
    let asked = capability(&node.instance_info, "secure_boot")
        .or_else(|| capability(&node.properties, "secure_boot"));
    asked.is_some_and(|asked| asked.eq_ignore_ascii_case("true"))
}

/// One of the `capabilities`: written `a:b,c:d`, as an object, or as an object in a text.
fn capability(object: &Object, name: &str) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    match object.get("capabilities")? {
        Value::Object(all) => all.get(name).and_then(text),
        Value::String(written) => match serde_json::from_str(written) {
            Ok(Value::Object(all)) => all.get(name).and_then(text),
            Ok(_) | Err(_) => written
                .split(',')
                .filter_map(|pair| pair.split_once(':'))
                .find(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim().to_owned()),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::driver::catalog;

    fn node() -> Node {
        let interfaces = catalog::find("redfish").unwrap().defaults();
        Node::new(
            Uuid::nil(),
            "redfish".into(),
            interfaces,
            Timestamp::UNIX_EPOCH,
        )
    }

    #[test]
    fn the_instance_is_asked_first_for_its_mode_then_the_node() {
        let mut node = node();
        assert_eq!(wanted_mode(&node), None);
        node.driver_internal_info
            .insert("deploy_boot_mode".into(), json!("bios"));
        assert_eq!(wanted_mode(&node), Some(BootMode::Bios));
        node.properties
            .insert("capabilities".into(), json!("boot_mode:uefi,other:1"));
        assert_eq!(wanted_mode(&node), Some(BootMode::Uefi));
        node.instance_info
            .insert("capabilities".into(), json!({"boot_mode": "bios"}));
        assert_eq!(wanted_mode(&node), Some(BootMode::Bios));
        node.instance_info.insert(
            "capabilities".into(),
            json!("{\"secure_boot\": \"true\", \"boot_mode\": \"bios\"}"),
        );
        assert_eq!(
            wanted_mode(&node),
            Some(BootMode::Uefi),
            "secure boot is UEFI's"
        );
    }
}
