//! The ramdisk: a Debian kernel, the modules a server needs to be inspected and written, and `plinth-agent` as the
//! only program.

mod kernel;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use media::{BootIso, Content, cpio};

use crate::cache::{self, Entry, Key};
use crate::grub::{self, Target};
use crate::progress::Reporter;
use crate::{Error, Manifest, Progress, manifest, tool};

/// Which hardware the ramdisk is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flavour {
    /// QEMU: the small cloud kernel and a handful of modules.
    Lab,
    /// Real servers: the generic kernel with storage and network modules and their firmware.
    Metal,
}

impl Flavour {
    pub fn name(self) -> &'static str {
        match self {
            Self::Lab => "lab",
            Self::Metal => "metal",
        }
    }
}

impl std::str::FromStr for Flavour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "lab" => Ok(Self::Lab),
            "metal" => Ok(Self::Metal),
            other => Err(format!("flavour {other:?} is not known; use lab or metal")),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Options {
    pub flavour: Flavour,
    /// The static `plinth-agent`, built by the caller.
    pub agent: PathBuf,
    /// Instead of the one apt uses.
    pub mirror: Option<String>,
    /// Instead of [`crate::cache_dir`].
    pub cache: Option<PathBuf>,
    /// Build anew from today's packages even if there is one.
    pub refresh: bool,
}

#[derive(Debug, Clone)]
pub struct Ramdisk {
    pub dir: PathBuf,
    pub kernel: PathBuf,
    pub initrd: PathBuf,
    /// A CD that boots it with no arguments but the console's.
    pub iso: PathBuf,
    /// GRUB for CDs made by [`media::boot_iso`].
    pub uefi_loader: PathBuf,
    pub bios_loader: PathBuf,
    pub manifest: Manifest,
}

/// Kernel arguments of the ready CD, and the start of everyone else's. `quiet` because a serial line under emulation
/// takes seconds for the kernel's messages; a kernel panic must not hang for ever; there is no second program here to
/// guard against by mitigations, which slow an emulated processor down by a fifth.
pub const CMDLINE: &str = "console=tty0 console=ttyS0,115200 quiet panic=30 mitigations=off";

const RECIPE: &str = "ramdisk 2";

pub fn build(options: &Options, mut progress: impl FnMut(Progress)) -> Result<Ramdisk, Error> {
    let mut reporter = Reporter::new(&mut progress);
    let cache = options.cache.clone().map_or_else(cache::cache_dir, Ok)?;
    let kernel = kernel::get(options, &cache, &mut reporter)?;
    let (_, agent_hash) = manifest::hash(&options.agent)?;
    let kind = format!("ramdisk-{}", options.flavour.name());
    let key = Key::new(RECIPE)
        .with(CMDLINE)
        .with(EARLY)
        .with(&LOADER_MODULES.join(" "));
    let name = key.with(&kernel.id).with(&agent_hash).name(&kind);
    let entry = Entry {
        cache: &cache,
        kind: &kind,
        name,
        refresh: options.refresh,
        needed_mib: 1024,
    };
    let dir = entry.get(&mut reporter, |work, reporter| {
        make(work, &kind, &kernel, &options.agent, reporter)
    })?;
    reporter.step(&format!("{kind}: ready"));
    Ok(Ramdisk {
        kernel: dir.join("vmlinuz"),
        initrd: dir.join("initrd"),
        iso: dir.join("ramdisk.iso"),
        uefi_loader: dir.join("grubx64.efi"),
        bios_loader: dir.join("eltorito.img"),
        manifest: Manifest::read(&dir)?,
        dir,
    })
}

fn make(
    work: &Path,
    kind: &str,
    kernel: &kernel::Kernel,
    agent: &Path,
    reporter: &mut Reporter,
) -> Result<(), Error> {
    let log = work.join(cache::LOG);
    reporter.step(&format!("{kind}: packing the initrd"));
    let vmlinuz = work.join("vmlinuz");
    fs::copy(kernel.dir.join("vmlinuz"), &vmlinuz).map_err(Error::file("copying to", &vmlinuz))?;
    let initrd = initrd(work, kernel, agent, &log)?;

    reporter.step(&format!("{kind}: boot loaders and CD"));
    let uefi = grub::core(
        Target::Uefi,
        LOADER_MODULES,
        EARLY,
        &work.join("grubx64.efi"),
        &log,
    )?;
    let bios = grub::core(
        Target::BiosCd,
        LOADER_MODULES,
        EARLY,
        &work.join("eltorito.img"),
        &log,
    )?;
    let content = |path: &PathBuf| -> Result<Content<PathBuf>, Error> {
        let len = fs::metadata(path)
            .map_err(Error::file("reading", path))?
            .len();
        Ok(Content::File {
            token: path.clone(),
            len,
        })
    };
    let layout = media::boot_iso(BootIso {
        label: "PLINTH".into(),
        publisher: String::new(),
        kernel: content(&vmlinuz)?,
        initrd: content(&initrd)?,
        cmdline: CMDLINE.into(),
        uefi: Some(uefi),
        bios: Some(bios),
        files: Vec::new(),
        modified: 0,
    })?;
    let iso = work.join("ramdisk.iso");
    let mut out = BufWriter::new(File::create(&iso).map_err(Error::file("creating", &iso))?);
    layout.write_to(&mut out, |path: &PathBuf| File::open(path))?;
    out.flush().map_err(Error::file("writing", &iso))?;
    let files = [
        "vmlinuz",
        "initrd",
        "ramdisk.iso",
        "grubx64.efi",
        "eltorito.img",
    ];
    Manifest::write(work, kind, &kernel.version, &files, Vec::new())
}

/// The kernel unpacks zstd at some 80 MB/s even under emulation; the boot loaders load at less than that, so the
/// smaller file wins.
fn initrd(
    work: &Path,
    kernel: &kernel::Kernel,
    agent: &Path,
    log: &Path,
) -> Result<PathBuf, Error> {
    let mut archive = cpio::Archive::new();
    let read = |path: &Path| fs::read(path).map_err(Error::file("reading", path));
    archive.file("init", 0o755, read(agent)?);
    // The kernel opens it for process 1 before anything is mounted.
    archive.device(
        "dev/console",
        0o600,
        cpio::Device::Char { major: 5, minor: 1 },
    );
    for dir in ["proc", "sys", "run", "tmp", "etc"] {
        archive.dir(dir, 0o755);
    }
    add_tree(&mut archive, &kernel.dir.join("tree"), "")?;
    let plain = work.join("initrd.cpio");
    let mut out = BufWriter::new(File::create(&plain).map_err(Error::file("creating", &plain))?);
    archive
        .write_to(&mut out)
        .map_err(Error::file("writing", &plain))?;
    out.flush().map_err(Error::file("writing", &plain))?;
    let initrd = work.join("initrd");
    tool::ZSTD.run("compressing the initrd", log, |command| {
        // --ultra levels use a larger window than the kernel's decoder likes; 19 is the last without.
        command
            .args(["-q", "-19", "-T0", "--rm", "-o"])
            .arg(&initrd)
            .arg(&plain);
    })?;
    Ok(initrd)
}

fn add_tree(archive: &mut cpio::Archive, dir: &Path, prefix: &str) -> Result<(), Error> {
    let entries = fs::read_dir(dir).map_err(Error::file("reading", dir))?;
    for entry in entries {
        let path = entry.map_err(Error::file("reading", dir))?.path();
        let name = format!(
            "{prefix}{}",
            path.file_name().unwrap_or_default().to_string_lossy()
        );
        if path.is_dir() {
            archive.dir(&name, 0o755);
            add_tree(archive, &path, &format!("{name}/"))?;
        } else {
            archive.file(
                &name,
                0o644,
                fs::read(&path).map_err(Error::file("reading", &path))?,
            );
        }
    }
    Ok(())
}

const LOADER_MODULES: &[&str] = &[
    "iso9660",
    "fat",
    "part_gpt",
    "part_msdos",
    "normal",
    "configfile",
    "linux",
    "search",
    "search_fs_file",
    "serial",
    "terminal",
    "test",
    "echo",
    "boot",
    "minicmd",
    "reboot",
    "halt",
];

/// Finds the CD by its marker file: a disk may hold a `/boot/grub/grub.cfg` too. GRUB then reads the one below
/// `prefix`. There is no `if` at this stage.
const EARLY: &str = "\
search --no-floppy --set=root --hint cd0 --file /boot/grub/plinth-boot-iso
set prefix=($root)/boot/grub
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_script_looks_for_the_marker_the_cd_has() {
        assert!(EARLY.contains(&format!("--file /{}", media::MARKER)));
    }

    #[test]
    fn flavours_are_read_back_from_their_names() {
        for flavour in [Flavour::Lab, Flavour::Metal] {
            assert_eq!(flavour.name().parse(), Ok(flavour));
        }
    }
}
