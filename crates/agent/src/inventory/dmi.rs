//! What the firmware says of the machine (SMBIOS 3.7).

use std::path::Path;

use model::inventory::{Firmware, SystemVendor};

use super::text;

pub fn vendor(sys: &Path) -> SystemVendor {
    let read = |name: &str| text(&sys.join("class/dmi/id").join(name)).unwrap_or_default();
    SystemVendor {
        product_name: read("product_name"),
        serial_number: read("product_serial"),
        manufacturer: read("sys_vendor"),
        firmware: Firmware {
            vendor: read("bios_vendor"),
            version: read("bios_version"),
            build_date: read("bios_date"),
        },
    }
}

const MEMORY_DEVICE: u8 = 17;

/// Sum of all memory modules, if the table names any.
pub fn memory_mib(table: &[u8]) -> Option<u64> {
    let sizes = structures(table).filter(|(kind, _)| *kind == MEMORY_DEVICE);
    let total: u64 = sizes.filter_map(|(_, data)| module_mib(data)).sum();
    (total > 0).then_some(total)
}

/// 7.18: the size in MiB, or KiB with the top bit, at 0x0C; 0x7FFF sends on to 0x1C; 0xFFFF is unknown.
fn module_mib(data: &[u8]) -> Option<u64> {
    let size = u16::from_le_bytes(data.get(0x0C..0x0E)?.try_into().ok()?);
    match size {
        0 | 0xFFFF => None,
        0x7FFF => {
            let extended = u32::from_le_bytes(data.get(0x1C..0x20)?.try_into().ok()?);
            Some(u64::from(extended & 0x7FFF_FFFF))
        }
        kib if kib & 0x8000 != 0 => Some(u64::from(kib & 0x7FFF) / 1024),
        mib => Some(u64::from(mib)),
    }
}

/// Type and formatted area of each structure; strings follow it up to two zero bytes (6.1.3).
fn structures(mut table: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&kind, &len) = (table.first()?, table.get(1)?);
        let (data, strings) = table.split_at_checked(usize::from(len).max(4))?;
        let end = strings
            .windows(2)
            .position(|pair| pair == [0, 0])
            .map_or(strings.len(), |at| at + 2);
        table = &strings[end..];
        Some((kind, data))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn module(size: u16, extended: u32) -> Vec<u8> {
        let mut out = vec![0; 0x20];
        out[0] = MEMORY_DEVICE;
        out[1] = 0x20;
        out[0x0C..0x0E].copy_from_slice(&size.to_le_bytes());
        out[0x1C..0x20].copy_from_slice(&extended.to_le_bytes());
        out.extend(b"DIMM 0\0\0");
        out
    }

    #[test]
    fn memory_modules_are_added_up_in_every_way_of_writing_their_size() {
        let mut table = vec![0, 4, 0, 0, 0, 0];
        for part in [
            module(16384, 0),
            module(0x7FFF, 65536),
            module(0x8000 | 2048, 0),
            module(0, 0),
            module(0xFFFF, 0),
        ] {
            table.extend(part);
        }
        assert_eq!(memory_mib(&table), Some(16384 + 65536 + 2));
        assert_eq!(memory_mib(&[]), None);
    }

    proptest! {
        #[test]
        fn any_table_gives_an_answer(table: Vec<u8>) {
            let _ = memory_mib(&table);
        }
    }
}
