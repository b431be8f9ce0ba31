//! The site's DHCP and DNS, asked by the programs that real machines ask with.
//!
//! ```text
//!   [router]  br0 10.77.0.1/24 ── port0 ═══ eth0 [client]
//!                              └─ port1 ═══ eth0 [stranger]
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::site::{Config, DnsConfig, Site};
use linux::addr::Want;
use linux::frame::Datagram;
use linux::netlink::Netlink;
use linux::netns::Host;
use linux::packet;
use model::Mac;
use protocols::dhcp::client;
use protocols::dhcp::server::{Config as DhcpConfig, Known};
use protocols::dns::Data;
use tempfile::TempDir;

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const PATIENCE: Duration = Duration::from_secs(20);

/// The router, its machines and a folder; everything goes when dropped.
struct Net {
    router: Host,
    machines: Vec<Host>,
    folder: TempDir,
}

impl Net {
    fn new(machines: usize) -> Self {
        for program in ["ip", "udhcpc", "dhclient", "dig"] {
            let found = Command::new("sh")
                .args(["-c", &format!("command -v {program}")])
                .stdout(Stdio::null())
                .status();
            assert!(
                found.is_ok_and(|status| status.success()),
                "this test needs the program {program}; `cargo xtask deps` installs it"
            );
        }
        let router = Host::new("router").expect("network namespaces need root");
        let machines: Vec<Host> = (0..machines)
            .map(|n| Host::new(&format!("machine{n}")).unwrap())
            .collect();
        for (n, machine) in machines.iter().enumerate() {
            router.cable(&format!("port{n}"), machine, "eth0").unwrap();
        }
        let ports = machines.len();
        router.run(move || async move {
            let netlink = Netlink::connect().unwrap();
            netlink.ensure_bridge("br0").await.unwrap();
            for n in 0..ports {
                netlink
                    .set_master(&format!("port{n}"), Some("br0"))
                    .await
                    .unwrap();
            }
            netlink.set_up("br0").await.unwrap();
            netlink
                .ensure_address("br0", Want::new("10.77.0.1/24".parse().unwrap()))
                .await
                .unwrap();
        });
        let net = Self {
            router,
            machines,
            folder: tempfile::tempdir().unwrap(),
        };
        net.script();
        net
    }

    fn config(&self) -> Config {
        let pool = Ipv4Addr::new(10, 77, 0, 50)..=Ipv4Addr::new(10, 77, 0, 59);
        let mut dhcp = DhcpConfig::new(ROUTER, "10.77.0.0/24".parse().unwrap(), vec![pool]);
        dhcp.options.router = Some(ROUTER);
        dhcp.options.dns = vec![ROUTER];
        dhcp.options.domain = Some("lab.test".into());
        Config {
            link: "br0".into(),
            dhcp,
            dns: DnsConfig {
                address: ROUTER,
                domain: "lab.test".into(),
                records: vec![
                    (
                        "api.c1.lab.test".into(),
                        Data::A(Ipv4Addr::new(10, 77, 0, 5)),
                    ),
                    (
                        "*.apps.c1.lab.test".into(),
                        Data::A(Ipv4Addr::new(10, 77, 0, 6)),
                    ),
                ],
                upstreams: Vec::new(),
            },
            leases: self.file("leases.redb"),
        }
    }

    fn start(&self, config: Config) -> Site {
        self.router.run(|| Site::start(config)).unwrap()
    }

    fn stop(&self, site: Site) {
        self.router.run(|| site.stop());
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a DHCP client runs when something happens: puts the address on the link and writes a line.
    fn script(&self) {
        let text = "#!/bin/sh\n\
            case \"$1\" in\n\
            bound|renew) ip addr replace \"$ip/$mask\" dev \"$interface\" ;;\n\
            deconfig) ip -4 addr flush dev \"$interface\"; ip link set \"$interface\" up ;;\n\
            esac\n\
            echo \"$1 $ip $router $dns $domain $lease\" >> \"$(dirname \"$0\")/log\"\n";
        fs::write(self.file("udhcpc.sh"), text).unwrap();
        let text = "#!/bin/sh\necho \"$reason $new_ip_address $new_host_name\" >> \"$(dirname \"$0\")/log\"\n\
            case \"$reason\" in PREINIT) ip link set \"$interface\" up ;; esac\n";
        fs::write(self.file("dhclient.sh"), text).unwrap();
        for name in ["udhcpc.sh", "dhclient.sh"] {
            fs::set_permissions(self.file(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn udhcpc(&self, machine: usize, arguments: &[&str]) -> Running {
        let mut command = self.machines[machine].command("udhcpc");
        command
            .args(["-f", "-i", "eth0", "-t", "10", "-T", "1", "-s"])
            .arg(self.file("udhcpc.sh"))
            .args(arguments);
        Running::start(command)
    }

    /// Waits for a line of the client's script that starts so, and gives its words.
    fn line(&self, start: &str) -> Vec<String> {
        let path = self.file("log");
        until(&format!("a line {start:?}"), || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let line = text.lines().rev().find(|line| line.starts_with(start));
            line.map(|line| line.split_whitespace().map(str::to_owned).collect())
                .ok_or(text)
        })
    }

    fn dig(&self, machine: usize, arguments: &[&str]) -> String {
        let output = self.machines[machine]
            .command("dig")
            .args(["@10.77.0.1", "+time=3", "+tries=1"])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A child that is killed when dropped.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Self {
        Self(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .args(["-s", name, &self.0.id().to_string()])
            .status()
            .unwrap();
        assert!(done.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks until there is something; says what was there instead when patience ends.
fn until<T, E: std::fmt::Debug>(what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(last) if Instant::now() > end => panic!("waited for {what}; last seen: {last:?}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn is_leased(site: &Site, address: &str) -> bool {
    site.leases()
        .iter()
        .any(|lease| lease.address.to_string() == address)
}

fn give_address(machine: &Host, address: &'static str) {
    machine.run(move || async move {
        let want = Want::new(address.parse().unwrap());
        Netlink::connect()
            .unwrap()
            .ensure_address("eth0", want)
            .await
            .unwrap();
    });
}

#[test]
fn udhcpc_gets_an_address_renews_it_and_gives_it_back() {
    let net = Net::new(1);
    let site = net.start(net.config());
    let client = net.udhcpc(0, &["-R", "-x", "hostname:worker-0"]);
    let bound = net.line("bound");
    let address = bound[1].as_str();
    assert_eq!(bound[2..], ["10.77.0.1", "10.77.0.1", "lab.test", "3600"]);
    assert!(is_leased(&site, address), "{:?}", site.leases());
    let first = site.leases()[0].clone();
    assert_eq!(first.hostname.as_deref(), Some("worker-0"));

    client.signal("USR1");
    assert_eq!(net.line("renew")[1], address);
    until("a later end of the lease", || match &site.leases()[..] {
        [lease] if lease.expires > first.expires => Ok(()),
        other => Err(other.to_vec()),
    });

    client.signal("USR2");
    until("no lease", || {
        if site.leases().is_empty() {
            Ok(())
        } else {
            Err(site.leases())
        }
    });
    net.stop(site);
}

#[test]
fn dhclient_gets_its_reserved_address_and_releases_it() {
    let net = Net::new(1);
    let mac = net.machines[0].run(|| async {
        Netlink::connect()
            .unwrap()
            .link("eth0")
            .await
            .unwrap()
            .mac
            .unwrap()
    });
    let mut config = net.config();
    let fixed = Ipv4Addr::new(10, 77, 0, 200);
    config.dhcp.known.insert(
        mac,
        Known {
            hostname: Some("master-0".into()),
            address: Some(fixed),
            ..Known::default()
        },
    );
    config.dhcp.known_only = true;
    let site = net.start(config);
    let dhclient = |arguments: &[&str]| {
        let mut command = net.machines[0].command("dhclient");
        command
            .args(["-4", "-d", "-1", "-sf"])
            .arg(net.file("dhclient.sh"))
            .arg("-lf")
            .arg(net.file("dhclient.leases"));
        command
            .arg("-pf")
            .arg(net.file("dhclient.pid"))
            .args(arguments)
            .arg("eth0");
        command
    };
    let client = Running::start(dhclient(&[]));
    assert_eq!(net.line("BOUND")[1..], ["10.77.0.200", "master-0"]);
    assert!(is_leased(&site, "10.77.0.200"));
    give_address(&net.machines[0], "10.77.0.200/24");
    // It tells its script first and notes the lease afterwards; what is not noted is not released.
    until("dhclient's note of its lease", || {
        let noted = fs::read_to_string(net.file("dhclient.leases")).unwrap_or_default();
        if noted.contains("10.77.0.200") && noted.ends_with("}\n") {
            Ok(())
        } else {
            Err(noted)
        }
    });
    drop(client);
    let mut release = Running::start(dhclient(&["-r"]));
    assert!(release.0.wait().unwrap().success());
    until("no lease", || {
        if site.leases().is_empty() {
            Ok(())
        } else {
            Err(site.leases())
        }
    });
    net.stop(site);
}

#[test]
fn a_server_killed_after_it_acknowledged_knows_the_lease_when_it_is_back() {
    let net = Net::new(1);
    let site = net.start(net.config());
    let client = net.udhcpc(0, &["-x", "hostname:worker-0"]);
    let address = net.line("bound")[1].clone();
    // What a killed process leaves is what the file and its log hold at that moment.
    for end in ["", ".log"] {
        let (from, to) = (format!("leases.redb{end}"), format!("survivor.redb{end}"));
        fs::copy(net.file(&from), net.file(&to)).unwrap();
    }
    drop(site);
    let site = until("the ports to be free again", || {
        let config = Config {
            leases: net.file("survivor.redb"),
            ..net.config()
        };
        net.router
            .run(|| Site::start(config))
            .map_err(|error| format!("{error:?}"))
    });
    assert!(is_leased(&site, &address), "{:?}", site.leases());
    assert_eq!(net.dig(0, &["+short", "worker-0.lab.test"]).trim(), address);
    let before = site.leases()[0].expires;
    client.signal("USR1");
    assert_eq!(net.line("renew")[1], address);
    until("a renewed lease", || {
        if site.leases()[0].expires > before {
            Ok(())
        } else {
            Err(site.leases())
        }
    });
    net.stop(site);
}

#[test]
fn an_address_that_a_stranger_uses_is_not_given_out() {
    let net = Net::new(2);
    give_address(&net.machines[1], "10.77.0.52/24");
    let site = net.start(net.config());
    let _client = net.udhcpc(0, &["-r", "10.77.0.52"]);
    let address = net.line("bound")[1].clone();
    assert_ne!(address, "10.77.0.52");
    net.stop(site);
}

#[test]
fn a_wish_for_an_address_nobody_uses_is_granted_by_broadcast_if_so_wished() {
    let net = Net::new(2);
    let site = net.start(net.config());
    let _client = net.udhcpc(0, &["-B", "-r", "10.77.0.52"]);
    assert_eq!(net.line("bound")[1], "10.77.0.52");
    net.stop(site);
}

#[test]
fn fifty_machines_switched_on_at_once_have_fifty_addresses_before_anyone_asks_twice() {
    let net = Net::new(1);
    let mut config = net.config();
    config.dhcp.pools = vec![Ipv4Addr::new(10, 77, 0, 50)..=Ipv4Addr::new(10, 77, 0, 99)];
    let site = net.start(config);
    let (addresses, took) = net.machines[0].run(|| boot_at_once(50));
    assert_eq!(addresses.len(), 50);
    println!("fifty addresses took {took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(site.leases().len(), 50);
    net.stop(site);
}

/// So many DHCP clients on one cable, until each has an address.
async fn boot_at_once(count: u8) -> (BTreeSet<Ipv4Addr>, Duration) {
    let link = Netlink::connect().unwrap().link("eth0").await.unwrap();
    let listen = packet::Listen::EtherType(packet::ETHERTYPE_IPV4);
    let options = packet::Options {
        listen,
        promiscuous: true,
    };
    let socket = packet::Socket::open(link.index, options).unwrap();
    let begun = Instant::now();
    let mut clients = BTreeMap::new();
    let mut addresses = BTreeSet::new();
    for n in 0..count {
        let mac = Mac([2, 0, 0, 0, 1, n]);
        let config = client::Config {
            mac,
            client_id: None,
            hostname: None,
            broadcast: false,
            pxe: None,
            retry: client::Retry::default(),
            seed: n.into(),
        };
        let mut client = client::Client::new(config);
        let actions = client.handle(Instant::now(), client::Event::Start);
        say(&socket, mac, actions, &mut addresses).await;
        clients.insert(mac, client);
    }
    let mut frame = [0; 2048];
    while addresses.len() < usize::from(count) {
        let received = tokio::time::timeout(PATIENCE, socket.receive(&mut frame)).await;
        let received = received
            .unwrap_or_else(|_| panic!("only {} have an address", addresses.len()))
            .unwrap();
        let Ok(datagram) = Datagram::parse(&frame[..received.len], received.checksum) else {
            continue;
        };
        let Some(client) = clients
            .get_mut(&datagram.to_mac)
            .filter(|_| datagram.to.port() == 68)
        else {
            continue;
        };
        let actions = client.handle(
            Instant::now(),
            client::Event::Packet {
                bytes: datagram.payload,
            },
        );
        say(&socket, datagram.to_mac, actions, &mut addresses).await;
    }
    (addresses, begun.elapsed())
}

async fn say(
    socket: &packet::Socket,
    mac: Mac,
    actions: Vec<client::Action>,
    addresses: &mut BTreeSet<Ipv4Addr>,
) {
    for action in actions {
        match action {
            client::Action::Send { bytes, .. } => {
                let datagram = Datagram {
                    from_mac: mac,
                    to_mac: Mac::BROADCAST,
                    from: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68),
                    to: SocketAddrV4::new(Ipv4Addr::BROADCAST, 67),
                    payload: &bytes,
                };
                socket.send(&datagram.encode().unwrap()).await.unwrap();
            }
            client::Action::Bound(lease) => {
                addresses.insert(lease.address);
            }
            client::Action::Lost(why) => panic!("{mac}: {why:?}"),
        }
    }
}

#[test]
fn dig_gets_addresses_names_and_honest_denials() {
    let net = Net::new(1);
    let site = net.start(net.config());
    let client = net.udhcpc(0, &["-R", "-x", "hostname:worker-0"]);
    let address = net.line("bound")[1].clone();

    assert_eq!(net.dig(0, &["+short", "worker-0.lab.test"]).trim(), address);
    assert_eq!(
        net.dig(0, &["+short", "+tcp", "WORKER-0.lab.test"]).trim(),
        address
    );
    assert_eq!(
        net.dig(0, &["+short", "-x", &address]).trim(),
        "worker-0.lab.test."
    );
    assert_eq!(
        net.dig(0, &["+short", "-x", "10.77.0.1"]).trim(),
        "router.lab.test."
    );
    assert_eq!(
        net.dig(0, &["+short", "api.c1.lab.test"]).trim(),
        "10.77.0.5"
    );
    assert_eq!(
        net.dig(0, &["+short", "console.apps.c1.lab.test"]).trim(),
        "10.77.0.6"
    );
    let nodata = net.dig(0, &["AAAA", "api.c1.lab.test"]);
    assert!(
        nodata.contains("status: NOERROR")
            && nodata.contains("ANSWER: 0, AUTHORITY: 1")
            && nodata.contains("SOA"),
        "{nodata}"
    );
    let unknown = net.dig(0, &["nobody.lab.test"]);
    assert!(
        unknown.contains("status: NXDOMAIN") && unknown.contains("SOA"),
        "{unknown}"
    );
    let elsewhere = net.dig(0, &["example.org"]);
    assert!(elsewhere.contains("status: SERVFAIL"), "{elsewhere}");

    client.signal("USR2");
    until("no lease", || {
        if site.leases().is_empty() {
            Ok(())
        } else {
            Err(site.leases())
        }
    });
    // From the router: the client has no address any more.
    let asked = net
        .router
        .command("dig")
        .args(["@10.77.0.1", "worker-0.lab.test"])
        .output();
    let gone = String::from_utf8(asked.unwrap().stdout).unwrap();
    assert!(gone.contains("status: NXDOMAIN"), "{gone}");
    net.stop(site);
}

#[test]
fn names_of_elsewhere_are_asked_upstream_and_fail_when_it_is_silent() {
    let net = Net::new(2);
    give_address(&net.machines[0], "10.77.0.9/24");
    give_address(&net.machines[1], "10.77.0.2/24");
    let mut far = net.config();
    far.link = "eth0".into();
    far.dhcp = DhcpConfig {
        known_only: true,
        ..DhcpConfig::new(Ipv4Addr::new(10, 77, 0, 2), far.dhcp.subnet, Vec::new())
    };
    far.dns.address = Ipv4Addr::new(10, 77, 0, 2);
    far.dns.domain = "far.test".into();
    far.dns.records = (1..=120)
        .map(|n| {
            (
                "big.far.test".to_owned(),
                Data::A(Ipv4Addr::new(192, 0, 2, n)),
            )
        })
        .collect();
    far.leases = net.file("far.redb");
    let upstream = net.machines[1].run(|| Site::start(far)).unwrap();
    let mut config = net.config();
    config.dns.upstreams = vec![SocketAddr::from(([10, 77, 0, 2], 53))];
    let site = net.start(config);

    assert_eq!(
        net.dig(0, &["+short", "router.far.test"]).trim(),
        "10.77.0.2"
    );
    let big = net.dig(0, &["+short", "+tcp", "big.far.test"]);
    assert_eq!(
        big.lines().count(),
        120,
        "a truncated answer is fetched by TCP"
    );

    net.machines[1].run(|| upstream.stop());
    let silent = net.dig(0, &["+time=9", "router.far.test"]);
    assert!(silent.contains("status: SERVFAIL"), "{silent}");
    net.stop(site);
}

#[test]
fn a_site_that_cannot_start_says_why() {
    let net = Net::new(1);
    let missing = Config {
        link: "br9".into(),
        ..net.config()
    };
    let error = net.router.run(|| Site::start(missing)).unwrap_err();
    let error = model::chain(&error);
    assert!(error.contains("br9"), "{error}");
    let mut wrong = net.config();
    wrong.dns.address = Ipv4Addr::new(192, 0, 2, 1);
    let error = net.router.run(|| Site::start(wrong)).unwrap_err();
    assert!(error.to_string().contains("192.0.2.1:53"), "{error}");
}
