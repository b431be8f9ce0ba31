//! `cargo xtask bench NAME`: numbers, side by side with the incumbent in the same run, as ratios.
//!
//! ```text
//!   cargo xtask bench X      packages, programs and environments are made ready
//!     └─ the same, optimised
//!          └─ the same, in namespaces of its own: no other network, and nothing outlives it
//!               rounds: theirs, ours, theirs, ours ...      report.rs prints and keeps them
//! ```

mod api;
pub mod backend;
mod daemon;
mod dhcp;
mod dns;
mod hosts;
mod http;
mod image;
mod install;
mod ironic;
mod lb;
mod load;
mod place;
mod plan;
mod probe;
mod provision;
mod rack;
mod report;
mod sim;
mod tftp;
mod vip;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::{build, deps, sh};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// 100 simulated servers behind BMCs: time until all answer, and memory; beside sushy-tools
    Sim,
    /// The API at 1,000 nodes and nodes brought to active, beside Ironic
    Ironic,
    /// Files to boot firmware, beside tftpd-hpa and dnsmasq
    Tftp,
    /// Leases, and a rack powered on at once, beside dnsmasq and Kea
    Dhcp,
    /// An OS image from HTTP to a disk, beside curl and dd
    Image,
    /// How long a virtual address is away, beside keepalived
    Vip,
    /// Connections, requests and bytes through the balancer, beside haproxy
    Lb,
    /// Questions answered per second, beside dnsmasq, unbound and knot
    Dns,
    /// 1,000 simulated servers from enrolled to active: time and memory
    Provision,
    /// 1,000 simulated servers from `kubectl apply` to provisioned: time and memory, and what it costs to be idle
    Hosts,
    /// The API server on its own file and on etcd: writes, reads and watches, beside etcd alone
    Api,
    /// `plinth plan` of 500 hosts
    Plan,
    /// The lab's default cluster installed, phase by phase
    Install,
}

impl Name {
    fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Ironic => "ironic",
            Self::Tftp => "tftp",
            Self::Dhcp => "dhcp",
            Self::Image => "image",
            Self::Vip => "vip",
            Self::Lb => "lb",
            Self::Dns => "dns",
            Self::Provision => "provision",
            Self::Hosts => "hosts",
            Self::Api => "api",
            Self::Plan => "plan",
            Self::Install => "install",
        }
    }
}

/// `servers` is for those that lead servers; they have a number of their own otherwise.
pub fn run(name: Name, servers: Option<usize>) -> Result<()> {
    if servers.is_some() && !matches!(name, Name::Provision | Name::Hosts) {
        bail!("--servers is for the benchmarks `provision` and `hosts`");
    }
    if place::is_inside() {
        return measure(name, servers);
    }
    if cfg!(debug_assertions) {
        // A slow client would be measured instead of the server.
        let mut optimised = sh::cargo([
            "run",
            "--quiet",
            "--release",
            "--package",
            "xtask",
            "--",
            "bench",
            name.name(),
        ]);
        if let Some(servers) = servers {
            optimised.args(["--servers", &servers.to_string()]);
        }
        return sh::run(&mut optimised);
    }
    deps::install()?;
    deps::install_bench()?;
    prepare(name)?;
    match name {
        // The lab makes its own namespaces.
        Name::Sim | Name::Provision | Name::Hosts | Name::Plan | Name::Install => {
            measure(name, servers)
        }
        Name::Ironic
        | Name::Tftp
        | Name::Dhcp
        | Name::Image
        | Name::Vip
        | Name::Lb
        | Name::Dns
        | Name::Api => place::enter(name.name()),
    }
}

/// What a benchmark needs from outside.
fn prepare(name: Name) -> Result<()> {
    match name {
        Name::Sim => _ = venv(sim::PACKAGES)?,
        Name::Ironic => _ = venv(ironic::PACKAGES)?,
        Name::Image => return image::prepare(),
        Name::Tftp => tftp::prepare()?,
        Name::Api => api::prepare()?,
        Name::Dhcp
        | Name::Vip
        | Name::Lb
        | Name::Dns
        | Name::Provision
        | Name::Hosts
        | Name::Plan => {}
        Name::Install => {
            build::plinth()?;
            return install::prepare();
        }
    }
    build::plinth().map(drop)
}

fn measure(name: Name, servers: Option<usize>) -> Result<()> {
    match name {
        Name::Sim => sim::run(),
        Name::Ironic => ironic::run(),
        Name::Tftp => tftp::run(),
        Name::Dhcp => dhcp::run(),
        Name::Image => image::run(),
        Name::Vip => vip::run(),
        Name::Lb => lb::run(),
        Name::Dns => dns::run(),
        Name::Provision => provision::run(servers.unwrap_or(provision::SERVERS)),
        Name::Hosts => hosts::run(servers.unwrap_or(hosts::SERVERS)),
        Name::Api => api::run(),
        Name::Plan => plan::run(),
        Name::Install => install::run(),
    }
}

/// Our program, as `prepare` built it.
fn plinth() -> Command {
    Command::new(build::target_dir().join("release/plinth"))
}

/// Where things from elsewhere are kept.
fn cache() -> Result<PathBuf> {
    let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    Ok(home
        .context("neither XDG_CACHE_HOME nor HOME is set")?
        .join("plinth"))
}

/// A Python environment with these packages, made once.
fn venv(packages: &str) -> Result<PathBuf> {
    let dir = cache()?
        .join("venv")
        .join(packages.replace(['=', ' '], "-"));
    let ready = dir.join("ready");
    if !ready.exists() {
        if place::is_inside() {
            bail!("the Python packages {packages} are not there");
        }
        println!("installing from PyPI: {packages}");
        sh::run(
            Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(&dir),
        )?;
        sh::run(
            Command::new(dir.join("bin/pip"))
                .args(["install", "--quiet"])
                .args(packages.split(' ')),
        )?;
        fs::write(&ready, packages)?;
    }
    Ok(dir)
}

/// A directory for one run, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("plinth-bench-{name}-{}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(Self(dir))
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn say(text: &str) {
    eprintln!("  {text}");
}
