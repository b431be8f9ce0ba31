//! Nodes of a Kubernetes API as members: asked for again and again, kept when it does not answer.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::config::Kubernetes;
use crate::members::{Member, Members, Source};

const PATIENCE: Duration = Duration::from_secs(5);
/// More nodes than this in one answer are asked for in parts, of which only the first counts.
const LIMIT: u32 = 5000;
/// A list that is larger is not one of nodes.
const LARGEST: usize = 64 << 20;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("could not read {path}")]
    Read {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("could not set up a client for {url}")]
    Client { url: String, source: reqwest::Error },
    #[error("could not ask {url}")]
    Ask { url: String, source: reqwest::Error },
    #[error("{url} does not answer with nodes")]
    Answer {
        url: String,
        source: serde_json::Error,
    },
    #[error("{url} answers with more than {LARGEST} bytes")]
    Large { url: String },
}

/// Until it is aborted.
pub async fn poll(api: Kubernetes, publish: watch::Sender<Members>) {
    let mut beat = tokio::time::interval(api.interval);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut client = None;
    let mut said = None;
    loop {
        beat.tick().await;
        let asked = async {
            if client.is_none() {
                client = Some(connect(&api)?);
            }
            let client = client.as_ref().expect("just made");
            nodes(&api, client).await
        };
        match asked.await {
            Ok(members) => {
                said = None;
                publish.send_replace(members);
            }
            Err(error) => {
                // Certificates may have been replaced.
                client = None;
                let error = told(&error);
                if said.as_ref() != Some(&error) {
                    tracing::warn!(error, "members of the API are not known");
                    said = Some(error);
                }
            }
        }
    }
}

fn connect(api: &Kubernetes) -> Result<reqwest::Client, Error> {
    let client = |source| Error::Client {
        url: api.url.clone(),
        source,
    };
    let read = |path: &std::path::PathBuf| {
        std::fs::read(path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })
    };
    let mut build = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE);
    if let Some(ca) = &api.ca {
        let certificates = reqwest::Certificate::from_pem_bundle(&read(ca)?).map_err(client)?;
        build = build.tls_certs_only(certificates);
    }
    if let Some(identity) = &api.identity {
        let identity = reqwest::Identity::from_pem(&read(identity)?).map_err(client)?;
        build = build.identity(identity);
    }
    build.build().map_err(client)
}

async fn nodes(api: &Kubernetes, client: &reqwest::Client) -> Result<Members, Error> {
    let url = format!("{}/api/v1/nodes?limit={LIMIT}", api.url);
    let ask = |source| Error::Ask {
        url: url.clone(),
        source,
    };
    let mut request = client.get(&url);
    if let Some(path) = &api.token_file {
        // Read every time: such tokens are renewed in place.
        let token = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        request = request.bearer_auth(token.trim());
    }
    let answer = request.send().await.map_err(ask)?;
    let mut answer = answer.error_for_status().map_err(ask)?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(ask)? {
        body.extend_from_slice(&chunk);
        if body.len() > LARGEST {
            return Err(Error::Large { url });
        }
    }
    parse(&body).map_err(|source| Error::Answer { url, source })
}

#[derive(Deserialize)]
struct List {
    items: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    labels: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    addresses: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

fn parse(body: &[u8]) -> Result<Members, serde_json::Error> {
    let list: List = serde_json::from_slice(body)?;
    let member = |node: Node| {
        let name = node
            .metadata
            .name
            .split('.')
            .next()
            .unwrap_or_default()
            .to_owned();
        let internal = node
            .status
            .addresses
            .iter()
            .filter(|address| address.kind == "InternalIP");
        let addresses: Vec<IpAddr> = internal
            .filter_map(|address| address.address.parse().ok())
            .collect();
        let control_plane = CONTROL_PLANE
            .iter()
            .any(|label| node.metadata.labels.contains_key(*label));
        let member = Member {
            name: name.clone(),
            addresses,
            source: Source::Api,
            seen: Instant::now(),
            control_plane,
        };
        (name, member)
    };
    Ok(list.items.into_iter().map(member).collect())
}

fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_become_members_with_their_internal_addresses() {
        let body = r#"{"kind": "NodeList", "items": [
            {"metadata": {"name": "master-0.example.com", "labels": {"node-role.kubernetes.io/master": ""}},
             "status": {"addresses": [{"type": "Hostname", "address": "x"}, {"type": "InternalIP", "address": "192.0.2.1"}]}},
            {"metadata": {"name": "worker-0"}}]}"#;
        let members = parse(body.as_bytes()).unwrap();
        let master = &members["master-0"];
        assert_eq!(master.addresses, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        assert!(master.control_plane && !members["worker-0"].control_plane);
        assert!(parse(b"{}").is_err() && parse(b"").is_err());
    }
}
