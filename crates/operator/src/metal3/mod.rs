//! The metal3 of a cluster: on every control-plane node, active on one.
//!
//! ```text
//!   Infrastructure says BareMetal? ──▶ the Lease is ours? ──▶ Provisioning: address on the NIC, Ironic, controllers
//!            ▲                                 ▲                                   │
//!            └─────────── wait ────────────────┴────── lease lost, or settings changed
//! ```
//!
//! Whoever loses the lease stops before another may begin: the renewal deadline is shorter than the lease, and the
//! provisioning address has a kernel lifetime that only a living holder refreshes.

mod address;
mod admin;
mod candidate;
mod config;
mod election;
mod ironic;
mod phase;
mod settings;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crd::infrastructure::Platform;
use crd::{Infrastructure, Provisioning};
use futures::FutureExt;
use ipnet::IpNet;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use linux::addr::Address;
use linux::link::Link;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::metrics::Metrics;
use config::Place;
pub use config::{Config, Error as ConfigError};
use election::Election;
use ironic::first_missing;
use phase::{Phase, Phases};
use settings::Settings;

/// Between looks at what the cluster says of itself.
const LOOK: Duration = Duration::from_secs(5);
const IMAGE_LOOK: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_secs(30);
/// Controllers finish what they do in this time: an API that does not answer would hold them for long.
const LATE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error("read the kubeconfig {path}")]
    Kubeconfig {
        path: String,
        source: kube::config::KubeconfigError,
    },
    #[error("make a client of the cluster")]
    Client(#[source] Box<kube::Error>),
    #[error("serve health and metrics on {address}")]
    Admin {
        address: std::net::SocketAddr,
        source: std::io::Error,
    },
    #[error("speak netlink")]
    Netlink(#[source] linux::netlink::Error),
}

/// Runs until `stop`. `program` is what `ironic --config FILE` is given to.
pub async fn run(
    path: &Path,
    program: &Path,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let config = Config::load(path)?;
    let client = connect(&config).await?;
    let netlink = linux::netlink::Netlink::connect().map_err(Error::Netlink)?;
    let stop = stop.boxed().shared();
    let metrics = Arc::new(Metrics::default());
    let phase = Phases::default();
    let admin = config.admin;
    let metal3 = Metal3 {
        config,
        client,
        netlink,
        program: program.to_owned(),
        metrics: metrics.clone(),
        phase: phase.clone(),
    };
    let Some(admin) = admin else {
        Box::pin(metal3.run(stop)).await;
        return Ok(());
    };
    let answering = admin::serve(admin, phase, metrics).await?;
    tokio::select! {
        () = Box::pin(metal3.run(stop)) => {}
        () = answering => {}
    }
    Ok(())
}

async fn connect(config: &Config) -> Result<Client, Error> {
    let path = &config.kubeconfig;
    let broken = |source| Error::Kubeconfig {
        path: path.display().to_string(),
        source,
    };
    let read = Kubeconfig::read_from(path).map_err(broken)?;
    let mut settings = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .map_err(broken)?;
    settings.connect_timeout = Some(Duration::from_secs(5));
    // Watches are longer, but never silent for so long.
    settings.read_timeout = Some(Duration::from_secs(295));
    settings.reset_reader_on_write = true;
    Client::try_from(settings).map_err(|error| Error::Client(Box::new(error)))
}

struct Metal3 {
    config: Config,
    client: Client,
    netlink: linux::netlink::Netlink,
    program: std::path::PathBuf,
    metrics: Arc<Metrics>,
    phase: Phases,
}

impl Metal3 {
    async fn run(&self, stop: impl Future<Output = ()> + Send + Clone + 'static) {
        tokio::select! {
            () = self.wait_for_bare_metal() => {}
            () = stop.clone() => return,
        }
        tokio::select! {
            () = self.wait_for_images() => {}
            () = stop.clone() => return,
        }
        loop {
            let election = Election::new(&self.client, &self.config);
            self.phase.is(Phase::Standby);
            tokio::select! {
                () = election.win() => {}
                () = stop.clone() => return,
            }
            info!(node = self.config.node, "active");
            self.phase
                .is(Phase::Unsettled("it has only begun".to_owned()));
            let (lost, losing) = watch::channel(false);
            let reign = self.reign(&election, losing, stop.clone());
            let hold = async {
                election.hold().await;
                warn!("the lease is lost");
                _ = lost.send(true);
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = reign => {}
                () = hold => {}
            }
            if stop.clone().now_or_never().is_some() {
                election.give_up().await;
                info!("no longer active");
                return;
            }
        }
    }

    /// A cluster on anything else has no use for us.
    async fn wait_for_bare_metal(&self) {
        let api: Api<Infrastructure> = Api::all(self.client.clone());
        let mut said = None;
        loop {
            let found = tokio::time::timeout(ANSWER, api.get_opt(crd::infrastructure::NAME)).await;
            let why = match found {
                Ok(Ok(Some(found))) if is_bare_metal(&found) => return,
                Ok(Ok(Some(_))) => "the cluster's platform is not BareMetal".to_owned(),
                Ok(Ok(None)) => "there is no Infrastructure yet".to_owned(),
                Ok(Err(error)) => model::chain(&error),
                Err(_) => "the API does not answer".to_owned(),
            };
            if said.as_ref() != Some(&why) {
                info!(why, "waits for a cluster on bare metal");
                self.phase.is(Phase::Idle(why.clone()));
                said = Some(why);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn wait_for_images(&self) {
        let began = Instant::now();
        let mut said = None;
        loop {
            let missing = first_missing(&self.config.images).await;
            match candidate::next(missing.map(AsRef::as_ref), began.elapsed()) {
                candidate::Next::Stand => return,
                candidate::Next::StandWithout(why) => {
                    warn!(why, "stands for the lease without its images");
                    return;
                }
                candidate::Next::Wait(why) => {
                    if said.as_ref() != Some(&why) {
                        info!(why, "waits for its images");
                        self.phase.is(Phase::Idle(why.clone()));
                        said = Some(why);
                    }
                }
            }
            tokio::time::sleep(IMAGE_LOOK).await;
        }
    }

    /// While the lease is ours: as the Provisioning object says, and anew whenever it says otherwise.
    async fn reign(
        &self,
        election: &Election,
        lost: watch::Receiver<bool>,
        stop: impl Future<Output = ()> + Send + Clone + 'static,
    ) {
        let over = {
            let mut lost = lost.clone();
            let stop = stop.clone();
            async move {
                tokio::select! {
                    _ = lost.wait_for(|lost| *lost) => {}
                    () = stop => {}
                }
            }
            .boxed()
            .shared()
        };
        while over.clone().now_or_never().is_none() {
            let settings = tokio::select! {
                settings = self.settings() => settings,
                () = over.clone() => return,
            };
            self.serve(&settings, election, over.clone()).await;
        }
    }

    /// The settings, once there are some that can be used.
    async fn settings(&self) -> Settings {
        let mut said = None;
        loop {
            let why = match self.read_settings().await {
                Ok(settings) => return settings,
                Err(why) => why,
            };
            if said.as_ref() != Some(&why) {
                warn!(why, "waits for a Provisioning object that can be used");
                self.phase.is(Phase::Unsettled(why.clone()));
                said = Some(why);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn read_settings(&self) -> Result<Settings, String> {
        let api: Api<Provisioning> = Api::all(self.client.clone());
        let found = tokio::time::timeout(ANSWER, api.get_opt(crd::provisioning::NAME)).await;
        let object = found
            .map_err(|_| "the API does not answer".to_owned())?
            .map_err(|error| model::chain(&error))?
            .ok_or_else(|| format!("there is no Provisioning {:?}", crd::provisioning::NAME))?;
        if matches!(self.config.ironic.place, Place::Elsewhere(_)) {
            return Ok(Settings::elsewhere(&object));
        }
        let failed = |error: linux::netlink::Error| model::chain(&error);
        let links = self.netlink.links().await.map_err(failed)?;
        let addresses = self.netlink.addresses().await.map_err(failed)?;
        Settings::resolve(&object, &links, self.own(&links, &addresses))
    }

    /// This node's address in the machine network.
    fn own(&self, links: &[Link], addresses: &[Address]) -> Option<(String, IpNet)> {
        let Config { networks, vips, .. } = &self.config;
        networks.iter().find_map(|network| {
            let mut found = addresses.iter().filter(|address| {
                let ip = address.net.addr();
                network.contains(&ip) && !vips.contains(&ip) && !address.tentative
            });
            let address = found.next()?;
            let link = links.iter().find(|link| link.index == address.link)?;
            let net = IpNet::new(address.net.addr(), network.prefix_len()).ok()?;
            Some((link.name.clone(), net))
        })
    }

    /// Everything that goes with these settings, until `over` or until they change.
    async fn serve(
        &self,
        settings: &Settings,
        election: &Election,
        over: impl Future<Output = ()> + Send + Clone + 'static,
    ) {
        let (done, ending) = watch::channel(false);
        let until = {
            let mut ending = ending;
            async move {
                tokio::select! {
                    _ = ending.wait_for(|done| *done) => {}
                    () = over => {}
                }
            }
            .boxed()
            .shared()
        };
        let watched = async {
            self.watch_settings(settings).await;
            info!("the settings have changed: everything begins anew");
            _ = done.send(true);
        };
        let address = ironic::address(&self.config).await;
        let operator = crate::Config {
            namespace: (!settings.all_namespaces).then(|| self.config.namespace.clone()),
            metrics: self.metrics.clone(),
            ..self.config.operator(settings, &address)
        };
        self.phase.is(Phase::Active);
        let controllers = async {
            let late = async {
                until.clone().await;
                tokio::time::sleep(LATE).await;
            };
            tokio::select! {
                () = crate::run(self.client.clone(), operator, until.clone()) => {}
                () = late => warn!("controllers are at work still, and are cut short"),
            }
        };
        let work = async {
            tokio::join!(
                address::hold(&self.netlink, settings, until.clone()),
                ironic::run(&self.config, settings, &self.program, until.clone()),
                ironic::tell_images(&self.config, settings, election, until.clone()),
                controllers,
            )
        };
        tokio::pin!(work);
        tokio::select! {
            _ = &mut work => return,
            () = watched => {}
        }
        work.await;
    }

    async fn watch_settings(&self, settings: &Settings) {
        let mut last = Instant::now();
        loop {
            tokio::time::sleep_until(last + LOOK).await;
            last = Instant::now();
            // Settings that cannot be read change nothing: what runs goes on.
            if let Ok(now) = self.read_settings().await
                && now != *settings
            {
                return;
            }
        }
    }
}

fn is_bare_metal(found: &Infrastructure) -> bool {
    let status = found.status.as_ref();
    let said = status
        .and_then(|status| status.platform_status.as_ref())
        .and_then(|platform| platform.kind)
        .or_else(|| status.and_then(|status| status.platform))
        .or_else(|| found.spec.platform_spec.as_ref()?.kind);
    said == Some(Platform::BareMetal)
}
