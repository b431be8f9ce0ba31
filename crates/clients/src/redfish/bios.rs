//! BIOS attributes: what they are, what waits for the next boot.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Error;
use super::json::{Resource, list, text};
use super::talk::Client;

pub type Attributes = BTreeMap<String, Value>;

#[derive(Debug, Clone, PartialEq)]
pub struct Bios {
    pub attributes: Attributes,
    /// What the next boot will change.
    pub pending: Attributes,
}

/// What the BMC's registry says of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeInfo {
    pub name: String,
    /// `Enumeration`, `String`, `Integer`, `Boolean`, `Password`.
    pub kind: Option<String>,
    pub allowed: Vec<String>,
    /// Bounds may need more than 32 bits.
    pub lower_bound: Option<i64>,
    pub upper_bound: Option<i64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub read_only: Option<bool>,
    pub reset_required: Option<bool>,
    pub unique: Option<bool>,
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

    /// What can be set, as far as the BMC publishes it. Empty where it does not.
    pub async fn bios_registry(&self) -> Result<Vec<AttributeInfo>, Error> {
        let operation = "read the BIOS attribute registry";
        let Some(bios) = self.bios_resource(operation).await? else {
            return Ok(Vec::new());
        };
        let Some(wanted) = bios.text_at("/AttributeRegistry") else {
            return Ok(Vec::new());
        };
        let root = self.get(operation, "/redfish/v1/").await?;
        let Some(registries) = root.link("/Registries") else {
            return Ok(Vec::new());
        };
        for path in self.member_paths(operation, registries).await? {
            // The id is the last part of the path, with or without a version.
            let id = path.rsplit('/').next().unwrap_or_default();
            if !wanted.starts_with(id) && !id.starts_with(wanted) {
                continue;
            }
            let Some(file) = self.find(operation, &path).await? else {
                continue;
            };
            let english = |place: &&Value| {
                text(place, "/Language").is_none_or(|language| language.starts_with("en"))
            };
            let place = list(&file.body, "/Location").iter().find(english);
            let Some(uri) = place.and_then(|place| text(place, "/Uri")) else {
                continue;
            };
            let registry = self.get(operation, uri).await?;
            let entries = list(&registry.body, "/RegistryEntries/Attributes");
            return Ok(entries.iter().filter_map(info).collect());
        }
        Ok(Vec::new())
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
        let times = list(&bios.body, "/@Redfish.Settings/SupportedApplyTimes");
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

fn info(entry: &Value) -> Option<AttributeInfo> {
    let number = |name: &str| entry.get(name).and_then(Value::as_i64);
    let flag = |name: &str| entry.get(name).and_then(Value::as_bool);
    Some(AttributeInfo {
        name: text(entry, "/AttributeName")?.to_string(),
        kind: text(entry, "/Type").map(ToString::to_string),
        allowed: list(entry, "/Value")
            .iter()
            .filter_map(|value| text(value, "/ValueName"))
            .map(ToString::to_string)
            .collect(),
        lower_bound: number("LowerBound"),
        upper_bound: number("UpperBound"),
        min_length: entry.get("MinLength").and_then(Value::as_u64),
        max_length: entry.get("MaxLength").and_then(Value::as_u64),
        read_only: flag("ReadOnly"),
        reset_required: flag("ResetRequired"),
        unique: flag("IsSystemUniqueProperty"),
    })
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
