//! What the Node is to say, and whether it must be written.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus,
    NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

/// All that a node says of itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Desired {
    pub name: String,
    /// Kept as they are here; those of others are left alone.
    pub labels: BTreeMap<String, String>,
    /// For a Node that is new.
    pub taints: Vec<Taint>,
    pub provider_id: Option<String>,
    pub addresses: Vec<IpAddr>,
    pub capacity: BTreeMap<String, Quantity>,
    pub info: NodeSystemInfo,
    pub conditions: Vec<Condition>,
    /// Where logs and counters can be read.
    pub port: Option<u16>,
}

/// Something that holds or does not, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Condition {
    pub kind: &'static str,
    pub holds: bool,
    pub reason: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    Create(Box<Node>),
    /// Labels and the provider's id.
    Update(Box<Node>),
    Status(Box<Node>),
}

/// What has not changed is said again so often; a Lease says in between that we live.
pub const REPEAT: SignedDuration = SignedDuration::from_mins(5);

/// One write at a time: whoever did it looks again.
pub fn next(desired: &Desired, seen: Option<&Node>, now: Timestamp) -> Option<Write> {
    let Some(seen) = seen else {
        return Some(Write::Create(Box::new(create(desired, now))));
    };
    // Its owner waits for it to go.
    if seen.metadata.deletion_timestamp.is_some() {
        return None;
    }
    if let Some(node) = update(desired, seen) {
        return Some(Write::Update(Box::new(node)));
    }
    let old = seen.status.clone().unwrap_or_default();
    let new = status(desired, &old, now);
    if same_but_for_heartbeats(&new, &old) && !is_due(desired, &old, now) {
        return None;
    }
    Some(Write::Status(Box::new(Node {
        status: Some(new),
        ..seen.clone()
    })))
}

fn create(desired: &Desired, now: Timestamp) -> Node {
    let taints = desired.taints.clone();
    Node {
        metadata: ObjectMeta {
            name: Some(desired.name.clone()),
            labels: Some(desired.labels.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: desired.provider_id.clone(),
            taints: (!taints.is_empty()).then_some(taints),
            ..NodeSpec::default()
        }),
        status: Some(status(desired, &NodeStatus::default(), now)),
    }
}

/// With our labels and, where nobody gave one, our provider's id.
fn update(desired: &Desired, seen: &Node) -> Option<Node> {
    let mut node = seen.clone();
    let labels = node.metadata.labels.get_or_insert_default();
    for (key, value) in &desired.labels {
        labels.insert(key.clone(), value.clone());
    }
    let spec = node.spec.get_or_insert_default();
    if spec.provider_id.as_deref().unwrap_or_default().is_empty() && desired.provider_id.is_some() {
        spec.provider_id.clone_from(&desired.provider_id);
    }
    let bare = |node: &Node| {
        let spec = node.spec.clone().unwrap_or_default();
        (node.metadata.labels.clone().unwrap_or_default(), spec)
    };
    (bare(&node) != bare(seen)).then_some(node)
}

fn status(desired: &Desired, old: &NodeStatus, now: Timestamp) -> NodeStatus {
    let address = |kind: &str, address: String| NodeAddress {
        type_: kind.to_owned(),
        address,
    };
    let mut addresses: Vec<NodeAddress> = desired
        .addresses
        .iter()
        .map(|ip| address("InternalIP", ip.to_string()))
        .collect();
    addresses.push(address("Hostname", desired.name.clone()));
    let mut conditions = old.conditions.clone().unwrap_or_default();
    for condition in &desired.conditions {
        set(&mut conditions, condition, now);
    }
    let endpoints = desired.port.map(|port| NodeDaemonEndpoints {
        kubelet_endpoint: Some(DaemonEndpoint { port: port.into() }),
    });
    NodeStatus {
        daemon_endpoints: endpoints.or_else(|| old.daemon_endpoints.clone()),
        addresses: Some(addresses),
        capacity: Some(desired.capacity.clone()),
        allocatable: Some(desired.capacity.clone()),
        node_info: Some(desired.info.clone()),
        conditions: Some(conditions),
        ..old.clone()
    }
}

/// The time of transition changes only with the value; conditions of others stay.
fn set(conditions: &mut Vec<NodeCondition>, wanted: &Condition, now: Timestamp) {
    let holds = if wanted.holds { "True" } else { "False" };
    let mut new = NodeCondition {
        type_: wanted.kind.to_owned(),
        status: holds.to_owned(),
        reason: Some(wanted.reason.clone()),
        message: Some(wanted.message.clone()),
        last_heartbeat_time: Some(seconds(now)),
        last_transition_time: Some(seconds(now)),
    };
    match conditions
        .iter_mut()
        .find(|known| known.type_ == wanted.kind)
    {
        Some(known) => {
            if known.status == new.status && known.last_transition_time.is_some() {
                new.last_transition_time
                    .clone_from(&known.last_transition_time);
            }
            *known = new;
        }
        None => conditions.push(new),
    }
}

/// As the API keeps it.
fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Whether something that we say was last said long ago.
fn is_due(desired: &Desired, old: &NodeStatus, now: Timestamp) -> bool {
    desired.conditions.iter().any(|ours| {
        let mut known = old.conditions.iter().flatten();
        let beat = known
            .find(|known| known.type_ == ours.kind)
            .and_then(|known| known.last_heartbeat_time.as_ref());
        beat.is_none_or(|beat| now.duration_since(beat.0).abs() >= REPEAT)
    })
}

fn same_but_for_heartbeats(new: &NodeStatus, old: &NodeStatus) -> bool {
    let still = |status: &NodeStatus| {
        let mut status = status.clone();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
        }
        status
    };
    still(new) == still(old)
}

#[cfg(test)]
mod tests;
