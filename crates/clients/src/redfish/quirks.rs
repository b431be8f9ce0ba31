//! What vendors do differently, as one table: a row per vendor, a column per habit.

/// How one vendor's BMCs want to be asked.
#[derive(Debug, PartialEq, Eq)]
pub struct Quirks {
    /// For people and logs.
    pub name: &'static str,
    /// Parts of `Vendor` or `Manufacturer` that mean this row, in lower case.
    matches: &'static [&'static str],
    /// What the virtual CD is called as a boot target, best first.
    pub cd_targets: &'static [&'static str],
    /// Target alone is not enough: say for how long too.
    pub always_enabled: bool,
    /// Nor that: say the mode too.
    pub always_mode: bool,
    /// Firmware keeps its own entry of the installed system first in UEFI mode; an override would spoil it.
    pub skips_persistent_disk_in_uefi: bool,
    /// Virtual CDs to use before others.
    pub first_slots: &'static [&'static str],
}

const PLAIN: Quirks = Quirks {
    name: "plain",
    matches: &[],
    cd_targets: &["Cd"],
    always_enabled: false,
    always_mode: false,
    skips_persistent_disk_in_uefi: false,
    first_slots: &[],
};

static ROWS: &[Quirks] = &[
    // iDRAC 10 answers on slot 1 alone; older ones have it too.
    Quirks {
        name: "dell",
        matches: &["dell"],
        first_slots: &["1", "CD"],
        ..PLAIN
    },
    Quirks {
        name: "hpe",
        matches: &["hpe", "hewlett"],
        first_slots: &["2"],
        ..PLAIN
    },
    // The virtual CD is a USB drive, and changing the device may turn the mode.
    Quirks {
        name: "supermicro",
        matches: &["supermicro", "super micro"],
        cd_targets: &["UsbCd", "Cd"],
        always_enabled: true,
        always_mode: true,
        ..PLAIN
    },
    Quirks {
        name: "lenovo",
        matches: &["lenovo"],
        always_enabled: true,
        always_mode: true,
        skips_persistent_disk_in_uefi: true,
        ..PLAIN
    },
    Quirks {
        name: "ami",
        matches: &["ami", "american megatrends"],
        always_enabled: true,
        always_mode: true,
        ..PLAIN
    },
    Quirks {
        name: "asrockrack",
        matches: &["asrock"],
        always_enabled: true,
        always_mode: true,
        ..PLAIN
    },
];

/// The row for a vendor as a BMC names it.
pub fn quirks_of(vendor: &str) -> &'static Quirks {
    let vendor = vendor.trim().to_lowercase();
    // `ami` is part of other words, so whole words are compared.
    let has = |part: &str| {
        if part.contains(' ') {
            vendor.contains(part)
        } else {
            words(&vendor).any(|word| word.starts_with(part) && (part != "ami" || word == "ami"))
        }
    };
    ROWS.iter()
        .find(|row| row.matches.iter().any(|part| has(part)))
        .unwrap_or(&PLAIN)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_are_known_by_what_their_bmcs_say() {
        for (vendor, row) in [
            ("Dell Inc.", "dell"),
            ("Dell", "dell"),
            ("HPE", "hpe"),
            ("Hewlett Packard Enterprise", "hpe"),
            ("Supermicro", "supermicro"),
            ("Super Micro Computer", "supermicro"),
            ("Lenovo", "lenovo"),
            ("AMI", "ami"),
            ("American Megatrends International", "ami"),
            ("ASRockRack", "asrockrack"),
            ("FUJITSU", "plain"),
            ("Amiga", "plain"),
            ("Sushy Emulator", "plain"),
            ("", "plain"),
        ] {
            assert_eq!(quirks_of(vendor).name, row, "{vendor}");
        }
    }
}
