//! Doing what was decided. Everything here may have been done before, and is then left as it is.

use plan::assets::Replacement;
use plan::install_config::Host;
use plan::replace::{Action, Power};

use super::{Etcd, Objects, Replacer};
use crate::cluster::Failed;
use crate::destroy::off_in_time;

impl Replacer {
    pub(super) async fn act(&mut self, action: &Action) -> Result<(), Failed> {
        match action {
            Action::SwitchOff => self.switch_off().await,
            Action::RemoveMember(id) => self.etcd()?.remove(*id).await,
            Action::DeleteNode => self.objects()?.delete_node().await,
            Action::DeleteHost => self.objects()?.delete_host().await,
            Action::DeleteMachine => self.objects()?.delete_machine().await,
            Action::AddLearner => self.etcd()?.add_learner().await,
            Action::CreateHost { member } => {
                self.objects()?.create_host(self.made()?, *member).await
            }
            Action::CreateMachine => self.objects()?.create_machine(self.made()?).await,
            Action::Approve(names) => self.objects()?.approve(names).await,
            Action::Promote(id) => self.etcd()?.promote(*id).await,
            Action::Forget => self.objects()?.forget().await,
        }
    }

    /// What comes of it is for the plan to judge.
    async fn switch_off(&mut self) -> Result<(), Failed> {
        let host = match self.old_host().await? {
            Ok(host) => host,
            Err(why) => {
                self.power = Power::Silent(why);
                return Ok(());
            }
        };
        let bundle = self.config.trust_bundle.as_ref();
        let authorities = bundle.map(|bundle| bundle.pem.as_str());
        self.power = match off_in_time(&host, authorities).await {
            Ok(()) => Power::Off,
            Err(why) => Power::Silent(format!("{}: {why}", host.bmc)),
        };
        Ok(())
    }

    /// The host as the cluster knows it: install-config.yaml may name the BMC of other hardware by now.
    async fn old_host(&self) -> Result<Result<Host, String>, Failed> {
        let hosts = &self.config.baremetal.hosts;
        let given = hosts.iter().find(|host| host.name == self.host.name);
        let Some(mut host) = given.cloned() else {
            return Ok(Err("install-config.yaml does not have it".into()));
        };
        let Some(old) = self.objects()?.old_bmc().await? else {
            return Ok(Ok(host));
        };
        if old.address == host.bmc.to_string() {
            return Ok(Ok(host));
        }
        Ok(match old.address.parse() {
            Ok(bmc) => {
                host.bmc = bmc;
                (host.username, host.password) = (old.username, old.password);
                host.verify_bmc = old.verify;
                Ok(host)
            }
            Err(error) => Err(format!("{}: {}", old.address, model::chain(&error))),
        })
    }

    fn objects(&self) -> Result<Objects<'_>, Failed> {
        let client = self.client.clone();
        let client = client.ok_or_else(|| Failed("the API does not answer".into()))?;
        Ok(Objects::new(client, &self.host))
    }

    fn etcd(&self) -> Result<&Etcd, Failed> {
        let etcd = self.etcd.as_ref().map(|(_, etcd)| etcd);
        etcd.ok_or_else(|| Failed("etcd does not answer".into()))
    }

    fn made(&self) -> Result<&Replacement, Failed> {
        let made = self.made.as_ref();
        made.ok_or_else(|| Failed("masters do not serve their program".into()))
    }
}
