//! dig and dnsperf ask the node's DNS server; dnsmasq is its upstream.

use std::process::{Child, Stdio};

use linux::netns::Host;

use crate::names::{Server, member};
use crate::rack::{Rack, wait};

const NODE: &str = "192.0.2.10";

/// A program on a host, ended with its test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn dnsmasq(host: &Host) -> Program {
    let child = host
        .command("dnsmasq")
        .args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file",
            "--user=root",
            "--no-resolv",
            "--no-hosts",
            "--bind-interfaces",
            "--listen-address=192.0.2.11",
            "--local-ttl=100",
            "--address=/example.org/198.51.100.7",
            "--edns-packet-max=4096",
        ])
        .args((0..40).map(|n| format!("--txt-record=big.example.net,{n}{}", "x".repeat(100))))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("dnsmasq (Debian package dnsmasq-base)");
    Program(child)
}

fn run(host: &Host, program: &str, args: &[&str]) -> String {
    let output = host
        .command(program)
        .args(args)
        .output()
        .unwrap_or_else(|error| {
            panic!("{program}: {error} (Debian packages bind9-dnsutils, dnsperf)")
        });
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn dig(host: &Host, args: &str) -> String {
    let mut all = vec!["+time=6", "+tries=1"];
    all.extend(args.split(' '));
    run(host, "dig", &all)
}

fn short(host: &Host, args: &str) -> String {
    dig(host, &format!("+short {args}")).trim().to_owned()
}

#[test]
fn dig_gets_names_families_tcp_edns_and_nodata() {
    let rack = Rack::new(2);
    let upstream = dnsmasq(&rack.hosts[1]);
    let server = Server::start(
        &rack.hosts[0],
        &format!(
            "{{listen: [{NODE}, '2001:db8::10'], domain: c1.test, api: [192.0.2.5, '2001:db8::5'], \
             ingress: [192.0.2.6], upstreams: [192.0.2.11]}}"
        ),
    );
    server.members.send_replace(
        [
            member("m0", &["192.0.2.10", "2001:db8::10"], true),
            member("m1", &["192.0.2.11"], true),
        ]
        .into(),
    );
    let client = &rack.hosts[1];
    wait("members have names", || {
        short(client, "@192.0.2.10 m0.c1.test") == "192.0.2.10"
    });
    for (args, expected) in [
        ("@192.0.2.10 api.c1.test A", "192.0.2.5"),
        ("@2001:db8::10 api-int.c1.test AAAA", "2001:db8::5"),
        ("@192.0.2.10 +tcp console.apps.c1.test A", "192.0.2.6"),
        ("@192.0.2.10 console.apps.c1.test AAAA", ""),
        ("@192.0.2.10 -x 192.0.2.11", "m1.c1.test."),
        ("@192.0.2.10 -x 2001:db8::5", "api.c1.test."),
        (
            "@192.0.2.10 _etcd-server-ssl._tcp.c1.test SRV",
            "0 10 2380 m0.c1.test.\n0 10 2380 m1.c1.test.",
        ),
        ("@192.0.2.10 www.example.org A", "198.51.100.7"),
        (
            "@192.0.2.10 +tcp +keepopen www.example.org A",
            "198.51.100.7",
        ),
        ("@192.0.2.10 +nocookie WwW.example.org A", "198.51.100.7"),
    ] {
        assert_eq!(short(client, args), expected, "{args}");
    }
    let nodata = dig(client, "@192.0.2.10 console.apps.c1.test AAAA");
    assert!(
        nodata.contains("status: NOERROR") && nodata.contains("SOA"),
        "{nodata}"
    );
    assert!(nodata.contains("flags: qr aa rd ra"), "{nodata}");
    let edns = dig(client, "@192.0.2.10 +bufsize=4096 +dnssec api.c1.test");
    assert!(
        edns.contains("EDNS: version: 0, flags: do; udp: 1232"),
        "{edns}"
    );
    let version = dig(client, "@192.0.2.10 +edns=7 +noednsneg api.c1.test");
    assert!(version.contains("BADVERS"), "{version}");
    let chaos = dig(client, "@192.0.2.10 version.bind TXT CH");
    assert!(chaos.contains("status: REFUSED"), "{chaos}");
    let notify = dig(client, "@192.0.2.10 +opcode=NOTIFY api.c1.test SOA");
    assert!(notify.contains("NOTIMP"), "{notify}");
    let any = dig(client, "@192.0.2.10 www.example.org ANY");
    assert!(any.contains("RFC8482"), "{any}");
    // Too long for a datagram: dig comes back by TCP.
    let big = dig(client, "@192.0.2.10 +noedns big.example.net TXT");
    assert!(big.contains("Truncated, retrying in TCP mode"), "{big}");
    assert!(big.contains("ANSWER: 40"), "{big}");
    let cut = dig(client, "@192.0.2.10 +ignore +noedns big.example.net TXT");
    assert!(cut.contains("flags: qr tc rd ra"), "{cut}");
    drop(upstream);
}

#[test]
fn dnsperf_loses_no_question() {
    let rack = Rack::new(2);
    let _upstream = dnsmasq(&rack.hosts[1]);
    let server = Server::start(
        &rack.hosts[0],
        &format!(
            "{{listen: [{NODE}], domain: c1.test, api: [192.0.2.5], ingress: [192.0.2.6], upstreams: [192.0.2.11]}}"
        ),
    );
    let folder = tempfile::tempdir().unwrap();
    let questions = folder.path().join("questions");
    let lines = |n| format!("api.c1.test A\nx{n}.apps.c1.test AAAA\nw{n}.example.org A\n");
    let text: Vec<String> = (0..100).map(lines).collect();
    std::fs::write(&questions, text.concat()).unwrap();
    let report = run(
        &rack.hosts[1],
        "dnsperf",
        &[
            "-s",
            NODE,
            "-d",
            questions.to_str().unwrap(),
            "-n",
            "20",
            "-q",
            "50",
            "-c",
            "4",
        ],
    );
    assert!(
        report.contains("Queries completed:    6000 (100.00%)"),
        "{report}"
    );
    assert!(report.contains("NOERROR 6000 (100.00%)"), "{report}");
    let counts = server.status().counts;
    assert!(
        counts["cached"] >= 1500 && counts["local"] == 4000,
        "{counts:?}"
    );
}
