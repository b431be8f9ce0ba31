//! What is to be asked, and of whom: follows from the plan alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::cluster::{OS_IMAGE, Plan, RAMDISK};
use crate::install_config::{InstallConfig, Mode, Payload};

/// Everything probes need to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    pub segments: Vec<Segment>,
    /// Name servers that the install names; this machine's own come on top.
    pub resolvers: BTreeSet<IpAddr>,
    pub names: Names,
    pub ntp: Vec<String>,
    /// Images that are fetched, with their checksums.
    pub images: BTreeMap<String, Option<String>>,
    /// Images that the cache holds.
    pub cached: Vec<String>,
    /// Where nobody must answer, and on which ports one looks.
    pub bootstrap: Vec<IpAddr>,
    pub ports: Vec<u16>,
}

/// One bridge, and what is asked on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub bridge: String,
    /// Who has these?
    pub addresses: BTreeSet<IpAddr>,
    /// Does it carry the cluster, so that virtual routers matter?
    pub external: bool,
}

/// The names that are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub api: String,
    pub api_int: String,
    /// Any name under `apps`.
    pub apps: String,
    /// A name that nobody has.
    pub nobody: String,
}

impl Names {
    pub fn of(domain: &str) -> Self {
        Self {
            api: format!("api.{domain}"),
            api_int: format!("api-int.{domain}"),
            apps: format!("plinth-preflight.apps.{domain}"),
            nobody: format!("plinth-preflight-nobody.{domain}"),
        }
    }

    pub fn all(&self) -> [&str; 4] {
        [&self.api, &self.api_int, &self.apps, &self.nobody]
    }
}

impl Targets {
    pub fn of(plan: &Plan, config: &InstallConfig) -> Self {
        let mut segments = vec![Segment {
            bridge: plan.bootstrap.external_bridge.clone(),
            addresses: external(plan),
            external: true,
        }];
        if let (Some(bridge), Mode::Managed | Mode::Unmanaged) =
            (&plan.bootstrap.provisioning_bridge, plan.provisioning.mode)
        {
            segments.push(Segment {
                bridge: bridge.clone(),
                addresses: provisioning(plan),
                external: false,
            });
        }
        let mut images = BTreeMap::new();
        let mut cached = Vec::new();
        for image in [
            &plan.images.cluster_os,
            &plan.images.bootstrap_os,
            &plan.images.ramdisk,
        ] {
            if [OS_IMAGE, RAMDISK].contains(&image.source.as_str()) {
                cached.push(image.source.clone());
            } else {
                images.insert(image.source.clone(), image.sha256.clone());
            }
        }
        cached.dedup();
        if let Payload::Kubernetes { source, sha256, .. } = &config.payload {
            images.insert(source.clone(), sha256.clone());
        }
        Self {
            segments,
            resolvers: resolvers(plan),
            names: Names::of(&plan.cluster.domain),
            ntp: plan.cluster.ntp_servers.clone(),
            images,
            cached,
            bootstrap: bootstrap_addresses(plan),
            ports: plan.ports.values().copied().collect(),
        }
    }
}

/// Addresses that the bootstrap will have.
pub fn bootstrap_addresses(plan: &Plan) -> Vec<IpAddr> {
    let fixed = plan.bootstrap.fixed.as_ref().map(|fixed| fixed.address);
    let own = fixed.into_iter().chain(plan.provisioning.bootstrap_ip);
    own.collect()
}

/// Addresses that must be free on the provisioning network.
pub fn provisioning(plan: &Plan) -> BTreeSet<IpAddr> {
    let given = &plan.provisioning;
    given
        .bootstrap_ip
        .into_iter()
        .chain(given.cluster_ip)
        .collect()
}

/// Gateways that the install relies on, as far as it names them.
pub fn gateways(plan: &Plan) -> BTreeSet<IpAddr> {
    let fixed = plan.bootstrap.fixed.as_ref().map(|fixed| fixed.gateway);
    let routes = plan
        .hosts
        .iter()
        .filter_map(|host| host.network.as_ref())
        .flat_map(|network| &network.routes)
        .filter(|route| route.destination.prefix_len() == 0)
        .filter_map(|route| route.gateway);
    fixed.into_iter().chain(routes).collect()
}

/// Static addresses of hosts on the machine networks.
pub fn static_addresses(plan: &Plan) -> BTreeSet<IpAddr> {
    let on_wire = |address: &IpAddr| {
        plan.networks
            .machine
            .iter()
            .any(|net| net.contains(address))
    };
    let hosts = plan.hosts.iter().flat_map(|host| &host.addresses).copied();
    let fixed = plan.bootstrap.fixed.as_ref().map(|fixed| fixed.address);
    hosts.chain(fixed).filter(on_wire).collect()
}

fn external(plan: &Plan) -> BTreeSet<IpAddr> {
    let vips = plan.vips.iter().map(|vip| vip.address);
    vips.chain(static_addresses(plan))
        .chain(gateways(plan))
        .collect()
}

pub fn resolvers(plan: &Plan) -> BTreeSet<IpAddr> {
    let fixed = plan.bootstrap.fixed.as_ref().map(|fixed| fixed.dns);
    let hosts = plan
        .hosts
        .iter()
        .filter_map(|host| host.network.as_ref())
        .flat_map(|network| network.dns_servers.iter().copied());
    fixed.into_iter().chain(hosts).collect()
}
