//! What is known of BMCs, as data: firmware with faults that stop an install, and licences they want.

use std::cmp::Ordering;

/// Firmware that is too old for something.
pub struct TooOld {
    /// Found in the vendor's name, in lower case.
    pub vendor: &'static str,
    /// Versions of another product line begin with another number.
    pub major: Option<u32>,
    /// The first that is good.
    pub good: &'static str,
    /// Only where virtual media is used.
    pub media_only: bool,
    pub what: &'static str,
}

pub const TOO_OLD: &[TooOld] = &[
    TooOld {
        vendor: "dell",
        major: Some(2),
        good: "2.75.75.75",
        media_only: true,
        what: "iDRAC 8 loses virtual media before this",
    },
    TooOld {
        vendor: "dell",
        major: Some(3),
        good: "6.10.30.00",
        media_only: true,
        what: "iDRAC 9 loses virtual media before this",
    },
    TooOld {
        vendor: "dell",
        major: Some(4),
        good: "6.10.30.00",
        media_only: true,
        what: "iDRAC 9 loses virtual media before this",
    },
    TooOld {
        vendor: "dell",
        major: Some(5),
        good: "6.10.30.00",
        media_only: true,
        what: "iDRAC 9 loses virtual media before this",
    },
    TooOld {
        vendor: "dell",
        major: Some(6),
        good: "6.10.30.00",
        media_only: true,
        what: "iDRAC 9 loses virtual media before this",
    },
    TooOld {
        vendor: "hpe",
        major: Some(1),
        good: "1.57",
        media_only: false,
        what: "iLO 6 does not boot once as it is told before this",
    },
];

/// The row that speaks against this firmware.
pub fn fault(vendor: &str, version: &str, media: bool) -> Option<&'static TooOld> {
    let vendor = vendor.to_lowercase();
    let numbers = numbers(version);
    TOO_OLD.iter().find(|row| {
        vendor.contains(row.vendor)
            && row
                .major
                .is_none_or(|major| numbers.first() == Some(&major))
            && (media || !row.media_only)
            && compare(&numbers, &self::numbers(row.good)) == Ordering::Less
    })
}

/// The first run of numbers with dots between: `iLO 6 v1.55` is 1.55, because a version has a dot.
fn numbers(version: &str) -> Vec<u32> {
    let words = version.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let word = words
        .map(|word| word.trim_matches('.'))
        .max_by_key(|word| word.matches('.').count() * 2 + usize::from(!word.is_empty()));
    word.unwrap_or_default()
        .split('.')
        .filter_map(|part| part.parse().ok())
        .collect()
}

fn compare(left: &[u32], right: &[u32]) -> Ordering {
    let most = left.len().max(right.len());
    let at = |side: &[u32], n: usize| side.get(n).copied().unwrap_or(0);
    (0..most)
        .map(|n| at(left, n).cmp(&at(right, n)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Vendors that sell virtual media apart, and words of which one stands in the licence's name.
pub const MEDIA_LICENCES: &[(&str, &[&str])] = &[
    ("dell", &["enterprise", "datacenter"]),
    ("hpe", &["advanced", "scale-out", "essentials"]),
    ("hewlett", &["advanced", "scale-out", "essentials"]),
    ("supermicro", &["dcms", "oob"]),
    ("lenovo", &["advanced", "enterprise", "platinum"]),
];

/// The words that a licence must have one of, where the vendor sells it apart.
pub fn media_licence(vendor: &str) -> Option<&'static [&'static str]> {
    let vendor = vendor.to_lowercase();
    MEDIA_LICENCES
        .iter()
        .find(|(name, _)| vendor.contains(name))
        .map(|(_, words)| *words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_out_of_what_vendors_write() {
        for (written, read) in [
            ("6.10.30.00", vec![6, 10, 30, 0]),
            ("iLO 6 v1.55", vec![1, 55]),
            ("1.57 Apr 05 2024", vec![1, 57]),
            ("", vec![]),
            ("unknown", vec![]),
            ("99999999999.1", vec![1]),
        ] {
            assert_eq!(numbers(written), read, "{written}");
        }
    }

    #[test]
    fn old_firmware_is_known_by_its_vendor_and_only_where_it_matters() {
        let bad = |vendor, version, media| fault(vendor, version, media).is_some();
        assert!(bad("Dell Inc.", "5.00.00.00", true));
        assert!(bad("Dell Inc.", "2.70.70.70", true));
        assert!(!bad("Dell Inc.", "2.75.75.75", true));
        assert!(!bad("Dell Inc.", "5.00.00.00", false));
        assert!(!bad("Dell Inc.", "7.00.30.00", true));
        assert!(bad("HPE", "iLO 6 v1.55", false));
        assert!(!bad("HPE", "iLO 5 v2.44", false));
        assert!(!bad("Plinth", "0.1", true));
    }
}
