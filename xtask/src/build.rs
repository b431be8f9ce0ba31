//! Building the two binaries, and running the one that brings up the lab.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::{deps, sh};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds `plinth-agent` for the ramdisk: static, small.
pub fn agent() -> Result<()> {
    // `--target` keeps the flag away from build scripts and proc macros.
    let mut command = sh::cargo([
        "build",
        "--quiet",
        "--profile",
        "ramdisk",
        "--target",
        TARGET,
        "--package",
        "agent",
    ]);
    sh::run(command.env("RUSTFLAGS", "-C target-feature=+crt-static"))
}

pub fn agent_binary() -> PathBuf {
    target_dir()
        .join(TARGET)
        .join("ramdisk")
        .join("plinth-agent")
}

/// Builds `plinth`, optimised.
pub fn plinth() -> Result<PathBuf> {
    sh::run(&mut sh::cargo([
        "build",
        "--release",
        "--package",
        "plinth",
    ]))?;
    Ok(target_dir().join("release").join("plinth"))
}

pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| sh::root().join("target"), PathBuf::from)
}

/// `cargo xtask lab`: everything from a bare Debian machine to a cluster on a rack of its own.
pub fn lab(args: &[String]) -> Result<()> {
    deps::install()?;
    agent()?;
    let plinth = plinth()?;
    let mut up = as_root(&plinth)?;
    up.args(["lab", "up"]).args(args);
    up.env("PLINTH_AGENT", agent_binary());
    sh::run(&mut up)
}

pub fn doctor() -> Result<()> {
    match &deps::missing()?[..] {
        [] => println!("ok    Debian packages: all there"),
        missing => println!(
            "no    Debian packages: {} missing; run `cargo xtask deps`",
            missing.join(" ")
        ),
    }
    let plinth = plinth()?;
    sh::run(Command::new(plinth).args(["lab", "doctor"]))
}

fn as_root(program: &std::path::Path) -> Result<Command> {
    let id = sh::output(Command::new("id").arg("-u"))?;
    if id.trim() == "0" {
        return Ok(Command::new(program));
    }
    if sh::output(Command::new("sudo").args(["-n", "true"])).is_err() {
        bail!(
            "the lab makes network namespaces and needs root; run it as root, or let sudo work without asking"
        );
    }
    let mut sudo = Command::new("sudo");
    sudo.arg("--preserve-env=PLINTH_AGENT,XDG_CACHE_HOME,HOME")
        .arg(program);
    Ok(sudo)
}
