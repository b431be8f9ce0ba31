//! Typed clients of what stands in a rack: Redfish, IPMI and the agent, and of etcd, with a limit on everything and a reason for every no.

pub mod agent;
pub mod etcd;
pub mod ipmi;
pub mod ironic;
pub mod redfish;

/// Whether a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    On,
    Off,
}

impl Power {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// For how long a boot device holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    Once,
    Continuous,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootMode {
    Uefi,
    Bios,
}
