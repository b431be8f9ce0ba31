//! What a BMC knows of its server: maker, health, BIOS settings, firmware versions.
//!
//! BIOS settings are many and seldom read, so they are kept as a document beside the node's record.

use clients::redfish::{self, AttributeInfo, Attributes};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{debug, warn};
use uuid::Uuid;

use super::super::error::Error;
use super::super::lines::Bmc;
use super::{Metal, mirror};
use crate::record::{BootMode, Hardware, Node};
use crate::store::{self, Change, Store};

/// What is kept of a node's BIOS and firmware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    pub bios: Vec<Setting>,
    pub firmware: Vec<Component>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    pub name: String,
    pub value: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Option<Timestamp>,
    pub attribute_type: Option<String>,
    pub allowable_values: Option<Vec<String>>,
    pub lower_bound: Option<i64>,
    pub upper_bound: Option<i64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub read_only: Option<bool>,
    pub reset_required: Option<bool>,
    pub unique: Option<bool>,
}

#[expect(clippy::struct_field_names, reason = "the API's own names")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Component {
    /// `bios`, `bmc`.
    pub component: String,
    pub initial_version: Option<String>,
    pub current_version: Option<String>,
    pub last_version_flashed: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Option<Timestamp>,
}

/// The document a node's facts are kept in.
pub fn key(node: Uuid) -> String {
    format!("facts/{node}")
}

impl Facts {
    /// What is known of a node; nothing, where it was never read.
    pub fn of(store: &Store, node: Uuid) -> Result<Self, store::Error> {
        let document = store.document(&key(node))?;
        Ok(document
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default())
    }

    fn learn_bios(&mut self, attributes: &Attributes, registry: &[AttributeInfo], now: Timestamp) {
        let old = std::mem::take(&mut self.bios);
        self.bios = attributes
            .iter()
            .map(|(name, value)| {
                let before = old.iter().find(|setting| setting.name == *name);
                let info = registry.iter().find(|info| info.name == *name);
                setting(name, text(value), before, info, now)
            })
            .collect();
    }

    fn learn_version(&mut self, component: &str, version: Option<String>, now: Timestamp) {
        let Some(version) = version else { return };
        match self
            .firmware
            .iter_mut()
            .find(|it| it.component == component)
        {
            Some(known) if known.current_version.as_ref() == Some(&version) => {}
            Some(known) => {
                known.current_version = Some(version);
                known.updated_at = Some(now);
            }
            None => self.firmware.push(Component {
                component: component.to_owned(),
                initial_version: Some(version.clone()),
                current_version: Some(version),
                last_version_flashed: None,
                created_at: now,
                updated_at: None,
            }),
        }
    }

    /// This component was just given new firmware, and then read.
    fn flashed(&mut self, component: &str) {
        if let Some(known) = self
            .firmware
            .iter_mut()
            .find(|it| it.component == component)
        {
            known
                .last_version_flashed
                .clone_from(&known.current_version);
        }
    }
}

fn setting(
    name: &str,
    value: Option<String>,
    before: Option<&Setting>,
    info: Option<&AttributeInfo>,
    now: Timestamp,
) -> Setting {
    let updated_at = match before {
        Some(before) if before.value != value => Some(now),
        Some(before) => before.updated_at,
        None => None,
    };
    Setting {
        name: name.to_owned(),
        value,
        created_at: before.map_or(now, |before| before.created_at),
        updated_at,
        attribute_type: info.and_then(|info| info.kind.clone()),
        allowable_values: info
            .map(|info| info.allowed.clone())
            .filter(|allowed| !allowed.is_empty()),
        lower_bound: info.and_then(|info| info.lower_bound),
        upper_bound: info.and_then(|info| info.upper_bound),
        min_length: info.and_then(|info| info.min_length),
        max_length: info.and_then(|info| info.max_length),
        read_only: info.and_then(|info| info.read_only),
        reset_required: info.and_then(|info| info.reset_required),
        unique: info.and_then(|info| info.unique),
    }
}

/// Clients expect every value as a text.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(value.to_string())
        }
    }
}

impl Metal {
    /// Steps for a node seen for the first time: jobs somebody left behind would be run, or be in the way.
    pub(super) async fn verify(&self, node: &Node) -> Result<(), Error> {
        if node.driver != "idrac" {
            return Ok(());
        }
        self.talk(node, async |bmc| match bmc {
            Bmc::Redfish(client) => Ok(client.clear_jobs().await?),
            Bmc::Ipmi(_) => Ok(false),
        })
        .await
        .map(drop)
    }

    pub(super) async fn read_facts(&self, node: &Node) -> Result<Hardware, Error> {
        let mut hardware = mirror(node);
        let wants_bios = node.interfaces.bios != "no-bios";
        let known = Facts::of(&self.store, node.uuid).unwrap_or_default();
        let facts = self
            .talk(node, async |bmc| match bmc {
                Bmc::Redfish(client) => look(client, &mut hardware, known, wants_bios)
                    .await
                    .map(Some),
                Bmc::Ipmi(client) => {
                    let id = client.device_id().await?;
                    hardware.vendor =
                        Some(clients::ipmi::quirks_of(id.manufacturer).name.to_owned())
                            .filter(|name| name != "plain");
                    Ok(None)
                }
            })
            .await?;
        if let Some(facts) = facts {
            self.keep(node.uuid, &facts).await;
        }
        Ok(hardware)
    }

    /// After an update of its firmware.
    pub(super) async fn note_flashed(
        &self,
        node: &Node,
        components: &[String],
    ) -> Result<(), Error> {
        self.read_facts(node).await?;
        let mut facts = Facts::of(&self.store, node.uuid).unwrap_or_default();
        for component in components {
            facts.flashed(component);
        }
        self.keep(node.uuid, &facts).await;
        Ok(())
    }

    async fn keep(&self, node: Uuid, facts: &Facts) {
        let value = serde_json::to_vec(facts).expect("facts have only text for keys");
        let kept = self
            .store
            .change(|tables| {
                // A node that was deleted meanwhile leaves nothing behind.
                let changes = tables.nodes.get(node).map(|_| Change::PutDocument {
                    key: key(node),
                    value,
                });
                Ok::<_, store::Error>((changes.into_iter().collect(), ()))
            })
            .await;
        if let Err(error) = kept {
            warn!(node = %node, error = model::chain(&error), "what was read of the BIOS could not be kept");
        }
    }
}

/// All that can be read. What a BMC does not show is no failure.
async fn look(
    client: &redfish::Client,
    hardware: &mut Hardware,
    mut facts: Facts,
    wants_bios: bool,
) -> Result<Facts, Error> {
    let now = Timestamp::now();
    let system = client.system().await?;
    hardware.vendor = optional(client.vendor().await)?
        .flatten()
        .or(system.manufacturer);
    hardware.health = system.health;
    if let Some(mode) = system.boot_mode {
        hardware.boot_mode = match mode {
            clients::BootMode::Uefi => BootMode::Uefi,
            clients::BootMode::Bios => BootMode::Bios,
        };
    }
    hardware.secure_boot = optional(client.secure_boot().await)?
        .flatten()
        .is_some_and(|secure| secure.enabled);
    facts.learn_version("bios", system.bios_version, now);
    facts.learn_version("bmc", optional(client.bmc_version().await)?.flatten(), now);
    if wants_bios && let Some(bios) = optional(client.bios().await)?.flatten() {
        let registry = optional(client.bios_registry().await)?.unwrap_or_default();
        facts.learn_bios(&bios.attributes, &registry, now);
    }
    Ok(facts)
}

/// A part of the BMC that fails is left out; a BMC that went silent is not.
fn optional<T>(read: Result<T, redfish::Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_silence() => Err(error.into()),
        Err(error) => {
            debug!(error = model::chain(&error), "left out of the facts");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_setting_keeps_when_it_was_first_seen_and_when_it_changed() {
        let mut facts = Facts::default();
        let read = |mode: &str| {
            Attributes::from([
                ("BootMode".to_owned(), json!(mode)),
                ("Cores".to_owned(), json!(4)),
            ])
        };
        facts.learn_bios(&read("Uefi"), &[], at(1));
        facts.learn_bios(&read("Uefi"), &[], at(2));
        facts.learn_bios(&read("Bios"), &[], at(3));
        let mode = &facts.bios[0];
        assert_eq!(mode.value.as_deref(), Some("Bios"));
        assert_eq!((mode.created_at, mode.updated_at), (at(1), Some(at(3))));
        assert_eq!(facts.bios[1].value.as_deref(), Some("4"));
        assert_eq!(facts.bios[1].updated_at, None);
    }

    #[test]
    fn firmware_remembers_its_first_version_and_the_one_that_was_flashed() {
        let mut facts = Facts::default();
        facts.learn_version("bios", Some("1.0".into()), at(1));
        facts.learn_version("bmc", None, at(1));
        facts.learn_version("bios", Some("1.1".into()), at(2));
        facts.flashed("bios");
        assert_eq!(facts.firmware.len(), 1);
        let bios = &facts.firmware[0];
        assert_eq!(bios.initial_version.as_deref(), Some("1.0"));
        assert_eq!(bios.current_version.as_deref(), Some("1.1"));
        assert_eq!(bios.last_version_flashed.as_deref(), Some("1.1"));
    }
}
