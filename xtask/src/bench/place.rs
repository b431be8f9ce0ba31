//! Where measuring is done: namespaces of network, mounts and processes that end with the run.

use std::process::{Child, Command};

use anyhow::{Context, Result};

use crate::sh;

pub const INSIDE: &str = "PLINTH_BENCH_INSIDE";

pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs this program again, alone in a network of its own. Whatever it starts ends with it.
pub fn enter(name: &str) -> Result<()> {
    let myself = std::env::current_exe().context("find this program")?;
    let script = "set -e; mkdir -p /run/netns; mount -t tmpfs none /run/netns; ip link set lo up; exec \"$@\"";
    sh::run(
        Command::new("unshare")
            .args([
                "--net",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
                script,
                "sh",
            ])
            .arg(myself)
            .args(["bench", name])
            .env(INSIDE, "1"),
    )
    .context("measure in namespaces of its own (this needs root)")
}

/// Another network namespace, with one cable to a bridge in ours.
pub struct Node {
    pub name: String,
}

impl Node {
    /// `eth0` in the node has this address (`192.0.2.10/24`); the bridge is made when it is not there yet.
    pub fn new(name: &str, bridge: &str, address: &str) -> Result<Self> {
        ip(&format!("netns add {name}"))?;
        if ip(&format!("link show {bridge}")).is_err() {
            ip(&format!("link add {bridge} type bridge"))?;
            ip(&format!("link set {bridge} up"))?;
        }
        ip(&format!(
            "link add port-{name} type veth peer name eth0 netns {name}"
        ))?;
        ip(&format!("link set port-{name} master {bridge} up"))?;
        ip(&format!("-n {name} link set lo up"))?;
        ip(&format!("-n {name} link set eth0 up"))?;
        ip(&format!("-n {name} addr add {address} dev eth0"))?;
        Ok(Self {
            name: name.to_string(),
        })
    }

    /// A command that runs in the node.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// The same, for a command that is made up already.
    pub fn wrap(&self, inner: &Command) -> Command {
        let mut command = self.command(inner.get_program());
        command.args(inner.get_args());
        command
    }

    pub fn set_cable(&self, plugged: bool) -> Result<()> {
        ip(&format!(
            "link set port-{} {}",
            self.name,
            if plugged { "up" } else { "down" }
        ))
    }

    pub fn holds(&self, address: &str) -> bool {
        sh::output(Command::new("ip").args(["-n", &self.name, "-o", "addr", "show", "to", address]))
            .is_ok_and(|text| !text.is_empty())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        _ = ip(&format!("netns del {}", self.name));
    }
}

pub fn ip(args: &str) -> Result<()> {
    sh::output(Command::new("ip").args(args.split(' '))).map(drop)
}

/// Keeps this many processors busy until dropped.
pub struct Busy(Vec<Child>);

impl Busy {
    pub fn new(count: usize) -> Result<Self> {
        let spin = || {
            Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .spawn()
                .context("start a busy loop")
        };
        Ok(Self((0..count).map(|_| spin()).collect::<Result<_>>()?))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}
