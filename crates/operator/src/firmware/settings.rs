//! The controller of HostFirmwareSettings: what the BIOS is set to, what it could be, and whether what is wanted can be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clients::ironic::BiosSetting;
use crd::firmware_schema::{AttributeType, FirmwareSchemaSpec, SettingSchema};
use crd::host_firmware_settings::{HostFirmwareSettingsStatus, SchemaReference};
use crd::{FirmwareSchema, HostFirmwareSettings};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use sha2::{Digest, Sha256};
use tracing::{debug, warn};

use super::check::{check, is_password};
use super::{CHANGING, REST, Source, set, source};
use crate::context::{Context, MANAGER, News, by_us};
use crate::error::Error;

/// Cares for settings until `stop`.
pub async fn run(context: Arc<Context>, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    Controller::new(
        context.watched::<HostFirmwareSettings>(),
        watcher::Config::default(),
    )
    .with_config(Config::default().concurrency(4))
    .graceful_shutdown_on(stop)
    .run(reconcile, on_error, context)
    .for_each(|result| async move {
        if let Err(error) = result {
            debug!(error = model::chain(&error), "firmware settings");
        }
    })
    .await;
}

async fn reconcile(
    object: Arc<HostFirmwareSettings>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    if object.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let (ironic, node) = match source(&context, &namespace, &name).await? {
        Source::Node { ironic, node } => (ironic, node),
        Source::Later(pause) => return Ok(Action::requeue(pause)),
    };
    let mut bios = ironic.bios(&node, true).await?;
    bios.retain(|setting| !is_password(&setting.name));
    let schema: BTreeMap<String, SettingSchema> = bios
        .iter()
        .map(|setting| (setting.name.clone(), schema_of(setting)))
        .collect();
    let reference = if schema.is_empty() {
        None
    } else {
        Some(ensure_schema(&context, &object, &schema).await?)
    };
    let actual: BTreeMap<String, String> = bios
        .into_iter()
        .map(|setting| (setting.name, setting.value.unwrap_or_default()))
        .collect();
    let before = object.status.clone().unwrap_or_default();
    let (status, problems) = status(&object, actual, &schema, reference);
    let changing = status
        .conditions
        .iter()
        .any(|c| c.type_ == "ChangeDetected" && c.status == "True");
    if status.settings != before.settings
        || status.schema != before.schema
        || status.conditions != before.conditions
    {
        save(&context, &object, status).await?;
        for problem in &problems {
            let news = News {
                warning: true,
                reason: "ValidationFailed",
                note: problem,
                related: None,
            };
            context.tell(&object.object_ref(&()), news).await;
        }
    }
    Ok(Action::requeue(if changing { CHANGING } else { REST }))
}

fn status(
    object: &HostFirmwareSettings,
    actual: BTreeMap<String, String>,
    schema: &BTreeMap<String, SettingSchema>,
    reference: Option<SchemaReference>,
) -> (HostFirmwareSettingsStatus, Vec<String>) {
    let generation = object.meta().generation.unwrap_or_default();
    let mut conditions = object.status.clone().unwrap_or_default().conditions;
    let wanted = object
        .spec
        .settings
        .iter()
        .map(|(name, value)| (name, text(value)));
    let (mut changed, mut problems) = (false, Vec::new());
    for (name, value) in wanted {
        changed |= actual.get(name) != Some(&value);
        problems.extend(check(name, schema.get(name), &value).err());
    }
    set(
        &mut conditions,
        "ChangeDetected",
        changed,
        "Success",
        "",
        generation,
    );
    let reason = if problems.is_empty() {
        "Success"
    } else {
        "ConfigurationError"
    };
    set(
        &mut conditions,
        "Valid",
        problems.is_empty(),
        reason,
        &problems.join("; "),
        generation,
    );
    let status = HostFirmwareSettingsStatus {
        schema: reference,
        settings: actual,
        last_updated: Some(Time(Timestamp::now())),
        conditions,
    };
    (status, problems)
}

fn text(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

fn schema_of(setting: &BiosSetting) -> SettingSchema {
    SettingSchema {
        attribute_type: match setting.attribute_type.as_deref() {
            Some("Enumeration") => Some(AttributeType::Enumeration),
            Some("String") => Some(AttributeType::String),
            Some("Integer") => Some(AttributeType::Integer),
            Some("Boolean") => Some(AttributeType::Boolean),
            Some("Password") => Some(AttributeType::Password),
            _ => None,
        },
        allowable_values: setting.allowable_values.clone().unwrap_or_default(),
        lower_bound: setting.lower_bound,
        upper_bound: setting.upper_bound,
        min_length: setting.min_length,
        max_length: setting.max_length,
        read_only: setting.read_only,
        unique: setting.unique,
    }
}

/// Hosts of one model share a schema: its name follows from what it says.
async fn ensure_schema(
    context: &Context,
    object: &HostFirmwareSettings,
    schema: &BTreeMap<String, SettingSchema>,
) -> Result<SchemaReference, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let digest = Sha256::digest(json!(schema).to_string());
    let hex: String = digest
        .iter()
        .take(4)
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let name = format!("schema-{hex}");
    let api: Api<FirmwareSchema> = context.in_namespace(&namespace);
    let owner = object.owner_ref(&());
    let found = api
        .get_opt(&name)
        .await
        .map_err(Error::kube("read the FirmwareSchema", &name))?;
    match found {
        None => {
            let mut made = FirmwareSchema::new(
                &name,
                FirmwareSchemaSpec {
                    schema: schema.clone(),
                    ..FirmwareSchemaSpec::default()
                },
            );
            made.owner_references_mut().extend(owner);
            api.create(&by_us(), &made)
                .await
                .map_err(Error::kube("create the FirmwareSchema", &name))?;
        }
        Some(found) => {
            let uid = object.uid().unwrap_or_default();
            if !found
                .owner_references()
                .iter()
                .any(|owner| owner.uid == uid)
            {
                let mut owners = found.owner_references().to_vec();
                owners.extend(owner);
                let patch = json!({"metadata": {
                    "resourceVersion": found.resource_version(), "ownerReferences": owners,
                }});
                api.patch(&name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
                    .await
                    .map_err(Error::kube("own the FirmwareSchema", &name))?;
            }
        }
    }
    Ok(SchemaReference { namespace, name })
}

async fn save(
    context: &Context,
    object: &HostFirmwareSettings,
    status: HostFirmwareSettingsStatus,
) -> Result<(), Error> {
    let name = object.name_any();
    let api: Api<HostFirmwareSettings> =
        context.in_namespace(&object.namespace().unwrap_or_default());
    let mut changed = object.clone();
    changed.status = Some(status);
    changed.metadata.managed_fields = None;
    api.replace_status(&name, &by_us(), &changed)
        .await
        .map(drop)
        .map_err(Error::kube(
            "write the status of the HostFirmwareSettings",
            &name,
        ))
}

fn on_error(object: Arc<HostFirmwareSettings>, error: &Error, _: Arc<Context>) -> Action {
    if error.is_conflict() {
        return Action::requeue(Duration::from_millis(200));
    }
    warn!(
        host = object.name_any(),
        error = model::chain(error),
        "firmware settings"
    );
    Action::requeue(Duration::from_secs(30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_and_what_cannot_be_is_told() {
        let object: HostFirmwareSettings = serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "HostFirmwareSettings",
            "metadata": {"name": "h", "namespace": "n", "generation": 4},
            "spec": {"settings": {"Mode": "On", "Depth": 5, "Gone": "x"}},
        }))
        .expect("it is one");
        let actual = BTreeMap::from([("Mode".into(), "Off".into()), ("Depth".into(), "5".into())]);
        let number = SettingSchema {
            attribute_type: Some(AttributeType::Integer),
            ..SettingSchema::default()
        };
        let schema = BTreeMap::from([
            ("Mode".into(), SettingSchema::default()),
            ("Depth".into(), number),
        ]);
        let (status, problems) = status(&object, actual, &schema, None);
        assert_eq!(problems, ["Gone is not a setting of this BIOS"]);
        let told: Vec<_> = status
            .conditions
            .iter()
            .map(|c| (c.type_.as_str(), c.status.as_str(), c.observed_generation))
            .collect();
        assert_eq!(
            told,
            [
                ("ChangeDetected", "True", Some(4)),
                ("Valid", "False", Some(4))
            ]
        );
    }
}
