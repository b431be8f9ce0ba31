//! `install-config.yaml`, OpenShift's schema for `platform.baremetal`, our `payload`, `kexec` and
//! `controlPlaneHardwareSpeed`.
//!
//! `written` mirrors the file; `defaults` fills in what was not written and folds deprecated names; `resolve` gives
//! types that cannot be wrong. Every problem is told at once, with field path, place and remedy; nothing of the file
//! is quoted from a secret field.

mod defaults;
mod resolve;
pub mod schema;
mod shape;
mod written;

use std::net::IpAddr;

use ipnet::IpNet;
use model::root_device::Hints;
use model::{BmcAddress, Mac, Secret};
use serde::Serialize;
use serde_json::Value;

use crate::nmstate::HostNetwork;
use crate::problem::{Problem, Problems};
use crate::yaml;

/// A cluster as it is wanted, with nothing wrong in it.
#[derive(Debug, Clone, PartialEq)]
pub struct InstallConfig {
    pub name: String,
    pub base_domain: String,
    pub networking: Networking,
    pub control_plane: Pool,
    pub compute: Pool,
    pub arbiter: Pool,
    pub fencing: Vec<Fencing>,
    pub baremetal: BareMetal,
    pub payload: Payload,
    pub pull_secret: Option<Secret<String>>,
    pub ssh_keys: Vec<String>,
    pub trust_bundle: Option<TrustBundle>,
    pub proxy: Option<Proxy>,
    pub mirrors: Vec<Mirror>,
    pub fips: bool,
    pub cpu_partitioning: bool,
    pub feature_set: String,
    pub feature_gates: Vec<String>,
    pub capabilities: Vec<String>,
    pub os_image_stream: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Networking {
    pub network_type: String,
    pub machine: Vec<IpNet>,
    pub cluster: Vec<ClusterNetwork>,
    pub service: Vec<IpNet>,
    pub join: IpNet,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterNetwork {
    pub cidr: IpNet,
    pub host_prefix: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pool {
    pub replicas: u32,
    pub architecture: String,
    pub hyperthreading: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fencing {
    /// The host's name.
    pub host: String,
    pub address: BmcAddress,
    pub username: String,
    pub password: Secret<String>,
    pub verify: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Payload {
    Builtin,
    Kubernetes {
        version: String,
        source: String,
        sha256: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustBundle {
    pub pem: String,
    pub always: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Proxy {
    pub http: Option<Secret<String>>,
    pub https: Option<Secret<String>>,
    /// What the cluster uses: the user's entries and its own networks.
    pub no_proxy: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mirror {
    pub source: String,
    pub mirrors: Vec<String>,
    pub never_contact_source: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BareMetal {
    pub api_vips: Vec<IpAddr>,
    pub ingress_vips: Vec<IpAddr>,
    /// In the order of roles: masters, arbiters, workers, spare hosts.
    pub hosts: Vec<Host>,
    pub provisioning: Provisioning,
    pub provisioning_bridge: Option<String>,
    pub provisioning_mac: Option<Mac>,
    pub external_bridge: String,
    pub external_mac: Option<Mac>,
    pub bootstrap_static: Option<BootstrapStatic>,
    pub bootstrap_os_image: Option<Image>,
    pub cluster_os_image: Option<Image>,
    pub libvirt_uri: String,
    pub ntp_servers: Vec<String>,
    /// Our VIPs and balancers, or the site's.
    pub managed_load_balancer: bool,
    pub external_dns_records: bool,
    pub bmc_verify_ca: Option<String>,
    /// The agent starts the installed system in its own place.
    pub kexec: bool,
    pub hardware_speed: HardwareSpeed,
}

/// How quick the control plane's machines are; OpenShift's etcd has the same words for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum HardwareSpeed {
    #[default]
    Standard,
    /// An answer may take a second and more, and each costs a processor dearly: emulated machines, say.
    Slower,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Mode {
    Managed,
    Unmanaged,
    Disabled,
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
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BootstrapStatic {
    pub address: IpAddr,
    pub gateway: IpAddr,
    pub dns: IpAddr,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Image {
    /// Without the checksum.
    pub url: String,
    pub sha256: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Master,
    Arbiter,
    Worker,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Arbiter => "arbiter",
            Self::Worker => "worker",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum BootMode {
    #[serde(rename = "UEFI")]
    Uefi,
    #[serde(rename = "UEFISecureBoot")]
    UefiSecureBoot,
    #[serde(rename = "legacy")]
    Legacy,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Where it stands in the file.
    pub index: usize,
    pub name: String,
    /// What it becomes; `None` if it stays in reserve.
    pub role: Option<Role>,
    pub bmc: BmcAddress,
    pub username: String,
    pub password: Secret<String>,
    pub verify_bmc: bool,
    pub boot_mac: Mac,
    pub boot_mode: BootMode,
    pub hardware_profile: String,
    /// As written, in metal3's words; empty if the profile decides.
    pub hints: std::collections::BTreeMap<String, Value>,
    /// In Ironic's words: what will be matched against the disks.
    pub root_device: Hints,
    pub network: Option<HostNetwork>,
    /// The nmstate document as written.
    pub network_document: Option<Value>,
}

impl InstallConfig {
    /// The cluster's domain.
    pub fn domain(&self) -> String {
        format!("{}.{}", self.name, self.base_domain)
    }
}

/// What the world knows and the file may leave out.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// What DNS says for `api.<domain>`.
    pub api: Vec<IpAddr>,
    /// What DNS says for `test.apps.<domain>`.
    pub ingress: Vec<IpAddr>,
}

/// A good file: what it means, and what is worth a word.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    pub config: InstallConfig,
    pub warnings: Vec<Problem>,
}

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {}:\n  {}", .0.len(), if .0.len() == 1 { "problem" } else { "problems" }, .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  "))]
pub struct Refused(pub Vec<Problem>);

/// Reads, completes and checks the text of a file.
pub fn parse(text: &str, facts: &Facts) -> Result<Resolved, Refused> {
    let mut problems = Problems::default();
    let Some(tree) = yaml::parse(text, &mut problems) else {
        return Err(Refused(problems.into_errors()));
    };
    let written = read(&tree, &mut problems);
    let written = defaults::fill(written, facts, &mut problems);
    let config = resolve::resolve(&written, &mut problems);
    problems.locate(|path| Some(tree.place(path)));
    match config {
        Some(config) if problems.errors.is_empty() => Ok(Resolved {
            config,
            warnings: problems.warnings,
        }),
        Some(_) | None => Err(Refused(problems.into_errors())),
    }
}

/// Which names would have to be asked of DNS: the file gives no VIPs but a domain.
pub fn asks_dns(text: &str) -> Option<(String, String)> {
    let mut problems = Problems::default();
    let tree = yaml::parse(text, &mut problems)?;
    let baremetal = tree.get("platform")?.get("baremetal")?;
    let has = |names: [&str; 2]| names.iter().any(|name| baremetal.get(name).is_some());
    if has(["apiVIPs", "apiVIP"]) && has(["ingressVIPs", "ingressVIP"]) {
        return None;
    }
    let written = read(&tree, &mut problems);
    let (name, base) = (written.metadata?.name?, written.base_domain?);
    let domain = format!("{name}.{}", base.trim_end_matches('.'));
    resolve::is_subdomain(&domain).then(|| (format!("api.{domain}"), format!("test.apps.{domain}")))
}

fn read(tree: &yaml::Node, problems: &mut Problems) -> written::Written {
    let fitted = shape::fit(tree, schema::Shape::Object(schema::ROOT), "", problems);
    // What fits the schema fits the structs: a test reads a file with every field.
    fitted
        .and_then(|value| match serde_json::from_value(value) {
            Ok(written) => Some(written),
            Err(error) => {
                problems.add("", format!("a field is not as expected: {error}"), "");
                None
            }
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
