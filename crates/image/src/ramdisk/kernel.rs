//! The kernel and the part of its modules and firmware that the ramdisk carries. Kept apart from the ramdisk in the
//! cache, so that a new agent needs no new download.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{Flavour, Options};
use crate::cache::{self, Entry, Key};
use crate::progress::Reporter;
use crate::{Error, KEYRING, SUITE, mirror, tool};

const RECIPE: &str = "kernel 1";

pub struct Kernel {
    /// Holds `vmlinuz`, `version` and `tree/lib/modules/...`.
    pub dir: PathBuf,
    pub id: String,
    pub version: String,
}

pub fn get(options: &Options, cache: &Path, reporter: &mut Reporter) -> Result<Kernel, Error> {
    let content = Selection::of(options.flavour);
    let kind = format!("kernel-{}", options.flavour.name());
    let key = Key::new(RECIPE)
        .with(&content.packages.join(" "))
        .with(&content.modules.join(" "))
        .with(&content.folders.join(" "));
    let id = key.name(&kind);
    let entry = Entry {
        cache,
        kind: &kind,
        name: id.clone(),
        refresh: options.refresh,
        needed_mib: content.needed_mib,
    };
    let dir = entry.get(reporter, |work, reporter| {
        crate::check_root()?;
        let mirror = mirror::resolve(options.mirror.as_deref(), SUITE)?;
        make(work, &kind, &content, &mirror, reporter)
    })?;
    let path = dir.join("version");
    let version = fs::read_to_string(&path).map_err(Error::file("reading", &path))?;
    Ok(Kernel { dir, id, version })
}

/// What a flavour takes from Debian.
struct Selection {
    packages: &'static [&'static str],
    components: &'static str,
    /// Modules that must be there, unless built into the kernel.
    modules: &'static [&'static str],
    /// Folders of modules taken as a whole.
    folders: &'static [&'static str],
    needed_mib: u64,
}

impl Selection {
    fn of(flavour: Flavour) -> Self {
        match flavour {
            Flavour::Lab => Self {
                packages: &["linux-image-cloud-amd64"],
                components: "main",
                modules: &[
                    "virtio_net",
                    "virtio_blk",
                    "virtio_scsi",
                    "virtio_pci",
                    "nvme",
                    "ahci",
                    "ata_piix",
                    "sd_mod",
                    "sr_mod",
                    "isofs",
                    "vfat",
                    "ext4",
                    "nls_ascii",
                    "nls_cp437",
                    "nls_iso8859-1",
                    "efivarfs",
                    "button",
                    "evdev",
                    "qemu_fw_cfg",
                ],
                folders: &[],
                needed_mib: 1024,
            },
            Flavour::Metal => Self {
                packages: &[
                    "linux-image-amd64",
                    "firmware-linux-free",
                    "firmware-misc-nonfree",
                    "firmware-intel-misc",
                    "firmware-bnx2",
                    "firmware-bnx2x",
                    "firmware-qlogic",
                    "firmware-realtek",
                    "firmware-netronome",
                    "firmware-cavium",
                ],
                components: "main,non-free-firmware",
                modules: &[
                    "virtio_net",
                    "virtio_blk",
                    "virtio_scsi",
                    "virtio_pci",
                    "nvme",
                    "ahci",
                    "sd_mod",
                    "sr_mod",
                    "isofs",
                    "vfat",
                    "nls_ascii",
                    "nls_cp437",
                    "nls_iso8859-1",
                    "efivarfs",
                    "button",
                    "evdev",
                    "usbhid",
                    "hid_generic",
                    "usb_storage",
                    "uas",
                    "xhci_pci",
                    "ehci_pci",
                    "uhci_hcd",
                    "ipmi_si",
                    "ipmi_ssif",
                    "ipmi_devintf",
                    "bonding",
                    "8021q",
                    "vmd",
                    "mpt3sas",
                    "megaraid_sas",
                    "raid1",
                    "raid0",
                    "raid10",
                    "dm_mod",
                    "ext4",
                    "xfs",
                    "igb",
                    "ixgbe",
                    "i40e",
                    "ice",
                    "bnxt_en",
                    "mlx4_en",
                    "mlx5_core",
                    "tg3",
                    "e1000e",
                    "qede",
                    "bnx2x",
                    "r8169",
                ],
                folders: &[
                    "kernel/drivers/net/ethernet/",
                    "kernel/drivers/net/phy/",
                    "kernel/drivers/net/mdio/",
                    "kernel/drivers/ata/",
                    "kernel/drivers/scsi/",
                    "kernel/drivers/message/fusion/",
                    "kernel/drivers/nvme/host/",
                    "kernel/drivers/usb/host/",
                    "kernel/drivers/block/mtip32xx/",
                    "kernel/drivers/char/ipmi/",
                    "kernel/drivers/virtio/",
                ],
                needed_mib: 6 * 1024,
            },
        }
    }
}

fn make(
    work: &Path,
    kind: &str,
    content: &Selection,
    mirror: &str,
    reporter: &mut Reporter,
) -> Result<(), Error> {
    let log = work.join(cache::LOG);
    reporter.step(&format!("{kind}: fetching packages"));
    let root = work.join("root");
    tool::MMDEBSTRAP.run("fetching packages", &log, |command| {
        // Only unpacked, nothing is run: no postinst, no initrd of Debian's own.
        command.args(["--variant=extract", "--mode=root"]);
        command.arg(format!("--keyring={KEYRING}"));
        command.arg(format!("--components={}", content.components));
        command.arg(format!("--include={}", content.packages.join(",")));
        command.arg(SUITE).arg(&root).arg(mirror);
    })?;
    let version = version(&root)?;
    reporter.step(&format!("{kind}: choosing modules of {version}"));
    let source = root.join("usr/lib/modules").join(&version);
    let tree = work.join("tree");
    let target = tree.join("lib/modules").join(&version);
    depmod(&root.join("usr"), &version, &log)?;
    let chosen = choose(&source, &version, content)?;
    let mut files = Vec::new();
    for path in &chosen {
        files.push(copy(&source, &target, path)?);
    }
    unpack(&files, &log)?;
    for name in [
        "modules.order",
        "modules.builtin",
        "modules.builtin.modinfo",
    ] {
        copy(&source, &target, name)?;
    }
    depmod(&tree, &version, &log)?;
    keep_index(&target)?;
    firmware(
        &root.join("usr/lib/firmware"),
        &tree.join("lib/firmware"),
        &target,
        &chosen,
    )?;
    let vmlinuz = work.join("vmlinuz");
    let built = root.join(format!("boot/vmlinuz-{version}"));
    fs::copy(&built, &vmlinuz).map_err(Error::file("copying", &built))?;
    let path = work.join("version");
    fs::write(&path, &version).map_err(Error::file("writing", &path))?;
    fs::remove_dir_all(&root).map_err(Error::file("removing", &root))
}

/// The newest, if a package brought more than one.
fn version(root: &Path) -> Result<String, Error> {
    let dir = root.join("usr/lib/modules");
    let entries = fs::read_dir(&dir).map_err(Error::file("reading", &dir))?;
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.max().ok_or(Error::NoKernel(dir))
}

fn depmod(base: &Path, version: &str, log: &Path) -> Result<(), Error> {
    // depmod looks in BASE/lib/modules.
    tool::DEPMOD.run("indexing modules", log, |command| {
        command.arg("-b").arg(base).arg(version);
    })
}

/// Files of the modules asked for and of what they need, relative to the kernel's folder.
fn choose(source: &Path, version: &str, content: &Selection) -> Result<BTreeSet<String>, Error> {
    let read = |name: &str| {
        let path = source.join(name);
        fs::read_to_string(&path).map_err(Error::file("reading", path))
    };
    let (dep, builtin) = (read("modules.dep")?, read("modules.builtin")?);
    select(&dep, &builtin, content.modules, content.folders).map_err(|module| Error::NoModule {
        version: version.to_owned(),
        module,
    })
}

/// The closure over `modules.dep`, or the name of a module that is nowhere.
fn select(
    dep: &str,
    builtin: &str,
    modules: &[&str],
    folders: &[&str],
) -> Result<BTreeSet<String>, String> {
    let needs: BTreeMap<&str, Vec<&str>> = dep
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, needs)| (file, needs.split_ascii_whitespace().collect()))
        .collect();
    let by_name: BTreeMap<String, &str> = needs
        .keys()
        .map(|file| (module_name(file), *file))
        .collect();
    let built_in: BTreeSet<String> = builtin.lines().map(module_name).collect();
    let mut wanted: BTreeSet<&str> = needs
        .keys()
        .copied()
        .filter(|file| folders.iter().any(|folder| file.starts_with(folder)))
        .collect();
    for module in modules {
        let name = module_name(module);
        match by_name.get(&name) {
            Some(file) => drop(wanted.insert(file)),
            None if built_in.contains(&name) => {}
            None => return Err((*module).to_owned()),
        }
    }
    let with_needs = wanted
        .iter()
        .flat_map(|file| needs[file].iter().copied().chain([*file]));
    Ok(with_needs.map(str::to_owned).collect())
}

/// `kernel/fs/fat/vfat.ko.xz` is `vfat`; dashes and underscores are the same.
fn module_name(file: &str) -> String {
    let base = file.rsplit('/').next().unwrap_or(file);
    base.split('.').next().unwrap_or(base).replace('-', "_")
}

fn copy(source: &Path, target: &Path, path: &str) -> Result<PathBuf, Error> {
    let (from, to) = (source.join(path), target.join(path));
    let dir = to.parent().expect("the target is in a folder");
    fs::create_dir_all(dir).map_err(Error::file("creating", dir))?;
    fs::copy(&from, &to).map_err(Error::file("copying", from))?;
    Ok(to)
}

/// Plain modules: the initrd as a whole compresses better, and loading needs no second decoder.
fn unpack(files: &[PathBuf], log: &Path) -> Result<(), Error> {
    let packed: Vec<_> = files
        .iter()
        .filter(|file| file.extension().is_some_and(|e| e == "xz"))
        .collect();
    for some in packed.chunks(200) {
        tool::XZ.run("unpacking modules", log, |command| {
            command.args(["-d", "-T0"]).args(some);
        })?;
    }
    Ok(())
}

/// The agent reads the text files; depmod's other tables are dead weight.
fn keep_index(dir: &Path) -> Result<(), Error> {
    let keep = [
        "modules.dep",
        "modules.alias",
        "modules.builtin",
        "modules.softdep",
    ];
    for entry in fs::read_dir(dir)
        .map_err(Error::file("reading", dir))?
        .flatten()
    {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("modules.") && !keep.contains(&name.as_ref()) {
            fs::remove_file(entry.path()).map_err(Error::file("removing", entry.path()))?;
        }
    }
    Ok(())
}

/// Of thousands of firmware files, those that the chosen modules name.
fn firmware(
    source: &Path,
    target: &Path,
    modules: &Path,
    chosen: &BTreeSet<String>,
) -> Result<(), Error> {
    for module in chosen {
        let path = modules.join(module.trim_end_matches(".xz"));
        let data = fs::read(&path).map_err(Error::file("reading", &path))?;
        for name in firmware_names(&data) {
            // A driver may name files that Debian does not have, or patterns; it then does without.
            if source.join(&name).is_file() && !target.join(&name).exists() {
                copy(source, target, &name)?;
            }
        }
    }
    Ok(())
}

/// `firmware=bnx2x/bnx2x-e2-7.13.21.0.fw` in the module's information section, each ended by a zero byte.
fn firmware_names(module: &[u8]) -> Vec<String> {
    const MARK: &[u8] = b"firmware=";
    let strings = module.split(|byte| *byte == 0);
    let names = strings.filter_map(|string| string.strip_prefix(MARK));
    names
        .filter_map(|name| String::from_utf8(name.to_vec()).ok())
        .filter(|name| {
            !name.is_empty() && !name.starts_with('/') && !name.split('/').any(|part| part == "..")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/drivers/net/virtio_net.ko.xz: kernel/net/core/net_failover.ko.xz kernel/net/core/failover.ko.xz\n\
                       kernel/net/core/net_failover.ko.xz: kernel/net/core/failover.ko.xz\n\
                       kernel/net/core/failover.ko.xz:\n\
                       kernel/drivers/net/ethernet/intel/ice/ice.ko.xz: kernel/lib/dimlib.ko.xz\n\
                       kernel/lib/dimlib.ko.xz:\n";

    #[test]
    fn modules_come_with_what_they_need() {
        let chosen = select(
            DEP,
            "kernel/drivers/nvme/host/nvme.ko\n",
            &["virtio-net", "nvme"],
            &[],
        )
        .unwrap();
        let names: Vec<_> = chosen.iter().map(|file| module_name(file)).collect();
        assert_eq!(names, ["virtio_net", "failover", "net_failover"]);
    }

    #[test]
    fn folders_are_taken_whole() {
        let chosen = select(DEP, "", &[], &["kernel/drivers/net/ethernet/"]).unwrap();
        let names: Vec<_> = chosen.iter().map(|file| module_name(file)).collect();
        assert_eq!(names, ["ice", "dimlib"]);
    }

    #[test]
    fn module_that_is_nowhere_is_named() {
        assert_eq!(select(DEP, "", &["nosuch"], &[]), Err("nosuch".into()));
    }

    #[test]
    fn firmware_is_named_in_the_module_and_cannot_lead_out_of_its_folder() {
        let module = b"\x7fELF\0license=GPL\0firmware=intel/ice/ddp/ice.pkg\0firmware=../../etc/passwd\0firmware=/x\0";
        assert_eq!(firmware_names(module), ["intel/ice/ddp/ice.pkg"]);
    }
}
