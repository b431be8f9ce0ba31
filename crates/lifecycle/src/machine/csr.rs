//! Whether a certificate a node asks for is one that a Machine expects.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;

use super::link::{internal, names};
use super::view::{Machine, NodeSeen};

/// A CertificateSigningRequest, its own request already taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    pub signer: String,
    /// Who asks.
    pub username: String,
    pub groups: BTreeSet<String>,
    pub usages: BTreeSet<String>,
    pub created: Option<Timestamp>,
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub ips: Vec<IpAddr>,
    /// Mail addresses, URIs and whatever else a name can be.
    pub other_names: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Approve {
        reason: String,
    },
    /// Not now; a Machine may come to expect it.
    Wait {
        reason: String,
    },
    /// Never by us: somebody else's business.
    Leave {
        reason: String,
    },
}

pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// Who may ask for a node's first certificate.
const BOOTSTRAPPERS: [&str; 2] = [
    "system:bootstrappers",
    "system:serviceaccounts:openshift-machine-config-operator",
];
/// On a Machine: of which kind its node is.
const ROLE: &str = "machine.openshift.io/cluster-api-machine-role";
const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
/// A request this much older than its Machine's news is from an earlier life.
const FRESH: Duration = Duration::from_hours(2);

pub fn judge(
    request: &Request,
    machines: &[Machine],
    nodes: &[NodeSeen],
    now: Timestamp,
) -> Verdict {
    match request.signer.as_str() {
        CLIENT_SIGNER => client(request, machines, nodes, now),
        SERVING_SIGNER => serving(request, machines, nodes),
        other => leave(format!("the signer {other} is not for nodes")),
    }
}

fn client(request: &Request, machines: &[Machine], nodes: &[NodeSeen], now: Timestamp) -> Verdict {
    let Some(name) = node_name(request) else {
        return leave("the name asked for is not a node's");
    };
    let first = request
        .groups
        .iter()
        .any(|group| BOOTSTRAPPERS.contains(&group.as_str()));
    if !first {
        return leave(
            "a node renews its own certificate, and only a bootstrapper may ask for a first one",
        );
    }
    if !request.dns_names.is_empty() || !request.ips.is_empty() || request.other_names > 0 {
        return leave("a client certificate of a node has no other names");
    }
    if !usages(request, "client auth") {
        return leave("the usages are not those of a node's client");
    }
    if request
        .created
        .is_some_and(|created| created.duration_until(now).unsigned_abs() > FRESH)
    {
        return leave("the request is too old");
    }
    if nodes.iter().any(|node| node.name == name) {
        return leave(format!("there is a Node {name} already"));
    }
    let expects = |machine: &&Machine| {
        // Its host has been provisioned: before that, whoever asks is not it.
        let up = !machine.provider_id.is_empty() && !machine.deleting;
        up && machine.status.node_ref.is_none() && names(machine, &name)
    };
    match machines
        .iter()
        .filter(expects)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] => wait(format!("no Machine without a Node has the name {name}")),
        [machine] => approve(format!(
            "the Machine {} expects the node {name}",
            machine.name
        )),
        _ => wait(format!("several Machines have the name {name}")),
    }
}

fn serving(request: &Request, machines: &[Machine], nodes: &[NodeSeen]) -> Verdict {
    let Some(name) = node_name(request) else {
        return leave("the name asked for is not a node's");
    };
    if request.username != request.common_name || !request.groups.contains(NODES) {
        return leave("a node asks for its own certificate only");
    }
    if !usages(request, "server auth") {
        return leave("the usages are not those of a node's server");
    }
    if request.other_names > 0 || (request.dns_names.is_empty() && request.ips.is_empty()) {
        return leave("a serving certificate names addresses, and nothing else");
    }
    let Some(node) = nodes.iter().find(|node| node.name == name) else {
        return wait(format!("there is no Node {name} yet"));
    };
    let linked = |machine: &&Machine| {
        machine
            .status
            .node_ref
            .as_ref()
            .is_some_and(|node_ref| node_ref.name == name)
    };
    let Some(machine) = machines.iter().find(linked) else {
        return wait(format!("no Machine is linked to the Node {name}"));
    };
    let believed = is_unseen_master(machine);
    let known = |text: &str| {
        let addresses = machine.status.addresses.iter();
        let mut known = addresses.map(|seen| &seen.address);
        known.any(|seen| seen == text)
            || (believed && node.internal_ips.iter().any(|told| told == text))
    };
    let strange_name = request
        .dns_names
        .iter()
        .find(|dns| **dns != name && !known(dns));
    let strange_ip = request.ips.iter().find(|ip| !known(&ip.to_string()));
    if let Some(dns) = strange_name {
        return wait(format!(
            "the Machine {} does not have the name {dns}",
            machine.name
        ));
    }
    if let Some(ip) = strange_ip {
        return wait(format!(
            "the Machine {} does not have the address {ip}",
            machine.name
        ));
    }
    approve(format!(
        "the Machine {} has all the names and addresses",
        machine.name
    ))
}

/// A master that was there before any inspection: nobody has seen its addresses, and the Node's own word must do. It costs
/// nothing: masters hold the authority's key. Of other nodes it would, for one could take an address of the API's.
fn is_unseen_master(machine: &Machine) -> bool {
    let role = machine.labels.get(ROLE).map(String::as_str);
    role == Some("master") && internal(machine).next().is_none()
}

/// The node a request is for: `system:node:NAME` of the group of nodes.
fn node_name(request: &Request) -> Option<String> {
    let name = request.common_name.strip_prefix(NODE_PREFIX)?;
    let fits = !name.is_empty() && request.organizations == [NODES];
    fits.then(|| name.to_owned())
}

fn usages(request: &Request, auth: &str) -> bool {
    let allowed = ["digital signature", "key encipherment", auth];
    request.usages.contains(auth)
        && request
            .usages
            .iter()
            .all(|usage| allowed.contains(&usage.as_str()))
}

fn approve(reason: impl Into<String>) -> Verdict {
    Verdict::Approve {
        reason: reason.into(),
    }
}

fn wait(reason: impl Into<String>) -> Verdict {
    Verdict::Wait {
        reason: reason.into(),
    }
}

fn leave(reason: impl Into<String>) -> Verdict {
    Verdict::Leave {
        reason: reason.into(),
    }
}
