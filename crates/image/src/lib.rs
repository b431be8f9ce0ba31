//! Builds the lab's OS image and the ramdisk from Debian packages, cached by content.
//!
//! ```text
//! ramdisk::build ──> kernel (packages, modules, firmware) ──> initrd + plinth-agent ──> ramdisk.iso
//! os::build ───────> root (packages) ──> disk (GPT, ESP, ext4, GRUB) ──> os.raw, os.qcow2
//!        both: cache (key, lock, rename), tool (deadline, log), mirror (apt's own)
//! ```
//!
//! Calls block: they run programs for minutes. From async code use a blocking thread.

pub mod agent;
mod cache;
mod error;
mod grub;
mod manifest;
mod mirror;
pub mod os;
mod progress;
pub mod ramdisk;
mod tool;

pub use cache::cache_dir;
pub use error::Error;
pub use manifest::{Item, Manifest};
pub use progress::Progress;

/// The Debian release everything is taken from.
const SUITE: &str = "trixie";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// What every build from packages needs of the machine.
fn check_root() -> Result<(), Error> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    if !std::path::Path::new(KEYRING).exists() {
        return Err(Error::MissingFile {
            path: KEYRING.into(),
            package: "debian-archive-keyring",
        });
    }
    Ok(())
}
