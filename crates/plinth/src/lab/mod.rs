//! `plinth lab`: the rack on one Linux machine.

mod fault;
mod install;
mod status;

use std::io::{IsTerminal, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use lab::control::{Answer, Request};
use lab::hardware::Firmware;
use lab::rack;
use lab::server::chassis::Reset;
use lab::state::{Dir, Found};
use lab::up;

#[derive(Subcommand)]
pub enum Command {
    /// Bring up a rack of servers behind BMCs, and install a cluster on them
    ///
    /// Run again after an interruption it goes on from where it is.
    ///
    /// Examples:
    ///   plinth lab up
    ///   plinth lab up --mode virtual-media --masters 3 --workers 0
    ///   plinth lab up --rack-only
    ///   plinth lab up --rack-only --servers 100 --kind sim
    ///   plinth lab up --rack-only --firmware bios --vendor idrac
    #[command(verbatim_doc_comment)]
    Up(Up),
    /// Show the lab's servers: BMC addresses, MACs, power, boot device, media, console
    Status {
        #[command(flatten)]
        at: At,
        #[arg(short, long, value_enum, default_value_t = Output::Table)]
        /// As a table, or as JSON for programs
        output: Output,
    },
    /// Print what a server has written to its serial console
    Console {
        #[command(flatten)]
        at: At,
        /// The server's name
        name: String,
        /// Go on printing as more comes
        #[arg(short, long)]
        follow: bool,
    },
    /// Press a server's power button, or cut its power, from outside its BMC
    Power {
        #[command(flatten)]
        at: At,
        /// The server's name
        name: String,
        action: PowerAction,
    },
    /// Break something on purpose, see what is broken, mend it
    #[command(subcommand)]
    Fault(fault::Command),
    /// Run a command inside the lab's network, where the BMCs and the cluster's names are
    ///
    /// Example: plinth lab exec -- curl -k https://10.120.0.10/redfish/v1/
    #[command(verbatim_doc_comment)]
    Exec {
        #[command(flatten)]
        at: At,
        /// The command and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Print an install-config.yaml that makes a cluster of the lab's servers
    ///
    /// Example: plinth lab install-config --masters 3 --workers 1 > site/install-config.yaml
    InstallConfig {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        wish: install::Wish,
    },
    /// Take the lab down and leave nothing behind
    Down {
        #[command(flatten)]
        at: At,
    },
    /// Say what this machine can and cannot do for a lab
    Doctor,
    /// Run a lab's process; `lab up` starts it
    #[command(hide = true)]
    Run {
        #[command(flatten)]
        at: At,
    },
}

#[derive(Args)]
pub struct At {
    /// The lab's directory
    #[arg(long, default_value = "/var/lib/plinth/lab", env = "PLINTH_LAB_DIR")]
    dir: PathBuf,
}

#[derive(Args)]
pub struct Up {
    #[command(flatten)]
    at: At,
    /// Only the rack: networks, site services and servers, powered off; no cluster
    #[arg(long)]
    rack_only: bool,
    #[command(flatten)]
    install: install::Wish,
    /// A name, for more than one lab on a machine
    #[arg(long, default_value = "plinth")]
    name: String,
    /// How many servers; without it as many as the cluster has nodes
    #[arg(long)]
    servers: Option<u16>,
    /// QEMU machines, or simulated ones of which hundreds fit
    #[arg(long, value_enum, default_value_t = ServerKind::Qemu)]
    kind: ServerKind,
    /// The servers' firmware
    #[arg(long, value_enum, default_value_t = FirmwareKind::Uefi)]
    firmware: FirmwareKind,
    /// Whose BMCs to imitate, quirks included: generic, idrac, ilo, supermicro, lenovo or fujitsu
    #[arg(long, default_value = "generic")]
    vendor: String,
    /// Processors of each server
    #[arg(long, default_value_t = 1)]
    cpus: u32,
    /// Memory of each server, in MiB
    #[arg(long, default_value_t = 2048)]
    memory: u64,
    /// Disks of each server
    #[arg(long, default_value_t = 1)]
    disks: u8,
    /// Size of each disk, in GiB; only what is written takes room
    #[arg(long, default_value_t = 20)]
    disk_size: u64,
    /// A DNS server inside the lab that the site's own asks for other names, as ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS:PORT")]
    dns_upstream: Vec<std::net::SocketAddr>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ServerKind {
    Qemu,
    Sim,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum FirmwareKind {
    Uefi,
    Bios,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Output {
    Table,
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum PowerAction {
    On,
    Off,
    Reset,
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Up(args) => bring_up(&args),
        Command::Status { at, output } => show_status(&at, output),
        Command::Console { at, name, follow } => console(&at, &name, follow),
        Command::Power { at, name, action } => {
            let reset = match action {
                PowerAction::On => Reset::On,
                PowerAction::Off => Reset::ForceOff,
                PowerAction::Reset => Reset::ForceRestart,
            };
            ask(
                &at,
                &Request::Power {
                    server: name,
                    reset,
                },
            )
            .map(drop)
        }
        Command::Fault(command) => fault::run(command),
        Command::Exec { at, command } => exec(&at, &command),
        Command::InstallConfig { at, wish } => {
            print!("{}", wish.config(&at)?);
            Ok(())
        }
        Command::Down { at } => {
            install::forget(&at)?;
            let name = runtime()?.block_on(up::down(&at.dir()?, |line| println!("{line}")))?;
            println!("lab {name} is down");
            Ok(())
        }
        Command::Doctor => doctor(),
        Command::Run { at } => Ok(lab::daemon::run(&at.dir()?)?),
    }
}

impl Command {
    /// See the program's own.
    pub fn only_prints(&self) -> bool {
        match self {
            Self::Status { .. }
            | Self::Console { .. }
            | Self::InstallConfig { .. }
            | Self::Doctor => true,
            Self::Up(_)
            | Self::Power { .. }
            | Self::Fault(_)
            | Self::Exec { .. }
            | Self::Down { .. }
            | Self::Run { .. } => false,
        }
    }
}

impl At {
    fn dir(&self) -> Result<Dir> {
        Ok(Dir::new(&self.dir).map_err(up::Error::from)?)
    }
}

fn bring_up(args: &Up) -> Result<()> {
    if !args.rack_only {
        crate::image::for_lab()?;
    }
    if !args.rack_only && install::goes_on(&args.at)? {
        println!("the lab is up: the install goes on");
        return install::run(&args.at, &args.install);
    }
    let options = rack::Options {
        name: args.name.clone(),
        servers: args.servers.unwrap_or(args.install.nodes()),
        kind: match args.kind {
            ServerKind::Qemu => rack::Kind::Qemu,
            ServerKind::Sim => rack::Kind::Sim,
        },
        firmware: match args.firmware {
            FirmwareKind::Uefi => Firmware::Uefi,
            FirmwareKind::Bios => Firmware::Bios,
        },
        vendor: args.vendor.clone(),
        cpus: args.cpus,
        memory_mib: args.memory,
        disks: args.disks,
        disk_gib: args.disk_size,
        dns_upstreams: args.dns_upstream.clone(),
    };
    let dir = args.at.dir()?;
    let mut run =
        std::process::Command::new(std::env::current_exe().context("find our own program")?);
    run.args(["--log", "info", "lab", "run", "--dir"])
        .arg(dir.path());
    runtime()?.block_on(up::up(&dir, &options, run, |line| println!("{line}")))?;
    show_status(&args.at, Output::Table)?;
    if args.rack_only {
        return Ok(());
    }
    install::run(&args.at, &args.install)
}

fn show_status(at: &At, output: Output) -> Result<()> {
    let Answer::Status(status) = ask(at, &Request::Status)? else {
        bail!("the lab answered something else")
    };
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&status)?),
        Output::Table => status::print(&status),
    }
    Ok(())
}

fn console(at: &At, name: &str, follow: bool) -> Result<()> {
    let dir = at.dir()?;
    let Found::Living(record) = dir.look().map_err(up::Error::from)? else {
        return Err(up::Error::NoLab(dir.path().to_path_buf()).into());
    };
    if !record
        .rack
        .places
        .iter()
        .any(|place| place.hardware.name == name)
    {
        bail!(
            "no server {name:?} in lab {}; `plinth lab status` lists them",
            record.rack.name
        );
    }
    let path = dir.console(name);
    let mut file = std::fs::File::open(&path)
        .with_context(|| format!("open {}; has {name} been on?", path.display()))?;
    let mut out = std::io::stdout().lock();
    loop {
        std::io::copy(&mut file, &mut out).context("print the console")?;
        out.flush()?;
        if !follow || !matches!(dir.look(), Ok(Found::Living(_))) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
        // A console that was begun anew is shorter than what we have read.
        if file.metadata()?.len() < file.stream_position()? {
            file.seek(SeekFrom::Start(0))?;
        }
    }
}

fn exec(at: &At, command: &[String]) -> Result<()> {
    let dir = at.dir()?;
    let Found::Living(record) = dir.look().map_err(up::Error::from)? else {
        return Err(up::Error::NoLab(dir.path().to_path_buf()).into());
    };
    let namespace = linux::netns::Namespace::open(&record.rack.namespace)?;
    namespace.enter()?;
    // Names are those of the lab's site.
    let names = dir.resolv_conf();
    let site = &record.rack.site;
    let text = format!("nameserver {}\nsearch {}\n", site.router, site.domain);
    std::fs::write(&names, text).with_context(|| format!("write {}", names.display()))?;
    linux::mount::replace_file(std::path::Path::new("/etc/resolv.conf"), &names)?;
    let (program, args) = command.split_first().expect("clap requires one");
    let error = std::process::Command::new(program).args(args).exec();
    Err(error).with_context(|| format!("run {program}"))
}

fn doctor() -> Result<()> {
    let checks = runtime()?.block_on(lab::doctor::examine());
    let (good, bad) = if std::io::stdout().is_terminal() {
        ("\x1b[32mok\x1b[0m   ", "\x1b[31mno\x1b[0m   ")
    } else {
        ("ok   ", "no   ")
    };
    for check in checks {
        println!(
            "{} {}: {}",
            if check.good { good } else { bad },
            check.name,
            check.finding
        );
    }
    Ok(())
}

fn ask(at: &At, request: &Request) -> Result<Answer> {
    Ok(runtime()?.block_on(up::ask(&at.dir()?, request))?)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")
}
