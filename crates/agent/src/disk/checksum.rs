//! Checksums: as hex, and as found in the files that image publishers put beside their images.

use std::fmt;

use md5::Md5;
use sha2::{Digest, Sha256, Sha512};

/// How a checksum is computed, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Anyone can forge it: see [`Checksum::strong`].
    Md5,
    Sha256,
    Sha512,
}

/// What the bytes of an image must hash to.
#[derive(Clone, PartialEq, Eq)]
pub struct Checksum {
    algorithm: Algorithm,
    digest: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("checksum {0:?} is not 32 (md5), 64 (sha256) or 128 (sha512) hexadecimal digits")]
    Hex(String),
    #[error("MD5 checksums are not accepted; give sha256 or sha512")]
    Md5,
    #[error("checksum algorithm {0:?} is not known; md5, sha256 and sha512 are")]
    Algorithm(String),
    #[error("checksum {hex:?} is not one of {algorithm}")]
    Mismatch { algorithm: Algorithm, hex: String },
    #[error("the checksum file has no entry for {0:?}")]
    NotListed(String),
    #[error("the checksum file has two different {algorithm} entries for {name:?}")]
    Ambiguous { algorithm: Algorithm, name: String },
}

impl Checksum {
    /// Hexadecimal digits; their number tells the algorithm.
    pub fn parse(hex: &str) -> Result<Self, Error> {
        let hex = hex.trim();
        let wrong = || Error::Hex(shortened(hex));
        let digest = decode(hex).ok_or_else(wrong)?;
        let algorithm = match digest.len() {
            16 => Algorithm::Md5,
            32 => Algorithm::Sha256,
            64 => Algorithm::Sha512,
            _ => return Err(wrong()),
        };
        Ok(Self { algorithm, digest })
    }

    /// Ironic's `os_hash_algo` and `os_hash_value`.
    pub fn parse_as(algorithm: &str, hex: &str) -> Result<Self, Error> {
        let algorithm = Algorithm::parse(algorithm)?;
        match Self::parse(hex)? {
            checksum if checksum.algorithm == algorithm => Ok(checksum),
            _ => Err(Error::Mismatch {
                algorithm,
                hex: shortened(hex),
            }),
        }
    }

    /// The entry for `name` in a checksum file: one bare checksum, `hash  name`, `hash *name` or
    /// `ALGORITHM (name) = hash`; comments begin with `#`. Lines that are none of these, such as a signature
    /// around the list, do not count. Of several algorithms the strongest is taken.
    pub fn from_file(text: &str, name: &str) -> Result<Self, Error> {
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        if let [only] = lines.as_slice()
            && decode(only).is_some()
        {
            return Self::parse(only);
        }
        let mut best: Option<Self> = None;
        for line in lines {
            let Some((listed, hex)) = entry(line) else {
                continue;
            };
            if last_element(listed) != name {
                continue;
            }
            match (Self::parse(hex), &best) {
                (Ok(found), Some(best)) if found.algorithm < best.algorithm => {}
                (Ok(found), Some(best)) if found.algorithm == best.algorithm && found != *best => {
                    return Err(Error::Ambiguous {
                        algorithm: found.algorithm,
                        name: name.to_owned(),
                    });
                }
                (Ok(found), _) => best = Some(found),
                (Err(_), _) => {}
            }
        }
        best.ok_or_else(|| Error::NotListed(name.to_owned()))
    }

    /// Refuses MD5, for sites that do not allow it.
    pub fn strong(self) -> Result<Self, Error> {
        match self.algorithm {
            Algorithm::Md5 => Err(Error::Md5),
            Algorithm::Sha256 | Algorithm::Sha512 => Ok(self),
        }
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Name and hash of one line.
fn entry(line: &str) -> Option<(&str, &str)> {
    if let Some((tag, rest)) = line.split_once(" (")
        && let Some((name, hex)) = rest.rsplit_once(") = ")
        && !tag.contains(char::is_whitespace)
    {
        return Some((name, hex));
    }
    let (hex, name) = line.split_once(char::is_whitespace)?;
    let name = name.trim_start();
    decode(hex)?;
    Some((name.strip_prefix('*').unwrap_or(name), hex))
}

fn last_element(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn decode(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).ok();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// An error quotes what it was given, but not a whole file.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(140) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Algorithm {
    pub fn parse(name: &str) -> Result<Self, Error> {
        match name.trim().to_ascii_lowercase().as_str() {
            "sha256" => Ok(Self::Sha256),
            "sha512" => Ok(Self::Sha512),
            "md5" => Ok(Self::Md5),
            _ => Err(Error::Algorithm(shortened(name))),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Md5 => "md5",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        })
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.algorithm)?;
        self.digest
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A checksum being computed.
#[derive(Debug, Clone)]
pub enum Hasher {
    Md5(Box<Md5>),
    Sha256(Box<Sha256>),
    Sha512(Box<Sha512>),
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Md5 => Self::Md5(Box::default()),
            Algorithm::Sha256 => Self::Sha256(Box::default()),
            Algorithm::Sha512 => Self::Sha512(Box::default()),
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub fn finish(self) -> Checksum {
        match self {
            Self::Md5(hasher) => Checksum {
                algorithm: Algorithm::Md5,
                digest: hasher.finalize().to_vec(),
            },
            Self::Sha256(hasher) => Checksum {
                algorithm: Algorithm::Sha256,
                digest: hasher.finalize().to_vec(),
            },
            Self::Sha512(hasher) => Checksum {
                algorithm: Algorithm::Sha512,
                digest: hasher.finalize().to_vec(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn other() -> String {
        "ab".repeat(32)
    }

    #[test]
    fn every_known_shape_of_a_checksum_file_is_read() {
        let sha512 = "cd".repeat(64);
        for (shape, text) in [
            ("bare", EMPTY.to_owned()),
            ("bare, with a comment", format!("# made today\n\n{EMPTY}\n")),
            ("upper case", EMPTY.to_uppercase()),
            (
                "text mode",
                format!("{}  other.raw\n{EMPTY}  disk.raw\n", other()),
            ),
            (
                "binary mode",
                format!("{EMPTY} *disk.raw\n{} *x\n", other()),
            ),
            (
                "path",
                format!("{EMPTY}  ./images/disk.raw\r\n{} y\r\n", other()),
            ),
            (
                "BSD",
                format!("SHA256 (disk.raw) = {EMPTY}\nSHA256 (z) = {}\n", other()),
            ),
            (
                "twice the same",
                format!("{EMPTY}  disk.raw\n{EMPTY} *disk.raw\n"),
            ),
            (
                "signed",
                format!(
                    "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{EMPTY} *disk.raw\n-----BEGIN PGP SIGNATURE-----\n"
                ),
            ),
            (
                "beside MD5",
                format!("{} disk.raw\n{EMPTY} disk.raw\n", "00".repeat(16)),
            ),
        ] {
            let found = Checksum::from_file(&text, "disk.raw");
            assert_eq!(
                found.map(|c| c.to_string()),
                Ok(format!("sha256:{EMPTY}")),
                "{shape}"
            );
        }
        let both = format!("SHA512 (d) = {sha512}\nSHA256 (d) = {EMPTY}\n");
        let strongest = Checksum::from_file(&both, "d").unwrap();
        assert_eq!(strongest.to_string(), format!("sha512:{sha512}"));
    }

    #[test]
    fn a_file_that_does_not_settle_the_question_is_refused_in_words() {
        let md5 = "00".repeat(16);
        for (text, said) in [
            (String::new(), "no entry for \"disk.raw\""),
            ("<html>404</html>".to_owned(), "no entry"),
            (format!("{EMPTY}  disk.raw.sig"), "no entry"),
            (
                format!("{EMPTY} disk.raw\n{} disk.raw", other()),
                "two different",
            ),
            (format!("MD5 (disk.raw) = {md5}"), "MD5"),
            (md5, "MD5"),
            ("abcd".to_owned(), "not 32"),
        ] {
            let error = Checksum::from_file(&text, "disk.raw")
                .and_then(Checksum::strong)
                .unwrap_err()
                .to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn algorithm_and_digits_must_agree() {
        assert!(Checksum::parse_as("SHA256", EMPTY).is_ok());
        assert!(matches!(
            Checksum::parse_as("sha512", EMPTY),
            Err(Error::Mismatch { .. })
        ));
        assert!(matches!(
            Checksum::parse_as("crc32", EMPTY),
            Err(Error::Algorithm(_))
        ));
        assert!(matches!(
            Checksum::parse("é".repeat(32).as_str()),
            Err(Error::Hex(_))
        ));
    }

    #[test]
    fn nothing_hashes_to_the_published_value() {
        let hasher = Hasher::new(Algorithm::Sha256);
        assert_eq!(hasher.finish(), Checksum::parse(EMPTY).unwrap());
    }

    proptest! {
        #[test]
        fn any_text_gives_a_checksum_or_an_error(text in "\\PC{0,200}", name in "\\PC{0,8}") {
            let _ = Checksum::from_file(&text, &name);
            let _ = Checksum::parse(&text);
        }

        #[test]
        fn an_entry_is_found_wherever_it_stands(before in 0..5_usize, after in 0..5_usize, digest in any::<[u8; 32]>()) {
            let digest = Checksum { algorithm: Algorithm::Sha256, digest: digest.to_vec() }.to_string();
            let hex = digest.strip_prefix("sha256:").unwrap();
            let noise = |count: usize| format!("{} else.img\n", other()).repeat(count);
            let text = format!("{}{hex} *disk.raw\n{}", noise(before), noise(after));
            prop_assert_eq!(Checksum::from_file(&text, "disk.raw").unwrap(), Checksum::parse(hex).unwrap());
        }
    }
}
