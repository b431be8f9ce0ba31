//! `plinth lab fault`: breaking things on purpose.

use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use lab::control::{Answer, Request};
use lab::fault::{Kind, Order};
use lab::hardware::Network;

use super::{At, Output, ask};

#[derive(Subcommand)]
pub enum Command {
    /// Break something
    ///
    /// Kinds:
    ///   bmc-down               the BMC's address is gone from the network
    ///   bmc-slow               answers take --millis longer (3000)
    ///   bmc-error              answers are --status (503)
    ///   drops-sessions         valid Redfish sessions are refused
    ///   ignores-reset          a reset is acknowledged and not carried out
    ///   lies-about-power       on is reported as off, off as on
    ///   forgets-boot-override  an override is gone when the server starts
    ///   ejects-media           inserted media is gone when the server starts
    ///   loses-power            the server is off, now
    ///   link-down              no carrier on --network (provisioning)
    ///   link-lossy             --percent (20) of frames on --network are lost
    ///   disk-errors            reads and writes fail
    ///   boot-loop              the server resets --millis (5000) after each start
    ///   corrupts-transfer      data fetched for the server arrives changed
    ///
    /// Examples:
    ///   plinth lab fault add server-0 bmc-error --status 500 --count 3
    ///   plinth lab fault add server-1 link-lossy --network baremetal --percent 30
    ///   plinth lab fault add server-2 ignores-reset --chance 50 --seed 7
    #[command(verbatim_doc_comment)]
    Add {
        #[command(flatten)]
        at: At,
        /// The server's name
        server: String,
        /// What to break; see above
        kind: String,
        /// Strike this many times, then be over
        #[arg(long)]
        count: Option<u32>,
        /// Strike on this percentage of occasions
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u8).range(1..=100))]
        chance: u8,
        /// Seed of the dice for --chance
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// For bmc-slow and boot-loop
        #[arg(long)]
        millis: Option<u64>,
        /// For bmc-error
        #[arg(long, value_parser = clap::value_parser!(u16).range(400..=599))]
        status: Option<u16>,
        /// For link-lossy
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=100))]
        percent: Option<u8>,
        /// For link-down and link-lossy
        #[arg(long, value_enum)]
        network: Option<NetworkName>,
    },
    /// List faults, with how often each has struck
    List {
        #[command(flatten)]
        at: At,
        /// As a table, or as JSON for programs
        #[arg(short, long, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Mend one fault, all of a server's, or all there are
    Clear {
        #[command(flatten)]
        at: At,
        /// The server's name; every server when left out
        server: Option<String>,
        /// The fault's number, as `list` shows it
        #[arg(requires = "server")]
        id: Option<u32>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub enum NetworkName {
    Baremetal,
    Provisioning,
}

impl From<NetworkName> for Network {
    fn from(name: NetworkName) -> Self {
        match name {
            NetworkName::Baremetal => Self::Baremetal,
            NetworkName::Provisioning => Self::Provisioning,
        }
    }
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Add {
            at,
            server,
            kind,
            count,
            chance,
            seed,
            millis,
            status,
            percent,
            network,
        } => {
            let Some(kind) = Kind::EXAMPLES
                .into_iter()
                .find(|example| example.name() == kind)
            else {
                let names: Vec<_> = Kind::EXAMPLES.iter().map(|kind| kind.name()).collect();
                bail!("no fault kind {kind:?}; there are {}", names.join(", "));
            };
            let kind = with_parameters(
                kind,
                &Parameters {
                    millis,
                    status,
                    percent,
                    network: network.map(Network::from),
                },
            )?;
            let order = Order {
                kind,
                count,
                chance,
                seed,
            };
            ask(&at, &Request::AddFault { server, order }).map(drop)
        }
        Command::List { at, output } => {
            let Answer::Faults(faults) = ask(&at, &Request::ListFaults)? else {
                bail!("the lab answered something else")
            };
            if let Output::Json = output {
                println!("{}", serde_json::to_string_pretty(&faults)?);
                return Ok(());
            }
            println!(
                "{:12} {:>4} {:22} {:>7} {:>7}",
                "SERVER", "ID", "KIND", "STRUCK", "OF"
            );
            for entry in faults {
                let of = entry
                    .fault
                    .order
                    .count
                    .map_or_else(|| "-".into(), |count| count.to_string());
                println!(
                    "{:12} {:>4} {:22} {:>7} {of:>7}",
                    entry.server,
                    entry.fault.id,
                    entry.fault.order.kind.name(),
                    entry.fault.struck
                );
            }
            Ok(())
        }
        Command::Clear { at, server, id } => {
            ask(&at, &Request::ClearFaults { server, id }).map(drop)
        }
    }
}

struct Parameters {
    millis: Option<u64>,
    status: Option<u16>,
    percent: Option<u8>,
    network: Option<Network>,
}

/// Puts the given parameters into a kind; one that the kind does not have is refused.
fn with_parameters(kind: Kind, given: &Parameters) -> Result<Kind> {
    let (kind, takes): (_, &[&str]) = match kind {
        Kind::BmcSlow { millis } => (
            Kind::BmcSlow {
                millis: given.millis.unwrap_or(millis),
            },
            &["--millis"],
        ),
        Kind::BootLoop { millis } => (
            Kind::BootLoop {
                millis: given.millis.unwrap_or(millis),
            },
            &["--millis"],
        ),
        Kind::BmcError { status } => (
            Kind::BmcError {
                status: given.status.unwrap_or(status),
            },
            &["--status"],
        ),
        Kind::LinkDown { network } => (
            Kind::LinkDown {
                network: given.network.unwrap_or(network),
            },
            &["--network"],
        ),
        Kind::LinkLossy { network, percent } => (
            Kind::LinkLossy {
                network: given.network.unwrap_or(network),
                percent: given.percent.unwrap_or(percent),
            },
            &["--network", "--percent"],
        ),
        Kind::BmcDown
        | Kind::DropsSessions
        | Kind::IgnoresReset
        | Kind::LiesAboutPower
        | Kind::ForgetsBootOverride
        | Kind::EjectsMedia
        | Kind::LosesPower
        | Kind::DiskErrors
        | Kind::CorruptsTransfer => (kind, &[]),
    };
    let given = [
        ("--millis", given.millis.is_some()),
        ("--status", given.status.is_some()),
        ("--percent", given.percent.is_some()),
        ("--network", given.network.is_some()),
    ];
    for (name, present) in given {
        if present && !takes.contains(&name) {
            bail!("{} takes no {name}", kind.name());
        }
    }
    Ok(kind)
}
