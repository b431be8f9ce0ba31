//! The project's own chores. `cargo xtask --help` lists them.
#![allow(
    clippy::print_stdout,
    reason = "a chore talks to the person who runs it"
)]

mod bench;
mod build;
mod deps;
mod qemu;
mod sh;
mod test;
mod tidy;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Chores of the Plinth project",
    disable_version_flag = true
)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install every Debian package the project needs; silent when all are there
    Deps {
        /// Also those that only benchmarks need
        #[arg(long)]
        bench: bool,
    },
    /// Run all tests, or one tier of them
    Test {
        /// tidy, build, unit, sim, netns, interop, e2e or cluster; all of these in that order when left out
        tier: Option<test::Tier>,
        /// Only tests whose name contains this
        #[arg(long)]
        only: Option<String>,
    },
    /// Check ring rules, formatting, lints and wildcards; report file sizes
    Tidy,
    /// Bring up the lab: a rack of servers one can power on
    Lab {
        /// Passed on to `plinth lab up`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Say what this machine can and cannot do
    Doctor,
    /// Measure, side by side with the incumbent
    Bench {
        name: bench::Name,
        /// How many servers `provision` and `hosts` lead
        #[arg(long)]
        servers: Option<usize>,
    },
    /// A server to measure against, started by benchmarks
    #[command(hide = true)]
    Backend(bench::backend::Backend),
}

fn main() -> Result<()> {
    match Cli::parse().chore {
        Chore::Deps { bench } => {
            deps::install()?;
            if bench { deps::install_bench() } else { Ok(()) }
        }
        Chore::Test { tier, only } => test::run(tier, only.as_deref()),
        Chore::Tidy => tidy::run(),
        Chore::Lab { args } => build::lab(&args),
        Chore::Doctor => build::doctor(),
        Chore::Bench { name, servers } => bench::run(name, servers),
        Chore::Backend(backend) => bench::backend::run(&backend),
    }
}
