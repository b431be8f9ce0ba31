//! How BMCs of different makers differ, as one table: a row per vendor, a column per habit.
//!
//! Handlers read columns. None of them asks whose BMC it is.

use crate::server::boot::Device;
use crate::server::chassis::Reset;

/// One row of the table.
#[derive(Debug)]
pub struct Personality {
    /// As it is written in the plan of a rack.
    pub name: &'static str,

    // What it says of itself.
    pub vendor: &'static str,
    pub manufacturer: &'static str,
    pub model: &'static str,
    pub sku: &'static str,
    pub bmc_model: &'static str,
    pub bmc_version: &'static str,
    pub bios_version: &'static str,

    // Where things are.
    pub system: &'static str,
    pub manager: &'static str,
    pub chassis: &'static str,
    pub storage: &'static str,
    /// Followed by a number from 1.
    pub nic: &'static str,
    pub media: Bay,

    // What it can do.
    pub resets: &'static [Reset],
    pub boot_targets: &'static [Target],
    pub boot_progress: bool,
    pub expand: bool,
    pub max_sessions: usize,

    // What it insists on.
    pub etag: Etag,
    /// What must be in a change of `Boot` that names a target.
    pub boot_needs: &'static [&'static str],
    /// What must be in `InsertMedia` beside the image.
    pub insert_needs: &'static [&'static str],
    /// An action without parameters still wants `{}`.
    pub empty_body_refused: bool,
    /// `InsertMedia` answers at once and fetches the image as a task.
    pub insert_is_task: bool,

    // How it refuses.
    /// A change without `If-Match`; without it that is fine.
    pub if_match_missing: Option<Refused>,
    pub sessions_full: Refused,
    pub not_ready: Refused,
    /// On while on, off while off; without it both succeed and do nothing.
    pub power_repeated: Option<Refused>,
    /// Inserting where something is inserted; without it the new image takes the old one's place.
    pub slot_occupied: Option<Refused>,
    /// Ejecting where nothing is inserted; without it that succeeds and does nothing.
    pub slot_empty: Option<Refused>,
    /// Virtual media and firmware updates on a BMC without its licence.
    pub unlicensed: Option<Refused>,
}

/// Where virtual media is found.
#[derive(Debug)]
pub struct Bay {
    pub of: Owner,
    pub slots: &'static [Slot],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    System,
    Manager,
}

#[derive(Debug)]
pub struct Slot {
    pub id: &'static str,
    pub media_types: &'static [&'static str],
    pub insert: Insert,
}

/// How an image gets into a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insert {
    /// By the InsertMedia and EjectMedia actions, or by PATCH.
    Action,
    /// By PATCH alone.
    Patch,
    /// Listed, but nothing can be inserted: the chassis has one drive, and this is not it.
    Never,
}

/// A boot target's name, and what it is to the chassis.
pub type Target = (&'static str, Option<Device>);

/// Which entity tags a BMC gives and takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Etag {
    Strong,
    Weak,
    /// Gives weak ones and takes them back only in the strong form.
    WeakGivenStrongWanted,
}

/// A refusal in the vendor's own words.
#[derive(Debug, Clone, Copy)]
pub struct Refused {
    pub status: u16,
    pub id: &'static str,
    pub text: &'static str,
}

impl Personality {
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|personality| personality.name == name)
    }
}

const CD: &[&str] = &["CD", "DVD"];
const USB: &[&str] = &["Floppy", "USBStick"];

const TARGETS: &[Target] = &[
    ("None", None),
    ("Pxe", Some(Device::Pxe)),
    ("Hdd", Some(Device::Hdd)),
    ("Cd", Some(Device::Cd)),
    ("BiosSetup", Some(Device::BiosSetup)),
    ("UefiHttp", Some(Device::UefiHttp)),
];

/// Virtual media is a USB drive here. `Cd` is listed too, and clients are expected to know better.
const USB_CD_TARGETS: &[Target] = &[
    ("None", None),
    ("Pxe", Some(Device::Pxe)),
    ("Hdd", Some(Device::Hdd)),
    ("UsbCd", Some(Device::Cd)),
    ("Cd", Some(Device::Cd)),
    ("BiosSetup", Some(Device::BiosSetup)),
    ("UefiHttp", Some(Device::UefiHttp)),
];

const SESSIONS_FULL: Refused = Refused {
    status: 503,
    id: "Base.1.18.SessionLimitExceeded",
    text: "All sessions are taken. Close one, or wait for one to time out.",
};

const NOT_READY: Refused = Refused {
    status: 503,
    id: "Base.1.18.ServiceTemporarilyUnavailable",
    text: "The BMC is restarting.",
};

const GENERIC: Personality = Personality {
    name: "generic",
    vendor: "Plinth",
    manufacturer: "Plinth",
    model: "Lab Server",
    sku: "LAB-1",
    bmc_model: "Lab BMC",
    bmc_version: "1.0.0",
    bios_version: "1.0.0",
    system: "1",
    manager: "bmc",
    chassis: "1",
    storage: "1",
    nic: "nic",
    media: Bay {
        of: Owner::System,
        slots: &[Slot {
            id: "Cd",
            media_types: CD,
            insert: Insert::Action,
        }],
    },
    resets: &Reset::ALL,
    boot_targets: TARGETS,
    boot_progress: true,
    expand: true,
    max_sessions: 32,
    etag: Etag::Strong,
    boot_needs: &[],
    insert_needs: &[],
    empty_body_refused: false,
    insert_is_task: false,
    sessions_full: SESSIONS_FULL,
    not_ready: NOT_READY,
    power_repeated: None,
    if_match_missing: None,
    slot_occupied: None,
    slot_empty: None,
    unlicensed: None,
};

pub static ALL: &[Personality] = &[
    GENERIC,
    Personality {
        name: "idrac",
        vendor: "Dell",
        manufacturer: "Dell Inc.",
        model: "PowerEdge R650",
        sku: "7LAB001",
        bmc_model: "15G Monolithic",
        bmc_version: "7.00.60.00",
        bios_version: "1.10.2",
        system: "System.Embedded.1",
        manager: "iDRAC.Embedded.1",
        chassis: "System.Embedded.1",
        storage: "AHCI.Embedded.1-1",
        nic: "NIC.Embedded.",
        media: Bay {
            of: Owner::System,
            slots: &[
                Slot {
                    id: "1",
                    media_types: &["CD", "DVD", "USBStick"],
                    insert: Insert::Action,
                },
                Slot {
                    id: "2",
                    media_types: &["CD", "DVD", "USBStick"],
                    insert: Insert::Never,
                },
            ],
        },
        resets: &[
            Reset::On,
            Reset::ForceOff,
            Reset::ForceRestart,
            Reset::GracefulRestart,
            Reset::GracefulShutdown,
            Reset::PushPowerButton,
            Reset::Nmi,
            Reset::PowerCycle,
        ],
        max_sessions: 8,
        sessions_full: Refused {
            status: 503,
            id: "IDRAC.2.8.RAC0218",
            text: "The maximum number of user sessions is reached.",
        },
        not_ready: Refused {
            status: 503,
            id: "IDRAC.2.8.SYS518",
            text: "iDRAC is not ready. Try again in a few minutes.",
        },
        power_repeated: Some(Refused {
            status: 409,
            id: "Base.1.18.ActionParameterValueConflict",
            text: "The server already has the requested power state.",
        }),
        slot_occupied: Some(Refused {
            status: 400,
            id: "IDRAC.2.8.VRM0012",
            text: "Virtual media is already connected. Disconnect it first.",
        }),
        slot_empty: Some(Refused {
            status: 400,
            id: "IDRAC.2.8.VRM0009",
            text: "No virtual media is connected.",
        }),
        ..GENERIC
    },
    Personality {
        name: "ilo",
        vendor: "HPE",
        manufacturer: "HPE",
        model: "ProLiant DL360 Gen10 Plus",
        sku: "P00LAB-B21",
        bmc_model: "iLO 5",
        bmc_version: "iLO 5 v3.06",
        bios_version: "U46 v2.10",
        system: "1",
        manager: "1",
        chassis: "1",
        storage: "DA000000",
        nic: "",
        media: Bay {
            of: Owner::Manager,
            slots: &[
                Slot {
                    id: "1",
                    media_types: USB,
                    insert: Insert::Never,
                },
                Slot {
                    id: "2",
                    media_types: CD,
                    insert: Insert::Action,
                },
            ],
        },
        resets: &[
            Reset::On,
            Reset::ForceOff,
            Reset::GracefulShutdown,
            Reset::ForceRestart,
            Reset::Nmi,
            Reset::PushPowerButton,
            Reset::GracefulRestart,
        ],
        max_sessions: 13,
        etag: Etag::Weak,
        empty_body_refused: true,
        power_repeated: Some(Refused {
            status: 400,
            id: "iLO.2.24.InvalidOperationForSystemState",
            text: "The operation does not fit the present power state of the system.",
        }),
        slot_occupied: Some(Refused {
            status: 400,
            id: "iLO.2.24.MaxVirtualMediaConnectionEstablished",
            text: "An image is connected to this device already.",
        }),
        unlicensed: Some(Refused {
            status: 403,
            id: "iLO.2.24.LicenseKeyRequired",
            text: "This needs an iLO licence key that is not installed.",
        }),
        ..GENERIC
    },
    Personality {
        name: "supermicro",
        vendor: "Supermicro",
        manufacturer: "Supermicro",
        model: "SYS-120C-TN10R",
        sku: "SYS-LAB",
        bmc_model: "ASPEED",
        bmc_version: "01.02.55",
        bios_version: "1.4b",
        system: "1",
        manager: "1",
        chassis: "1",
        storage: "SATAEmbedded",
        nic: "",
        media: Bay {
            of: Owner::Manager,
            slots: &[Slot {
                id: "VirtualMedia1",
                media_types: &["CD", "USBStick"],
                insert: Insert::Action,
            }],
        },
        resets: &[
            Reset::On,
            Reset::ForceOff,
            Reset::GracefulShutdown,
            Reset::GracefulRestart,
            Reset::ForceRestart,
            Reset::Nmi,
            Reset::ForceOn,
        ],
        boot_targets: USB_CD_TARGETS,
        boot_progress: false,
        expand: false,
        max_sessions: 16,
        etag: Etag::WeakGivenStrongWanted,
        boot_needs: &["BootSourceOverrideEnabled"],
        insert_needs: &["TransferProtocolType"],
        insert_is_task: true,
        unlicensed: Some(Refused {
            status: 403,
            id: "SMC.1.0.OemLicenseNotPassed",
            text: "This needs the license SFT-DCMS-SINGLE, which is not activated.",
        }),
        ..GENERIC
    },
    Personality {
        name: "lenovo",
        vendor: "Lenovo",
        manufacturer: "Lenovo",
        model: "ThinkSystem SR630",
        sku: "7X02LAB",
        bmc_model: "Lenovo XClarity Controller",
        bmc_version: "CDI3A8U",
        bios_version: "IVE190E",
        system: "1",
        manager: "1",
        chassis: "1",
        storage: "Direct_Attached",
        nic: "",
        media: Bay {
            of: Owner::Manager,
            slots: &[Slot {
                id: "EXT1",
                media_types: CD,
                insert: Insert::Patch,
            }],
        },
        resets: &[
            Reset::On,
            Reset::Nmi,
            Reset::GracefulShutdown,
            Reset::GracefulRestart,
            Reset::ForceOff,
            Reset::ForceRestart,
            Reset::ForceOn,
        ],
        max_sessions: 16,
        boot_needs: &["BootSourceOverrideEnabled", "BootSourceOverrideMode"],
        ..GENERIC
    },
    Personality {
        name: "fujitsu",
        vendor: "Fujitsu",
        manufacturer: "FUJITSU",
        model: "PRIMERGY RX2540 M6",
        sku: "ABN:K1LAB",
        bmc_model: "iRMC S6",
        bmc_version: "1.30S",
        bios_version: "V1.0.0.0 R1.20.0",
        system: "0",
        manager: "iRMC",
        chassis: "0",
        storage: "1000",
        nic: "",
        media: Bay {
            of: Owner::System,
            slots: &[Slot {
                id: "0",
                media_types: CD,
                insert: Insert::Action,
            }],
        },
        resets: &[
            Reset::On,
            Reset::ForceOff,
            Reset::GracefulShutdown,
            Reset::GracefulRestart,
            Reset::ForceRestart,
            Reset::Nmi,
            Reset::PushPowerButton,
            Reset::PowerCycle,
        ],
        max_sessions: 16,
        if_match_missing: Some(Refused {
            status: 412,
            id: "Base.1.18.PreconditionRequired",
            text: "A change needs an If-Match header with the ETag of the resource.",
        }),
        ..GENERIC
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_one_drive_and_can_be_installed_on() {
        for p in ALL {
            let drives = p
                .media
                .slots
                .iter()
                .filter(|slot| slot.insert != Insert::Never);
            assert_eq!(
                drives.count(),
                1,
                "{}: the chassis has one virtual drive",
                p.name
            );
            for needed in [Reset::On, Reset::ForceOff, Reset::ForceRestart] {
                assert!(p.resets.contains(&needed), "{}: {needed:?}", p.name);
            }
            for needed in ["Pxe", "Hdd", "Cd"] {
                assert!(
                    p.boot_targets.iter().any(|(name, _)| *name == needed),
                    "{}: {needed}",
                    p.name
                );
            }
            assert!(std::ptr::eq(Personality::named(p.name).unwrap(), p));
        }
        assert!(Personality::named("amiga").is_none());
    }
}
