//! `plinth preflight`: what would stop an install, found before the first server is powered on.

use std::path::PathBuf;

use ::plan::cluster::Plan;
use ::plan::preflight::{self, Fact, Finding, Selection, Verdict};
use anyhow::{Context, Result};
use clap::Args;
use installer::{Dir, preflight as probes};

use crate::plan::{Output, facts, warn};

#[derive(Args)]
pub struct Preflight {
    /// The install directory, which holds install-config.yaml
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// How findings are shown
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Run this check alone; may be given again
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Leave this check out; may be given again
    #[arg(long, value_name = "ID")]
    skip: Vec<String>,
    /// Fetch images whole, and look at their checksums
    #[arg(long)]
    verify_image: bool,
    /// Show what passes as well
    #[arg(long)]
    all: bool,
    /// List the checks and do nothing
    #[arg(long)]
    list: bool,
}

/// At least one check failed.
#[derive(Debug, thiserror::Error)]
#[error("{0} of the checks failed; an install would not succeed")]
pub struct Failed(usize);

pub fn run(command: &Preflight) -> Result<()> {
    let selection = Selection::new(command.only.clone(), command.skip.clone())?;
    if command.list {
        return list(&selection, command.output);
    }
    let dir = Dir::new(&command.dir);
    let (config, warnings) = dir.config(&facts(&dir.text()?))?;
    warn(&warnings);
    let plan = Plan::new(&config, None);
    let certificates = Fact::of(dir.expiries());
    let options = probes::Options {
        verify_images: command.verify_image,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    let observed = runtime.block_on(probes::observe(
        &plan,
        &config,
        certificates,
        &selection,
        options,
    ));
    // A resolver that hangs must not hold us up at the end.
    runtime.shutdown_background();
    let findings = preflight::check(&plan, &config, &observed, &selection);
    match command.output {
        Output::Table => print!("{}", preflight::render(&findings, command.all)),
        Output::Json => println!("{}", serde_json::to_string_pretty(&findings)?),
    }
    let failed = |finding: &&Finding| finding.verdict == Verdict::Fail;
    match findings.iter().filter(failed).count() {
        0 => Ok(()),
        count => Err(Failed(count).into()),
    }
}

fn list(selection: &Selection, output: Output) -> Result<()> {
    match output {
        Output::Table => {
            for check in selection.checks() {
                println!("{:22} {}", check.id, check.title);
            }
        }
        Output::Json => {
            let checks: Vec<_> = selection
                .checks()
                .map(|check| {
                    serde_json::json!({
                        "id": check.id, "title": check.title, "severity": check.severity, "needs": check.needs,
                    })
                })
                .collect();
            println!("{}", serde_json::to_string_pretty(&checks)?);
        }
    }
    Ok(())
}
