//! Nodes that fell silent: what they said of themselves is not known to be true any more.
//!
//! A node renews its Lease. Whoever does not for forty seconds has its conditions set to Unknown, so that those who care
//! for machines can act; when it speaks again it says itself how it is. Clocks of nodes do not matter: what counts is how
//! long this server has seen the Lease unchanged.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::warn;

use super::work::{Controller, Next};
use super::{Context, is_being_deleted, meta};
use crate::local::Refusal;
use crate::store;

pub(super) struct Nodes {
    context: Context,
    heard: BTreeMap<String, Heard>,
}

/// The last sign of life, and when it was seen first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heard {
    /// The revision of the Lease; 0 when it went.
    sign: u64,
    at: Instant,
}

const GRACE: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_secs(5);
/// What a node says of itself; conditions of others are not its own.
const CONDITIONS: [&str; 6] = [
    "Ready",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "APIServerReady",
    "EtcdMemberReady",
];

impl Nodes {
    pub fn new(context: Context) -> Self {
        Self {
            context,
            heard: BTreeMap::new(),
        }
    }
}

impl Controller for Nodes {
    const NAME: &'static str = "nodes";

    fn prefix(&self) -> String {
        store::prefix("", "nodes", "")
    }

    /// Whoever was deaf for a while gives everybody their time again.
    fn forget(&mut self) {
        self.heard.clear();
    }

    async fn look(&mut self, key: &str, object: Option<Value>) -> Result<Next, Refusal> {
        let Some(node) = object.filter(|node| !is_being_deleted(node)) else {
            self.heard.remove(key);
            return Ok(Next::Done);
        };
        let name = meta(&node, "name");
        let lease = store::key("coordination.k8s.io", "leases", "kube-node-lease", name);
        let sign = self.context.store.peek(&lease).map(|lease| lease.revision);
        let now = Instant::now();
        let Some(heard) = hear(self.heard.get(key).copied(), sign, now) else {
            return Ok(Next::After(LOOK));
        };
        self.heard.insert(key.to_owned(), heard);
        if now.duration_since(heard.at) < GRACE {
            return Ok(Next::After(LOOK));
        }
        if let Some(conditions) = unknown(&node, Timestamp::now()) {
            warn!(node = name, "the node is silent; how it is is not known");
            let version = &node["metadata"]["resourceVersion"];
            let patch = json!({
                "metadata": {"resourceVersion": version}, "status": {"conditions": conditions},
            });
            let path = format!("/api/v1/nodes/{name}/status");
            if let Err(refusal) = self.context.local.merge(&path, &patch).await {
                // A store that takes nothing takes no Lease either: nobody could be heard.
                if refusal.code >= 500 {
                    self.heard.clear();
                }
                return Err(refusal);
            }
        }
        Ok(Next::After(LOOK))
    }
}

/// DEVIATION: a Node that never had a Lease is not judged. Somebody made it by hand.
fn hear(last: Option<Heard>, sign: Option<u64>, now: Instant) -> Option<Heard> {
    match (last, sign) {
        (None, None) => None,
        // A Lease that went is no sign of life.
        (Some(last), None) => Some(last),
        (Some(last), Some(sign)) if last.sign == sign => Some(last),
        (_, Some(sign)) => Some(Heard { sign, at: now }),
    }
}

/// The conditions with the node's own unknown; nothing if they are already.
fn unknown(node: &Value, now: Timestamp) -> Option<Value> {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut conditions = node["status"]["conditions"].as_array().cloned()?;
    let mut changed = false;
    for condition in &mut conditions {
        let own = condition["type"]
            .as_str()
            .is_some_and(|kind| CONDITIONS.contains(&kind));
        if !own || condition["status"] == json!("Unknown") {
            continue;
        }
        condition["status"] = json!("Unknown");
        condition["reason"] = json!("NodeStatusUnknown");
        condition["message"] = json!("the node stopped renewing its Lease");
        condition["lastTransitionTime"] = json!(now);
        changed = true;
    }
    changed.then(|| json!(conditions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_counts_from_when_it_was_first_seen() {
        let now = Instant::now();
        let later = now + Duration::from_secs(9);
        let heard = |sign| Some(Heard { sign, at: now });
        for (name, last, sign, expected) in [
            ("never a Lease", None, None, None),
            (
                "the first",
                None,
                Some(1),
                Some(Heard { sign: 1, at: later }),
            ),
            ("the same", heard(1), Some(1), heard(1)),
            (
                "renewed",
                heard(1),
                Some(2),
                Some(Heard { sign: 2, at: later }),
            ),
            ("taken away", heard(1), None, heard(1)),
        ] {
            assert_eq!(hear(last, sign, later), expected, "{name}");
        }
    }

    #[test]
    fn only_what_the_node_said_is_unknown_and_once() {
        let said = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastHeartbeatTime": "then"});
        let mut node =
            json!({"status": {"conditions": [said("Ready", "True"), said("Stranger", "True")]}});
        let conditions = unknown(&node, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(conditions[0]["status"], "Unknown");
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(conditions[0]["lastHeartbeatTime"], "then");
        assert_eq!(conditions[1], said("Stranger", "True"));
        node["status"]["conditions"] = conditions;
        assert_eq!(unknown(&node, Timestamp::now()), None);
        assert_eq!(unknown(&json!({}), Timestamp::now()), None);
    }
}
