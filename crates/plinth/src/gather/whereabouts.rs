//! Where the cluster's nodes are: as the API says, and without it as far as anybody else knows.
//!
//! ```text
//!   the API's Nodes ─ no answer ─▶ the plan's nodes: static addresses, what nodes and the API's address answer as name
//!                                  servers, what this machine's own name server says, who is at the boot MAC
//! ```
//!
//! A wrong address does no harm: a node proves its name by its certificate.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use ::plan::cluster::Plan;
use ::plan::preflight::Answer;
use futures::future::join_all;
use installer::preflight::names;
use serde_json::Value;

use crate::status::look;

/// A node, and every address it may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub addresses: Vec<IpAddr>,
    pub port: u16,
}

/// Where a node listens that does not say so.
const PORT: u16 = 10250;
/// For all that name servers have to say of one name.
const NAMES: Duration = Duration::from_secs(5);

/// As the list of Nodes has it.
pub fn listed(list: &Value) -> Vec<Node> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter_map(|node| {
            let name = node["metadata"]["name"].as_str()?;
            let status = &node["status"];
            let addresses = status["addresses"].as_array().into_iter().flatten();
            let own = addresses.filter(|address| address["type"] == "InternalIP");
            let own = own.filter_map(|address| address["address"].as_str()?.parse().ok());
            let port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
            Some(Node {
                name: name.to_owned(),
                addresses: own.collect(),
                port: port
                    .and_then(|port| u16::try_from(port).ok())
                    .filter(|port| *port != 0)
                    .unwrap_or(PORT),
            })
        })
        .collect()
}

/// The nodes of the plan, wherever they may be.
pub async fn planned(plan: &Plan) -> Vec<Node> {
    let known: BTreeMap<String, Vec<IpAddr>> = plan
        .hosts
        .iter()
        .filter_map(|host| Some((host.node.clone()?, host.addresses.clone())))
        .collect();
    let mut servers = plan.api_vips();
    servers.extend(known.values().flatten());
    let table = tokio::fs::read_to_string("/proc/net/arp").await;
    let table = table.unwrap_or_default();
    let asked = known.into_iter().map(|(name, addresses)| {
        let mac = plan
            .hosts
            .iter()
            .find(|host| host.node.as_ref() == Some(&name))
            .map(|host| host.boot_mac.to_string());
        let beside = mac.map_or(Vec::new(), |mac| look::beside(&table, &mac));
        let beside: Vec<IpAddr> = beside.iter().filter_map(|text| text.parse().ok()).collect();
        let full = format!("{name}.{}", plan.cluster.domain);
        let servers = &servers;
        async move {
            let told = named(&full, servers).await;
            Node {
                addresses: merged([addresses, told, beside]),
                port: plan.ports["node"],
                name,
            }
        }
    });
    join_all(asked).await
}

/// What name servers say: those given, and this machine's own.
async fn named(name: &str, servers: &[IpAddr]) -> Vec<IpAddr> {
    let theirs = join_all(servers.iter().map(|server| async move {
        match tokio::time::timeout(NAMES, names::lookup(*server, name)).await {
            Ok(Answer::Addresses(found)) => found,
            Ok(Answer::Nothing | Answer::Silent(_)) | Err(_) => Vec::new(),
        }
    }));
    let ours = async {
        match tokio::time::timeout(NAMES, tokio::net::lookup_host((name, PORT))).await {
            Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    };
    let (theirs, ours) = tokio::join!(theirs, ours);
    theirs.into_iter().flatten().chain(ours).collect()
}

/// Each once, in order.
fn merged(lists: [Vec<IpAddr>; 3]) -> Vec<IpAddr> {
    let mut all = Vec::new();
    for address in lists.into_iter().flatten() {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_where_the_api_says() {
        let list = json!({"items": [
            {"metadata": {"name": "a"}, "status": {
                "addresses": [
                    {"type": "InternalIP", "address": "192.0.2.7"},
                    {"type": "InternalIP", "address": "2001:db8::7"},
                    {"type": "InternalIP", "address": "nowhere"},
                    {"type": "Hostname", "address": "a"},
                ],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10251}},
            }},
            {"metadata": {"name": "b"}, "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}}},
            {"nonsense": 1},
        ]});
        let found = listed(&list);
        assert_eq!(found.len(), 2);
        let ips: Vec<IpAddr> = ["192.0.2.7", "2001:db8::7"]
            .map(|text| text.parse().unwrap())
            .into();
        assert_eq!((&found[0].addresses, found[0].port), (&ips, 10251));
        assert_eq!((found[1].addresses.len(), found[1].port), (0, PORT));
        assert_eq!(listed(&Value::Null), []);
    }

    #[test]
    fn an_address_is_tried_once() {
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let (a, b) = (ip("192.0.2.1"), ip("2001:db8::1"));
        assert_eq!(merged([vec![a], vec![b, a], vec![b]]), [a, b]);
    }
}
