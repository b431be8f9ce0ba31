//! One row per fact that a check must object to, forgive, or not know.

use model::{Mac, Secret};

use super::world::{MEDIA, NOW, PXE, STATIC, World, disk, elsewhere, inside, offer, why};
use crate::cluster::Plan;
use crate::install_config::{BootMode, Mode, TrustBundle};
use crate::preflight::*;
use Verdict::{Fail, Pass, Unknown, Warn};

/// What is wrong, in which site, and what must come of it.
pub type Case = (&'static str, &'static str, fn(&mut World), Verdict);

pub const CASES: &[Case] = &[
    (
        "bmc-reachable",
        PXE,
        |w| {
            w.bmc(Bmc::Silent {
                why: why("no route"),
            });
        },
        Fail,
    ),
    (
        "bmc-reachable",
        PXE,
        |w| w.bmc(Bmc::NotLetIn { why: why("401") }),
        Pass,
    ),
    (
        "bmc-reachable",
        PXE,
        |w| _ = w.seen.bmcs.pop_first(),
        Unknown,
    ),
    (
        "bmc-certificate",
        PXE,
        |w| {
            w.bmc(Bmc::Untrusted {
                why: why("unknown issuer"),
            });
        },
        Fail,
    ),
    (
        "bmc-certificate",
        PXE,
        |w| {
            w.bmc(Bmc::Silent {
                why: why("no route"),
            });
        },
        Unknown,
    ),
    (
        "bmc-certificate",
        PXE,
        |w| {
            w.config.baremetal.hosts[0].bmc = "redfish+http://192.0.2.101/redfish/v1/Systems/1"
                .parse()
                .unwrap();
        },
        Warn,
    ),
    (
        "bmc-credentials",
        PXE,
        |w| w.bmc(Bmc::NotLetIn { why: why("401") }),
        Fail,
    ),
    (
        "bmc-credentials",
        PXE,
        |w| {
            w.bmc(Bmc::Untrusted {
                why: why("unknown issuer"),
            });
        },
        Unknown,
    ),
    (
        "bmc-system",
        PXE,
        |w| {
            w.bmc(Bmc::NoSystem {
                why: why("it has 2 systems"),
            });
        },
        Fail,
    ),
    (
        "bmc-system",
        PXE,
        |w| w.bmc(Bmc::Unread { why: why("503") }),
        Unknown,
    ),
    (
        "bmc-unique",
        PXE,
        |w| w.first().uuid = Some("uuid-1".into()),
        Fail,
    ),
    ("bmc-unique", PXE, |w| w.first().uuid = None, Unknown),
    (
        "bmc-address",
        PXE,
        |w| w.config.baremetal.api_vips = vec!["192.0.2.101".parse().unwrap()],
        Fail,
    ),
    (
        "bmc-address",
        PXE,
        |w| {
            w.config.baremetal.hosts[0].bmc = "redfish://172.22.0.20/redfish/v1/Systems/1"
                .parse()
                .unwrap();
        },
        Fail,
    ),
    (
        "bmc-address",
        STATIC,
        |w| {
            w.config.baremetal.hosts[1].bmc =
                "redfish-virtualmedia://192.0.2.21/redfish/v1/Systems/1"
                    .parse()
                    .unwrap();
        },
        Fail,
    ),
    (
        "bmc-clock",
        PXE,
        |w| w.first().clock_ahead = Fact::Known(Some(-86_400)),
        Warn,
    ),
    (
        "bmc-clock",
        PXE,
        |w| w.first().clock_ahead = Fact::Known(None),
        Unknown,
    ),
    (
        "bmc-firmware",
        PXE,
        |w| w.first().firmware = Fact::Known(Some("iLO 6 v1.40".into())),
        Warn,
    ),
    (
        "bmc-firmware",
        MEDIA,
        |w| w.first().vendor = Some("Dell Inc.".into()),
        Warn,
    ),
    (
        "bmc-firmware",
        PXE,
        |w| w.first().firmware = Fact::Known(None),
        Unknown,
    ),
    (
        "virtual-media",
        MEDIA,
        |w| w.first().media = Fact::Known(Vec::new()),
        Fail,
    ),
    (
        "virtual-media",
        PXE,
        |w| w.first().media = Fact::Known(Vec::new()),
        Pass,
    ),
    (
        "virtual-media",
        MEDIA,
        |w| w.first().media = Fact::Unknown(why("500")),
        Unknown,
    ),
    (
        "virtual-media-empty",
        MEDIA,
        |w| inside(&mut w.first().media)[0].image = Some("http://192.0.2.3/old.iso".into()),
        Warn,
    ),
    (
        "virtual-media-licence",
        MEDIA,
        |w| w.first().licences = Fact::Known(Some(vec!["iLO Standard".into()])),
        Fail,
    ),
    (
        "virtual-media-licence",
        MEDIA,
        |w| w.first().licences = Fact::Known(Some(Vec::new())),
        Fail,
    ),
    (
        "virtual-media-licence",
        MEDIA,
        |w| w.first().licences = Fact::Known(None),
        Unknown,
    ),
    (
        "virtual-media-licence",
        PXE,
        |w| w.first().licences = Fact::Known(Some(Vec::new())),
        Pass,
    ),
    ("power", PXE, |w| w.first().on = Some(true), Warn),
    ("power", PXE, |w| w.first().on = None, Warn),
    (
        "health",
        PXE,
        |w| w.first().health = Some("Critical".into()),
        Warn,
    ),
    (
        "boot-mode",
        PXE,
        |w| w.first().boot_mode = Some(BootMode::Legacy),
        Warn,
    ),
    (
        "boot-mode",
        PXE,
        |w| w.config.baremetal.hosts[0].boot_mode = BootMode::Legacy,
        Warn,
    ),
    ("boot-mode", PXE, |w| w.first().boot_mode = None, Unknown),
    (
        "boot-device",
        PXE,
        |w| w.first().boot_targets = Fact::Known(vec!["Hdd".into(), "Cd".into()]),
        Fail,
    ),
    (
        "boot-device",
        MEDIA,
        |w| w.first().boot_targets = Fact::Known(vec!["Hdd".into(), "Pxe".into()]),
        Fail,
    ),
    (
        "boot-device",
        PXE,
        |w| w.first().boot_targets = Fact::Known(Vec::new()),
        Unknown,
    ),
    (
        "secure-boot",
        PXE,
        |w| {
            w.config.baremetal.hosts[0].boot_mode = BootMode::UefiSecureBoot;
            w.first().secure_boot = Fact::Known(None);
        },
        Fail,
    ),
    (
        "secure-boot",
        PXE,
        |w| w.first().secure_boot = Fact::Known(Some(true)),
        Warn,
    ),
    (
        "boot-mac",
        PXE,
        |w| inside(&mut w.first().nics)[0].mac = Mac([2, 0, 0, 0, 5, 5]),
        Fail,
    ),
    (
        "boot-mac",
        PXE,
        |w| inside(&mut w.first().nics).clear(),
        Unknown,
    ),
    (
        "boot-link",
        PXE,
        |w| {
            w.first().on = Some(true);
            inside(&mut w.first().nics)[0].link = false;
        },
        Warn,
    ),
    (
        "boot-link",
        PXE,
        |w| inside(&mut w.first().nics)[0].link = false,
        Unknown,
    ),
    (
        "mac-unique",
        PXE,
        |w| w.config.baremetal.hosts[0].boot_mac = w.config.baremetal.hosts[1].boot_mac,
        Fail,
    ),
    (
        "mac-unique",
        PXE,
        |w| w.links().ports[1].mac = Some(w.config.baremetal.hosts[0].boot_mac),
        Fail,
    ),
    (
        "mac-unique",
        PXE,
        |w| {
            let other = w.config.baremetal.hosts[1].boot_mac;
            inside(&mut w.first().nics).push(Nic {
                mac: other,
                link: true,
            });
        },
        Fail,
    ),
    (
        "root-device",
        STATIC,
        |w| w.first().disks = Fact::Known(vec![disk("OTHER", 480)]),
        Fail,
    ),
    (
        "root-device",
        STATIC,
        |w| w.first().disks = Fact::Known(vec![disk("DISK-1", 480), disk("DISK-1", 480)]),
        Fail,
    ),
    (
        "root-device",
        STATIC,
        |w| w.first().disks = Fact::Known(Vec::new()),
        Unknown,
    ),
    ("root-device", PXE, |_| (), Unknown),
    (
        "disk-size",
        STATIC,
        |w| w.first().disks = Fact::Known(vec![disk("DISK-1", 4)]),
        Fail,
    ),
    (
        "disk-size",
        PXE,
        |w| w.first().disks = Fact::Known(vec![disk("A", 4), disk("B", 5)]),
        Fail,
    ),
    (
        "disk-size",
        STATIC,
        |w| w.first().disks = Fact::Known(vec![disk("OTHER", 480)]),
        Unknown,
    ),
    (
        "memory",
        PXE,
        |w| w.first().memory_mib = Fact::Known(1024),
        Fail,
    ),
    (
        "memory",
        PXE,
        |w| w.first().memory_mib = Fact::Unknown(why("IPMI does not say")),
        Unknown,
    ),
    ("processors", PXE, |w| w.first().cpus = Fact::Known(0), Fail),
    (
        "architecture",
        PXE,
        |w| w.first().architecture = Fact::Known("aarch64".into()),
        Fail,
    ),
    ("vip-free", PXE, |w| w.taken("baremetal", "192.0.2.5"), Fail),
    (
        "vip-free",
        PXE,
        |w| w.wire("baremetal").claims = Fact::Unknown(why("needs root")),
        Unknown,
    ),
    (
        "vip-in-network",
        PXE,
        |w| w.config.baremetal.api_vips = vec!["198.51.100.5".parse().unwrap()],
        Fail,
    ),
    (
        "vip-in-network",
        PXE,
        |w| w.config.baremetal.api_vips = vec!["192.0.2.255".parse().unwrap()],
        Fail,
    ),
    (
        "vip-in-network",
        PXE,
        |w| {
            w.config.baremetal.api_vips = vec!["198.51.100.5".parse().unwrap()];
            w.config.baremetal.managed_load_balancer = false;
        },
        Pass,
    ),
    (
        "vip-not-leased",
        PXE,
        |w| inside(&mut w.wire("baremetal").offers)[0].address = "192.0.2.6".parse().unwrap(),
        Fail,
    ),
    (
        "vip-not-leased",
        PXE,
        |w| w.config.baremetal.api_vips = vec!["172.22.0.20".parse().unwrap()],
        Fail,
    ),
    (
        "vip-not-ours",
        PXE,
        |w| {
            w.links().ports[0]
                .addresses
                .push("192.0.2.5/32".parse().unwrap());
        },
        Fail,
    ),
    (
        "vrid-quiet",
        PXE,
        |w| {
            let vrid = Plan::new(&w.config, None).vips[0].vrid;
            let heard = Advertisement {
                vrid,
                from: "192.0.2.200".parse().unwrap(),
                addresses: Vec::new(),
            };
            w.wire("baremetal").vrrp = Fact::Known(vec![heard]);
        },
        Fail,
    ),
    (
        "vrid-quiet",
        PXE,
        |w| w.wire("baremetal").vrrp = Fact::Unasked,
        Unknown,
    ),
    (
        "provisioning-dhcp",
        PXE,
        |w| w.wire("provisioning").offers = Fact::Known(vec![offer()]),
        Fail,
    ),
    (
        "provisioning-dhcp",
        PXE,
        |w| w.config.baremetal.provisioning.mode = Mode::Unmanaged,
        Fail,
    ),
    (
        "provisioning-dhcp",
        PXE,
        |w| {
            w.config.baremetal.provisioning.mode = Mode::Unmanaged;
            w.wire("provisioning").offers = Fact::Known(vec![offer()]);
        },
        Pass,
    ),
    (
        "site-dhcp",
        PXE,
        |w| w.wire("baremetal").offers = Fact::Known(Vec::new()),
        Fail,
    ),
    (
        "site-dhcp",
        PXE,
        |w| inside(&mut w.wire("baremetal").offers)[0].address = "198.51.100.3".parse().unwrap(),
        Fail,
    ),
    (
        "site-dhcp",
        STATIC,
        |w| w.wire("baremetal").offers = Fact::Known(Vec::new()),
        Pass,
    ),
    (
        "gateway",
        STATIC,
        |w| _ = inside(&mut w.wire("baremetal").claims).insert("192.0.2.1".parse().unwrap(), None),
        Warn,
    ),
    (
        "gateway",
        PXE,
        |w| w.wire("baremetal").offers = Fact::Known(Vec::new()),
        Warn,
    ),
    (
        "provisioning-ip-free",
        PXE,
        |w| w.taken("provisioning", "172.22.0.2"),
        Fail,
    ),
    (
        "provisioning-ip-free",
        PXE,
        |w| {
            w.links().ports[2]
                .addresses
                .push("172.22.0.3/24".parse().unwrap());
        },
        Fail,
    ),
    (
        "static-ip-free",
        STATIC,
        |w| w.taken("baremetal", "192.0.2.22"),
        Fail,
    ),
    (
        "dns-upstream",
        PXE,
        |w| {
            let resolver = &mut inside(&mut w.seen.dns)[0];
            resolver
                .answers
                .values_mut()
                .for_each(|answer| *answer = Answer::Silent(why("refused")));
        },
        Warn,
    ),
    (
        "dns-upstream",
        PXE,
        |w| inside(&mut w.seen.dns).clear(),
        Warn,
    ),
    ("dns-api", PXE, |w| w.says("api.", elsewhere()), Fail),
    ("dns-api", PXE, |w| w.says("api.", Answer::Nothing), Warn),
    (
        "dns-api",
        PXE,
        |w| {
            w.config.baremetal.external_dns_records = true;
            w.says("api.", Answer::Nothing);
        },
        Fail,
    ),
    (
        "dns-api",
        PXE,
        |w| w.says("api.", Answer::Silent(why("slow"))),
        Unknown,
    ),
    (
        "dns-api-int",
        PXE,
        |w| w.says("api-int.", elsewhere()),
        Fail,
    ),
    (
        "dns-api-int",
        PXE,
        |w| w.config.baremetal.external_dns_records = true,
        Fail,
    ),
    (
        "dns-apps",
        PXE,
        |w| w.says("plinth-preflight.apps.", elsewhere()),
        Fail,
    ),
    (
        "dns-catch-all",
        PXE,
        |w| w.says("plinth-preflight-nobody.", elsewhere()),
        Fail,
    ),
    (
        "ntp",
        STATIC,
        |w| {
            _ = w
                .seen
                .ntp
                .insert("192.0.2.1".into(), Fact::Unknown(why("silent")));
        },
        Warn,
    ),
    ("ntp", STATIC, |w| w.seen.ntp.clear(), Unknown),
    (
        "ntp-skew",
        STATIC,
        |w| _ = w.seen.ntp.insert("192.0.2.1".into(), Fact::Known(-60_000)),
        Fail,
    ),
    ("clock", PXE, |w| w.seen.now = 1_000, Fail),
    ("clock", PXE, |w| w.seen.now = 9_999_999_999, Fail),
    (
        "image-reachable",
        PXE,
        |w| with_image(w, Fact::Unknown(why("404"))),
        Fail,
    ),
    (
        "image-reachable",
        PXE,
        |w| with_image(w, Fact::Unasked),
        Unknown,
    ),
    (
        "image-size",
        PXE,
        |w| {
            with_image(
                w,
                Fact::Known(Image {
                    size: Some(300),
                    sha256: None,
                }),
            );
        },
        Fail,
    ),
    (
        "image-size",
        PXE,
        |w| {
            with_image(
                w,
                Fact::Known(Image {
                    size: None,
                    sha256: None,
                }),
            );
        },
        Unknown,
    ),
    (
        "image-checksum",
        PXE,
        |w| {
            with_image(
                w,
                Fact::Known(Image {
                    size: None,
                    sha256: Some("b".repeat(64)),
                }),
            );
        },
        Fail,
    ),
    (
        "image-checksum",
        PXE,
        |w| {
            with_image(
                w,
                Fact::Known(Image {
                    size: None,
                    sha256: Some("A".repeat(64)),
                }),
            );
        },
        Pass,
    ),
    (
        "image-cached",
        PXE,
        |w| _ = inside(&mut w.seen.cached).insert("cache:os".into(), false),
        Warn,
    ),
    ("root", PXE, |w| w.here().root = false, Fail),
    ("host-processors", PXE, |w| w.here().cpus = 1, Warn),
    ("host-memory", PXE, |w| w.here().memory_mib = 1000, Fail),
    ("host-disk", PXE, |w| w.here().disk_mib = 1000, Fail),
    (
        "host-kvm",
        PXE,
        |w| w.here().no_kvm = Some(why("no /dev/kvm")),
        Warn,
    ),
    (
        "host-qemu",
        PXE,
        |w| w.here().missing.push("qemu-system-x86_64".into()),
        Fail,
    ),
    ("host-qemu", PXE, |w| w.seen.here = Fact::Unasked, Unknown),
    (
        "bridge",
        PXE,
        |w| w.links().ports[0].name = "br0".into(),
        Fail,
    ),
    ("bridge", PXE, |w| w.links().ports[2].bridge = false, Fail),
    (
        "bridge-carrier",
        PXE,
        |w| w.links().ports[1].carrier = false,
        Fail,
    ),
    (
        "bridge-carrier",
        PXE,
        |w| {
            let port = &mut w.links().ports[1];
            (port.carrier, port.tap) = (false, true);
        },
        Pass,
    ),
    (
        "bridge-carrier",
        PXE,
        |w| w.links().ports[0].up = false,
        Fail,
    ),
    (
        "bridge-carrier",
        PXE,
        |w| _ = w.links().ports.remove(1),
        Fail,
    ),
    (
        "bridge-carrier",
        PXE,
        |w| w.links().ports[0].name = "br0".into(),
        Unknown,
    ),
    ("bridge-mtu", PXE, |w| w.links().ports[1].mtu = 9000, Warn),
    (
        "host-mtu",
        STATIC,
        |w| {
            let network = w.config.baremetal.hosts[0].network.as_mut().unwrap();
            network.interfaces.last_mut().unwrap().mtu = Some(9000);
        },
        Warn,
    ),
    (
        "networks-separate",
        PXE,
        |w| w.links().default_link = Some("provisioning".into()),
        Fail,
    ),
    (
        "networks-separate",
        PXE,
        |w| w.config.baremetal.provisioning_bridge = Some("baremetal".into()),
        Fail,
    ),
    (
        "ports-free",
        PXE,
        |w| {
            _ = w
                .seen
                .open_ports
                .insert("172.22.0.2".parse().unwrap(), Fact::Known(vec![6385]));
        },
        Fail,
    ),
    ("ports-free", PXE, |w| w.seen.open_ports.clear(), Unknown),
    (
        "local-dhcp",
        PXE,
        |w| {
            w.links().ports[2]
                .addresses
                .push("172.22.0.1/24".parse().unwrap());
            listens(w, "172.22.0.1");
        },
        Warn,
    ),
    ("local-dhcp", PXE, |w| listens(w, "192.168.122.1"), Pass),
    ("local-dhcp", PXE, |w| listens(w, "0.0.0.0"), Pass),
    (
        "local-dhcp",
        PXE,
        |w| {
            listens(w, "0.0.0.0");
            w.wire("provisioning").offers = Fact::Unasked;
        },
        Unknown,
    ),
    (
        "networks-disjoint",
        PXE,
        |w| w.links().routes.push("10.128.4.0/24".parse().unwrap()),
        Fail,
    ),
    (
        "networks-disjoint",
        PXE,
        |w| w.links().routes.push("172.0.0.0/8".parse().unwrap()),
        Fail,
    ),
    (
        "networks-disjoint",
        PXE,
        |w| w.config.baremetal.hosts[0].bmc = "ipmi://172.30.0.9".parse().unwrap(),
        Fail,
    ),
    (
        "networks-disjoint",
        PXE,
        |w| w.config.baremetal.ntp_servers = vec!["10.128.0.1".into()],
        Fail,
    ),
    (
        "pull-secret",
        PXE,
        |w| w.config.pull_secret = Some(Secret::new(r#"{"auths":{}}"#.into())),
        Fail,
    ),
    (
        "pull-secret",
        PXE,
        |w| {
            w.config.pull_secret = Some(Secret::new(
                r#"{"auths":{"quay.io":{"auth":"aHVudGVyMg=="}}}"#.into(),
            ));
        },
        Fail,
    ),
    (
        "pull-secret",
        PXE,
        |w| {
            w.config.pull_secret = Some(Secret::new(
                r#"{"auths":{"quay.io":{"auth":"dXNlcjpodW50ZXIy"}}}"#.into(),
            ));
        },
        Pass,
    ),
    ("ssh-key", PXE, |w| w.config.ssh_keys.clear(), Warn),
    (
        "ssh-key",
        PXE,
        |w| {
            w.config.ssh_keys[0] =
                "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f me"
                    .into();
        },
        Warn,
    ),
    (
        "ssh-key",
        PXE,
        |w| w.config.ssh_keys[0] = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ== me".into(),
        Warn,
    ),
    (
        "trust-bundle",
        PXE,
        |w| {
            w.config.trust_bundle = Some(TrustBundle {
                pem: OLD.into(),
                always: true,
            });
        },
        Fail,
    ),
    ("certificates", PXE, |w| ends(w, NOW - 1), Fail),
    ("certificates", PXE, |w| ends(w, NOW + 24 * 60 * 60), Warn),
    (
        "certificates",
        PXE,
        |w| ends(w, NOW + 300 * 24 * 60 * 60),
        Pass,
    ),
];

fn listens(world: &mut World, address: &str) {
    world.seen.listening = Fact::Known(vec![Listening {
        transport: Transport::Udp,
        address: address.parse().unwrap(),
        port: 67,
    }]);
}

fn with_image(world: &mut World, fact: Fact<Image>) {
    let url = "http://192.0.2.1/os.qcow2.gz".to_owned();
    world.config.baremetal.cluster_os_image = Some(crate::install_config::Image {
        url: url.clone(),
        sha256: "a".repeat(64),
    });
    world.seen.images.insert(url, fact);
}

fn ends(world: &mut World, not_after: i64) {
    world.seen.certificates = Fact::Known(vec![Expiry {
        name: "apiserver".into(),
        not_before: NOW - 365 * 24 * 60 * 60,
        not_after,
    }]);
}

/// Of the years 2000 and 2001.
const OLD: &str = include_str!("../old.pem");
