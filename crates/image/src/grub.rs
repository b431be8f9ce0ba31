//! GRUB's cores: one file for each firmware, with the modules and a first script inside.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, tool};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// An EFI program.
    Uefi,
    /// For the boot partition of a disk with a BIOS.
    BiosDisk,
    /// For the El Torito entry of a CD.
    BiosCd,
}

impl Target {
    fn format(self) -> &'static str {
        match self {
            Self::Uefi => "x86_64-efi",
            Self::BiosDisk => "i386-pc",
            Self::BiosCd => "i386-pc-eltorito",
        }
    }

    /// Where Debian keeps the modules, and the package they come in.
    fn modules(self) -> (&'static str, &'static str) {
        match self {
            Self::Uefi => ("/usr/lib/grub/x86_64-efi", "grub-efi-amd64-bin"),
            Self::BiosDisk | Self::BiosCd => ("/usr/lib/grub/i386-pc", "grub-pc-bin"),
        }
    }

    /// Disk access is built into the EFI core, but not the screen, which the kernel inherits.
    fn drivers(self) -> &'static [&'static str] {
        match self {
            Self::Uefi => &["efi_gop", "efi_uga"],
            Self::BiosDisk | Self::BiosCd => &["biosdisk"],
        }
    }
}

/// A file of Debian's GRUB, such as `boot.img`.
pub fn part(target: Target, name: &str) -> Result<PathBuf, Error> {
    let (dir, package) = target.modules();
    let path = Path::new(dir).join(name);
    if path.exists() {
        Ok(path)
    } else {
        Err(Error::MissingFile { path, package })
    }
}

/// Makes `out` from a script and modules, and returns its bytes.
pub fn core(
    target: Target,
    modules: &[&str],
    script: &str,
    out: &Path,
    log: &Path,
) -> Result<Vec<u8>, Error> {
    part(target, "kernel.img")?;
    let config = out.with_extension("cfg");
    fs::write(&config, script).map_err(Error::file("writing", &config))?;
    tool::GRUB_MKIMAGE.run("making a boot loader", log, |command| {
        command.args([
            "-O",
            target.format(),
            "-p",
            "/boot/grub",
            "-d",
            target.modules().0,
        ]);
        command.arg("-c").arg(&config).arg("-o").arg(out);
        command.args(target.drivers()).args(modules);
    })?;
    fs::remove_file(&config).map_err(Error::file("removing", &config))?;
    fs::read(out).map_err(Error::file("reading", out))
}
