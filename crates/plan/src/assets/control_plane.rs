//! Configuration of the control plane's daemons and of nodes: etcd, the API, metal3, and a node's registration.

use serde_json::{Value, json};

use super::daemons::node_name;
use super::{Inputs, yaml};
use crate::cluster::HostPlan;
use crate::install_config::Role;

const PKI: &str = "/etc/plinth/pki";
const NAMESPACE: &str = "openshift-machine-api";

/// A member of etcd. All masters are members from the start, found by their names: addresses may be the site's to give.
pub fn etcd(inputs: &Inputs, host: &HostPlan) -> String {
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
    yaml(&json!({
        "name": name,
        "data-dir": "/var/lib/plinth/etcd",
        "listen-peer-urls": format!("https://[::]:{peer}"),
        "listen-client-urls": format!("https://[::]:{client}"),
        "initial-advertise-peer-urls": format!("https://{name}.{domain}:{peer}"),
        "advertise-client-urls": format!("https://{name}.{domain}:{client}"),
        "initial-cluster": members.join(","),
        "initial-cluster-state": "new",
        "initial-cluster-token": inputs.identity.infra_id,
        "client-transport-security": certificate("etcd-ca"),
        "peer-transport-security": certificate("etcd-ca"),
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": "1h",
        "quota-backend-bytes": 2_147_483_648_u64,
        "heartbeat-interval": 200,
        "election-timeout": 2000,
        "logger": "zap",
        "log-level": "warn",
    }))
}

/// The API of a master, on the store of all masters; its own member is asked first.
pub fn apiserver(inputs: &Inputs, host: &HostPlan) -> String {
    let port = inputs.plan.ports["etcd-client"];
    let domain = &inputs.plan.cluster.domain;
    let own = node_name(host);
    let others = inputs
        .plan
        .with_role(Role::Master)
        .map(node_name)
        .filter(|name| *name != own)
        .map(|name| format!("https://{name}.{domain}:{port}"));
    let endpoints: Vec<String> = std::iter::once(format!("https://localhost:{port}"))
        .chain(others)
        .collect();
    let mut config = api(inputs);
    config["store"] = json!({"etcd": {
        "endpoints": endpoints,
        "ca": format!("{PKI}/etcd-ca.crt"),
        "certificate": format!("{PKI}/etcd-client.crt"),
        "key": format!("{PKI}/etcd-client.key"),
    }});
    // A node's certificate is signed where its Machine is known.
    config["signer"] = json!({
        "certificate": format!("{PKI}/kube-ca.crt"),
        "key": format!("{PKI}/kube-ca.key"),
    });
    yaml(&config)
}

/// The API of the bootstrap VM: gone with it, so a file is store enough.
pub fn bootstrap_apiserver(inputs: &Inputs) -> String {
    let mut config = api(inputs);
    config["store"] = json!({"file": "/var/lib/plinth/apiserver/registry"});
    yaml(&config)
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
    }))
}
