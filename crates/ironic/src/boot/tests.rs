//! Scripts and CDs, as firmware and BMCs get them.

use std::path::Path;

use jiff::Timestamp;
use lifecycle::node::{BootBy, BootInto};
use model::Mac;
use serde_json::json;
use uuid::Uuid;

use super::media::Discs;
use super::{Error, Settings, script};
use crate::config::Config;
use crate::record::{BootOrder, Interfaces, Node};

const MAC: Mac = Mac([0x52, 0x54, 0, 0, 0, 1]);

#[test]
fn agents_on_a_disc_know_the_service_by_whoever_signed_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("leaf", "the leaf"), ("root", "the root")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let authority = |ca: &str| {
        let at = folder.path().display();
        let text = format!(
            "tls: {{certificate: {at}/leaf, key: {at}/key{ca}}}\nboot: {{interface: eth0, address: 172.22.0.3/24, dhcp: {{mode: off}}}}\n"
        );
        let config = Config::parse(&text, Path::new("test")).unwrap();
        let certificate = Settings::of(&config)?.unwrap().api.certificate;
        Ok::<_, Error>(String::from_utf8(certificate.unwrap()).unwrap())
    };
    assert_eq!(authority("").unwrap(), "the leaf");
    let ca = format!(", ca: {}/root", folder.path().display());
    assert_eq!(authority(&ca).unwrap(), "the root");
    // Without it agents would have to believe anybody.
    let missing = format!(", ca: {}/nobody", folder.path().display());
    let error = authority(&missing).unwrap_err().to_string();
    assert!(
        error.contains("nobody") && error.contains("tls.ca"),
        "{error}"
    );
}

fn settings(folder: &Path) -> Settings {
    let folder = folder.display();
    let text = format!(
        "boot:\n  interface: eth0\n  address: 172.22.0.3/24\n  dhcp: {{mode: off}}\n  \
         ramdisk: {{kernel: {folder}/vmlinuz, initrd: {folder}/initrd, append: quiet, directories: [{folder}]}}\n"
    );
    let config = Config::parse(&text, Path::new("test")).unwrap();
    Settings::of(&config).unwrap().unwrap()
}

fn node(into: Option<BootInto>, by: BootBy) -> Node {
    let mut node = Node::new(
        Uuid::from_u128(7),
        "fake-hardware".into(),
        Interfaces::default(),
        Timestamp::UNIX_EPOCH,
    );
    node.name = Some("one; shell".into());
    node.boot_order = into.map(|into| BootOrder {
        into,
        by,
        key: Uuid::from_u128(9),
    });
    node
}

fn script_of(node: &Node) -> String {
    script::of(node, MAC, &settings(Path::new("/r")))
}

#[test]
fn a_node_without_an_order_boots_its_disk_and_says_so_without_running_its_name() {
    let text = script_of(&node(None, BootBy::Pxe));
    assert!(text.contains("(one? shell) boots from its disk"), "{text}");
    assert!(text.contains("&& sanboot --no-describe --drive 0x80 ||\nexit 1\n"));
    let cd = script_of(&node(Some(BootInto::Ramdisk), BootBy::VirtualMedia));
    assert!(cd.contains("virtual CD"), "{cd}");
}

#[test]
fn the_agent_is_told_where_to_call_and_by_which_card_it_came() {
    let text = script_of(&node(Some(BootInto::Ramdisk), BootBy::Pxe));
    assert!(text.contains(
        "kernel http://172.22.0.3:6180/boot/52-54-00-00-00-01/kernel quiet ipa-api-url=http://172.22.0.3:6385 BOOTIF=${mac} initrd=initrd || goto failed\n"
    ), "{text}");
    assert!(!text.contains("token"));
    let inspecting = script_of(&node(Some(BootInto::Inspection), BootBy::Pxe));
    assert!(
        inspecting.contains(
            " ipa-inspection-callback-url=http://172.22.0.3:6385/v1/continue_inspection "
        )
    );
}

#[test]
fn a_nodes_own_kernel_and_arguments_are_used_and_bad_ones_show_why_not() {
    let mut own = node(Some(BootInto::Ramdisk), BootBy::Pxe);
    let info = &mut own.driver_info;
    info.insert("deploy_kernel".into(), json!("https://images.test/k"));
    info.insert("deploy_ramdisk".into(), json!("https://images.test/r"));
    info.insert("kernel_append_params".into(), json!("%default% nomodeset"));
    let text = script_of(&own);
    assert!(
        text.contains("kernel https://images.test/k quiet nomodeset ipa-api-url="),
        "{text}"
    );
    for (key, bad) in [
        ("deploy_kernel", "https://images.test/k || shell"),
        ("deploy_kernel", "/etc/shadow"),
        ("deploy_ramdisk", "file:///etc/../etc/shadow"),
        ("kernel_append_params", "a\nchain http://evil.test"),
    ] {
        let mut bad_node = own.clone();
        bad_node.driver_info.insert(key.into(), json!(bad));
        let text = script_of(&bad_node);
        assert!(text.contains("cannot be booted:"), "{bad}: {text}");
        assert!(!text.contains("\nkernel"), "{bad}: {text}");
        assert!(!text.contains("\nchain http://evil"), "{bad}: {text}");
    }
}

#[test]
fn a_live_system_is_booted_as_it_is() {
    let mut live = node(Some(BootInto::BootIso), BootBy::Pxe);
    live.instance_info
        .insert("boot_iso".into(), json!("http://images.test/live.iso"));
    assert!(script_of(&live).contains("sanboot --no-describe http://images.test/live.iso"));
    let at = settings(Path::new("/r")).media_url(&live);
    assert_eq!(at.as_deref(), Some("http://images.test/live.iso"));
    live.instance_info.clear();
    assert!(script_of(&live).contains("cannot be booted:"));
}

#[test]
fn macs_in_paths_are_read_in_every_spelling() {
    for text in [
        "52-54-00-00-00-01",
        "52:54:00:00:00:01",
        "01-52-54-00-00-00-01",
    ] {
        assert_eq!(script::parse_mac(text), Some(MAC), "{text}");
    }
    assert_eq!(script::parse_mac("01-52-54"), None);
    assert_eq!(script::parse_mac("../../x"), None);
}

#[test]
fn a_cd_carries_token_network_and_system_and_any_part_of_it_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    for (name, byte) in [("vmlinuz", 1), ("initrd", 2), ("grubx64.efi", 3)] {
        std::fs::write(folder.path().join(name), vec![byte; 50_000]).unwrap();
    }
    let settings = settings(folder.path());
    let mut node = node(Some(BootInto::Ramdisk), BootBy::VirtualMedia);
    assert_eq!(
        settings.media_url(&node).unwrap(),
        format!(
            "https://172.22.0.3:6183/media/{}/{}/boot.iso",
            Uuid::from_u128(7),
            Uuid::from_u128(9)
        )
    );
    let info = &mut node.driver_internal_info;
    info.insert("agent_secret_token".into(), json!("s3cr3t"));
    info.insert("agent_secret_token_pregenerated".into(), json!(true));
    node.network_data.insert("links".into(), json!([]));
    let order = node.boot_order.clone().unwrap();
    let discs = Discs::default();
    let disc = discs.of(&node, &order, &settings).unwrap();
    let mut whole = vec![0; disc.size() as usize];
    disc.read(0, &mut whole).unwrap();
    let holds = |text: &str| {
        whole
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    assert_eq!(&whole[0x8001..0x8006], b"CD001");
    assert!(whole[0x8028..].starts_with(b"config-2"));
    for text in [
        "'ipa-agent-token=s3cr3t'",
        "'boot_method=vmedia'",
        "'ir_pub_id=00000000-0000-0000-0000-000000000009'",
        "{\"links\":[]}",
    ] {
        assert!(holds(text), "{text}");
    }
    for (offset, length) in [
        (0, 1),
        (0x8000, 2048),
        (disc.size() - 5, 5),
        (70_001, 99_999),
    ] {
        let mut part = vec![0; length];
        disc.read(offset, &mut part).unwrap();
        assert!(part == whole[offset as usize..][..length], "{offset}");
    }
    assert!(disc.read(disc.size() - 1, &mut [0; 2]).is_err());
    let again = discs.of(&node, &order, &settings).unwrap();
    assert!(std::sync::Arc::ptr_eq(&disc, &again), "made once");
    node.driver_info
        .insert("deploy_iso".into(), json!("http://images.test/agent.iso"));
    assert_eq!(
        settings.media_url(&node).as_deref(),
        Some("http://images.test/agent.iso")
    );
}
