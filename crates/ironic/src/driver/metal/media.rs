//! Virtual media.

use clients::redfish;

use super::super::error::Error;
use super::super::lines::Bmc;
use super::{Metal, lacks, mirror};
use crate::record::{Hardware, Medium, Node};

/// A virtual drive, and what is in it.
pub struct Drive {
    pub media_types: Vec<String>,
    pub inserted: bool,
    pub image: Option<String>,
}

impl Metal {
    pub async fn drives(&self, node: &Node) -> Result<Vec<Drive>, Error> {
        let slots = self
            .ask(node, async |bmc| Ok(redfish(bmc)?.virtual_media().await?))
            .await?;
        let drive = |slot: redfish::Slot| Drive {
            media_types: slot.media_types,
            inserted: slot.inserted,
            image: slot.image,
        };
        Ok(slots.into_iter().map(drive).collect())
    }

    pub async fn insert(&self, node: &Node, medium: Medium) -> Result<Hardware, Error> {
        let kind = kind(&medium.device_type)?;
        self.talk(node, async |bmc| {
            Ok(redfish(bmc)?.insert_medium(kind, &medium.image_url).await?)
        })
        .await?;
        let mut hardware = mirror(node);
        hardware
            .media
            .retain(|inside| inside.device_type != medium.device_type);
        hardware.media.push(medium);
        Ok(hardware)
    }

    /// Takes media out; all of them when no types are given.
    pub async fn eject(&self, node: &Node, types: &[String]) -> Result<Hardware, Error> {
        let kinds = if types.is_empty() {
            redfish::Medium::ALL.to_vec()
        } else {
            types
                .iter()
                .map(|name| kind(name))
                .collect::<Result<_, _>>()?
        };
        self.talk(node, async |bmc| {
            Ok(redfish(bmc)?.eject_media(&kinds).await?)
        })
        .await?;
        let mut hardware = mirror(node);
        hardware
            .media
            .retain(|inside| !types.is_empty() && !types.contains(&inside.device_type));
        Ok(hardware)
    }
}

fn redfish(bmc: &Bmc) -> Result<&redfish::Client, Error> {
    match bmc {
        Bmc::Redfish(client) => Ok(client),
        Bmc::Ipmi(_) => Err(lacks("virtual media")),
    }
}

fn kind(name: &str) -> Result<redfish::Medium, Error> {
    match name {
        "cdrom" => Ok(redfish::Medium::Cd),
        "disk" => Ok(redfish::Medium::Disk),
        "floppy" => Ok(redfish::Medium::Floppy),
        _ => Err(Error::Cannot(format!("there is no virtual {name:?}"))),
    }
}
