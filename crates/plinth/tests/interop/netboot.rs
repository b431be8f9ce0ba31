//! Simulated firmware boots over the network from dnsmasq and a plain web server.

use std::time::Duration;

use serde_json::json;

use crate::harness::Lab;

const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_simulated_server_network_boots_from_dnsmasq() {
    let lab = Lab::up(&["--kind", "sim", "--servers", "2"]);
    lab.exec(&[
        "ip",
        "address",
        "add",
        "172.22.0.1/24",
        "dev",
        "provisioning",
    ]);
    let files = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| std::fs::write(files.path().join(name), bytes).unwrap();
    put("snponly.efi", &vec![0x4d; 200_000]);
    put("boot.ipxe", b"#!ipxe\nset id:int8 -1\n:next\ninc id\nisset ${net${id}/mac} || goto none\nchain cfg-${net${id}/mac:hexhyp} || goto next\n:none\nexit 1\n");
    let mac = lab.server(0)["macs"][1]["mac"]
        .as_str()
        .unwrap()
        .replace(':', "-");
    put(
        &format!("cfg-{mac}"),
        b"#!ipxe\nkernel vmlinuz console=ttyS0 BOOTIF=${mac} initrd=initrd\ninitrd initrd\nboot\n",
    );
    put("vmlinuz", &vec![1; 3_000_000]);
    put("initrd", &vec![2; 3_000_000]);
    let root = files.path().to_str().unwrap();
    let (tftp, leases) = (
        format!("--tftp-root={root}"),
        format!("--dhcp-leasefile={root}/leases"),
    );
    let _dnsmasq = lab.start(&[
        "dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--pid-file",
        "--user=root",
        "--port=0",
        "--interface=provisioning",
        "--bind-dynamic",
        "--dhcp-range=172.22.0.10,172.22.0.100,255.255.255.0",
        "--enable-tftp",
        &tftp,
        &leases,
        "--dhcp-match=set:ipxe,175",
        "--dhcp-boot=tag:ipxe,http://192.168.111.1:8080/boot.ipxe",
        "--dhcp-boot=tag:!ipxe,snponly.efi",
    ]);
    let (_files, _) = lab.serve_files(files.path());
    let boot =
        json!({"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}});
    for index in 0..2 {
        assert!(matches!(
            lab.redfish(index, "PATCH", "system", Some(&boot)).0,
            200 | 204
        ));
        assert_eq!(lab.reset(index, "On").0, 204);
    }
    lab.wait_console("server-0", "PLINTH-INVENTORY-END", SOON);
    let console = lab.console("server-0");
    assert!(console.contains("started snponly.efi as iPXE"), "{console}");
    let kernel = format!(
        "Booting http://192.168.111.1:8080/vmlinuz console=ttyS0 BOOTIF={} initrd=initrd",
        mac.replace('-', ":")
    );
    assert!(console.contains(&kernel), "{console}");
    // There is no script for the other one: its firmware says so and goes on.
    lab.wait_console(
        "server-1",
        "the boot script left it to the next device",
        SOON,
    );
}
