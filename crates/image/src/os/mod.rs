//! The OS image of the lab: Debian with Ignition, on a disk that boots by UEFI and BIOS. It knows nothing of Plinth;
//! Ignition brings everything.
//!
//! Where Ignition finds its config (`ignition.platform.id`): a config drive (`openstack`), unless the machine's
//! SMBIOS says otherwise. QEMU with `-smbios type=11,value=ignition.platform.id=qemu` and the config in the firmware
//! (`-fw_cfg name=opt/com.coreos/config,file=...`) is how the bootstrap VM is started from the same image.
//!
//! Ignition runs on the first boot only: the loader tests for `/boot/ignition.firstboot`, and a unit of the running
//! system removes it.

mod disk;

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::{self, Entry, Key};
use crate::progress::Reporter;
use crate::{Error, KEYRING, Manifest, Progress, SUITE, mirror, tool};

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Instead of the one apt uses.
    pub mirror: Option<String>,
    /// Instead of [`crate::cache_dir`].
    pub cache: Option<PathBuf>,
    /// Build anew from today's packages even if there is one.
    pub refresh: bool,
}

#[derive(Debug, Clone)]
pub struct OsImage {
    pub dir: PathBuf,
    /// Sparse.
    pub raw: PathBuf,
    /// The same, compressed, for carrying.
    pub qcow2: PathBuf,
    pub manifest: Manifest,
}

const PACKAGES: &[&str] = &[
    "linux-image-cloud-amd64",
    "systemd-sysv",
    "systemd-resolved",
    "systemd-repart",
    "udev",
    "dbus",
    "kmod",
    "zstd",
    "iproute2",
    "nftables",
    "ca-certificates",
    "curl",
    "e2fsprogs",
    "gdisk",
    "ignition",
    "dracut",
    "dracut-network",
    "etcd-server",
    "etcd-client",
];

const PREPARE: &str = include_str!("prepare.sh");
const CUSTOMIZE: &str = include_str!("customize.sh");
const RECIPE: &str = "os 1";
const KIND: &str = "os";
/// Package tree, raw image and qcow2 side by side.
const NEEDED_MIB: u64 = 4096;

pub fn build(options: &Options, mut progress: impl FnMut(Progress)) -> Result<OsImage, Error> {
    let mut reporter = Reporter::new(&mut progress);
    let cache = options.cache.clone().map_or_else(cache::cache_dir, Ok)?;
    let key = Key::new(RECIPE)
        .with(&PACKAGES.join(" "))
        .with(PREPARE)
        .with(CUSTOMIZE)
        .with(&disk::recipe());
    let entry = Entry {
        cache: &cache,
        kind: KIND,
        name: key.name(KIND),
        refresh: options.refresh,
        needed_mib: NEEDED_MIB,
    };
    let dir = entry.get(&mut reporter, |work, reporter| {
        crate::check_root()?;
        let mirror = mirror::resolve(options.mirror.as_deref(), SUITE)?;
        make(work, &mirror, reporter)
    })?;
    reporter.step("os: ready");
    Ok(OsImage {
        raw: dir.join("os.raw"),
        qcow2: dir.join("os.qcow2"),
        manifest: Manifest::read(&dir)?,
        dir,
    })
}

fn make(work: &Path, mirror: &str, reporter: &mut Reporter) -> Result<(), Error> {
    let log = work.join(cache::LOG);
    // What is missing is told before minutes of work.
    for tool in [
        &tool::MMDEBSTRAP,
        &tool::MKFS_EXT4,
        &tool::SFDISK,
        &tool::QEMU_IMG,
        &tool::GRUB_MKIMAGE,
    ] {
        tool.find()?;
    }
    reporter.step("os: installing packages");
    let root = work.join("root");
    install(work, &root, mirror, &log)?;
    finish(&root)?;
    let read = |path: &str| {
        let path = root.join(path);
        fs::read_to_string(&path).map_err(Error::file("reading", path))
    };
    let version = read("boot/kernel-version")?;
    let packages = packages(&read("var/lib/dpkg/status")?);

    reporter.step("os: file systems and boot loaders");
    let raw = work.join("os.raw");
    disk::write(&root, &raw, work, &log)?;
    fs::remove_dir_all(&root).map_err(Error::file("removing", &root))?;

    reporter.step("os: compressed image");
    let qcow2 = work.join("os.qcow2");
    tool::QEMU_IMG.run("compressing the image", &log, |command| {
        command.args([
            "convert",
            "-f",
            "raw",
            "-O",
            "qcow2",
            "-c",
            "-o",
            "compression_type=zstd",
        ]);
        command.arg(&raw).arg(&qcow2);
    })?;
    reporter.step("os: checksums");
    Manifest::write(work, KIND, &version, &["os.raw", "os.qcow2"], packages)
}

fn install(work: &Path, root: &Path, mirror: &str, log: &Path) -> Result<(), Error> {
    for (name, script) in [("prepare.sh", PREPARE), ("customize.sh", CUSTOMIZE)] {
        let path = work.join(name);
        fs::write(&path, script).map_err(Error::file("writing", path))?;
    }
    tool::MMDEBSTRAP.run("installing packages", log, |command| {
        command.current_dir(work);
        // Debian's kernel hooks would build an initrd before all of its parts are there.
        command.env("INITRD", "No");
        command.args(["--variant=minbase", "--mode=root"]);
        command.arg(format!("--keyring={KEYRING}"));
        command.arg(format!("--include={}", PACKAGES.join(",")));
        command.arg("--dpkgopt=force-unsafe-io");
        for dir in ["doc", "man", "info", "locale", "lintian"] {
            command.arg(format!("--dpkgopt=path-exclude=/usr/share/{dir}/*"));
        }
        command.arg("--essential-hook=sh prepare.sh \"$1\"");
        command.arg(format!(
            "--customize-hook=sh customize.sh \"$1\" {}",
            disk::ROOT_UUID
        ));
        command.arg(SUITE).arg(root).arg(mirror);
    })?;
    for name in ["prepare.sh", "customize.sh"] {
        let path = work.join(name);
        fs::remove_file(&path).map_err(Error::file("removing", path))?;
    }
    Ok(())
}

/// What mmdebstrap's own clean-up would undo in a hook.
fn finish(root: &Path) -> Result<(), Error> {
    // systemd takes this word, and no empty file, for a first boot.
    let machine_id = root.join("etc/machine-id");
    fs::write(&machine_id, "uninitialized\n").map_err(Error::file("writing", machine_id))?;
    // As old as /usr: nothing that follows an update has to be made again at boot.
    let usr = root.join("usr");
    let updated = fs::metadata(&usr).and_then(|metadata| metadata.modified());
    let updated = updated.map_err(Error::file("reading", usr))?;
    for name in ["etc/.updated", "var/.updated"] {
        let path = root.join(name);
        let stamp = fs::File::create(&path).and_then(|file| file.set_modified(updated));
        stamp.map_err(Error::file("writing", path))?;
    }
    Ok(())
}

/// `name version` of each paragraph of dpkg's status file.
fn packages(status: &str) -> Vec<String> {
    let field = |paragraph: &str, name: &str| -> Option<String> {
        let line = paragraph
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.map(str::to_owned)
    };
    let paragraphs = status.split("\n\n");
    let mut found: Vec<_> = paragraphs
        .filter_map(|p| Some(format!("{} {}", field(p, "Package")?, field(p, "Version")?)))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_the_status_file() {
        let status = "Package: runc\nStatus: install ok installed\nVersion: 1.1\n\nPackage: curl\nVersion: 8.2\n\n";
        assert_eq!(packages(status), ["curl 8.2", "runc 1.1"]);
    }
}
