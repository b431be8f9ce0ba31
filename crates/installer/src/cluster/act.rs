//! Doing what was decided. Everything here may have been done before, and is then left as it is.

use clients::ironic::{ConfigDrive, Deploy, Ironic, Patch, Verb};
use plan::assets::payload;
use plan::cluster::HostPlan;
use plan::install::{self, Action};
use plan::nmstate::HostNetwork;
use serde_json::json;
use time::OffsetDateTime;

use super::{Failed, Images, Installer, Lack, api, nodes, requests, vm};
use crate::dir::Stage;
use crate::progress::Tell;

impl Installer {
    pub(super) async fn act(&mut self, action: &Action, tell: &mut dyn Tell) -> Result<(), Failed> {
        match action {
            Action::CheckSite => {
                self.site = self.check(tell).await?;
                Ok(())
            }
            Action::WriteAssets => self.write_assets(),
            Action::FetchImages => {
                match Images::get(&self.plan, &self.options, tell).await {
                    Ok(images) => self.images = Some(images),
                    Err(Lack::Unfit(problem)) => self.unfit = vec![problem],
                    Err(Lack::Failed(failed)) => return Err(failed),
                }
                Ok(())
            }
            Action::StartVm => self.start_vm().await,
            Action::Enrol(host) => self.enrol(self.host(host)?).await,
            Action::Ask { host, verb, again } => self.ask(self.host(host)?, *verb, *again).await,
            Action::Approve(names) => requests::approve(api::client(self).await?, names).await,
            Action::Apply(files) => api::apply(self, files).await,
            Action::MarkComplete => {
                api::mark_complete(self).await?;
                let mut kept = self.dir.kept()?;
                kept.complete = true;
                Ok(self.dir.keep(&kept)?)
            }
            Action::DestroyVm => Ok(self.home.destroy().await?),
        }
    }

    fn host(&self, name: &str) -> Result<&HostPlan, Failed> {
        let found = self.plan.hosts.iter().find(|host| host.name == name);
        found.ok_or_else(|| Failed(format!("the plan has no host {name}")))
    }

    fn write_assets(&mut self) -> Result<(), Failed> {
        let now = OffsetDateTime::now_utc();
        self.dir
            .create(Stage::IgnitionConfigs, &self.facts, &self.binary, now)?;
        // Names now have the cluster's identity in them.
        (self.plan, _) = self.dir.plan(&self.facts)?;
        Ok(())
    }

    async fn start_vm(&self) -> Result<(), Failed> {
        let images = self.known_images()?;
        let Self { options, home, .. } = self;
        vm::start(home, images, &options.binary, &options.dir, &options.keeper).await
    }

    fn known_images(&self) -> Result<&Images, Failed> {
        let images = self.images.as_ref();
        images.ok_or_else(|| Failed("the images are not in the cache".into()))
    }

    async fn enrol(&self, host: &HostPlan) -> Result<(), Failed> {
        let ironic = self.ironic().await?;
        nodes::enrol(&ironic, &self.config, host).await
    }

    async fn ask(&self, host: &HostPlan, verb: install::Verb, again: bool) -> Result<(), Failed> {
        if again {
            // Kept before it is asked, so that an interrupted run has counted it; another run counts anew.
            let mut kept = self.dir.kept()?;
            *kept.tries.entry(host.name.clone()).or_default() += 1;
            self.dir.keep(&kept)?;
        }
        let ironic = self.ironic().await?;
        if again && verb == install::Verb::Manage {
            nodes::mend(&ironic, &self.config, host).await?;
        }
        let verb = match verb {
            install::Verb::Manage => Verb::Manage,
            install::Verb::Inspect => Verb::Inspect,
            install::Verb::Provide => Verb::Provide,
            install::Verb::Deploy => Verb::Deploy(Box::new(self.deployment(&ironic, host).await?)),
        };
        Ok(ironic.provision(&host.name, &verb).await?)
    }

    /// Names the image on the node, and gives the config drive that goes with it.
    async fn deployment(&self, ironic: &Ironic, host: &HostPlan) -> Result<Deploy, Failed> {
        let images = self.known_images()?;
        let add = |key: &str, value: &str| Patch::add(format!("/instance_info/{key}"), value);
        let source = format!("file://{}/{}", payload::MOUNT, images.os_on_disc);
        let patch = [
            add("image_source", &source),
            add("image_os_hash_algo", "sha256"),
            add("image_os_hash_value", &images.cluster_os_sha256),
            add("image_disk_format", images.format()),
        ];
        ironic.patch_node(&host.name, &patch).await?;
        let node = host.node.as_deref().unwrap_or(&host.name);
        let mut drive = ConfigDrive {
            user_data: Some(self.dir.pointer(&host.name)?),
            // An image that reads it has its static addresses before it asks for the rest.
            network_data: host.network.as_ref().map(HostNetwork::network_data),
            ..ConfigDrive::default()
        };
        drive.meta_data.insert("name".into(), json!(node));
        drive.meta_data.insert("hostname".into(), json!(node));
        Ok(Deploy {
            config_drive: Some(drive),
            steps: Vec::new(),
        })
    }
}
