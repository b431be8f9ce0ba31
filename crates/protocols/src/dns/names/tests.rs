use hickory_proto::op::{Edns as HickoryEdns, Message, ResponseCode};
use hickory_proto::rr::{DNSClass, RData, RecordType};

use super::*;
use crate::dns::testing::{message, query};

fn cluster() -> Cluster {
    let node = |name: &str, addresses: &[&str], etcd| Node {
        name: name.into(),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        etcd,
    };
    Cluster {
        domain: "C1.example.org".into(),
        api: vec!["192.0.2.5".parse().unwrap(), "2001:db8::5".parse().unwrap()],
        ingress: vec!["192.0.2.6".parse().unwrap()],
        nodes: vec![
            node("master-0", &["192.0.2.10", "2001:db8::10"], true),
            node("master-1.c1.example.org", &["192.0.2.11"], true),
            node("worker-0", &["192.0.2.20"], false),
            node("api", &["192.0.2.66"], false),
            node("bad name", &["192.0.2.67"], false),
        ],
        etcd_minimum: 2,
        authoritative: false,
    }
}

fn ask(names: &Names, query: &[u8]) -> (Local, Option<Message>) {
    let question = Question::parse(query).unwrap();
    let mut out = Vec::new();
    let local = names.answer(query, &question, Transport::Udp, &mut out);
    (local, Message::from_vec(&out).ok())
}

/// What came back, in one line.
fn brief(names: &Names, asked: &str, kind: u16) -> String {
    let (local, message) = ask(names, &query(asked, kind));
    if local != Local::Answered {
        return format!("{local:?}");
    }
    let message = message.unwrap();
    let data: Vec<String> = message
        .answers
        .iter()
        .map(|record| {
            assert_eq!(record.name.to_ascii(), format!("{asked}."));
            format!("{} {}", record.ttl, record.data)
        })
        .collect();
    let soa = match &message.authorities[..] {
        [] => String::new(),
        [record, ..] => format!(" + {} {}", record.name, record.record_type()),
    };
    format!(
        "{:?} [{}]{soa}",
        message.metadata.response_code,
        data.join(", ")
    )
}

#[test]
fn every_name_of_the_cluster_has_its_answer() {
    let names = Names::new(&cluster()).unwrap();
    let soa = " + c1.example.org. SOA";
    for (asked, kind, expected) in [
        ("api.c1.example.org", kind::A, "NoError [60 192.0.2.5]"),
        ("API.c1.Example.org", kind::AAAA, "NoError [60 2001:db8::5]"),
        ("api-int.c1.example.org", kind::A, "NoError [60 192.0.2.5]"),
        (
            "console.apps.c1.example.org",
            kind::A,
            "NoError [60 192.0.2.6]",
        ),
        ("a.b.apps.c1.example.org", kind::A, "NoError [60 192.0.2.6]"),
        (
            "x.apps.c1.example.org",
            kind::AAAA,
            &format!("NoError []{soa}"),
        ),
        ("api.c1.example.org", 16, &format!("NoError []{soa}")),
        (
            "master-0.c1.example.org",
            kind::A,
            "NoError [60 192.0.2.10]",
        ),
        ("master-0", kind::AAAA, "NoError [60 2001:db8::10]"),
        (
            "master-1.c1.example.org",
            kind::A,
            "NoError [60 192.0.2.11]",
        ),
        (
            "master-1.c1.example.org",
            kind::AAAA,
            &format!("NoError []{soa}"),
        ),
        (
            "master-0.c1.example.org",
            kind::ANY,
            "NoError [60 192.0.2.10, 60 2001:db8::10]",
        ),
        (
            "_etcd-server-ssl._tcp.c1.example.org",
            kind::SRV,
            "NoError [0 0 10 2380 master-0.c1.example.org., 0 0 10 2380 master-1.c1.example.org.]",
        ),
        (
            "5.2.0.192.in-addr.arpa",
            kind::PTR,
            "NoError [60 api.c1.example.org.]",
        ),
        (
            "20.2.0.192.in-addr.arpa",
            kind::PTR,
            "NoError [60 worker-0.c1.example.org.]",
        ),
        (
            "6.2.0.192.in-addr.arpa",
            kind::PTR,
            "NoError [60 ingress.apps.c1.example.org.]",
        ),
        (
            "0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
            kind::PTR,
            "NoError [60 master-0.c1.example.org.]",
        ),
        ("99.2.0.192.in-addr.arpa", kind::PTR, "Elsewhere"),
        // The dots of the patterns are dots.
        ("apixc1.example.org", kind::A, "Elsewhere"),
        ("api.c1xexample.org", kind::A, "Elsewhere"),
        ("apps.c1.example.org", kind::A, "Unknown"),
        ("nobody.c1.example.org", kind::A, "Unknown"),
        ("c1.example.org", kind::SOA, "Unknown"),
        ("example.org", kind::A, "Elsewhere"),
        ("example.org", kind::AXFR, "Refused []"),
    ] {
        assert_eq!(brief(&names, asked, kind), expected, "{asked} {kind}");
    }
    let (_, any) = ask(&names, &query("example.org", kind::ANY));
    assert_eq!(any.unwrap().answers[0].record_type(), RecordType::HINFO);
}

#[test]
fn an_authoritative_node_says_what_does_not_exist() {
    let mut cluster = cluster();
    cluster.authoritative = true;
    cluster.etcd_minimum = 3;
    let names = Names::new(&cluster).unwrap();
    let soa = " + c1.example.org. SOA";
    for (asked, kind, expected) in [
        (
            "nobody.c1.example.org",
            kind::A,
            format!("NXDomain []{soa}"),
        ),
        ("apps.c1.example.org", kind::A, format!("NoError []{soa}")),
        ("c1.example.org", kind::A, format!("NoError []{soa}")),
        (
            "c1.example.org",
            kind::NS,
            "NoError [60 api-int.c1.example.org.]".into(),
        ),
        (
            "_etcd-server-ssl._tcp.c1.example.org",
            kind::SRV,
            format!("NXDomain []{soa}"),
        ),
        ("other.example.org", kind::A, "Elsewhere".into()),
    ] {
        assert_eq!(brief(&names, asked, kind), expected, "{asked} {kind}");
    }
    assert!(brief(&names, "c1.example.org", kind::SOA).starts_with("NoError [60 api-int"));
}

#[test]
fn edns_is_echoed_clamped_and_its_versions_refused() {
    let names = Names::new(&cluster()).unwrap();
    let mut asked = message("api.c1.example.org", kind::A);
    let mut edns = HickoryEdns::new();
    edns.set_max_payload(4096);
    asked.set_edns(edns.clone());
    let (_, answer) = ask(&names, &asked.to_vec().unwrap());
    assert_eq!(answer.unwrap().edns.unwrap().max_payload(), 1232);
    edns.set_version(1);
    asked.set_edns(edns);
    let (_, answer) = ask(&names, &asked.to_vec().unwrap());
    // 16 has two names.
    assert_eq!(u16::from(answer.unwrap().metadata.response_code), 16);
    let mut chaos = message("version.bind", 16);
    chaos.queries[0].set_query_class(DNSClass::CH);
    let (_, answer) = ask(&names, &chaos.to_vec().unwrap());
    assert_eq!(
        answer.unwrap().metadata.response_code,
        ResponseCode::Refused
    );
}

#[test]
fn what_is_too_long_for_a_datagram_is_cut_and_whole_by_tcp() {
    let mut cluster = cluster();
    cluster.api = (0..60).map(|n| IpAddr::from([192, 0, 2, n])).collect();
    let names = Names::new(&cluster).unwrap();
    let bytes = query("api.c1.example.org", kind::A);
    let (_, cut) = ask(&names, &bytes);
    let cut = cut.unwrap();
    assert!(cut.metadata.truncation && cut.answers.is_empty());
    let question = Question::parse(&bytes).unwrap();
    let mut out = Vec::new();
    names.answer(&bytes, &question, Transport::Tcp, &mut out);
    let whole = Message::from_vec(&out).unwrap();
    assert_eq!(whole.answers.len(), 60);
    assert!(matches!(whole.answers[59].data, RData::A(_)));
}
