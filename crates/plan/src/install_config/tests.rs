//! One good and one bad case per rule; the bad ones with their exact words.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

pub const PXE: &str = include_str!("../../../../examples/pxe.yaml");
const EXAMPLES: [(&str, &str); 6] = [
    ("pxe", PXE),
    (
        "virtual-media",
        include_str!("../../../../examples/virtual-media.yaml"),
    ),
    (
        "dual-stack",
        include_str!("../../../../examples/dual-stack.yaml"),
    ),
    ("compact", include_str!("../../../../examples/compact.yaml")),
    (
        "single-node",
        include_str!("../../../../examples/single-node.yaml"),
    ),
    (
        "static-bonds-vlans",
        include_str!("../../../../examples/static-bonds-vlans.yaml"),
    ),
];

fn good(text: &str) -> Resolved {
    parse(text, &Facts::default()).unwrap_or_else(|refused| panic!("{refused}\n{text}"))
}

fn bad(text: &str) -> Vec<String> {
    match parse(text, &Facts::default()) {
        Err(Refused(problems)) => problems.iter().map(ToString::to_string).collect(),
        Ok(_) => vec!["(fine)".into()],
    }
}

/// The first occurrence of each text replaced by another; a replacement of nothing is added at the end.
fn edit(text: &str, edits: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (from, to) in edits {
        if from.is_empty() {
            text.push_str(to);
            text.push('\n');
        } else {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
    }
    text
}

#[test]
fn the_examples_are_good_and_raise_no_eyebrow() {
    for (name, text) in EXAMPLES {
        let resolved = good(text);
        assert_eq!(resolved.warnings, [], "{name}");
    }
}

const BAREMETAL: &str = "  baremetal:\n";
const HOST0: &str = "          address: redfish://192.0.2.101/redfish/v1/Systems/1";
const MAC0: &str = "        bootMACAddress: 52:54:00:00:00:01\n";

#[rustfmt::skip]
const BAD: &[(&str, &[(&str, &str)])] = &[
    ("no apiVersion", &[("apiVersion: v1\n", "")]),
    ("old apiVersion", &[("apiVersion: v1\n", "apiVersion: v1beta1\n")]),
    ("no name", &[("  name: pxe\n", "  creationTimestamp: null\n")]),
    ("dot in the name", &[("name: pxe", "name: pxe.lab")]),
    ("capital in the name", &[("name: pxe", "name: Pxe")]),
    ("long name", &[("name: pxe", "name: a123456789b123456789c123456789d123456789e123456789f1234")]),
    ("no base domain", &[("baseDomain: example.com\n", "")]),
    ("bad base domain", &[("baseDomain: example.com", "baseDomain: example_com")]),
    ("unknown field", &[("", "pullSecrets: x")]),
    ("unknown host field", &[(MAC0, "        bootMacAddress: 52:54:00:00:00:01\n")]),
    ("wrong platform", &[(BAREMETAL, "  aws: {}\n  baremetal:\n")]),
    ("platform none only", &[("platform:\n", "platform: {none: {}}\nxplatform:\n")]),
    ("list for an object", &[("metadata:\n  name: pxe\n", "metadata: [pxe]\n")]),
    ("value for a list", &[("    apiVIPs:\n      - 192.0.2.5\n", "    apiVIPs: 192.0.2.5\n")]),
    ("number in quotes", &[("replicas: 3", "replicas: '3'")]),
    ("word for a number", &[("replicas: 3", "replicas: three")]),
    ("word for a truth value", &[("", "fips: maybe")]),
    ("no masters", &[("replicas: 3", "replicas: 0")]),
    ("negative workers", &[("replicas: 2", "replicas: -1")]),
    ("two masters", &[("replicas: 3", "replicas: 2")]),
    ("pool's name", &[("  name: master\n", "  name: masters\n")]),
    ("second pool of workers", &[("    replicas: 2\n", "    replicas: 2\n  - name: worker\n")]),
    ("hyperthreading", &[("  replicas: 3\n", "  replicas: 3\n  hyperthreading: disabled\n")]),
    ("architecture", &[("  replicas: 3\n", "  replicas: 3\n  architecture: x86\n")]),
    ("mixed architectures", &[("    replicas: 2\n", "    replicas: 2\n    architecture: s390x\n")]),
    ("arbiter without two", &[("replicas: 3", "replicas: 1"), ("", "arbiter: {replicas: 1}")]),
    ("fencing without two", &[("  replicas: 3\n", "  replicas: 3\n  fencing: {credentials: []}\n")]),
    ("fencing by ipmi", &[("  replicas: 3\n", "  replicas: 2\n  fencing: {credentials: [{hostname: nobody, address: 'ipmi://192.0.2.1', username: a, password: hunter2}]}\n")]),
    ("too few hosts", &[("replicas: 2", "replicas: 4")]),
    ("not a machine network", &[("192.0.2.0/24", "192.0.2.0")]),
    ("host bits", &[("192.0.2.0/24", "192.0.2.1/24")]),
    ("networks overlap", &[("networking:\n", "networking:\n  serviceNetwork: [192.0.2.0/25]\n")]),
    ("service network too large", &[("networking:\n", "networking:\n  serviceNetwork: [16.0.0.0/8]\n")]),
    ("OVN's own network", &[("networking:\n", "networking:\n  serviceNetwork: [100.88.0.0/16]\n")]),
    ("join network too small", &[("networking:\n", "networking:\n  ovnKubernetesConfig: {ipv4: {internalJoinSubnet: 100.70.0.0/30}}\n")]),
    ("hostPrefix outside", &[("networking:\n", "networking:\n  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 12}]\n")]),
    ("hostPrefix of IPv6", &[("networking:\n", "networking:\n  clusterNetwork: [{cidr: 10.128.0.0/14}, {cidr: 'fd01::/48', hostPrefix: 80}]\n")]),
    ("two hostPrefixes", &[("networking:\n", "networking:\n  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}, {cidr: 10.132.0.0/14, hostPrefix: 24}]\n")]),
    ("half a dual stack", &[("networking:\n", "networking:\n  serviceNetwork: [172.30.0.0/16, 'fd02::/112']\n")]),
    ("two services of one family", &[("networking:\n", "networking:\n  serviceNetwork: [172.30.0.0/16, 172.31.0.0/16]\n")]),
    ("IPv6 services first", &[("networking:\n", "networking:\n  serviceNetwork: ['fd02::/112']\n")]),
    ("network type of old", &[("networking:\n", "networking:\n  networkType: OpenShiftSDN\n")]),
    ("MTU", &[("networking:\n", "networking:\n  clusterNetworkMTU: 1400\n")]),
    ("publish", &[("", "publish: Internal")]),
    ("credentials mode", &[("", "credentialsMode: Mint")]),
    ("bootstrap in place", &[("", "bootstrapInPlace: {installationDisk: /dev/sda}")]),
    ("pull secret is no JSON", &[("", "pullSecret: hunter2")]),
    ("pull secret without auths", &[("", "pullSecret: '{\"hunter2\": {}}'")]),
    ("pull secret with an empty entry", &[("", "pullSecret: '{\"auths\": {\"r\": {\"password\": \"hunter2\"}}}'")]),
    ("no pull secret and no payload", &[("payload: builtin\n", "")]),
    ("speed of nobody", &[("    apiVIPs:", "    controlPlaneHardwareSpeed: Slow\n    apiVIPs:")]),
    ("payload of nowhere", &[("payload: builtin", "payload: builtins")]),
    ("kubernetes without version", &[("payload: builtin", "payload: kubernetes")]),
    ("version of builtin", &[("payload: builtin", "payload: {type: builtin, version: v1.36.0}")]),
    ("ssh key", &[("sshKey: ssh-ed25519 AAAAC3", "sshKey: ssh-ed25519 AAAA")]),
    ("ssh key and fips", &[("", "fips: true")]),
    ("trust bundle", &[("", "additionalTrustBundle: |\n  -----BEGIN CERTIFICATE-----\n  aHVudGVyMg==\n  -----END CERTIFICATE-----")]),
    ("trust bundle without PEM", &[("", "additionalTrustBundle: hello")]),
    ("trust bundle policy", &[("", "additionalTrustBundlePolicy: always")]),
    ("proxy without a proxy", &[("", "proxy: {noProxy: example.com}")]),
    ("proxy's scheme", &[("", "proxy: {httpProxy: 'https://user:hunter2@proxy'}")]),
    ("proxy inside the cluster", &[("", "proxy: {httpProxy: 'http://172.30.0.9:3128'}")]),
    ("noProxy", &[("", "proxy: {httpProxy: 'http://p:1', noProxy: 'a b,*.c,d,*'}")]),
    ("capabilities", &[("", "capabilities: {baselineCapabilitySet: None, additionalEnabledCapabilities: [baremetal, Consoles]}")]),
    ("capability set", &[("", "capabilities: {baselineCapabilitySet: v4.2}")]),
    ("feature gates", &[("", "featureGates: [A=maybe]")]),
    ("feature set", &[("", "featureSet: TechPreview")]),
    ("mirrors", &[("", "imageDigestSources: [{source: 'https://x', sourcePolicy: NeverContactSource}]")]),
    ("both mirrors", &[("", "imageDigestSources: [{source: a/b, mirrors: [c/d]}]\nimageContentSources: [{source: a/b, mirrors: [c/d]}]")]),
    ("os image stream", &[("", "osImageStream: rhel-8")]),
    ("cpu partitioning", &[("", "cpuPartitioningMode: All")]),
    ("no VIPs", &[("    apiVIPs:\n      - 192.0.2.5\n", "")]),
    ("VIP is no address", &[("- 192.0.2.5", "- 192.0.2.500")]),
    ("VIP in no machine network", &[("- 192.0.2.5", "- 198.51.100.5")]),
    ("VIP is the broadcast address", &[("- 192.0.2.5", "- 192.0.2.255")]),
    ("VIPs are the same", &[("- 192.0.2.6", "- 192.0.2.5")]),
    ("three VIPs", &[("      - 192.0.2.5\n", "      - 192.0.2.5\n      - 192.0.2.7\n      - 192.0.2.8\n")]),
    ("two VIPs of one family", &[("      - 192.0.2.5\n", "      - 192.0.2.5\n      - 192.0.2.7\n")]),
    ("IPv6 VIP where IPv4 is meant", &[("- 192.0.2.5", "- 2001:db8::5")]),
    ("apiVIP beside apiVIPs", &[("    apiVIPs:\n", "    apiVIP: 192.0.2.77\n    apiVIPs:\n")]),
    ("load balancer", &[(BAREMETAL, "  baremetal:\n    loadBalancer: {type: userManaged}\n")]),
    ("external DNS records", &[(BAREMETAL, "  baremetal:\n    dnsRecordsType: External\n")]),
    ("provisioning mode", &[("provisioningNetwork: Managed", "provisioningNetwork: managed")]),
    ("provisioning network overlaps", &[("172.22.0.0/24", "192.0.2.0/25")]),
    ("provisioning network with host bits", &[("172.22.0.0/24", "172.22.0.1/24")]),
    ("provisioning network too small", &[("172.22.0.0/24", "172.22.0.0/30")]),
    ("provisioning IPv6 too large", &[("172.22.0.0/24", "fd00::/56")]),
    ("bootstrap IP outside", &[(BAREMETAL, "  baremetal:\n    bootstrapProvisioningIP: 172.23.0.2\n")]),
    ("cluster IP twice", &[(BAREMETAL, "  baremetal:\n    clusterProvisioningIP: 172.22.0.2\n")]),
    ("cluster IP is no address", &[(BAREMETAL, "  baremetal:\n    clusterProvisioningIP: three\n")]),
    ("old and new cluster IP", &[(BAREMETAL, "  baremetal:\n    clusterProvisioningIP: 172.22.0.3\n    provisioningHostIP: 172.22.0.4\n")]),
    ("DHCP range is none", &[(BAREMETAL, "  baremetal:\n    provisioningDHCPRange: 172.22.0.10\n")]),
    ("DHCP range outside", &[(BAREMETAL, "  baremetal:\n    provisioningDHCPRange: 172.22.0.10,172.22.1.20\n")]),
    ("DHCP range backwards", &[(BAREMETAL, "  baremetal:\n    provisioningDHCPRange: 172.22.0.20,172.22.0.10\n")]),
    ("DHCP range holds the services", &[(BAREMETAL, "  baremetal:\n    provisioningDHCPRange: 172.22.0.1,172.22.0.100\n    provisioningNetworkGateway: 172.22.0.50\n")]),
    ("gateway outside", &[(BAREMETAL, "  baremetal:\n    provisioningNetworkGateway: 172.23.0.1\n")]),
    ("DHCP range while unmanaged", &[("provisioningNetwork: Managed", "provisioningNetwork: Unmanaged\n    provisioningDHCPRange: 172.22.0.10,172.22.0.20\n    provisioningNetworkGateway: 172.22.0.1")]),
    ("PXE while disabled", &[("provisioningNetwork: Managed", "provisioningNetwork: Disabled"), ("    provisioningNetworkCIDR: 172.22.0.0/24\n", "")]),
    ("bridge's name", &[("externalBridge: baremetal", "externalBridge: a-name-that-is-too-long")]),
    ("MACs of the VM", &[(BAREMETAL, "  baremetal:\n    externalMACAddress: 52:54:00:00:01:00\n    provisioningMACAddress: 52-54-00-00-01-00\n")]),
    ("multicast MAC", &[(BAREMETAL, "  baremetal:\n    externalMACAddress: 01:54:00:00:01:00\n")]),
    ("half a static bootstrap", &[(BAREMETAL, "  baremetal:\n    bootstrapExternalStaticIP: 192.0.2.5\n")]),
    ("static bootstrap on a VIP", &[(BAREMETAL, "  baremetal:\n    bootstrapExternalStaticIP: 192.0.2.5\n    bootstrapExternalStaticGateway: 'fe80::1'\n    bootstrapExternalStaticDNS: 192.0.2.1\n")]),
    ("image without checksum", &[(BAREMETAL, "  baremetal:\n    clusterOSImage: https://example.com/os.qcow2.gz\n")]),
    ("image by ftp", &[(BAREMETAL, "  baremetal:\n    bootstrapOSImage: ftp://example.com/os.qcow2\n")]),
    ("NTP server", &[(BAREMETAL, "  baremetal:\n    additionalNTPServers: ['ntp server']\n")]),
    ("libvirt URI", &[(BAREMETAL, "  baremetal:\n    libvirtURI: system\n")]),
    ("BGP", &[(BAREMETAL, "  baremetal:\n    bgpVIPConfig: {localASN: 64512}\n")]),
    ("BMC's CA", &[(BAREMETAL, "  baremetal:\n    bmcVerifyCA: hello\n")]),
    ("no hosts", &[("    hosts:\n", "    hosts: []\n    xhosts:\n")]),
    ("no BMC", &[("        bmc:\n          address: redfish://192.0.2.101/redfish/v1/Systems/1\n          username: admin\n          password: change-me\n          disableCertificateVerification: true\n", "")]),
    ("BMC scheme", &[(HOST0, "          address: redfish-vmedia://192.0.2.101/redfish/v1/Systems/1")]),
    ("BMC scheme of old", &[(HOST0, "          address: idrac://192.0.2.101")]),
    ("BMC without a path", &[(HOST0, "          address: redfish://192.0.2.101")]),
    ("BMC with a password", &[(HOST0, "          address: ipmi://admin:hunter2@192.0.2.101")]),
    ("one BMC twice", &[(HOST0, "          address: redfish+https://192.0.2.102:443/redfish/v1/Systems/1")]),
    ("one MAC twice", &[(MAC0, "        bootMACAddress: 52-54-00-00-00-02\n")]),
    ("MAC is none", &[(MAC0, "        bootMACAddress: 52:54:00\n")]),
    ("one name twice", &[("- name: master-0", "- name: master-1")]),
    ("host's name", &[("- name: master-0", "- name: Master_0")]),
    ("role", &[("role: master\n", "role: control-plane\n")]),
    ("boot mode", &[(MAC0, "        bootMACAddress: 52:54:00:00:00:01\n        bootMode: uefi\n")]),
    ("secure boot over IPMI", &[(HOST0, "          address: 192.0.2.101"), (MAC0, "        bootMACAddress: 52:54:00:00:00:01\n        bootMode: UEFISecureBoot\n")]),
    ("hint is no disk", &[("deviceName: /dev/sda", "deviceName: sda")]),
    ("hint's size", &[("deviceName: /dev/sda", "minSizeGigabytes: 0")]),
    ("hint unknown", &[("deviceName: /dev/sda", "deviceNames: /dev/sda")]),
    ("hardware profile", &[(MAC0, "        bootMACAddress: 52:54:00:00:00:01\n        hardwareProfile: hp\n")]),
    ("network config", &[(MAC0, "        bootMACAddress: 52:54:00:00:00:01\n        networkConfig: {interfaces: [{name: eno1, mtu: '9000', ipv4: {address: [{ip: 192.0.2.5, prefix-length: 24}]}}]}\n")]),
    ("key twice", &[("", "sshKey: hunter2")]),
    ("many at once", &[("apiVersion: v1\n", ""), ("- 192.0.2.5", "- 192.0.2.500"), ("replicas: 2", "replicas: 9"), ("", "fibs: true")]),
];

#[test]
fn every_mistake_is_told_with_its_place_and_what_would_be_right() {
    let mut text = String::new();
    for (name, edits) in BAD {
        _ = writeln!(text, "{name}:");
        let problems = bad(&edit(PXE, edits));
        assert_ne!(problems, ["(fine)"], "{name}");
        for problem in problems {
            _ = writeln!(text, "  {problem}");
        }
    }
    assert!(BAD.len() >= 60);
    assert!(!text.contains("hunter2"), "{text}");
    insta::assert_snapshot!(text);
}

#[rustfmt::skip]
#[test]
fn what_is_written_differently_is_fine_too() {
    for (name, edits) in [
        ("a null creationTimestamp", &[("  name: pxe\n", "  name: pxe\n  creationTimestamp: null\n")][..]),
        ("a trailing dot", &[("baseDomain: example.com", "baseDomain: example.com.")]),
        ("v1beta4", &[("apiVersion: v1\n", "apiVersion: v1beta4\n")]),
        ("one arbiter", &[("replicas: 3", "replicas: 2"), ("replicas: 2\nnetworking", "replicas: 1\nnetworking"), ("role: worker", "role: arbiter"), ("", "arbiter: {replicas: 1}")]),
        ("arm workers", &[("    replicas: 2\n", "    replicas: 2\n    architecture: arm64\n")]),
        ("old names", &[("  machineNetwork:\n    - cidr: 192.0.2.0/24\n", "  machineCIDR: 192.0.2.0/24\n  serviceCIDR: 172.30.0.0/16\n  type: ovnkubernetes\n  clusterNetworks: [{cidr: 10.128.0.0/14, hostSubnetLength: 9}]\n")]),
        ("old VIPs", &[("    apiVIPs:\n      - 192.0.2.5\n    ingressVIPs:\n      - 192.0.2.6\n", "    apiVIP: 192.0.2.5\n    ingressVIP: 192.0.2.6\n")]),
        ("the site's DHCP", &[("provisioningNetwork: Managed", "provisioningDHCPExternal: true")]),
        ("a user's balancer", &[(BAREMETAL, "  baremetal:\n    loadBalancer: {type: UserManaged}\n    dnsRecordsType: External\n"), ("- 192.0.2.6", "- 192.0.2.5")]),
        ("kubernetes", &[("payload: builtin", "payload: {type: kubernetes, version: 1.36.1, source: 'https://dl.example/kubernetes-server-linux-amd64.tar.gz'}")]),
        ("an image", &[(BAREMETAL, "  baremetal:\n    clusterOSImage: https://example.com/os.qcow2.gz?sha256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n")]),
        ("no roles", &[("        role: master\n", ""), ("        role: worker\n", "")]),
        ("a password that looks like a number", &[("password: change-me", "password: 0123")]),
        ("capabilities", &[("", "capabilities: {baselineCapabilitySet: None, additionalEnabledCapabilities: [baremetal, MachineAPI, Ingress]}")]),
        ("a proxy", &[("", "proxy: {httpProxy: 'http://u:p@proxy:3128', noProxy: '.lab,192.0.2.0/24'}")]),
        ("an anchor", &[("    ingressVIPs:\n      - 192.0.2.6\n", "    ingressVIPs: &vips [192.0.2.6]\n"), ("    provisioningNetworkCIDR", "    additionalNTPServers: *vips\n    provisioningNetworkCIDR")]),
        ("nothing about provisioning", &[("    provisioningNetwork: Managed\n    provisioningNetworkCIDR: 172.22.0.0/24\n", "")]),
    ] {
        let problems = bad(&edit(PXE, edits));
        assert_eq!(problems, ["(fine)"], "{name}");
    }
}

/// The shapes that the field's guides show: quotes, empty platforms, comments, everything said out loud.
#[test]
fn files_as_guides_show_them_are_good() {
    let key = PXE
        .lines()
        .last()
        .unwrap()
        .strip_prefix("sshKey: ")
        .unwrap();
    let host = |name: &str, role: &str, n: u8, address: &str| {
        format!(
            "      - name: {name}\n        role: {role}\n        bmc:\n          address: {address}\n          username: <user>\n          password: <password>\n          disableCertificateVerification: True\n        bootMACAddress: 00:1A:4B:00:00:0{n}\n        hardwareProfile: default\n        rootDeviceHints:\n          deviceName: \"/dev/disk/by-path/pci-0000:00:1f.2-ata-1\"\n"
        )
    };
    let file = |networking: &str, platform: &str, hosts: &str| {
        format!(
            "apiVersion: v1\nbaseDomain: example.com\nmetadata:\n  name: ocp\n  creationTimestamp: null\nnetworking:\n{networking}  networkType: OVNKubernetes\ncompute: # workers\n- name: worker\n  hyperthreading: Enabled\n  architecture: amd64\n  replicas: 2\n  platform: {{}}\ncontrolPlane:\n  name: master\n  replicas: 3\n  platform:\n    baremetal: {{}}\nplatform:\n  baremetal:\n{platform}    hosts:\n{hosts}fips: false\npublish: External\npullSecret: '{{\"auths\": {{\"quay.example\": {{\"auth\": \"eDp5\", \"email\": \"me@example.com\"}}}}}}'\nsshKey: |\n  {key}\n"
        )
    };
    let hosts = |address: &dyn Fn(u8) -> String| {
        let names = [
            ("openshift-master-0", "master"),
            ("openshift-master-1", "master"),
            ("openshift-master-2", "master"),
            ("openshift-worker-0", "worker"),
            ("openshift-worker-1", "worker"),
        ];
        let numbered = names.iter().zip(1_u8..);
        numbered
            .map(|((name, role), n)| host(name, role, n, &address(n)))
            .collect::<String>()
    };
    let ipmi = hosts(&|n| format!("ipmi://10.0.1.{n}"));
    let media =
        hosts(&|n| format!("redfish-virtualmedia+https://[2001:db8:1::{n}]/redfish/v1/Systems/1"));
    let vips = "    apiVIPs:\n      - 10.0.0.5\n    ingressVIPs:\n      - 10.0.0.6\n";
    let machine = "  machineNetwork:\n  - cidr: 10.0.0.0/24\n";
    good(&file(
        machine,
        &format!(
            "{vips}    provisioningNetworkCIDR: 172.22.0.0/24\n    provisioningNetworkInterface: ens1\n    bootstrapOSImage: http://10.0.0.9/os.qcow2.gz?sha256={0}\n    clusterOSImage: http://10.0.0.9/os.qcow2.gz?sha256={0}\n",
            "ab".repeat(32)
        ),
        &ipmi,
    ));
    good(&file(
        machine,
        &format!(
            "{vips}    provisioningNetwork: \"Disabled\"\n    provisioningHostIP: 10.0.0.7\n    bootstrapProvisioningIP: 10.0.0.8\n"
        ),
        &media,
    ));
    let dual = "  machineNetwork:\n  - cidr: 10.0.0.0/24\n  - cidr: 2001:db8:1::/64\n  clusterNetwork:\n  - cidr: 10.128.0.0/14\n    hostPrefix: 23\n  - cidr: fd01::/48\n    hostPrefix: 64\n  serviceNetwork:\n  - 172.30.0.0/16\n  - fd02::/112\n";
    good(&file(
        dual,
        "    apiVIPs: [10.0.0.5, '2001:db8:1::5']\n    ingressVIPs: [10.0.0.6, '2001:db8:1::6']\n",
        &ipmi,
    ));
    let six = "  machineNetwork:\n  - cidr: 2001:db8:1::/64\n  clusterNetwork:\n  - cidr: fd01::/48\n    hostPrefix: 64\n  serviceNetwork: ['fd02::/112']\n";
    good(&file(
        six,
        "    apiVIP: 2001:db8:1::5\n    ingressVIP: 2001:db8:1::6\n    provisioningNetworkCIDR: fd00:1101::/64\n",
        &ipmi,
    ));
}

#[test]
fn defaults_are_openshifts() {
    let text = edit(
        PXE,
        &[(
            "    provisioningNetwork: Managed\n    provisioningNetworkCIDR: 172.22.0.0/24\n",
            "",
        )],
    );
    let config = good(&text).config;
    let provisioning = &config.baremetal.provisioning;
    let shown = format!(
        "{:?} {:?} {:?}",
        provisioning.cidr, provisioning.dhcp_range, provisioning.bootstrap_ip
    );
    assert_eq!(
        shown,
        "Some(172.22.0.0/24) Some((172.22.0.10, 172.22.0.254)) Some(172.22.0.2)"
    );
    assert_eq!(config.networking.service[0].to_string(), "172.30.0.0/16");
    assert_eq!(config.networking.cluster[0].host_prefix, 23);
    assert_eq!(config.domain(), "pxe.example.com");
}

#[test]
fn vips_come_from_dns_when_they_are_not_written() {
    let text = edit(
        PXE,
        &[(
            "    apiVIPs:\n      - 192.0.2.5\n    ingressVIPs:\n      - 192.0.2.6\n",
            "",
        )],
    );
    assert_eq!(
        asks_dns(&text),
        Some((
            "api.pxe.example.com".into(),
            "test.apps.pxe.example.com".into()
        ))
    );
    assert_eq!(asks_dns(PXE), None);
    let facts = Facts {
        api: vec!["192.0.2.5".parse().unwrap()],
        ingress: vec!["192.0.2.6".parse().unwrap(), "2001:db8::6".parse().unwrap()],
    };
    let config = parse(&text, &facts).unwrap().config;
    assert_eq!(
        config.baremetal.ingress_vips,
        ["192.0.2.6".parse::<IpAddr>().unwrap()]
    );
}

#[test]
fn roleless_hosts_fill_masters_first() {
    let text = PXE
        .replace("        role: master\n", "")
        .replace("        role: worker\n", "");
    let resolved = good(&text);
    let roles: Vec<_> = resolved
        .config
        .baremetal
        .hosts
        .iter()
        .map(|h| h.role.map(Role::name))
        .collect();
    assert_eq!(
        roles,
        [
            Some("master"),
            Some("master"),
            Some("master"),
            Some("worker"),
            Some("worker")
        ]
    );
    assert_eq!(resolved.warnings.len(), 5);
}

#[test]
fn a_secret_is_nowhere_in_what_can_be_printed() {
    let text = edit(
        PXE,
        &[
            ("password: change-me", "password: hunter2"),
            (
                "",
                "pullSecret: '{\"auths\": {\"r\": {\"auth\": \"hunter2\"}}}'",
            ),
            ("", "proxy: {httpProxy: 'http://u:hunter2@p:1'}"),
        ],
    );
    let config = good(&text).config;
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn a_file_of_thousands_of_mistakes_gets_a_list_that_a_person_can_read() {
    let text: String = (0..5000)
        .map(|n| format!("key{n}: x\n"))
        .collect::<Vec<_>>()
        .concat();
    let problems = bad(&text);
    assert_eq!(problems.len(), 201);
    assert!(
        problems[200].contains("more problems are not listed; correct these first"),
        "{}",
        problems[200]
    );
}

#[test]
fn every_field_can_be_explained() {
    let mut text = String::new();
    for path in [
        "",
        "platform.baremetal.hosts.bmc",
        "payload",
        "networking.clusterNetwork.hostPrefix",
    ] {
        text.push_str(&schema::find(path).unwrap().render(path));
        text.push('\n');
    }
    text.push_str(&schema::find("platform.baremetal.host").unwrap_err());
    insta::assert_snapshot!(text);
}

/// A value for every field of the schema, so that the structs are known to follow it.
fn everything(shape: schema::Shape) -> Value {
    use schema::Shape;
    match shape {
        Shape::Text | Shape::Secret => "x".into(),
        Shape::Integer => 7.into(),
        Shape::Boolean => true.into(),
        Shape::Any => serde_json::json!({"a": 1}),
        Shape::List(item) => vec![everything(*item)].into(),
        Shape::Object(fields) | Shape::Short(fields) => Value::Object(
            fields
                .iter()
                .map(|field| (field.name.to_owned(), everything(field.shape)))
                .collect(),
        ),
    }
}

#[test]
fn what_fits_the_schema_fits_the_structs() {
    let value = everything(schema::Shape::Object(schema::ROOT));
    let problems = bad(&serde_json::to_string(&value).unwrap());
    assert!(
        !problems
            .iter()
            .any(|problem| problem.contains("not as expected")),
        "{problems:?}"
    );
    serde_json::from_value::<written::Written>(value).unwrap();
}

#[test]
fn filling_in_defaults_twice_changes_nothing_more() {
    for (name, text) in EXAMPLES {
        let mut problems = Problems::default();
        let tree = yaml::parse(text, &mut problems).unwrap();
        let once = defaults::fill(read(&tree, &mut problems), &Facts::default(), &mut problems);
        let twice = defaults::fill(once.clone(), &Facts::default(), &mut problems);
        assert_eq!(once, twice, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_gives_a_config_or_problems(text in "(\\PC|\n|  |- |: ){0,300}") {
        _ = parse(&text, &Facts::default());
        _ = asks_dns(&text);
    }

    #[test]
    fn any_bytes_do_too(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        _ = parse(&String::from_utf8_lossy(&bytes), &Facts::default());
    }

    /// A good file with one line lost or doubled, or a piece of it replaced by noise.
    #[test]
    fn a_damaged_file_gives_a_config_or_problems(line in 0_usize..90, how in 0_u8..3, noise in "\\PC{0,20}") {
        let mut lines: Vec<String> = PXE.lines().map(String::from).collect();
        let line = line % lines.len();
        match how {
            0 => _ = lines.remove(line),
            1 => lines.insert(line, lines[line].clone()),
            _ => lines[line] = format!("{}{noise}", &lines[line][..lines[line].find(|c: char| !c.is_whitespace()).unwrap_or(0)]),
        }
        _ = parse(&lines.join("\n"), &Facts::default());
    }
}
