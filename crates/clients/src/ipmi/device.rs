//! Who made a BMC, and what that one wants otherwise.

use protocols::ipmi::chassis::BootDevice as Selector;

/// The answer to Get Device ID (20.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceId {
    pub device: u8,
    pub firmware: (u8, u8),
    /// `0x20` is 2.0.
    pub ipmi_version: u8,
    /// The enterprise number of the maker.
    pub manufacturer: u32,
    pub product: u16,
}

impl DeviceId {
    pub fn decode(data: &[u8]) -> Option<Self> {
        let [
            device,
            _revision,
            major,
            minor,
            version,
            _support,
            m0,
            m1,
            m2,
            p0,
            p1,
            ..,
        ] = data
        else {
            return None;
        };
        Some(Self {
            device: *device,
            // The top bit says that the device is starting; the minor number is in decimal digits.
            firmware: (
                major & 0x7f,
                (minor >> 4).min(9) * 10 + (minor & 0x0f).min(9),
            ),
            ipmi_version: version.rotate_left(4),
            manufacturer: u32::from_le_bytes([*m0, *m1, m2 & 0x0f, 0]),
            product: u16::from_le_bytes([*p0, *p1]),
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Quirks {
    pub name: &'static str,
    manufacturers: &'static [u32],
    /// What the disk is called in UEFI mode.
    pub uefi_disk: Selector,
}

const PLAIN: Quirks = Quirks {
    name: "plain",
    manufacturers: &[],
    uefi_disk: Selector::Disk,
};

static ROWS: &[Quirks] = &[Quirks {
    name: "supermicro",
    manufacturers: &[10876, 47488],
    uefi_disk: Selector::RemoteMedia,
}];

/// The row for an enterprise number.
pub fn quirks_of(manufacturer: u32) -> &'static Quirks {
    ROWS.iter()
        .find(|row| row.manufacturers.contains(&manufacturer))
        .unwrap_or(&PLAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_supermicro_is_known_and_boots_its_disk_by_another_number() {
        let id = DeviceId::decode(&[
            0x20, 1, 0x83, 0x71, 0x02, 0xbf, 0x7c, 0x2a, 0, 0x10, 0x08, 0, 0, 0, 0,
        ])
        .unwrap();
        assert_eq!(
            (id.manufacturer, id.firmware, id.ipmi_version),
            (10876, (3, 71), 0x20)
        );
        let quirks = quirks_of(id.manufacturer);
        // Ironic's byte for it is 0x24.
        assert_eq!(quirks.uefi_disk.code() << 2, 0x24);
        assert_eq!(quirks_of(674).uefi_disk.code() << 2, 0x08);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_device_id_or_not(bytes: Vec<u8>) {
            prop_assert_eq!(DeviceId::decode(&bytes).is_some(), bytes.len() >= 11);
        }
    }
}
