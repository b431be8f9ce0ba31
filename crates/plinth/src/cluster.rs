//! `plinth create cluster`, and the bootstrap VM's own commands.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ::plan::install::Phase;
use ::plan::preflight::Selection;
use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use installer::Dir;
use installer::bootstrap::{Home, Orders, keep};
use installer::cluster::{self, Options};
use installer::destroy;
use installer::progress::{Picture, Tell};
use serde_json::Value;

use crate::plan::{facts, warn};

#[derive(Args)]
pub struct Create {
    /// The install directory, which holds install-config.yaml
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// The last phase to finish; all of them without it
    #[arg(long, value_name = "PHASE", value_parser = phase)]
    to: Option<Phase>,
    #[command(flatten)]
    boots: Boots,
    /// Do not record the serial consoles of the control plane's hosts in DIR/consoles
    #[arg(long)]
    no_consoles: bool,
    /// Leave this check of `plinth preflight` out; may be given again
    #[arg(long, value_name = "ID")]
    skip_check: Vec<String>,
    /// Look for nothing before the first power-on that would stop the install
    #[arg(long)]
    no_preflight: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Args)]
pub struct Keep {
    /// The install directory
    #[arg(long)]
    dir: PathBuf,
    /// The OS image that the VM starts from
    #[arg(long)]
    image: PathBuf,
    /// It cleans hosts, and installs nothing
    #[arg(long)]
    cleans: bool,
}

#[derive(Subcommand)]
pub enum Destroy {
    /// End the bootstrap VM and remove its disk; its console stays in the install directory
    ///
    /// Example: plinth destroy bootstrap --dir lab
    Bootstrap {
        /// The install directory
        #[arg(long, default_value = ".")]
        dir: PathBuf,
    },
    /// Switch every host of the cluster off by its BMC, so that no old node holds an address
    ///
    /// Disks are left as they are, or cleaned with --clean: then the bootstrap VM is started again, hosts boot the ramdisk as for
    /// an install, the metadata of every disk is erased, and they are switched off. It goes on from where it was interrupted.
    ///
    /// Examples:
    ///   plinth destroy cluster --dir lab --yes
    ///   plinth destroy cluster --dir lab --clean
    #[command(verbatim_doc_comment)]
    Cluster(Box<End>),
}

#[derive(Args)]
pub struct End {
    /// The install directory
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Do not ask: the hosts are meant
    #[arg(long)]
    yes: bool,
    /// Erase the metadata of every disk of every host: partitions, file systems, RAID and LVM are gone
    #[arg(long)]
    clean: bool,
    #[command(flatten)]
    boots: Boots,
}

/// What nodes and servers run.
#[derive(Args)]
struct Boots {
    /// How progress is told; text is for people
    #[arg(long, value_enum, default_value_t = Format::Text)]
    progress: Format,
    /// The program that nodes run; this one without it
    #[arg(long, value_name = "FILE", env = "PLINTH_BINARY")]
    binary: Option<PathBuf>,
    /// The static plinth-agent; the one beside this program without it
    #[arg(long, value_name = "FILE", env = "PLINTH_AGENT")]
    agent: Option<PathBuf>,
    /// Boot servers with the drivers and firmware of the lab's, or with those of real ones
    #[arg(long, value_enum, default_value_t = crate::image::FlavourName::Metal)]
    ramdisk: crate::image::FlavourName,
}

impl Boots {
    fn binary(&self) -> Result<PathBuf> {
        match &self.binary {
            Some(path) => Ok(path.clone()),
            None => std::env::current_exe().context("find this program"),
        }
    }

    fn metal(&self) -> bool {
        matches!(self.ramdisk, crate::image::FlavourName::Metal)
    }
}

fn phase(name: &str) -> Result<Phase, String> {
    let known = Phase::ALL.into_iter().find(|phase| phase.name() == name);
    known.ok_or_else(|| format!("use one of {}", Phase::ALL.map(Phase::name).join(", ")))
}

/// The hidden command that keeps the bootstrap VM.
pub const KEEPER: &str = "bootstrap-vm";

pub fn create(command: &Create) -> Result<()> {
    let checks = if command.no_preflight {
        None
    } else {
        Some(checks(&command.skip_check)?)
    };
    let boots = &command.boots;
    let options = Options {
        checks,
        dir: command.dir.clone(),
        binary: boots.binary()?,
        agent: crate::image::find_agent(boots.agent.clone())?,
        metal: boots.metal(),
        to: command.to,
        keeper: ["--log", "info", KEEPER].map(str::to_owned).into(),
        consoles: !command.no_consoles,
    };
    let dir = Dir::new(&command.dir);
    let facts = facts(&dir.text()?);
    let (_, warnings) = dir.config(&facts)?;
    warn(&warnings);
    let mut teller = Teller::open(&command.dir, boots.progress)?;
    runtime()?.block_on(cluster::create(options, &facts, &mut teller))?;
    Ok(())
}

/// Images are made next, if they are not there.
fn checks(skipped: &[String]) -> Result<Selection> {
    let made_next = ["image-cached".to_owned()];
    Ok(Selection::new(
        Vec::new(),
        [&made_next[..], skipped].concat(),
    )?)
}

pub fn keep_vm(command: &Keep) -> Result<()> {
    let dir = Dir::new(&command.dir);
    let (plan, _) = dir.plan(&facts(&dir.text()?))?;
    let (home, ignition) = if command.cleans {
        (Home::cleaner(&command.dir), dir.cleaner_ignition())
    } else {
        (Home::new(&command.dir), dir.bootstrap_ignition())
    };
    let orders = Orders {
        image: command.image.clone(),
        ignition,
    };
    Ok(runtime()?.block_on(keep(&home, &plan, &orders))?)
}

pub fn destroy(command: &Destroy) -> Result<()> {
    match command {
        Destroy::Bootstrap { dir } => Ok(runtime()?.block_on(destroy::bootstrap(dir))?),
        Destroy::Cluster(end) => destroy_cluster(end),
    }
}

fn destroy_cluster(end: &End) -> Result<()> {
    let dir = Dir::new(&end.dir);
    let facts = facts(&dir.text()?);
    let (config, warnings) = dir.config(&facts)?;
    let (hosts, name) = (config.baremetal.hosts.len(), &config.name);
    let lost = if end.clean {
        ", and what is on their disks is lost"
    } else {
        ""
    };
    let meant = format!(
        "All {hosts} hosts of the cluster {name} are switched off, whatever they run{lost}."
    );
    if !end.yes && !confirmed(&meant)? {
        anyhow::bail!("nothing was done; --yes says that it is meant");
    }
    if !end.clean {
        let tell = |line: &str| say(line);
        return Ok(runtime()?.block_on(destroy::cluster(&end.dir, &facts, tell))?);
    }
    warn(&warnings);
    let boots = &end.boots;
    let options = destroy::Options {
        dir: end.dir.clone(),
        binary: boots.binary()?,
        agent: crate::image::find_agent(boots.agent.clone())?,
        metal: boots.metal(),
        keeper: ["--log", "info", KEEPER, "--cleans"]
            .map(str::to_owned)
            .into(),
    };
    let mut teller = Teller::open(&end.dir, boots.progress)?;
    Ok(runtime()?.block_on(destroy::clean(options, &facts, &mut teller))?)
}

/// Only a person at a terminal can be asked.
pub fn confirmed(what: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    print!("{what} Go on? (yes/no) ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")
}

/// Says what happens on standard output, and keeps all of it in the install directory.
struct Teller {
    format: Format,
    log: File,
    /// A person looks at a terminal: headlines stand out, and below them is how things are.
    terminal: bool,
    /// Lines of the picture that is on the screen.
    drawn: usize,
}

impl Teller {
    fn open(dir: &Path, format: Format) -> Result<Self> {
        let path = dir.join(".plinth_install.log");
        let mut options = File::options();
        let log = options.create(true).append(true).mode(0o600).open(&path);
        Ok(Self {
            format,
            log: log.with_context(|| format!("open {}", path.display()))?,
            terminal: std::io::stdout().is_terminal(),
            drawn: 0,
        })
    }

    /// Takes the picture away, so that a line can be written where it was.
    fn wipe(&mut self) {
        if self.drawn > 0 {
            _ = write!(std::io::stdout(), "\x1b[{}F\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }
}

impl Tell for Teller {
    fn event(&mut self, line: &str, event: &Value) {
        let now = jiff::Timestamp::now();
        // A full disk must not stop an install.
        _ = writeln!(self.log, "{now:.3} {event}");
        match self.format {
            Format::Json => {
                let mut event = event.clone();
                event["at"] = now.to_string().into();
                say(&event.to_string());
            }
            Format::Text if self.terminal => {
                self.wipe();
                if line.starts_with(' ') {
                    say(line);
                } else {
                    say(&format!("\x1b[1m{line}\x1b[0m"));
                }
            }
            Format::Text => say(line),
        }
    }

    fn picture(&mut self, picture: &Picture) {
        if !self.terminal || matches!(self.format, Format::Json) {
            return;
        }
        self.wipe();
        let lines = picture.draw(width());
        say(&lines.join("\n"));
        self.drawn = lines.len();
    }
}

/// Nobody who reads any more must not stop an install.
pub fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// Of the terminal; 80 if it does not say.
fn width() -> usize {
    let columns = linux::terminal::columns(&std::io::stdout());
    columns.map_or(80, usize::from)
}
