//! What there is to see of an install.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use clients::ironic::{self, Ironic};
use plan::cluster::Plan;
use plan::install::{self, IronicNode, Phase, Reach, Seen, Vm};

use super::{Error, Installer, api, nodes};
use crate::dir::Dir;

/// For one question; what is up answers at once, what is not is asked again.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

impl Installer {
    pub(super) async fn look(&self) -> Result<Seen, Error> {
        let vm = self.home.look()?;
        let assets = self.dir.is_complete();
        let kept = self.dir.kept()?;
        // Before the first start of the VM there is nobody to wait for.
        let begun = assets && kept.began.contains_key(&Phase::BootstrapVm);
        // While a bootstrap leaves there is nothing else to see.
        let leaving = kept.complete && vm != Vm::Absent;
        let running = begun && vm == Vm::Running && !leaving;
        if !running {
            self.known.lock().forget_bootstrap();
        }
        let asked = running && install::masters_are_missing(&self.plan, &kept);
        let (ironic, mcs, api) = tokio::join!(
            if_so(asked, self.look_ironic()),
            if_so(asked, self.look_mcs()),
            if_so(begun && !leaving, api::look(self)),
        );
        let missing = match &self.images {
            Some(_) => Vec::new(),
            None => vec!["OS image".into(), "ramdisk".into()],
        };
        Ok(Seen {
            site: self.site.clone(),
            assets,
            images: install::Images {
                missing,
                unfit: self.unfit.clone(),
            },
            vm,
            ironic,
            mcs,
            api,
            trouble: self.trouble.clone(),
        })
    }

    async fn look_ironic(&self) -> Reach<BTreeMap<String, IronicNode>> {
        if let Some(nodes) = &self.known.lock().deployed {
            return Reach::Answers(nodes.clone());
        }
        let ask = async {
            let ironic = self.ironic().await?;
            ironic.nodes().await
        };
        let why = match tokio::time::timeout(ANSWER, ask).await {
            Ok(Ok(nodes)) => {
                let named = |node: &ironic::Node| Some((node.name.clone()?, nodes::seen(node)));
                let nodes = nodes.iter().filter_map(named).collect();
                if install::ironic_is_done(&self.plan, &nodes) {
                    self.known.lock().deployed = Some(nodes.clone());
                }
                return Reach::Answers(nodes);
            }
            Ok(Err(error)) => model::chain(&error),
            Err(_) => late(),
        };
        self.known.lock().ironic = None;
        Reach::Silent(why)
    }

    async fn look_mcs(&self) -> Reach<()> {
        if self.known.lock().deployed.is_some() {
            return Reach::Answers(());
        }
        let url = format!("{}/healthz", self.url("mcs"));
        let ask = async {
            let kept = self.known.lock().mcs.clone();
            let client = kept.map_or_else(|| https(&self.dir), Ok)?;
            self.known.lock().mcs = Some(client.clone());
            client.get(url).send().await?.error_for_status()
        };
        let why = match tokio::time::timeout(ANSWER, ask).await {
            Ok(Ok(_)) => return Reach::Answers(()),
            Ok(Err(error)) => model::chain(&error),
            Err(_) => late(),
        };
        self.known.lock().mcs = None;
        Reach::Silent(why)
    }

    /// Ironic on the bootstrap VM, behind the API's address.
    pub(super) async fn ironic(&self) -> Result<Ironic, ironic::Error> {
        if let Some(ironic) = &self.known.lock().ironic {
            return Ok(ironic.clone());
        }
        let ironic = nodes::connect(&self.dir, &self.plan).await?;
        self.known.lock().ironic = Some(ironic.clone());
        Ok(ironic)
    }

    pub(super) fn url(&self, service: &str) -> String {
        url(&self.plan, service)
    }
}

/// Believes the cluster's own authority alone.
pub(crate) fn https(dir: &Dir) -> reqwest::Result<reqwest::Client> {
    let pem = dir.certificate("root-ca");
    let builder = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only(reqwest::Certificate::from_pem_bundle(pem.as_bytes())?)
        .timeout(ANSWER);
    builder.build()
}

/// Of a service that the API's address leads to.
pub(crate) fn url(plan: &Plan, service: &str) -> String {
    let host = match plan.api_vips().first() {
        Some(IpAddr::V4(vip)) => vip.to_string(),
        Some(IpAddr::V6(vip)) => format!("[{vip}]"),
        None => format!("api.{}", plan.cluster.domain),
    };
    format!("https://{host}:{}", plan.ports[service])
}

/// Asks only where an answer can come from.
async fn if_so<T>(so: bool, look: impl Future<Output = Reach<T>>) -> Reach<T> {
    if so {
        look.await
    } else {
        Reach::Silent("not asked: the bootstrap VM does not run, or has done its part".into())
    }
}

pub(crate) fn late() -> String {
    format!("no answer within {} s", ANSWER.as_secs())
}
