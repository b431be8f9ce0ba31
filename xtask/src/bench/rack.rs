//! A rack of simulated servers, and this program again in its network.
//!
//! ```text
//!   here ── lab up ── lab exec: the same program ── what is measured ── BMCs, DHCP, TFTP, HTTP, agents
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::place::INSIDE;
use super::{Scratch, plinth, say};
use crate::{build, sh};

/// Ours on the provisioning network.
pub const HERE: &str = "172.22.0.2";
const LAB: &str = "PLINTH_LAB_DIR";

pub struct Lab {
    pub pid: u32,
    pub servers: Vec<Value>,
    /// Who signed the BMCs' certificates.
    pub authority: PathBuf,
}

/// Measures in the network of so many servers, which go with the run.
pub fn inside(name: &str, servers: usize, measure: impl FnOnce(&Lab) -> Result<()>) -> Result<()> {
    if let Some(home) = std::env::var_os(LAB) {
        let ours = format!("{HERE}/16");
        sh::run(Command::new("ip").args(["address", "add", &ours, "dev", "provisioning"]))?;
        return measure(&Lab::find(Path::new(&home))?);
    }
    let scratch = Scratch::new(name)?;
    let home = scratch.join("lab");
    let lab = |args: &[&str]| {
        let mut command = plinth();
        command.arg("lab").args(args).env(LAB, &home);
        command
    };
    let count = servers.to_string();
    let up = ["up", "--rack-only", "--name", "bench", "--kind", "sim"];
    sh::run(
        lab(&up)
            .args(["--servers", &count])
            .env("PLINTH_LOG", "info")
            .stdout(Stdio::null()),
    )?;
    let myself = std::env::current_exe().context("find this program")?;
    let led = sh::run(
        lab(&["exec", "--"])
            .arg(myself)
            .args(["bench", name, "--servers", &count])
            .env(INSIDE, "1"),
    );
    if led.is_err() {
        keep(&home.join("lab.log"), &format!("{name}-lab.log"));
    }
    sh::run(lab(&["down"]).stdout(Stdio::null()))?;
    led
}

/// A log that would be gone with the run.
pub fn keep(log: &Path, name: &str) {
    let dir = build::target_dir().join("bench");
    fs::create_dir_all(&dir).ok();
    if fs::copy(log, dir.join(name)).is_ok() {
        say(&format!("a log is in {}", dir.join(name).display()));
    }
}

impl Lab {
    fn find(home: &Path) -> Result<Self> {
        let status = sh::output(plinth().args(["lab", "status", "-o", "json"]))?;
        let status: Value = serde_json::from_str(&status).context("the lab's status is JSON")?;
        Ok(Self {
            pid: status["pid"].as_u64().context("the lab has a pid")? as u32,
            servers: status["servers"].as_array().context("servers")?.clone(),
            authority: home.join("ca.pem"),
        })
    }

    /// Of the NIC that boots.
    pub fn mac(&self, index: usize) -> &Value {
        let macs = self.servers[index]["macs"].as_array();
        let provisioning = |port: &&Value| port["network"] == "provisioning";
        let port = macs.and_then(|macs| macs.iter().find(provisioning));
        port.map_or(&Value::Null, |port| &port["mac"])
    }
}

/// A system for simulated servers.
pub struct Image {
    pub url: String,
    pub sha256: String,
}

impl Image {
    /// With the ramdisk beside it: files that simulated servers load, and look no further into.
    pub fn make(scratch: &Scratch) -> Result<Self> {
        fs::write(scratch.join("vmlinuz"), vec![1; 100_000])?;
        fs::write(scratch.join("initrd"), vec![2; 200_000])?;
        // A disk with a partition table that is empty.
        let mut os: Vec<u8> = (0..4_000_000_u32).map(|i| (i % 251) as u8).collect();
        os[446..510].fill(0);
        os[510..512].copy_from_slice(&[0x55, 0xaa]);
        let path = scratch.join("os.raw");
        fs::write(&path, os)?;
        let sum = sh::output(Command::new("sha256sum").arg(&path))?;
        Ok(Self {
            url: format!("file://{}", path.display()),
            sha256: sum.split_whitespace().next().unwrap_or_default().to_owned(),
        })
    }
}

/// The configuration of an Ironic for so many servers, with the files of [`Image::make`].
pub fn ironic(scratch: &Scratch, servers: usize) -> Value {
    json!({
        "listen": format!("{HERE}:6385"), "state": scratch.join("ironic.redb"),
        "max_limit": servers, "max_concurrent_deploy": servers, "max_concurrent_clean": servers,
        "boot": {
            "interface": "provisioning", "address": format!("{HERE}/16"),
            "dhcp": {"ranges": ["172.22.1.0-172.22.32.255"]},
            "ramdisk": {"kernel": scratch.join("vmlinuz"), "initrd": scratch.join("initrd")},
        },
        "deploy": {"image_download_source": "local", "image_directories": [scratch.0]},
    })
}
