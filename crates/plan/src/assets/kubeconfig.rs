//! Kubeconfigs: who one is, and where the API is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{Inputs, yaml};

/// For people, from outside.
pub fn admin(inputs: &Inputs) -> String {
    render(inputs, "admin", "api")
}

/// For the bootstrap's own programs.
pub fn bootstrap(inputs: &Inputs) -> String {
    render(inputs, "bootstrap", "api-int")
}

/// For those who care for hosts, on a master: by its own API server, whoever has the virtual address. Where that server
/// is down another master takes over.
pub fn metal3(inputs: &Inputs) -> String {
    at(inputs, "metal3", "localhost")
}

/// For a node that has no identity yet.
pub fn node(inputs: &Inputs) -> String {
    render(inputs, "node-bootstrapper", "api-int")
}

fn render(inputs: &Inputs, user: &str, endpoint: &str) -> String {
    let host = format!("{endpoint}.{}", inputs.plan.cluster.domain);
    at(inputs, user, &host)
}

fn at(inputs: &Inputs, user: &str, host: &str) -> String {
    let cluster = &inputs.plan.cluster;
    let encode = |text: &str| STANDARD.encode(text);
    yaml(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster.name, "cluster": {
            "server": format!("https://{host}:{}", inputs.plan.ports["api"]),
            "certificate-authority-data": encode(inputs.certificate("kube-ca")),
        }}],
        "users": [{"name": user, "user": {
            "client-certificate-data": encode(inputs.certificate(user)),
            "client-key-data": encode(inputs.key(user)),
        }}],
        "contexts": [{"name": user, "context": {"cluster": cluster.name, "user": user}}],
        "current-context": user,
    }))
}
