//! The node's DNS server on real sockets: its own names, and upstreams that are slow, gone or dishonest.

use hickory_proto::rr::RecordType;
use netd::dns::Vips;

use crate::names::{Manner, Server, Upstream, answer, ask_tcp, member, query};
use crate::rack::{Rack, wait};

const NODE: &str = "192.0.2.10";
const CLUSTER: &str = "domain: c1.test, api: [192.0.2.5], ingress: [192.0.2.6]";

#[test]
fn names_follow_addresses_and_members_by_both_families_and_transports() {
    let rack = Rack::new(2);
    let server = Server::start(
        &rack.hosts[0],
        &format!(
            "{{listen: [{NODE}, '2001:db8::10'], {CLUSTER}, authoritative: true, workers: 2}}"
        ),
    );
    let client = &rack.hosts[1];
    for at in [NODE, "2001:db8::10"] {
        assert_eq!(
            answer(client, at, "api.c1.test.", RecordType::A),
            "192.0.2.5"
        );
        assert_eq!(
            answer(client, at, "x.y.apps.c1.test.", RecordType::A),
            "192.0.2.6"
        );
        assert_eq!(
            answer(client, at, "api.c1.test.", RecordType::AAAA),
            "NoError"
        );
        assert_eq!(answer(client, at, "no.c1.test.", RecordType::A), "NXDomain");
        // Nobody to ask.
        assert_eq!(
            answer(client, at, "example.org.", RecordType::A),
            "ServFail"
        );
    }
    server
        .members
        .send_replace([member("m0", &["192.0.2.10"], true)].into());
    server.vips.send_replace(Vips {
        api: vec!["192.0.2.50".parse().unwrap()],
        ingress: vec![],
    });
    wait("the new member has a name", || {
        answer(client, NODE, "m0.c1.test.", RecordType::A) == "192.0.2.10"
    });
    assert_eq!(
        answer(client, NODE, "api-int.c1.test.", RecordType::A),
        "192.0.2.50"
    );
    assert_eq!(
        answer(
            client,
            NODE,
            "_etcd-server-ssl._tcp.c1.test.",
            RecordType::SRV
        ),
        "0 10 2380 m0.c1.test."
    );
    let queries = (0..5)
        .map(|id| query("m0.c1.test.", RecordType::A, id))
        .collect();
    let answers = ask_tcp(client, NODE, queries);
    let mut ids: Vec<u16> = answers.iter().map(|answer| answer.metadata.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3, 4]);
    assert!(server.status().counts["local"] >= 12);
}

#[test]
fn others_are_asked_in_order_remembered_and_still_quoted_when_they_are_gone() {
    let rack = Rack::new(3);
    let first = Upstream::start(&rack.hosts[1], "192.0.2.11", Manner::Silent);
    let second = Upstream::start(&rack.hosts[2], "192.0.2.12", Manner::Honest(2));
    let server = Server::start(
        &rack.hosts[0],
        &format!("{{listen: [{NODE}], {CLUSTER}, upstreams: [192.0.2.11, 192.0.2.12]}}"),
    );
    let client = &rack.hosts[2];
    let ask = |name: &str| answer(client, NODE, name, RecordType::A);
    assert_eq!(ask("a.example."), "203.0.113.2");
    assert_eq!(ask("a.example."), "203.0.113.2");
    wait("the second was from memory", || {
        server.status().counts["cached"] == 1
    });
    first.set(Manner::Honest(1));
    // One that is late is overtaken by the other, so a single question proves nothing.
    let mut asked = 0;
    wait("the first is asked first", || {
        asked += 1;
        ask(&format!("nobody{asked}.c1.test.")) == "203.0.113.1"
    });
    // Every question leaves from another port.
    for n in 0..8 {
        ask(&format!("p{n}.example."));
    }
    let mut ports: Vec<u16> = first
        .asked
        .lock()
        .unwrap()
        .iter()
        .map(std::net::SocketAddr::port)
        .collect();
    let all = ports.len();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), all);
    first.set(Manner::Silent);
    second.set(Manner::Silent);
    // Its two seconds of life pass while nobody answers: the old answer is better than none.
    wait("an old answer is given", || {
        ask("a.example.") == "203.0.113.2" && server.status().counts["stale"] > 0
    });
    assert_eq!(ask("unheard.example."), "ServFail");
    wait("both are down", || {
        server
            .status()
            .upstreams
            .iter()
            .all(|one| one.state == "down")
    });
    first.set(Manner::Honest(3));
    wait("the first is back", || ask("b.example.") == "203.0.113.3");
}

#[test]
fn lies_are_counted_and_cut_answers_fetched_whole() {
    let rack = Rack::new(2);
    let upstream = Upstream::start(&rack.hosts[1], "192.0.2.11", Manner::Liar(7));
    let server = Server::start(
        &rack.hosts[0],
        &format!("{{listen: [{NODE}], {CLUSTER}, upstreams: [192.0.2.11], mixed_case: true}}"),
    );
    let client = &rack.hosts[1];
    assert_eq!(
        answer(client, NODE, "a.example.", RecordType::A),
        "203.0.113.7"
    );
    wait("the lies are counted", || {
        let counts = server.status().counts;
        [
            "dropped_wrong_id",
            "dropped_wrong_question",
            "dropped_malformed",
        ]
        .iter()
        .all(|why| counts.get(why) == Some(&1))
    });
    upstream.set(Manner::Cut(8));
    assert_eq!(
        answer(client, NODE, "b.example.", RecordType::A),
        "203.0.113.8"
    );
    assert_eq!(server.status().upstreams[0].state, "up");
}

#[test]
fn two_servers_that_point_at_each_other_notice() {
    let rack = Rack::new(2);
    let start = |at: usize, other: &str| {
        let text = format!("{{listen: [192.0.2.1{at}], {CLUSTER}, upstreams: [{other}]}}");
        Server::start(&rack.hosts[at], &text)
    };
    let servers = [start(0, "192.0.2.11"), start(1, "192.0.2.10")];
    // The one that starts second finds the other there; the first asks again after a minute at the latest,
    // and one of two is enough.
    wait("the loop is seen", || {
        let looped = |server: &Server| {
            server
                .status()
                .upstreams
                .iter()
                .any(|one| one.state == "loop")
        };
        servers.iter().any(looped)
    });
    let client = &rack.hosts[1];
    assert_eq!(
        answer(client, NODE, "a.example.", RecordType::A),
        "ServFail"
    );
}

#[test]
fn resolv_conf_points_at_us_while_we_run_and_gives_the_upstreams() {
    let rack = Rack::new(2);
    let _upstream = Upstream::start(&rack.hosts[1], "192.0.2.11", Manner::Honest(4));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("resolv.conf");
    let saved = folder.path().join("saved");
    std::fs::write(&path, "nameserver 192.0.2.99\n").unwrap();
    let mut server = Server::start(
        &rack.hosts[0],
        &format!(
            "{{listen: [{NODE}], {CLUSTER}, resolv_conf: {{path: '{}', saved: '{}'}}}}",
            path.display(),
            saved.display()
        ),
    );
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("search c1.test\nnameserver 192.0.2.10\nnameserver 192.0.2.99\n"),
        "{text}"
    );
    let original = "# by DHCP\nnameserver 192.0.2.11\n";
    std::fs::write(&path, original).unwrap();
    wait("the new upstream answers", || {
        answer(&rack.hosts[1], NODE, "a.example.", RecordType::A) == "203.0.113.4"
    });
    server.stop();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), original);
}
