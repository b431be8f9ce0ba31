//! Doing what the decider says: one call each.

use clients::ironic::{NewPort, Power as IronicPower};
use crd::data_image::{AttachedImage, DataImageError, DataImageStatus};
use crd::hardware_data::HardwareDataSpec;
use crd::host::{FINALIZER, HARDWARE_DATA_FINALIZER, PREPROVISIONING_IMAGE_FINALIZER};
use crd::host_firmware_components::HostFirmwareComponentsSpec;
use crd::host_firmware_settings::HostFirmwareSettingsSpec;
use crd::{
    BareMetalHost, DataImage, HardwareData, HostFirmwareComponents, HostFirmwareSettings,
    HostUpdatePolicy, PreprovisioningImage,
};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use lifecycle::host::{
    Action, ImageRequest, Login, NewNode, Power, SOFT_TIMEOUT_SECONDS, Status, Trouble, Verb,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::fake;
use super::pass::Pass;
use super::secret;
use crate::context::{MANAGER, by_us};
use crate::convert::converted;
use crate::error::{from_ironic, from_kube};

impl Pass<'_> {
    pub async fn act(&mut self, action: &Action) -> Result<(), Trouble> {
        self.wrote_belongings |= matches!(
            action,
            Action::SaveHardwareData(_)
                | Action::EnsureFirmwareObjects { .. }
                | Action::SaveFirmwareUpdates(_)
                | Action::EnsurePreprovisioningImage(_)
                | Action::SaveDataImage { .. }
        );
        match action {
            Action::Save(status) => self.save(status).await,
            Action::AddFinalizer => self.add_finalizer().await,
            Action::Release => self.release().await,
            Action::RemoveAnnotations(keys) => {
                let gone: Map<String, Value> =
                    keys.iter().map(|key| (key.clone(), Value::Null)).collect();
                self.change(json!({"metadata": {"annotations": gone}}))
                    .await
            }
            Action::SetArchitecture(architecture) => {
                self.change(json!({"spec": {"architecture": architecture}}))
                    .await
            }
            Action::SaveHardwareData(details) => self.save_hardware_data(details).await,
            Action::EnsureFirmwareObjects { components } => {
                self.firmware_objects(*components).await
            }
            Action::SaveFirmwareUpdates(updates) => {
                let status = json!({"status": {"updates": updates}});
                self.change_status::<HostFirmwareComponents>(status).await
            }
            Action::EnsurePreprovisioningImage(request) => {
                self.preprovisioning_image(request).await
            }
            Action::SaveDataImage { attached, error } => {
                self.save_data_image(attached, error.as_deref()).await
            }
            Action::CreateNode(_)
            | Action::PatchNode { .. }
            | Action::PatchDriverInfo { .. }
            | Action::CreatePort { .. }
            | Action::Provision { .. }
            | Action::Power { .. }
            | Action::SetRaid { .. }
            | Action::SetMaintenance { .. }
            | Action::ClearMaintenance { .. }
            | Action::DeleteNode { .. }
            | Action::AttachMedia { .. }
            | Action::DetachMedia { .. } => self.act_on_ironic(action).await,
        }
    }
}

/// The host and what belongs to it.
impl Pass<'_> {
    fn hosts(&self) -> Api<BareMetalHost> {
        self.context.in_namespace(&self.host.namespace)
    }

    /// The status whole, unless somebody else changed the object since it was read.
    async fn save(&mut self, status: &Status) -> Result<(), Trouble> {
        let written = converted("BareMetalHost", &self.host.name, status);
        let mut object = self.object.clone();
        object.status = Some(written.map_err(|error| Trouble::Refused {
            message: model::chain(&error),
        })?);
        object.metadata.managed_fields = None;
        self.object = self
            .hosts()
            .replace_status(&self.host.name, &by_us(), &object)
            .await
            .map_err(|error| from_kube(&error))?;
        let metrics = &self.context.config.metrics;
        metrics.saved(self.about(), &self.host.status, status);
        self.host.status = status.clone();
        Ok(())
    }

    async fn change(&mut self, patch: Value) -> Result<(), Trouble> {
        self.object = self
            .hosts()
            .patch(
                &self.host.name,
                &PatchParams::apply(MANAGER),
                &Patch::Merge(patch),
            )
            .await
            .map_err(|error| from_kube(&error))?;
        Ok(())
    }

    async fn add_finalizer(&mut self) -> Result<(), Trouble> {
        let mut finalizers = self.object.finalizers().to_vec();
        finalizers.push(FINALIZER.to_owned());
        self.finalizers(&finalizers).await
    }

    async fn finalizers(&mut self, finalizers: &[String]) -> Result<(), Trouble> {
        let version = self.object.resource_version();
        self.change(json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}}))
            .await
    }

    /// Lets go of everything, the host last.
    async fn release(&mut self) -> Result<(), Trouble> {
        let namespace = self.host.namespace.clone();
        let secrets: Api<Secret> = self.context.in_namespace(&namespace);
        let spec = &self.host.spec;
        for name in [
            &spec.bmc.credentials_name,
            &spec.preprovisioning_network_data_name,
        ] {
            if !name.is_empty() {
                secret::release(&secrets, name, &self.object)
                    .await
                    .map_err(|error| from_kube(&error))?;
            }
        }
        self.let_go::<PreprovisioningImage>(PREPROVISIONING_IMAGE_FINALIZER)
            .await?;
        self.let_go::<HardwareData>(HARDWARE_DATA_FINALIZER).await?;
        let rest: Vec<String> = self
            .object
            .finalizers()
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .cloned()
            .collect();
        match self.finalizers(&rest).await {
            // Gone already: that is what was wanted.
            Err(Trouble::Refused { .. }) if self.is_gone().await => {}
            outcome => outcome?,
        }
        self.context.config.metrics.forget(self.about());
        self.released = true;
        Ok(())
    }

    async fn is_gone(&self) -> bool {
        matches!(self.hosts().get_opt(&self.host.name).await, Ok(None))
    }

    /// Takes a finalizer off the object of this kind with the host's name.
    async fn let_go<K>(&self, finalizer: &str) -> Result<(), Trouble>
    where
        K: Belonging,
    {
        let api: Api<K> = self.context.in_namespace(&self.host.namespace);
        let name = &self.host.name;
        let found = api.get_opt(name).await.map_err(|error| from_kube(&error))?;
        let Some(object) = found.filter(|o| o.finalizers().iter().any(|f| f == finalizer)) else {
            return Ok(());
        };
        let rest: Vec<&String> = object
            .finalizers()
            .iter()
            .filter(|f| *f != finalizer)
            .collect();
        let patch =
            json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": rest}});
        api.patch(name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
            .await
            .map(drop)
            .map_err(|error| from_kube(&error))
    }

    async fn save_hardware_data(&self, details: &Value) -> Result<(), Trouble> {
        let hardware = converted("HardwareData", &self.host.name, details);
        let hardware = hardware.map_err(|error| Trouble::Refused {
            message: model::chain(&error),
        })?;
        let mut data = HardwareData::new(
            &self.host.name,
            HardwareDataSpec {
                hardware: Some(hardware),
            },
        );
        self.own(&mut data);
        data.finalizers_mut()
            .push(HARDWARE_DATA_FINALIZER.to_owned());
        let api: Api<HardwareData> = self.context.in_namespace(&self.host.namespace);
        let found = api.get_opt(&self.host.name).await;
        let written = match found.map_err(|error| from_kube(&error))? {
            Some(old) => {
                data.metadata.resource_version = old.resource_version();
                api.replace(&self.host.name, &by_us(), &data).await
            }
            None => api.create(&by_us(), &data).await,
        };
        written.map(drop).map_err(|error| from_kube(&error))
    }

    /// The host is the one controller of an object: it goes when the host goes.
    fn own<K: Belonging>(&self, object: &mut K) {
        object.meta_mut().namespace = Some(self.host.namespace.clone());
        object
            .owner_references_mut()
            .extend(self.object.controller_owner_ref(&()));
    }

    async fn firmware_objects(&self, components: bool) -> Result<(), Trouble> {
        let name = &self.host.name;
        let mut settings = HostFirmwareSettings::new(name, HostFirmwareSettingsSpec::default());
        self.own(&mut settings);
        self.ensure(&settings).await?;
        if components {
            let mut firmware =
                HostFirmwareComponents::new(name, HostFirmwareComponentsSpec::default());
            self.own(&mut firmware);
            self.ensure(&firmware).await?;
        }
        self.own_policy().await
    }

    /// Makes it where there is none. One that a person made before becomes the host's.
    async fn ensure<K: Belonging>(&self, object: &K) -> Result<(), Trouble> {
        let api: Api<K> = self.context.in_namespace(&self.host.namespace);
        let found = api.get_opt(&self.host.name).await;
        match found.map_err(|error| from_kube(&error))? {
            Some(found) => self.adopt(&api, &found).await,
            None => api
                .create(&by_us(), object)
                .await
                .map(drop)
                .map_err(|error| from_kube(&error)),
        }
    }

    async fn own_policy(&self) -> Result<(), Trouble> {
        let api: Api<HostUpdatePolicy> = self.context.in_namespace(&self.host.namespace);
        let found = api.get_opt(&self.host.name).await;
        match found.map_err(|error| from_kube(&error))? {
            Some(found) => self.adopt(&api, &found).await,
            None => Ok(()),
        }
    }

    async fn adopt<K: Belonging>(&self, api: &Api<K>, object: &K) -> Result<(), Trouble> {
        let uid = &self.host.uid;
        if object
            .owner_references()
            .iter()
            .any(|owner| owner.uid == *uid)
        {
            return Ok(());
        }
        let mut owners = object.owner_references().to_vec();
        owners.extend(self.object.owner_ref(&()));
        let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "ownerReferences": owners}});
        api.patch(
            &object.name_any(),
            &PatchParams::apply(MANAGER),
            &Patch::Merge(patch),
        )
        .await
        .map(drop)
        .map_err(|error| from_kube(&error))
    }

    async fn preprovisioning_image(&self, request: &ImageRequest) -> Result<(), Trouble> {
        let spec = converted("PreprovisioningImage", &self.host.name, request);
        let spec = spec.map_err(|error| Trouble::Refused {
            message: model::chain(&error),
        })?;
        let mut image = PreprovisioningImage::new(&self.host.name, spec);
        self.own(&mut image);
        image
            .metadata
            .labels
            .clone_from(&self.object.metadata.labels);
        image
            .finalizers_mut()
            .push(PREPROVISIONING_IMAGE_FINALIZER.to_owned());
        let api: Api<PreprovisioningImage> = self.context.in_namespace(&self.host.namespace);
        let found = api.get_opt(&self.host.name).await;
        let written = match found.map_err(|error| from_kube(&error))? {
            Some(_) => {
                let patch = json!({"spec": {
                    "networkDataName": image.spec.network_data_name,
                    "architecture": image.spec.architecture,
                    "acceptFormats": image.spec.accept_formats,
                }});
                api.patch(
                    &self.host.name,
                    &PatchParams::apply(MANAGER),
                    &Patch::Merge(patch),
                )
                .await
            }
            None => api.create(&by_us(), &image).await,
        };
        written.map(drop).map_err(|error| from_kube(&error))
    }

    async fn save_data_image(&self, attached: &str, error: Option<&str>) -> Result<(), Trouble> {
        let count = self
            .seen
            .data_image
            .as_ref()
            .map_or(0, |image| image.error_count);
        let status = DataImageStatus {
            last_reconciled: Some(Time(Timestamp::now())),
            attached_image: (!attached.is_empty()).then(|| AttachedImage {
                url: attached.to_owned(),
            }),
            error: error.map(|message| DataImageError {
                count: i64::from(count) + 1,
                message: message.to_owned(),
            }),
        };
        let mut patch = json!({"status": status});
        for absent in ["attachedImage", "error"] {
            if patch["status"].get(absent).is_none() {
                patch["status"][absent] = Value::Null;
            }
        }
        self.change_status::<DataImage>(patch).await
    }

    async fn change_status<K: Belonging>(&self, patch: Value) -> Result<(), Trouble> {
        let api: Api<K> = self.context.in_namespace(&self.host.namespace);
        api.patch_status(
            &self.host.name,
            &PatchParams::apply(MANAGER),
            &Patch::Merge(patch),
        )
        .await
        .map(drop)
        .map_err(|error| from_kube(&error))
    }
}

/// A kind of object that belongs to a host.
trait Belonging:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Serialize
    + DeserializeOwned
    + std::fmt::Debug
{
}

impl<K> Belonging for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Serialize
        + DeserializeOwned
        + std::fmt::Debug
{
}

/// Ironic.
impl Pass<'_> {
    async fn act_on_ironic(&mut self, action: &Action) -> Result<(), Trouble> {
        let Some(ironic) = self.ironic.clone() else {
            return Err(Trouble::Unreachable {
                message: "it is not ready".to_owned(),
            });
        };
        let outcome = match action {
            Action::CreateNode(node) => ironic.enrol(&self.new_node(node)).await.map(drop),
            Action::PatchNode { node, patch } => {
                let mut patch = self.with_pull_secret(json!(patch));
                if self.context.config.fake_hardware {
                    patch = fake::dress_patch(patch);
                }
                ironic.change(node, &patch).await
            }
            Action::PatchDriverInfo {
                node,
                driver_info,
                login,
            } => {
                let mut info = driver_info.clone();
                self.log_in(&mut info, *login);
                let patch = json!([{"op": "add", "path": "/driver_info", "value": info}]);
                ironic.change(node, &patch).await
            }
            Action::CreatePort { node, mac, pxe } => {
                let port = NewPort {
                    node_uuid: Uuid::parse_str(node).unwrap_or_default(),
                    address: *mac,
                    pxe_enabled: *pxe,
                };
                ironic.create_port(&port).await.map(drop)
            }
            Action::Provision { node, verb } => ironic.verb(node, &self.verb(verb)).await,
            Action::Power { node, power } if power.is_soft() => {
                self.context.config.metrics.powered(self.about(), *power);
                ironic
                    .power_within(node, to_ironic(*power), SOFT_TIMEOUT_SECONDS)
                    .await
            }
            Action::Power { node, power } => {
                self.context.config.metrics.powered(self.about(), *power);
                ironic.power(node, to_ironic(*power)).await
            }
            Action::SetRaid {
                node,
                logical_disks,
            } => ironic.set_raid(node, logical_disks).await,
            Action::SetMaintenance { node, reason } => ironic.set_maintenance(node, reason).await,
            Action::ClearMaintenance { node } => ironic.end_maintenance(node).await,
            Action::DeleteNode { node } => ironic.delete_node(node).await,
            Action::AttachMedia { node, url } => ironic.attach_media(node, url).await,
            Action::DetachMedia { node } => ironic.detach_media(node).await,
            Action::Save(_)
            | Action::AddFinalizer
            | Action::Release
            | Action::RemoveAnnotations(_)
            | Action::SetArchitecture(_)
            | Action::SaveHardwareData(_)
            | Action::EnsureFirmwareObjects { .. }
            | Action::SaveFirmwareUpdates(_)
            | Action::EnsurePreprovisioningImage(_)
            | Action::SaveDataImage { .. } => Ok(()),
        };
        outcome.map_err(|error| from_ironic(&error))
    }

    fn new_node(&self, node: &NewNode) -> Value {
        let mut node = node.clone();
        self.log_in(&mut node.driver_info, node.login);
        let node = json!(node);
        if self.context.config.fake_hardware {
            return fake::dress_new(node);
        }
        node
    }

    fn log_in(&self, driver_info: &mut Map<String, Value>, keys: Login) {
        if let Some(login) = &self.login {
            driver_info.insert(keys.username.to_owned(), login.username.clone().into());
            driver_info.insert(
                keys.password.to_owned(),
                login.password.expose().as_str().into(),
            );
        }
    }

    /// What the image's registry wants to see travels with the image's address.
    fn with_pull_secret(&self, mut patch: Value) -> Value {
        let secret = self
            .deploy_data
            .as_ref()
            .and_then(|data| data.pull_secret.as_ref());
        let about_image = patch
            .as_array()
            .into_iter()
            .flatten()
            .any(|change| change["path"] == "/instance_info/image_source");
        if let (Some(secret), true, Value::Array(changes)) = (secret, about_image, &mut patch) {
            changes.push(json!({
                "op": "add", "path": "/instance_info/image_pull_secret", "value": secret.expose(),
            }));
        }
        patch
    }

    fn verb(&self, verb: &Verb) -> Value {
        let mut body = json!({"target": verb.word().as_str()});
        match verb {
            Verb::Clean(steps) => body["clean_steps"] = json!(steps),
            Verb::Service(steps) => body["service_steps"] = json!(steps),
            Verb::Active {
                config_drive,
                steps,
            } => {
                if let (Some(asked), Some(data)) = (config_drive, &self.deploy_data) {
                    body["configdrive"] = data.drive(asked);
                }
                if !steps.is_empty() {
                    body["deploy_steps"] = json!(steps);
                }
            }
            Verb::Manage
            | Verb::Inspect
            | Verb::Provide
            | Verb::Adopt
            | Verb::Abort
            | Verb::Deleted => {}
        }
        body
    }
}

fn to_ironic(power: Power) -> IronicPower {
    match power {
        Power::On => IronicPower::On,
        Power::Off => IronicPower::Off,
        Power::SoftOff => IronicPower::SoftOff,
        Power::Reboot => IronicPower::Reboot,
        Power::SoftReboot => IronicPower::SoftReboot,
    }
}
