//! Disks, as sysfs shows them. The names of their properties follow lsblk's and udev's, for users write root
//! device hints against those.

use std::fs;
use std::path::Path;

use model::inventory::Disk;

use super::{is_pci_address, number, pci_address, text};

pub fn collect(sys: &Path) -> Vec<Disk> {
    let mut found: Vec<_> = fs::read_dir(sys.join("block"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| read(&entry.path(), &entry.file_name().to_string_lossy()))
        .collect();
    // vda before vdaa, as the kernel counts.
    found.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
    found
}

fn read(dir: &Path, name: &str) -> Option<Disk> {
    let virtual_kinds = ["loop", "ram", "zram", "sr", "fd", "dm-", "md", "nbd"];
    if virtual_kinds.iter().any(|kind| name.starts_with(kind)) {
        return None;
    }
    let device = dir.join("device");
    let place = fs::canonicalize(&device).ok()?;
    let sectors: u64 = number(&dir.join("size"))?;
    let is = |flag: &str| text(&dir.join(flag)).as_deref() == Some("1");
    // An empty card reader, a disk nobody may write, or one of the ways to an NVMe namespace that is listed by itself.
    if sectors == 0 || is("ro") || is("hidden") {
        return None;
    }
    let wwid = text(&dir.join("wwid")).or_else(|| text(&device.join("wwid")));
    let wwn = wwid.as_deref().and_then(world_wide_name);
    let queue = dir.join("queue");
    let transport = transport(name, &place);
    Some(Disk {
        name: format!("/dev/{name}"),
        model: text(&device.join("model")).unwrap_or_default(),
        // Always counted in 512 bytes here, whatever the disk's own sectors are.
        size: sectors * 512,
        rotational: text(&queue.join("rotational")).as_deref() == Some("1"),
        wwn: wwn.clone(),
        serial: serial(dir, &device),
        vendor: text(&device.join("vendor")).filter(|vendor| !vendor.starts_with("0x")),
        wwn_with_extension: wwn,
        wwn_vendor_extension: None,
        hctl: place
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .filter(|n| is_hctl(n)),
        by_path: by_path(&place),
        logical_sectors: number(&queue.join("logical_block_size")),
        physical_sectors: number(&queue.join("physical_block_size")),
        tran: transport.map(str::to_owned),
    })
}

/// virtio and NVMe give it as text; SCSI and ATA in the vital product data.
fn serial(dir: &Path, device: &Path) -> Option<String> {
    let text_file = text(&dir.join("serial")).or_else(|| text(&device.join("serial")));
    text_file.or_else(|| unit_serial(&fs::read(device.join("vpd_pg80")).ok()?))
}

/// SPC-5, 7.7.19: page code at 1, length at 2, then the serial number.
fn unit_serial(page: &[u8]) -> Option<String> {
    let len = u16::from_be_bytes([*page.get(2)?, *page.get(3)?]);
    let bytes = page.get(4..)?;
    let bytes = &bytes[..bytes.len().min(usize::from(len))];
    let text = String::from_utf8_lossy(bytes)
        .trim_matches(['\0', ' '])
        .to_owned();
    (page.get(1) == Some(&0x80) && !text.is_empty()).then_some(text)
}

/// `naa.5000c500a1b2c3d4` and `eui.0025385b71b0e3f1` as udev writes them; other identifiers are not names.
fn world_wide_name(wwid: &str) -> Option<String> {
    if let Some(naa) = wwid.strip_prefix("naa.") {
        return Some(format!("0x{naa}"));
    }
    wwid.starts_with("eui.").then(|| wwid.to_owned())
}

/// `host:channel:target:lun`
fn is_hctl(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    parts.len() == 4
        && parts
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

fn transport(name: &str, place: &Path) -> Option<&'static str> {
    let has = |prefix: &str| parts(place).any(|part| numbered(&part, prefix));
    if name.starts_with("nvme") {
        Some("nvme")
    } else if has("usb") {
        Some("usb")
    } else if has("ata") {
        Some("sata")
    } else if has("end_device-") {
        Some("sas")
    } else if has("rport-") {
        Some("fc")
    } else if has("session") {
        Some("iscsi")
    } else if name.starts_with("vd") {
        Some("virtio")
    } else {
        None
    }
}

fn parts(place: &Path) -> impl Iterator<Item = String> {
    place
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
}

fn numbered(part: &str, prefix: &str) -> bool {
    part.strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The link udev would make, for the kinds of path it is stable for.
fn by_path(place: &Path) -> Option<String> {
    let pci = pci_address(place)?;
    let last = place.file_name()?.to_string_lossy().into_owned();
    let tail = if let Some(port) = parts(place).find(|part| numbered(part, "ata")) {
        // udev counts ports of one controller from 1; the kernel counts over all, so take the port's place.
        let port = ata_port(place, &port)?;
        format!("-ata-{port}")
    } else if is_hctl(&last) {
        let target = last.split_once(':')?.1;
        if parts(place).any(|part| numbered(&part, "end_device-") || numbered(&part, "rport-")) {
            return None;
        }
        format!("-scsi-0:{target}")
    } else if last.starts_with("nvme") {
        let namespace: u32 = number(&place.join("nsid")).unwrap_or(1);
        format!("-nvme-{namespace}")
    } else if numbered(&last, "virtio") || is_pci_address(&last) {
        String::new()
    } else {
        return None;
    };
    Some(format!("/dev/disk/by-path/pci-{pci}{tail}"))
}

/// The `port_no` below the ATA port counts from 1 within the controller.
fn ata_port(place: &Path, port: &str) -> Option<u32> {
    let dir = place
        .ancestors()
        .find(|dir| dir.file_name().is_some_and(|name| name == port))?;
    number(&dir.join("ata_port").join(port).join("port_no"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_taken_from_identifiers_that_are_world_wide() {
        assert_eq!(
            world_wide_name("naa.5000c500a1b2c3d4").as_deref(),
            Some("0x5000c500a1b2c3d4")
        );
        assert_eq!(
            world_wide_name("eui.0025385b71b0e3f1").as_deref(),
            Some("eui.0025385b71b0e3f1")
        );
        assert_eq!(world_wide_name("t10.ATA     QEMU HARDDISK   QM00001"), None);
    }

    #[test]
    fn serial_number_is_read_from_the_vital_product_data() {
        assert_eq!(
            unit_serial(b"\0\x80\0\x08QM00001 ").as_deref(),
            Some("QM00001")
        );
        assert_eq!(unit_serial(b"\0\x83\0\x01x"), None);
    }

    #[test]
    fn transport_is_told_by_the_way_to_the_disk() {
        let cases = [
            (
                "nvme0n1",
                "/sys/devices/pci0000:00/0000:00:05.0/nvme/nvme0",
                Some("nvme"),
            ),
            (
                "sda",
                "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0",
                Some("sata"),
            ),
            (
                "sdb",
                "/sys/devices/pci0000:00/0000:03:00.0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0",
                Some("sas"),
            ),
            (
                "sdc",
                "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/host2/target2:0:0/2:0:0:0",
                Some("usb"),
            ),
            (
                "vda",
                "/sys/devices/pci0000:00/0000:00:04.0/virtio1",
                Some("virtio"),
            ),
            (
                "sdd",
                "/sys/devices/pci0000:00/0000:00:04.0/virtio1/host3/target3:0:0/3:0:0:0",
                None,
            ),
        ];
        for (name, place, expected) in cases {
            assert_eq!(transport(name, Path::new(place)), expected, "{place}");
        }
    }

    proptest! {
        #[test]
        fn any_page_gives_an_answer(page: Vec<u8>) {
            let _ = unit_serial(&page);
        }
    }
}
