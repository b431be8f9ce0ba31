//! `plinth create cluster`: observe, ask the plan for the next step, do it, until there is none.
//!
//! ```text
//!   look ──▶ plan::install::next ──▶ act ──▶ look ...
//!     │              │                 │
//!     └── world      └── progress      └── bootstrap VM, Ironic, API
//! ```
//!
//! Interrupted anywhere, the same command goes on from what it finds.

mod act;
pub(crate) mod api;
mod check;
mod images;
pub(crate) mod look;
pub(crate) mod nodes;
pub(crate) mod requests;
pub(crate) mod vm;
pub(crate) mod workers;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clients::ironic::Ironic;
use jiff::Timestamp;
use plan::assets::Binary;
use plan::cluster::Plan;
use plan::install::{self, Action, IronicNode, Phase, Problem, Site, Stuck, Trouble};
use plan::install_config::{Facts, InstallConfig};
use plan::preflight::Selection;

use crate::bootstrap::Home;
use crate::consoles::Recorders;
use crate::dir::{Dir, checksum};
use crate::progress::{Progress, Tell};

pub use images::{Images, Lack};

/// What the operator asked for.
#[derive(Debug, Clone)]
pub struct Options {
    pub dir: PathBuf,
    /// The program that nodes run.
    pub binary: PathBuf,
    /// The static agent that goes into the ramdisk.
    pub agent: PathBuf,
    /// The ramdisk is for real servers, with their drivers and firmware.
    pub metal: bool,
    /// The last phase to finish.
    pub to: Option<Phase>,
    /// Arguments that make this program keep the bootstrap VM.
    pub keeper: Vec<String>,
    /// Record the serial consoles of the control plane's hosts.
    pub consoles: bool,
    /// What is looked at before the first power-on; `None`: nothing.
    pub checks: Option<Selection>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Dir(#[from] crate::dir::Error),
    #[error(transparent)]
    Stuck(#[from] Stuck),
    #[error(transparent)]
    Bootstrap(#[from] crate::bootstrap::Error),
    #[error("interrupted; the same command goes on from here")]
    Interrupted,
}

/// Creates the cluster, or goes on creating it.
pub async fn create(options: Options, facts: &Facts, tell: &mut dyn Tell) -> Result<(), Error> {
    let mut installer = Installer::open(options, facts)?;
    let done = tokio::select! {
        done = installer.run(tell) => done,
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    };
    if let Some(consoles) = installer.consoles.take() {
        consoles.stop().await;
    }
    done
}

struct Installer {
    options: Options,
    facts: Facts,
    dir: Dir,
    home: Home,
    config: InstallConfig,
    plan: Plan,
    binary: Binary,
    /// Known once they are in the cache.
    images: Option<Images>,
    /// What was fetched and is not what it should be.
    unfit: Vec<Problem>,
    /// What was found out about it in this run.
    site: Site,
    trouble: Option<Trouble>,
    known: Known,
    /// Once there is something to see on them.
    consoles: Option<Recorders>,
}

/// What one look leaves to the next, so that it need not be asked for again.
#[derive(Default)]
struct Known(Mutex<Heard>);

#[derive(Default)]
struct Heard {
    /// With its connection to the API.
    client: Option<kube::Client>,
    /// With their connections to the bootstrap.
    ironic: Option<Ironic>,
    mcs: Option<reqwest::Client>,
    /// What Ironic said when it had nothing more to do.
    deployed: Option<BTreeMap<String, IronicNode>>,
    /// Manifests that were seen in the cluster, by file.
    applied: BTreeSet<String>,
}

impl Heard {
    /// It is gone, or not what it was.
    fn forget_bootstrap(&mut self) {
        self.ironic = None;
        self.mcs = None;
        self.deployed = None;
    }
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Installer {
    fn open(options: Options, facts: &Facts) -> Result<Self, Error> {
        let dir = Dir::new(&options.dir);
        let (config, _) = dir.config(facts)?;
        dir.can_install(&config)?;
        let (plan, _) = dir.plan(facts)?;
        let binary = Binary {
            sha256: checksum(&options.binary)?,
            bootstrap_url: None,
        };
        let site = match &options.checks {
            Some(_) => Site::Unchecked,
            None => Site::Sound,
        };
        Ok(Self {
            site,
            home: Home::new(&options.dir),
            options,
            facts: facts.clone(),
            dir,
            config,
            plan,
            binary,
            images: None,
            unfit: Vec::new(),
            trouble: None,
            known: Known::default(),
            consoles: None,
        })
    }

    async fn run(&mut self, tell: &mut dyn Tell) -> Result<(), Error> {
        let mut progress = Progress::new(self.plan.clone());
        let start = Timestamp::now();
        let mut kept = self.dir.kept()?;
        if !kept.tries.is_empty() {
            kept.begin_anew();
            self.dir.keep(&kept)?;
        }
        // Nothing is kept before the assets are written: what this run began is remembered here as well.
        let mut begun = BTreeMap::new();
        loop {
            let began = Instant::now();
            let seen = self.look().await?;
            let took = began.elapsed();
            let now = Timestamp::now();
            let mut kept = self.dir.kept()?;
            for (phase, began) in &begun {
                kept.began.entry(*phase).or_insert(*began);
            }
            if kept.heed(&self.plan, &seen) {
                self.dir.keep(&kept)?;
            }
            let next = install::next(&self.plan, &seen, &kept.since(start), now);
            let Some(phase) = next.phase.filter(|phase| self.wanted(*phase)) else {
                kept.end(now);
                self.dir.keep(&kept)?;
                progress.done(&kept.took(now), now, tell);
                return Ok(());
            };
            if let Entry::Vacant(began) = kept.began.entry(phase) {
                began.insert(now);
                begun.insert(phase, now);
                self.dir.keep(&kept)?;
            }
            progress.at(phase, &next, now, tell);
            self.watch_consoles(phase, tell);
            if let Some(stuck) = next.stuck {
                progress.stuck(&stuck, tell);
                return Err(stuck.into());
            }
            self.trouble = None;
            for action in &next.actions {
                progress.doing(action, tell);
                if let Err(trouble) = self.act(action, tell).await {
                    progress.failed(action, &trouble, tell);
                    self.trouble = Some(Trouble {
                        subject: subject(action),
                        what: trouble.0,
                    });
                }
            }
            // Whatever was done shows at once; whatever failed is not hammered.
            if next.actions.is_empty() || self.trouble.is_some() {
                tokio::time::sleep(install::pause(&seen, took)).await;
            }
        }
    }

    /// Records consoles in the background from when servers may be switched on, and passes on what that has to say.
    fn watch_consoles(&mut self, phase: Phase, tell: &mut dyn Tell) {
        if self.consoles.is_none() && self.options.consoles && phase >= Phase::BootstrapServices {
            let hosts = &self.config.baremetal.hosts;
            self.consoles = Some(Recorders::spawn(&self.options.dir, hosts));
        }
        for note in self.consoles.iter_mut().flat_map(Recorders::notes) {
            tell.note(&note);
        }
    }

    fn wanted(&self, phase: Phase) -> bool {
        self.options.to.is_none_or(|to| phase <= to)
    }
}

/// Why something could not be done, in words; it is tried again until its phase has had its time.
#[derive(Debug)]
pub struct Failed(pub String);

impl<E: std::error::Error> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(model::chain(&error))
    }
}

fn subject(action: &Action) -> String {
    match action {
        Action::CheckSite => "site".into(),
        Action::WriteAssets => "assets".into(),
        Action::FetchImages => "images".into(),
        Action::StartVm | Action::DestroyVm => "bootstrap".into(),
        Action::Enrol(host) | Action::Ask { host, .. } => host.clone(),
        Action::Approve(_) => "masters".into(),
        Action::Apply(_) => "manifests".into(),
        Action::MarkComplete => "api".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Deaf;

    impl Tell for Deaf {
        fn event(&mut self, _line: &str, _event: &serde_json::Value) {}
    }

    fn options(dir: &std::path::Path) -> Options {
        Options {
            dir: dir.into(),
            binary: dir.join("install-config.yaml"),
            agent: PathBuf::new(),
            metal: false,
            to: None,
            keeper: Vec::new(),
            consoles: true,
            checks: None,
        }
    }

    #[test]
    fn a_payload_that_nobody_installs_is_refused_before_a_server_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let text = include_str!("../../../../examples/pxe.yaml");
        let kubernetes =
            "payload: {type: kubernetes, version: v1.36.1, source: /kubernetes.tar.gz}";
        let path = dir.path().join("install-config.yaml");
        std::fs::write(&path, text.replace("payload: builtin", kubernetes)).unwrap();
        let refused = Installer::open(options(dir.path()), &Facts::default());
        let error = refused.err().expect("it is refused").to_string();
        assert!(error.contains("payload: builtin"), "{error}");
    }

    #[tokio::test]
    async fn consoles_are_recorded_from_when_servers_may_be_on_unless_told_not_to() {
        let dir = tempfile::tempdir().unwrap();
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/pxe.yaml");
        std::fs::copy(example, dir.path().join("install-config.yaml")).unwrap();
        for (consoles, phase, recorded) in [
            (true, Phase::Images, false),
            (true, Phase::BootstrapServices, true),
            (true, Phase::Workers, true),
            (false, Phase::ControlPlaneDeploy, false),
        ] {
            let options = Options {
                consoles,
                ..options(dir.path())
            };
            let mut installer = Installer::open(options, &Facts::default()).unwrap();
            // Nobody listens there.
            for host in &mut installer.config.baremetal.hosts {
                host.bmc = "ipmi://127.0.0.1:9".parse().unwrap();
            }
            installer.watch_consoles(phase, &mut Deaf);
            assert_eq!(installer.consoles.is_some(), recorded, "{phase}");
        }
    }
}
