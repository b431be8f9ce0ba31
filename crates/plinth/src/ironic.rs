//! `plinth ironic`: the provisioning service.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use ironic::config::{Config, EXAMPLE};
use ironic::status::{Login, Service, render};
use model::Secret;

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
    /// Show every node: its state, its step and how far it is, and what it waits for
    Status(Status),
}

#[derive(Args)]
struct Status {
    /// Where the service is; by default where its configuration says
    #[arg(long, env = "OS_ENDPOINT")]
    api: Option<String>,
    /// Who is believed about the service's certificate, a PEM file
    #[arg(long, env = "OS_CACERT")]
    cacert: Option<PathBuf>,
    /// Who asks, where the service wants a login
    #[arg(long, env = "OS_USERNAME")]
    username: Option<String>,
    /// The password comes from the environment, where other users do not see it
    #[arg(
        long,
        env = "OS_PASSWORD",
        hide = true,
        hide_env_values = true,
        default_value = ""
    )]
    password: String,
    /// The service's configuration, where --api is not given
    #[arg(
        long,
        default_value = "/etc/plinth/ironic.yaml",
        env = "PLINTH_IRONIC_CONFIG"
    )]
    config: PathBuf,
    /// As a table, or as JSON for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

impl Ironic {
    pub fn is_daemon(&self) -> bool {
        self.command.is_none() && !self.check
    }
}

pub fn run(command: &Ironic) -> Result<()> {
    match &command.command {
        Some(Command::ExampleConfig) => {
            print!("{EXAMPLE}");
            Ok(())
        }
        Some(Command::Status(status)) => show(status),
        None if command.check => Ok(Config::load(&command.config).map(drop)?),
        None => serve(&command.config),
    }
}

fn show(status: &Status) -> Result<()> {
    let mut service = match &status.api {
        Some(url) => Service {
            url: url.clone(),
            authorities: None,
            login: None,
        },
        None => Service::of(&Config::load(&status.config)?),
    };
    if status.cacert.is_some() {
        service.authorities.clone_from(&status.cacert);
    }
    service.login = status.username.clone().map(|username| Login {
        username,
        password: Secret::new(status.password.clone()),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let lines = runtime.block_on(ironic::status::ask(&service))?;
    match status.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&lines)?),
        Output::Table => print!("{}", render(&lines, SystemTime::now())),
    }
    Ok(())
}

fn serve(config: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // They read boot files and images, of which the page cache has most: more would only take memory.
        .max_blocking_threads(64)
        .enable_all()
        .build()
        .context("start the runtime")?;
    match runtime.block_on(ironic::server::run(config)) {
        // On its own, so that the exit code can tell it apart.
        Err(ironic::server::Error::Config(error)) => Err(error.into()),
        result => Ok(result?),
    }
}
