//! The plan for people.

use std::fmt::Write;

use super::{Image, Plan};
use crate::install_config::{HardwareSpeed, Mode, Payload};

impl Plan {
    pub fn render(&self) -> String {
        let mut text = String::new();
        self.render_cluster(&mut text);
        self.render_vips(&mut text);
        self.render_provisioning(&mut text);
        self.render_hosts(&mut text);
        self.render_rest(&mut text);
        text
    }

    fn render_cluster(&self, text: &mut String) {
        let cluster = &self.cluster;
        let payload = match &cluster.payload {
            Payload::Builtin => "builtin".to_owned(),
            Payload::Kubernetes {
                version, source, ..
            } => format!("kubernetes {version} from {source}"),
        };
        let id = cluster
            .identity
            .as_ref()
            .map_or("made at create", |identity| &identity.infra_id);
        let rows = [
            (
                "cluster",
                format!("{} ({}), {}", cluster.domain, cluster.topology, id),
            ),
            (
                "nodes",
                format!(
                    "{} masters, {} arbiters, {} workers, {}{}",
                    cluster.masters,
                    cluster.arbiters,
                    cluster.workers,
                    cluster.architecture,
                    if cluster.schedulable_masters {
                        ", masters carry workload"
                    } else {
                        ""
                    }
                ),
            ),
            ("payload", payload),
            ("machines", join(&self.networks.machine)),
            (
                "pods",
                self.networks
                    .cluster
                    .iter()
                    .map(|n| format!("{} (/{} per node)", n.cidr, n.host_prefix))
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            ("services", join(&self.networks.service)),
            ("OS image", image(&self.images.cluster_os)),
        ];
        for (name, value) in rows {
            _ = writeln!(text, "{name:10} {value}");
        }
        if cluster.hardware_speed == HardwareSpeed::Slower {
            _ = writeln!(
                text,
                "{:10} slower: more patience within the control plane",
                "hardware"
            );
        }
    }

    fn render_vips(&self, text: &mut String) {
        text.push_str("\nVirtual addresses\n");
        let rows = self.vips.iter().map(|vip| {
            let network = vip
                .network
                .map_or_else(|| "any".into(), |net| net.to_string());
            let holders: Vec<_> = vip
                .holders
                .iter()
                .map(|holder| {
                    if holder.best == holder.base {
                        format!("{} {}", holder.node, holder.base)
                    } else {
                        format!("{} {}-{}", holder.node, holder.base, holder.best)
                    }
                })
                .collect();
            let holders = if holders.is_empty() {
                "the site's balancer".into()
            } else {
                holders.join(", ")
            };
            vec![
                vip.name.clone(),
                vip.address.to_string(),
                network,
                vip.vrid.to_string(),
                holders,
            ]
        });
        columns(
            text,
            &[
                "NAME",
                "ADDRESS",
                "INTERFACE IN",
                "VRID",
                "HOLDERS BY PRIORITY",
            ],
            rows.collect(),
        );
    }

    fn render_provisioning(&self, text: &mut String) {
        let p = &self.provisioning;
        text.push_str("\nProvisioning\n");
        let show =
            |ip: Option<std::net::IpAddr>| ip.map_or_else(|| "-".into(), |ip| ip.to_string());
        let mode = match p.mode {
            Mode::Managed => "Managed: DHCP, TFTP and HTTP are ours",
            Mode::Unmanaged => "Unmanaged: DHCP is the site's, TFTP and HTTP are ours",
            Mode::Disabled => "Disabled: virtual media only",
        };
        let mut rows = vec![("network", mode.to_owned())];
        if let Some(cidr) = p.cidr {
            rows.push((
                "addresses",
                format!(
                    "{cidr}: bootstrap {}, cluster {}, gateway {}",
                    show(p.bootstrap_ip),
                    show(p.cluster_ip),
                    show(p.gateway)
                ),
            ));
        }
        if let Some((first, last)) = p.dhcp_range {
            rows.push((
                "DHCP",
                format!(
                    "{first} to {last}; the bootstrap answers {} MACs only",
                    p.control_plane_macs.len()
                ),
            ));
        }
        let b = &self.bootstrap;
        let nics = match (&b.provisioning_bridge, b.provisioning_mac) {
            (Some(bridge), Some(mac)) => format!(
                "{} on {}, {mac} on {bridge}",
                b.external_mac, b.external_bridge
            ),
            _ => format!("{} on {}", b.external_mac, b.external_bridge),
        };
        rows.push((
            "bootstrap",
            format!("{}: {} CPUs, {} MiB, {nics}", b.vm, b.cpus, b.memory_mib),
        ));
        for (name, value) in rows {
            _ = writeln!(text, "  {name:10} {value}");
        }
    }

    fn render_hosts(&self, text: &mut String) {
        text.push_str("\nHosts; the disk named is ERASED\n");
        let rows = self.hosts.iter().map(|host| {
            let node = host.node.clone().unwrap_or_else(|| "(in reserve)".into());
            let bmc = host.bmc.address.to_string();
            let disk = if host.role.is_some() {
                host.disk.erased.clone()
            } else {
                format!("not yet: {}", host.disk.erased)
            };
            vec![
                host.name.clone(),
                node,
                bmc,
                host.bmc.boot_interface.to_owned(),
                host.boot_mac.to_string(),
                disk,
            ]
        });
        columns(
            text,
            &["HOST", "NODE", "BMC", "BOOT", "BOOT MAC", "DISK"],
            rows.collect(),
        );
    }

    fn render_rest(&self, text: &mut String) {
        let ports: Vec<_> = self
            .ports
            .iter()
            .map(|(name, port)| format!("{name} {port}"))
            .collect();
        _ = writeln!(
            text,
            "\nCertificates: {} made; ports: {}",
            self.certificates.len(),
            ports.join(", ")
        );
        text.push_str("\nSteps\n");
        let rows = self.steps.iter().map(|step| {
            vec![
                step.name.to_owned(),
                minutes(step.expected_seconds),
                minutes(step.timeout_seconds),
                step.about.to_owned(),
            ]
        });
        columns(
            text,
            &["STEP", "EXPECTED", "GIVEN UP", "DONE WHEN"],
            rows.collect(),
        );
        let total: u64 = self.steps.iter().map(|step| step.expected_seconds).sum();
        _ = writeln!(text, "\nExpected in all: {}", minutes(total));
    }
}

fn minutes(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn image(image: &Image) -> String {
    match &image.sha256 {
        Some(sum) => format!("{} sha256 {sum}", image.source),
        None => format!("{} (built and named by content)", image.source),
    }
}

fn join<T: ToString>(items: &[T]) -> String {
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn columns(text: &mut String, head: &[&str], rows: Vec<Vec<String>>) {
    let mut rows = rows;
    rows.insert(0, head.iter().map(|cell| (*cell).to_owned()).collect());
    let widths: Vec<usize> = (0..head.len())
        .map(|at| {
            rows.iter()
                .map(|row| row[at].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in rows {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(&widths) {
            _ = write!(line, " {cell:width$} ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}
