//! `plinth replace-master`: a fresh host in a dead master's place.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use installer::Dir;
use installer::replace::{self, Options};

use crate::cluster::{confirmed, runtime, say};
use crate::plan::{facts, warn};

#[derive(Args)]
pub struct ReplaceMaster {
    /// The host's name in install-config.yaml, or its node's name
    host: String,
    /// The install directory, which holds install-config.yaml and the cluster's keys
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Also if the host is well, or if its BMC does not answer and its power was cut by hand
    #[arg(long)]
    force: bool,
    /// Do not ask: the host is meant
    #[arg(long)]
    yes: bool,
}

pub fn run(command: &ReplaceMaster) -> Result<()> {
    let dir = Dir::new(&command.dir);
    let facts = facts(&dir.text()?);
    let (plan, warnings) = dir.plan(&facts)?;
    warn(&warnings);
    let host = ::plan::replace::find(&plan, &command.host).map_err(replace::Error::from)?;
    let node = host.node.as_deref().unwrap_or(&host.name);
    let question = format!(
        "{} ({}) is switched off, leaves the cluster {} and comes back as a fresh {node}; {} is erased.",
        host.name, host.bmc.address, plan.cluster.name, host.disk.erased
    );
    if !command.yes && !confirmed(&question)? {
        bail!("nothing was done; --yes says that it is meant");
    }
    let options = Options {
        dir: command.dir.clone(),
        host: command.host.clone(),
        force: command.force,
    };
    runtime()?.block_on(replace::master(&options, &facts, say))?;
    Ok(())
}
