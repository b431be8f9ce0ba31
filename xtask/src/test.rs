//! `cargo xtask test [tier]`: the pyramid, from the bottom up.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::{build, deps, sh, tidy};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    /// Rings, formatting, lints
    Tidy,
    /// Whatever the others run, compiled in one go
    Build,
    /// Beside the code: tables, snapshots, properties
    Unit,
    /// Many machines in virtual time, with faults from a seed
    Sim,
    /// Real sockets in network namespaces
    Netns,
    /// Third-party programs at the other end
    Interop,
    /// QEMU servers, from power on
    E2e,
    /// Whole clusters on QEMU servers
    Cluster,
}

impl Tier {
    const ALL: [Self; 8] = [
        Self::Tidy,
        Self::Build,
        Self::Unit,
        Self::Sim,
        Self::Netns,
        Self::Interop,
        Self::E2e,
        Self::Cluster,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Tidy => "tidy",
            Self::Build => "build",
            Self::Unit => "unit",
            Self::Sim => "sim",
            Self::Netns => "netns",
            Self::Interop => "interop",
            Self::E2e => "e2e",
            Self::Cluster => "cluster",
        }
    }
}

pub fn run(tier: Option<Tier>, only: Option<&str>) -> Result<()> {
    deps::install()?;
    let tiers = tier.map_or(Tier::ALL.to_vec(), |tier| vec![tier]);
    let mut report = vec![];
    let mut failed = vec![];
    for tier in tiers {
        let begin = Instant::now();
        println!("\n== {} ==", tier.name());
        let result = run_tier(tier, only);
        let verdict = if result.is_ok() { "passed" } else { "FAILED" };
        report.push(format!(
            "{:8} {verdict} in {:.0} s",
            tier.name(),
            begin.elapsed().as_secs_f64()
        ));
        if let Err(error) = result {
            println!("{}: {error:#}", tier.name());
            failed.push(tier.name());
        }
    }
    println!("\n== tiers ==\n{}", report.join("\n"));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn run_tier(tier: Tier, only: Option<&str>) -> Result<()> {
    match tier {
        Tier::Tidy => tidy::run(),
        Tier::Build => {
            let all = ["test", "--workspace", "--lib", "--bins", "--tests"];
            sh::run(sh::cargo(all).arg("--no-run"))
        }
        Tier::Unit => cargo_test(&["--lib", "--bins"], only, &[]),
        Tier::Sim => cargo_test(&["--test", "sim"], only, &[]),
        // Time matters to what is tested: nothing else goes on beside it than is usual.
        Tier::Netns => {
            need_root(tier)?;
            cargo_test(&["--test", "netns"], only, &[])
        }
        Tier::Interop => {
            need_root(tier)?;
            // They wait more than they work.
            let threads = threads(processors()? * 2 + 1);
            cargo_test(&["--test", "interop"], only, &[&threads])
        }
        Tier::E2e => {
            need_root(tier)?;
            build::agent()?;
            // A server is one processor, and now and then waits for something.
            let threads = threads(processors()? + 1);
            cargo_test(&["--test", "e2e"], only, &[&threads])
        }
        Tier::Cluster => {
            need_root(tier)?;
            build::agent()?;
            // How long each phase took, and how long the API was away, are worth reading when all is well, too.
            cargo_test(&["--test", "cluster"], only, &["--show-output"])
        }
    }
}

fn processors() -> Result<usize> {
    let processors = std::thread::available_parallelism().context("count the processors")?;
    Ok(processors.get())
}

fn threads(number: usize) -> String {
    format!("--test-threads={number}")
}

fn cargo_test(targets: &[&str], only: Option<&str>, harness: &[&str]) -> Result<()> {
    let mut command = sh::cargo(["test", "--workspace", "--no-fail-fast"]);
    command
        .args(targets)
        .env("PLINTH_AGENT", build::agent_binary())
        .arg("--")
        .args(only)
        .args(harness);
    sh::run(&mut command)
}

fn need_root(tier: Tier) -> Result<()> {
    let id = sh::output(std::process::Command::new("id").arg("-u")).context("ask who we are")?;
    if id.trim() != "0" {
        bail!(
            "the {} tier makes network namespaces and needs root: sudo -E cargo xtask test {}",
            tier.name(),
            tier.name()
        );
    }
    Ok(())
}
