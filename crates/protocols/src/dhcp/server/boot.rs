//! What a booting client is told to fetch, by what its firmware is.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::dhcp::request::Firmware;

/// Client architectures (option 93) that have a meaning here.
pub mod arch {
    pub const BIOS: u16 = 0;
    pub const UEFI_X64: u16 = 7;
    /// "EFI byte code"; in practice also x86-64, for RFC 4578 and the registry disagree on 7 and 9.
    pub const UEFI_BC: u16 = 9;
    pub const UEFI_ARM64: u16 = 11;
    pub const HTTP_X64: u16 = 16;
    pub const HTTP_ARM64: u16 = 19;
}

/// Whether and how clients boot from us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Boot {
    /// Clients are told nothing.
    None,
    /// Each firmware its file.
    Table(Table),
}

/// Boot files by firmware.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The TFTP server.
    pub next_server: Ipv4Addr,
    /// TFTP files by architecture.
    pub tftp: BTreeMap<u16, String>,
    /// The TFTP file of a PXE client whose architecture is not in the table.
    pub tftp_default: Option<String>,
    /// URLs by architecture, for UEFI HTTP boot.
    pub http: BTreeMap<u16, String>,
    /// The script iPXE goes on with.
    pub ipxe: Option<String>,
}

/// What to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootFile {
    pub next_server: Ipv4Addr,
    /// A path at the TFTP server, or a URL.
    pub file: String,
    pub by: By,
}

/// Who fetches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Tftp,
    /// UEFI HTTP boot: the answer must repeat the client's class.
    Http,
    Ipxe,
}

impl Boot {
    /// The file for this firmware, if it boots at all and there is one it can use.
    pub fn choose(&self, firmware: &Firmware) -> Option<BootFile> {
        let table = match self {
            Self::None => return None,
            Self::Table(table) => table,
        };
        let found = |file: Option<&String>, by| {
            Some(BootFile {
                next_server: table.next_server,
                file: file?.clone(),
                by,
            })
        };
        let arch = firmware.arch.map(|arch| {
            if arch == arch::UEFI_BC {
                arch::UEFI_X64
            } else {
                arch
            }
        });

        // iPXE calls itself PXEClient too: ask this first.
        if firmware.ipxe {
            return found(table.ipxe.as_ref(), By::Ipxe);
        }
        // An HTTP client cannot use a TFTP path: a URL or nothing.
        if firmware.class.starts_with(b"HTTPClient") {
            return found(table.http.get(&arch?), By::Http);
        }
        if firmware.class.starts_with(b"PXEClient") {
            let by_arch = arch.and_then(|arch| table.tftp.get(&arch));
            return found(by_arch.or(table.tftp_default.as_ref()), By::Tftp);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Boot {
        Boot::Table(Table {
            next_server: Ipv4Addr::new(172, 22, 0, 3),
            tftp: BTreeMap::from([
                (arch::UEFI_X64, "snponly.efi".into()),
                (arch::UEFI_ARM64, "arm64/snponly.efi".into()),
            ]),
            tftp_default: Some("undionly.kpxe".into()),
            http: BTreeMap::from([(arch::HTTP_X64, "http://172.22.0.3:6180/snponly.efi".into())]),
            ipxe: Some("http://172.22.0.3:6180/boot.ipxe".into()),
        })
    }

    #[test]
    fn every_firmware_gets_a_file_it_can_use() {
        let rows = [
            (
                "BIOS ROM",
                "PXEClient:Arch:00000",
                Some(0),
                false,
                Some(("undionly.kpxe", By::Tftp)),
            ),
            (
                "UEFI",
                "PXEClient:Arch:00007",
                Some(7),
                false,
                Some(("snponly.efi", By::Tftp)),
            ),
            (
                "UEFI that says byte code",
                "PXEClient:Arch:00009",
                Some(9),
                false,
                Some(("snponly.efi", By::Tftp)),
            ),
            (
                "ARM",
                "PXEClient:Arch:00011",
                Some(11),
                false,
                Some(("arm64/snponly.efi", By::Tftp)),
            ),
            (
                "a ROM without option 93",
                "PXEClient",
                None,
                false,
                Some(("undionly.kpxe", By::Tftp)),
            ),
            (
                "iPXE",
                "PXEClient:Arch:00007",
                Some(7),
                true,
                Some(("http://172.22.0.3:6180/boot.ipxe", By::Ipxe)),
            ),
            (
                "HTTP boot",
                "HTTPClient:Arch:00016",
                Some(16),
                false,
                Some(("http://172.22.0.3:6180/snponly.efi", By::Http)),
            ),
            (
                "HTTP boot of an unknown kind",
                "HTTPClient:Arch:00019",
                Some(19),
                false,
                None,
            ),
            ("an operating system", "udhcp 1.35", None, false, None),
        ];
        for (name, class, arch, ipxe, expected) in rows {
            let firmware = Firmware {
                class: class.into(),
                arch,
                ipxe,
                uuid: None,
            };
            let chosen = table().choose(&firmware);
            assert_eq!(
                chosen.as_ref().map(|boot| (boot.file.as_str(), boot.by)),
                expected,
                "{name}"
            );
            assert_eq!(Boot::None.choose(&firmware), None, "{name}");
        }
    }
}
