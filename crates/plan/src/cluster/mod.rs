//! The plan: every choice of an install, made, before any server is powered on.
//!
//! Executors choose nothing; what is shown here is what happens. It holds no secret, so it can be printed, kept and
//! compared.

mod certificates;
mod diff;
mod hosts;
mod pace;
mod steps;
mod table;
mod vips;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use model::Mac;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::install_config::{
    BootstrapStatic, ClusterNetwork, HardwareSpeed, InstallConfig, Mode, Networking, Payload, Role,
};
use crate::subnet::nth;

pub use certificates::{Certificate, Issuer, Usage};
pub use diff::{Change, diff};
pub use hosts::{Bmc, Disk, HostPlan};
pub use pace::{Looks, Pace};
pub use steps::{Step, Timeouts};
pub use vips::{Holder, Vip, Weight};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub cluster: Cluster,
    pub networks: Networks,
    pub vips: Vec<Vip>,
    pub provisioning: Provisioning,
    pub bootstrap: Bootstrap,
    pub images: Images,
    pub hosts: Vec<HostPlan>,
    pub certificates: Vec<Certificate>,
    pub ports: BTreeMap<&'static str, u16>,
    pub timeouts: Timeouts,
    pub steps: Vec<Step>,
}

/// What dice decide, once per cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Identity {
    pub infra_id: String,
    pub cluster_id: String,
}

impl Identity {
    /// `suffix` is five random characters; `cluster_id` a random UUID.
    pub fn new(name: &str, suffix: &str, cluster_id: String) -> Self {
        let mut cut = String::new();
        for letter in name.chars() {
            let letter = if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            };
            if !(letter == '-' && cut.ends_with('-')) {
                cut.push(letter);
            }
        }
        cut.truncate(21);
        let infra_id = format!("{}-{suffix}", cut.trim_matches('-'));
        Self {
            infra_id,
            cluster_id,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cluster {
    pub name: String,
    pub domain: String,
    /// Decided when the first files are made.
    pub identity: Option<Identity>,
    pub topology: &'static str,
    pub masters: u32,
    pub arbiters: u32,
    pub workers: u32,
    /// With no workers, masters carry the workload.
    pub schedulable_masters: bool,
    pub architecture: String,
    pub payload: Payload,
    pub managed_load_balancer: bool,
    pub internal_dns_records: bool,
    pub hardware_speed: HardwareSpeed,
    pub ntp_servers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Networks {
    pub machine: Vec<IpNet>,
    pub cluster: Vec<ClusterNetwork>,
    pub service: Vec<IpNet>,
    pub network_type: String,
    pub dual_stack: bool,
    /// The API's own address inside: the first of the services.
    pub kubernetes_service: Vec<IpAddr>,
    pub dns_service: Vec<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provisioning {
    pub mode: Mode,
    pub interface: Option<String>,
    pub cidr: Option<IpNet>,
    pub gateway: Option<IpAddr>,
    pub dhcp_range: Option<(IpAddr, IpAddr)>,
    pub bootstrap_ip: Option<IpAddr>,
    pub cluster_ip: Option<IpAddr>,
    /// The only ones the bootstrap's DHCP answers: workers belong to the cluster's.
    pub control_plane_macs: Vec<Mac>,
    /// Hosts start their new system without the firmware.
    pub kexec: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bootstrap {
    pub vm: String,
    pub cpus: u32,
    pub memory_mib: u32,
    pub disk_gib: u32,
    pub external_bridge: String,
    pub external_mac: Mac,
    pub provisioning_bridge: Option<String>,
    pub provisioning_mac: Option<Mac>,
    #[serde(rename = "static")]
    pub fixed: Option<BootstrapStatic>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Images {
    pub cluster_os: Image,
    pub bootstrap_os: Image,
    pub ramdisk: Image,
}

/// Where an image comes from, and how it is known to be the right one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Image {
    pub source: String,
    /// `None`: the cache names images by their content.
    pub sha256: Option<String>,
}

pub const OS_IMAGE: &str = "cache:os";
pub const RAMDISK: &str = "cache:ramdisk";

/// Names on the borders of the programs.
pub const PORTS: [(&str, u16); 19] = [
    ("api", 6443),
    ("mcs", 22623),
    ("mcs-files", 22624),
    ("balancer", 9445),
    ("balancer-mcs", 9446),
    ("balancer-ironic", 9447),
    ("balancer-boot-http", 9448),
    ("netd-admin", 29445),
    ("node", 10250),
    ("node-admin", 29446),
    ("metal3-admin", 29447),
    ("ironic", 6385),
    ("boot-http", 6180),
    ("virtual-media", 6183),
    ("agent", 9999),
    ("tftp", 69),
    ("dhcp", 67),
    ("etcd-client", 2379),
    ("etcd-peer", 2380),
];

impl Plan {
    /// Decides everything. The same config and identity give the same plan.
    pub fn new(config: &InstallConfig, identity: Option<Identity>) -> Self {
        let hosts = hosts::plan(config, identity.as_ref());
        let vips = vips::plan(config, &hosts);
        let certificates = certificates::plan(config, &hosts);
        let timeouts = Timeouts::of(config);
        Self {
            cluster: cluster(config, identity),
            networks: networks(&config.networking),
            vips,
            provisioning: provisioning(config, &hosts),
            bootstrap: bootstrap(config),
            images: images(config),
            certificates,
            ports: PORTS.into_iter().collect(),
            steps: steps::plan(config, &timeouts),
            timeouts,
            hosts,
        }
    }

    pub fn api_vips(&self) -> Vec<IpAddr> {
        self.addresses_of("api")
    }

    pub fn ingress_vips(&self) -> Vec<IpAddr> {
        self.addresses_of("ingress")
    }

    fn addresses_of(&self, purpose: &str) -> Vec<IpAddr> {
        self.vips
            .iter()
            .filter(|vip| vip.purpose == purpose)
            .map(|vip| vip.address)
            .collect()
    }

    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &HostPlan> {
        self.hosts
            .iter()
            .filter(move |host| host.role == Some(role))
    }
}

fn cluster(config: &InstallConfig, identity: Option<Identity>) -> Cluster {
    let topology = match (config.control_plane.replicas, config.arbiter.replicas) {
        (1, _) => "SingleReplica",
        (2, 0) => "DualReplica",
        (_, 0) => "HighlyAvailable",
        _ => "HighlyAvailableArbiter",
    };
    Cluster {
        name: config.name.clone(),
        domain: config.domain(),
        identity,
        topology,
        masters: config.control_plane.replicas,
        arbiters: config.arbiter.replicas,
        workers: config.compute.replicas,
        schedulable_masters: config.compute.replicas == 0,
        architecture: config.control_plane.architecture.clone(),
        payload: config.payload.clone(),
        managed_load_balancer: config.baremetal.managed_load_balancer,
        internal_dns_records: !config.baremetal.external_dns_records,
        hardware_speed: config.baremetal.hardware_speed,
        ntp_servers: config.baremetal.ntp_servers.clone(),
    }
}

fn networks(networking: &Networking) -> Networks {
    let service = |n: u128| {
        networking
            .service
            .iter()
            .filter_map(|net| nth(*net, n))
            .collect()
    };
    Networks {
        machine: networking.machine.clone(),
        cluster: networking.cluster.clone(),
        service: networking.service.clone(),
        network_type: networking.network_type.clone(),
        dual_stack: networking.service.len() > 1,
        kubernetes_service: service(1),
        dns_service: service(10),
    }
}

fn provisioning(config: &InstallConfig, hosts: &[HostPlan]) -> Provisioning {
    let given = &config.baremetal.provisioning;
    let control_plane = hosts
        .iter()
        .filter(|host| matches!(host.role, Some(Role::Master | Role::Arbiter)));
    Provisioning {
        mode: given.mode,
        interface: given.interface.clone(),
        cidr: given.cidr,
        gateway: given.gateway,
        dhcp_range: given.dhcp_range,
        bootstrap_ip: given.bootstrap_ip,
        cluster_ip: given.cluster_ip,
        control_plane_macs: control_plane.map(|host| host.boot_mac).collect(),
        kexec: config.baremetal.kexec,
    }
}

fn bootstrap(config: &InstallConfig) -> Bootstrap {
    let baremetal = &config.baremetal;
    let mac = |purpose: &str| derived_mac(&config.domain(), purpose);
    Bootstrap {
        vm: format!("{}-bootstrap", config.name),
        cpus: 4,
        memory_mib: match config.payload {
            Payload::Builtin => 2048,
            Payload::Kubernetes { .. } => 6144,
        },
        disk_gib: 20,
        external_bridge: baremetal.external_bridge.clone(),
        external_mac: baremetal.external_mac.unwrap_or_else(|| mac("external")),
        provisioning_bridge: baremetal.provisioning_bridge.clone(),
        provisioning_mac: baremetal.provisioning_bridge.as_ref().map(|_| {
            baremetal
                .provisioning_mac
                .unwrap_or_else(|| mac("provisioning"))
        }),
        fixed: baremetal.bootstrap_static.clone(),
    }
}

/// DEVIATION: OpenShift draws the bootstrap VM's MACs at random. Ours follow from the cluster's domain, so that a plan
/// says them before the install and says the same when asked again. Locally administered, like QEMU's.
fn derived_mac(domain: &str, purpose: &str) -> Mac {
    let digest = Sha256::digest(format!("{domain}/{purpose}"));
    Mac([0x52, 0x54, 0x00, digest[0], digest[1], digest[2]])
}

fn images(config: &InstallConfig) -> Images {
    let given = |image: &Option<crate::install_config::Image>| {
        image.as_ref().map(|image| Image {
            source: image.url.clone(),
            sha256: Some(image.sha256.clone()),
        })
    };
    let cached = |source: &str| Image {
        source: source.into(),
        sha256: None,
    };
    let cluster_os = given(&config.baremetal.cluster_os_image).unwrap_or_else(|| cached(OS_IMAGE));
    Images {
        bootstrap_os: given(&config.baremetal.bootstrap_os_image)
            .unwrap_or_else(|| cluster_os.clone()),
        cluster_os,
        ramdisk: cached(RAMDISK),
    }
}

#[cfg(test)]
mod tests;
