//! Boot entries of UEFI firmware, as bytes (UEFI 2.10, 3.1.3 and 10.3).
//!
//! ```text
//!   load option   attributes u32 │ path length u16 │ description, UTF-16, 0 │ device path │ optional data
//!   device path   (type u8, subtype u8, length u16, data)… end
//! ```

use uuid::Uuid;

/// A `Boot####` variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOption {
    pub attributes: u32,
    pub description: String,
    /// Device path as it is; see [`path`].
    pub path: Vec<u8>,
    pub data: Vec<u8>,
}

pub const ACTIVE: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the boot entry is cut short")]
pub struct Short;

impl LoadOption {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.attributes.to_le_bytes().to_vec();
        bytes.extend((self.path.len() as u16).to_le_bytes());
        bytes.extend(utf16(&self.description));
        bytes.extend(&self.path);
        bytes.extend(&self.data);
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Short> {
        let (attributes, rest) = bytes.split_first_chunk::<4>().ok_or(Short)?;
        let (path_len, rest) = rest.split_first_chunk::<2>().ok_or(Short)?;
        let units: Vec<u16> = rest
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .take_while(|unit| *unit != 0)
            .collect();
        let rest = rest.get(2 * (units.len() + 1)..).ok_or(Short)?;
        let path_len = usize::from(u16::from_le_bytes(*path_len));
        let (path, data) = rest.split_at_checked(path_len).ok_or(Short)?;
        Ok(Self {
            attributes: u32::from_le_bytes(*attributes),
            description: String::from_utf16_lossy(&units),
            path: path.to_vec(),
            data: data.to_vec(),
        })
    }
}

/// A partition, as firmware knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    pub number: u32,
    /// In the disk's sectors.
    pub start: u64,
    pub sectors: u64,
    pub id: PartitionId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionId {
    Gpt(Uuid),
    /// The signature of the disk.
    Mbr(u32),
}

const MEDIA: u8 = 4;
const HARD_DRIVE: u8 = 1;
const FILE: u8 = 4;
const END: [u8; 4] = [0x7f, 0xff, 4, 0];

/// The short form that firmware completes by looking for the partition: HD(…)/File(…).
pub fn path(partition: &Partition, file: &str) -> Vec<u8> {
    let mut drive = vec![];
    drive.extend(partition.number.to_le_bytes());
    drive.extend(partition.start.to_le_bytes());
    drive.extend(partition.sectors.to_le_bytes());
    match partition.id {
        PartitionId::Gpt(guid) => {
            drive.extend(guid.to_bytes_le());
            drive.extend([2, 2]);
        }
        PartitionId::Mbr(signature) => {
            drive.extend(signature.to_le_bytes());
            drive.extend([0; 12]);
            drive.extend([1, 1]);
        }
    }
    let mut bytes = node(MEDIA, HARD_DRIVE, &drive);
    bytes.extend(node(MEDIA, FILE, &utf16(&file.replace('/', "\\"))));
    bytes.extend(END);
    bytes
}

fn node(kind: u8, subtype: u8, data: &[u8]) -> Vec<u8> {
    let len = (data.len() + 4) as u16;
    let mut bytes = vec![kind, subtype];
    bytes.extend(len.to_le_bytes());
    bytes.extend(data);
    bytes
}

/// The `BootOrder` variable; an odd last byte is dropped.
pub fn decode_order(bytes: &[u8]) -> Vec<u16> {
    bytes
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect()
}

pub fn encode_order(order: &[u16]) -> Vec<u8> {
    order
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// Little endian, with a zero at the end.
fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16()
        .chain([0])
        .flat_map(u16::to_le_bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_entry_is_as_firmware_writes_it() {
        let partition = Partition {
            number: 1,
            start: 2048,
            sectors: 1_048_576,
            id: PartitionId::Gpt(Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff)),
        };
        let path = path(&partition, "/EFI/a");
        let expected: Vec<u8> = [
            &[4, 1, 42, 0, 1, 0, 0, 0][..],
            &[0, 8, 0, 0, 0, 0, 0, 0],
            &[0, 0, 16, 0, 0, 0, 0, 0],
            &[
                0x33, 0x22, 0x11, 0, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd,
                0xee, 0xff,
            ],
            &[2, 2],
            &[4, 4, 18, 0],
            b"\\\0E\0F\0I\0\\\0a\0\0\0",
            &END,
        ]
        .concat();
        assert_eq!(path, expected);
        let option = LoadOption {
            attributes: ACTIVE,
            description: "os".into(),
            path,
            data: vec![],
        };
        assert_eq!(
            option.encode()[..12],
            [1, 0, 0, 0, 64, 0, b'o', 0, b's', 0, 0, 0]
        );
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            attributes: u32,
            description in "[^\0]{0,20}",
            path in proptest::collection::vec(any::<u8>(), 0..100),
            data: Vec<u8>,
        ) {
            let option = LoadOption { attributes, description, path, data };
            prop_assert_eq!(LoadOption::decode(&option.encode()), Ok(option));
        }

        #[test]
        fn any_bytes_give_an_entry_or_an_error(bytes: Vec<u8>) {
            let _ = LoadOption::decode(&bytes);
            let _ = decode_order(&bytes);
        }
    }
}
