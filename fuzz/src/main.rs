//! Goes on for as long as one likes.
#![allow(clippy::print_stdout, reason = "a command")]

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use fuzz::targets;

/// Feeds a decoder mutated input until it panics, or time is up
#[derive(Parser)]
#[command(after_help = "Example: cargo run --release -p fuzz -- dhcp --seconds 600 --seed 1000000")]
struct Arguments {
    /// Which decoder; all of them in turn where none is given
    target: Option<String>,
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The number of the first round
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let wanted = |name: &str| {
        arguments
            .target
            .as_deref()
            .is_none_or(|target| target == name)
    };
    let targets: Vec<_> = targets::ALL
        .iter()
        .filter(|target| wanted(target.name))
        .collect();
    if targets.is_empty() {
        let names: Vec<_> = targets::ALL.iter().map(|target| target.name).collect();
        bail!("there is no such target; there are {}", names.join(", "));
    }
    let each = Duration::from_secs(arguments.seconds) / u32::try_from(targets.len())?;
    for target in targets {
        let begin = Instant::now();
        let mut round = arguments.seed;
        while begin.elapsed() < each {
            if let Err(crash) = target.rounds(round..round + 1000) {
                bail!("{crash}");
            }
            round += 1000;
        }
        println!(
            "{}: rounds {} to {round} survived",
            target.name, arguments.seed
        );
    }
    Ok(())
}
