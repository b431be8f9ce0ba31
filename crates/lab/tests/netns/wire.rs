//! The cables that simulated servers share, seen by the kernel.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lab::hardware::Network;
use lab::server::sim::wire::Wire;
use linux::netlink::Netlink;
use linux::netns::Host;
use protocols::dhcp::client::Lease;

fn lease(last: u8) -> Lease {
    let hour = Duration::from_hours(1);
    Lease {
        address: Ipv4Addr::new(172, 22, 0, last),
        prefix: 24,
        server: Ipv4Addr::new(172, 22, 0, 2),
        router: None,
        dns: vec![],
        domain: None,
        ntp: vec![],
        hostname: None,
        mtu: None,
        next_server: None,
        boot_file: None,
        lease: hour,
        renew: hour / 2,
        rebind: hour,
    }
}

/// Servers are switched off in any order, the first of a subnet as well: the kernel's primary address of it.
#[test]
fn a_server_that_gives_its_address_back_takes_no_other_servers_away_even_for_a_moment() {
    let host = Host::new("sim").expect("network namespaces need root");
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("monitor");
    let wire = Arc::new(host.run(plug));
    for last in [10, 11, 12] {
        take(&host, &wire, last);
    }
    let mut monitor = host
        .command("ip")
        .args(["-4", "monitor", "route", "address"])
        .stdin(Stdio::null())
        .stdout(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    // It listens once it has seen something.
    let mut last = 100;
    wait("the monitor to listen", &log, |text| {
        take(&host, &wire, last);
        last += 1;
        text.contains("172.22.0.1")
    });
    let first = Arc::clone(&wire);
    host.run(move || async move { first.give_back(Network::Provisioning, &lease(10)).await });
    take(&host, &wire, 250);
    let text = wait("the last address", &log, |text| {
        text.contains("172.22.0.250")
    });
    _ = monitor.kill();
    _ = monitor.wait();
    let deleted = |address: &str| {
        let about = format!("local {address} ");
        let gone = |line: &&str| line.contains("Deleted") && line.contains(&about);
        text.lines().filter(gone).count()
    };
    assert_eq!(deleted("172.22.0.10"), 1, "{text}");
    assert_eq!(deleted("172.22.0.11") + deleted("172.22.0.12"), 0, "{text}");
}

async fn plug() -> Wire {
    let netlink = Netlink::connect().unwrap();
    for network in Network::ALL {
        netlink.ensure_bridge(network.bridge()).await.unwrap();
        netlink.set_up(network.bridge()).await.unwrap();
    }
    Wire::plug(&netlink).await.unwrap()
}

fn take(host: &Host, wire: &Arc<Wire>, last: u8) {
    let wire = Arc::clone(wire);
    host.run(move || async move {
        let taken = wire.take(Network::Provisioning, &lease(last)).await;
        taken.unwrap();
    });
}

fn wait(what: &str, log: &Path, mut so: impl FnMut(&str) -> bool) -> String {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read_to_string(log).unwrap();
        if so(&text) {
            return text;
        }
        assert!(Instant::now() < end, "waited for {what}; last seen: {text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
