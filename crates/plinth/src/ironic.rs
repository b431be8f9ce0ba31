//! `plinth ironic`: the provisioning service.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use ironic::config::{Config, EXAMPLE};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Ironic {
    /// The configuration, a YAML file
    #[arg(
        long,
        default_value = "/etc/plinth/ironic.yaml",
        env = "PLINTH_IRONIC_CONFIG"
    )]
    config: PathBuf,
    /// Read the configuration, say what is wrong with it, and do nothing else
    #[arg(long)]
    check: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Print a configuration with every setting at its default
    ///
    /// Example: plinth ironic example-config > /etc/plinth/ironic.yaml
    #[command(verbatim_doc_comment)]
    ExampleConfig,
}

pub fn run(command: &Ironic) -> Result<()> {
    match command.command {
        Some(Command::ExampleConfig) => {
            print!("{EXAMPLE}");
            Ok(())
        }
        None if command.check => Ok(Config::load(&command.config).map(drop)?),
        None => serve(&command.config),
    }
}

fn serve(config: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    match runtime.block_on(ironic::server::run(config)) {
        // On its own, so that the exit code can tell it apart.
        Err(ironic::server::Error::Config(error)) => Err(error.into()),
        result => Ok(result?),
    }
}
