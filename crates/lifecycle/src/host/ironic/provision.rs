//! Putting a system onto a host.

use serde_json::{Map, Value, json};

use super::patch::{Patches, text};
use crate::host::pass::{Flow, Halt, Pass};
use crate::host::spec::{BootMode, Image};
use crate::host::step::{ConfigDrive, Event, StepCall, Verb};
use crate::host::view::{Look, Node};
use crate::node::State;

/// Every key of `instance_info` that names an image.
const IMAGE_KEYS: [&str; 7] = [
    "boot_iso",
    "image_source",
    "image_checksum",
    "image_os_hash_algo",
    "image_os_hash_value",
    "image_disk_format",
    "image_pull_secret",
];

impl Pass<'_> {
    /// Ends well once the wanted system is on the host.
    pub fn deployed(&self) -> Flow {
        let node = self.node()?;
        let pace = self.config.pace;
        match node.provision_state {
            State::Active if self.same_source(node) => Ok(()),
            // Left over from an earlier life.
            State::Active => Err(self.verb(node, Verb::Deleted, vec![])),
            State::Manageable => Err(self.verb(node, Verb::Provide, vec![])),
            State::CleanFailed => Err(self.recover_cleaning(node)),
            State::Available => Err(self.deploy(node)?),
            State::DeployFailed => {
                let trouble = node.trouble();
                let same = self.same_source(node);
                match trouble {
                    Some(trouble) if same => Err(Halt::Failed(format!(
                        "deploying {} failed: {trouble}",
                        self.what()
                    ))),
                    // Stopped before anything was written down, or another image is wanted by now.
                    Some(_) | None => Err(self.deploy(node)?),
                }
            }
            State::WaitCallBack if self.host.reboot(true).force => {
                Err(self.verb(node, Verb::Deleted, vec![]))
            }
            State::InspectFailed | State::AdoptFailed => Err(self.verb(node, Verb::Manage, vec![])),
            State::InspectWait => Err(self.verb(node, Verb::Abort, vec![])),
            State::WaitCallBack => {
                Err(self.working("the host to boot the ramdisk and take the image", pace.long))
            }
            State::Cleaning | State::CleanWait => {
                Err(self.working("the disks to be cleaned before the deployment", pace.long))
            }
            State::Enroll
            | State::Verifying
            | State::Inspecting
            | State::CleanHold
            | State::Deploying
            | State::DeployHold
            | State::Deleting
            | State::Error
            | State::Adopting
            | State::Rescuing
            | State::RescueWait
            | State::RescueFailed
            | State::Rescue
            | State::Unrescuing
            | State::UnrescueFailed
            | State::Servicing
            | State::ServiceWait
            | State::ServiceHold
            | State::ServiceFailed => Err(self.working(
                format!("Ironic, which says {:?}", node.provision_state.as_str()),
                pace.long,
            )),
        }
    }

    fn deploy(&self, node: &Node) -> Flow<Halt> {
        self.check_image()?;
        match &self.seen.deploy_data {
            None => return Err(Self::look(Look::DeployData)),
            Some(Err(why)) => return Err(Halt::Failed(why.clone())),
            Some(Ok(())) => {}
        }
        if let Some(action) = self.instance(node).action(node) {
            return Ok(Self::act(vec![action], vec![]));
        }
        match &self.seen.validation {
            None => {
                return Err(Self::look(Look::Validation {
                    node: node.uuid.clone(),
                }));
            }
            Some(problems) if !problems.is_empty() => {
                return Err(Halt::Failed(format!(
                    "Ironic refuses to deploy {}: {}",
                    self.what(),
                    problems.join("; ")
                )));
            }
            Some(_) => {}
        }
        let verb = Verb::Active {
            config_drive: self.config_drive(),
            steps: self.deploy_steps(),
        };
        let note = format!("Image provisioning started for {}", self.what());
        Ok(self.verb(node, verb, vec![Event::normal("ProvisioningStarted", note)]))
    }

    fn what(&self) -> String {
        match (self.host.spec.image_url(), self.host.spec.deploy_method()) {
            ("", method) => format!("with {method}"),
            (url, "") => url.to_owned(),
            (url, method) => format!("{url} with {method}"),
        }
    }

    fn check_image(&self) -> Flow {
        let Some(image) = self.image() else {
            return Ok(());
        };
        let bare = image.is_oci() || image.is_live_iso();
        if image.is_oci() && !image.checksum.is_empty() {
            let why =
                "image.checksum must be empty with an oci:// URL: it names its content already";
            return Err(Halt::Failed(why.into()));
        }
        if !bare && image.checksum.is_empty() && self.host.spec.custom_deploy.is_none() {
            let why = format!(
                "image.checksum is needed for {}: nothing is written unchecked",
                image.url
            );
            return Err(Halt::Failed(why));
        }
        Ok(())
    }

    fn image(&self) -> Option<&Image> {
        self.host
            .spec
            .image
            .as_ref()
            .filter(|image| !image.url.is_empty())
    }

    /// What `instance_info` says of the image.
    fn image_info(&self) -> Map<String, Value> {
        let mut info = Map::new();
        let Some(image) = self.image() else {
            return info;
        };
        if image.is_live_iso() {
            info.insert("boot_iso".into(), image.url.clone().into());
            return info;
        }
        info.insert("image_source".into(), image.url.clone().into());
        if !image.format.is_empty() {
            info.insert("image_disk_format".into(), image.format.clone().into());
        }
        if !image.checksum.is_empty() {
            match image.checksum_type.as_str() {
                "" | "auto" => {
                    info.insert("image_checksum".into(), image.checksum.clone().into());
                }
                algorithm => {
                    info.insert("image_os_hash_algo".into(), algorithm.into());
                    info.insert("image_os_hash_value".into(), image.checksum.clone().into());
                }
            }
        }
        info
    }

    /// The image the node was told of is the one wanted. Checksums are not compared: Ironic rewrites them.
    fn same_source(&self, node: &Node) -> bool {
        let wanted = self.image_info();
        ["image_source", "boot_iso"]
            .into_iter()
            .all(|key| node.instance_info.get(key).filter(|now| !now.is_null()) == wanted.get(key))
    }

    fn instance(&self, node: &Node) -> Patches {
        let mut patch = Patches::default();
        let info = &node.instance_info;
        patch.set(
            "instance_uuid",
            text(node.instance_uuid.as_ref()).as_ref(),
            self.host.uid.clone(),
        );
        let secure = self.boot_mode() == BootMode::UefiSecureBoot;
        let capabilities = if secure {
            json!({"secure_boot": "true"})
        } else {
            json!({})
        };
        patch.set_in("instance_info", info, "capabilities", Some(capabilities));
        let hints = self.status().provisioning.root_device_hints.as_ref();
        let hints = hints
            .map(super::super::hints::RootDeviceHints::to_ironic)
            .unwrap_or_default();
        patch.set_in(
            "instance_info",
            info,
            "root_device",
            Some(Value::Object(hints)),
        );
        let mut image = self.image_info();
        for key in IMAGE_KEYS {
            // The shell sets the pull secret itself, as it must not be seen here.
            if key == "image_pull_secret" && self.image().is_some_and(Image::is_oci) {
                continue;
            }
            patch.set_in("instance_info", info, key, image.remove(key));
        }
        self.deploy_interface(&mut patch, node);
        patch
    }

    fn deploy_interface(&self, patch: &mut Patches, node: &Node) {
        let live = self.image().is_some_and(Image::is_live_iso);
        let custom = self.host.spec.custom_deploy.is_some();
        let now = node.deploy_interface.as_ref();
        let special = now.is_some_and(|now| now == "ramdisk" || now == "custom-agent");
        let persistent = if live {
            patch.set("deploy_interface", text(now).as_ref(), "ramdisk");
            &self.config.live_iso_persistent_boot
        } else if custom {
            patch.set("deploy_interface", text(now).as_ref(), "custom-agent");
            &self.config.direct_persistent_boot
        } else {
            if special {
                patch.remove("deploy_interface");
            }
            &self.config.direct_persistent_boot
        };
        let persistent = persistent.clone().unwrap_or_else(|| "Default".into());
        let key = "force_persistent_boot_device";
        patch.set_in(
            "driver_info",
            &node.driver_info,
            key,
            Some(persistent.into()),
        );
    }

    fn config_drive(&self) -> Option<ConfigDrive> {
        let spec = &self.host.spec;
        // BMCs may have no second virtual drive.
        if self.image().is_some_and(Image::is_live_iso) {
            return None;
        }
        let name = self.host.name.clone();
        let mut defaults = Map::new();
        defaults.insert("uuid".into(), self.host.uid.clone().into());
        defaults.insert(
            "metal3-namespace".into(),
            self.host.namespace.clone().into(),
        );
        for key in ["metal3-name", "local-hostname", "local_hostname", "name"] {
            defaults.insert(key.into(), name.clone().into());
        }
        let before = &spec.preprovisioning_network_data_name;
        let fallback = (!before.is_empty()).then(|| crate::host::SecretRef {
            name: before.clone(),
            namespace: self.host.namespace.clone(),
        });
        Some(ConfigDrive {
            user_data: spec.user_data.clone(),
            network_data: spec.network_data.clone().or(fallback),
            meta_data: spec.meta_data.clone(),
            defaults,
        })
    }

    fn deploy_steps(&self) -> Vec<StepCall> {
        let method = self.host.spec.deploy_method();
        if method.is_empty() {
            return Vec::new();
        }
        vec![StepCall {
            interface: "deploy".into(),
            step: method.to_owned(),
            args: Map::new(),
            priority: Some(80),
        }]
    }
}
