//! BIOS attributes: what they are, what waits for the next boot.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Error;
use super::json::Resource;
use super::talk::Client;

pub type Attributes = BTreeMap<String, Value>;

#[derive(Debug, Clone, PartialEq)]
pub struct Bios {
    pub attributes: Attributes,
    /// What the next boot will change.
    pub pending: Attributes,
}

impl Client {
    /// `None` where the BMC shows no BIOS settings.
    pub async fn bios(&self) -> Result<Option<Bios>, Error> {
        let operation = "read the BIOS settings";
        let Some(bios) = self.bios_resource(operation).await? else {
            return Ok(None);
        };
        let attributes = attributes(&bios.body);
        let pending = match bios.link("/@Redfish.Settings/SettingsObject") {
            Some(path) => self
                .find(operation, path)
                .await?
                .map(|settings| self::attributes(&settings.body)),
            None => None,
        };
        let changed = |(name, value): &(String, Value)| attributes.get(name) != Some(value);
        let pending = pending
            .unwrap_or_default()
            .into_iter()
            .filter(changed)
            .collect();
        Ok(Some(Bios {
            attributes,
            pending,
        }))
    }

    /// Has these attributes take effect at the next boot. Returns false, and changes nothing, if they are so already.
    pub async fn set_bios(&self, wanted: &Attributes) -> Result<bool, Error> {
        let operation = "change the BIOS settings";
        let bios = self.must_have_bios(operation).await?;
        let now = attributes(&bios.body);
        let unknown: Vec<&str> = wanted
            .keys()
            .filter(|name| !now.contains_key(*name))
            .map(String::as_str)
            .collect();
        if !unknown.is_empty() {
            let why = format!("there are no attributes {}", unknown.join(", "));
            return Err(Error::Unsupported {
                operation,
                url: bios.url,
                why,
            });
        }
        let changed: Attributes = wanted
            .iter()
            .filter(|(name, value)| now.get(*name) != Some(*value))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect();
        if changed.is_empty() {
            return Ok(false);
        }
        let path = bios
            .link("/@Redfish.Settings/SettingsObject")
            .unwrap_or(&bios.path);
        let times = super::json::list(&bios.body, "/@Redfish.Settings/SupportedApplyTimes");
        let mut body = json!({"Attributes": changed});
        if times.iter().any(|time| time == "OnReset") {
            body["@Redfish.SettingsApplyTime"] = json!({"ApplyTime": "OnReset"});
        }
        self.patch(operation, path, &body).await?;
        Ok(true)
    }

    /// Back to the maker's settings at the next boot.
    pub async fn reset_bios(&self) -> Result<(), Error> {
        let operation = "reset the BIOS settings";
        let bios = self.must_have_bios(operation).await?;
        let Some(target) = bios.action("#Bios.ResetBios") else {
            return Err(bios.missing(operation, "/Actions/#Bios.ResetBios/target"));
        };
        self.post(operation, target, Some(&json!({})))
            .await
            .map(drop)
    }

    async fn bios_resource(&self, operation: &'static str) -> Result<Option<Resource>, Error> {
        let system = self.system_resource(operation).await?;
        match system.link("/Bios") {
            Some(path) => self.find(operation, path).await,
            None => Ok(None),
        }
    }

    async fn must_have_bios(&self, operation: &'static str) -> Result<Resource, Error> {
        let url = self.config.address.to_string();
        let none = || Error::Unsupported {
            operation,
            url,
            why: "it shows no BIOS settings".to_string(),
        };
        self.bios_resource(operation).await?.ok_or_else(none)
    }
}

fn attributes(body: &Value) -> Attributes {
    let object = body.get("Attributes").and_then(Value::as_object);
    object
        .map(|object| {
            object
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        })
        .unwrap_or_default()
}
