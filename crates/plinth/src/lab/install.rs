//! A cluster on the lab's rack, by the ordinary installer, inside the lab's network.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use lab::control::{Answer, Request};
use lab::install_config;
use lab::state::Found;
use lab::up;

use super::{At, ask};

#[derive(Args)]
pub struct Wish {
    /// How many servers become the control plane
    #[arg(long, default_value_t = 3)]
    masters: u16,
    /// How many servers become workers; more servers than that wait to be asked for
    #[arg(long, default_value_t = 1)]
    workers: u16,
    /// How servers are booted
    #[arg(long, value_enum, default_value_t = BootMode::Pxe)]
    mode: BootMode,
    /// What the control plane runs
    #[arg(long, value_enum, default_value_t = Payload::Builtin)]
    payload: Payload,
}

#[derive(Clone, Copy, ValueEnum)]
enum BootMode {
    Pxe,
    VirtualMedia,
}

#[derive(Clone, Copy, ValueEnum)]
enum Payload {
    Builtin,
}

impl Wish {
    pub fn nodes(&self) -> u16 {
        self.masters.saturating_add(self.workers)
    }

    /// The install-config.yaml that says so of the lab's servers.
    pub fn config(&self, at: &At) -> Result<String> {
        let Answer::Status(status) = ask(at, &Request::Status)? else {
            bail!("the lab answered something else");
        };
        let Payload::Builtin = self.payload;
        let wish = install_config::Wish {
            masters: self.masters.into(),
            workers: self.workers.into(),
            mode: match self.mode {
                BootMode::Pxe => install_config::Mode::Pxe,
                BootMode::VirtualMedia => install_config::Mode::VirtualMedia,
            },
        };
        Ok(install_config::render(&status, wish)?)
    }
}

/// The install directory of a lab's cluster.
fn site(at: &At) -> Result<PathBuf> {
    Ok(at.dir()?.site())
}

/// Whether there is a lab whose install was begun.
pub fn goes_on(at: &At) -> Result<bool> {
    let living = matches!(at.dir()?.look().map_err(up::Error::from)?, Found::Living(_));
    Ok(living && site(at)?.exists())
}

/// Installs, or goes on installing, and says what one can do with it.
pub fn run(at: &At, wish: &Wish) -> Result<()> {
    let site = site(at)?;
    let config = site.join("install-config.yaml");
    if !config.exists() {
        fs::create_dir_all(&site).with_context(|| format!("make {}", site.display()))?;
        let text = wish.config(at)?;
        fs::write(&config, text).with_context(|| format!("write {}", config.display()))?;
    }
    let program = std::env::current_exe().context("find our own program")?;
    let mut create = Command::new(&program);
    create.args(["lab", "exec", "--dir"]).arg(&at.dir);
    create
        .arg("--")
        .arg(&program)
        .args(["create", "cluster", "--ramdisk", "lab", "--dir"])
        .arg(&site);
    let ended = create.status().context("run the installer")?;
    if !ended.success() {
        // Its own words were said; its code names the phase.
        std::process::exit(ended.code().unwrap_or(1));
    }
    tell(at, &site);
    Ok(())
}

fn tell(at: &At, site: &std::path::Path) {
    let kubeconfig = site.join("auth/kubeconfig");
    let dir = at.dir.display();
    let inside = format!("plinth lab exec --dir {dir} --");
    println!(
        "\nThe cluster is up. Its kubeconfig: {kubeconfig}\n\nTry:\n\
         \x20 export KUBECONFIG={kubeconfig}\n\
         \x20 {inside} kubectl get nodes,bmh,machines -A\n\
         \x20 {inside} kubectl scale machineset --all --replicas 2 -n openshift-machine-api\n\
         \x20 plinth lab power server-0 off --dir {dir}     # master-0; the API's address moves\n\
         \x20 plinth lab down --dir {dir}",
        kubeconfig = kubeconfig.display(),
    );
}

/// Ends what an install has running beside the rack.
pub fn forget(at: &At) -> Result<()> {
    let site = site(at)?;
    if !site.exists() {
        return Ok(());
    }
    let runtime = super::runtime()?;
    runtime.block_on(installer::destroy::bootstrap(&site))?;
    Ok(())
}
