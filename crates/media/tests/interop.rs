//! Our images in the hands of other programs: xorriso, isoinfo, blkid, mtools, fsck.vfat, cpio.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_types,
    reason = "a test of files, with helpers"
)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use media::{Content, Layout, cpio, fat, iso};

const MODIFIED: u64 = 1_794_735_533;

fn run(package: &str, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| {
            panic!("{program} cannot run ({error}); install the Debian package {package}")
        });
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{text}",
        output.status
    );
    text
}

fn iso_file(path: &str, data: &[u8]) -> iso::File<()> {
    iso::File {
        path: path.into(),
        content: Content::Bytes(data.to_vec()),
    }
}

fn write(layout: &Layout<()>, path: &Path) {
    let mut out = std::fs::File::create(path).unwrap();
    layout
        .write_to(&mut out, |()| Ok(std::io::empty()))
        .unwrap();
}

fn config_drive() -> iso::Image<()> {
    iso::Image {
        label: "config-2".into(),
        publisher: "9d7a6bd5-25f4-4d3e-8c07-8c1d6a1f0d11".into(),
        files: vec![
            iso_file("openstack/latest/meta_data.json", b"{}"),
            iso_file(
                "openstack/latest/user_data",
                b"{\"ignition\":{\"version\":\"3.3.0\"}}",
            ),
            iso_file("openstack/latest/network_data.json", b"{\"links\":[]}"),
            iso_file("openstack/2012-08-10/meta_data.json", b"{}"),
            iso_file("etc/empty", b""),
        ],
        joliet: true,
        boot: iso::Boot::default(),
        modified: MODIFIED,
    }
}

#[test]
fn xorriso_reads_names_and_content_of_a_config_drive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.iso");
    write(&config_drive().layout().unwrap(), &path);
    let iso = path.to_str().unwrap();
    let listing = run(
        "xorriso",
        "xorriso",
        &["-indev", iso, "-find", "/", "-type", "f"],
    );
    for file in config_drive().files {
        assert!(
            listing.contains(&format!("'/{}'", file.path)),
            "{} in {listing}",
            file.path
        );
    }
    let out = dir.path().join("out");
    let target = out.to_str().unwrap();
    run(
        "xorriso",
        "xorriso",
        &["-osirrox", "on", "-indev", iso, "-extract", "/", target],
    );
    for file in config_drive().files {
        let Content::Bytes(expected) = file.content else {
            unreachable!()
        };
        assert_eq!(std::fs::read(out.join(file.path)).unwrap(), expected);
    }
}

#[test]
fn isoinfo_and_blkid_see_the_label_and_both_name_spaces() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.iso");
    write(&config_drive().layout().unwrap(), &path);
    let iso = path.to_str().unwrap();
    let volume = run("genisoimage", "isoinfo", &["-d", "-i", iso]);
    for line in [
        "Volume id: config-2",
        "Publisher id: 9d7a6bd5-25f4-4d3e-8c07-8c1d6a1f0d11",
        "Joliet with UCS level 3 found",
        "Rock Ridge signatures version 1 found",
    ] {
        assert!(volume.contains(line), "{line:?} in {volume}");
    }
    for option in ["-R", "-J"] {
        let names = run("genisoimage", "isoinfo", &["-f", option, "-i", iso]);
        assert!(
            names.contains("/openstack/latest/network_data.json"),
            "{option}: {names}"
        );
        let data = run(
            "genisoimage",
            "isoinfo",
            &[option, "-i", iso, "-x", "/openstack/latest/user_data"],
        );
        assert_eq!(data, "{\"ignition\":{\"version\":\"3.3.0\"}}", "{option}");
    }
    let probe = run("util-linux", "blkid", &["-p", "-o", "export", iso]);
    assert!(
        probe.contains("LABEL=config-2\n") && probe.contains("TYPE=iso9660\n"),
        "{probe}"
    );
}

#[test]
fn xorriso_finds_both_boot_entries_and_a_right_information_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.iso");
    let cd = media::BootIso {
        label: "VMEDIA_BOOT_ISO".into(),
        publisher: String::new(),
        kernel: Content::Bytes(vec![1; 5000]),
        initrd: Content::Bytes(vec![2; 9000]),
        cmdline: "console=ttyS0".into(),
        uefi: Some(vec![3; 300_000]),
        bios: Some(vec![4; 50_000]),
        files: vec![],
        modified: MODIFIED,
    };
    write(&media::boot_iso::<()>(cd).unwrap(), &path);
    let iso = path.to_str().unwrap();
    let report = run(
        "xorriso",
        "xorriso",
        &["-indev", iso, "-report_el_torito", "plain"],
    );
    let images: Vec<_> = report
        .lines()
        .filter(|line| line.starts_with("El Torito boot img :"))
        .collect();
    assert_eq!(images.len(), 2, "{report}");
    assert!(
        images[0].contains("BIOS  y   none") && images[0].contains(" 4 "),
        "{report}"
    );
    assert!(images[1].contains("UEFI  y   none"), "{report}");
    assert!(report.contains("boot-info-table"), "{report}");
    let out = dir.path().join("esp.img");
    let target = out.to_str().unwrap();
    run(
        "xorriso",
        "xorriso",
        &[
            "-osirrox",
            "on",
            "-indev",
            iso,
            "-extract",
            "/boot/grub/efiboot.img",
            target,
        ],
    );
    let listing = run("mtools", "mdir", &["-i", target, "-b", "-/", "::"]);
    assert!(listing.contains("::/EFI/BOOT/BOOTX64.EFI"), "{listing}");
}

#[test]
fn fsck_finds_nothing_wrong_with_fat_of_any_size_and_mtools_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.img");
    let image_path = path.to_str().unwrap();
    for size in [
        None,
        Some(4 << 20),
        Some(8_400_000 / 2048 * 2048),
        Some(16 << 20),
        Some(64 << 20),
        Some(512 << 20),
    ] {
        let image = fat::Image {
            label: "config-2".into(),
            volume_id: 0xCAFE_0001,
            files: [
                ("openstack/latest/user_data", 3000),
                ("openstack/latest/meta_data.json", 2),
                ("EFI/BOOT/BOOTX64.EFI", 700_000),
                ("empty", 0),
            ]
            .map(|(path, len)| fat::File {
                path: path.into(),
                data: vec![b'x'; len],
            })
            .to_vec(),
            size,
            modified: MODIFIED,
        };
        std::fs::write(&path, image.encode().unwrap()).unwrap();
        run("dosfstools", "fsck.vfat", &["-n", "-v", image_path]);
        let probe = run("util-linux", "blkid", &["-p", "-o", "export", image_path]);
        assert!(
            probe.contains("LABEL=CONFIG-2\n") && probe.contains("TYPE=vfat\n"),
            "{size:?} {probe}"
        );
        for file in image.files {
            let source = format!("::/{}", file.path);
            let data = run("mtools", "mtype", &["-i", image_path, &source]);
            assert_eq!(data.as_bytes(), file.data, "{size:?} {source}");
        }
    }
}

#[test]
fn cpio_lists_every_kind_of_entry() {
    let mut archive = cpio::Archive::new();
    archive.file("init", 0o755, b"#!/bin/sh\n".to_vec());
    archive.symlink("bin/sh", "/init");
    archive.dir("tmp", 0o1777);
    archive.device(
        "dev/console",
        0o600,
        cpio::Device::Char { major: 5, minor: 1 },
    );
    let mut bytes = Vec::new();
    archive.write_to(&mut bytes).unwrap();
    let mut child = Command::new("cpio")
        .args(["-tv", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cpio cannot run; install the Debian package cpio");
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let listing = String::from_utf8(output.stdout).unwrap();
    for (mode, name) in [
        ("-rwxr-xr-x", " init"),
        ("lrwxrwxrwx", " bin/sh -> /init"),
        ("drwxrwxrwt", " tmp"),
        ("crw-------", " dev/console"),
        ("drwxr-xr-x", " dev"),
    ] {
        let found = listing
            .lines()
            .any(|line| line.starts_with(mode) && line.ends_with(name));
        assert!(found, "{mode}{name} in\n{listing}");
    }
}

/// Data, holes, zeroes and a ragged end: what a published image has.
fn disk() -> Vec<u8> {
    let mut disk = vec![0; 5 << 20];
    for (index, byte) in disk[1 << 20..2 << 20].iter_mut().enumerate() {
        *byte = (index * 7 % 251) as u8;
    }
    disk[3 << 20..(3 << 20) + 70_000].fill(0xa5);
    disk.extend([1; 512]);
    disk
}

fn unpack(path: &Path) -> Vec<u8> {
    let mut image = media::qcow2::Image::open(std::fs::File::open(path).unwrap()).unwrap();
    let mut disk = vec![0; image.size() as usize];
    let mut buffer = vec![0; image.cluster_size()];
    for cluster in 0..image.clusters() {
        let start = cluster as usize * buffer.len();
        match image.read(cluster, &mut buffer).unwrap() {
            media::qcow2::Cluster::Zero => {}
            media::qcow2::Cluster::Data { len } => {
                disk[start..start + len].copy_from_slice(&buffer[..len]);
            }
        }
    }
    disk
}

#[test]
fn qcow2_images_of_qemu_img_read_as_the_disk_they_were_made_from() {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("disk.raw");
    std::fs::write(&raw, disk()).unwrap();
    let raw = raw.to_str().unwrap();
    for (name, options) in [
        ("plain", &[][..]),
        ("old", &["-o", "compat=0.10"]),
        ("zlib", &["-c"]),
        ("zstd", &["-c", "-o", "compression_type=zstd"]),
        ("small clusters", &["-o", "cluster_size=512"]),
        ("large clusters", &["-c", "-o", "cluster_size=2M"]),
        ("lazy", &["-o", "lazy_refcounts=on,preallocation=metadata"]),
    ] {
        let path = dir.path().join(name.replace(' ', "-"));
        let arguments = [
            &["convert", "-f", "raw", "-O", "qcow2"],
            options,
            &[raw, path.to_str().unwrap()],
        ]
        .concat();
        run("qemu-utils", "qemu-img", &arguments);
        assert!(unpack(&path) == disk(), "{name}");
    }
}

#[test]
fn a_qcow2_image_over_another_is_not_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (base, over) = (dir.path().join("base"), dir.path().join("over"));
    run(
        "qemu-utils",
        "qemu-img",
        &["create", "-f", "qcow2", base.to_str().unwrap(), "1M"],
    );
    let arguments = [
        "create",
        "-f",
        "qcow2",
        "-b",
        base.to_str().unwrap(),
        "-F",
        "qcow2",
        over.to_str().unwrap(),
    ];
    run("qemu-utils", "qemu-img", &arguments);
    let error = media::qcow2::Image::open(std::fs::File::open(&over).unwrap()).unwrap_err();
    assert!(error.to_string().contains("a backing file"), "{error}");
}
