//! A CD that starts one kernel, on UEFI and BIOS alike.
//!
//! The loaders are GRUB's, made elsewhere (crate `image`): a core for each firmware with an early script inside that
//! looks for [`MARKER`] and reads `/boot/grub/grub.cfg` beside it. Only that file differs from one server to the
//! next, so a server's own CD is a new layout over the same kernel and initrd.

use crate::layout::{Content, Layout};
use crate::{fat, iso};

/// The file by which the loader knows the CD: a name that no installed system has.
pub const MARKER: &str = "boot/grub/plinth-boot-iso";

#[derive(Debug, Clone)]
pub struct BootIso<T> {
    pub label: String,
    pub publisher: String,
    pub kernel: Content<T>,
    pub initrd: Content<T>,
    /// Kernel arguments, separated by blanks.
    pub cmdline: String,
    /// GRUB's `x86_64-efi` core.
    pub uefi: Option<Vec<u8>>,
    /// GRUB's `i386-pc-eltorito` core.
    pub bios: Option<Vec<u8>>,
    /// More files, such as `openstack/latest/network_data.json`.
    pub files: Vec<iso::File<T>>,
    pub modified: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootIsoError {
    #[error(
        "kernel argument {0:?} holds a quote, a backslash or a control character, which the boot loader would change"
    )]
    Argument(String),
    #[error("no boot loader given, neither for UEFI nor for BIOS")]
    NoLoader,
    #[error("making the EFI system partition")]
    Esp(#[from] fat::Error),
    #[error("making the ISO image")]
    Iso(#[from] iso::Error),
}

pub fn boot_iso<T>(cd: BootIso<T>) -> Result<Layout<T>, BootIsoError> {
    if cd.uefi.is_none() && cd.bios.is_none() {
        return Err(BootIsoError::NoLoader);
    }
    let bytes = |path: &str, bytes: Vec<u8>| iso::File {
        path: path.to_owned(),
        content: Content::Bytes(bytes),
    };
    let mut files = vec![
        bytes("boot/grub/grub.cfg", menu(&cd.cmdline)?.into_bytes()),
        bytes(MARKER, Vec::new()),
    ];
    let mut boot = iso::Boot::default();
    if let Some(core) = cd.bios {
        files.push(bytes("boot/grub/eltorito.img", core));
        boot.bios = Some("boot/grub/eltorito.img".into());
    }
    if let Some(core) = cd.uefi {
        files.push(bytes("boot/grub/efiboot.img", esp(core, cd.modified)?));
        boot.uefi = Some("boot/grub/efiboot.img".into());
    }
    files.extend(cd.files);
    for (path, content) in [("vmlinuz", cd.kernel), ("initrd", cd.initrd)] {
        let path = path.to_owned();
        files.push(iso::File { path, content });
    }
    let image = iso::Image {
        label: cd.label,
        publisher: cd.publisher,
        files,
        joliet: true,
        boot,
        modified: cd.modified,
    };
    Ok(image.layout()?)
}

fn esp(core: Vec<u8>, modified: u64) -> Result<Vec<u8>, fat::Error> {
    let path = "EFI/BOOT/BOOTX64.EFI".to_owned();
    fat::Image {
        label: "ESP".into(),
        volume_id: 0x504c_4e54,
        files: vec![fat::File { path, data: core }],
        size: None,
        modified,
    }
    .encode()
}

/// UEFI firmware sends the console to the serial line by itself.
const SERIAL: &str = "\
if [ \"$grub_platform\" = pc ]; then
  if serial --unit=0 --speed=115200; then terminal_output console serial; fi
fi
";

fn menu(cmdline: &str) -> Result<String, BootIsoError> {
    let mut words = vec!["linux /vmlinuz".to_owned()];
    for argument in cmdline.split_ascii_whitespace() {
        if argument
            .chars()
            .any(|c| c.is_control() || matches!(c, '\'' | '"' | '\\'))
        {
            return Err(BootIsoError::Argument(argument.to_owned()));
        }
        words.push(format!("'{argument}'"));
    }
    let linux = words.join(" ");
    Ok(format!("{SERIAL}{linux}\ninitrd /initrd\nboot\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_reach_the_kernel_as_they_are() {
        let menu = menu("console=ttyS0,115200  ipa-api-url=http://[fd00::1]:6385 a=$b;c").unwrap();
        let (_, menu) = menu.split_at(SERIAL.len());
        insta::assert_snapshot!(menu, @r"
        linux /vmlinuz 'console=ttyS0,115200' 'ipa-api-url=http://[fd00::1]:6385' 'a=$b;c'
        initrd /initrd
        boot
        ");
    }

    #[test]
    fn argument_the_loader_would_change_is_refused() {
        for bad in ["a='b'", "x=\"y", "z=\\n"] {
            assert_eq!(menu(bad), Err(BootIsoError::Argument(bad.into())));
        }
    }
}
