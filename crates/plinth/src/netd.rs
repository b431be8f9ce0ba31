//! `plinth netd`: virtual addresses, load balancing and names on this node.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use netd::Config;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Args)]
pub struct Netd {
    /// The configuration, a YAML file
    #[arg(
        long,
        default_value = "/etc/plinth/netd.yaml",
        env = "PLINTH_NETD_CONFIG"
    )]
    config: PathBuf,
    /// Read the configuration, say what is wrong with it, and do nothing else
    #[arg(long)]
    check: bool,
}

pub fn run(command: &Netd) -> Result<()> {
    let config = Config::load(&command.config)?;
    if command.check {
        return Ok(());
    }
    serve(config, &command.config)
}

/// Until SIGTERM or SIGINT; then the addresses are given up in order.
fn serve(config: Config, path: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
        tracing::info!(config = %path.display(), "netd starts");
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        Ok(netd::run(config, stop).await?)
    })
}
