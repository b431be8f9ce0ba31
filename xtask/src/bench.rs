//! `cargo xtask bench NAME`: numbers, side by side with the incumbent, as ratios.
use anyhow::Result;
use clap::ValueEnum;

#[derive(Clone, Copy, ValueEnum)]
pub enum Name {
    Sim,
}

pub fn run(name: Name) -> Result<()> {
    match name {
        Name::Sim => Ok(()),
    }
}
