//! One name, three spellings: ISO 9660 level 1 (`USER_DAT.;1`), Joliet (UCS-2), Rock Ridge (as given).

use std::collections::BTreeSet;

use super::Error;

/// Joliet's limit (64 UCS-2 characters), and what fits beside the other fields in one directory record.
const JOLIET_LIMIT: usize = 64;
const ROCK_RIDGE_LIMIT: usize = 160;

pub fn check(path: &str, name: &str, joliet: bool) -> Result<(), Error> {
    let (path, name) = (path.to_owned(), name.to_owned());
    if name.is_empty() || name == "." || name == ".." || name.chars().any(char::is_control) {
        return Err(Error::Name { path, name });
    }
    if joliet && name.encode_utf16().count() > JOLIET_LIMIT {
        let limit = JOLIET_LIMIT;
        return Err(Error::NameTooLong { path, name, limit });
    }
    if name.len() > ROCK_RIDGE_LIMIT {
        let limit = ROCK_RIDGE_LIMIT;
        return Err(Error::NameTooLong { path, name, limit });
    }
    Ok(())
}

/// An eight-and-three name no sibling has yet (ECMA-119, 7.5 and 10.1): `USER_DAT.;1` for a file,
/// `OPENSTAC` for a directory.
pub fn level_one(name: &str, is_dir: bool, taken: &mut BTreeSet<Vec<u8>>) -> Vec<u8> {
    let (base, extension) = match name.rsplit_once('.') {
        Some((base, extension)) if !is_dir && !base.is_empty() => (base, extension),
        Some(_) | None => (name, ""),
    };
    let (base, extension) = (plain(base, 8), plain(extension, 3));
    for counter in 0u32.. {
        let mut candidate = base.clone();
        if counter > 0 {
            let digits = counter.to_string();
            candidate.truncate(8 - digits.len());
            candidate.push_str(&digits);
        }
        if !is_dir {
            candidate.push('.');
            candidate.push_str(&extension);
            candidate.push_str(";1");
        }
        if taken.insert(candidate.clone().into_bytes()) {
            return candidate.into_bytes();
        }
    }
    unreachable!("a directory has fewer than 2^32 entries")
}

fn plain(text: &str, limit: usize) -> String {
    text.chars()
        .map(|c| match c.to_ascii_uppercase() {
            c @ ('A'..='Z' | '0'..='9' | '_') => c,
            _ => '_',
        })
        .take(limit)
        .collect()
}

/// UCS-2 in big-endian order; Joliet forbids `* / : ; ? \`.
pub fn joliet(name: &str) -> Vec<u8> {
    name.encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(b'*' | b'/' | b':' | b';' | b'?' | b'\\') => u16::from(b'_'),
            Ok(_) | Err(_) => unit,
        })
        .flat_map(u16::to_be_bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_become_eight_and_three_and_stay_apart() {
        let mut taken = BTreeSet::new();
        let mut name = |n: &str, dir| String::from_utf8(level_one(n, dir, &mut taken)).unwrap();
        assert_eq!(name("meta_data.json", false), "META_DAT.JSO;1");
        assert_eq!(name("meta_data2.json", false), "META_DA1.JSO;1");
        assert_eq!(name("2012-08-10", true), "2012_08_");
        assert_eq!(name(".hidden", false), "_HIDDEN.;1");
        assert_eq!(name("vmlinuz", false), "VMLINUZ.;1");
    }
}
