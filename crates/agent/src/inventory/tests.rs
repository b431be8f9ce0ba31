use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

/// A tree like the kernel's, in a folder of its own.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn file(self, path: &str, data: impl AsRef<[u8]>) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
        self
    }

    fn link(self, path: &str, target: &str) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::create_dir_all(self.path(target)).unwrap();
        symlink(self.path(target), path).unwrap();
        self
    }

    fn with_nic(self, name: &str, mac: &str) -> Self {
        let device = format!("sys/devices/pci0000:00/0000:00:0{}.0/virtio0", name.len());
        self.link(&format!("sys/class/net/{name}/device"), &device)
            .file(&format!("sys/class/net/{name}/address"), format!("{mac}\n"))
            .file(&format!("sys/class/net/{name}/carrier"), "1\n")
            .file(&format!("sys/class/net/{name}/speed"), "-1\n")
            .file(&format!("{device}/vendor"), "0x1af4\n")
            .file(&format!("{device}/device"), "0x0001\n")
    }

    fn with_sata_disk(self) -> Self {
        let port = "sys/devices/pci0000:00/0000:00:1f.2/ata3";
        let device = format!("{port}/host2/target2:0:0/2:0:0:0");
        self.link("sys/block/sda/device", &device)
            .file("sys/block/sda/size", "20971520\n")
            .file("sys/block/sda/ro", "0\n")
            .file("sys/block/sda/queue/rotational", "1\n")
            .file("sys/block/sda/queue/logical_block_size", "512\n")
            .file(&format!("{port}/ata_port/ata3/port_no"), "1\n")
            .file(&format!("{device}/model"), "QEMU HARDDISK   \n")
            .file(&format!("{device}/vendor"), "ATA     \n")
            .file(&format!("{device}/wwid"), "naa.5000c500a1b2c3d4\n")
            .file(&format!("{device}/vpd_pg80"), b"\0\x80\0\x08QM00005 ")
    }

    fn collect(&self) -> Inventory {
        collect(self.0.path(), &BTreeMap::new())
    }
}

#[test]
fn empty_tree_gives_an_empty_inventory() {
    let inventory = Tree::new().collect();
    assert!(inventory.disks.is_empty() && inventory.interfaces.is_empty());
    assert_eq!(inventory.memory.total, 0);
    assert_eq!(inventory.boot.current_boot_mode, BootMode::Bios);
}

#[test]
fn sata_disk_has_everything_root_device_hints_ask_for() {
    let inventory = Tree::new().with_sata_disk().collect();
    let [disk] = inventory.disks.as_slice() else {
        panic!("{:?}", inventory.disks)
    };
    assert_eq!(disk.name, "/dev/sda");
    assert_eq!(disk.model, "QEMU HARDDISK");
    assert_eq!(disk.vendor.as_deref(), Some("ATA"));
    assert_eq!(disk.size, 10 << 30);
    assert!(disk.rotational);
    assert_eq!(disk.serial.as_deref(), Some("QM00005"));
    assert_eq!(disk.wwn.as_deref(), Some("0x5000c500a1b2c3d4"));
    assert_eq!(disk.hctl.as_deref(), Some("2:0:0:0"));
    assert_eq!(
        disk.by_path.as_deref(),
        Some("/dev/disk/by-path/pci-0000:00:1f.2-ata-1")
    );
    assert_eq!(disk.tran.as_deref(), Some("sata"));
}

#[test]
fn read_only_empty_and_virtual_disks_are_left_out() {
    let mut tree = Tree::new();
    for (name, size, ro) in [
        ("sdb", "0", "0"),
        ("sdc", "8", "1"),
        ("sr0", "8", "0"),
        ("loop0", "8", "0"),
    ] {
        tree = tree
            .link(
                &format!("sys/block/{name}/device"),
                &format!("sys/devices/{name}"),
            )
            .file(&format!("sys/block/{name}/size"), size)
            .file(&format!("sys/block/{name}/ro"), ro);
    }
    let name = "nvme0c0n1";
    let device = format!("sys/devices/{name}");
    let tree = tree
        .link(&format!("sys/block/{name}/device"), &device)
        .file(&format!("sys/block/{name}/size"), "1000\n")
        .file(&format!("sys/block/{name}/ro"), "0\n")
        .file(&format!("sys/block/{name}/hidden"), "1\n");
    assert_eq!(tree.collect().disks, []);
}

#[test]
fn cards_are_sorted_by_number_and_bmc_and_virtual_ones_left_out() {
    let tree = Tree::new()
        .with_nic("eth10", "52:54:00:00:00:10")
        .with_nic("eth9", "52:54:00:00:00:09")
        .with_nic("usb0", "fa:16:3e:00:00:01")
        .file("sys/class/net/lo/address", "00:00:00:00:00:00");
    let addresses = [(
        "eth9".to_owned(),
        (Some("192.0.2.7".parse().unwrap()), None),
    )]
    .into();
    let nics = collect(tree.0.path(), &addresses).interfaces;
    let names: Vec<_> = nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["eth9", "eth10"]);
    assert_eq!(nics[0].ipv4_address.as_deref(), Some("192.0.2.7"));
    assert_eq!(nics[0].pci_address.as_deref(), Some("0000:00:04.0"));
    assert_eq!(nics[0].vendor.as_deref(), Some("0x1af4"));
    assert!(nics[0].has_carrier);
    assert_eq!(nics[0].speed_mbps, None);
}

#[test]
fn loader_tells_the_card_it_came_by() {
    let tree = Tree::new()
        .file(
            "proc/cmdline",
            "console=ttyS0 BOOTIF=01-52-54-00-AA-00-01 quiet\n",
        )
        .file("proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\n")
        .file("sys/firmware/efi/fw_platform_size", "64\n");
    let inventory = tree.collect();
    assert_eq!(
        inventory.boot.pxe_interface.as_deref(),
        Some("52:54:00:aa:00:01")
    );
    assert_eq!(inventory.boot.current_boot_mode, BootMode::Uefi);
    assert_eq!(inventory.memory.total, 2 << 20);
}
