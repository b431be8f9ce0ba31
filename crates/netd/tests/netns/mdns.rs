//! Nodes find each other on a bridge, and notice who leaves and who dies.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use linux::netns::Host;
use netd::config::mdns::{self as config, Mdns};
use netd::mdns::{self, Handle};
use netd::members::Members;
use tokio::sync::watch;

use crate::rack::{Rack, wait};

struct Node {
    host: Arc<Host>,
    handle: Option<Handle>,
    members: watch::Receiver<Members>,
}

fn parse(text: &str) -> Mdns {
    let written: config::Written = serde_saphyr::from_str(text).unwrap();
    let mut problems = Vec::new();
    config::resolve(&written, Some("c1"), &[], "mdns", &mut problems)
        .unwrap_or_else(|| panic!("{problems:?}"))
}

impl Node {
    fn start(host: &Arc<Host>, text: &str) -> Self {
        let config = parse(text);
        let (publish, members) = watch::channel(Members::new());
        let handle = host.run(move || async move { mdns::start(config, publish).unwrap() });
        Self {
            host: Arc::clone(host),
            handle: Some(handle),
            members,
        }
    }

    fn stop(&mut self) {
        let handle = self.handle.take().unwrap();
        self.host
            .run(move || async move { handle.stop().await.unwrap() });
    }

    fn sees(&self) -> BTreeMap<String, Vec<IpAddr>> {
        let members = self.members.borrow();
        members
            .values()
            .map(|member| (member.name.clone(), member.addresses.clone()))
            .collect()
    }

    fn names(&self) -> Vec<String> {
        self.sees().into_keys().collect()
    }
}

#[test]
fn three_find_each_other_one_says_goodbye_and_one_dies() {
    let mut rack = Rack::new(3);
    let mut nodes: Vec<Node> = (0..3)
        .map(|at| {
            Node::start(
                &rack.hosts[at],
                &format!("{{host: n{at}, etcd: {}, host_ttl_s: 6}}", at == 0),
            )
        })
        .collect();
    let all: BTreeMap<String, Vec<IpAddr>> = (0..3)
        .map(|at| {
            let addresses = [format!("192.0.2.1{at}"), format!("2001:db8::1{at}")];
            let addresses = addresses.map(|text| text.parse().unwrap());
            (format!("n{at}"), addresses.to_vec())
        })
        .collect();
    wait("all see all", || {
        nodes.iter().all(|node| node.sees() == all)
    });
    assert!(nodes[2].members.borrow()["n0"].control_plane);
    assert!(!nodes[0].members.borrow()["n2"].control_plane);
    nodes[1].stop();
    wait("a goodbye is seen", || nodes[0].names() == ["n0", "n2"]);
    // Power off: no goodbye.
    std::mem::forget(nodes[2].handle.take());
    drop(nodes.remove(2));
    rack.hosts.truncate(2);
    wait("a dead node is forgotten", || nodes[0].names() == ["n0"]);
}

#[test]
fn a_link_that_goes_and_comes_back_brings_its_nodes_back() {
    let rack = Rack::new(2);
    let nodes: Vec<Node> = (0..2)
        .map(|at| {
            Node::start(
                &rack.hosts[at],
                &format!("{{host: n{at}, host_ttl_s: 4, interfaces: [eth0]}}"),
            )
        })
        .collect();
    wait("both see both", || {
        nodes.iter().all(|node| node.names().len() == 2)
    });
    rack.set_cable(1, false);
    wait("the cut node is forgotten", || nodes[0].names() == ["n0"]);
    rack.set_cable(1, true);
    wait("both see both again", || {
        nodes.iter().all(|node| node.names().len() == 2)
    });
}

#[test]
fn a_second_node_of_one_name_takes_another_and_says_so() {
    let rack = Rack::new(2);
    let first = Node::start(&rack.hosts[0], "{host: twin}");
    wait("the first is published", || first.names() == ["twin"]);
    let second = Node::start(&rack.hosts[1], "{host: twin}");
    wait("the second has another name", || {
        second.names() == ["twin", "twin-2"]
    });
    let status = second.handle.as_ref().unwrap().status();
    assert!(
        status
            .reports
            .iter()
            .any(|report| report.contains("twin.local belongs to")),
        "{status:?}"
    );
    // A node that only looks sees both and is seen by none.
    let looking = Node::start(&rack.hosts[0], "{host: boot, publish: false}");
    wait("the onlooker sees both", || {
        looking.names() == ["twin", "twin-2"]
    });
    assert_eq!(first.names().len(), 2);
}
