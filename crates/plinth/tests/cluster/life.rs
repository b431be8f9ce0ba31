//! From powered-off servers to a cluster that loses masters and gains workers.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{PLINTH, said, str_of};
use crate::site::{API_VIP, Cluster, INGRESS_VIP, Way, is_true, name, server};

const MASTERS: [&str; 3] = ["master-0", "master-1", "master-2"];

/// Emulated processors share two real ones.
const SOON: Duration = Duration::from_mins(1);
const BOOT: Duration = Duration::from_mins(5);
const PROVISION: Duration = Duration::from_mins(8);

/// Asks the API through its address ten times a second, however long answers take, and prints the longest time without one.
const PROBE: &str = r#"
import http.client, ssl, sys, threading, time
context = ssl._create_unverified_context()
answered = [time.monotonic()]
def ask():
    connection = http.client.HTTPSConnection(sys.argv[1], 6443, timeout=2, context=context)
    try:
        connection.request("GET", "/readyz")
        if connection.getresponse().status == 200:
            answered.append(time.monotonic())
    except Exception:
        pass
    finally:
        connection.close()
end, asked = time.monotonic() + float(sys.argv[2]), []
while time.monotonic() < end:
    asked.append(threading.Thread(target=ask))
    asked[-1].start()
    time.sleep(0.1)
for thread in asked:
    thread.join()
answered.sort()
print(max(b - a for a, b in zip(answered, answered[1:] + [end])))
"#;

/// Asks both ports of the API's address, and prints to which other addresses its holder opens connections for that.
const SPREAD: &str = r#"
import http.client, json, socket, ssl, struct, sys, threading, time
context = ssl._create_unverified_context()
vip, rounds = sys.argv[1], 8
seen = set()
def listen():
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    while True:
        frame = wire.recv(128)
        if frame[12:14] != b"\x08\x00" or frame[23] != 6:
            continue
        tcp = 14 + (frame[14] & 15) * 4
        to, port = socket.inet_ntoa(frame[30:34]), struct.unpack("!H", frame[tcp + 2:tcp + 4])[0]
        if frame[tcp + 13] & 0x12 == 0x02 and to != vip and port in (6443, 22623):
            seen.add((port, to))
threading.Thread(target=listen, daemon=True).start()
for path, port in (("/readyz", 6443), ("/healthz", 22623)) * rounds:
    connection = http.client.HTTPSConnection(vip, port, timeout=10, context=context)
    connection.request("GET", path)
    assert connection.getresponse().status == 200, (port, path)
    connection.close()
print(json.dumps(sorted(seen)))
"#;

#[test]
fn a_rack_becomes_a_cluster_that_loses_masters_and_gains_workers() {
    let rack = ["--masters", "3", "--workers", "1", "--servers", "5"];
    let cluster = Cluster::install(&rack, Way::Smooth);

    let mut ready = cluster.ready();
    ready.sort();
    // Which of the hosts becomes the worker is nobody's business.
    assert_eq!(ready[..3], MASTERS, "{ready:?}");
    assert!(
        ready.len() == 4 && ready[3].starts_with("worker-"),
        "{ready:?}"
    );
    let running = |machine: &Value| machine["status"]["phase"] == "Running";
    cluster.wait_for("every Machine to run", SOON, || {
        let machines = cluster.get("machines");
        machines.len() == 4 && machines.iter().all(running)
    });
    stands_by_itself(&cluster);
    // What stands in for a router says so.
    assert_eq!(
        http_code(&cluster, &format!("http://{INGRESS_VIP}/")),
        "503"
    );

    // The same command again finds nothing to do.
    cluster.lab.ok(&["up", "--name", &cluster.lab.name]);

    // The node that provisions is lost, BMC and all, while it writes a worker, and the worker comes all the same.
    cluster.scale(2);
    cluster.wait_for("the second worker to be written", PROVISION, || {
        let hosts = cluster.get("baremetalhosts");
        let written = |host: &Value| host["status"]["provisioning"]["state"] == "provisioning";
        hosts.iter().any(written)
    });
    let lost = cluster.metal3_on();
    cluster
        .lab
        .ok(&["fault", "add", &server(&lost), "bmc-down"]);
    cluster.power(&lost, "off");
    cluster.wait_for("a second worker", PROVISION, || {
        let ready = cluster.ready();
        ["worker-0", "worker-1"].map(|worker| ready.iter().any(|node| node == worker)) == [true; 2]
    });
    cluster.lab.ok(&["fault", "clear", &server(&lost)]);
    cluster.power(&lost, "on");
    all_masters(&cluster);

    // The node that has the API's address is lost, and comes back.
    let lost = cluster.vip_on();
    let gap = moves(&cluster, &lost);
    println!("the API did not answer for {gap:.3} s");
    assert!(gap < 1.0, "{gap} s without the API");

    // The other two are a quorum, which a write needs: one worker less. Its host is free, clean and off.
    cluster.scale(1);
    cluster.power(&lost, "on");
    cluster.wait_for("one worker to be given back", PROVISION, || {
        let hosts = cluster.get("baremetalhosts");
        let free = hosts.iter().any(|host| {
            host["status"]["provisioning"]["state"] == "available"
                && host["status"]["poweredOn"] == false
        });
        let nodes = cluster.get("nodes");
        free && nodes.len() == 4
    });
    all_masters(&cluster);
    everything_is_gathered(&cluster);
}

#[test]
fn by_virtual_media_an_install_that_is_cut_off_at_every_step_ends_in_a_cluster_all_the_same() {
    let rack = [
        "--mode",
        "virtual-media",
        "--masters",
        "3",
        "--workers",
        "0",
    ];
    let cluster = Cluster::install(&rack, Way::Rough);

    let mut ready = cluster.ready();
    ready.sort();
    assert_eq!(ready, MASTERS);
    all_masters(&cluster);
    stands_by_itself(&cluster);
    let lost = cluster.vip_on();
    let gap = moves(&cluster, &lost);
    println!("the API did not answer for {gap:.3} s");
    assert!(gap < 1.0, "{gap} s without the API");
}

/// The bootstrap is gone, and all that a client of the API needs is on the masters.
fn stands_by_itself(cluster: &Cluster) {
    let disk = cluster.lab.dir().join("site/bootstrap/disk.qcow2");
    assert!(!disk.exists(), "the bootstrap VM is still here");
    assert!(MASTERS.contains(&cluster.vip_on().as_str()));
    names_are_answered(cluster);
    ports_answer(cluster);
    ports_are_spread(cluster);
}

/// From every node, what its daemons said and which packets it counted.
fn everything_is_gathered(cluster: &Cluster) {
    let archive = cluster.lab.dir().join("gathered.tar.gz");
    let archive = archive.to_str().unwrap();
    let site = cluster.lab.dir().join("site");
    let dir = site.to_str().unwrap();
    let gather = [PLINTH, "gather", "--dir", dir, "--output", archive];
    said(&cluster.lab.try_exec(&gather));
    let list = Command::new("tar")
        .args(["-tzf", archive])
        .output()
        .unwrap();
    let files = said(&list);
    for (node, _) in cluster.addresses() {
        for file in ["plinth-netd.log", "plinth-node.log", "counters.txt"] {
            let file = format!("nodes/{node}/{file}");
            assert!(files.contains(&file), "{file} is not among {files}");
        }
    }
}

/// Cuts the power of whoever has the API's address: how long nobody answers there.
fn moves(cluster: &Cluster, holder: &str) -> f64 {
    let probe = ["exec", "--", "python3", "-c", PROBE, API_VIP, "20"];
    let mut probe = cluster.lab.command(&probe);
    let mut probe = probe.stdout(Stdio::piped()).spawn().unwrap();
    cluster.power(holder, "off");
    let mut printed = String::new();
    probe
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut printed)
        .unwrap();
    assert!(probe.wait().unwrap().success());
    assert_ne!(cluster.vip_on(), holder);
    printed.trim().parse().unwrap()
}

fn all_masters(cluster: &Cluster) {
    cluster.wait_for("three masters with their etcd and API", BOOT, || {
        let nodes = cluster.get("nodes");
        let all = ["Ready", "APIServerReady", "EtcdMemberReady"];
        let well = |node: &&Value| {
            name(node).starts_with("master") && all.iter().all(|kind| is_true(node, kind))
        };
        nodes.iter().filter(well).count() == 3
    });
}

/// Every node answers for the cluster's names at its own address.
fn names_are_answered(cluster: &Cluster) {
    let domain = format!("{0}.{0}.test", cluster.lab.name);
    let nodes = cluster.addresses();
    for (node, server) in &nodes {
        let server = format!("@{server}");
        let look_up = |name: &str| {
            let name = format!("{name}.{domain}");
            said(
                &cluster
                    .lab
                    .try_exec(&["dig", "+short", "+time=5", &server, &name]),
            )
        };
        for (name, address) in [
            ("api", API_VIP),
            ("api-int", API_VIP),
            ("shop.apps", INGRESS_VIP),
        ] {
            assert_eq!(look_up(name), address, "{name} at {node}");
        }
        for (name, address) in &nodes {
            assert_eq!(look_up(name), *address, "{name} at {node}");
        }
    }
}

/// Whoever has the address shares its clients with both other masters.
fn ports_are_spread(cluster: &Cluster) {
    let probe = ["python3", "-c", SPREAD, API_VIP];
    let printed = said(&cluster.lab.try_exec(&probe));
    let seen: Vec<(u16, String)> = serde_json::from_str(&printed).unwrap_or_default();
    let holder = cluster.vip_on();
    for port in [6443, 22623] {
        for (node, address) in cluster.addresses() {
            let other = node.starts_with("master") && node != holder;
            let there = seen.contains(&(port, address));
            assert!(
                there || !other,
                "port {port} never leads to {node}: {printed}"
            );
        }
    }
}

fn ports_answer(cluster: &Cluster) {
    for url in [
        format!("https://{API_VIP}:6443/readyz"),
        format!("https://{API_VIP}:22623/healthz"),
    ] {
        assert_eq!(http_code(cluster, &url), "200", "{url}");
    }
    let version = said(&cluster.kubectl(&["version", "-o", "json"]));
    let version: Value = serde_json::from_str(&version).unwrap();
    assert!(str_of(&version["serverVersion"]["gitVersion"]).contains("plinth"));
}

fn http_code(cluster: &Cluster, url: &str) -> String {
    let ask = [
        "curl",
        "-skm",
        "10",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        url,
    ];
    said(&cluster.lab.try_exec(&ask))
}
