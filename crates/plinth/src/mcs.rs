//! `plinth mcs`: Ignition configs for nodes on their first boot.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use mcs::Config;

use crate::plan::Output;

#[derive(Args)]
pub struct Mcs {
    /// The configuration, a YAML file
    #[arg(
        long,
        default_value = "/etc/plinth/mcs.yaml",
        env = "PLINTH_MCS_CONFIG",
        global = true
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
    /// Show whose tokens were used and what was served to whom
    Status {
        /// How it is shown
        #[arg(short, long, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
}

impl Mcs {
    pub fn is_daemon(&self) -> bool {
        self.command.is_none() && !self.check
    }
}

pub fn run(command: &Mcs) -> Result<()> {
    match &command.command {
        Some(Command::Status { output }) => status(&command.config, *output),
        None if command.check => Ok(Config::load(&command.config).map(drop)?),
        None => serve(&command.config),
    }
}

fn status(config: &Path, output: Output) -> Result<()> {
    let config = Config::load(config)?;
    let status = mcs::status::read(&config, &config.state)?;
    match output {
        Output::Table => print!("{}", status.render()),
        Output::Json => println!("{}", serde_json::to_string_pretty(&status)?),
    }
    Ok(())
}

fn serve(config: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    match runtime.block_on(mcs::server::run(config)) {
        // On its own, so that the exit code can tell it apart.
        Err(mcs::server::Error::Config(error)) => Err(error.into()),
        result => Ok(result?),
    }
}
