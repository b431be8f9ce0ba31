//! Doing what was decided. Everything here may have been done before, and is then left as it is.

use std::fs;

use clients::ironic::{self, Ironic};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use plan::cluster::HostPlan;
use plan::destroy::{Action, Verb, roster};
use plan::install_config::Host;
use time::OffsetDateTime;

use super::super::off_in_time;
use super::Cleaner;
use crate::cluster::{Failed, Images, nodes, vm};
use crate::progress::Tell;

impl Cleaner {
    pub(super) async fn act(&mut self, action: &Action, tell: &mut dyn Tell) -> Result<(), Failed> {
        match action {
            Action::FetchImages => {
                let (agent, metal) = (&self.options.agent, self.options.metal);
                self.images = Some(Images::with_agent(&self.plan, agent, metal, tell).await?);
                Ok(())
            }
            Action::SwitchOff(hosts) => {
                self.switch_off(hosts, tell).await;
                Ok(())
            }
            Action::StartVm => self.start_vm().await,
            Action::EndVm => self.end_vm().await,
            Action::Enrol(host) => {
                nodes::enrol(self.ironic()?, &self.config, self.host(host)?).await
            }
            Action::Ask { host, verb, again } => self.ask(host, *verb, *again).await,
        }
    }

    /// What comes of it is for the plan to judge.
    async fn switch_off(&mut self, hosts: &[String], tell: &mut dyn Tell) {
        let bundle = self.config.trust_bundle.as_ref();
        let authorities = bundle.map(|bundle| bundle.pem.as_str());
        let ironic = self.ironic.as_ref();
        let given = self.config.baremetal.hosts.iter();
        let wanted = given.filter(|given| hosts.contains(&given.name));
        let mut offs: FuturesUnordered<_> = wanted
            .map(async |host| (&host.name, off(ironic, host, authorities).await))
            .collect();
        while let Some((host, ended)) = offs.next().await {
            match &ended {
                Ok(()) => tell.note(&format!("{host}: off")),
                Err(why) => tell.note(&format!("{host}: {why}")),
            }
            self.run.switched_off(host, ended);
        }
    }

    async fn start_vm(&mut self) -> Result<(), Failed> {
        self.run.starts_vm();
        let images = self.images.as_ref();
        let images = images.ok_or_else(|| Failed("the images are not in the cache".into()))?;
        // Its disk may know of an earlier life.
        self.home.destroy().await?;
        self.home.make()?;
        let now = OffsetDateTime::now_utc();
        self.dir.cleaner(&self.facts, &self.binary, now)?;
        fs::write(self.home.roster(), roster(&self.plan))?;
        let Self { options, home, .. } = self;
        vm::start(home, images, &options.binary, &options.dir, &options.keeper).await
    }

    async fn end_vm(&mut self) -> Result<(), Failed> {
        self.ironic = None;
        self.bootstrap.destroy().await?;
        self.home.destroy().await?;
        for path in [self.home.roster(), self.dir.cleaner_ignition()] {
            if path.exists() {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    async fn ask(&mut self, name: &str, verb: Verb, again: bool) -> Result<(), Failed> {
        if again {
            self.run.asked_again(name);
        }
        let (ironic, host) = (self.ironic()?, self.host(name)?);
        let verb = match verb {
            Verb::Manage => {
                if again {
                    nodes::mend(ironic, &self.config, host).await?;
                }
                ironic::Verb::Manage
            }
            Verb::Provide => ironic::Verb::Provide,
            Verb::Undeploy => ironic::Verb::Undeploy,
        };
        Ok(ironic.provision(name, &verb).await?)
    }

    fn host(&self, name: &str) -> Result<&HostPlan, Failed> {
        let found = self.plan.hosts.iter().find(|host| host.name == name);
        found.ok_or_else(|| Failed(format!("the plan has no host {name}")))
    }

    fn ironic(&self) -> Result<&Ironic, Failed> {
        let ironic = self.ironic.as_ref();
        ironic.ok_or_else(|| Failed("Ironic does not answer".into()))
    }
}

/// An Ironic that has the host is told first: it would switch on again what it takes for a power cut.
async fn off(
    ironic: Option<&Ironic>,
    host: &Host,
    authorities: Option<&str>,
) -> Result<(), String> {
    let told = async {
        let Some(ironic) = ironic else { return Ok(()) };
        let node = ironic.find_node(&host.name).await?;
        let on = ironic::Power::On.as_str();
        match node.and_then(|node| node.power_state) {
            Some(power) if power == on => ironic.power(&host.name, ironic::Power::Off).await,
            Some(_) | None => Ok(()),
        }
    };
    told.await.map_err(|error| model::chain(&error))?;
    off_in_time(host, authorities).await
}
