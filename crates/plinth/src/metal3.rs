//! `plinth metal3`: hosts and machines of a cluster, on one of its control plane at a time.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use operator::metal3::{Config, Error};

#[derive(Args)]
pub struct Metal3 {
    /// The configuration, a YAML file
    #[arg(
        long,
        default_value = "/etc/plinth/metal3.yaml",
        env = "PLINTH_METAL3_CONFIG"
    )]
    config: PathBuf,
    /// Read the configuration, say what is wrong with it, and do nothing else
    #[arg(long)]
    check: bool,
}

impl Metal3 {
    pub fn is_daemon(&self) -> bool {
        !self.check
    }
}

pub fn run(command: &Metal3) -> Result<()> {
    if command.check {
        return Ok(Config::load(&command.config).map(drop)?);
    }
    let program = std::env::current_exe().context("find this program")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let stop = signals()?;
        match operator::metal3::run(&command.config, &program, stop).await {
            // On its own, so that the exit code can tell it apart.
            Err(Error::Config(error)) => Err(error.into()),
            result => Ok(result?),
        }
    })
}

/// SIGTERM or SIGINT.
pub fn signals() -> Result<impl Future<Output = ()> + Send + 'static> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut end = signal(SignalKind::terminate()).context("watch for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("watch for signals")?;
    Ok(async move {
        tokio::select! {
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
