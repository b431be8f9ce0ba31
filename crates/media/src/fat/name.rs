//! Eight-and-three names and the long names beside them.

use std::collections::BTreeSet;

const CHARS_PER_ENTRY: usize = 13;

pub fn allowed(name: &str) -> bool {
    let forbidden = |c: char| c.is_control() || "\"*/:<>?\\|".contains(c);
    !name.is_empty()
        && name.encode_utf16().count() <= 255
        && !name.chars().any(forbidden)
        && !name.ends_with(['.', ' '])
}

pub fn label(text: &str) -> Option<[u8; 11]> {
    let text = text.to_ascii_uppercase();
    let fits = (1..=11).contains(&text.len());
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'-' | b'_');
    (fits && text.bytes().all(plain)).then(|| padded(&text))
}

/// The name as it is if it can be, otherwise `LONGNA~1.TXT`, unlike any in `taken`.
pub fn short(name: &str, taken: &mut BTreeSet<[u8; 11]>) -> [u8; 11] {
    let upper = name.to_ascii_uppercase();
    let (base, extension) = match upper.rsplit_once('.') {
        Some((base, extension)) if !base.is_empty() => (base, extension),
        Some(_) | None => (upper.as_str(), ""),
    };
    let plain = |text: &str| !text.is_empty() && text.bytes().all(is_short_char);
    if plain(base)
        && base.len() <= 8
        && (extension.is_empty() || plain(extension))
        && extension.len() <= 3
    {
        let whole = joined(base, extension);
        if taken.insert(whole) {
            return whole;
        }
    }
    let squeeze = |text: &str, limit| -> String {
        let chars = text.chars().filter(|c| *c != ' ' && *c != '.');
        let plain = chars.map(|c| {
            if c.is_ascii() && is_short_char(c as u8) {
                c
            } else {
                '_'
            }
        });
        plain.take(limit).collect()
    };
    let extension = squeeze(extension, 3);
    for counter in 1u32.. {
        let tail = format!("~{counter}");
        let base = squeeze(base, 8 - tail.len());
        let candidate = joined(&format!("{base}{tail}"), &extension);
        if taken.insert(candidate) {
            return candidate;
        }
    }
    unreachable!("a directory has fewer than 2^32 entries")
}

fn is_short_char(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'()-@^_`{}~".contains(&b)
}

fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut out = [b' '; N];
    out[..text.len()].copy_from_slice(text.as_bytes());
    out
}

fn joined(base: &str, extension: &str) -> [u8; 11] {
    let mut out = [b' '; 11];
    out[..8].copy_from_slice(&padded::<8>(base));
    out[8..].copy_from_slice(&padded::<3>(extension));
    out
}

/// Directory entries a name may take: the short one, and the long ones before it.
pub fn entries_at_most(name: &str) -> usize {
    1 + name.encode_utf16().count().div_ceil(CHARS_PER_ENTRY)
}

/// The long name's entries, last part first; none if the short name says it all.
pub fn long_entries(name: &str, short: &[u8; 11]) -> Vec<u8> {
    if shown(short) == name {
        return Vec::new();
    }
    let checksum = short
        .iter()
        .fold(0u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let mut units: Vec<u16> = name.encode_utf16().collect();
    let parts = units.len().div_ceil(CHARS_PER_ENTRY);
    if !units.len().is_multiple_of(CHARS_PER_ENTRY) {
        units.push(0);
        units.resize(parts * CHARS_PER_ENTRY, 0xFFFF);
    }
    let mut out = Vec::new();
    for (index, part) in units.chunks(CHARS_PER_ENTRY).enumerate().rev() {
        let last = if index + 1 == parts { 0x40 } else { 0 };
        let mut entry = [0u8; 32];
        entry[0] = last | (index as u8 + 1);
        entry[11] = 0x0F;
        entry[13] = checksum;
        let places = (1..11)
            .step_by(2)
            .chain((14..26).step_by(2))
            .chain((28..32).step_by(2));
        for (unit, at) in part.iter().zip(places) {
            entry[at..at + 2].copy_from_slice(&unit.to_le_bytes());
        }
        out.extend(entry);
    }
    out
}

fn shown(short: &[u8; 11]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let (base, extension) = (text(&short[..8]), text(&short[8..]));
    if extension.is_empty() {
        base
    } else {
        format!("{base}.{extension}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit_stay_and_others_get_a_number() {
        let mut taken = BTreeSet::new();
        let mut name = |n: &str| shown(&short(n, &mut taken));
        assert_eq!(name("BOOTX64.EFI"), "BOOTX64.EFI");
        assert_eq!(name("grub.cfg"), "GRUB.CFG");
        assert_eq!(name("meta_data.json"), "META_D~1.JSO");
        assert_eq!(name("meta_data2.json"), "META_D~2.JSO");
        assert_eq!(name("user_data"), "USER_D~1");
        assert_eq!(name(".x"), "X~1");
    }
}
