//! Logs of the daemons on the cluster's nodes, and their packet counters, from the nodes themselves.
//!
//! All are asked at once, each for so long and no longer. They know us by the kubeconfig's certificate, and we know each by
//! the cluster's authority and its own name; the API is asked only where they are, and need not answer.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::AsyncReadExt as _;
use futures::future::join_all;
use kube::Client;
use node::config::is_node_name;
use node::decide::show::is_unit;
use tokio::time::Instant;

use super::File;
use super::parts::{Part, Site};
use super::whereabouts::{self, Node};

/// For all of one node, within what a part has.
const NODE: Duration = Duration::from_secs(90);
/// For a connection, and for one answer: a log may have to be searched for.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(40);
/// Of one answer; nodes keep to less.
const LARGEST: u64 = 16 << 20;
/// Of all nodes: it is held in memory.
const ALL: usize = 1 << 30;
/// What a file of the archive can be called.
const LONGEST_NAME: usize = 150;

pub async fn all(site: &Site) -> Part {
    let cluster = match &site.cluster {
        Ok(cluster) => cluster,
        Err(why) => return Part::missing(why.clone()),
    };
    let mut part = Part::default();
    let nodes = match (cluster.get("/api/v1/nodes").await, &site.config) {
        (Ok(list), _) => whereabouts::listed(&list),
        (Err(why), Ok((_, plan))) => {
            part.problems.push(format!("the API: {why}"));
            whereabouts::planned(plan).await
        }
        (Err(why), Err(no_plan)) => {
            part.problems.push(format!("the API: {why}"));
            part.problems.push(no_plan.clone());
            Vec::new()
        }
    };
    let room = AtomicUsize::new(ALL);
    let asked = nodes
        .iter()
        .map(|node| one(&cluster.config, node, &room, Instant::now() + NODE));
    for told in join_all(asked).await {
        part.files.extend(told.files);
        part.problems.extend(told.problems);
    }
    if nodes.is_empty() {
        part.problems.push("no node is known".into());
    }
    part
}

/// All of one node, by the first of its addresses that answers.
async fn one(config: &kube::Config, node: &Node, room: &AtomicUsize, until: Instant) -> Part {
    let name = &node.name;
    if !is_node_name(name) || name.len() > LONGEST_NAME {
        return Part::missing(format!("{name:?} is no name for a node"));
    }
    let mut problems = Vec::new();
    for address in &node.addresses {
        let heard = match client(config, node, *address) {
            Ok(client) => {
                let units = get(&client, "/logs", until).await;
                units.map(|units| (client, units))
            }
            Err(why) => Err(why),
        };
        match heard {
            Ok((client, units)) => return all_of(&client, name, &units, room, until).await,
            Err(why) => {
                let address = SocketAddr::new(*address, node.port);
                problems.push(format!("{name} at {address}: {why}"));
            }
        }
    }
    if problems.is_empty() {
        problems.push(format!("{name}: nobody knows its address"));
    }
    Part {
        files: Vec::new(),
        problems,
    }
}

async fn all_of(
    client: &Client,
    name: &str,
    units: &[u8],
    room: &AtomicUsize,
    until: Instant,
) -> Part {
    let mut part = Part::default();
    let mut wanted = vec![("/counters".to_owned(), format!("nodes/{name}/counters.txt"))];
    wanted.extend(listed_units(units).into_iter().map(|unit| {
        let file = format!("nodes/{name}/{unit}.log");
        (format!("/logs/{unit}"), file)
    }));
    for (path, file) in wanted {
        match get(client, &path, until).await {
            Ok(bytes) if take(room, bytes.len()) => part.files.push(File { path: file, bytes }),
            Ok(_) => {
                let why = format!("{name}{path}: the archive is large enough without it");
                part.problems.push(why);
            }
            Err(why) => part.problems.push(format!("{name}{path}: {why}")),
        }
    }
    part
}

/// Names that a node gives become names of files here.
fn listed_units(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let units = text.lines().filter(|unit| is_unit(unit));
    units.map(str::to_owned).collect()
}

/// Whether there is room for so much more.
fn take(room: &AtomicUsize, bytes: usize) -> bool {
    let left = |left: usize| left.checked_sub(bytes);
    room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
        .is_ok()
}

/// As whom we speak to the API.
fn client(config: &kube::Config, node: &Node, address: IpAddr) -> Result<Client, String> {
    let mut config = config.clone();
    let url = format!("https://{}", SocketAddr::new(address, node.port));
    config.cluster_url = url
        .parse()
        .map_err(|error: http::uri::InvalidUri| error.to_string())?;
    config.tls_server_name = Some(node.name.clone());
    // Nodes are beside us, or not to be had.
    config.proxy_url = None;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(ANSWER);
    Client::try_from(config).map_err(|error| model::chain(&error))
}

async fn get(client: &Client, path: &str, until: Instant) -> Result<Vec<u8>, String> {
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(|error| error.to_string())?;
    let work = async {
        let stream = client
            .request_stream(request)
            .await
            .map_err(|error| model::chain(&error))?;
        let mut bytes = Vec::new();
        let read = stream.take(LARGEST).read_to_end(&mut bytes).await;
        read.map(|_| bytes).map_err(|error| model::chain(&error))
    };
    let until = until.min(Instant::now() + ANSWER);
    tokio::time::timeout_at(until, work)
        .await
        .unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_cannot_name_files_of_the_archive_as_it_likes() {
        let said = b"plinth-netd\n../../etc/passwd\nplinth-etcd\n\xff\nplinth-/x\n";
        assert_eq!(listed_units(said), ["plinth-netd", "plinth-etcd"]);
    }

    #[test]
    fn what_there_is_no_room_for_is_left_out() {
        let room = AtomicUsize::new(10);
        assert!(take(&room, 8) && !take(&room, 3) && take(&room, 2));
    }

    #[tokio::test]
    async fn a_node_that_cannot_be_had_is_named_with_its_reason() {
        let config = kube::Config::new("https://192.0.2.1:6443".parse().unwrap());
        let room = AtomicUsize::new(ALL);
        let until = Instant::now() + NODE;
        let lost = |name: &str, addresses: &[&str]| Node {
            name: name.to_owned(),
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            // Nobody listens there.
            port: 1,
        };
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        for (node, part) in [
            (lost("n", &["127.0.0.1"]), "n at 127.0.0.1:1: "),
            (lost("n", &[]), "nobody knows"),
            (lost("../n", &["127.0.0.1"]), "no name"),
        ] {
            let told = one(&config, &node, &room, until).await;
            assert!(told.files.is_empty() && told.problems.len() == 1);
            assert!(told.problems[0].contains(part), "{:?}", told.problems);
        }
    }
}
