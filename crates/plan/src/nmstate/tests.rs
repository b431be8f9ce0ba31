use super::*;
use crate::yaml;
use proptest::prelude::*;

fn read(text: &str) -> (HostNetwork, Vec<String>) {
    let mut problems = Problems::default();
    let document = yaml::parse(text, &mut problems)
        .map(|node| node.to_json())
        .unwrap_or_default();
    let network = HostNetwork::parse(&document, "networkConfig", &mut problems);
    (
        network,
        problems.errors.iter().map(ToString::to_string).collect(),
    )
}

const BOND: &str = "
interfaces:
  - {name: eno1, type: ethernet, state: up, mac-address: '52:54:00:00:00:01', mtu: 9000}
  - {name: eno2, type: ethernet, state: up}
  - name: bond0
    type: bond
    link-aggregation: {mode: 802.3ad, port: [eno1, eno2], options: {miimon: '100', lacp_rate: fast}}
    ipv4: {enabled: false}
    ipv6: {enabled: false}
  - name: bond0.100
    type: vlan
    vlan: {base-iface: bond0, id: 100}
    ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.20, prefix-length: 24}]}
    ipv6: {enabled: true, dhcp: true, autoconf: true}
  - {name: eno3, state: down}
routes:
  config:
    - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond0.100, metric: 50}
dns-resolver:
  config: {server: [192.0.2.1], search: [lab.example]}
";

#[test]
fn a_vlan_on_a_bond_becomes_files_for_both_managers() {
    let (network, problems) = read(BOND);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        network.addresses().collect::<Vec<_>>(),
        ["192.0.2.20".parse::<IpAddr>().unwrap()]
    );
    let mut text = String::new();
    for (name, content) in network.keyfiles().into_iter().chain(network.networkd()) {
        text = text + "=== " + &name + "\n" + &content;
    }
    insta::assert_snapshot!(text);
}

#[test]
fn every_problem_is_told_at_once() {
    let (_, problems) = read(
        "
interfaces:
  - {name: a-name-that-is-too-long}
  - {name: eno1, mtu: '9000', mac-address: nope, ipv4: {address: [{ip: '2001:db8::1', prefix-length: 24}, {ip: 192.0.2.1, prefix-length: 99}]}}
  - {name: eno1}
  - {name: v, type: vlan}
  - {name: b, type: bond, link-aggregation: {mode: fast, port: []}}
  - {name: c, type: bond}
  - {name: d, type: bond, link-aggregation: {mode: 1, port: [eno1, d]}}
  - {name: o, type: ovs-bridge}
  - {name: m, mtu: 1}
  - 7
routes: {config: [{destination: x, next-hop-interface: eno1}, {destination: 0.0.0.0/0, next-hop-address: '::1'}]}
dns-resolver: {config: {server: [x]}}
",
    );
    insta::assert_snapshot!(problems.join("\n"));
}

proptest! {
    #[test]
    fn any_document_is_read_without_panic(text in "\\PC{0,200}") {
        let (network, _) = read(&text);
        network.keyfiles();
        network.networkd();
        network.network_data();
    }
}
