//! `plinth destroy cluster --clean`: look, ask the plan for the next step, do it, until every host is cleaned and off.
//!
//! ```text
//!   look (VM, Ironic on it) ──▶ plan::destroy::next ──▶ act (BMC, VM, Ironic) ──▶ look ...
//! ```
//!
//! Interrupted anywhere, the same command goes on from what it finds.

mod act;
mod look;
mod told;

use std::path::PathBuf;
use std::time::Duration;

use clients::ironic::Ironic;
use jiff::Timestamp;
use plan::assets::Binary;
use plan::cluster::Plan;
use plan::destroy::{self, Action, Run, Step};
use plan::install::Trouble;
use plan::install_config::{Facts, InstallConfig};

use super::Error;
use crate::bootstrap::Home;
use crate::cluster::{Failed, Images};
use crate::dir::{Dir, checksum};
use crate::progress::Tell;
use told::Told;

/// What the operator asked for.
#[derive(Debug, Clone)]
pub struct Options {
    pub dir: PathBuf,
    /// The program that the VM runs.
    pub binary: PathBuf,
    /// The static agent that goes into the ramdisk.
    pub agent: PathBuf,
    /// The ramdisk is for real servers, with their drivers and firmware.
    pub metal: bool,
    /// Arguments that make this program keep the VM that cleans.
    pub keeper: Vec<String>,
}

/// Between two looks at the world.
const PAUSE: Duration = Duration::from_secs(1);

/// Switches every host off, cleans it, and leaves it off.
pub async fn clean(options: Options, facts: &Facts, tell: &mut dyn Tell) -> Result<(), Error> {
    let mut cleaner = Cleaner::open(options, facts)?;
    tokio::select! {
        done = cleaner.run(tell) => done,
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    }
}

struct Cleaner {
    options: Options,
    facts: Facts,
    dir: Dir,
    config: InstallConfig,
    plan: Plan,
    binary: Binary,
    /// Of the VM that cleans.
    home: Home,
    /// Of an install's.
    bootstrap: Home,
    /// Known once they are in the cache.
    images: Option<Images>,
    /// With its connections, while the VM that cleans runs.
    ironic: Option<Ironic>,
    run: Run,
    trouble: Option<Trouble>,
}

impl Cleaner {
    fn open(options: Options, facts: &Facts) -> Result<Self, Error> {
        let dir = Dir::new(&options.dir);
        dir.is_own(facts)?;
        let (config, _) = dir.config(facts)?;
        let (plan, _) = dir.plan(facts)?;
        let binary = Binary {
            sha256: checksum(&options.binary)?,
            bootstrap_url: None,
        };
        Ok(Self {
            home: Home::cleaner(&options.dir),
            bootstrap: Home::new(&options.dir),
            options,
            facts: facts.clone(),
            dir,
            config,
            plan,
            binary,
            images: None,
            ironic: None,
            run: Run::default(),
            trouble: None,
        })
    }

    async fn run(&mut self, tell: &mut dyn Tell) -> Result<(), Error> {
        let mut told = Told::default();
        loop {
            let seen = self.look().await?;
            self.run.looked(&seen.vm);
            let now = Timestamp::now();
            let next = destroy::next(&self.plan, &seen, &self.run, now);
            self.run.enter(next.step, now);
            told.at(&next, tell);
            if let Some(stuck) = next.stuck {
                Told::stuck(&stuck, tell);
                return Err(stuck.into());
            }
            self.trouble = None;
            for action in &next.actions {
                told.doing(action, tell);
                match self.act(action, tell).await {
                    Ok(()) if next.step == Step::BootstrapDestroy => {
                        Told::done(self.run.steps(), Timestamp::now(), tell);
                        return Ok(());
                    }
                    Ok(()) => {}
                    Err(Failed(what)) => {
                        let subject = subject(action);
                        self.trouble = Some(Trouble { subject, what });
                    }
                }
            }
            // Whatever was done shows at once; whatever failed is not hammered.
            let waits = next.actions.is_empty() || !next.waits.is_empty();
            if waits || self.trouble.is_some() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn subject(action: &Action) -> String {
    match action {
        Action::FetchImages => "images".into(),
        Action::SwitchOff(_) => "hosts".into(),
        Action::StartVm | Action::EndVm => "bootstrap".into(),
        Action::Enrol(host) | Action::Ask { host, .. } => host.clone(),
    }
}
