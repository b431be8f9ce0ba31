//! From the first packet of a ROM to the script of its node.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use dhcproto::v4::{DhcpOption as O, Message, MessageType};
use linux::netns::Host;
use model::Mac;
use protocols::dhcp::packet;
use serde_json::{Value, json};

use crate::net::{API, FILES, Net, Running, mac, run, until};

const RANGE: &str = "ranges: [172.22.0.10-172.22.0.60]";

fn has(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in {text:?}");
}

fn enrol(net: &Net, machine: usize, more: &Value) -> String {
    let mut body = json!({"driver": "fake-hardware", "name": format!("node-{machine}")});
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let node = net.api("POST", "/v1/nodes", Some(&body));
    let uuid = node["uuid"].as_str().unwrap().to_owned();
    let port = json!({"node_uuid": uuid, "address": mac(machine)});
    net.api("POST", "/v1/ports", Some(&port));
    uuid
}

#[test]
fn firmware_gets_an_address_a_loader_and_the_script_of_its_node() {
    let net = Net::new(2);
    let mut service = net.serve(&format!("{{{RANGE}, allow: known}}"));
    let uuid = enrol(
        &net,
        0,
        &json!({"boot_interface": "ipxe", "inspect_interface": "agent"}),
    );

    assert!(!net.firmware(1, &[]).wait(), "a stranger is not answered");
    assert!(net.firmware(0, &[]).wait());
    let line = net.line("bound").unwrap();
    has(&line, "file=snponly.efi next=172.22.0.3");
    let loader = net.file("got");
    let tftp = "tftp://172.22.0.3/snponly.efi";
    run(
        &net.machines[0],
        &[
            "curl",
            "-s",
            "--max-time",
            "20",
            "-o",
            loader.to_str().unwrap(),
            tftp,
        ],
    );
    assert_eq!(
        std::fs::read(&loader).unwrap(),
        std::fs::read(net.file("loaders/snponly.efi")).unwrap()
    );
    assert!(net.firmware(0, &["-x", "0xaf:0101"]).wait());
    has(
        &net.line("bound").unwrap(),
        "file=http://172.22.0.3:6180/boot.ipxe",
    );
    has(
        &net.curl(&[&format!("{FILES}/boot.ipxe")]),
        "pxelinux.cfg/${net${id}/mac:hexhyp}",
    );

    // Nothing is to be booted: the disk. Then the agent.
    let script = format!("{FILES}/pxelinux.cfg/{}", mac(0).replace(':', "-"));
    has(&net.curl(&[&script]), "boots from its disk");
    assert!(
        net.try_curl(&[&script.replace("-01", "-77")]).is_err(),
        "404 for a stranger"
    );
    let states = format!("/v1/nodes/{uuid}/states/provision");
    net.api("PUT", &states, Some(&json!({"target": "manage"})));
    let state = |wanted: &str| {
        until(&format!("state {wanted}"), || {
            let node = net.api("GET", &format!("/v1/nodes/{uuid}"), None);
            if node["provision_state"] == wanted {
                Ok(node)
            } else {
                Err(node["provision_state"].clone())
            }
        })
    };
    state("manageable");
    net.api("PUT", &states, Some(&json!({"target": "inspect"})));
    state("inspect wait");
    let text = net.curl(&[&script]);
    has(
        &text,
        "ipa-inspection-callback-url=http://172.22.0.3:6385/v1/continue_inspection",
    );
    has(&text, "BOOTIF=${mac}");
    let kernel = text
        .lines()
        .find(|line| line.starts_with("kernel "))
        .and_then(|line| line.split(' ').nth(1))
        .unwrap()
        .to_owned();
    let size = net.curl(&["-o", "/dev/null", "-w", "%{size_download}", &kernel]);
    assert_eq!(size, "900000");
    until("the node shows how far its host came", || {
        let node = net.api("GET", &format!("/v1/nodes/{uuid}"), None);
        let waiting = node["driver_internal_info"]["waiting"].to_string();
        if waiting.contains("fetched the kernel") {
            Ok(())
        } else {
            Err(waiting)
        }
    });

    // Killed and started again it goes on: the record is all there is.
    service.0.kill().unwrap();
    service.0.wait().unwrap();
    drop(service);
    let _service = net.serve(&format!("{{{RANGE}, allow: known}}"));
    has(&net.curl(&[&script]), "ipa-inspection-callback-url");
    has(
        &net.curl(&[&format!("{API}/metrics")]),
        "ironic_dhcp_leases 1",
    );
}

#[test]
fn a_machine_that_is_nobodys_is_held_shown_and_adopted() {
    let net = Net::new(1);
    let service = net.serve(&format!("{{{RANGE}}}"));
    let guid = "0x61:0033221100554477668899aabbccddeeff";
    assert!(net.firmware(0, &["-x", guid]).wait());
    let address = format!("{API}/plinth/v1/discovered");
    let found = until("it is shown", || {
        let list: Value = serde_json::from_str(&net.curl(&[&address])).unwrap();
        match &list["machines"][0] {
            machine if machine["address"].is_string() => Ok(machine.clone()),
            _ => Err(list),
        }
    });
    assert_eq!(found["mac"], mac(0));
    assert_eq!(found["architecture"], 7);
    assert_eq!(found["uuid"], "00112233-4455-6677-8899-aabbccddeeff");
    has(&found["seen"].to_string(), "got address 172.22.0.");
    let dashed = mac(0).replace(':', "-");
    has(
        &net.curl(&[&format!("{FILES}/boot/{dashed}.ipxe")]),
        "This server is not enrolled: 52:54:00:00:00:01",
    );

    // The list is on disk soon, and outlives the service.
    until("it is written", || {
        let list: Value = serde_json::from_str(&net.curl(&[&address])).unwrap();
        let seen = list["machines"][0]["seen"].as_str().unwrap_or_default();
        if seen == "fetched its boot script" {
            Ok(())
        } else {
            Err(list)
        }
    });
    service.signal("TERM");
    let mut service = service;
    assert!(service.wait());
    let _service = net.serve(&format!("{{{RANGE}}}"));
    has(&net.curl(&[&address]), &mac(0));

    let body = json!({"driver": "fake-hardware", "name": "adopted"});
    let path = format!("/plinth/v1/discovered/{}/enroll", mac(0));
    let node = net.api("POST", &path, Some(&body));
    assert_eq!(node["name"], "adopted");
    assert_eq!(node["provision_state"], "enroll");
    let ports = net.api("GET", "/v1/nodes/adopted/ports", None);
    assert_eq!(ports["ports"][0]["address"], mac(0));
    has(
        &net.curl(&[&format!("{FILES}/boot/{dashed}.ipxe")]),
        "(adopted) boots from its disk",
    );
    let list: Value = serde_json::from_str(&net.curl(&[&address])).unwrap();
    assert_eq!(list["machines"], json!([]));
}

/// Every answer to one DISCOVER of a boot ROM, within a while.
fn offers(host: &Host, wanted: usize) -> Vec<Message> {
    host.run(move || async move {
        let socket = socket2::Socket::new(
            socket2::Domain::IPV4,
            socket2::Type::DGRAM.nonblocking(),
            None,
        )
        .unwrap();
        socket.set_broadcast(true).unwrap();
        socket.bind_device(Some(b"eth0")).unwrap();
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68);
        socket.bind(&any.into()).unwrap();
        let socket = tokio::net::UdpSocket::from_std(socket.into()).unwrap();
        let zero = Ipv4Addr::UNSPECIFIED;
        let mac = Mac([0x52, 0x54, 0, 0, 0, 1]);
        let mut message = Message::new_with_id(77, zero, zero, zero, zero, &mac.octets());
        message.set_flags(message.flags().set_broadcast());
        let options = message.opts_mut();
        options.insert(O::MessageType(MessageType::Discover));
        options.insert(O::ClassIdentifier(
            b"PXEClient:Arch:00007:UNDI:003016".to_vec(),
        ));
        options.insert(O::ClientSystemArchitecture(7.into()));
        let bytes = packet::encode(&message);
        let to = SocketAddrV4::new(Ipv4Addr::BROADCAST, 67);
        let mut offers: Vec<Message> = Vec::new();
        let all = async {
            loop {
                socket.send_to(&bytes, to).await.unwrap();
                let mut buffer = [0; 1500];
                let one = socket.recv_from(&mut buffer);
                if let Ok(received) = tokio::time::timeout(Duration::from_secs(2), one).await {
                    let message = packet::decode(&buffer[..received.unwrap().0]).unwrap();
                    let id = |message: &Message| {
                        format!(
                            "{:?}",
                            message
                                .opts()
                                .get(dhcproto::v4::OptionCode::ServerIdentifier)
                        )
                    };
                    if !offers.iter().any(|have| id(have) == id(&message)) {
                        offers.push(message);
                    }
                }
                if offers.len() >= wanted {
                    return;
                }
            }
        };
        _ = tokio::time::timeout(Duration::from_secs(20), all).await;
        offers
    })
}

fn dnsmasq(net: &Net, host: &Host) -> Running {
    let command = host
        .command("dnsmasq")
        .args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file",
            "--user=root",
            "--port=0",
            "--interface=eth0",
            "--bind-dynamic",
            "--no-ping",
            "--dhcp-authoritative",
            "--dhcp-range=172.22.0.200,172.22.0.220,255.255.255.0",
        ])
        .arg(format!("--dhcp-leasefile={}", net.file("leases").display()))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    Running(command.unwrap())
}

#[test]
fn beside_dnsmasq_we_give_boot_files_and_it_gives_addresses() {
    let net = Net::new(2);
    let foreign = &net.machines[1];
    run(
        foreign,
        &["ip", "address", "add", "172.22.0.9/24", "dev", "eth0"],
    );
    let _dnsmasq = dnsmasq(&net, foreign);
    let _service = net.serve("{mode: proxy}");
    let offers = offers(&net.machines[0], 2);
    assert_eq!(offers.len(), 2, "{offers:?}");
    let (ours, theirs): (Vec<_>, Vec<_>) = offers
        .iter()
        .partition(|offer| offer.yiaddr().is_unspecified());
    assert_eq!((ours.len(), theirs.len()), (1, 1));
    assert_eq!(packet::file(ours[0]), Some(&b"snponly.efi"[..]));
    let list = net.curl(&[&format!("{API}/plinth/v1/discovered")]);
    has(&list, "\"other_dhcp_servers\":[]");
}

#[test]
fn another_server_that_answers_is_reported() {
    let net = Net::new(2);
    let foreign = &net.machines[1];
    run(
        foreign,
        &["ip", "address", "add", "172.22.0.9/24", "dev", "eth0"],
    );
    let _dnsmasq = dnsmasq(&net, foreign);
    let _service = net.serve(&format!("{{{RANGE}}}"));
    assert_eq!(offers(&net.machines[0], 2).len(), 2);
    until("the other server is shown", || {
        let list = net.curl(&[&format!("{API}/plinth/v1/discovered")]);
        if list.contains("\"address\":\"172.22.0.9\"") {
            Ok(())
        } else {
            Err(list)
        }
    });
    has(
        &net.curl(&[&format!("{API}/metrics")]),
        "ironic_other_dhcp_server_heard_seconds{address=\"172.22.0.9\"}",
    );
}

#[test]
fn a_full_range_leaves_the_last_waiting_until_a_reload_widens_it() {
    let net = Net::new(2);
    let service = net.serve("{ranges: [172.22.0.10-172.22.0.10]}");
    assert!(net.firmware(0, &[]).wait());
    assert!(!net.firmware(1, &[]).wait(), "there is no second address");
    net.configure("{ranges: [172.22.0.10-172.22.0.11]}");
    service.signal("HUP");
    until("the second gets one", || {
        if net.firmware(1, &[]).wait() {
            Ok(())
        } else {
            Err(())
        }
    });
    has(&net.line("bound").unwrap(), "ip=172.22.0.11");
    has(
        &net.curl(&[&format!("{API}/metrics")]),
        "ironic_dhcp_leases 2",
    );
}

#[test]
fn a_port_that_is_taken_is_named_with_who_has_it() {
    let net = Net::new(1);
    net.configure(&format!("{{{RANGE}}}"));
    run(&net.metal, &["ip", "link", "set", "lo", "up"]);
    let mut other = net.metal.command("dnsmasq");
    other.args([
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--pid-file",
        "--user=root",
        "--port=0",
        "--interface=br0",
        "--dhcp-range=172.22.0.200,172.22.0.220,255.255.255.0",
    ]);
    other
        .arg(format!("--dhcp-leasefile={}", net.file("leases").display()))
        .stderr(std::process::Stdio::null());
    let _dnsmasq = Running(other.spawn().unwrap());
    until("dnsmasq listens", || {
        let sockets = net.metal.command("cat").arg("/proc/net/udp").output();
        let text = String::from_utf8(sockets.unwrap().stdout).unwrap();
        if text.contains(":0043 ") {
            Ok(())
        } else {
            Err(text)
        }
    });
    let output = net
        .metal
        .command(std::env::current_exe().unwrap().to_str().unwrap())
        .args(["--exact", "net::process", "--nocapture"])
        .env("PLINTH_TEST_IRONIC_CONFIG", net.file("ironic.yaml"))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    for part in ["br0", "67", "dnsmasq (process "] {
        has(&said, part);
    }
}

#[test]
fn dhclient_gets_an_ipv6_address_and_the_link_is_told_to_ask_for_one() {
    let net = Net::new(1);
    let _service = net.serve(&format!("{{{RANGE}}}"));
    let machine = &net.machines[0];
    until("the link-local address can be used", || {
        let shown = machine
            .command("ip")
            .args(["-6", "address", "show", "dev", "eth0"])
            .output();
        let text = String::from_utf8(shown.unwrap().stdout).unwrap();
        if text.contains("fe80") && !text.contains("tentative") {
            Ok(())
        } else {
            Err(text)
        }
    });
    let _client = Running(
        machine
            .command("dhclient")
            .args(["-6", "-d", "-1", "-sf"])
            .arg(net.file("dhclient.sh"))
            .arg("-lf")
            .arg(net.file("leases6"))
            .arg("-pf")
            .arg(net.file("dhclient6.pid"))
            .arg("eth0")
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap(),
    );
    let line = until("dhclient is bound", || net.line("BOUND6"));
    has(&line, "ip6=fd00:1101::");
    // The advertisement makes the prefix known to be on this link, and no default route.
    until("the prefix is on the link", || {
        let shown = machine.command("ip").args(["-6", "route"]).output();
        let text = String::from_utf8(shown.unwrap().stdout).unwrap();
        if text.contains("fd00:1101::/64 dev eth0 proto kernel") {
            assert!(!text.contains("default"), "{text}");
            Ok(())
        } else {
            Err(text)
        }
    });
}

#[test]
fn whoever_asks_for_a_router_hears_at_once_that_there_is_none() {
    let net = Net::new(1);
    let _service = net.serve_v4(&format!("{{{RANGE}}}"));
    // Its own address on the link may still be on trial.
    let said = until("an answer to rdisc6", || {
        let asked = net.machines[0]
            .command("rdisc6")
            .args(["-1", "-r", "1", "-w", "2000", "eth0"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&asked.stdout).into_owned();
        if asked.status.success() {
            Ok(said)
        } else {
            Err(said)
        }
    });
    let line = |key: &str| said.lines().find(|line| line.starts_with(key));
    has(line("Router lifetime").unwrap(), " 0 ");
    has(line("Stateful address conf.").unwrap(), "No");
    assert!(!said.contains("Prefix"), "{said}");
}
