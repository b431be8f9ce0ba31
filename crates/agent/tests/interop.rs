//! Images made by other programs, and what other programs think of the disks we write: qemu-img, gzip, xz, zstd,
//! sfdisk, sgdisk, blkid, mkfs; Python in Ironic's place. Disks are files.

#![expect(clippy::unwrap_used, reason = "a test of files, with helpers")]

#[path = "interop/protocol.rs"]
mod protocol;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent::disk::guard::Uses;
use agent::disk::{
    Checksum, Compression, Format, Options, Source, Spool, Target, Written, config_drive, erase,
    table, write_image,
};
use tempfile::TempDir;
use uuid::Uuid;

const MIB: u64 = 1 << 20;
const GUID: Uuid = Uuid::from_u128(0x1b1c_9a52_7d6e_4a3f_9c0b_5e0f_aa11_bb22);

fn run(package: &str, program: &str, arguments: &[&str]) -> String {
    feed(package, program, arguments, "")
}

fn feed(package: &str, program: &str, arguments: &[&str], input: &str) -> String {
    let (code, text) = attempt(package, program, arguments, input);
    assert_eq!(code, Some(0), "{program} {arguments:?}\n{text}");
    text
}

fn attempt(package: &str, program: &str, arguments: &[&str], input: &str) -> (Option<i32>, String) {
    let mut child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("{program} cannot run ({error}); install the Debian package {package}")
        });
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.code(), text)
}

/// A folder with an image in it: partitioned by `script`, a file system in its first partition.
struct Lab {
    dir: TempDir,
}

const GPT: &str =
    "label: gpt\nstart=1MiB, size=4MiB, type=uefi, name=EFI\nstart=5MiB, size=20MiB, name=root\n";
const MBR: &str =
    "label: dos\nstart=2048, size=8192, type=c, bootable\nstart=10240, size=40960, type=83\n";

impl Lab {
    fn new(script: &str) -> Self {
        let lab = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let image = File::create(lab.path("image.raw")).unwrap();
        image.set_len(32 * MIB).unwrap();
        feed("fdisk", "sfdisk", &["-q", &lab.name("image.raw")], script);
        // Something to compress, something not, and holes.
        let noise: Vec<u8> = (0..3 * MIB)
            .scan(1_u32, |seed, _| {
                *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                Some((*seed >> 24) as u8)
            })
            .collect();
        image.write_all_at(&noise, 7 * MIB + 12_345).unwrap();
        image.write_all_at(&vec![b'x'; 5 << 20], 12 * MIB).unwrap();
        image.write_all_at(b"boot code", 0).unwrap();
        run(
            "dosfstools",
            "mkfs.vfat",
            &[
                "--offset",
                "2048",
                "-F",
                "12",
                "-n",
                "ESP",
                &lab.name("image.raw"),
                "4096",
            ],
        );
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A disk with something old on it.
    fn disk(&self, size: u64) -> Target {
        let path = self.path("disk");
        let file = File::create(&path).unwrap();
        file.set_len(size).unwrap();
        for at in (0..size).step_by(1 << 20) {
            file.write_all_at(&[0xaa; 9000], at.min(size - 9000))
                .unwrap();
        }
        Target::open(&path).unwrap()
    }

    fn write(&self, image: &str, target: &mut Target, options: &Options) -> Written {
        let path = self.path(image);
        let sum = run("coreutils", "sha512sum", &["-b", path.to_str().unwrap()]);
        let options = Options {
            length: Some(fs::metadata(&path).unwrap().len()),
            checksum: Some(Checksum::from_file(&sum, image).unwrap()),
            ..options.clone()
        };
        let mut stream = File::open(&path).unwrap();
        let spool = Spool {
            file: tempfile::tempfile().unwrap(),
            limit: 64 * MIB,
        };
        write_image(
            Source::Stream(&mut stream),
            target,
            &options,
            Some(spool),
            &mut |_| (),
        )
        .unwrap()
    }

    fn written(&self) -> Target {
        let mut target = self.disk(160 * MIB + 512 * 7);
        self.write("image.raw", &mut target, &Options::default());
        target
    }
}

#[track_caller]
fn assert_begins_with(disk: &Path, image: &Path) {
    let (disk, image) = (fs::read(disk).unwrap(), fs::read(image).unwrap());
    assert!(disk.len() >= image.len());
    if disk.starts_with(&image) {
        return;
    }
    let differs = disk.iter().zip(&image).position(|(a, b)| a != b);
    panic!("the first difference is at {differs:?}");
}

fn config_iso(lab: &Lab, label: &str) -> Vec<u8> {
    let latest = lab.path("drive/openstack/latest");
    fs::create_dir_all(&latest).unwrap();
    fs::write(latest.join("meta_data.json"), "{}").unwrap();
    let (iso, from) = (lab.name("config.iso"), lab.name("drive"));
    run(
        "genisoimage",
        "genisoimage",
        &["-quiet", "-V", label, "-J", "-r", "-o", &iso, &from],
    );
    fs::read(iso).unwrap()
}

fn assert_sound(disk: &str) {
    let verified = run("fdisk", "sfdisk", &["--verify", disk]);
    assert!(verified.contains("No errors detected"), "{verified}");
    for complaint in [
        "PMBR size mismatch",
        "backup GPT table is corrupt",
        "not at the end",
    ] {
        assert!(!verified.contains(complaint), "{verified}");
    }
}

fn assert_sound_gpt(disk: &str) {
    assert_sound(disk);
    let verified = run("gdisk", "sgdisk", &["-v", disk]);
    assert!(verified.contains("No problems found"), "{verified}");
}

#[test]
fn every_packing_and_format_gives_the_same_disk() {
    let lab = Lab::new(GPT);
    let raw = lab.name("image.raw");
    run("gzip", "gzip", &["-k", &raw]);
    run("xz-utils", "xz", &["-k", "-1", "-T2", &raw]);
    run("zstd", "zstd", &["-q", "-k", &raw]);
    for (name, options) in [
        ("zlib.qcow2", &["-c", "-o", "compression_type=zlib"][..]),
        ("zstd.qcow2", &["-c", "-o", "compression_type=zstd"]),
        ("big.qcow2", &["-o", "cluster_size=2M"]),
        ("small.qcow2", &["-o", "cluster_size=4k"]),
        ("old.qcow2", &["-o", "compat=0.10"]),
    ] {
        let to = lab.name(name);
        let convert = [
            &["convert", "-f", "raw", "-O", "qcow2"],
            options,
            &[&raw, &to],
        ]
        .concat();
        run("qemu-utils", "qemu-img", &convert);
    }
    run("zstd", "zstd", &["-q", "-k", &lab.name("big.qcow2")]);
    for (name, compression, format) in [
        ("image.raw", Compression::None, Format::Raw),
        ("image.raw.gz", Compression::Gzip, Format::Raw),
        ("image.raw.xz", Compression::Xz, Format::Raw),
        ("image.raw.zst", Compression::Zstd, Format::Raw),
        ("zlib.qcow2", Compression::None, Format::Qcow2),
        ("zstd.qcow2", Compression::None, Format::Qcow2),
        ("big.qcow2", Compression::None, Format::Qcow2),
        ("small.qcow2", Compression::None, Format::Qcow2),
        ("old.qcow2", Compression::None, Format::Qcow2),
        ("big.qcow2.zst", Compression::Zstd, Format::Qcow2),
    ] {
        for size in [32 * MIB, 40 * MIB + 512] {
            let mut target = lab.disk(size);
            let options = Options {
                format: Some(format),
                ..Options::default()
            };
            let written = lab.write(name, &mut target, &options);
            assert_eq!(
                (written.compression, written.format),
                (compression, format),
                "{name}"
            );
            assert_eq!(written.bytes, 32 * MIB, "{name}");
            assert_begins_with(target.path(), &lab.path("image.raw"));
        }
    }
}

#[test]
fn a_qcow2_file_is_read_in_place_and_refused_if_it_is_not_what_was_promised() {
    let lab = Lab::new(GPT);
    let (raw, qcow2) = (lab.name("image.raw"), lab.name("image.qcow2"));
    run(
        "qemu-utils",
        "qemu-img",
        &["convert", "-c", "-f", "raw", "-O", "qcow2", &raw, &qcow2],
    );
    let mut target = lab.disk(48 * MIB);
    let source = Source::File(File::open(&qcow2).unwrap());
    write_image(source, &mut target, &Options::default(), None, &mut |_| ()).unwrap();
    assert_begins_with(target.path(), &lab.path("image.raw"));

    let wrong = Options {
        checksum: Some(Checksum::parse(&"00".repeat(32)).unwrap()),
        ..Options::default()
    };
    let small = lab.disk(31 * MIB);
    for (mut target, options, words) in [
        (target, wrong, "checksum is sha256:"),
        (
            small,
            Options::default(),
            "needs at least 33554432 bytes, the disk has 32505856",
        ),
    ] {
        let source = Source::File(File::open(&qcow2).unwrap());
        let error = write_image(source, &mut target, &options, None, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        let disk = fs::read(target.path()).unwrap();
        assert!(disk[..1 << 20].iter().all(|byte| *byte == 0), "{error}");
    }
}

#[test]
fn the_backup_gpt_moves_to_the_end_of_the_disk() {
    let lab = Lab::new(GPT);
    let target = lab.written();
    let partitions = table::settle(&target).unwrap();
    let names: Vec<_> = partitions
        .iter()
        .map(|p| p.name.as_deref().unwrap())
        .collect();
    assert_eq!(names, ["EFI", "root"]);
    assert_sound_gpt(&lab.name("disk"));
    let before = fs::read(target.path()).unwrap();
    assert!(before.starts_with(b"boot code"));
    table::settle(&target).unwrap();
    assert!(
        fs::read(target.path()).unwrap() == before,
        "settling twice changes nothing"
    );
}

#[test]
fn others_find_the_config_drive_on_a_gpt_disk() {
    let lab = Lab::new(GPT);
    let target = lab.written();
    let iso = config_iso(&lab, "config-2");
    let placed = config_drive::place(&target, &iso, GUID).unwrap();
    let disk = lab.name("disk");
    assert_sound_gpt(&disk);
    let listed = run("fdisk", "sfdisk", &["--dump", &disk]);
    assert!(listed.contains("name=\"config-2\""), "{listed}");
    assert!(
        listed.to_lowercase().contains(&GUID.to_string()),
        "{listed}"
    );
    assert!(listed.contains("name=\"root\""), "{listed}");
    let (offset, size) = (placed.offset.to_string(), placed.len.to_string());
    assert_eq!(placed.len, 64 * MIB);
    assert!(
        placed.offset + placed.len > 160 * MIB - 2 * MIB,
        "{placed:?}"
    );
    let probed = run(
        "util-linux",
        "blkid",
        &["-p", "-O", &offset, "-S", &size, &disk],
    );
    assert!(
        probed.contains("LABEL=\"config-2\"") && probed.contains("iso9660"),
        "{probed}"
    );
    let bytes = fs::read(&disk).unwrap();
    assert!(bytes[placed.offset as usize..].starts_with(&iso));

    let again = config_drive::place(&target, &iso, GUID).unwrap();
    assert_eq!(again, placed, "the partition that is there is used again");
    assert!(fs::read(&disk).unwrap() == bytes);
}

#[test]
fn others_find_the_config_drive_on_an_mbr_disk() {
    let lab = Lab::new(MBR);
    let target = lab.written();
    let iso = config_iso(&lab, "config-2");
    let placed = config_drive::place(&target, &iso, GUID).unwrap();
    let disk = lab.name("disk");
    assert_sound(&disk);
    let listed = run("fdisk", "sfdisk", &["--dump", &disk]);
    assert!(
        listed.contains(&format!(
            "disk3 : start= {:>11}, size= {:>11}, type=c",
            placed.offset / 512,
            131_072
        )),
        "{listed}"
    );
    let probed = run(
        "util-linux",
        "blkid",
        &["-p", "-O", &placed.offset.to_string(), &disk],
    );
    assert!(probed.contains("LABEL=\"config-2\""), "{probed}");
    let again = config_drive::place(&target, &iso, GUID).unwrap();
    assert_eq!(again, placed, "known by the label of what is in it");
}

#[test]
fn a_config_drive_that_cannot_be_placed_is_refused_in_words() {
    let own = "label: gpt\nstart=1MiB, size=4MiB\nstart=5MiB, size=1MiB, name=CONFIG-2\n";
    let twice =
        "label: gpt\nstart=1MiB, size=4MiB, name=config-2\nstart=5MiB, size=1MiB, name=Config-2\n";
    let four = "label: dos\nstart=2048, size=8192\nstart=10240, size=2048\nstart=12288, size=2048\nstart=14336, size=2048\n";
    for (script, size, grow, words) in [
        (GPT, 40, 0, "free bytes between"),
        (MBR, 40, 0, "free bytes behind"),
        (four, 160, 0, "four primary partitions"),
        (twice, 160, 0, "2 partitions for a config drive"),
        (own, 160, 2 << 20, "partition for it has 1048576"),
        (GPT, 160, 65 << 20, "more than 67108864 are not allowed"),
    ] {
        let lab = Lab::new(script);
        let mut target = lab.disk(size * MIB);
        lab.write("image.raw", &mut target, &Options::default());
        let mut iso = config_iso(&lab, "config-2");
        iso.resize(iso.len().max(grow), 0);
        let before = fs::read(target.path()).unwrap();
        let error = model::chain(&config_drive::place(&target, &iso, GUID).unwrap_err());
        assert!(error.contains(words), "{error}");
        assert!(
            fs::read(target.path()).unwrap() == before,
            "nothing is written: {error}"
        );
    }
    let lab = Lab::new(GPT);
    let wrong = config_iso(&lab, "install");
    let error = config_drive::place(&lab.written(), &wrong, GUID)
        .unwrap_err()
        .to_string();
    assert!(error.contains("labelled"), "{error}");
}

#[test]
fn a_disk_without_partitions_is_refused() {
    let lab = Lab::new("label: gpt\n");
    let mut target = lab.disk(64 * MIB);
    lab.write("image.raw", &mut target, &Options::default());
    let error = table::settle(&target).unwrap_err().to_string();
    assert!(error.contains("no partition in it"), "{error}");

    File::create(lab.path("image.raw"))
        .unwrap()
        .write_all(&[1; 4096])
        .unwrap();
    let mut target = lab.disk(64 * MIB);
    lab.write("image.raw", &mut target, &Options::default());
    let error = table::settle(&target).unwrap_err().to_string();
    assert!(error.contains("no partition table"), "{error}");
}

#[test]
fn an_image_for_larger_sectors_is_refused_in_words() {
    let lab = Lab::new(GPT);
    let target = lab.written();
    let mut bytes = fs::read(target.path()).unwrap();
    let header = bytes[512..1024].to_vec();
    bytes[512..1024].fill(0);
    bytes[4096..4608].copy_from_slice(&header);
    fs::write(target.path(), bytes).unwrap();
    let error = table::settle(&target).unwrap_err().to_string();
    assert!(
        error.contains("sectors of 4096 bytes; this disk has sectors of 512"),
        "{error}"
    );
}

#[test]
fn nothing_is_recognised_on_an_erased_disk() {
    for script in [GPT, MBR] {
        let lab = Lab::new(script);
        let target = lab.written();
        let iso = config_iso(&lab, "config-2");
        let placed = config_drive::place(&target, &iso, GUID).unwrap();
        drop(target);
        let erased = erase::erase_metadata(&lab.path("disk"), &Uses::default()).unwrap();
        assert_eq!(erased.len(), 3);
        let disk = lab.name("disk");
        for offset in [0, MIB, 5 * MIB, placed.offset] {
            let (code, text) = attempt(
                "util-linux",
                "blkid",
                &["-p", "-O", &offset.to_string(), &disk],
                "",
            );
            assert_eq!(code, Some(2), "{offset}: {text}");
        }
        let left = run("util-linux", "wipefs", &[&disk]);
        assert_eq!(left, "");
        erase::erase_metadata(&lab.path("disk"), &Uses::default()).unwrap();
    }
}

#[test]
fn disks_in_use_and_shared_disks_are_not_erased() {
    let lab = Lab::new(GPT);
    let target = lab.written();
    target
        .file()
        .write_all_at(&[1, 0x16, 0x19, 0x70, 0, 0, 0, 1], 5 * MIB + (64 << 10))
        .unwrap();
    let before = fs::read(target.path()).unwrap();
    drop(target);
    let mounted = Uses {
        mounts: "/dev/disk1 /boot vfat rw 0 0\n".into(),
        ..Uses::default()
    };
    for (uses, words) in [
        (mounted, "/dev/disk1 is in use on /boot"),
        (Uses::default(), "GFS2"),
    ] {
        let error = erase::erase_metadata(&lab.path("disk"), &uses)
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error}");
        assert!(fs::read(lab.path("disk")).unwrap() == before, "{error}");
    }
}
