//! `plinth host`: hosts added to the API, all of them or none.
//!
//! ```text
//!   hosts.csv ─▶ csv ─┐
//!   flags ────────────┼─▶ written ─▶ entry: every problem at once ─▶ objects ─▶ add: tried whole, then made
//!   a terminal ─▶ ask ┘
//! ```

mod add;
mod ask;
mod csv;
mod entry;
mod objects;
mod written;

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use model::{ConfigError, Secret};

use crate::kubernetes::Way;
pub use add::Refused;
use entry::{Entry, resolve};
use written::{Field, Written};

#[derive(Subcommand)]
pub enum Host {
    /// Add hosts: from a file, from flags, or by asking
    ///
    /// Each host becomes a Secret with the login of its BMC and a BareMetalHost. Everything is checked first, and all
    /// problems are told at once; if one host cannot be added, none is.
    ///
    /// A file has a line of column names: name, bmc, username, password, mac, boot_mode (uefi, uefi-secure-boot or legacy),
    /// root_device (a path such as /dev/sda, or hints such as serialNumber=ABC;minSizeGigabytes=100), online (true or
    /// false), verify_tls (true or false), labels (key=value;key=value), description. The first three are needed.
    ///
    /// Passwords come from the file, from --password-file, or are asked for; never from the command line.
    ///
    /// Examples:
    ///   plinth host add --from hosts.csv
    ///   plinth host add --from hosts.csv --dry-run
    ///   plinth host add worker-3 --bmc redfish-virtualmedia://192.0.2.13/redfish/v1/Systems/1 --username admin
    ///   plinth host add
    #[command(verbatim_doc_comment)]
    Add(Add),
}

#[derive(Args)]
pub struct Add {
    #[command(flatten)]
    way: Way,
    /// A CSV file with a host per line; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "bmc", "mac"])]
    from: Option<PathBuf>,
    /// The host's name
    name: Option<String>,
    /// The BMC's address, such as ipmi://192.0.2.13
    #[arg(long, value_name = "URL")]
    bmc: Option<String>,
    /// The BMC's user; with --from, of hosts that have none there
    #[arg(long)]
    username: Option<String>,
    /// A file with the password alone; with --from, of hosts that have none there. `-` is standard input
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The MAC address of the NIC that boots
    #[arg(long)]
    mac: Option<String>,
    /// How the firmware boots: uefi, uefi-secure-boot or legacy [default: uefi]
    #[arg(long, value_name = "MODE")]
    boot_mode: Option<String>,
    /// The disk that systems are written to: a path, or hints such as serialNumber=ABC;minSizeGigabytes=100
    #[arg(long, value_name = "HINTS")]
    root_device: Option<String>,
    /// Leave the server off until it is used
    #[arg(long)]
    offline: bool,
    /// Take any certificate of the BMC
    #[arg(long)]
    insecure: bool,
    /// A label, for hostSelectors; may be given again
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Leave out hosts that are there already
    #[arg(long)]
    skip_existing: bool,
    /// Print what would be made, as YAML with stars for passwords, and do nothing else
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: print passwords too, for `kubectl apply -f -`
    #[arg(long, requires = "dry_run")]
    show_passwords: bool,
}

pub fn run(command: &Host) -> Result<()> {
    let Host::Add(command) = command;
    let entries = entries(command)?;
    if command.dry_run {
        let namespace = command.way.namespace();
        print!(
            "{}",
            objects::yaml(&entries, namespace, command.show_passwords)?
        );
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let client = command.way.open().await?;
        add::all(&client, &entries, command.skip_existing).await
    })
}

fn entries(command: &Add) -> Result<Vec<Entry>> {
    let (path, mut rows) = match &command.from {
        Some(path) => {
            let text = read(path)?;
            let rows = written::table(&text).map_err(|problems| refused(path, problems))?;
            (path.clone(), rows)
        }
        None => (PathBuf::from("the command line"), vec![flags(command)]),
    };
    for row in &mut rows {
        complete(command, row);
    }
    if let Some(path) = &command.password_file {
        let text = read(path)?;
        let password = text.lines().next().unwrap_or_default();
        for row in &mut rows {
            row.or(Field::Password, password);
        }
    }
    if std::io::stdin().is_terminal() {
        if command.from.is_none() {
            ask::missing(&mut rows[0])?;
        } else {
            ask::passwords(&mut rows)?;
        }
    }
    resolve(&rows).map_err(|problems| refused(&path, problems))
}

/// The host that the flags describe.
fn flags(command: &Add) -> Written {
    let mut row = Written::new(String::new());
    for (field, value) in [
        (Field::Name, &command.name),
        (Field::Bmc, &command.bmc),
        (Field::Mac, &command.mac),
    ] {
        row.or(field, value.as_deref().unwrap_or_default());
    }
    row
}

/// What flags say of every host that does not say it itself.
fn complete(command: &Add, row: &mut Written) {
    for (field, value) in [
        (Field::Username, &command.username),
        (Field::BootMode, &command.boot_mode),
        (Field::RootDevice, &command.root_device),
    ] {
        row.or(field, value.as_deref().unwrap_or_default());
    }
    if command.offline {
        row.or(Field::Online, "false");
    }
    if command.insecure {
        row.or(Field::VerifyTls, "false");
    }
    row.or(Field::Labels, &command.labels.join(";"));
}

fn read(path: &Path) -> Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

/// Exit code 3: every problem is listed, nothing was touched.
fn refused(path: &Path, problems: Vec<String>) -> anyhow::Error {
    let path = path.to_owned();
    ConfigError::Problems { path, problems }.into()
}

/// A password, from wherever it came.
type Password = Secret<String>;
