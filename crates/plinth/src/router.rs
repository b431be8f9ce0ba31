//! `plinth router`: a stand-in where no ingress controller runs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use node::router::{Config, Error};

#[derive(Args)]
pub struct Router {
    /// The configuration, a YAML file
    #[arg(
        long,
        default_value = "/etc/plinth/router.yaml",
        env = "PLINTH_ROUTER_CONFIG"
    )]
    config: PathBuf,
    /// Read the configuration, say what is wrong with it, and do nothing else
    #[arg(long)]
    check: bool,
}

impl Router {
    pub fn is_daemon(&self) -> bool {
        !self.check
    }
}

pub fn run(command: &Router) -> Result<()> {
    if command.check {
        return Ok(Config::load(&command.config).map(drop)?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let stop = crate::metal3::signals()?;
        match node::router::run(&command.config, stop).await {
            // On its own, so that the exit code can tell it apart.
            Err(Error::Config(error)) => Err(error.into()),
            result => Ok(result?),
        }
    })
}
