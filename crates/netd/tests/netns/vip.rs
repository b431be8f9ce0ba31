//! Three nodes share an address; it moves, and stale or contested ones are dealt with.

use std::path::Path;

use linux::addr::Want;
use linux::netlink::Netlink;

use crate::rack::{Node, Rack, wait};

const V4: &str = "192.0.2.100";
const V6: &str = "2001:db8::100";

/// Slow adverts: these nodes share two cores with every other test, and do not run in real time.
fn config(vip: &str, rank: usize, more: &str) -> String {
    let priority = 100 + rank;
    format!(
        "real_time: false\nvips: [{{name: api, id: 7, address: '{vip}', priority: {priority}, listen_ms: 100, advertise_ms: 200, {more}}}]\n"
    )
}

fn three(rack: &Rack, vip: &str) -> Vec<Node> {
    let nodes = (0..3)
        .map(|at| rack.start(at, &config(vip, at, "")))
        .collect();
    settled(rack, vip, 2);
    nodes
}

/// Only this node holds the address.
fn settled(rack: &Rack, vip: &str, holder: usize) {
    wait(&format!("only node {holder} holds {vip}"), || {
        (0..3).all(|at| rack.holds(at, vip) == (at == holder))
    });
}

#[test]
fn the_best_node_holds_the_address_and_a_stop_moves_it_on() {
    for vip in [V4, V6] {
        let rack = Rack::new(3);
        let nodes = three(&rack, vip);
        nodes[2].stop();
        settled(&rack, vip, 1);
        nodes[1].stop();
        settled(&rack, vip, 0);
        let again = rack.start(2, &config(vip, 2, ""));
        settled(&rack, vip, 2);
        wait("the restarted node says so", || again.role() == "active");
    }
}

#[test]
fn a_planned_move_stays_moved() {
    let rack = Rack::new(3);
    let nodes = three(&rack, V4);
    nodes[2].resign("api");
    wait("node 1 takes it", || {
        let seen: Vec<_> = nodes
            .iter()
            .map(|node| node.status().vips[0].clone())
            .collect();
        let late = seen[2]
            .transitions
            .iter()
            .filter(|step| step.to == "active")
            .count()
            > 1;
        assert!(!late, "node 2 took it back: {seen:#?}");
        seen[1].role == "active"
    });
    settled(&rack, V4, 1);
    let transitions = nodes[2].status().vips[0].transitions.clone();
    assert_eq!(transitions.last().unwrap().why, "asked to resign");
    wait("the old holder follows the new", || {
        nodes[2].status().vips[0].leader == Some("192.0.2.11".parse().unwrap())
    });
}

#[test]
fn a_cut_cable_moves_the_address_and_mending_brings_it_back() {
    let rack = Rack::new(3);
    let nodes = three(&rack, V4);
    rack.set_cable(2, false);
    settled(&rack, V4, 1);
    assert_eq!(nodes[2].role(), "unfit");
    rack.set_cable(2, true);
    settled(&rack, V4, 2);
}

#[test]
fn a_failing_check_moves_the_address_and_a_required_one_forbids_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let touch = |path: &Path| std::fs::write(path, "").unwrap();
    let rack = Rack::new(3);
    let nodes: Vec<_> = (0..3)
        .map(|at| {
            let (fit, well) = (file(&format!("fit{at}")), file(&format!("well{at}")));
            touch(&fit);
            touch(&well);
            let checks = format!(
                "checks: [{{name: fit, file: {}, interval_ms: 20}}, {{name: well, file: {}, interval_ms: 20}}]\n",
                fit.display(),
                well.display()
            );
            let uses = "checks: [{check: fit}, {check: well, weight: 50}]";
            rack.start(at, &(checks + &config(V4, at, uses)))
        })
        .collect();
    settled(&rack, V4, 2);
    assert_eq!(nodes[2].status().vips[0].priority, Some(152));
    std::fs::remove_file(file("well2")).unwrap();
    settled(&rack, V4, 1);
    std::fs::remove_file(file("fit1")).unwrap();
    settled(&rack, V4, 0);
    std::fs::remove_file(file("fit0")).unwrap();
    settled(&rack, V4, 2);
    assert_eq!(nodes[1].role(), "unfit");
}

#[test]
fn tcp_http_and_command_checks_look_at_the_service() {
    let rack = Rack::new(1);
    rack.hosts[0].run(|| async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:8080")
            .await
            .unwrap();
        tokio::task::spawn_local(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let _ = stream.readable().await;
                let _ = stream.try_write(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n");
            }
        });
    });
    let checks = "
checks:
  - {name: tcp, tcp: '127.0.0.1:8080', interval_ms: 20}
  - {name: closed, tcp: '127.0.0.1:8081', interval_ms: 20}
  - {name: http, http: {url: 'http://127.0.0.1:8080/', status: 204}, interval_ms: 20}
  - {name: other, http: {url: 'http://127.0.0.1:8080/'}, interval_ms: 20}
  - {name: runs, command: ['true'], interval_ms: 20}
  - {name: fails, command: ['false'], interval_ms: 20}
  - {name: hangs, command: [sleep, '60'], interval_ms: 20, timeout_ms: 30}
";
    let node = rack.start(0, &(checks.to_owned() + &config(V4, 0, "")));
    wait("three checks pass", || {
        node.status()
            .checks
            .values()
            .filter(|passes| **passes)
            .count()
            == 3
    });
    let passing: Vec<_> = node
        .status()
        .checks
        .into_iter()
        .filter_map(|(name, passes)| passes.then_some(name))
        .collect();
    assert_eq!(passing, ["http", "runs", "tcp"]);
}

#[test]
fn an_address_left_by_a_crash_is_taken_off_at_the_next_start() {
    let rack = Rack::new(1);
    rack.hosts[0].run(|| async {
        let want = Want::new(format!("{V4}/32").parse().unwrap());
        Netlink::connect()
            .unwrap()
            .ensure_address("eth0", want)
            .await
            .unwrap();
    });
    let unfit = "checks: [{name: no, file: /nowhere/at/all}]\n".to_owned()
        + &config(V4, 0, "checks: [{check: no}]");
    let _node = rack.start(0, &unfit);
    wait("the stale address is gone", || !rack.holds(0, V4));
}

#[test]
fn a_node_that_has_the_address_as_its_own_says_so_and_waits() {
    let rack = Rack::new(1);
    let node = rack.start(0, &config("192.0.2.10", 0, ""));
    wait("the problem shows", || {
        let problem = node.status().vips[0].problem.clone();
        problem.is_some_and(|problem| problem.contains("own address"))
    });
    assert!(rack.holds(0, "192.0.2.10"));
}

#[test]
fn a_subnet_that_comes_later_is_found() {
    let rack = Rack::new(1);
    let _node = rack.start(0, &config("198.51.100.9", 0, ""));
    rack.hosts[0].run(|| async {
        let want = Want::new("198.51.100.1/24".parse().unwrap());
        Netlink::connect()
            .unwrap()
            .ensure_address("eth0", want)
            .await
            .unwrap();
    });
    wait("the address is held", || rack.holds(0, "198.51.100.9"));
}

#[test]
fn a_stranger_who_answers_for_the_address_is_reported() {
    for (vip, length) in [(V4, 24), (V6, 64)] {
        let rack = Rack::new(2);
        stranger_takes(&rack, vip, length);
        let node = rack.start(0, &config(vip, 0, ""));
        reported(&node, "answers for our virtual address");
    }
}

#[test]
fn a_stranger_who_takes_the_address_later_is_reported_and_spoken_against() {
    for vip in [V4, V6] {
        let rack = Rack::new(2);
        let node = rack.start(0, &config(vip, 0, "announce: {burst: 1}"));
        wait("the address is held", || rack.holds(0, vip));
        rack.hosts[1].run(move || async move {
            let link = Netlink::connect().unwrap().link("eth0").await.unwrap();
            let options = linux::packet::Options {
                listen: linux::packet::Listen::All,
                promiscuous: false,
            };
            let socket = linux::packet::Socket::open(link.index, options).unwrap();
            let vip = vip.parse().unwrap();
            let claim = protocols::vrrp::announce::claim(link.mac.unwrap(), vip);
            let spoken_against = async {
                // More than the announcements that a new holder makes anyway.
                for _ in 0..10 {
                    socket.send(&claim).await.unwrap();
                    let mut frame = [0; 2000];
                    loop {
                        let received = socket.receive(&mut frame).await.unwrap();
                        let said = protocols::vrrp::announce::claimed(&frame[..received.len]);
                        if !received.outgoing && said.is_some_and(|(_, what)| what == vip) {
                            break;
                        }
                    }
                }
            };
            tokio::time::timeout(std::time::Duration::from_secs(30), spoken_against)
                .await
                .expect("the holder announces again");
        });
        reported(&node, "claims our virtual address");
        assert!(rack.holds(0, vip), "it does not give way");
    }
}

fn stranger_takes(rack: &Rack, vip: &str, length: u8) {
    let mut want = Want::new(format!("{vip}/{length}").parse().unwrap());
    want.nodad = true;
    rack.hosts[1].run(move || async move {
        let netlink = Netlink::connect().unwrap();
        netlink.ensure_address("eth0", want).await.unwrap();
    });
}

fn reported(node: &Node, text: &str) {
    wait("the stranger is reported", || {
        let reports = &node.status().vips[0].reports;
        reports.iter().any(|report| report.contains(text))
    });
}

#[test]
fn a_stranger_under_our_id_is_reported_and_both_go_on() {
    let rack = Rack::new(2);
    let ours = rack.start(0, &config(V4, 0, ""));
    let theirs = rack.start(1, &config("192.0.2.200", 1, ""));
    wait("both hold their own", || {
        rack.holds(0, V4) && rack.holds(1, "192.0.2.200")
    });
    for node in [&ours, &theirs] {
        wait("the stranger is reported", || {
            let reports = &node.status().vips[0].reports;
            reports
                .iter()
                .any(|report| report.contains("uses our virtual router id"))
        });
    }
}

#[test]
fn unicast_peers_agree_without_multicast() {
    let rack = Rack::new(3);
    let peers = "peers: [192.0.2.10, 192.0.2.11, 192.0.2.12]";
    let nodes: Vec<_> = (0..3)
        .map(|at| rack.start(at, &config(V4, at, peers)))
        .collect();
    settled(&rack, V4, 2);
    nodes[2].stop();
    settled(&rack, V4, 1);
}

#[test]
fn packets_that_make_no_sense_are_counted_and_dropped() {
    let rack = Rack::new(2);
    let node = rack.start(0, &config(V4, 0, ""));
    wait("the address is held", || node.role() == "active");
    rack.hosts[1].run(|| async {
        let index = Netlink::connect()
            .unwrap()
            .link("eth0")
            .await
            .unwrap()
            .index;
        let group = protocols::vrrp::GROUP_V4.into();
        let socket = linux::vrrp_socket::Socket::open(linux::vrrp_socket::Options {
            link: "eth0".into(),
            index,
            source: "192.0.2.11".parse().unwrap(),
            group,
        })
        .unwrap();
        for message in [
            &[][..],
            &[0x31],
            &[0xff; 8],
            &[0x31, 7, 255, 1, 0, 1, 0, 0, 9, 9, 9, 9],
        ] {
            socket.send(group, message).unwrap();
        }
    });
    wait("all are counted", || {
        node.status().vips[0].refused.values().sum::<u64>() == 4
    });
    assert_eq!(node.role(), "active");
}

#[test]
fn an_id_that_a_stranger_uses_is_avoided_where_that_is_allowed() {
    let rack = Rack::new(3);
    // The id that this cluster's name gives, in the hands of another cluster.
    let _stranger = rack.start(0, &config("192.0.2.200", 0, "").replace("id: 7", "id: 74"));
    wait("the stranger speaks", || rack.holds(0, "192.0.2.200"));
    let text =
        |at| "cluster: mycluster\n".to_owned() + &config(V4, at, "").replace("id: 7", "id: auto");
    let ours: Vec<_> = [1, 2].map(|at| rack.start(at, &text(at))).into();
    wait("the better of ours holds the address", || {
        rack.holds(2, V4) && !rack.holds(1, V4)
    });
    for node in &ours {
        wait("both have the same free id", || {
            node.status().vips[0].id == 75
        });
    }
}

#[test]
fn a_reload_changes_priorities_without_dropping_the_address() {
    let rack = Rack::new(1);
    let node = rack.start(0, &config(V4, 0, ""));
    wait("the address is held", || rack.holds(0, V4));
    let before = node.status().vips[0].transitions.len();
    node.reload(&config(V4, 50, ""));
    wait("the priority is new", || {
        node.status().vips[0].priority == Some(150)
    });
    assert_eq!(
        node.status().vips[0].transitions.len(),
        before,
        "it was held all the time"
    );
    node.reload("vips: []\n");
    wait("it is given up", || !rack.holds(0, V4));
}
