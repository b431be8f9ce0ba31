//! What a machine is made of, as plain data.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use model::Mac;

use crate::Accel;

/// A machine. Everything with an `id` is named by it in the verbs of [`crate::Machine`].
#[derive(Debug, Clone)]
pub struct Spec {
    /// Shown in process lists and messages.
    pub name: String,
    /// Holds the NVRAM, the console socket and the logs; one machine at a time.
    pub run_dir: PathBuf,
    pub accel: Accel,
    pub firmware: Firmware,
    pub memory_mib: u32,
    pub cpus: u32,
    pub disks: Vec<Disk>,
    pub nics: Vec<Nic>,
    /// Drives for virtual media; empty at start.
    pub cdroms: Vec<Cdrom>,
    pub usb_drives: Vec<UsbDrive>,
    /// Ids in the order the firmware shall try them; devices left out come after, if at all.
    pub boot_order: Vec<String>,
    pub smbios: Smbios,
    pub fw_cfg: Vec<FwCfg>,
    /// Starts this kernel and asks no boot device.
    pub kernel: Option<Kernel>,
    /// Waits for [`crate::Machine::resume`] before the first instruction.
    pub paused: bool,
    /// Let QEMU write the console's log. Where a client reads the console all the time, better let it write the log
    /// too: whenever the client falls behind, QEMU logs the waiting character twice.
    pub log_console: bool,
}

impl Spec {
    /// A BIOS machine with one CPU, 256 MiB and nothing attached.
    pub fn new(name: &str, run_dir: impl Into<PathBuf>, accel: Accel) -> Self {
        Self {
            name: name.to_owned(),
            run_dir: run_dir.into(),
            accel,
            firmware: Firmware::Bios {
                text_on_serial: false,
            },
            memory_mib: 256,
            cpus: 1,
            disks: Vec::new(),
            nics: Vec::new(),
            cdroms: Vec::new(),
            usb_drives: Vec::new(),
            boot_order: Vec::new(),
            smbios: Smbios::default(),
            fw_cfg: Vec::new(),
            kernel: None,
            paused: false,
            log_console: true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Firmware {
    Bios {
        /// Shows what the BIOS and its boot loaders print on the serial console too. It then also reads
        /// keys from there, and takes them from programs that read the serial port themselves.
        text_on_serial: bool,
    },
    Uefi {
        code: PathBuf,
        /// Copied into the run directory at the first start; from then on the copy is the NVRAM.
        vars_template: PathBuf,
        /// The code was built for Secure Boot and guards its variables with SMM.
        secure: bool,
    },
}

impl Firmware {
    /// Debian's OVMF without Secure Boot (package `ovmf`).
    pub fn ovmf() -> Self {
        Self::Uefi {
            code: "/usr/share/OVMF/OVMF_CODE_4M.fd".into(),
            vars_template: "/usr/share/OVMF/OVMF_VARS_4M.fd".into(),
            secure: false,
        }
    }

    /// Debian's OVMF with Secure Boot on and Microsoft's keys enrolled (package `ovmf`).
    pub fn ovmf_secure() -> Self {
        Self::Uefi {
            code: "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd".into(),
            vars_template: "/usr/share/OVMF/OVMF_VARS_4M.ms.fd".into(),
            secure: true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub id: String,
    pub path: PathBuf,
    pub format: Format,
    /// Made with this size if the file is missing; without it a missing file is an error.
    pub size_mib: Option<u64>,
    pub bus: Bus,
    /// What the guest reads as the serial number.
    pub serial: Option<String>,
    /// What the guest flushes goes to the host's disk. Without, it stops in the host's memory: much
    /// faster, still there when QEMU is killed, and lost only if the host itself goes down.
    pub flush: bool,
    /// Every read and write fails from the start; see [`crate::Machine::fail_io`].
    pub faulty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Raw,
    Qcow2,
}

impl Format {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bus {
    /// `/dev/vda`
    Virtio,
    /// `/dev/sda`, on AHCI
    Sata,
    /// `/dev/nvme0n1`
    Nvme,
    /// `/dev/sda`, on virtio-scsi
    Scsi,
}

/// A virtio network card.
#[derive(Debug, Clone)]
pub struct Nic {
    pub id: String,
    pub mac: Mac,
    pub end: NicEnd,
    /// Option ROM for network boot, such as Debian's `pxe-virtio.rom`; BIOS machines cannot do it without.
    pub rom: Option<PathBuf>,
}

/// Where a card's cable goes.
#[derive(Debug, Clone)]
pub enum NicEnd {
    /// A tap, opened at each start; a persistent one keeps its place in a bridge while the power is off.
    Tap {
        name: String,
        /// The caller's own if absent.
        namespace: Option<linux::netns::Namespace>,
    },
    /// A tap opened by the caller, with virtio headers (see [`linux::tap::open`]).
    Fd(Arc<OwnedFd>),
    /// QEMU's own little network, shut off from the world.
    Isolated,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cdrom {
    pub id: String,
    pub bus: CdromBus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CdromBus {
    Sata,
    Scsi,
}

/// A USB stick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsbDrive {
    pub id: String,
    pub path: PathBuf,
    pub read_only: bool,
}

/// What the guest finds in its DMI tables; fields left empty have QEMU's own values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Smbios {
    /// Five groups of hexadecimal digits.
    pub uuid: Option<String>,
    pub serial: Option<String>,
    pub manufacturer: Option<String>,
    pub product: Option<String>,
    /// Table 11. `ignition.platform.id=qemu` tells a metal image where its config is.
    pub oem_strings: Vec<String>,
}

/// A file the guest can read from the firmware configuration device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FwCfg {
    /// Such as `opt/com.coreos/config`.
    pub name: String,
    pub value: FwCfgValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FwCfgValue {
    File(PathBuf),
    /// Visible in process lists: not for secrets.
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    pub kernel: PathBuf,
    pub initrd: Option<PathBuf>,
    pub cmdline: String,
}

/// Why a machine cannot be built as written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("{id:?} is not a device id; write a letter, then letters, digits and dashes")]
    Id { id: String },
    #[error("two devices have the id {id:?}")]
    DuplicateId { id: String },
    #[error("the boot order names {id:?}, which is no device of this machine")]
    BootDevice { id: String },
    #[error("the boot order names {id:?} twice")]
    BootTwice { id: String },
    #[error("{wanted} SATA devices do not fit on 6 ports")]
    SataPorts { wanted: usize },
    #[error(
        "a machine needs at least one CPU and 64 MiB of memory; this one has {cpus} and {memory_mib} MiB"
    )]
    Size { cpus: u32, memory_mib: u32 },
    #[error("the path of the console socket is too long for a UNIX socket: {path}")]
    SocketPath { path: String },
}

/// `sun_path` holds 108 bytes with the final zero.
const MAX_SOCKET_PATH: usize = 107;

impl Spec {
    /// Finds what QEMU would refuse in words of its own.
    pub fn check(&self) -> Result<(), SpecError> {
        let mut ids = BTreeSet::new();
        for id in self.ids() {
            let mut chars = id.chars();
            let starts_well = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
            if !starts_well || !chars.all(|c| c.is_ascii_alphanumeric() || c == '-') {
                return Err(SpecError::Id { id: id.to_owned() });
            }
            if !ids.insert(id) {
                return Err(SpecError::DuplicateId { id: id.to_owned() });
            }
        }
        self.check_boot_order(&self.boot_order)?;
        let wanted = self
            .disks
            .iter()
            .filter(|disk| disk.bus == Bus::Sata)
            .count()
            + self
                .cdroms
                .iter()
                .filter(|cdrom| cdrom.bus == CdromBus::Sata)
                .count();
        if wanted > 6 {
            return Err(SpecError::SataPorts { wanted });
        }
        if self.cpus == 0 || self.memory_mib < 64 {
            return Err(SpecError::Size {
                cpus: self.cpus,
                memory_mib: self.memory_mib,
            });
        }
        let socket = self.console_socket();
        if socket.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(SpecError::SocketPath {
                path: socket.display().to_string(),
            });
        }
        Ok(())
    }

    pub(crate) fn check_boot_order(&self, order: &[String]) -> Result<(), SpecError> {
        let mut seen = BTreeSet::new();
        for id in order {
            if !self.ids().any(|known| known == id) {
                return Err(SpecError::BootDevice { id: id.clone() });
            }
            if !seen.insert(id) {
                return Err(SpecError::BootTwice { id: id.clone() });
            }
        }
        Ok(())
    }

    /// Everything one can boot from.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        let disks = self.disks.iter().map(|disk| &disk.id);
        let nics = self.nics.iter().map(|nic| &nic.id);
        let cdroms = self.cdroms.iter().map(|cdrom| &cdrom.id);
        let usb = self.usb_drives.iter().map(|drive| &drive.id);
        disks
            .chain(nics)
            .chain(cdroms)
            .chain(usb)
            .map(String::as_str)
    }

    pub(crate) fn console_socket(&self) -> PathBuf {
        self.run_dir.join("console.sock")
    }

    pub(crate) fn console_log(&self) -> PathBuf {
        self.run_dir.join("console.log")
    }

    pub(crate) fn nvram(&self) -> PathBuf {
        self.run_dir.join("nvram.fd")
    }

    pub(crate) fn qemu_log(&self) -> PathBuf {
        self.run_dir.join("qemu.log")
    }

    /// Tells SeaBIOS the serial port to show its screen on.
    pub(crate) fn sercon(&self) -> PathBuf {
        self.run_dir.join("sercon-port")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec::new("m", "/run/m", Accel::Kvm)
    }

    fn cdrom(id: &str) -> Cdrom {
        Cdrom {
            id: id.into(),
            bus: CdromBus::Sata,
        }
    }

    #[test]
    fn a_plain_machine_is_fine() {
        assert_eq!(spec().check(), Ok(()));
    }

    #[test]
    fn ids_that_qemu_could_misread_are_refused() {
        for id in ["", "0cd", "a,b", "a b", "a=b", "ä"] {
            let spec = Spec {
                cdroms: vec![cdrom(id)],
                ..spec()
            };
            assert_eq!(spec.check(), Err(SpecError::Id { id: id.into() }));
        }
    }

    #[test]
    fn an_id_can_be_used_once() {
        let spec = Spec {
            cdroms: vec![cdrom("cd0"), cdrom("cd0")],
            ..spec()
        };
        assert_eq!(
            spec.check(),
            Err(SpecError::DuplicateId { id: "cd0".into() })
        );
    }

    #[test]
    fn the_boot_order_names_each_device_of_the_machine_once() {
        let spec = |order: &[&str]| Spec {
            cdroms: vec![cdrom("cd0")],
            boot_order: order.iter().map(ToString::to_string).collect(),
            ..spec()
        };
        assert_eq!(spec(&["cd0"]).check(), Ok(()));
        assert_eq!(
            spec(&["nic7"]).check(),
            Err(SpecError::BootDevice { id: "nic7".into() })
        );
        assert_eq!(
            spec(&["cd0", "cd0"]).check(),
            Err(SpecError::BootTwice { id: "cd0".into() })
        );
    }

    #[test]
    fn limits_are_named() {
        let cdroms = (0..7).map(|n| cdrom(&format!("cd{n}"))).collect();
        assert_eq!(
            Spec { cdroms, ..spec() }.check(),
            Err(SpecError::SataPorts { wanted: 7 })
        );
        assert_eq!(
            Spec { cpus: 0, ..spec() }.check(),
            Err(SpecError::Size {
                cpus: 0,
                memory_mib: 256
            })
        );
        let long = Spec {
            run_dir: "/x".repeat(60).into(),
            ..spec()
        };
        assert!(matches!(long.check(), Err(SpecError::SocketPath { .. })));
    }
}
