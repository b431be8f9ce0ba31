//! `plinth render`: netd's decisions as configuration for the programs it stands for.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use netd::Config;
use netd::render;

#[derive(Args)]
pub struct Render {
    program: Program,
    /// netd's configuration, a YAML file
    #[arg(
        long,
        default_value = "/etc/plinth/netd.yaml",
        env = "PLINTH_NETD_CONFIG"
    )]
    config: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Program {
    Keepalived,
    Haproxy,
    Corefile,
    Dhclient,
}

pub fn run(command: &Render) -> Result<()> {
    let config = Config::load(&command.config)?;
    let text = match command.program {
        Program::Keepalived => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("start the runtime")?;
            let links = runtime.block_on(netd::vip::links(&config));
            render::keepalived(&config, |vip| links.get(&vip.name).cloned())?
        }
        Program::Haproxy => render::haproxy(&config)?,
        Program::Corefile => render::corefile(&config)?,
        Program::Dhclient => render::dhclient(&config)?,
    };
    print!("{text}");
    Ok(())
}
