//! `plinth plan` of a large site: what a person waits for after every edit. There is nothing to compare it with:
//! OpenShift's installer has no plan.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Result, bail};

use super::report::{Better, Report, Row, Target};
use super::{Scratch, plinth, say};

const HOSTS: usize = 500;
const MASTERS: usize = 3;
const ROUNDS: usize = 21;
/// Longer than this is felt.
const MOST_MS: f64 = 100.0;

pub fn run() -> Result<()> {
    let scratch = Scratch::new("plan")?;
    scratch.write("install-config.yaml", &site())?;
    let mut rows = [
        (
            "table",
            Row::new(
                format!("plan of {HOSTS} hosts as a table"),
                "ms",
                Better::Less,
                Target::Under(MOST_MS),
            ),
        ),
        (
            "json",
            Row::new(
                format!("plan of {HOSTS} hosts as JSON"),
                "ms",
                Better::Less,
                Target::Under(MOST_MS),
            ),
        ),
    ];
    for round in 0..=ROUNDS {
        for (output, row) in &mut rows {
            let mut command = plinth();
            command
                .args(["plan", "-o", output, "--dir"])
                .arg(scratch.join(""));
            let begin = Instant::now();
            let answer = command.output()?;
            let took = begin.elapsed();
            if !answer.status.success() {
                bail!("plinth plan: {}", String::from_utf8_lossy(&answer.stderr));
            }
            // The first reads the program from disk.
            if round > 0 {
                row.ours(took.as_secs_f64() * 1000.0);
            }
        }
    }
    say("plan");
    let mut report = Report::new(
        "plan",
        format!("plinth plan of {HOSTS} hosts, process start included, {ROUNDS} rounds"),
    );
    for (_, row) in rows {
        report.add(row);
    }
    report.finish()
}

/// A site of many hosts, with static addresses and hints, so that every part has something to do.
fn site() -> String {
    let mut text = format!(
        "apiVersion: v1
baseDomain: example.com
metadata:
  name: large
controlPlane:
  name: master
  replicas: {MASTERS}
compute:
  - name: worker
    replicas: {}
networking:
  machineNetwork:
    - cidr: 10.0.0.0/16
platform:
  baremetal:
    apiVIPs: [10.0.255.5]
    ingressVIPs: [10.0.255.6]
    provisioningNetwork: Managed
    provisioningNetworkCIDR: 172.22.0.0/21
    hosts:
",
        HOSTS - MASTERS
    );
    for n in 0..HOSTS {
        let role = if n < MASTERS { "master" } else { "worker" };
        let (high, low) = (n / 250, n % 250 + 1);
        _ = write!(
            text,
            "      - name: host-{n}
        role: {role}
        bmc:
          address: redfish://198.18.{high}.{low}/redfish/v1/Systems/1
          username: admin
          password: change-me
        bootMACAddress: 52:54:00:00:{high:02x}:{low:02x}
        rootDeviceHints:
          serialNumber: DISK-{n}
          minSizeGigabytes: 100
        networkConfig:
          interfaces:
            - name: eno2
              type: ethernet
              state: up
              ipv4:
                enabled: true
                dhcp: false
                address:
                  - ip: 10.0.{high}.{low}
                    prefix-length: 16
"
        );
    }
    text.push_str("payload: builtin\nsshKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f core@example\n");
    text
}
