use std::time::Duration;

use linux::netlink::Netlink;
use linux::netns::Host;
use linux::packet::{Listen, Options, Socket};
use model::Mac;
use vm::{Firmware, Machine, Nic, NicEnd, Spec};

use crate::{LIMIT, spec};

const MAC: Mac = Mac([0x52, 0x54, 0, 0xab, 0xcd, 0xef]);

/// A server on a persistent tap in another namespace: the cable is live exactly while the machine is on,
/// and what its firmware sends arrives there.
#[test]
fn a_machine_is_on_the_network_of_its_taps_namespace() {
    let site = Host::new("site").expect("a network namespace (this needs root)");
    site.run(|| async {
        linux::tap::ensure_persistent("tap0").unwrap();
        Netlink::connect().unwrap().set_up("tap0").await.unwrap();
    });
    let namespace = site.namespace().clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let machine = runtime.block_on(async {
        let end = NicEnd::Tap {
            name: "tap0".into(),
            namespace: Some(namespace),
        };
        let nic = Nic {
            id: "nic0".into(),
            mac: MAC,
            end,
            rom: None,
        };
        let uefi = Spec {
            firmware: Firmware::ovmf(),
            disks: Vec::new(),
            nics: vec![nic],
            boot_order: vec!["nic0".into()],
            ..spec(dir.path())
        };
        Machine::start(uefi).await.unwrap()
    });
    site.run(|| async {
        let link = Netlink::connect()
            .unwrap()
            .wait_carrier("tap0", LIMIT)
            .await
            .unwrap();
        let socket = Socket::open(
            link.index,
            Options {
                listen: Listen::All,
                promiscuous: true,
            },
        )
        .unwrap();
        let heard = async {
            let mut frame = [0; 2000];
            loop {
                let received = socket.receive(&mut frame).await.unwrap();
                if !received.outgoing && frame[6..12] == MAC.octets() {
                    return;
                }
            }
        };
        tokio::time::timeout(LIMIT, heard)
            .await
            .expect("a frame from the firmware");
    });
    runtime.block_on(async {
        machine.set_link("nic0", false).await.unwrap();
        machine.set_link("nic0", true).await.unwrap();
        machine.kill().await.unwrap();
    });
    site.run(|| async {
        let netlink = Netlink::connect().unwrap();
        let down = async {
            while netlink.link("tap0").await.unwrap().carrier {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, down)
            .await
            .expect("no carrier when the power is off");
    });
}
