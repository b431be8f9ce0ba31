//! What happens in which order, how long each step should take, and when it is given up.

use serde::Serialize;

use crate::install_config::{InstallConfig, Mode, Payload};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    pub name: &'static str,
    pub about: &'static str,
    pub expected_seconds: u64,
    pub timeout_seconds: u64,
}

/// Seconds after which a wait has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    pub bootstrap_services: u64,
    pub control_plane: u64,
    pub bootstrap_complete: u64,
    pub workers: u64,
    pub deploy_callback: u64,
    pub power: u64,
}

impl Timeouts {
    /// OpenShift's for bare metal; longer where more is downloaded or more hosts share the link.
    pub fn of(config: &InstallConfig) -> Self {
        let hosts = config.baremetal.hosts.len() as u64;
        // Servers are written in parallel, but share the network of one image store.
        let crowd = hosts / 50 * 10 * 60;
        Self {
            bootstrap_services: 20 * 60,
            control_plane: 60 * 60 + crowd,
            bootstrap_complete: 60 * 60,
            workers: 60 * 60 + crowd,
            deploy_callback: 4800,
            power: 120,
        }
    }
}

pub fn plan(config: &InstallConfig, timeouts: &Timeouts) -> Vec<Step> {
    let kubernetes = matches!(config.payload, Payload::Kubernetes { .. });
    // Servers need minutes for their self test; a medium over the BMC is slower than a network.
    let deploy = match config.baremetal.provisioning.mode {
        Mode::Managed | Mode::Unmanaged => 12 * 60,
        Mode::Disabled => 18 * 60,
    };
    let api = if kubernetes { 180 } else { 30 };
    let step = |name, about, expected_seconds, timeout_seconds| Step {
        name,
        about,
        expected_seconds,
        timeout_seconds,
    };
    let mut steps = vec![
        step(
            "preflight",
            "nothing is known that would stop the install",
            10,
            5 * 60,
        ),
        step(
            "assets",
            "keys, Ignition configs and manifests are written",
            2,
            60,
        ),
        step(
            "images",
            "the OS image and the ramdisk are in the cache",
            60,
            30 * 60,
        ),
        step(
            "bootstrap-vm",
            "the bootstrap VM runs and holds the API VIP",
            60,
            timeouts.bootstrap_services,
        ),
        step(
            "bootstrap-services",
            "Ironic, mcs and the temporary API answer",
            60 + api,
            timeouts.bootstrap_services,
        ),
        step(
            "control-plane-deploy",
            "every master is inspected, written and booted",
            deploy,
            timeouts.control_plane,
        ),
        step(
            "control-plane-ready",
            "etcd has all members and every API is ready",
            120 + api,
            timeouts.bootstrap_complete,
        ),
        step(
            "manifests",
            "everything the cluster begins with is applied through the VIP",
            15,
            10 * 60,
        ),
        step(
            "hand-over",
            "the VIP is on a master and metal3 is active",
            30,
            20 * 60,
        ),
        step("bootstrap-destroy", "the bootstrap VM is gone", 5, 5 * 60),
    ];
    if config.compute.replicas > 0 {
        steps.push(step(
            "workers",
            "every worker is written, booted and has joined",
            deploy + 120,
            timeouts.workers,
        ));
    }
    steps
}
