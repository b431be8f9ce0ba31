//! Directory records, dates and two-way numbers (ECMA-119, 7.2, 7.3, 9.1) and their Rock Ridge fields.

use crate::date::date;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    Little,
    Big,
}

pub fn both_u16(value: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (value.to_le_bytes(), value.to_be_bytes());
    [a, b, c, d]
}

pub fn both_u32(value: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&value.to_le_bytes());
    out[4..].copy_from_slice(&value.to_be_bytes());
    out
}

/// One directory record (ECMA-119, 9.1).
pub struct Record<'a> {
    pub identifier: &'a [u8],
    pub sector: u32,
    pub len: u32,
    pub is_dir: bool,
    pub modified: u64,
    /// Rock Ridge fields; empty in Joliet.
    pub system_use: Vec<u8>,
}

impl Record<'_> {
    pub fn encode(&self) -> Vec<u8> {
        let padding = self.identifier.len().is_multiple_of(2);
        let len = 33 + self.identifier.len() + usize::from(padding) + self.system_use.len();
        let mut out = Vec::with_capacity(len + 1);
        // A record has an even length; names are limited so that it fits.
        let total = len.next_multiple_of(2);
        out.push(
            u8::try_from(total).expect("names are limited so that a record fits in 254 bytes"),
        );
        out.push(0);
        out.extend(both_u32(self.sector));
        out.extend(both_u32(self.len));
        out.extend(short_date(self.modified));
        out.push(if self.is_dir { 2 } else { 0 });
        out.extend([0, 0]);
        out.extend(both_u16(1));
        out.push(self.identifier.len() as u8);
        out.extend(self.identifier);
        if padding {
            out.push(0);
        }
        out.extend(&self.system_use);
        out.resize(total, 0);
        out
    }
}

/// Rock Ridge fields of an entry (IEEE P1282: PX for the mode, NM for the name).
pub fn rock_ridge(name: Option<&str>, is_dir: bool, links: u32) -> Vec<u8> {
    let mode: u32 = if is_dir { 0o040_555 } else { 0o100_444 };
    let mut out = vec![b'P', b'X', 36, 1];
    for field in [mode, links, 0, 0] {
        out.extend(both_u32(field));
    }
    if let Some(name) = name {
        out.extend([b'N', b'M', 5 + name.len() as u8, 1, 0]);
        out.extend(name.as_bytes());
    }
    out
}

/// What the root's own record carries first: SP starts the fields, ER names the extension (IEEE P1281).
pub fn rock_ridge_root() -> Vec<u8> {
    const ID: &[u8] = b"RRIP_1991A";
    let mut out = vec![b'S', b'P', 7, 1, 0xBE, 0xEF, 0];
    out.extend(rock_ridge(None, true, 2));
    out.extend([b'E', b'R', 8 + ID.len() as u8, 1, ID.len() as u8, 0, 0, 1]);
    out.extend(ID);
    out
}

/// The last second a directory record can say: the year is one byte after 1900.
const LATEST: u64 = 5_869_583_999;

fn short_date(unix: u64) -> [u8; 7] {
    let d = date(unix.min(LATEST));
    let [year, month, day, hour, minute, second] =
        [d.year - 1900, d.month, d.day, d.hour, d.minute, d.second].map(|n| n as u8);
    [year, month, day, hour, minute, second, 0]
}

/// Seventeen digits and zone, as volume descriptors want it (ECMA-119, 8.4.26.1).
pub fn long_date(unix: u64) -> Vec<u8> {
    let d = date(unix.min(LATEST));
    let text = format!(
        "{:04}{:02}{:02}{:02}{:02}{:02}00",
        d.year, d.month, d.day, d.hour, d.minute, d.second
    );
    let mut out = text.into_bytes();
    out.push(0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970010100000000"),
            (951_782_400, "2000022900000000"),
            (1_794_735_533, "2026111509385300"),
            (u64::MAX, "2155123123595900"),
        ];
        for (unix, expected) in cases {
            assert_eq!(&long_date(unix)[..16], expected.as_bytes(), "{unix}");
        }
    }
}
