//! `plinth plan` and `plinth explain`: what would happen, before any server is powered on.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::plan::cluster::{Plan, diff};
use ::plan::install_config::{self, Facts, schema};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use installer::Dir;

#[derive(Args)]
pub struct PlanArgs {
    /// The install directory, which holds install-config.yaml
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// How the plan is shown
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Show only what differs from another plan: a directory, an install-config.yaml, or a plan saved with -o json
    #[arg(long, value_name = "OTHER")]
    diff: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Output {
    Table,
    Json,
}

#[derive(Args)]
pub struct Explain {
    /// A field, such as platform.baremetal.hosts.bmc; all of them without one
    #[arg(default_value = "")]
    field: String,
}

pub fn explain(command: &Explain) -> Result<()> {
    match schema::find(&command.field) {
        Ok(found) => print!("{}", found.render(&command.field)),
        Err(problem) => bail!(problem),
    }
    Ok(())
}

pub fn run(command: &PlanArgs) -> Result<()> {
    let plan = read(&command.dir)?;
    let Some(other) = &command.diff else {
        match command.output {
            Output::Table => print!("{}", plan.render()),
            Output::Json => println!("{}", serde_json::to_string_pretty(&plan)?),
        }
        return Ok(());
    };
    let changes = diff(&value_of(other)?, &serde_json::to_value(&plan)?);
    match command.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&changes)?),
        Output::Table => {
            for change in &changes {
                println!("{change}");
            }
            if changes.is_empty() {
                println!("no difference");
            }
        }
    }
    Ok(())
}

fn read(dir: &Path) -> Result<Plan> {
    let dir = Dir::new(dir);
    let (plan, warnings) = dir.plan(&facts(&dir.text()?))?;
    warn(&warnings);
    Ok(plan)
}

pub fn warn(warnings: &[String]) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}

fn value_of(other: &Path) -> Result<serde_json::Value> {
    if other.is_dir() {
        return Ok(serde_json::to_value(read(other)?)?);
    }
    let text =
        std::fs::read_to_string(other).with_context(|| format!("read {}", other.display()))?;
    if let Ok(value @ serde_json::Value::Object(_)) = serde_json::from_str(&text) {
        return Ok(value);
    }
    let resolved = install_config::parse(&text, &facts(&text)).map_err(|refused| {
        installer::Error::Config {
            path: other.to_owned(),
            refused,
        }
    })?;
    Ok(serde_json::to_value(Plan::new(&resolved.config, None))?)
}

/// Asks DNS for the VIPs if the file leaves them out.
pub fn facts(text: &str) -> Facts {
    let Some((api, ingress)) = install_config::asks_dns(text) else {
        return Facts::default();
    };
    Facts {
        api: lookup(&api),
        ingress: lookup(&ingress),
    }
}

const LOOKUP_TIME: Duration = Duration::from_secs(5);

/// Nothing, if nobody answers in time: the plan says what is missing.
fn lookup(name: &str) -> Vec<IpAddr> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    else {
        return Vec::new();
    };
    let found = runtime.block_on(async {
        match tokio::time::timeout(LOOKUP_TIME, tokio::net::lookup_host((name, 0))).await {
            Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    });
    // A resolver that hangs must not hold us up at the end.
    runtime.shutdown_background();
    found
}
