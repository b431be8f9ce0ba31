//! Configuration of the control plane's daemons and of nodes: etcd, the API, metal3, and a node's registration.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::daemons::node_name;
use super::nodes::Etcd;
use super::{Inputs, payload, yaml};
use crate::cluster::{HostPlan, Pace};
use crate::install_config::{Payload, Role};

const PKI: &str = "/etc/plinth/pki";
const NAMESPACE: &str = "openshift-machine-api";

/// A member of etcd. All masters are members from the start, found by their names: addresses may be the site's to give.
pub fn etcd(inputs: &Inputs, host: &HostPlan, joins: Etcd) -> String {
    let ports = &inputs.plan.ports;
    let (client, peer) = (ports["etcd-client"], ports["etcd-peer"]);
    let domain = &inputs.plan.cluster.domain;
    let name = node_name(host);
    let members: Vec<String> = inputs
        .plan
        .with_role(Role::Master)
        .map(node_name)
        .map(|name| format!("{name}=https://{name}.{domain}:{peer}"))
        .collect();
    let certificate = |authorities: &str| {
        json!({
            "cert-file": format!("{PKI}/etcd-{name}.crt"),
            "key-file": format!("{PKI}/etcd-{name}.key"),
            "client-cert-auth": true,
            "trusted-ca-file": format!("{PKI}/{authorities}.crt"),
        })
    };
    let mut peer_security = certificate("etcd-ca");
    // Calls others with a certificate that has no names: etcd would look names up to compare addresses, and the DNS
    // that knows them comes with the cluster.
    peer_security["client-cert-file"] = json!(format!("{PKI}/etcd-client.crt"));
    peer_security["client-key-file"] = json!(format!("{PKI}/etcd-client.key"));
    let pace = Pace::of(inputs.plan.cluster.hardware_speed);
    yaml(&json!({
        "name": name,
        "data-dir": "/var/lib/plinth/etcd",
        "listen-peer-urls": format!("https://[::]:{peer}"),
        "listen-client-urls": format!("https://[::]:{client}"),
        "initial-advertise-peer-urls": format!("https://{name}.{domain}:{peer}"),
        "advertise-client-urls": format!("https://{name}.{domain}:{client}"),
        "initial-cluster": members.join(","),
        "initial-cluster-state": match joins {
            Etcd::New => "new",
            Etcd::Existing => "existing",
        },
        "initial-cluster-token": inputs.identity.infra_id,
        "client-transport-security": certificate("etcd-ca"),
        "peer-transport-security": peer_security,
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "1h",
        "quota-backend-bytes": 2_147_483_648_u64,
        "heartbeat-interval": pace.etcd_heartbeat_ms,
        "election-timeout": pace.etcd_election_ms,
        "logger": "zap",
        "log-level": "warn",
    }))
}

/// The API of a master, on the store of all masters; its own member is asked first.
pub fn apiserver(inputs: &Inputs, host: &HostPlan) -> String {
    let own = node_name(host);
    let mut config = api(inputs);
    let localhost = format!("https://localhost:{}", inputs.plan.ports["etcd-client"]);
    let others = members(inputs).filter(|(name, _)| *name != own);
    let endpoints = std::iter::once(localhost).chain(others.map(|(_, url)| url));
    config["store"] = store(endpoints.collect());
    // A node's certificate is signed where its Machine is known.
    config["signer"] = signer();
    yaml(&config)
}

/// The API of the bootstrap VM, on the masters' store: what is written through it is the cluster's own.
pub fn bootstrap_apiserver(inputs: &Inputs) -> String {
    let mut config = api(inputs);
    config["store"] = store(members(inputs).map(|(_, url)| url).collect());
    yaml(&config)
}

fn members<'a>(inputs: &'a Inputs) -> impl Iterator<Item = (&'a str, String)> {
    let port = inputs.plan.ports["etcd-client"];
    let domain = &inputs.plan.cluster.domain;
    let masters = inputs.plan.with_role(Role::Master).map(node_name);
    masters.map(move |name| (name, format!("https://{name}.{domain}:{port}")))
}

fn store(endpoints: Vec<String>) -> Value {
    let mut etcd = etcd_client();
    etcd["endpoints"] = endpoints.into();
    json!({"etcd": etcd})
}

fn etcd_client() -> Value {
    json!({
        "ca": format!("{PKI}/etcd-ca.crt"),
        "certificate": format!("{PKI}/etcd-client.crt"),
        "key": format!("{PKI}/etcd-client.key"),
    })
}

fn signer() -> Value {
    json!({
        "certificate": format!("{PKI}/kube-ca.crt"),
        "key": format!("{PKI}/kube-ca.key"),
    })
}

fn api(inputs: &Inputs) -> Value {
    json!({
        "listen": format!("[::]:{}", inputs.plan.ports["api"]),
        "tls": {
            "certificate": format!("{PKI}/apiserver.crt"),
            "key": format!("{PKI}/apiserver.key"),
            "client_ca": format!("{PKI}/kube-ca.crt"),
        },
        "service_accounts": {"key": format!("{PKI}/service-account.key")},
        "audit": "/var/lib/plinth/apiserver/audit.log",
        "namespaces": [NAMESPACE],
    })
}

/// metal3 waits on every master and is active on one. It has its own provisioning service.
pub fn metal3(inputs: &Inputs, host: &HostPlan) -> String {
    yaml(&json!({
        "kubeconfig": "/etc/plinth/metal3.kubeconfig",
        "namespace": NAMESPACE,
        "node": node_name(host),
        "ironic": {
            "config": "/etc/plinth/ironic.yaml",
            "username": "metal3",
            "password": inputs.keys.ironic_password.expose(),
            "ca": format!("{PKI}/root-ca.crt"),
        },
        "state": "/var/lib/plinth/metal3",
        "networks": inputs.plan.networks.machine,
        "vips": vips(inputs),
        "images": [payload::os_path(inputs)],
    }))
}

/// A node's registration: a host that has a name of its own, or any of a pool.
pub fn node(inputs: &Inputs, pool: &str, host: Option<&HostPlan>) -> String {
    let role = |name: &str| (format!("node-role.kubernetes.io/{name}"), String::new());
    let master = pool == Role::Master.name();
    let works = !master || inputs.plan.cluster.schedulable_masters;
    let mut labels = BTreeMap::new();
    if master {
        labels.extend([role("master"), role("control-plane")]);
    } else if pool != Role::Worker.name() {
        labels.extend([role(pool)]);
    }
    if works {
        labels.extend([role("worker")]);
    }
    let mut config = json!({
        "labels": labels,
        "networks": inputs.plan.networks.machine,
        "exclude": vips(inputs),
        // Logs and counters, for `plinth gather`.
        "server": {"listen": format!("[::]:{}", inputs.plan.ports["node"])},
    });
    if !works {
        config["taints"] =
            json!([{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]);
    }
    if let Some(host) = host {
        config["name"] = json!(node_name(host));
    }
    if master && inputs.plan.cluster.payload == Payload::Builtin {
        let ports = &inputs.plan.ports;
        let mut etcd = etcd_client();
        etcd["endpoint"] = json!(format!("https://localhost:{}", ports["etcd-client"]));
        config["control_plane"] = json!({
            "apiserver": format!("https://localhost:{}/readyz", ports["api"]),
            "etcd": etcd,
        });
    }
    yaml(&config)
}

fn vips(inputs: &Inputs) -> Vec<IpAddr> {
    let mut vips = inputs.plan.api_vips();
    vips.extend(inputs.plan.ingress_vips());
    vips
}
