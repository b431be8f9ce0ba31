//! What a chassis is to IPMI: power, and what to boot from next.

/// Whether the server's main power is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerState {
    Off,
    On,
}

/// What Chassis Control asks of the server (28.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Off at once, without asking the operating system.
    PowerOff,
    PowerOn,
    /// Off, a pause, on.
    Cycle,
    /// The reset line, power stays on.
    Reset,
    /// An NMI.
    DiagnosticInterrupt,
    /// The ACPI button: the operating system is asked to shut down.
    SoftShutdown,
}

impl Control {
    pub fn code(self) -> u8 {
        match self {
            Self::PowerOff => 0,
            Self::PowerOn => 1,
            Self::Cycle => 2,
            Self::Reset => 3,
            Self::DiagnosticInterrupt => 4,
            Self::SoftShutdown => 5,
        }
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::PowerOff,
            1 => Self::PowerOn,
            2 => Self::Cycle,
            3 => Self::Reset,
            4 => Self::DiagnosticInterrupt,
            5 => Self::SoftShutdown,
            _ => return None,
        })
    }
}

/// What the server does when mains power returns (28.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestorePolicy {
    StayOff,
    Previous,
    AlwaysOn,
}

impl RestorePolicy {
    pub fn code(self) -> u8 {
        match self {
            Self::StayOff => 0,
            Self::Previous => 1,
            Self::AlwaysOn => 2,
        }
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::StayOff,
            1 => Self::Previous,
            2 => Self::AlwaysOn,
            _ => return None,
        })
    }
}

/// The identify light (28.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identify {
    Off,
    For(std::time::Duration),
    Forever,
}

/// The boot device selector of boot option parameter 5: four bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootDevice {
    /// The firmware's own order.
    NoOverride,
    Pxe,
    Disk,
    DiskSafeMode,
    DiagnosticPartition,
    Cdrom,
    BiosSetup,
    RemoteFloppy,
    RemoteCdrom,
    RemoteMedia,
    RemoteDisk,
    Floppy,
    Other(u8),
}

impl BootDevice {
    pub fn code(self) -> u8 {
        match self {
            Self::NoOverride => 0,
            Self::Pxe => 1,
            Self::Disk => 2,
            Self::DiskSafeMode => 3,
            Self::DiagnosticPartition => 4,
            Self::Cdrom => 5,
            Self::BiosSetup => 6,
            Self::RemoteFloppy => 7,
            Self::RemoteCdrom => 8,
            Self::RemoteMedia => 9,
            Self::RemoteDisk => 11,
            Self::Floppy => 15,
            Self::Other(code) => code & 0x0f,
        }
    }

    pub fn from_code(code: u8) -> Self {
        match code & 0x0f {
            0 => Self::NoOverride,
            1 => Self::Pxe,
            2 => Self::Disk,
            3 => Self::DiskSafeMode,
            4 => Self::DiagnosticPartition,
            5 => Self::Cdrom,
            6 => Self::BiosSetup,
            7 => Self::RemoteFloppy,
            8 => Self::RemoteCdrom,
            9 => Self::RemoteMedia,
            11 => Self::RemoteDisk,
            15 => Self::Floppy,
            other => Self::Other(other),
        }
    }
}

/// Boot option parameter 5 (28.13): five bytes the firmware reads when it starts.
///
/// ```text
///   byte 1   valid | persistent | UEFI | reserved(5)
///   byte 2   clear CMOS | lock keyboard | device(4) | blank screen | lock reset
///   byte 3-5 console redirection, overrides, device instance: kept as written
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootFlags {
    /// Without this the firmware ignores the rest.
    pub valid: bool,
    /// For all boots to come, not the next one alone.
    pub persistent: bool,
    pub uefi: bool,
    pub device: BootDevice,
    pub clear_cmos: bool,
    pub lock_keyboard: bool,
    pub blank_screen: bool,
    pub lock_reset: bool,
    pub rest: [u8; 3],
}

impl BootFlags {
    pub const NONE: Self = Self {
        valid: false,
        persistent: false,
        uefi: false,
        device: BootDevice::NoOverride,
        clear_cmos: false,
        lock_keyboard: false,
        blank_screen: false,
        lock_reset: false,
        rest: [0; 3],
    };

    /// The next boot, by UEFI, from this device.
    pub fn once(device: BootDevice) -> Self {
        Self {
            valid: true,
            uefi: true,
            device,
            ..Self::NONE
        }
    }

    pub fn persistent(device: BootDevice) -> Self {
        Self {
            persistent: true,
            ..Self::once(device)
        }
    }

    /// The device to boot from, if the firmware is to be told anything at all.
    pub fn device_override(&self) -> Option<BootDevice> {
        (self.valid && self.device != BootDevice::NoOverride).then_some(self.device)
    }

    pub fn encode(&self) -> [u8; 5] {
        let bit = |set: bool, shift: u8| u8::from(set) << shift;
        [
            bit(self.valid, 7) | bit(self.persistent, 6) | bit(self.uefi, 5),
            bit(self.clear_cmos, 7)
                | bit(self.lock_keyboard, 6)
                | self.device.code() << 2
                | bit(self.blank_screen, 1)
                | bit(self.lock_reset, 0),
            self.rest[0],
            self.rest[1],
            self.rest[2],
        ]
    }

    pub fn decode(bytes: [u8; 5]) -> Self {
        let bit = |byte: usize, shift: u8| bytes[byte] >> shift & 1 == 1;
        Self {
            valid: bit(0, 7),
            persistent: bit(0, 6),
            uefi: bit(0, 5),
            device: BootDevice::from_code(bytes[1] >> 2),
            clear_cmos: bit(1, 7),
            lock_keyboard: bit(1, 6),
            blank_screen: bit(1, 1),
            lock_reset: bit(1, 0),
            rest: [bytes[2], bytes[3], bytes[4]],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ironics_raw_bytes_mean_what_ironic_means() {
        let persistent_pxe = BootFlags::decode([0xe0, 0x04, 0, 0, 0]);
        assert_eq!(persistent_pxe, BootFlags::persistent(BootDevice::Pxe));
        let cdrom_once = BootFlags::decode([0xa0, 0x14, 0, 0, 0]);
        assert_eq!(cdrom_once, BootFlags::once(BootDevice::Cdrom));
        assert_eq!(cdrom_once.device_override(), Some(BootDevice::Cdrom));
    }

    #[test]
    fn flags_that_are_not_valid_override_nothing() {
        let flags = BootFlags {
            valid: false,
            ..BootFlags::once(BootDevice::Pxe)
        };
        assert_eq!(flags.device_override(), None);
    }

    proptest! {
        #[test]
        fn boot_flags_survive_but_for_reserved_bits(bytes: [u8; 5]) {
            let mut expected = bytes;
            expected[0] &= 0xe0;
            prop_assert_eq!(BootFlags::decode(bytes).encode(), expected);
        }

        #[test]
        fn control_codes_read_back(code: u8) {
            if let Some(control) = Control::from_code(code) {
                prop_assert_eq!(control.code(), code);
            }
        }
    }
}
