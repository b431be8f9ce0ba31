//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An Ethernet (EUI-48) address; printed in lower case with colons.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Mac(pub [u8; 6]);

impl Mac {
    pub const BROADCAST: Self = Self([0xff; 6]);

    pub fn octets(self) -> [u8; 6] {
        self.0
    }

    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

/// Why a text is not a MAC address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a MAC address; write six hexadecimal pairs, such as 52:54:00:aa:bb:cc")]
pub struct ParseMacError(String);

impl FromStr for Mac {
    type Err = ParseMacError;

    /// Accepts colons or dashes between pairs, in either case; not a mixture.
    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let error = || ParseMacError(text.chars().take(64).collect());
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut octets = [0; 6];
        let mut pairs = text.split(separator);
        for octet in &mut octets {
            let pair = pairs.next().ok_or_else(error)?;
            if pair.len() != 2 || !pair.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(error());
            }
            *octet = u8::from_str_radix(pair, 16).map_err(|_| error())?;
        }
        match pairs.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(error()),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.map(|octet| format!("{octet:02x}")).join(":"))
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.to_string()
    }
}

impl TryFrom<String> for Mac {
    type Error = ParseMacError;

    fn try_from(text: String) -> Result<Self, ParseMacError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn colons_dashes_and_either_case_are_read() {
        let mac = Mac([0x52, 0x54, 0, 0xaa, 0xbb, 0xcc]);
        for text in [
            "52:54:00:aa:bb:cc",
            "52:54:00:AA:BB:CC",
            "52-54-00-aa-bb-cc",
        ] {
            assert_eq!(text.parse(), Ok(mac), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in [
            "",
            "52:54:00:aa:bb",
            "52:54:00:aa:bb:cc:dd",
            "52:54:00:aa:bb:+c",
            "52:54-00:aa:bb:cc",
            "525400aabbcc",
        ] {
            let error = text.parse::<Mac>().unwrap_err();
            assert!(
                error.to_string().contains("such as 52:54:00"),
                "{text}: {error}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(octets: [u8; 6]) {
            prop_assert_eq!(Mac(octets).to_string().parse(), Ok(Mac(octets)));
        }
    }
}
