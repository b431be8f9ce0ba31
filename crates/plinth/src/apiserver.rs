//! `plinth apiserver`: a Kubernetes API for machine objects.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use apiserver::Config;
use clap::Args;

#[derive(Args)]
pub struct Apiserver {
    /// The configuration, a YAML file
    #[arg(
        long,
        default_value = "/etc/plinth/apiserver.yaml",
        env = "PLINTH_APISERVER_CONFIG"
    )]
    config: PathBuf,
    /// Read the configuration, say what is wrong with it, and do nothing else
    #[arg(long)]
    check: bool,
}

impl Apiserver {
    pub fn is_daemon(&self) -> bool {
        !self.check
    }
}

pub fn run(command: &Apiserver) -> Result<()> {
    if command.check {
        return Ok(Config::load(&command.config).map(drop)?);
    }
    serve(&command.config)
}

fn serve(config: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    match runtime.block_on(apiserver::server::run(config)) {
        // On its own, so that the exit code can tell it apart.
        Err(apiserver::server::Error::Config(error)) => Err(error.into()),
        result => Ok(result?),
    }
}
