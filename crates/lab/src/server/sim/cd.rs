//! What a boot CD tells the system on it: the kernel's arguments, and files beside the kernel.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use media::iso;

/// Files of a CD's configuration are small.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("open the CD's image")]
    Open(#[source] io::Error),
    #[error(transparent)]
    Find(#[from] iso::FindError),
    #[error("{path} on the CD has {len} bytes")]
    TooLarge { path: String, len: u64 },
    #[error("read {path} from the CD")]
    Read { path: String, source: io::Error },
    #[error("boot/grub/grub.cfg on the CD starts no kernel")]
    NoKernel,
}

/// The kernel line that the CD's boot loader would use.
pub fn arguments(image: &Path) -> Result<String, Error> {
    let menu = read(image, "boot/grub/grub.cfg")?;
    kernel_line(&menu).ok_or(Error::NoKernel)
}

/// A small text file of the CD.
pub fn read(image: &Path, path: &str) -> Result<String, Error> {
    let file = File::open(image).map_err(Error::Open)?;
    let found = iso::find(path, |offset, buffer| file.read_exact_at(buffer, offset))?;
    if found.len > LARGEST {
        return Err(Error::TooLarge {
            path: path.to_owned(),
            len: found.len,
        });
    }
    let mut bytes = vec![0; found.len as usize];
    file.read_exact_at(&mut bytes, found.offset)
        .map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What follows the kernel's name, with the loader's quotes taken off.
fn kernel_line(menu: &str) -> Option<String> {
    let rest = menu
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("linux "))?;
    let words = rest.split_whitespace().skip(1);
    let words: Vec<&str> = words.map(|word| word.trim_matches('\'')).collect();
    Some(words.join(" "))
}

#[test]
fn the_kernel_line_is_read_without_the_loaders_quotes() {
    let menu = "terminal\nlinux /vmlinuz 'console=ttyS0' 'ipa-api-url=http://h:6385'\ninitrd /initrd\nboot\n";
    assert_eq!(
        kernel_line(menu).as_deref(),
        Some("console=ttyS0 ipa-api-url=http://h:6385")
    );
    assert_eq!(kernel_line("boot\n"), None);
}
