//! Which certificates a cluster has: names, usages, lifetimes. Keys are made elsewhere.

use serde::{Deserialize, Serialize};

use super::HostPlan;
use crate::install_config::{InstallConfig, Role};
use crate::subnet::nth;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// File name under `tls/`, without the ending.
    pub name: String,
    pub issuer: Issuer,
    pub common_name: String,
    /// The group of a client.
    pub organization: Option<String>,
    pub usage: Usage,
    /// DNS names and addresses.
    pub names: Vec<String>,
    pub days: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Issuer {
    Itself,
    Ca(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Usage {
    Authority,
    Server,
    Client,
    Both,
}

/// Authorities outlive what they sign by far; leaves are for a year and renewed at two thirds of it.
const AUTHORITY_DAYS: u32 = 3650;
const LEAF_DAYS: u32 = 365;
/// The bootstrap is gone in an hour.
const BOOTSTRAP_DAYS: u32 = 1;

pub const ROOT_CA: &str = "root-ca";
pub const KUBE_CA: &str = "kube-ca";
pub const ETCD_CA: &str = "etcd-ca";
pub const FRONT_PROXY_CA: &str = "front-proxy-ca";

pub fn plan(config: &InstallConfig, hosts: &[HostPlan]) -> Vec<Certificate> {
    let domain = config.domain();
    let mut made = Vec::new();
    for (name, common_name) in [
        (ROOT_CA, "root-ca"),
        (KUBE_CA, "kube-apiserver-signer"),
        (ETCD_CA, "etcd-signer"),
        (FRONT_PROXY_CA, "front-proxy-signer"),
    ] {
        made.push(Certificate {
            name: name.into(),
            issuer: Issuer::Itself,
            common_name: common_name.into(),
            organization: Some("plinth".into()),
            usage: Usage::Authority,
            names: Vec::new(),
            days: AUTHORITY_DAYS,
        });
    }
    let leaf = |name: &str, ca: &str, common_name: &str, usage: Usage| Certificate {
        name: name.into(),
        issuer: Issuer::Ca(ca.into()),
        common_name: common_name.into(),
        organization: None,
        usage,
        names: Vec::new(),
        days: LEAF_DAYS,
    };
    let vips = config.baremetal.api_vips.iter().map(ToString::to_string);
    let mcs_names: Vec<String> = [format!("api-int.{domain}"), "localhost".into()]
        .into_iter()
        .chain(vips.clone())
        .collect();
    let bootstrap_ip = config
        .baremetal
        .provisioning
        .bootstrap_ip
        .map(|ip| ip.to_string());
    let cluster_ip = config
        .baremetal
        .provisioning
        .cluster_ip
        .map(|ip| ip.to_string());
    let masters: Vec<&HostPlan> = hosts
        .iter()
        .filter(|host| host.role == Some(Role::Master))
        .collect();
    made.push(Certificate {
        names: api_names(config, &masters),
        ..leaf("apiserver", KUBE_CA, "kube-apiserver", Usage::Server)
    });
    made.push(Certificate {
        names: mcs_names
            .iter()
            .cloned()
            .chain(["127.0.0.1".into(), "::1".into()])
            .collect(),
        // As long as the authority: nodes that join years later must still be served.
        days: AUTHORITY_DAYS,
        ..leaf(
            "mcs",
            ROOT_CA,
            "system:machine-config-server",
            Usage::Server,
        )
    });
    made.push(Certificate {
        names: mcs_names
            .iter()
            .cloned()
            .chain(bootstrap_ip)
            .chain(cluster_ip)
            .chain(["127.0.0.1".into()])
            .collect(),
        ..leaf("ironic", ROOT_CA, "ironic", Usage::Server)
    });
    for (name, common_name, group, days) in [
        ("admin", "system:admin", "system:masters", AUTHORITY_DAYS),
        (
            "bootstrap",
            "system:bootstrap",
            "system:masters",
            BOOTSTRAP_DAYS,
        ),
        (
            "node-bootstrapper",
            "system:node-bootstrapper",
            "system:bootstrappers",
            LEAF_DAYS,
        ),
        (
            "apiserver-kubelet-client",
            "kube-apiserver-kubelet-client",
            "kube-master",
            LEAF_DAYS,
        ),
        (
            "controller-manager",
            "system:kube-controller-manager",
            "",
            LEAF_DAYS,
        ),
        ("scheduler", "system:kube-scheduler", "", LEAF_DAYS),
        ("metal3", "system:metal3", "plinth:metal3", LEAF_DAYS),
    ] {
        made.push(Certificate {
            organization: (!group.is_empty()).then(|| group.into()),
            days,
            ..leaf(name, KUBE_CA, common_name, Usage::Client)
        });
    }
    made.push(leaf(
        "front-proxy-client",
        FRONT_PROXY_CA,
        "front-proxy-client",
        Usage::Client,
    ));
    made.push(leaf("etcd-client", ETCD_CA, "etcd-client", Usage::Client));
    for master in masters {
        made.extend(etcd_member(master, &domain, &leaf));
    }
    made
}

fn etcd_member(
    master: &HostPlan,
    domain: &str,
    leaf: &dyn Fn(&str, &str, &str, Usage) -> Certificate,
) -> Option<Certificate> {
    let node = master.node.as_ref()?;
    let mut names = vec![
        node.clone(),
        format!("{node}.{domain}"),
        format!("{node}.local"),
        "localhost".into(),
    ];
    names.extend(master.addresses.iter().map(ToString::to_string));
    names.push("127.0.0.1".into());
    Some(Certificate {
        names,
        ..leaf(
            &format!("etcd-{node}"),
            ETCD_CA,
            &format!("etcd:{node}"),
            Usage::Both,
        )
    })
}

fn api_names(config: &InstallConfig, masters: &[&HostPlan]) -> Vec<String> {
    let domain = config.domain();
    let mut names = vec![
        format!("api.{domain}"),
        format!("api-int.{domain}"),
        "kubernetes".into(),
        "kubernetes.default".into(),
        "kubernetes.default.svc".into(),
        "kubernetes.default.svc.cluster.local".into(),
        "localhost".into(),
    ];
    for master in masters {
        if let Some(node) = &master.node {
            names.extend([node.clone(), format!("{node}.{domain}")]);
        }
    }
    names.extend(config.baremetal.api_vips.iter().map(ToString::to_string));
    names.extend(
        config
            .networking
            .service
            .iter()
            .filter_map(|net| nth(*net, 1))
            .map(|ip| ip.to_string()),
    );
    for master in masters {
        names.extend(master.addresses.iter().map(ToString::to_string));
    }
    names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
    names
}
