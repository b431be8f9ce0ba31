//! What the bytes of an image must hash to: as hex, or as found in the files that publishers put beside their images.

use std::fmt;

use md5::Md5;
use sha2::{Digest as _, Sha256, Sha512};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Forgeable; good against accidents only, and still what some clients send.
    Md5,
    Sha256,
    Sha512,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    pub algorithm: Algorithm,
    /// Lower case.
    pub hex: String,
}

impl Algorithm {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.to_lowercase().replace('-', "");
        [Self::Md5, Self::Sha256, Self::Sha512]
            .into_iter()
            .find(|algorithm| algorithm.as_str() == text)
    }

    fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.as_str(), self.hex)
    }
}

impl Checksum {
    /// Hexadecimal digits; their number tells the algorithm.
    pub fn parse(text: &str) -> Result<Self, String> {
        let hex = text.trim().to_lowercase();
        let algorithm = [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512]
            .into_iter()
            .find(|algorithm| algorithm.digits() == hex.len());
        match algorithm {
            Some(algorithm) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Ok(Self { algorithm, hex })
            }
            Some(_) | None => Err(format!(
                "{:?} is not 64 (sha256), 128 (sha512) or 32 (md5) hexadecimal digits",
                text.chars().take(140).collect::<String>()
            )),
        }
    }

    /// As `image_os_hash_algo` and `image_os_hash_value` say it.
    pub fn parse_as(algorithm: &str, hex: &str) -> Result<Self, String> {
        let Some(wanted) = Algorithm::parse(algorithm) else {
            return Err(format!(
                "{algorithm:?} is not known; there are sha256, sha512 and md5"
            ));
        };
        match Self::parse(hex) {
            Ok(checksum) if checksum.algorithm == wanted => Ok(checksum),
            Ok(_) | Err(_) => Err(format!(
                "the value must be the {} hexadecimal digits of {}",
                wanted.digits(),
                wanted.as_str()
            )),
        }
    }

    /// The entry for `name` in a checksum file: one bare checksum, `hash  name`, `hash *name`, or
    /// `ALGORITHM (name) = hash`. Of several algorithms the strongest counts.
    pub fn in_file(text: &str, name: &str) -> Result<Self, String> {
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        if let [only] = lines.as_slice()
            && let Ok(checksum) = Self::parse(only)
        {
            return Ok(checksum);
        }
        let mut found: Vec<Self> = lines.iter().filter_map(|line| entry(line, name)).collect();
        found.sort_by_key(|checksum| checksum.algorithm);
        found.dedup();
        let Some(best) = found.last().cloned() else {
            return Err(format!("it has no entry for {name:?}"));
        };
        let same = found
            .iter()
            .filter(|other| other.algorithm == best.algorithm);
        if same.count() > 1 {
            return Err(format!("it has two different entries for {name:?}"));
        }
        Ok(best)
    }
}

fn entry(line: &str, name: &str) -> Option<Checksum> {
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path) == name;
    if let Some((before, hex)) = line.rsplit_once(" = ") {
        let (algorithm, file) = before.split_once(" (")?;
        return base(file.strip_suffix(')')?)
            .then(|| Checksum::parse_as(algorithm, hex).ok())
            .flatten();
    }
    let (hex, file) = line.split_once(char::is_whitespace)?;
    let file = file.trim_start().trim_start_matches('*');
    base(file).then(|| Checksum::parse(hex).ok()).flatten()
}

/// Hashes bytes as they pass: always sha256, and whatever else is wanted.
pub struct Hashing {
    sha256: Sha256,
    other: Option<Other>,
}

enum Other {
    Md5(Md5),
    Sha512(Box<Sha512>),
}

impl Hashing {
    pub fn new(wanted: Option<&Checksum>) -> Self {
        let other = match wanted.map(|wanted| wanted.algorithm) {
            Some(Algorithm::Md5) => Some(Other::Md5(Md5::new())),
            Some(Algorithm::Sha512) => Some(Other::Sha512(Box::new(Sha512::new()))),
            Some(Algorithm::Sha256) | None => None,
        };
        Self {
            sha256: Sha256::new(),
            other,
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        match &mut self.other {
            Some(Other::Md5(hash)) => hash.update(bytes),
            Some(Other::Sha512(hash)) => hash.update(bytes),
            None => {}
        }
    }

    /// The sha256, and what the wanted algorithm gave.
    pub fn finish(self) -> (String, String) {
        let sha256 = hex(&self.sha256.finalize());
        let other = match self.other {
            Some(Other::Md5(hash)) => hex(&hash.finalize()),
            Some(Other::Sha512(hash)) => hex(&hash.finalize()),
            None => sha256.clone(),
        };
        (sha256, other)
    }
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}
