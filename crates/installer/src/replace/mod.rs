//! `plinth replace-master`: look, ask the plan for the next step, do it, until the new master is ready.
//!
//! ```text
//!   look (API, etcd, payload) ──▶ plan::replace::next ──▶ act (BMC, etcd, API) ──▶ look ...
//! ```
//!
//! Interrupted anywhere, the same command goes on from what it finds.

mod act;
mod etcd;
mod look;
mod objects;
mod told;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use plan::assets::Replacement;
use plan::cluster::{HostPlan, Plan};
use plan::install::Trouble;
use plan::install_config::{Facts, InstallConfig};
use plan::replace::{self, Action, Asked, NoSuchMaster, Power, Stuck};

use crate::cluster::Failed;
use crate::dir::Dir;
use told::Told;

pub use etcd::{Etcd, Seat};
pub use objects::{Objects, OldBmc};

/// What the operator asked for.
#[derive(Debug, Clone)]
pub struct Options {
    pub dir: PathBuf,
    /// The host's name, or its node's.
    pub host: String,
    /// The host is meant even if it is well, or if its BMC is silent.
    pub force: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Dir(#[from] crate::dir::Error),
    #[error(transparent)]
    NoSuchMaster(#[from] NoSuchMaster),
    #[error(transparent)]
    Stuck(#[from] Stuck),
    #[error("interrupted; the same command goes on from here")]
    Interrupted,
}

impl Error {
    /// It cannot be as it was asked for, and nothing was changed.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Dir(error) => error.is_refusal(),
            Self::NoSuchMaster(_) => true,
            Self::Stuck(stuck) => stuck.step.is_before_changes(),
            Self::Interrupted => false,
        }
    }
}

/// Between two looks at the world.
const PAUSE: Duration = Duration::from_secs(2);

/// Replaces a master, or goes on replacing it. `tell` hears of each step, and of what is waited for.
pub async fn master(options: &Options, facts: &Facts, tell: impl FnMut(&str)) -> Result<(), Error> {
    let mut replacer = Replacer::open(options, facts)?;
    tokio::select! {
        done = replacer.run(tell) => done,
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    }
}

struct Replacer {
    dir: Dir,
    facts: Facts,
    config: InstallConfig,
    plan: Plan,
    host: HostPlan,
    force: bool,
    /// With its connection to the API.
    client: Option<Client>,
    etcd: Option<(Vec<Seat>, Etcd)>,
    /// Once masters have said which program they serve.
    made: Option<Replacement>,
    power: Power,
    trouble: Option<Trouble>,
}

impl Replacer {
    fn open(options: &Options, facts: &Facts) -> Result<Self, Error> {
        let dir = Dir::new(&options.dir);
        let (config, _) = dir.config(facts)?;
        let (plan, _) = dir.plan(facts)?;
        let host = replace::find(&plan, &options.host)?.clone();
        Ok(Self {
            dir,
            facts: facts.clone(),
            config,
            plan,
            host,
            force: options.force,
            client: None,
            etcd: None,
            made: None,
            power: Power::Unknown,
            trouble: None,
        })
    }

    async fn run(&mut self, tell: impl FnMut(&str)) -> Result<(), Error> {
        let mut told = Told::new(&self.host, tell);
        let mut began = BTreeMap::new();
        loop {
            let seen = self.look().await?;
            let now = Timestamp::now();
            let asked = Asked {
                plan: &self.plan,
                host: &self.host,
                force: self.force,
            };
            let next = replace::next(&asked, &seen, &began, now);
            began.entry(next.step).or_insert(now);
            told.at(&next);
            if let Some(stuck) = next.stuck {
                return Err(stuck.into());
            }
            self.trouble = None;
            for action in &next.actions {
                told.doing(action);
                match self.act(action).await {
                    Ok(()) if *action == Action::Forget => {
                        told.done(&began, Timestamp::now());
                        return Ok(());
                    }
                    Ok(()) => {}
                    Err(Failed(what)) => {
                        let subject = told::subject(action, &self.host);
                        self.trouble = Some(Trouble { subject, what });
                    }
                }
            }
            // Whatever was done shows at once; whatever failed is not hammered.
            if next.actions.is_empty() || self.trouble.is_some() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
