//! A directory tree as a bootable disk, without loop devices: every part is a file and is copied to its place.
//!
//! ```text
//! sector 0     GRUB's boot.img (BIOS), protective MBR
//!        34    GPT
//!        2048  BIOS boot partition: GRUB's core.img
//!        4096  EFI system partition (FAT): EFI/BOOT/BOOTX64.EFI
//!        ...   root (ext4, /boot in it), grown to the disk's end on first boot
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

use media::fat;

use crate::grub::{self, Target};
use crate::{Error, tool};

/// Fixed, so that the loaders can be made before the file system; the image is the same for every server.
pub const ROOT_UUID: &str = "5d9f1ee7-3b7e-4c39-9c1f-6a1d0e8f0c11";

/// Part of the cache key: change the number when the layout below changes.
pub fn recipe() -> String {
    format!(
        "disk 1\n{}{}{}{}",
        MODULES.join(" "),
        early(),
        menu(),
        entry()
    )
}

const SECTOR: u64 = 512;
const BIOS_START: u64 = 2048;
const BIOS_SECTORS: u64 = 2048;
const ESP_START: u64 = BIOS_START + BIOS_SECTORS;
const ESP_SECTORS: u64 = 8 << 11;
const ROOT_START: u64 = ESP_START + ESP_SECTORS;
/// Room in the root for what a small Ignition config writes where the disk cannot grow.
const ROOT_SPARE_MIB: u64 = 256;

const MODULES: &[&str] = &[
    "part_gpt",
    "ext2",
    "fat",
    "normal",
    "configfile",
    "linux",
    "search",
    "search_fs_uuid",
    "serial",
    "terminal",
    "test",
    "echo",
    "boot",
    "smbios",
    "minicmd",
    "reboot",
    "halt",
];

fn early() -> String {
    format!("search --no-floppy --set=root --fs-uuid {ROOT_UUID}\nset prefix=($root)/boot/grub\n")
}

/// The loader's whole decision. `smbios` gives the last of the OEM strings (type 11); servers without any leave the
/// variable empty.
fn menu() -> String {
    format!(
        "\
if [ \"$grub_platform\" = pc ]; then
  if serial --unit=0 --speed=115200; then terminal_output console serial; fi
fi
set platform=openstack
smbios --type 11 --get-string 4 --set oem
if [ \"$oem\" = ignition.platform.id=qemu ]; then set platform=qemu; fi
if [ -f ($root)/boot/ignition.firstboot ]; then set ignition=ignition.firstboot=1; fi
linux /boot/vmlinuz {} ignition.platform.id=$platform $ignition
initrd /boot/initrd.img
boot
",
        options()
    )
}

/// The same for those who start the system without the loader (Boot Loader Specification). They come from a deployment,
/// where Ignition's config is on a config drive.
fn entry() -> String {
    format!(
        "title Debian with Ignition\nlinux /boot/vmlinuz\ninitrd /boot/initrd.img\n\
         options {} ignition.platform.id=openstack $ignition_firstboot\n",
        options()
    )
}

fn options() -> String {
    format!("root=UUID={ROOT_UUID} rw console=tty0 console=ttyS0,115200 quiet {FAST}")
}

/// For the lab's emulated processors: systemd's BPF filter alone takes ten seconds to load there (`lsm` without
/// `bpf`), the guards against side channels slow down every call, and the kernel's tests of its own ciphers hold up
/// whoever loads a module for half a minute.
const FAST: &str = "lsm=landlock,yama mitigations=off audit=0 cryptomgr.notests=1";

pub fn write(root: &Path, raw: &Path, work: &Path, log: &Path) -> Result<(), Error> {
    let grub_dir = root.join("boot/grub");
    fs::create_dir_all(&grub_dir).map_err(Error::file("creating", &grub_dir))?;
    let config = grub_dir.join("grub.cfg");
    fs::write(&config, menu()).map_err(Error::file("writing", &config))?;
    let entries = root.join("boot/loader/entries");
    fs::create_dir_all(&entries).map_err(Error::file("creating", &entries))?;
    let file = entries.join("debian.conf");
    fs::write(&file, entry()).map_err(Error::file("writing", &file))?;

    let root_sectors =
        (used_bytes(root)? * 11 / 10).div_ceil(1 << 20) * 2048 + ROOT_SPARE_MIB * 2048;
    // The backup GPT takes the last 33 sectors; a whole MiB keeps everything aligned.
    let total = ROOT_START + root_sectors + 2048;
    let file = File::create(raw).map_err(Error::file("creating", raw))?;
    file.set_len(total * SECTOR)
        .map_err(Error::file("sizing", raw))?;
    partition(raw, root_sectors, log)?;

    let mut disk = Disk::open(raw)?;
    let bios = grub::core(
        Target::BiosDisk,
        MODULES,
        &early(),
        &work.join("core.img"),
        log,
    )?;
    let boot_path = grub::part(Target::BiosDisk, "boot.img")?;
    let boot = fs::read(&boot_path).map_err(Error::file("reading", &boot_path))?;
    let boot = boot_sector(&boot).ok_or(Error::Grub {
        path: boot_path,
        why: "boot.img is not one sector",
    })?;
    disk.write(0, &boot)?;
    let core = core_image(bios).ok_or(Error::Grub {
        path: work.join("core.img"),
        why: "core.img does not fit its partition",
    })?;
    disk.write(BIOS_START, &core)?;

    let efi = grub::core(
        Target::Uefi,
        MODULES,
        &early(),
        &work.join("grubx64.efi"),
        log,
    )?;
    disk.write(ESP_START, &esp(efi)?)?;
    for name in ["core.img", "grubx64.efi"] {
        let path = work.join(name);
        fs::remove_file(&path).map_err(Error::file("removing", path))?;
    }
    root_file_system(root, raw, root_sectors, log)
}

/// What the tree takes on a file system with blocks of 4 KiB.
fn used_bytes(dir: &Path) -> Result<u64, Error> {
    let mut total = 0;
    for entry in fs::read_dir(dir).map_err(Error::file("reading", dir))? {
        let entry = entry.map_err(Error::file("reading", dir))?;
        let path = entry.path();
        let metadata = fs::symlink_metadata(&path).map_err(Error::file("reading", &path))?;
        total += metadata.size().next_multiple_of(4096) + 512;
        if metadata.is_dir() {
            total += used_bytes(&path)?;
        }
    }
    Ok(total)
}

fn partition(raw: &Path, root_sectors: u64, log: &Path) -> Result<(), Error> {
    let table = format!(
        "label: gpt\nunit: sectors\nfirst-lba: 34\n\
         start={BIOS_START}, size={BIOS_SECTORS}, type=21686148-6449-6E6F-744E-656564454649, name=bios\n\
         start={ESP_START}, size={ESP_SECTORS}, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=esp\n\
         start={ROOT_START}, size={root_sectors}, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, name=root\n"
    );
    let script = raw.with_extension("sfdisk");
    fs::write(&script, table).map_err(Error::file("writing", &script))?;
    let input = File::open(&script).map_err(Error::file("opening", &script))?;
    tool::SFDISK.run("partitioning", log, |command| {
        command
            .arg("--no-tell-kernel")
            .arg(raw)
            .stdin(Stdio::from(input));
    })?;
    fs::remove_file(&script).map_err(Error::file("removing", script))
}

/// Straight into its place in the image: mkfs copies the tree, and holes stay holes.
fn root_file_system(root: &Path, raw: &Path, sectors: u64, log: &Path) -> Result<(), Error> {
    tool::MKFS_EXT4.run("making the root file system", log, |command| {
        command.args(["-q", "-F", "-L", "root", "-U", ROOT_UUID, "-m", "1"]);
        // GRUB does not read file systems with these.
        command.args(["-O", "^metadata_csum_seed,^orphan_file"]);
        command.arg("-E").arg(format!(
            "offset={},root_owner=0:0,nodiscard",
            ROOT_START * SECTOR
        ));
        command
            .arg("-d")
            .arg(root)
            .arg(raw)
            .arg(format!("{}k", sectors / 2));
    })
}

struct Disk<'a> {
    file: File,
    path: &'a Path,
}

impl<'a> Disk<'a> {
    fn open(path: &'a Path) -> Result<Self, Error> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Ok(Self {
            file: file.map_err(Error::file("opening", path))?,
            path,
        })
    }

    /// Bytes from a sector on; of sector 0 only what is before the partition table.
    fn write(&mut self, sector: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut go = || {
            self.file.seek(SeekFrom::Start(sector * SECTOR))?;
            self.file.write_all(bytes)
        };
        go().map_err(Error::file("writing", self.path))
    }
}

/// GRUB's first sector up to the partition table, told where its core is. What grub-bios-setup does: the core's
/// first sector at 0x5C, and two NOPs over the drive check at 0x66, which some BIOSes need.
fn boot_sector(image: &[u8]) -> Option<Vec<u8>> {
    if image.len() != SECTOR as usize {
        return None;
    }
    let mut code = image[..440].to_vec();
    code[0x5C..0x64].copy_from_slice(&BIOS_START.to_le_bytes());
    code[0x66..0x68].copy_from_slice(&[0x90, 0x90]);
    Some(code)
}

/// The core begins with a sector that loads the rest by a list at its end: first sector (64 bit), number of sectors
/// (16 bit), segment. grub-mkimage fills in all but where we put it.
fn core_image(mut core: Vec<u8>) -> Option<Vec<u8>> {
    if core.len() < 512 || core.len() as u64 > BIOS_SECTORS * SECTOR {
        return None;
    }
    core[0x1F4..0x1FC].copy_from_slice(&(BIOS_START + 1).to_le_bytes());
    Some(core)
}

fn esp(core: Vec<u8>) -> Result<Vec<u8>, Error> {
    let image = fat::Image {
        label: "ESP".into(),
        volume_id: 0x504c_4e54,
        files: vec![fat::File {
            path: "EFI/BOOT/BOOTX64.EFI".into(),
            data: core,
        }],
        size: Some(ESP_SECTORS * SECTOR),
        modified: 0,
    };
    Ok(image.encode()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_runs_ignition_only_while_the_flag_file_exists() {
        insta::assert_snapshot!(menu());
    }

    #[test]
    fn boot_sector_keeps_away_from_the_partition_table() {
        let sector = boot_sector(&[7; 512]).unwrap();
        assert_eq!(sector.len(), 440);
        assert_eq!(sector[0x5C..0x64], 2048u64.to_le_bytes());
        assert_eq!(boot_sector(&[7; 100]), None);
    }

    #[test]
    fn core_larger_than_its_partition_is_refused() {
        assert_eq!(core_image(vec![0; (1 << 20) + 1]), None);
        let core = core_image(vec![0; 4096]).unwrap();
        assert_eq!(core[0x1F4..0x1FC], 2049u64.to_le_bytes());
    }
}
