//! `plinth`: one program, every command. Each subcommand has a file of its own; this is the switchboard.
#![allow(clippy::print_stdout, reason = "commands answer on standard output")]

mod apiserver;
mod cluster;
mod console;
mod crds;
mod create;
mod gather;
mod host;
mod image;
mod ironic;
mod kubernetes;
mod lab;
mod manual;
mod mcs;
mod metal3;
mod netd;
mod node;
mod plan;
mod preflight;
mod render;
mod replace_master;
mod router;
mod serve;
mod status;
mod vrid;
mod wait_for;

use std::process::ExitCode;

use ::lab::up::Error as Lab;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;

/// Turns a rack of bare servers into a running, highly available cluster.
#[derive(Parser)]
#[command(name = "plinth", version, propagate_version = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// How log lines are written to standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, env = "PLINTH_LOG_FORMAT")]
    log_format: LogFormat,
    /// What to log: a level (error, warn, info, debug, trace) or filters such as lab=debug [default: info for what
    /// goes on running, warn otherwise]
    #[arg(long, global = true, env = "PLINTH_LOG")]
    log: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// A data centre in a box: servers behind BMCs on two networks
    #[command(subcommand)]
    Lab(lab::Command),
    /// The provisioning service: Ironic's API and the care of every node
    Ironic(ironic::Ironic),
    /// Virtual addresses, load balancing and names on this node
    Netd(netd::Netd),
    /// Ignition configs for nodes on their first boot
    Mcs(mcs::Mcs),
    /// A Kubernetes API for machine objects, on a file or on etcd
    Apiserver(apiserver::Apiserver),
    /// The hosts and machines of a cluster, cared for by one of its control plane
    Metal3(metal3::Metal3),
    /// This machine as a node of the cluster: its certificate, its Node and its Lease
    Node(node::Node),
    /// Stand in for an ingress router where none runs
    Router(router::Router),
    /// Care for bare metal without a cluster: the API, Ironic and the controllers in one process
    ///
    /// Examples:
    ///   plinth serve --dir /var/lib/metal
    ///   plinth serve --dir /tmp/try --fake-hardware
    #[command(verbatim_doc_comment)]
    Serve(serve::Serve),
    /// How far things are, and what they wait for
    ///
    /// Without a subcommand, the cluster: its API, virtual addresses, nodes, etcd, metal3, machines and hosts.
    ///
    /// Examples:
    ///   plinth status --dir lab
    ///   plinth status --kubeconfig lab/auth/kubeconfig -o json | jq .nodes
    #[command(verbatim_doc_comment)]
    Status(status::Status),
    /// Wait until the bootstrap or the install is complete
    ///
    /// Waits, and says what for whenever it changes. Ends with 0 when it came, with 6 when it did not come in time.
    ///
    /// Examples:
    ///   plinth wait-for bootstrap-complete --dir lab
    ///   plinth wait-for install-complete --kubeconfig lab/auth/kubeconfig --timeout 30m
    #[command(verbatim_doc_comment)]
    WaitFor(wait_for::WaitFor),
    /// Collect what helps to understand a failure into one archive, at any stage of an install
    ///
    /// Keys, passwords and tokens stay where they are: objects come without Secrets, and fields that hold such are starred.
    ///
    /// Examples:
    ///   plinth gather --dir lab
    ///   plinth gather --dir lab -o /tmp/why.tar.gz --include /var/log/syslog
    #[command(verbatim_doc_comment)]
    Gather(gather::Gather),
    /// A server's serial console in this terminal, by IPMI at its BMC
    ///
    /// Keys go to the server; ~. at the start of a line ends it, ~? helps.
    /// Where input or output is no terminal, it only prints.
    ///
    /// Examples:
    ///   plinth console master-0 --dir lab
    ///   plinth console master-0 --dir lab --steal
    ///   plinth console master-0 --dir lab | tee master-0.log
    #[command(verbatim_doc_comment)]
    Console(console::Console),
    /// The hosts that the API knows
    #[command(subcommand)]
    Host(host::Host),
    /// Show what an install would do: addresses, priorities, disks to be erased
    Plan(plan::PlanArgs),
    /// Look for what would stop an install, before any server is powered on
    ///
    /// Looks at BMCs, networks, names, clocks, images and this machine. Nothing is changed.
    ///
    /// Examples:
    ///   plinth preflight --dir site
    ///   plinth preflight --dir site --only vip-free --only vrid-quiet
    #[command(verbatim_doc_comment)]
    Preflight(preflight::Preflight),
    /// Write the files of an install, stage by stage
    #[command(subcommand)]
    Create(create::Command),
    /// Take away what an install made
    #[command(subcommand)]
    Destroy(cluster::Destroy),
    /// Put a fresh host in a dead master's place, under the same name
    ///
    /// The same server with a new disk, or another one: write its BMC and boot MAC into install-config.yaml first.
    /// The old host is switched off, and its etcd member, Node, BareMetalHost and Machine go. The new one is written by
    /// metal3, learns from the other members of etcd, and votes once it has caught up.
    /// It may be interrupted anywhere: the same command goes on from what it finds.
    ///
    /// Examples:
    ///   plinth replace-master master-1 --dir site
    ///   plinth replace-master master-1 --dir site --yes
    ///   plinth replace-master master-1 --dir site --force
    #[command(verbatim_doc_comment)]
    ReplaceMaster(replace_master::ReplaceMaster),
    /// Keep the bootstrap VM of an install
    #[command(hide = true)]
    BootstrapVm(cluster::Keep),
    /// Say what a field of install-config.yaml means
    Explain(plan::Explain),
    /// Print netd's configuration in the words of the programs it stands for
    ///
    /// Example: plinth render haproxy --config netd.yaml > haproxy.cfg
    Render(render::Render),
    /// Print the virtual router ids of a cluster
    Vrid(vrid::Vrid),
    /// Print the definitions of the kinds that Plinth follows
    ///
    /// Example: plinth crds | kubectl apply --server-side -f -
    Crds(crds::Crds),
    /// Build the OS image and the ramdisk
    #[command(subcommand)]
    Image(image::Command),
    /// Print a shell's completion script
    ///
    /// Example: plinth completion bash > /etc/bash_completion.d/plinth
    Completion { shell: clap_complete::Shell },
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man { dir: std::path::PathBuf },
}

impl Command {
    /// It has no connection to anybody who may hang up; only its reader may.
    fn only_prints(&self) -> bool {
        match self {
            Self::Plan(_)
            | Self::Explain(_)
            | Self::Render(_)
            | Self::Vrid(_)
            | Self::Crds(_)
            | Self::Completion { .. }
            | Self::Man { .. } => true,
            Self::Lab(command) => command.only_prints(),
            Self::Ironic(_)
            | Self::Netd(_)
            | Self::Mcs(_)
            | Self::Apiserver(_)
            | Self::Metal3(_)
            | Self::Node(_)
            | Self::Router(_)
            | Self::BootstrapVm(_)
            | Self::Serve(_)
            | Self::Status(_)
            | Self::WaitFor(_)
            | Self::Gather(_)
            | Self::Console(_)
            | Self::Host(_)
            | Self::Preflight(_)
            | Self::Create(_)
            | Self::Destroy(_)
            | Self::ReplaceMaster(_)
            | Self::Image(_) => false,
        }
    }

    fn is_daemon(&self) -> bool {
        match self {
            Self::Lab(command) => matches!(command, lab::Command::Run { .. }),
            Self::Ironic(command) => command.is_daemon(),
            Self::Netd(command) => command.is_daemon(),
            Self::Mcs(command) => command.is_daemon(),
            Self::Apiserver(command) => command.is_daemon(),
            Self::Metal3(command) => command.is_daemon(),
            Self::Node(command) => command.is_daemon(),
            Self::Router(command) => command.is_daemon(),
            Self::BootstrapVm(_) | Self::Serve(_) => true,
            Self::Status(_)
            | Self::WaitFor(_)
            | Self::Gather(_)
            | Self::Console(_)
            | Self::Host(_)
            | Self::Plan(_)
            | Self::Preflight(_)
            | Self::Create(_)
            | Self::Destroy(_)
            | Self::ReplaceMaster(_)
            | Self::Explain(_)
            | Self::Render(_)
            | Self::Vrid(_)
            | Self::Crds(_)
            | Self::Image(_)
            | Self::Completion { .. }
            | Self::Man { .. } => false,
        }
    }
}

const EXIT_CODES: &str = "Exit codes:
  0  done
  1  failed; the message says at what
  2  the command line is wrong
  3  what was asked for cannot be: every problem is listed, nothing was touched
  4  the lab is up already, or there is none
  5  a preflight check failed
  6  what was waited for did not come in time
  10 and above: the phase of `create cluster` that failed, in the order that `plinth plan` shows
  30 and above: the step of `destroy cluster --clean` that failed, in the order it tells them";

fn main() -> ExitCode {
    linux::memory::few_arenas();
    let cli = Cli::parse();
    if let Command::Lab(_) | Command::Ironic(_) | Command::Serve(_) = cli.command {
        linux::memory::lean();
    }
    log(&cli);
    if cli.command.only_prints() {
        linux::process::end_on_broken_pipe();
    }
    // One crypto provider for all of TLS; an error only says that there is one already.
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let result = match cli.command {
        Command::Lab(command) => lab::run(command),
        Command::Ironic(command) => ironic::run(&command),
        Command::Netd(command) => netd::run(&command),
        Command::Mcs(command) => mcs::run(&command),
        Command::Apiserver(command) => apiserver::run(&command),
        Command::Metal3(command) => metal3::run(&command),
        Command::Node(command) => node::run(&command),
        Command::Router(command) => router::run(&command),
        Command::Serve(command) => serve::run(&command),
        Command::Status(command) => status::run(&command),
        Command::WaitFor(command) => wait_for::run(&command),
        Command::Gather(command) => gather::run(&command),
        Command::Console(command) => console::run(&command),
        Command::Host(command) => host::run(&command),
        Command::Plan(command) => plan::run(&command),
        Command::Preflight(command) => preflight::run(&command),
        Command::Create(command) => create::run(&command),
        Command::Destroy(command) => cluster::destroy(&command),
        Command::ReplaceMaster(command) => replace_master::run(&command),
        Command::BootstrapVm(command) => cluster::keep_vm(&command),
        Command::Explain(command) => plan::explain(&command),
        Command::Render(command) => render::run(&command),
        Command::Vrid(command) => vrid::run(&command),
        Command::Crds(command) => crds::run(&command),
        Command::Image(command) => image::run(command),
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "plinth", &mut std::io::stdout());
            Ok(())
        }
        Command::Man { dir } => manual::write(&dir),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plinth: {error:#}");
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<model::ConfigError>()
        || error.is::<host::Refused>()
        || error
            .downcast_ref::<installer::Error>()
            .is_some_and(installer::Error::is_refusal)
        || error
            .downcast_ref::<installer::replace::Error>()
            .is_some_and(installer::replace::Error::is_refusal)
    {
        return 3;
    }
    match error.downcast_ref::<installer::destroy::Error>() {
        Some(installer::destroy::Error::Stuck(stuck)) => return stuck.step.exit_code(),
        Some(installer::destroy::Error::Dir(error)) if error.is_refusal() => return 3,
        Some(
            installer::destroy::Error::Dir(_)
            | installer::destroy::Error::Bootstrap(_)
            | installer::destroy::Error::StillOn { .. }
            | installer::destroy::Error::Interrupted,
        )
        | None => {}
    }
    match error.downcast_ref::<installer::cluster::Error>() {
        Some(installer::cluster::Error::Stuck(stuck)) => return stuck.phase.exit_code(),
        Some(installer::cluster::Error::Dir(error)) if error.is_refusal() => return 3,
        Some(
            installer::cluster::Error::Dir(_)
            | installer::cluster::Error::Bootstrap(_)
            | installer::cluster::Error::Interrupted,
        )
        | None => {}
    }
    if error.is::<preflight::Failed>() {
        return 5;
    }
    if error.is::<wait_for::TimedOut>() {
        return 6;
    }
    if error.is::<::plan::preflight::NoSuchCheck>() {
        return 2;
    }
    match error.downcast_ref::<Lab>() {
        Some(Lab::Options(_) | Lab::Needs(_) | Lab::NamespaceTaken(_)) => 3,
        Some(Lab::Living { .. } | Lab::NoLab(_) | Lab::Dead(_)) => 4,
        Some(
            Lab::State(_)
            | Lab::Spawn(_)
            | Lab::Failed { .. }
            | Lab::Ask(_)
            | Lab::Refused(_)
            | Lab::Unclean(_),
        )
        | None => 1,
    }
}

fn log(cli: &Cli) {
    let usual = if cli.command.is_daemon() {
        "info"
    } else {
        "warn"
    };
    let mut wanted = cli.log.clone().unwrap_or_else(|| usual.to_owned());
    if wanted.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        // What kube complains of is in the answers of those who ask; whose turn it is among its controllers helps
        // nobody. Filters may ask for it.
        wanted += ",kube_runtime=warn,kube_client=off";
    }
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new(usual));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match cli.log_format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().init(),
    }
}
