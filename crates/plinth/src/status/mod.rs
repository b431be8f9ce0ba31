//! `plinth status`: how far things are, and what they wait for.

pub mod cluster;
mod line;
pub mod look;
mod table;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use crd::BareMetalHost;
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};

use crate::kubernetes::{Way, answer};
use crate::plan::Output;
use line::Line;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Status {
    #[command(flatten)]
    at: look::At,
    /// As a table, or as JSON for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Every host: its state and step, how far it is, what it waits for, what went wrong and when it is tried again
    ///
    /// Examples:
    ///   plinth status hosts --kubeconfig /var/lib/metal/kubeconfig
    ///   plinth status hosts --watch
    ///   plinth status hosts -A -o json | jq '.[] | select(.error)'
    #[command(verbatim_doc_comment)]
    Hosts(Hosts),
}

#[derive(Args)]
pub struct Hosts {
    #[command(flatten)]
    way: Way,
    /// The hosts of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// As a table, or as JSON for programs: a list, or with --watch an object per change
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Go on, and show every change
    #[arg(short, long)]
    watch: bool,
    /// Only these hosts
    names: Vec<String>,
}

pub fn run(command: &Status) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    match &command.command {
        Some(Command::Hosts(command)) => runtime.block_on(hosts(command)),
        None => runtime.block_on(whole(command)),
    }
}

/// The cluster as it is now, whatever of it answers.
async fn whole(command: &Status) -> Result<()> {
    let site = command.at.open(command.at.plan()?).await?;
    let cluster = site.look().await;
    match command.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&cluster)?),
        Output::Table => print!("{}", cluster.render(Timestamp::now())),
    }
    Ok(())
}

async fn hosts(command: &Hosts) -> Result<()> {
    let client = command.way.open().await?;
    let api: Api<BareMetalHost> = Way::scope(&client, command.all_namespaces);
    let listed = answer("list the hosts", api.list(&ListParams::default())).await?;
    let missing: Vec<&str> = command
        .names
        .iter()
        .filter(|name| !listed.items.iter().any(|host| host.name_any() == **name))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() && !command.watch {
        bail!("there is no host {}", missing.join(", "));
    }
    if command.watch {
        return watch(command, api).await;
    }
    let lines: Vec<Line> = listed
        .iter()
        .filter(|host| command.wants(host))
        .map(Line::new)
        .collect();
    match command.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&lines)?),
        Output::Table if lines.is_empty() => {
            eprintln!("there are no hosts; `plinth host add` adds some");
        }
        Output::Table => print!(
            "{}",
            table::render(&lines, command.all_namespaces, Timestamp::now())
        ),
    }
    Ok(())
}

impl Hosts {
    fn wants(&self, host: &BareMetalHost) -> bool {
        self.names.is_empty() || self.names.contains(&host.name_any())
    }
}

/// Until somebody ends it. A terminal shows the table as it is; elsewhere every change is a line.
async fn watch(command: &Hosts, api: Api<BareMetalHost>) -> Result<()> {
    let screen = std::io::stdout().is_terminal() && matches!(command.output, Output::Table);
    let mut shown = Shown::default();
    let mut events = pin!(changes(api));
    // Ages grow while nothing changes.
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            event = events.next() => match event.context("the watch ended")? {
                Ok(event) => {
                    let changed = shown.take(command, event);
                    if !screen {
                        print(command, &changed)?;
                    }
                }
                // It is tried again; what is shown grows old meanwhile.
                Err(error) => eprintln!("plinth: {}", model::chain(&error)),
            },
            _ = tick.tick(), if screen && shown.complete => {
                let lines: Vec<Line> = shown.lines.values().cloned().collect();
                let text = table::render(&lines, command.all_namespaces, Timestamp::now());
                print!("\x1b[H\x1b[2J{text}");
                std::io::Write::flush(&mut std::io::stdout()).context("write")?;
            }
        }
    }
}

fn changes(
    api: Api<BareMetalHost>,
) -> impl Stream<Item = Result<watcher::Event<BareMetalHost>, watcher::Error>> {
    use kube::runtime::WatchStreamExt as _;
    watcher(api, watcher::Config::default()).default_backoff()
}

fn print(command: &Hosts, lines: &[Line]) -> Result<()> {
    for line in lines {
        match command.output {
            Output::Json => println!("{}", serde_json::to_string(line)?),
            Output::Table => println!("{}", table::sentence(line, Timestamp::now())),
        }
    }
    Ok(())
}

/// The hosts as last seen, by namespace and name.
#[derive(Default)]
struct Shown {
    lines: BTreeMap<(String, String), Line>,
    /// The first list is here whole.
    complete: bool,
}

impl Shown {
    /// What is new.
    fn take(&mut self, command: &Hosts, event: watcher::Event<BareMetalHost>) -> Vec<Line> {
        match event {
            watcher::Event::Apply(host) | watcher::Event::InitApply(host) => {
                if !command.wants(&host) {
                    return Vec::new();
                }
                let line = Line::new(&host);
                let old = self.lines.insert(line.key(), line.clone());
                if old.as_ref() == Some(&line) {
                    Vec::new()
                } else {
                    vec![line]
                }
            }
            watcher::Event::Delete(host) => {
                let mut line = Line::new(&host);
                let known = self.lines.remove(&line.key()).is_some();
                line.gone();
                if known { vec![line] } else { Vec::new() }
            }
            watcher::Event::Init => Vec::new(),
            watcher::Event::InitDone => {
                self.complete = true;
                Vec::new()
            }
        }
    }
}
