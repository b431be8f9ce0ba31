//! The decoders, and the machines behind them.

use std::io::{Cursor, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant, SystemTime};

use model::Mac;
use model::root_device::Hints;
use protocols::{dhcp, dhcp6, dns, ipmi, mdns, tftp, vrrp};

use crate::Target;

/// All of them.
pub const ALL: &[Target] = &[
    Target {
        name: "dhcp",
        run: dhcp_any,
        seeds: dhcp_seeds,
    },
    Target {
        name: "dns",
        run: dns_any,
        seeds: dns_seeds,
    },
    Target {
        name: "dhcp6",
        run: dhcp6_any,
        seeds: || {
            vec![
                // Solicit: client id, IA_NA, option request, vendor class, architecture.
                vec![
                    1, 1, 2, 3, 0, 1, 0, 10, 0, 3, 0, 1, 0x52, 0x54, 0, 0, 0, 1, 0, 3, 0, 12, 0, 0,
                    0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 4, 0, 59, 0, 60, 0, 61, 0, 2, 0, 7,
                ],
                // Request with an address inside, and another server's id.
                vec![
                    3, 1, 2, 3, 0, 1, 0, 10, 0, 3, 0, 1, 0x52, 0x54, 0, 0, 0, 1, 0, 2, 0, 4, 0, 3,
                    0, 1, 0, 3, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 24, 0xfd, 0, 0,
                    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 9,
                ],
            ]
        },
    },
    Target {
        name: "mdns",
        run: mdns_any,
        seeds: mdns_seeds,
    },
    Target {
        name: "efi",
        run: |bytes| {
            _ = agent::efi::LoadOption::decode(bytes);
            _ = agent::efi::decode_order(bytes);
        },
        seeds: || {
            vec![vec![
                1, 0, 0, 0, 4, 0, b'O', 0, b'S', 0, 0, 0, 0x7f, 0xff, 4, 0,
            ]]
        },
    },
    Target {
        name: "kernel-line",
        run: |bytes| _ = agent::parameters::Parameters::parse(&String::from_utf8_lossy(bytes)),
        seeds: || {
            texts(&[
                "console=ttyS0 ipa-api-url=http://172.22.0.2:6385,https://[fd00::1]:6385 ipa-inspection-callback-url=http://h/v1 BOOTIF=01-52-54-00-00-00-01",
                "ip=192.0.2.5::192.0.2.1:255.255.255.0:host:eth0:none ipa-agent-token=abc ipa-lookup-timeout=5 a=\"b c\"",
            ])
        },
    },
    Target {
        name: "frame",
        run: |bytes| {
            _ = linux::frame::Datagram::parse(bytes, linux::frame::Checksum::Verify);
            _ = linux::frame::Datagram::parse(bytes, linux::frame::Checksum::NotReady);
        },
        seeds: frame_seeds,
    },
    Target {
        name: "ipmi",
        run: ipmi_any,
        seeds: ipmi_seeds,
    },
    Target {
        name: "ipxe-script",
        run: ipxe_script,
        seeds: || {
            texts(&[
                "#!ipxe\n:again\nkernel http://h/k a=${net0/mac} initrd=i || goto again\ninitrd --name i http://h/i\nboot || exit\n",
                "#!ipxe\nset i:int32 0\nisset ${net${i}/mac} || goto end\nchain cfg/${mac:hexhyp} ||\ninc i\n:end sleep 3\nreboot\n",
                "#!ipxe\nsanboot --no-describe --drive 0x80 || exit 0\n",
            ])
        },
    },
    Target {
        name: "iso",
        run: |bytes| {
            _ = media::iso::find("boot/grub/grub.cfg", |offset, buffer| {
                let mut source = Cursor::new(bytes);
                source.set_position(offset);
                source.read_exact(buffer)
            });
        },
        seeds: iso_seeds,
    },
    Target {
        name: "config-drive",
        run: |bytes| _ = media::config_drive::unpack(bytes),
        seeds: || texts(&["aGVsbG8=", "H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA=="]),
    },
    Target {
        name: "qcow2",
        run: qcow2,
        seeds: qcow2_seeds,
    },
    Target {
        name: "root-device-hints",
        run: |bytes| {
            if let Ok(written) = serde_json::from_slice(bytes) {
                _ = Hints::parse(&written);
            }
        },
        seeds: || {
            texts(&[
                r#"{"size": ">= 100", "model": "<in> ssd", "serial": "s== a", "rotational": false, "name": "/dev/sda"}"#,
                r#"{"wwn": "<or> 1 <or> 2", "hctl": "s== 0:0:0:0", "size": "<range-in> [ 10 20 ]", "vendor": "<all-in> a b"}"#,
            ])
        },
    },
    Target {
        name: "install-config",
        run: install_config,
        seeds: || {
            texts(&[
                include_str!("../../examples/single-node.yaml"),
                // Short ones: what is deep in a long file is seldom reached by a mutation.
                "platform: {baremetal: {hosts: [{name: a, networkConfig: {interfaces: [{name: bond0.7, type: vlan, vlan: {base-iface: bond0, id: 7}, ipv4: {enabled: true, address: [{ip: 192.0.2.21, prefix-length: 24}]}}, {name: bond0, type: bond, link-aggregation: {mode: 802.3ad, port: [eno1]}}], routes: {config: [{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond0.7}]}}}]}}\n",
                "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
                "platform: {baremetal: {hosts: [{bmc: {address: 'ipmi://[::1]:623'}}], apiVIPs: [::1, 192.0.2.5]}}\nmetadata: {name: x}\n",
            ])
        },
    },
    Target {
        name: "tftp",
        run: tftp_any,
        seeds: tftp_seeds,
    },
    Target {
        name: "vrrp",
        run: vrrp_any,
        seeds: || {
            vec![
                // v3 for 192.0.2.1 and for an IPv6 group; v2 with its authentication.
                vec![0x31, 51, 100, 1, 0, 100, 0, 0, 192, 0, 2, 1],
                [
                    &[0x31, 51, 100, 1, 0, 100, 0, 0][..],
                    &[0xfe, 0x80],
                    &[0; 13],
                    &[1],
                ]
                .concat(),
                [&[0x21, 51, 100, 1, 0, 1, 0, 0, 192, 0, 2, 1][..], &[0; 8]].concat(),
            ]
        },
    },
    Target {
        name: "checksum-file",
        run: |bytes| {
            let text = String::from_utf8_lossy(bytes);
            _ = agent::disk::checksum::Checksum::parse(&text);
            _ = agent::disk::checksum::Checksum::from_file(&text, "os.raw");
        },
        seeds: || {
            texts(&[
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  os.raw\n",
                "SHA256 (os.raw) = e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
            ])
        },
    },
];

fn texts(samples: &[&str]) -> Vec<Vec<u8>> {
    samples
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .collect()
}

const SERVER: Ipv4Addr = Ipv4Addr::new(172, 22, 0, 2);
const CLIENT: Mac = Mac([0x52, 0x54, 0, 0, 0, 1]);

/// Refused with problems that can be shown, or planned with nothing left to choose.
fn install_config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let facts = plan::install_config::Facts::default();
    _ = plan::install_config::asks_dns(&text);
    match plan::install_config::parse(&text, &facts) {
        Ok(resolved) => {
            let plan = plan::cluster::Plan::new(&resolved.config, None);
            _ = plan.render();
        }
        Err(refused) => {
            assert!(!refused.0.is_empty(), "refused without a reason");
            _ = refused.to_string();
        }
    }
}

fn dhcp_config() -> dhcp::client::Config {
    dhcp::client::Config {
        mac: CLIENT,
        client_id: None,
        hostname: None,
        broadcast: false,
        pxe: None,
        retry: dhcp::client::Retry::default(),
        seed: 7,
    }
}

/// A server with a small pool and a client in the midst of asking both read it.
fn dhcp_any(bytes: &[u8]) {
    let subnet = "172.22.0.0/24".parse().expect("a subnet");
    let pool = Ipv4Addr::new(172, 22, 0, 10)..=Ipv4Addr::new(172, 22, 0, 12);
    let config = dhcp::server::Config::new(SERVER, subnet, vec![pool]);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    if let Ok(mut server) = dhcp::server::Server::restore(now, config, []) {
        for _ in 0..2 {
            server.handle(now, dhcp::server::Event::Packet { bytes });
        }
    }
    let begin = Instant::now();
    let mut client = dhcp::client::Client::new(dhcp_config());
    client.handle(begin, dhcp::client::Event::Start);
    client.handle(begin, dhcp::client::Event::Packet { bytes });
}

fn dhcp_seeds() -> Vec<Vec<u8>> {
    let mut client = dhcp::client::Client::new(dhcp_config());
    let actions = client.handle(Instant::now(), dhcp::client::Event::Start);
    let mut seeds: Vec<Vec<u8>> = actions
        .into_iter()
        .filter_map(|action| match action {
            dhcp::client::Action::Send { bytes, .. } => Some(bytes),
            dhcp::client::Action::Bound(_) | dhcp::client::Action::Lost(_) => None,
        })
        .collect();
    // The same as an offer, and as a request from boot firmware.
    if let Some(discover) = seeds.first().cloned() {
        let mut offer = discover.clone();
        offer[0] = 2;
        offer.truncate(240);
        offer.extend([
            53, 1, 2, 54, 4, 172, 22, 0, 2, 51, 4, 0, 0, 14, 16, 1, 4, 255, 255, 255, 0, 255,
        ]);
        let mut boot = discover;
        boot.truncate(240);
        boot.extend([53, 1, 1, 60, 9]);
        boot.extend(b"PXEClient");
        boot.extend([93, 2, 0, 7, 94, 3, 1, 3, 16, 97, 17, 0]);
        boot.extend([7; 16]);
        boot.extend([175, 3, 19, 1, 1, 77, 4]);
        boot.extend(b"iPXE");
        boot.push(255);
        seeds.extend([offer, boot]);
    }
    seeds
}

fn dhcp6_any(bytes: &[u8]) {
    use dhcp6::server::{Config, Server};
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    let address = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
    let mut server = Server::new(Config {
        id: vec![0, 3, 0, 1],
        range: address(9)..=address(12),
        lease: Duration::from_hours(1),
        dns: vec![],
        boot: None,
        only: None,
    });
    for _ in 0..2 {
        server.handle(now, bytes, Ipv6Addr::LOCALHOST);
    }
    _ = protocols::ra::is_solicitation(bytes);
}

/// A node that looks and offers hears it from a neighbour.
fn mdns_any(bytes: &[u8]) {
    let config = mdns::Config {
        cluster: "ostest".into(),
        host: "master-0".into(),
        services: vec![mdns::Kind::Workstation],
        host_ttl: 120,
        service_ttl: 4500,
    };
    let now = Instant::now();
    let mut node = mdns::Node::new(config, 3);
    let own: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
    node.handle(
        now,
        mdns::Event::Addresses {
            publish: vec![own],
            own: vec![own],
        },
    );
    for port in [5353, 4000] {
        let from = ([192, 0, 2, 7], port).into();
        node.handle(now, mdns::Event::Heard { from, bytes });
        node.handle(now + Duration::from_secs(2), mdns::Event::Timer);
    }
}

fn mdns_seeds() -> Vec<Vec<u8>> {
    let name: &[u8] = b"\x08master-1\x05local\0";
    let address = [name, &[0, 1, 0x80, 1, 0, 0, 0, 120, 0, 4, 192, 0, 2, 7]].concat();
    let answer = [&[0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0][..], &address].concat();
    let browse: &[u8] =
        b"\0\0\0\0\0\x01\0\0\0\0\0\0\x0c_workstation\x04_tcp\x05local\0\0\x0c\0\x01";
    let probe = [
        &[0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0][..],
        name,
        &[0, 255, 0x80, 1],
        &address,
    ]
    .concat();
    vec![answer, browse.to_vec(), probe]
}

/// The node's side: the question, and an upstream's answer to one that is under way.
fn dns_node(bytes: &[u8], now: Instant) {
    use dns::forward::{Action, Asker, Config, Event, Forwarder};
    let upstream = (SERVER, 53).into();
    let config = Config {
        own: vec![],
        max_pending: 8,
        max_pending_per_client: 8,
        mixed_case: true,
    };
    let mut forwarder = Forwarder::new(config, [5; 32]);
    forwarder.handle(now, Event::Upstreams(vec![upstream]));
    if dns::Question::parse(bytes).is_err() {
        return;
    }
    let from = Asker::Udp {
        socket: 0,
        from: ([192, 0, 2, 1], 4000).into(),
    };
    let query = Event::Query {
        from,
        bytes,
        stale: false,
    };
    for action in forwarder.handle(now, query) {
        if let Action::Ask {
            ask, bytes: asked, ..
        } = action
        {
            for answer in [bytes, &asked[..]] {
                forwarder.handle(
                    now,
                    Event::Answer {
                        ask,
                        from: upstream,
                        bytes: answer,
                    },
                );
            }
        }
    }
}

fn dns_any(bytes: &[u8]) {
    dns_node(bytes, Instant::now());
    for seed in dns_seeds() {
        _ = dns::Stored::parse(&seed, bytes, true);
    }
    let upstream = (SERVER, 53).into();
    let zone = dns::Zone::new("cluster.example", "ns").expect("a zone");
    let mut resolver = dns::Resolver::new(vec![zone], vec![upstream], 3);
    let now = Instant::now();
    let from = dns::Asker::Udp(([192, 0, 2, 1], 4000).into());
    resolver.handle(now, dns::Event::Query { from, bytes });
    resolver.handle(
        now,
        dns::Event::UpstreamAnswer {
            from: upstream,
            bytes,
        },
    );
}

fn dns_seeds() -> Vec<Vec<u8>> {
    let question = |name: &[u8], kind: u8| {
        [
            &[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..],
            name,
            &[0, 0, kind, 0, 1],
        ]
        .concat()
    };
    let api: &[u8] = b"\x03api\x07cluster\x07example";
    let mut answer = question(api, 1);
    answer[2] = 0x81;
    answer[7] = 1;
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 192, 0, 2, 7]);
    // A name that points at itself.
    let mut circle = question(&[0xc0, 12], 1);
    circle[2] = 0x81;
    vec![
        question(api, 1),
        question(b"\x01x\x03org", 28),
        answer,
        circle,
    ]
}

fn frame_seeds() -> Vec<Vec<u8>> {
    let datagram = linux::frame::Datagram {
        from_mac: CLIENT,
        to_mac: Mac::BROADCAST,
        from: std::net::SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68),
        to: std::net::SocketAddrV4::new(Ipv4Addr::BROADCAST, 67),
        payload: b"payload",
    };
    datagram.encode().into_iter().collect()
}

/// A BMC and a console both read it.
fn ipmi_any(bytes: &[u8]) {
    use ipmi::bmc;
    let now = Instant::now();
    _ = ipmi::wire::Packet::decode(bytes);
    _ = ipmi::wire::message::Message::decode(bytes);
    let user = bmc::User {
        name: "admin".into(),
        password: model::Secret::new("password".into()),
        privilege: bmc::Privilege::Administrator,
    };
    let start = bmc::Start {
        now,
        unix_seconds: 1 << 30,
        seed: model::Secret::new([7; 32]),
    };
    let mut bmc = bmc::Bmc::new(bmc::Config::new(vec![user], [1; 16]), start);
    let from = ([192, 0, 2, 1], 4000).into();
    let datagram = |bytes: &[u8]| bmc::Event::Datagram {
        from,
        bytes: bytes.to_vec(),
    };
    bmc.handle(now, datagram(bytes));
    bmc.handle(now, datagram(&[&[6, 0, 0xff, 7][..], bytes].concat()));
    let config = ipmi::console::Config::new("admin".into(), model::Secret::new("password".into()));
    let mut console = ipmi::console::Console::new(config, model::Secret::new([9; 32]));
    let request = ipmi::console::Request::get_device_id();
    console.handle(now, ipmi::console::Event::Run { id: 1, request });
    console.handle(now, ipmi::console::Event::Datagram(bytes.to_vec()));
}

fn ipmi_seeds() -> Vec<Vec<u8>> {
    vec![
        // Presence ping; Get Channel Authentication Capabilities; Open Session Request.
        vec![6, 0, 0xff, 6, 0, 0, 0x11, 0xbe, 0x80, 0, 0, 0],
        vec![
            6, 0, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0x20, 0x18, 0xc8, 0x81, 0, 0x38, 0x8e, 4,
            0xb5,
        ],
        vec![
            6, 0, 0xff, 7, 6, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0,
            8, 3, 0, 0, 0, 1, 0, 0, 8, 4, 0, 0, 0, 2, 0, 0, 8, 1, 0, 0, 0,
        ],
    ]
}

fn ipxe_script(bytes: &[u8]) {
    use lab::server::sim::ipxe::{Outcome, Script, Want};
    let text = String::from_utf8_lossy(bytes);
    let Some(mut script) = Script::parse(&text, "http://h/boot.ipxe", "efi", &[CLIENT], 0) else {
        return;
    };
    // Scripts may loop; what they do at each step is what counts.
    let mut outcome = Outcome::Begin;
    for _ in 0..50 {
        match script.step(outcome) {
            Want::Fetch { .. } | Want::Chain { .. } | Want::San { .. } | Want::Pause(_) => {
                outcome = Outcome::Failed;
            }
            Want::Boot { .. }
            | Want::Disk
            | Want::Exit { .. }
            | Want::Reboot
            | Want::PowerOff
            | Want::Stuck { .. } => return,
        }
    }
}

fn iso_seeds() -> Vec<Vec<u8>> {
    let file = media::iso::File {
        path: "boot/grub/grub.cfg".into(),
        content: media::Content::Bytes(b"linux /vmlinuz".to_vec()),
    };
    let layout = media::iso::Image::<()> {
        label: "config-2".into(),
        publisher: String::new(),
        files: vec![file],
        joliet: false,
        boot: media::iso::Boot::default(),
        modified: 0,
    }
    .layout()
    .expect("an image");
    let mut bytes = Vec::new();
    layout
        .write_to(&mut bytes, |()| Ok(std::io::empty()))
        .expect("memory takes it");
    vec![bytes]
}

fn qcow2(bytes: &[u8]) {
    let Ok(mut image) = media::qcow2::Image::open(Cursor::new(bytes)) else {
        return;
    };
    let mut buffer = vec![0; image.cluster_size()];
    for cluster in 0..4.min(image.clusters()) {
        _ = image.read(cluster, &mut buffer);
    }
}

/// A header, one L1 entry, one L2 table, one cluster: 512 bytes each, the smallest there are.
fn qcow2_seeds() -> Vec<Vec<u8>> {
    let mut image = vec![0; 512 * 4];
    image[..4].copy_from_slice(b"QFI\xfb");
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(4, &3u32.to_be_bytes());
    put(20, &9u32.to_be_bytes());
    put(24, &2048u64.to_be_bytes());
    put(36, &1u32.to_be_bytes());
    put(40, &512u64.to_be_bytes());
    put(96, &4u32.to_be_bytes());
    put(100, &104u32.to_be_bytes());
    put(512, &(1u64 << 63 | 0x400).to_be_bytes());
    put(1024, &(1u64 << 63 | 0x600).to_be_bytes());
    put(1032, &(1u64 << 62 | 0x600).to_be_bytes());
    vec![image]
}

fn tftp_any(bytes: &[u8]) {
    let now = Instant::now();
    _ = tftp::Packet::decode(bytes);
    let options = [("windowsize".to_owned(), "9".to_owned())];
    let limits = tftp::server::Limits::default();
    let (mut transfer, _) = tftp::server::Transfer::start(now, 70_000, &options, &limits);
    transfer.handle(now, tftp::server::Event::Packet { bytes });
    let mut client = tftp::client::Client::new(tftp::client::Config::new("f"));
    client.handle(now, tftp::client::Event::Start);
    client.handle(now, tftp::client::Event::Packet { port: 7, bytes });
}

fn tftp_seeds() -> Vec<Vec<u8>> {
    vec![
        b"\0\x01undionly.kpxe\0octet\0blksize\x001468\0tsize\x000\0windowsize\x0016\0".to_vec(),
        b"\0\x06blksize\x001468\0tsize\x001000\0".to_vec(),
        b"\0\x03\0\x01data".to_vec(),
        b"\0\x04\0\x01".to_vec(),
        b"\0\x05\0\x01not found\0".to_vec(),
    ]
}

fn vrrp_any(bytes: &[u8]) {
    let headers = [
        (IpAddr::V4(SERVER), IpAddr::V4(Ipv4Addr::new(224, 0, 0, 18))),
        (
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12)),
        ),
    ];
    for (from, to) in headers {
        let header = vrrp::packet::Header { from, to, ttl: 255 };
        _ = vrrp::packet::Advertisement::parse(header, bytes);
        _ = vrrp::packet::Advertisement::parse_from_peer(header, bytes);
    }
}
