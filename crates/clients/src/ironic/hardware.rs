//! A node's hardware beyond its power: RAID, BIOS, firmware, virtual media, events; and nodes in the caller's own words.

use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::node::escaped;
use super::{Error, Ironic, Power};

/// What a list of nodes tells in short.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Brief {
    pub uuid: String,
    #[serde(default)]
    pub name: Option<String>,
    pub provision_state: String,
    #[serde(default)]
    pub boot_interface: Option<String>,
}

/// One setting of a BIOS; what it may be only where it was asked for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BiosSetting {
    pub name: String,
    #[serde(default)]
    pub value: Option<String>,
    #[serde(default)]
    pub attribute_type: Option<String>,
    #[serde(default)]
    pub allowable_values: Option<Vec<String>>,
    #[serde(default)]
    pub lower_bound: Option<i64>,
    #[serde(default)]
    pub upper_bound: Option<i64>,
    #[serde(default)]
    pub min_length: Option<i64>,
    #[serde(default)]
    pub max_length: Option<i64>,
    #[serde(default)]
    pub read_only: Option<bool>,
    #[serde(default)]
    pub unique: Option<bool>,
}

/// A piece of firmware.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Component {
    pub component: String,
    #[serde(default)]
    pub initial_version: Option<String>,
    #[serde(default)]
    pub current_version: Option<String>,
    #[serde(default)]
    pub last_version_flashed: Option<String>,
    #[serde(default)]
    pub updated_at: Option<String>,
}

impl Ironic {
    /// A node in the caller's own words, by uuid or name; nothing where there is none.
    pub async fn show<T: DeserializeOwned>(&self, ident: &str) -> Result<Option<T>, Error> {
        let path = format!("/v1/nodes/{}", escaped(ident));
        found(self.get("read a node", &path).await)
    }

    /// A new node in the caller's own words; its uuid.
    pub async fn enrol(&self, body: &Value) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Made {
            uuid: String,
        }
        let made: Made = self
            .ask("create a node", &Method::POST, "/v1/nodes", Some(body))
            .await?;
        Ok(made.uuid)
    }

    /// Changes in the caller's own words: a JSON patch.
    pub async fn change(&self, ident: &str, patch: &Value) -> Result<(), Error> {
        let path = format!("/v1/nodes/{}", escaped(ident));
        self.tell("change a node", &Method::PATCH, &path, Some(patch))
            .await
    }

    /// A change of the provision state in the caller's own words. Accepted, which is not done.
    pub async fn verb(&self, ident: &str, body: &Value) -> Result<(), Error> {
        let path = format!("/v1/nodes/{}/states/provision", escaped(ident));
        self.tell(
            "change the provision state",
            &Method::PUT,
            &path,
            Some(body),
        )
        .await
    }

    /// Every node in short.
    pub async fn briefs(&self) -> Result<Vec<Brief>, Error> {
        let fields = "fields=uuid,name,provision_state,boot_interface";
        self.all_nodes(fields, |node: &Brief| node.uuid.clone())
            .await
    }

    /// As [`Ironic::power`]; what is soft becomes hard after so many seconds.
    pub async fn power_within(&self, ident: &str, power: Power, seconds: u64) -> Result<(), Error> {
        let path = format!("/v1/nodes/{}/states/power", escaped(ident));
        let body = json!({"target": power.as_str(), "timeout": seconds});
        self.tell("change the power", &Method::PUT, &path, Some(&body))
            .await
    }

    /// The volumes that the next cleaning with a RAID step makes.
    pub async fn set_raid(&self, ident: &str, logical_disks: &[Value]) -> Result<(), Error> {
        let path = format!("/v1/nodes/{}/states/raid", escaped(ident));
        let body = json!({"logical_disks": logical_disks});
        self.tell(
            "set the RAID configuration",
            &Method::PUT,
            &path,
            Some(&body),
        )
        .await
    }

    /// The BIOS settings as they are; with `detail` also what they may be. None where the BMC shows none.
    pub async fn bios(&self, ident: &str, detail: bool) -> Result<Vec<BiosSetting>, Error> {
        #[derive(Deserialize, Default)]
        struct Bios {
            #[serde(default)]
            bios: Vec<BiosSetting>,
        }
        let query = if detail { "?detail=True" } else { "" };
        let path = format!("/v1/nodes/{}/bios{query}", escaped(ident));
        let bios: Option<Bios> = found(self.get("read BIOS settings", &path).await)?;
        Ok(bios.unwrap_or_default().bios)
    }

    pub async fn firmware(&self, ident: &str) -> Result<Vec<Component>, Error> {
        #[derive(Deserialize, Default)]
        struct Firmware {
            #[serde(default)]
            firmware: Vec<Component>,
        }
        let path = format!("/v1/nodes/{}/firmware", escaped(ident));
        let firmware: Option<Firmware> = found(self.get("read firmware versions", &path).await)?;
        Ok(firmware.unwrap_or_default().firmware)
    }

    /// Whether something is in a virtual drive.
    pub async fn has_media(&self, ident: &str) -> Result<bool, Error> {
        let path = format!("/v1/nodes/{}/vmedia", escaped(ident));
        let answer: Value = self.get("look into the virtual drives", &path).await?;
        let drives = answer.as_array().or_else(|| answer["vmedia"].as_array());
        Ok(drives.is_some_and(|drives| {
            drives
                .iter()
                .any(|drive| drive["inserted"].as_bool().unwrap_or(false))
        }))
    }

    pub async fn attach_media(&self, ident: &str, url: &str) -> Result<(), Error> {
        let path = format!("/v1/nodes/{}/vmedia", escaped(ident));
        let body = json!({"device_type": "cdrom", "image_url": url});
        self.tell("insert a virtual CD", &Method::POST, &path, Some(&body))
            .await
    }

    pub async fn detach_media(&self, ident: &str) -> Result<(), Error> {
        let path = format!("/v1/nodes/{}/vmedia?device_types=cdrom", escaped(ident));
        self.tell("eject the virtual CD", &Method::DELETE, &path, None)
            .await
    }

    /// Subscribes to the BMC's events; the subscription's id.
    pub async fn subscribe(
        &self,
        ident: &str,
        destination: &str,
        context: &str,
        headers: &[Map<String, Value>],
    ) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Made {
            #[serde(rename = "Id")]
            id: String,
        }
        let path = format!(
            "/v1/nodes/{}/vendor_passthru?method=create_subscription",
            escaped(ident)
        );
        let mut body = json!({"Destination": destination, "Context": context});
        if !headers.is_empty() {
            body["HttpHeaders"] = json!(headers);
        }
        let made: Made = self
            .ask("subscribe to events", &Method::POST, &path, Some(&body))
            .await?;
        Ok(made.id)
    }

    /// One that is gone already is no trouble.
    pub async fn unsubscribe(&self, ident: &str, id: &str) -> Result<(), Error> {
        let path = format!(
            "/v1/nodes/{}/vendor_passthru?method=delete_subscription",
            escaped(ident)
        );
        let body = json!({"id": id});
        found(
            self.tell(
                "unsubscribe from events",
                &Method::DELETE,
                &path,
                Some(&body),
            )
            .await,
        )
        .map(|_| ())
    }
}

fn found<T>(outcome: Result<T, Error>) -> Result<Option<T>, Error> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}
