//! Every decoder under mutated input.
//!
//! ```text
//!   seeds (valid samples) ── mutate (from a number) ──▶ target: any bytes give a value or an error, never a panic
//! ```
//!
//! `cargo test -p fuzz` runs a fixed number of rounds of each, the same every time; `cargo run -p fuzz -- TARGET
//! --seconds 600 --seed N` goes on for as long as one likes, and prints the seed of a round that fails.

mod mutate;
pub mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::SeedableRng as _;
use rand::rngs::StdRng;

pub use mutate::mutate;

/// Something that reads bytes of strangers.
pub struct Target {
    pub name: &'static str,
    /// Reads them; must not panic.
    pub run: fn(&[u8]),
    /// Samples that are valid, or nearly.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// An input that made a target panic.
#[derive(Debug)]
pub struct Crash {
    pub target: &'static str,
    pub round: u64,
    pub input: Vec<u8>,
}

impl std::fmt::Display for Crash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} panics at round {} on ", self.target, self.round)?;
        self.input
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Target {
    /// The input of one round: a number gives the same bytes every time.
    pub fn input(&self, round: u64) -> Vec<u8> {
        let seeds = (self.seeds)();
        let mut dice = StdRng::seed_from_u64(round);
        mutate(&seeds, &mut dice)
    }

    /// Feeds it the rounds given, each from its own number.
    pub fn rounds(&self, rounds: std::ops::Range<u64>) -> Result<(), Crash> {
        let seeds = (self.seeds)();
        for round in rounds {
            let mut dice = StdRng::seed_from_u64(round);
            let input = mutate(&seeds, &mut dice);
            if catch_unwind(AssertUnwindSafe(|| (self.run)(&input))).is_err() {
                return Err(Crash {
                    target: self.name,
                    round,
                    input,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough to find what is near the surface; longer runs are for the command.
    const ROUNDS: u64 = 20_000;

    #[test]
    fn every_decoder_survives_its_seeds_and_what_mutation_makes_of_them() {
        for target in targets::ALL {
            for seed in (target.seeds)() {
                (target.run)(&seed);
            }
            if let Err(crash) = target.rounds(0..ROUNDS) {
                panic!("{crash}");
            }
        }
    }

    #[test]
    fn a_target_that_panics_is_caught_with_its_input() {
        let target = Target {
            name: "weak",
            run: |bytes| assert!(bytes.first() != Some(&0xff)),
            seeds: || vec![vec![0xfe, 1]],
        };
        let crash = target.rounds(0..10_000).unwrap_err();
        assert_eq!(crash.input.first(), Some(&0xff));
        assert_eq!(target.input(crash.round), crash.input);
        assert!(crash.to_string().contains("weak panics"));
    }
}
