//! `plinth node`: this machine as a node of the cluster.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use node::Config;
use node::daemon::Error;
use node::name::Outcome;

use crate::plan::Output;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Node {
    /// The configuration, a YAML file
    #[arg(
        long,
        default_value = "/etc/plinth/node.yaml",
        env = "PLINTH_NODE_CONFIG"
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
    /// Give this host the name on its config drive, unless it has one
    ///
    /// Example: plinth node name
    Name {
        /// The file that keeps the name over a reboot
        #[arg(long, value_name = "FILE", default_value = "/etc/hostname")]
        etc_hostname: PathBuf,
    },
    /// Show how the running node is doing, and what it waits for
    ///
    /// Example: plinth node status -o json
    Status {
        /// Where the running node answers
        #[arg(long, default_value_t = node::config::ADMIN)]
        admin: SocketAddr,
        /// A table for people, or JSON for programs
        #[arg(short, long, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
}

impl Node {
    pub fn is_daemon(&self) -> bool {
        self.command.is_none() && !self.check
    }
}

pub fn run(command: &Node) -> Result<()> {
    match &command.command {
        Some(Command::Name { etc_hostname }) => name(etc_hostname),
        Some(Command::Status { admin, output }) => status(*admin, *output),
        None if command.check => Ok(Config::load(&command.config).map(drop)?),
        None => serve(&command.config),
    }
}

fn serve(config: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let stop = crate::metal3::signals()?;
        match node::daemon::run(config, stop).await {
            // On its own, so that the exit code can tell it apart.
            Err(Error::Config(error)) => Err(error.into()),
            result => Ok(result?),
        }
    })
}

fn name(etc_hostname: &Path) -> Result<()> {
    match node::name::set(Path::new("/"), etc_hostname)? {
        Outcome::Kept(name) => println!("{name}: kept"),
        Outcome::Set(name) => println!("{name}: from the config drive"),
        Outcome::Unknown => println!("there is no config drive; the name stays as it is"),
    }
    Ok(())
}

const PATIENCE: Duration = Duration::from_secs(5);

fn status(admin: SocketAddr, output: Output) -> Result<()> {
    let path = match output {
        Output::Table => "/status?table",
        Output::Json => "/status",
    };
    let mut stream = TcpStream::connect_timeout(&admin, PATIENCE).with_context(|| {
        format!("reach the node on {admin}; does it run, and with this address?")
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {admin}\r\n\r\n").context("ask the node")?;
    let mut answer = String::new();
    stream
        .take(1 << 20)
        .read_to_string(&mut answer)
        .context("hear the node's answer")?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("understand the node's answer")?;
    if head.split_whitespace().nth(1) != Some("200") {
        bail!(
            "the node answers {:?}",
            head.lines().next().unwrap_or_default()
        );
    }
    println!("{}", body.trim_end());
    Ok(())
}
