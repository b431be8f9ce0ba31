//! What Kubernetes knows of a host, as the decider wants to see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crd::host::FINALIZER;
use crd::host_update_policy::UpdatePolicy as Policy;
use crd::{
    BareMetalHost, DataImage, HardwareData, HostFirmwareComponents, HostFirmwareSettings,
    HostUpdatePolicy, PreprovisioningImage,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Api, Resource, ResourceExt};
use lifecycle::host::{self as view, Host, Observation, Observed};
use serde_json::Value;

use super::pass::Pass;
use super::secret;
use crate::cache::Kept;
use crate::context::Context;
use crate::convert::converted;
use crate::error::Error;
use crate::metrics;

impl<'a> Pass<'a> {
    /// Looks at what belongs to the host: in the stores, or, where these may be behind, `exact`ly.
    pub async fn begin(
        context: &'a Context,
        object: BareMetalHost,
        exact: bool,
    ) -> Result<Self, Error> {
        let host = host(&object)?;
        let mut seen = Observed::default();
        let mut login = None;
        let mut ironic = None;
        // A paused host is not even looked at.
        if !host.is_paused() {
            let at = Place {
                context,
                namespace: &host.namespace,
                exact,
            };
            belongings(at, &host, &mut seen).await?;
            let secret = credentials(at, &object, &host).await?;
            (seen.credentials, login) = secret::credentials(secret.as_deref());
            ironic = context.ironic.ready().await;
            seen.ironic = ironic.as_ref().map(clients::ironic::Ironic::version);
            seen.ironic_away = context.ironic.away().await;
            count(context, &host, &seen);
        }
        Ok(Self {
            context,
            object,
            host,
            seen,
            ironic,
            login,
            deploy_data: None,
            wrote_belongings: false,
            released: false,
        })
    }
}

fn count(context: &Context, host: &Host, seen: &Observed) {
    let about = metrics::Host {
        namespace: &host.namespace,
        name: &host.name,
    };
    let metrics = &context.config.metrics;
    match &seen.credentials {
        view::Credentials::Missing if !host.spec.bmc.credentials_name.is_empty() => {
            metrics.credentials_missing(about);
        }
        view::Credentials::Invalid { .. } => metrics.credentials_invalid(about),
        view::Credentials::Missing | view::Credentials::Present { .. } => {}
    }
    if seen.ironic.is_none() {
        metrics.ironic_not_ready(about);
    }
}

/// Where things are looked up.
#[derive(Clone, Copy)]
struct Place<'a> {
    context: &'a Context,
    namespace: &'a str,
    exact: bool,
}

impl Place<'_> {
    async fn find<K: Kept>(self, name: &str) -> Result<Option<Arc<K>>, Error> {
        if self.exact {
            return self.read(name).await;
        }
        Ok(self.context.cache.get(self.namespace, name))
    }

    async fn read<K: Kept>(self, name: &str) -> Result<Option<Arc<K>>, Error> {
        let api: Api<K> = self.context.in_namespace(self.namespace);
        let found = api.get_opt(name).await;
        let found = found.map_err(Error::kube("read what belongs to the host", name))?;
        Ok(found.map(Arc::new))
    }
}

fn host(object: &BareMetalHost) -> Result<Host, Error> {
    let name = object.name_any();
    Ok(Host {
        namespace: object.namespace().unwrap_or_default(),
        uid: object.uid().unwrap_or_default(),
        generation: object.meta().generation.unwrap_or_default(),
        deleting: object.meta().deletion_timestamp.is_some(),
        finalizer: object.finalizers().iter().any(|f| f == FINALIZER),
        annotations: object.annotations().clone(),
        spec: converted("BareMetalHost", &name, &object.spec)?,
        status: converted(
            "BareMetalHost",
            &name,
            object.status.clone().unwrap_or_default(),
        )?,
        name,
    })
}

/// The Secret with the BMC's credentials; marked as the host's once the host is ours to care for.
async fn credentials(
    at: Place<'_>,
    object: &BareMetalHost,
    host: &Host,
) -> Result<Option<Arc<Secret>>, Error> {
    let name = &host.spec.bmc.credentials_name;
    if name.is_empty() {
        return Ok(None);
    }
    // Only Secrets that were claimed are in the store.
    let known = at.context.cache.get::<Secret>(at.namespace, name);
    if let Some(secret) = known.filter(|secret| secret::is_claimed(secret, object)) {
        return Ok(Some(secret));
    }
    match at.read::<Secret>(name).await? {
        Some(secret)
            if host.finalizer && !host.deleting && secret.meta().deletion_timestamp.is_none() =>
        {
            let api = at.context.in_namespace(at.namespace);
            let claimed = secret::claim(&api, &secret, object).await?;
            Ok(Some(claimed.map_or(secret, Arc::new)))
        }
        found => Ok(found),
    }
}

/// The objects with the host's name.
async fn belongings(at: Place<'_>, host: &Host, seen: &mut Observed) -> Result<(), Error> {
    let name = &host.name;
    let hardware = at.find::<HardwareData>(name).await?;
    let details = hardware
        .as_ref()
        .and_then(|data| data.spec.hardware.as_ref());
    seen.hardware_data = match details {
        Some(details) => Some(converted("HardwareData", name, details)?),
        None => None,
    };
    let settings = at.find(name).await?;
    seen.firmware_settings = settings.map(|found| firmware_settings(Arc::unwrap_or_clone(found)));
    let components = at.find(name).await?;
    seen.firmware_components =
        components.map(|found| firmware_components(Arc::unwrap_or_clone(found)));
    let policy = at.find(name).await?;
    seen.update_policy = policy
        .map(|found| update_policy(&found))
        .unwrap_or_default();
    let data_image = at.find(name).await?;
    seen.data_image = data_image.map(|found| of_data_image(Arc::unwrap_or_clone(found)));
    if at.context.config.host.image_builder {
        let image = at.find(name).await?;
        seen.preprovisioning_image =
            image.map(|found| preprovisioning_image(Arc::unwrap_or_clone(found)));
    }
    let network = &host.spec.preprovisioning_network_data_name;
    if !network.is_empty() {
        // Nobody claims it, so no store has it.
        let secret = at.read::<Secret>(network).await?;
        seen.network_secret_version = secret.and_then(|secret| secret.resource_version());
    }
    Ok(())
}

fn firmware_settings(object: HostFirmwareSettings) -> view::FirmwareSettings {
    let generation = object.meta().generation.unwrap_or_default();
    let status = object.status.unwrap_or_default();
    view::FirmwareSettings {
        seen: observation(generation, &status.conditions),
        wanted: object
            .spec
            .settings
            .into_iter()
            .map(|(name, value)| (name, setting(value)))
            .collect(),
        actual: status.settings,
    }
}

fn setting(value: IntOrString) -> Value {
    match value {
        IntOrString::Int(number) => number.into(),
        IntOrString::String(text) => text.into(),
    }
}

fn firmware_components(object: HostFirmwareComponents) -> view::FirmwareComponents {
    let generation = object.meta().generation.unwrap_or_default();
    let status = object.status.unwrap_or_default();
    let updates = |from: Vec<crd::host_firmware_components::FirmwareUpdate>| {
        from.into_iter()
            .map(|update| view::FirmwareUpdate {
                component: update.component,
                url: update.url,
            })
            .collect()
    };
    view::FirmwareComponents {
        seen: observation(generation, &status.conditions),
        wanted: updates(object.spec.updates),
        applied: updates(status.updates),
    }
}

fn observation(generation: i64, conditions: &[Condition]) -> Observation {
    let find = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    let (changed, valid) = (find("ChangeDetected"), find("Valid"));
    let holds = |condition: Option<&Condition>| condition.is_some_and(|c| c.status == "True");
    Observation {
        generation,
        observed_generation: match (changed, valid) {
            (Some(changed), Some(valid)) => changed
                .observed_generation
                .filter(|at| valid.observed_generation == Some(*at)),
            _ => None,
        },
        change_detected: holds(changed),
        valid: holds(valid),
    }
}

fn update_policy(object: &HostUpdatePolicy) -> view::UpdatePolicy {
    let on_reboot = |policy: Option<Policy>| matches!(policy, Some(Policy::OnReboot));
    view::UpdatePolicy {
        settings_on_reboot: on_reboot(object.spec.firmware_settings),
        updates_on_reboot: on_reboot(object.spec.firmware_updates),
    }
}

fn of_data_image(object: DataImage) -> view::DataImage {
    let deleting = object.meta().deletion_timestamp.is_some();
    let status = object.status.unwrap_or_default();
    view::DataImage {
        url: object.spec.url,
        deleting,
        attached: status
            .attached_image
            .map(|image| image.url)
            .unwrap_or_default(),
        error_count: status
            .error
            .and_then(|error| error.count.try_into().ok())
            .unwrap_or_default(),
        last_reconciled: status.last_reconciled.map(|time| time.0),
    }
}

fn preprovisioning_image(object: PreprovisioningImage) -> view::PreprovisioningImage {
    use crd::preprovisioning_image::ImageFormat as Format;

    let format = |format: Format| match format {
        Format::Iso => view::ImageFormat::Iso,
        Format::Initrd => view::ImageFormat::Initrd,
    };
    let generation = object.meta().generation.unwrap_or_default();
    let deleting = object.meta().deletion_timestamp.is_some();
    let status = object.status.unwrap_or_default();
    let holds: BTreeMap<&str, &Condition> = status
        .conditions
        .iter()
        .filter(|condition| condition.status == "True")
        .map(|condition| (condition.type_.as_str(), condition))
        .collect();
    let network = status.network_data.unwrap_or_default();
    view::PreprovisioningImage {
        generation,
        deleting,
        ready: holds
            .get("Ready")
            .is_some_and(|ready| ready.observed_generation == Some(generation)),
        error: holds.get("Error").map(|error| error.message.clone()),
        wanted: view::ImageRequest {
            network_data_name: object.spec.network_data_name.unwrap_or_default(),
            architecture: object.spec.architecture.unwrap_or_default(),
            accept_formats: object.spec.accept_formats.into_iter().map(format).collect(),
        },
        image_url: status.image_url.unwrap_or_default(),
        kernel_url: status.kernel_url.unwrap_or_default(),
        extra_kernel_params: status.extra_kernel_params.unwrap_or_default(),
        format: status.format.map(format),
        architecture: status.architecture.unwrap_or_default(),
        network_data_name: network.name.unwrap_or_default(),
        network_data_version: network.version.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_host_is_seen_as_its_object_says() {
        let object: BareMetalHost = serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "h", "namespace": "n", "uid": "u", "generation": 3, "finalizers": [FINALIZER]},
            "spec": {"online": true, "bmc": {"address": "redfish://a/b", "credentialsName": "s"},
                "bootMACAddress": "52:54:00:00:00:01", "bootMode": "legacy", "inspectionMode": "fast",
                "raid": {"softwareRAIDVolumes": [{"level": "1", "sizeGibibytes": 5, "physicalDisks": [{"model": "m"}, {"model": "n"}]}]},
                "rootDeviceHints": {"minSizeGigabytes": 10, "rotational": false},
                "image": {"url": "http://a/b", "checksum": "c", "checksumType": "sha256", "format": "live-iso"}},
            "status": {"provisioning": {"state": "ready", "ID": "id", "image": {"url": ""}},
                "operationHistory": {"register": {"start": "2024-01-01T00:00:00Z", "end": null}},
                "errorType": "detach error", "errorCount": 4,
                "conditions": [{"type": "Ready", "status": "False", "reason": "r", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}]},
        }))
        .expect("it is one");
        let host = host(&object).expect("it is understood");
        assert!(host.finalizer && !host.deleting);
        assert_eq!(host.generation, 3);
        assert_eq!(host.status.state(), view::State::Available);
        assert_eq!(host.status.error_count, 4);
        assert_eq!(host.spec.boot_mode, Some(view::BootMode::Legacy));
        assert!(
            host.spec
                .image
                .as_ref()
                .is_some_and(view::Image::is_live_iso)
        );
        assert!(host.spec.raid.is_some());
        assert!(host.status.operation_history.register.start.is_some());
        // And back, for the next write of the status.
        let status: crd::host::BareMetalHostStatus =
            converted("BareMetalHost", "h", &host.status).expect("it goes both ways");
        assert_eq!(status.error_type, Some(crd::host::ErrorType::Detach));
        assert_eq!(status.conditions.len(), 1);
    }
}
