//! `plinth image`: the OS image of the lab, and the ramdisk that servers are provisioned from.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use image::ramdisk::Flavour;
use image::{Progress, os, ramdisk};

#[derive(Subcommand)]
pub enum Command {
    /// Build an image, or find it in the cache
    #[command(subcommand)]
    Build(Build),
}

#[derive(Subcommand)]
pub enum Build {
    /// A Debian 13 disk image with Ignition that boots by UEFI and BIOS
    ///
    /// Example: plinth image build os
    #[command(verbatim_doc_comment)]
    Os {
        #[command(flatten)]
        common: Common,
    },
    /// Kernel, ramdisk and boot CD with plinth-agent as the first process
    ///
    /// Examples:
    ///   plinth image build ramdisk
    ///   plinth image build ramdisk --flavour metal --agent ./plinth-agent
    #[command(verbatim_doc_comment)]
    Ramdisk {
        #[command(flatten)]
        common: Common,
        /// For QEMU servers, or for real ones with their drivers and firmware
        #[arg(long, value_enum, default_value_t = FlavourName::Lab)]
        flavour: FlavourName,
        /// The static plinth-agent; the one beside this program when left out
        #[arg(long, env = "PLINTH_AGENT")]
        agent: Option<PathBuf>,
    },
}

#[derive(Args)]
pub struct Common {
    /// A Debian mirror, instead of the one apt uses
    #[arg(long)]
    mirror: Option<String>,
    /// Where images are kept; $XDG_CACHE_HOME/plinth when left out
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Build anew from today's packages, whatever the cache holds
    #[arg(long)]
    refresh: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum FlavourName {
    Lab,
    Metal,
}

pub fn run(command: Command) -> Result<()> {
    let Command::Build(build) = command;
    match build {
        Build::Os {
            common:
                Common {
                    mirror,
                    cache,
                    refresh,
                },
        } => {
            let image = os::build(
                &os::Options {
                    mirror,
                    cache,
                    refresh,
                },
                report,
            )?;
            println!("{}\n{}", image.raw.display(), image.qcow2.display());
        }
        Build::Ramdisk {
            common:
                Common {
                    mirror,
                    cache,
                    refresh,
                },
            flavour,
            agent,
        } => {
            let flavour = match flavour {
                FlavourName::Lab => Flavour::Lab,
                FlavourName::Metal => Flavour::Metal,
            };
            let options = ramdisk::Options {
                flavour,
                agent: find_agent(agent)?,
                mirror,
                cache,
                refresh,
            };
            let ramdisk = ramdisk::build(&options, report)?;
            println!(
                "{}\n{}\n{}",
                ramdisk.kernel.display(),
                ramdisk.initrd.display(),
                ramdisk.iso.display()
            );
        }
    }
    Ok(())
}

/// All that a lab's cluster is made of. The lab's network leads nowhere, so this comes before anyone enters it.
pub fn for_lab() -> Result<()> {
    os::build(&os::Options::default(), report)?;
    let options = ramdisk::Options {
        flavour: Flavour::Lab,
        agent: find_agent(std::env::var_os("PLINTH_AGENT").map(PathBuf::from))?,
        mirror: None,
        cache: None,
        refresh: false,
    };
    ramdisk::build(&options, report)?;
    Ok(())
}

/// On standard error, so that the paths on standard output can be used by a script.
#[expect(clippy::needless_pass_by_value, reason = "the shape that builds call")]
fn report(progress: Progress) {
    eprintln!(
        "{:6.1} s  {}",
        progress.elapsed.as_secs_f64(),
        progress.step
    );
}

pub fn find_agent(given: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path);
    }
    let program = std::env::current_exe().context("find our own program")?;
    let beside = program.with_file_name("plinth-agent");
    if !beside.exists() {
        bail!(
            "no plinth-agent beside {}: give one with --agent",
            program.display()
        );
    }
    Ok(beside)
}
